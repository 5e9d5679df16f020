"""ONNX files, as `torch.onnx`."""

from fusegrad.tracer.export.torch_onnx import *
from fusegrad.tracer.export.torch_onnx import __all__ as __all__
