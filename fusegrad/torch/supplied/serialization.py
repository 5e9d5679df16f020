"""`torch.serialization`."""

from __future__ import annotations

import os
from typing import Any

import fusegrad as fg
from fusegrad.eager.io import options
from fusegrad.eager.io.allowed import (
    add_safe_globals as add_safe_globals,
    clear_safe_globals as clear_safe_globals,
    get_safe_globals as get_safe_globals,
    safe_globals as safe_globals,
    unsafe_names,
)
from fusegrad.eager.io.options import LoadEndianness as LoadEndianness, skip_data as skip_data

__all__ = ["add_safe_globals", "clear_safe_globals", "default_restore_location", "get_safe_globals", "load"]
__all__ += [
    "get_crc32_options",
    "get_default_load_endianness",
    "get_default_mmap_options",
    "set_crc32_options",
]
__all__ += ["get_unsafe_globals_in_checkpoint", "set_default_load_endianness", "set_default_mmap_options"]
__all__ += ["LoadEndianness", "location_tag", "safe_globals", "save", "skip_data"]
FILE_LIKE = MAP_LOCATION = Any
DEFAULT_PROTOCOL = 2
load, save = fg.load, fg.save


class SourceChangeWarning(Warning):
    """PyTorch warns so where a class has another source than when the file was written: not here."""


def get_unsafe_globals_in_checkpoint(f: Any) -> list[str]:
    """The full names in a file that `load` refuses with `weights_only=True`, as far as they stand there.

    Source: `torch.serialization.get_unsafe_globals_in_checkpoint`.
    """
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            return unsafe_names(file)
    return unsafe_names(f)


def get_default_load_endianness() -> LoadEndianness | None:
    """In which order files that do not say it have the bytes of numbers; None for little.

    Source: `torch.serialization.get_default_load_endianness`.
    """
    return options.load.endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Set that order. Source: `torch.serialization.set_default_load_endianness`."""
    if not isinstance(endianness, LoadEndianness) and endianness is not None:
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    options.load.endianness = endianness


def get_crc32_options() -> bool:
    """Whether `save` writes sums of what it writes. Source: `torch.serialization.get_crc32_options`."""
    return options.save.compute_crc32


def set_crc32_options(compute_crc32: bool) -> None:
    """Set whether it does. Source: `torch.serialization.set_crc32_options`."""
    options.save.compute_crc32 = compute_crc32


def get_default_mmap_options() -> int | None:
    """How `load(mmap=True)` maps files. Source: `torch.serialization.get_default_mmap_options`."""
    return options.load.mmap_flags


class set_default_mmap_options:
    """Set how `load(mmap=True)` maps files: with MAP_SHARED writes into tensors are writes into the file.

    From now on, or for a `with` block. Source: `torch.serialization.set_default_mmap_options`.
    """

    def __init__(self, flags: int) -> None:
        import mmap

        if not hasattr(mmap, "MAP_PRIVATE"):
            raise RuntimeError("Changing the default mmap options is currently not supported for Windows")
        if flags not in (mmap.MAP_PRIVATE, mmap.MAP_SHARED):
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE or "
                f"mmap.MAP_SHARED, but got {flags}"
            )
        self.before = options.load.mmap_flags
        options.load.mmap_flags = flags

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: Any) -> None:
        options.load.mmap_flags = self.before


def location_tag(storage: Any) -> str:
    """Where a memory is: `cpu`. Source: `torch.serialization.location_tag`."""
    return "cpu"


def default_restore_location(storage: Any, location: str) -> Any:
    """The memory: all is on the CPU. Source: `torch.serialization.default_restore_location`."""
    fg.device(location)
    return storage


def check_module_version_greater_or_equal(module: Any, version: tuple[int, ...], error: bool = True) -> bool:
    """Whether a module is of this version or a later one, by its `__version__`.

    Source: `torch.serialization.check_module_version_greater_or_equal`.
    """
    try:
        have = tuple(
            type(part)(text) for part, text in zip(version, module.__version__.split("."), strict=False)
        )
    except (AttributeError, ValueError) as reason:
        message = f"'{module.__name__}' module version is malformed"
        if error:
            raise RuntimeError(message) from reason
        return True
    return have >= version


def _is_zipfile(f: Any) -> bool:
    """Whether a file is an archive of PyTorch's newer kind."""
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            return file.read(4) == b"PK\x03\x04"
    here = f.tell()
    start = f.read(4)
    f.seek(here)
    return bool(start == b"PK\x03\x04")
