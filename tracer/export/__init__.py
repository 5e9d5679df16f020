"""Exporting captured graphs: `.py`, `.onnx`, `.dot` and `.html` files."""

from fusegrad.tracer.export.api import ExportError, export

__all__ = ["ExportError", "export"]
