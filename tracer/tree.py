"""Nested containers (pytrees), as the tracer takes them apart: see `eager/tree.py`."""

from fusegrad.eager.tree import Structure, contents, flatten, is_container

__all__ = ["Structure", "contents", "flatten", "is_container"]
