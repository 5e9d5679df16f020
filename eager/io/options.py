"""What a program sets for all files that it saves and loads: `torch.utils.serialization.config`."""

from __future__ import annotations

import mmap as maps
import threading
from enum import Enum
from typing import Any

__all__ = ["LoadEndianness", "load", "save", "skip_data"]


class LoadEndianness(Enum):
    """In which order the bytes of numbers lie in files that do not say it. As PyTorch's."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


class load:
    """What `load` goes by where it is not told.

    mmap: whether files are mapped. mmap_flags: MAP_PRIVATE, or MAP_SHARED for tensors whose writes reach the
    file. endianness: of files that do not say it; None for little.
    """

    mmap = False
    mmap_flags: int | None = getattr(maps, "MAP_PRIVATE", None)
    endianness: LoadEndianness | None = None
    calculate_storage_offsets = False


class save:
    """What `save` goes by: whether members have sums, and at multiples of how many bytes memories begin."""

    compute_crc32 = True
    use_pinned_memory_for_d2h = False
    storage_alignment = 64


class _Skipped(threading.local):
    data = False


skipped = _Skipped()


class skip_data:
    """Have `save` write zeros for the values of tensors, and `load` not read them. As PyTorch's.

    >>> import fusegrad as fg, io
    >>> file = io.BytesIO()
    >>> with skip_data():
    ...     fg.save(fg.ones(2), file)
    >>> _ = file.seek(0)
    >>> fg.load(file)
    tensor([0., 0.])
    """

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        self._before = False

    def __enter__(self) -> None:
        self._before, skipped.data = skipped.data, True

    def __exit__(self, *_: Any) -> None:
        skipped.data = self._before
