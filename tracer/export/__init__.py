"""Exporting captured graphs: `.py`, `.onnx`, `.dot`, `.html` and `.fgx` files."""

from fusegrad.tracer.export.api import ExportError, export

__all__ = ["ExportError", "export"]
