"""Reading files that `torch.save` writes: zip archives, and the older form that is one stream.

In: a file. Out: what it holds. Nothing of it is executed (`pickle_machine.py`), and nothing is unpacked to
disk: the members of an archive are looked up by name. What sizes it claims is compared with its own first.
"""

from __future__ import annotations

import os
import pickle
import struct
import zipfile
import zlib
from typing import IO, Any

import numpy as np

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.places.device import on_cpu
from fusegrad.eager.io.pickle_machine import Damaged, Source, unpickled
from fusegrad.eager.io.torch_names import OLDER_MAGIC, OLDER_PROTOCOL, Storage, StorageType, find

_MOST_MEMBERS = 1 << 20
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


def read_torch(file: IO[bytes], name: str, map_location: Any) -> Any:
    """What a file of PyTorch's holds; the file is open at its start.

    name: what messages call it. Raises RuntimeError where it is damaged, or has tensors of other devices that
    `map_location` does not bring here; UnpicklingError where it holds more than tensors and plain values.
    """
    size = os.fstat(file.fileno()).st_size if _is_real(file) else file.seek(0, os.SEEK_END)
    file.seek(0)
    reader = _zipped if file.read(2) == b"PK" else _streamed
    file.seek(0)
    try:
        return reader(file, size, _Locations(map_location))
    except Damaged as error:
        raise failure(RuntimeError, f"{name} is damaged, or no file that torch.save wrote: {error}") from None
    except pickle.UnpicklingError as error:
        raise failure(pickle.UnpicklingError, f"{name}: {error}") from None


def _is_real(file: IO[bytes]) -> bool:
    try:
        file.fileno()
    except (OSError, AttributeError):
        return False
    return True


class _Locations:
    """Where tensors were, and whether they may come to the CPU, where all are here."""

    def __init__(self, map_location: Any) -> None:
        self.map = map_location
        if not (callable(map_location) or isinstance(map_location, dict)):
            on_cpu(map_location)

    def check(self, location: Any) -> None:
        """Refuse what was elsewhere, and is not said to come here."""
        if type(location) is not str:
            raise Damaged("a memory is nowhere")
        target = location if self.map is None else "cpu"
        if isinstance(self.map, dict):
            target = self.map.get(location, location)
            if location in self.map:
                on_cpu(target)
        if str(target) == "cpu":
            return
        kind = location.partition(":")[0]
        raise failure(
            RuntimeError,
            f"Attempting to deserialize object on a {kind.upper()} device but there is none (the file says "
            f"{location!r}). Please use torch.load with map_location=torch.device('cpu') to map your "
            "storages to the CPU.",
        )


def _storage_id(value: Any, locations: _Locations) -> tuple[StorageType, str, int]:
    """Kind, key and bytes of the memory that a persistent id names."""
    if type(value) is not tuple or len(value) not in (5, 6) or value[0] != "storage":
        raise Damaged("it refers to what is no memory")
    kind, key, location, count = value[1:5]
    if type(kind) is not StorageType or type(key) is not str or type(count) is not int or count < 0:
        raise Damaged("it refers to a memory without kind, name or size")
    if len(value) == 6 and value[5] is not None:
        raise Damaged("a memory that is a part of another one is not read")
    locations.check(location)
    return kind, key, count * (kind.dtype.itemsize if kind.dtype else 1)


def _zipped(file: IO[bytes], size: int, locations: _Locations) -> Any:
    """What a zip archive holds."""
    try:
        with zipfile.ZipFile(file) as archive:
            return _archived(_Members(archive, size), locations)
    except pickle.UnpicklingError:
        raise
    except _UNZIPPED as error:
        if getattr(error, "fusegrad_located", False):
            raise
        raise Damaged(f"{type(error).__name__}: {error}") from None


