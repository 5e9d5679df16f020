"""Tensors as text, in files, and in other libraries."""

from fusegrad.eager.io import interop, printing, serialization

__all__ = ["interop", "printing", "serialization"]
