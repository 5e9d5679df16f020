"""Reading files that `torch.save` writes: zip archives, and the older form that is one stream.

In: a file, and what reads pickles (`unpickling.py`). Out: what it holds. Nothing is unpacked to disk, and
what sizes the file claims is compared with its own before memory is taken.
"""

from __future__ import annotations

import io
import pickle
import struct
import sys
from typing import IO, Any

import numpy as np

from fusegrad.eager.core.dtypes import DType
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.places.device import on_cpu
from fusegrad.eager.io import options
from fusegrad.eager.io.allowed import explained
from fusegrad.eager.io.archive_members import Members
from fusegrad.eager.io.pickle_machine import Damaged, Source
from fusegrad.eager.io.torch_names import OLDER_MAGIC, OLDER_PROTOCOL, Storage, StorageType
from fusegrad.eager.io.windows import Window


def read_torch(file: IO[bytes], name: str, map_location: Any, reader: Any, mapped: str | None = None) -> Any:
    """What a file of PyTorch's holds; the file stands at its start.

    name: what messages call it. reader: what reads pickles, `Careful` or `Trusting`. mapped: the path of a
    file whose memories are to be the file's. Raises RuntimeError where it is damaged, or has tensors of other
    devices that `map_location` does not bring here; and what the reader raises.
    """
    window = Window(file)
    zipped = window.read(2) == b"PK"
    window.seek(0)
    if not zipped and mapped is not None:
        raise failure(
            RuntimeError,
            "mmap can only be used with files saved with `torch.save(_use_new_zipfile_serialization=True), "
            "please torch.save your checkpoint with this option in order to use mmap.",
        )
    locations = _Locations(map_location)
    try:
        if zipped:
            return _archived(Members(window, mapped), locations, reader)
        return _streamed(window, locations, reader)
    except Damaged as error:
        raise failure(RuntimeError, f"{name} is damaged, or no file that torch.save wrote: {error}") from None
    except pickle.UnpicklingError as error:
        said = f"{name}: {error}"
        raise failure(pickle.UnpicklingError, said if reader.trusts else explained(said)) from None


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
    locations.check(location)
    return kind, key, count * (kind.dtype.itemsize if kind.dtype else 1)


def _same_kind(storage: Storage, kind: StorageType, size: int) -> Storage:
    if storage.kind is not kind.dtype or storage.memory.nbytes != size:
        raise Damaged("a memory is of two kinds")
    return storage


def _archived(members: Members, locations: _Locations, reader: Any) -> Any:
    """What a zip archive holds."""
    roots = [n.removesuffix("/data.pkl") for n in members.by_name if n.endswith("/data.pkl")]
    if len(roots) != 1 or "/" in roots[0]:
        raise Damaged("it is a zip archive without a data.pkl")
    root = roots[0]
    if f"{root}/constants.pkl" in members.by_name:
        raise failure(
            RuntimeError,
            "Cannot use ``weights_only=True`` with TorchScript archives passed to ``torch.load``, and not "
            "False "
            "either: fusegrad does not run TorchScript",
        )
    order = _order(members, f"{root}/byteorder")
    storages: dict[str, Storage] = {}

    def persistent(value: Any) -> Any:
        kind, key, size = _storage_id(value, locations)
        if key not in storages:
            memory = members.memory(f"{root}/data/{key}", size)
            storages[key] = Storage(_native(memory, kind.dtype, order), kind.dtype).checked()
        return _same_kind(storages[key], kind, size)

    described = members.content(f"{root}/data.pkl")
    return reader.value(Source(io.BytesIO(described), len(described)), persistent)


def _order(members: Members, name: str) -> str:
    """In which order the bytes of numbers lie: as the archive says, or as the program has set."""
    if name in members.by_name:
        order = members.content(name)
        if order not in (b"little", b"big"):
            raise Damaged(f"it has the bytes of numbers in an unknown order, {order!r}")
        return order.decode()
    if options.load.endianness is options.LoadEndianness.NATIVE:
        return sys.byteorder
    return "big" if options.load.endianness is options.LoadEndianness.BIG else "little"


def _native(memory: np.ndarray, dtype: DType | None, order: str) -> np.ndarray:
    """The memory with the bytes of its numbers as they are here, each part of a complex number by itself."""
    step = 1 if dtype is None else dtype.itemsize // (2 if dtype.is_complex else 1)
    if order == sys.byteorder or step == 1 or memory.nbytes % step:
        return memory
    return memory.reshape(-1, step)[:, ::-1].reshape(-1)


def _streamed(window: Window, locations: _Locations, reader: Any) -> Any:
    """What the older form holds: pickles one after the other, and then the memories."""
    source = Source(window, window.size)  # type: ignore[arg-type]
    if reader.value(source) != OLDER_MAGIC or reader.value(source) != OLDER_PROTOCOL:
        raise failure(
            RuntimeError, "Invalid magic number; corrupt file? It is a pickle, but none that torch.save wrote"
        )
    system = reader.value(source)
    if type(system) is not dict or system.get("little_endian") is not True:
        raise Damaged("it was written on a machine that has the bytes of numbers in another order")
    storages: dict[str, Storage] = {}
    parts: dict[str, Storage] = {}
    left = window.size

    def persistent(value: Any) -> Any:
        nonlocal left
        if reader.trusts and type(value) is tuple and value[:1] == ("module",):
            return value[1]  # a class, beside its source
        kind, key, count = _storage_id(value, locations)
        if key not in storages:
            left -= count
            if left < 0:
                raise Damaged("its memories are said to be larger than it is")
            storages[key] = Storage(np.zeros(count, np.uint8), kind.dtype)
        whole = _same_kind(storages[key], kind, count)
        return whole if len(value) == 5 or value[5] is None else _part(whole, value[5], parts)

    value = reader.value(source, persistent)
    keys = reader.value(source)
    if type(keys) is not list or sorted(map(str, keys)) != sorted(storages):
        raise Damaged("it does not say where its memories are")
    for key in keys:
        _fill(source, storages[str(key)])
    for part in parts.values():
        part.checked()
    return value


def _part(whole: Storage, said: Any, parts: dict[str, Storage]) -> Storage:
    """A memory that is a part of another one, as the first versions of PyTorch had them."""
    if type(said) is not tuple or len(said) != 3 or type(said[0]) is not str:
        raise Damaged("a memory is no part of another one")
    key, offset, count = said
    if type(offset) is not int or type(count) is not int or not 0 <= offset <= offset + count <= whole.size():
        raise Damaged("a memory is said to be a part of another one that ends before it")
    if key not in parts:
        step = whole.element_size()
        parts[key] = Storage(whole.memory[offset * step : (offset + count) * step], whole.kind)
        parts[key].whole.version = whole.whole.version
    return parts[key]


def _fill(source: Source, storage: Storage) -> None:
    """Read a memory: how many elements it has, and these."""
    if struct.unpack("<q", source.take(8))[0] * storage.element_size() != storage.memory.nbytes:
        raise Damaged("a memory has another size than is said")
    if source.file.readinto(storage.memory) != storage.memory.nbytes:  # type: ignore[attr-defined]
        raise Damaged("it ends early")
    source.left -= storage.memory.nbytes
    storage.checked()