class _Members:
    """The members of an archive, each as it lies there, and together no larger than the file."""

    def __init__(self, archive: zipfile.ZipFile, size: int) -> None:
        self.archive = archive
        members = archive.infolist()
        self.by_name = {member.filename: member for member in members}
        if len(members) > _MOST_MEMBERS or len(self.by_name) != len(members):
            raise Damaged("it has too many members, or two of one name")
        if any(m.compress_type != zipfile.ZIP_STORED or m.flag_bits & 1 for m in members):
            raise Damaged("it has members that are compressed or encrypted, which torch.save does not write")
        if sum(member.file_size for member in members) > size:
            raise Damaged("its members are said to be larger than it is")

    def member(self, name: str) -> zipfile.ZipInfo:
        """A member. Raises Damaged where there is none."""
        if name not in self.by_name:
            raise Damaged(f"there is no {name!r} in it")
        return self.by_name[name]

    def memory(self, name: str, size: int) -> np.ndarray:
        """The bytes of a member, in memory of their own that can be written."""
        found = self.member(name)
        if found.file_size != size:
            raise Damaged(f"{name!r} has {found.file_size} bytes, and {size} are asked for")
        memory = np.empty(size, np.uint8)
        with self.archive.open(found) as content:
            if content.readinto(memory) != size or content.read(1):  # type: ignore[attr-defined]
                raise Damaged(f"{name!r} ends early")
        return memory


def _archived(members: _Members, locations: _Locations) -> Any:
    roots = [n.removesuffix("/data.pkl") for n in members.by_name if n.endswith("/data.pkl")]
    if len(roots) != 1 or "/" in roots[0]:
        raise Damaged("it is a zip archive without a data.pkl")
    root = roots[0]
    if f"{root}/constants.pkl" in members.by_name:
        raise pickle.UnpicklingError("it is a program of TorchScript, which fusegrad does not run")
    order = members.by_name.get(f"{root}/byteorder")
    if order is not None and members.memory(order.filename, order.file_size).tobytes() != b"little":
        raise Damaged("it was written on a machine that has the bytes of numbers in another order")
    storages: dict[str, Storage] = {}

    def persistent(value: Any) -> Storage:
        kind, key, size = _storage_id(value, locations)
        if key not in storages:
            storages[key] = Storage(members.memory(f"{root}/data/{key}", size), kind.dtype)
        return _same_kind(storages[key], kind, size)

    described = members.member(f"{root}/data.pkl")
    with members.archive.open(described) as content:
        return unpickled(Source(content, described.file_size), find, persistent)


def _same_kind(storage: Storage, kind: StorageType, size: int) -> Storage:
    if storage.dtype is not kind.dtype or storage.memory.nbytes != size:
        raise Damaged("a memory is of two kinds")
    return storage


def _streamed(file: IO[bytes], size: int, locations: _Locations) -> Any:
    """What the older form holds: pickles one after the other, and then the memories."""
    source = Source(file, size)
    if unpickled(source, find) != OLDER_MAGIC or unpickled(source, find) != OLDER_PROTOCOL:
        raise pickle.UnpicklingError("it is a pickle, but none that torch.save wrote; only those are loaded")
    system = unpickled(source, find)
    if type(system) is not dict or system.get("little_endian") is not True:
        raise Damaged("it was written on a machine that has the bytes of numbers in another order")
    storages: dict[str, Storage] = {}
    left = size

    def persistent(value: Any) -> Storage:
        nonlocal left
        kind, key, count = _storage_id(value, locations)
        if key not in storages:
            left -= count
            if left < 0:
                raise Damaged("its memories are said to be larger than it is")
            storages[key] = Storage(np.empty(count, np.uint8), kind.dtype)
        return _same_kind(storages[key], kind, count)

    value = unpickled(source, find, persistent)
    keys = unpickled(source, find)
    if type(keys) is not list or sorted(map(str, keys)) != sorted(storages):
        raise Damaged("it does not say where its memories are")
    for key in keys:
        _fill(source, storages[str(key)])
    return value


def _fill(source: Source, storage: Storage) -> None:
    """Read a memory: how many elements it has, and these."""
    step = storage.dtype.itemsize if storage.dtype else 1
    if struct.unpack("<q", source.take(8))[0] * step != storage.memory.nbytes:
        raise Damaged("a memory has another size than is said")
    storage.filled(source.take(storage.memory.nbytes))
