"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.tracer.export.onnx.torch_names import export as export, is_in_onnx_export as is_in_onnx_export
