"""Writing what `torch.load(weights_only=True)` reads: a zip archive with a pickle, and memories beside it.

In: tensors and plain values, in containers. Out: the archive. The pickle is put together here, instruction by
instruction, since Python's own writer would import what it names. Tensors that overlap in memory still do so
when they are loaded; of a memory no more is written than its tensors reach.
"""

from __future__ import annotations

import pickle
import struct
import zipfile
from collections import OrderedDict
from typing import IO, Any

import numpy as np

from fusegrad.eager.core.dtypes import FROM_NUMPY, DType
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.places.device import device
from fusegrad.eager.core.tensor import Size, Tensor
from fusegrad.eager.io.arrays import ARRAY_KINDS
from fusegrad.eager.io.files import refused
from fusegrad.eager.io.torch_names import OLDER_MAGIC, OLDER_PROTOCOL, STORAGES
from fusegrad.eager.nn.parameter import Parameter

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_KINDS = (
    "tensors, arrays of numbers, plain values, dtypes, sizes, devices, and dicts, lists, tuples and sets of "
    "them"
)
_ROOT, _ALIGNED = "archive", 64  # PyTorch maps memories that begin at such places


def write_torch(obj: Any, file: IO[bytes], zipped: bool = True) -> None:
    """Write `obj` to a file that is open and empty. Raises TypeError, naming the place, for other values.

    zipped: False for the form that PyTorch had before 1.6, with the memories one after the other.
    """
    memories = _Memories(zipped)
    try:
        memories.collect(obj, set())
        written = _Pickle(memories)
        written.value(obj, ())
    except RecursionError:
        raise failure(ValueError, "obj: containers lie in each other too deeply to be written") from None
    described = pickle.PROTO + b"\x02" + b"".join(written.out) + pickle.STOP
    if not zipped:
        _write_older(file, described, memories.kept)
        return
    with zipfile.ZipFile(file, "w") as archive:
        _write(archive, "data.pkl", described)
        _write(archive, "byteorder", b"little")
        for key, memory in enumerate(memories.kept):
            _write(archive, f"data/{key}", memory.bytes())
        _write(archive, "version", b"3\n")


def _write(archive: zipfile.ZipFile, name: str, content: Any) -> None:
    """A member, whose content begins at a place that suits any dtype: what fills up to it has the name FB."""
    member = zipfile.ZipInfo(f"{_ROOT}/{name}")
    large = len(content) >= zipfile.ZIP64_LIMIT // 2
    before = archive.fp.tell() + 30 + len(member.filename) + 4 + (20 if large else 0)  # type: ignore[union-attr]
    filling = -before % _ALIGNED
    member.extra = b"FB" + struct.pack("<H", filling) + b"Z" * filling
    member.file_size = len(content)
    with archive.open(member, "w", force_zip64=large) as out:
        out.write(content)


