"""Models as ONNX files: exported with an open batch, run by onnxruntime beside eager at three sizes.

`python -m onnx_models` in `tests/` does it with those written here; `python -m onnx_models timm transformers`
with those of these libraries, in the venvs of `python -m libraries --make timm transformers`.
"""
