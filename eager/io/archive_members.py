"""The members of a zip archive of PyTorch's: looked up by name, and read or mapped where they lie."""

from __future__ import annotations

import mmap
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from fusegrad.eager.core.shared import expose
from fusegrad.eager.io import options
from fusegrad.eager.io.pickle_machine import Damaged
from fusegrad.eager.io.windows import Window

_MOST_MEMBERS = 1 << 20
_MOST_ALIGNED = 16  # bytes: those of the widest dtype
# What reading a zip that is damaged raises.
_UNZIPPED = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    NotImplementedError,
    RuntimeError,
    ValueError,
    EOFError,
    OSError,
    LookupError,
)


@contextmanager
def damage() -> Iterator[None]:
    """What goes wrong here is damage."""
    try:
        yield
    except _UNZIPPED as error:
        raise Damaged(f"{type(error).__name__}: {error}") from None


class Members:
    """The members of an archive, each as it lies there, and together no larger than the file.

    mapped: the path of the file, where memories are to be the file's.
    """

    def __init__(self, window: Window, mapped: str | None = None) -> None:
        self.window = window
        self.map = None if mapped is None else mapped_file(mapped)
        with damage(), zipfile.ZipFile(window) as archive:
            members = archive.infolist()
        self.by_name = {member.filename: member for member in members}
        if len(members) > _MOST_MEMBERS or len(self.by_name) != len(members):
            raise Damaged("it has too many members, or two of one name")
        if any(m.compress_type != zipfile.ZIP_STORED or m.flag_bits & 1 for m in members):
            raise Damaged("it has members that are compressed or encrypted, which torch.save does not write")
        if sum(member.file_size for member in members) > window.size:
            raise Damaged("its members are said to be larger than it is")

    def content(self, name: str) -> bytes:
        """The bytes of a member that says something of the archive."""
        found = self._member(name)
        return self._read(found, np.empty(found.file_size, np.uint8)).tobytes()

    def memory(self, name: str, size: int) -> np.ndarray:
        """The bytes of a member, in memory that can be written, or in that of the mapped file."""
        found = self._member(name)
        if found.file_size != size:
            raise Damaged(f"{name!r} has {found.file_size} bytes, and {size} are asked for")
        if options.skipped.data:
            return np.zeros(size, np.uint8)
        if self.map is None:
            return self._read(found, np.empty(size, np.uint8))
        place = self._place(found)
        memory = self.map[place : place + size]
        return memory if memory.__array_interface__["data"][0] % _MOST_ALIGNED == 0 else memory.copy()

    def _member(self, name: str) -> zipfile.ZipInfo:
        if name not in self.by_name:
            raise Damaged(f"there is no {name!r} in it")
        return self.by_name[name]

    def _read(self, member: zipfile.ZipInfo, memory: np.ndarray) -> np.ndarray:
        """Fill `memory` with the bytes of a member. Programs may have files written without sums."""
        with damage():
            self.window.seek(self._place(member))
            if self.window.readinto(memory) != memory.nbytes:
                raise Damaged(f"{member.filename!r} ends early")
        if member.CRC and zlib.crc32(memory.data) != member.CRC:
            raise Damaged(f"{member.filename!r} has other bytes than were written")
        return memory

    def _place(self, member: zipfile.ZipInfo) -> int:
        """Where the bytes of a member begin: behind a header, which has its name once more."""
        with damage():
            self.window.seek(member.header_offset)
            header = self.window.read(30)
            if header[:4] != b"PK\x03\x04":
                raise Damaged(f"there is no {member.filename!r} where it is said to be")
            name, extra = struct.unpack("<HH", header[26:])
            said = self.window.read(name).decode("utf-8" if member.flag_bits & 0x800 else "cp437")
        if said != member.orig_filename:
            raise Damaged(f"there is another member where {member.filename!r} is said to be")
        return member.header_offset + 30 + name + extra


def mapped_file(path: str) -> np.ndarray:
    """The bytes of a file as memory: copied where written, or the file's own, as the program has set."""
    shared = options.load.mmap_flags == getattr(mmap, "MAP_SHARED", None)
    memory = np.asarray(np.memmap(path, np.uint8, "r+" if shared else "c"))
    return expose(memory) if shared else memory