def _write_older(file: IO[bytes], described: bytes, memories: list[_Memory]) -> None:
    machine = {"protocol_version": OLDER_PROTOCOL, "little_endian": True}
    sizes = {"short": 2, "int": 4, "long": 4}
    for value in (OLDER_MAGIC, OLDER_PROTOCOL, machine | {"type_sizes": sizes}):
        file.write(pickle.dumps(value, 2))
    file.write(described)
    file.write(pickle.dumps([str(memory.key) for memory in memories], 2))
    for memory in memories:
        content = memory.bytes()
        step = memory.dtype.itemsize if memory.dtype in STORAGES else 1
        file.write(struct.pack("<q", len(content) // step))
        file.write(content)


class _Memory:
    """A part of memory that tensors lie in, from byte `start` to byte `stop`."""

    def __init__(self, start: int, stop: int, array: np.ndarray) -> None:
        self.start, self.stop, self.dtype = start, stop, FROM_NUMPY[array.dtype]
        self.arrays = [array]
        self.key = -1

    def bytes(self) -> memoryview:
        """The bytes, gaps between its tensors included."""
        if len(self.arrays) == 1 and self.arrays[0].flags.c_contiguous:
            content = self.arrays[0].reshape(-1)
        else:
            content = np.zeros(self.stop - self.start, np.uint8)
            for array in self.arrays:
                place = _address(array) - self.start
                view = np.ndarray(array.shape, array.dtype, content, place, array.strides)
                view[...] = array
        return memoryview(content.view(np.uint8))  # type: ignore[arg-type]


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def _bounds(array: np.ndarray) -> tuple[int, int]:
    return np.lib.array_utils.byte_bounds(array) if array.size else (_address(array), _address(array))


class _Memories:
    """The memories of all tensors of a file, which is an archive if `zipped`; those that overlap are one."""

    def __init__(self, zipped: bool) -> None:
        self.zipped = zipped
        self.arrays: dict[int, np.ndarray] = {}  # by the id of the tensor
        self.of: dict[int, _Memory] = {}
        self.kept: list[_Memory] = []
        self._found: list[_Memory] = []

    def collect(self, value: Any, seen: set[int]) -> None:
        """Note the tensors in a value."""
        if isinstance(value, Tensor):
            if id(value) not in self.arrays and not value.is_meta:
                self.arrays[id(value)] = value._leave("save", lambda: _steps_fit(value.array))
            self.collect(_attributes(value), seen)
            return
        if not isinstance(value, (dict, list, tuple, set)) or id(value) in seen:
            return
        seen.add(id(value))
        for part in value.values() if isinstance(value, dict) else value:
            self.collect(part, seen)
        if isinstance(value, OrderedDict):
            self.collect(vars(value), seen)

    def join(self) -> None:
        """Make one memory of what overlaps, if it is of one dtype and its elements fall together."""
        for start, stop, name in sorted((*_bounds(a), name) for name, a in self.arrays.items()):
            array = self.arrays[name]
            last = self._found[-1] if self._found else None
            if last is not None and start < last.stop and FROM_NUMPY[array.dtype] is not last.dtype:
                raise failure(
                    RuntimeError,
                    "Cannot save multiple tensors or storages that view the same data as different types",
                )
            if last is not None and start < last.stop and _joins(last, start, array):
                last.stop = max(last.stop, stop)
                last.arrays.append(array)
            else:
                last = _Memory(start, stop, array)
                self._found.append(last)
            self.of[name] = last

    def memory_of(self, tensor: Tensor) -> tuple[_Memory, np.ndarray]:
        """The memory of a tensor, numbered when it is asked for first; and the tensor's array."""
        if not self._found:
            self.join()
        memory = self.of[id(tensor)]
        if memory.key < 0:
            memory.key = len(self.kept)
            self.kept.append(memory)
        return memory, self.arrays[id(tensor)]


def _joins(memory: _Memory, start: int, array: np.ndarray) -> bool:
    """Whether an array that overlaps with a memory can be said to lie in it."""
    return (start - memory.start) % array.dtype.itemsize == 0


def _steps_fit(array: np.ndarray) -> np.ndarray:
    """The array, or a copy where its steps are backwards or between elements, which PyTorch has not."""
    step = array.dtype.itemsize
    fits = array.dtype.isnative and all(s >= 0 and s % step == 0 for s in array.strides)
    return array if fits else np.ascontiguousarray(array, array.dtype.newbyteorder("="))


class _Pickle:
    """The instructions for one value. Containers and tensors that occur twice are the same object again."""

    def __init__(self, memories: _Memories) -> None:
        self.memories = memories
        self.out: list[bytes] = []
        self.known: dict[
            int, tuple[int, Any]
        ] = {}  # by id: the place in the memo, and the object, to keep it

    def value(self, value: Any, place: tuple[Any, ...]) -> None:
        """Write a value. Raises TypeError, naming its place in the whole, where it cannot be written."""
        if isinstance(value, np.generic) and isinstance(value.item(), _PLAIN):
            value = value.item()
        if type(value) in _PLAIN:
            self._plain(value, place)
        elif id(value) in self.known:
            self.out.append(pickle.LONG_BINGET + struct.pack("<I", self.known[id(value)][0]))
        elif isinstance(value, Tensor):
            self._tensor(value)
        elif type(value) is np.ndarray and value.dtype.kind in ARRAY_KINDS:
            self._array(value)
        elif isinstance(value, dict):
            self._dict(value, place)
        elif isinstance(value, list):
            self._empty(pickle.EMPTY_LIST, value)
            self._all(list(enumerate(value)), place, pickle.APPENDS)
        elif isinstance(value, Size):
            self._call("torch", "Size", tuple(value))
        elif isinstance(value, tuple):
            self._tuple(value, place)
        elif type(value) is set:
            self._call("builtins", "set", list(value))
            self._keep(value)
        elif isinstance(value, DType):
            self._name("torch", value.name)
        elif isinstance(value, device):
            self._call("torch", "device", str(value))
        else:
            raise refused(value, place, f"a value of type {type(value).__name__}", _KINDS)

    def _plain(self, value: Any, place: tuple[Any, ...]) -> None:
        if value is None or isinstance(value, bool):
            self.out.append({None: pickle.NONE, True: pickle.NEWTRUE, False: pickle.NEWFALSE}[value])
        elif isinstance(value, int):
            self._int(value, place)
        elif isinstance(value, float):
            self.out.append(pickle.BINFLOAT + struct.pack(">d", value))
        elif isinstance(value, complex):
            self._call("builtins", "complex", value.real, value.imag)
        elif isinstance(value, bytes):
            self._call("_codecs", "encode", value.decode("latin1"), "latin1")
        else:
            text = value.encode("utf-8", "surrogatepass")
            self.out.append(pickle.BINUNICODE + struct.pack("<I", len(text)) + text)

    def _int(self, value: int, place: tuple[Any, ...]) -> None:
        if -(1 << 31) <= value < 1 << 31:
            self.out.append(pickle.BININT + struct.pack("<i", value))
            return
        digits = pickle.encode_long(value)
        if len(digits) > 255:
            raise refused(value, place, "an integer of more than 2039 bits", _KINDS)
        self.out.append(pickle.LONG1 + bytes([len(digits)]) + digits)

    def _name(self, module: str, name: str) -> None:
        self.out.append(pickle.GLOBAL + f"{module}\n{name}\n".encode())

    def _call(self, module: str, name: str, *arguments: Any) -> None:
        self._name(module, name)
        self._tuple(arguments, ())
        self.out.append(pickle.REDUCE)

    def _keep(self, value: Any) -> None:
        """Remember the object that was just written."""
        number = len(self.known)
        self.known[id(value)] = number, value
        self.out.append(pickle.LONG_BINPUT + struct.pack("<I", number))

    def _empty(self, instruction: bytes, value: Any) -> None:
        self.out.append(instruction)
        self._keep(value)

    def _all(self, items: list[tuple[Any, Any]], place: tuple[Any, ...], instruction: bytes) -> None:
        """Parts between a mark and the instruction that takes them."""
        self.out.append(pickle.MARK)
        for name, part in items:
            self.value(part, (*place, name))
        self.out.append(instruction)

    def _tuple(self, value: tuple[Any, ...], place: tuple[Any, ...]) -> None:
        self._all(list(enumerate(value)), place, pickle.TUPLE)

    def _dict(self, value: dict[Any, Any], place: tuple[Any, ...]) -> None:
        if isinstance(value, OrderedDict):
            self._call("collections", "OrderedDict")
            self._keep(value)
        else:
            self._empty(pickle.EMPTY_DICT, value)
        self.out.append(pickle.MARK)
        for name, part in value.items():
            if not _is_key(name):
                raise refused(name, place, f"a dict key of type {type(name).__name__}", _KINDS)
            self.value(name, place)
            self.value(part, (*place, name))
        self.out.append(pickle.SETITEMS)
        if isinstance(value, OrderedDict) and vars(value):
            self.value(vars(value), place)
            self.out.append(pickle.BUILD)

    def _array(self, array: np.ndarray) -> None:
        """As NumPy pickles its arrays."""
        self._name("numpy._core.multiarray", "_reconstruct")
        self.out.append(pickle.MARK)
        self._name("numpy", "ndarray")
        for part in ((0,), b"b"):
            self.value(part, ())
        self.out.append(pickle.TUPLE + pickle.REDUCE)
        self._keep(array)
        self.out.append(pickle.MARK)
        self.value(1, ())
        self._tuple(array.shape, ())
        self._call("numpy", "dtype", array.dtype.str[1:], False, True)
        self._tuple((3, array.dtype.str[0], None, None, None, -1, -1, 0), ())
        self.out.append(pickle.BUILD)
        self.value(False, ())
        self._plain(array.tobytes(), ())
        self.out.append(pickle.TUPLE + pickle.BUILD)

    def _tensor(self, tensor: Tensor) -> None:
        """A view of a memory, or one of none; a parameter, where it is one; with its attributes."""
        attributes = _attributes(tensor)
        if isinstance(tensor, Parameter):
            self._name("torch._utils", f"_rebuild_parameter{'_with_state' if attributes else ''}")
            self.out.append(pickle.MARK)
            self._maker(tensor)
            self._arguments(tensor, False)
            self.out.append(pickle.REDUCE)
            self.value(tensor.requires_grad, ())
            self._call("collections", "OrderedDict")
            if attributes:
                self.value(attributes, ())
            self.out.append(pickle.TUPLE)
        elif attributes:
            self._name("torch._tensor", "_rebuild_from_type_v2")
            self.out.append(pickle.MARK)
            self._maker(tensor)
            self._name("torch", "Tensor")
            self._arguments(tensor, tensor.requires_grad)
            self.value(attributes, ())
            self.out.append(pickle.TUPLE)
        else:
            self._maker(tensor)
            self._arguments(tensor, tensor.requires_grad)
        self.out.append(pickle.REDUCE)
        self._keep(tensor)

    def _maker(self, tensor: Tensor) -> None:
        """What makes a tensor like this one."""
        kind = "tensor_v2" if tensor.dtype in STORAGES else "tensor_v3"
        self._name("torch._utils", f"_rebuild_{'meta_tensor_no_storage' if tensor.is_meta else kind}")

    def _arguments(self, tensor: Tensor, requires_grad: bool) -> None:
        """What that is given."""
        if tensor.is_meta:
            self._tuple((tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()), requires_grad), ())
            return
        memory, array = self.memories.memory_of(tensor)
        step = array.dtype.itemsize
        named = memory.dtype in STORAGES
        self.out.append(pickle.MARK + pickle.MARK)
        self.value("storage", ())
        if named:
            self._name("torch", STORAGES[memory.dtype])
        elif not self.memories.zipped:
            self._name("torch", "ByteStorage")
        else:
            self._name("torch.storage", "UntypedStorage")
        for part in (str(memory.key), "cpu", (memory.stop - memory.start) // (step if named else 1)):
            self.value(part, ())
        if not self.memories.zipped:
            self.value(None, ())  # no memory is a part of another one
        self.out.append(pickle.TUPLE + pickle.BINPERSID)
        self.value((_address(array) - memory.start) // step, ())
        self._tuple(tuple(array.shape), ())
        self._tuple(wrap(array).stride(), ())
        self.value(requires_grad, ())
        self._call("collections", "OrderedDict")
        if not named:
            self.value(memory.dtype, ())
        self.out.append(pickle.TUPLE)


def _attributes(tensor: Tensor) -> dict[str, Any]:
    """What a program has set on a tensor; what begins with a line is nobody's but its maker's."""
    return {name: value for name, value in vars(tensor).items() if not name.startswith("_")}


def _is_key(name: Any) -> bool:
    if isinstance(name, tuple):
        return all(map(_is_key, name))
    return isinstance(name, (*_PLAIN, DType, device)) or (
        isinstance(name, np.generic) and isinstance(name.item(), _PLAIN)
    )
