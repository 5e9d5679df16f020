"""Writing files that `torch.load` reads: a zip archive with a pickle, and memories beside it.

In: any value that pickle takes. Out: the archive. The pickle is that of Python's own pickler but for tensors
and memories, which refer to memories of the archive, and for what PyTorch has of the same name, which is
written under that. Tensors that overlap in memory still do so when they are loaded; of a memory no more is
written than its tensors reach, so where they lie in it is filled in when all are known.
"""

from __future__ import annotations

import pickle
import struct
import sys
import zipfile
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import IO, Any, cast

import numpy as np

from fusegrad.eager.core.dtypes import DType, uint8
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.memory_order import layout
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.places.device import device
from fusegrad.eager.core.tensor import Size, Tensor
from fusegrad.eager.io import class_names, options
from fusegrad.eager.io.interop import own_state
from fusegrad.eager.io.memories import Memories, Memory, address, fitting
from fusegrad.eager.io.storage import TypedStorage, UntypedStorage
from fusegrad.eager.io.torch_names import OLDER_MAGIC, OLDER_PROTOCOL, STORAGES
from fusegrad.eager.io.torch_states import for_torch
from fusegrad.eager.nn.module import Module
from fusegrad.eager.nn.parameter import Buffer, Parameter
from fusegrad.eager.optim.optimizer import ParameterGroup
from fusegrad.eager.optim.schedules.base import LRScheduler

_ROOT = "archive"
_DEEPEST = 10_000  # calls in each other: Python's own, which take none of the stack of C
_ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes, tuple, list, dict, set})


def write_torch(
    value: Any,
    file: IO[bytes],
    zipped: bool = True,
    pickle_module: Any = pickle,
    protocol: int = 2,
    byte_order: bool = True,
) -> None:
    """Write `value` to a file that is open. Raises what pickle raises for what cannot be pickled.

    zipped: False for the form that PyTorch had before 1.6, with the memories one after the other.
    """
    memories = Memories()
    described = _described(value, memories, zipped, pickle_module, protocol)
    if not zipped:
        _write_older(file, described, memories.kept, protocol)
        return
    with zipfile.ZipFile(cast("IO[bytes]", _Forward(file)), "w") as archive:
        _write(archive, "data.pkl", described)
        _write(archive, ".format_version", b"1")
        _write(archive, ".storage_alignment", str(options.save.storage_alignment).encode())
        if byte_order:
            _write(archive, "byteorder", sys.byteorder.encode())
        for key, memory in enumerate(memories.kept):
            _write(archive, f"data/{key}", _content(memory))
        _write(archive, "version", b"3\n")


def _content(memory: Memory) -> Any:
    return memoryview(bytes(memory.stop - memory.start)) if options.skipped.data else memory.bytes()


def _described(value: Any, memories: Memories, zipped: bool, pickle_module: Any, protocol: int) -> bytes:
    """The pickle of a value, with the places of its tensors filled in."""
    base = pickle._Pickler if pickle_module in (None, pickle) else pickle_module.Pickler
    if not issubclass(base, pickle._Pickler):
        raise failure(
            TypeError,
            f"pickle_module: the Pickler of {pickle_module.__name__} is not derived from Python's own",
        )
    writer = _writer_of(base)(memories, zipped, protocol)
    with _room_for_calls():
        try:
            writer.dump(value)
        except RecursionError:
            raise failure(ValueError, "obj: containers lie in each other too deeply to be written") from None
    of = memories.joined()
    for place, fill in writer.to_fill:
        writer.pieces[place] = fill(of)
    return b"".join(writer.pieces)


@contextmanager
def _room_for_calls() -> Iterator[None]:
    """Let objects lie in each other as deeply as C's pickler has them."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _DEEPEST))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


class _Forward:
    """A file that is only written to: places in the archive count from where it begins."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.place = file, 0

    def write(self, content: Any) -> int:
        self.file.write(content)
        self.place += len(content)
        return len(content)

    def tell(self) -> int:
        return self.place

    def flush(self) -> None:
        self.file.flush()


