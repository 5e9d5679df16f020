"""`torch.serialization`."""

from __future__ import annotations

import contextlib
import os
import zipfile
from typing import Any

import fusegrad as fg

__all__ = ["add_safe_globals", "clear_safe_globals", "default_restore_location", "get_safe_globals", "load"]
__all__ += ["location_tag", "safe_globals", "save"]
FILE_LIKE = MAP_LOCATION = Any
load, save = fg.load, fg.save
_safe: list[Any] = []


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Note classes that files may name. `load` makes no object of users' classes, whatever is noted.

    Source: `torch.serialization.add_safe_globals`.
    """
    _safe.extend(kind for kind in safe_globals if kind not in _safe)


def get_safe_globals() -> list[Any]:
    """What was noted. Source: `torch.serialization.get_safe_globals`."""
    return list(_safe)


def clear_safe_globals() -> None:
    """Note nothing any more. Source: `torch.serialization.clear_safe_globals`."""
    _safe.clear()


@contextlib.contextmanager
def safe_globals(safe_globals: list[Any]) -> Any:
    """Note classes for a `with` block. Source: `torch.serialization.safe_globals`."""
    before = list(_safe)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _safe[:] = before


def location_tag(storage: Any) -> str:
    """Where a memory is: `cpu`. Source: `torch.serialization.location_tag`."""
    return "cpu"


def default_restore_location(storage: Any, location: str) -> Any:
    """The memory: all is on the CPU. Source: `torch.serialization.default_restore_location`."""
    fg.device(location)
    return storage


def _is_zipfile(f: Any) -> bool:
    """Whether a file is an archive of PyTorch's newer kind."""
    if isinstance(f, (str, os.PathLike)):
        return zipfile.is_zipfile(f)
    here = f.tell()
    start = f.read(4)
    f.seek(here)
    return bool(start == b"PK\x03\x04")
