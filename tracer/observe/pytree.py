"""Nested containers (pytrees), as the tracer takes them apart: see `eager/core/pytree.py`."""

from fusegrad.eager.core.pytree import Structure, contents, flatten, is_container

__all__ = ["Structure", "contents", "flatten", "is_container"]