def _write(archive: zipfile.ZipFile, name: str, content: Any) -> None:
    """A member, whose content begins at a place that suits any dtype: what fills up to it has the name FB."""
    member = zipfile.ZipInfo(f"{_ROOT}/{name}")
    large = len(content) >= zipfile.ZIP64_LIMIT // 2
    before = archive.fp.tell() + 30 + len(member.filename) + 4 + (20 if large else 0)  # type: ignore[union-attr]
    filling = -before % options.save.storage_alignment
    member.extra = b"FB" + struct.pack("<H", filling) + b"Z" * filling
    member.file_size = member.compress_size = len(content)
    member.CRC = zlib.crc32(content) if options.save.compute_crc32 else 0
    member.header_offset = archive.fp.tell()  # type: ignore[union-attr]
    archive.fp.write(member.FileHeader(large))  # type: ignore[union-attr]
    archive.fp.write(content)  # type: ignore[union-attr]
    archive.filelist.append(member)
    archive.NameToInfo[member.filename] = member
    archive.start_dir = archive.fp.tell()  # type: ignore[union-attr]
    archive._didModify = True  # type: ignore[attr-defined]


def _write_older(file: IO[bytes], described: bytes, memories: list[Memory], protocol: int) -> None:
    machine = {"protocol_version": OLDER_PROTOCOL, "little_endian": sys.byteorder == "little"}
    sizes = {"short": 2, "int": 4, "long": 4}
    for value in (OLDER_MAGIC, OLDER_PROTOCOL, machine | {"type_sizes": sizes}):
        file.write(pickle.dumps(value, protocol))
    file.write(described)
    file.write(pickle.dumps([str(memory.key) for memory in memories], protocol))
    for memory in memories:
        content = memory.bytes()
        step = memory.dtype.itemsize if memory.dtype in STORAGES else 1
        file.write(struct.pack("<q", len(content) // step))
        file.write(content)


class _Name:
    """A name of PyTorch's, which reading the file looks up, and calls."""

    def __init__(self, module: str, name: str) -> None:
        self.instruction = pickle.GLOBAL + f"{module}\n{name}\n".encode()

    def __call__(self) -> None:
        """The pickler asks that what it has called can be."""


class _Lying:
    """The memory that an array lies in, as a value of the file."""

    def __init__(self, array: np.ndarray, dtype: DType | None = None) -> None:
        self.array, self.dtype = array, dtype
        self.number = -1


class _Offset:
    """At which element of its memory an array begins."""

    def __init__(self, lying: _Lying) -> None:
        self.lying = lying


class _Inner:
    """The tensor that a parameter, or one with attributes, is made of."""

    def __init__(self, reduced: Any) -> None:
        self.reduced = reduced


def _names(module: str, *names: str) -> dict[str, _Name]:
    return {name: _Name(module, name) for name in names}


_MAKERS = {
    **_names("torch", "Size", "device", "Tensor"),
    **_names("torch._tensor", "_rebuild_from_type_v2"),
    **_names("torch.serialization", "_get_layout"),
    **_names("torch._utils", "_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_parameter"),
    **_names("torch._utils", "_rebuild_parameter_with_state", "_rebuild_meta_tensor_no_storage"),
}


class _Writing:
    """What a pickler of Python's is besides to write a file of PyTorch's."""

    save: Callable[..., None]
    write: Callable[[Any], None]
    memoize: Callable[[Any], None]
    save_reduce: Callable[..., None]
    proto: int
    framer: Any

    def __init__(self, memories: Memories, zipped: bool, protocol: int) -> None:
        self.pieces: list[bytes] = []
        self.to_fill: list[tuple[int, Callable[[list[Memory]], bytes]]] = []
        self.memories, self.zipped = memories, zipped
        super().__init__(_Pieces(self.pieces), protocol)  # type: ignore[call-arg]
        self.framer.start_framing = lambda: None  # the sizes of frames would be known too late

    def reducer_override(self, value: Any) -> Any:
        """How tensors, modules and options are made again; `NotImplemented` for all that is not ours."""
        kind = type(value)
        if kind in _ATOMS:
            return NotImplemented
        if isinstance(value, Tensor) and kind.__reduce__ is Tensor.__reduce__:
            return self._tensor(value) if kind.__reduce_ex__ is object.__reduce_ex__ else NotImplemented
        if isinstance(value, (Module, LRScheduler)):
            reduced = value.__reduce_ex__(self.proto)
            state = reduced[2:3] if isinstance(reduced, tuple) else ()
            return (*reduced[:2], for_torch(value, state[0]), *reduced[3:]) if state else reduced
        if kind is Size:
            return _MAKERS["Size"], (tuple(value),)
        if kind is device:
            return _MAKERS["device"], (str(value),)
        if kind is layout:
            return _MAKERS["_get_layout"], (str(value),)
        return NotImplemented

    def save_global(self, value: Any, name: str | None = None) -> None:
        """A class or function: under PyTorch's name where it has one."""
        place = class_names.written(value, name)
        if place is None:
            super().save_global(value, name)  # type: ignore[misc]
        else:
            self.write(_Name(*place).instruction)
            self.memoize(value)

    def _tensor(self, tensor: Tensor) -> Any:
        """A view of a memory, or one of none; a parameter, where it is one; with its attributes."""
        kind, state = type(tensor), own_state(tensor)
        if isinstance(tensor, Parameter) and kind is Parameter:
            made: tuple[Any, ...] = _Inner(self._plain(tensor, False)), tensor.requires_grad, OrderedDict()
            if state:
                return _MAKERS["_rebuild_parameter_with_state"], (*made, state)
            return _MAKERS["_rebuild_parameter"], made
        maker, arguments = self._plain(tensor, tensor.requires_grad)
        if kind in (Tensor, Buffer) and not state:
            return maker, arguments
        named = _MAKERS["Tensor"] if kind in (Tensor, Buffer) else kind
        return _MAKERS["_rebuild_from_type_v2"], (maker, named, arguments, state)

    def _plain(self, tensor: Tensor, requires_grad: bool) -> Any:
        """What makes the tensor without its class and attributes, and what that is given."""
        if tensor.is_meta:
            given = tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()), requires_grad
            return _MAKERS["_rebuild_meta_tensor_no_storage"], given
        array = tensor._leave("save", lambda: fitting(tensor.array))
        lying = _Lying(array)
        laid = lying, _Offset(lying), tuple(array.shape), tuple(wrap(array).stride())
        if tensor.dtype in STORAGES:
            return _MAKERS["_rebuild_tensor_v2"], (*laid, requires_grad, OrderedDict())
        return _MAKERS["_rebuild_tensor_v3"], (*laid, requires_grad, OrderedDict(), tensor.dtype)

    def _save_lying(self, lying: _Lying) -> None:
        lying.number = self.memories.note(lying.array, lying.dtype)
        self._later(lambda of: self._reference(of[lying.number]))

    def _save_storage(self, storage: UntypedStorage) -> None:
        """A memory by itself: all of it, as elements of its dtype."""
        dtype = storage.dtype if isinstance(storage, TypedStorage) else uint8
        self._save_lying(_Lying(storage._as_bytes(), dtype))

    def _save_offset(self, offset: _Offset) -> None:
        array = offset.lying.array

        def place(of: list[Memory]) -> bytes:
            first = address(array) - of[offset.lying.number].start
            return _number(first // array.dtype.itemsize)

        self._later(place)

    def _save_inner(self, inner: _Inner) -> None:
        self.save_reduce(*inner.reduced)

    def _save_name(self, name: _Name) -> None:
        self.write(name.instruction)
        self.memoize(name)

    def _later(self, fill: Callable[[list[Memory]], bytes]) -> None:
        self.to_fill.append((len(self.pieces), fill))
        self.write(b"")

    def _reference(self, memory: Memory) -> bytes:
        """The instructions that refer to a memory."""
        named = memory.dtype in STORAGES
        step = memory.dtype.itemsize if named else 1
        untyped = ("torch.storage", "UntypedStorage") if self.zipped else ("torch", "ByteStorage")
        name = _Name("torch", STORAGES[memory.dtype]) if named else _Name(*untyped)
        size = _number((memory.stop - memory.start) // step)
        parts = [_text("storage"), name.instruction, _text(str(memory.key)), _text("cpu"), size]
        if not self.zipped:
            parts.append(pickle.NONE)  # no memory is a part of another one
        return pickle.MARK + b"".join(parts) + pickle.TUPLE + pickle.BINPERSID


class _Pieces:
    """A file whose contents are a list, in which pieces can be put later."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.write = pieces.append


def _writer_of(base: Any) -> Any:
    """A class of picklers that is derived from `base`."""
    table = type(base.dispatch)(base.dispatch)
    table[FunctionType] = _Writing.save_global
    table[_Lying], table[_Offset] = _Writing._save_lying, _Writing._save_offset
    table[UntypedStorage] = table[TypedStorage] = _Writing._save_storage
    table[ParameterGroup] = table[dict]  # as PyTorch has them
    table[_Inner], table[_Name] = _Writing._save_inner, _Writing._save_name
    return type("Writer", (_Writing, base), {"dispatch": table})


def _text(text: str) -> bytes:
    return pickle.BINUNICODE + struct.pack("<I", len(text)) + text.encode()


def _number(number: int) -> bytes:
    if number < 1 << 31:
        return pickle.BININT + struct.pack("<i", number)
    digits = pickle.encode_long(number)
    return pickle.LONG1 + bytes([len(digits)]) + digits
