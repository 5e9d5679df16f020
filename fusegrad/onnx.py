"""ONNX files, as `torch.onnx`."""

from fusegrad.tracer.export.onnx.torch_names import *
from fusegrad.tracer.export.onnx.torch_names import __all__ as __all__
