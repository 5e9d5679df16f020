"""Tensors, and containers of them, in safetensors files.

A dict of tensors under names is written as it is, so that other readers of safetensors see the same
names. For anything else the tensors get names from their places, and how they are put together
stands as JSON in the file's metadata.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from fusegrad.eager.core.dtypes import FROM_NUMPY, DType, as_dtype, bfloat16
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.io.files import refused, write_whole

# The metadata's keys: how tensors are put together, and in which order those of a dict come, which the
# library sorts.
_STRUCTURE, _ORDER = "fusegrad", "fusegrad_order"
_RESERVED = "__metadata__"
_PLAIN = (bool, int, float, str, type(None))
_KINDS = "tensors, numbers, strings, None, dtypes, and dicts, lists and tuples of them"


def _library() -> Any:
    try:
        import safetensors
        import safetensors.numpy
    except ImportError:
        raise failure(
            ImportError, "needs the safetensors library: pip install fusegrad[safetensors]"
        ) from None
    return safetensors


def write_safetensors(obj: Any, path: str) -> None:
    """Write `obj` to a new file. Raises TypeError, naming the place, for what such files cannot have."""
    library = _library()
    writer = _Writer()
    named = isinstance(obj, dict) and all(
        isinstance(k, str) and k != _RESERVED and isinstance(v, Tensor) for k, v in obj.items()
    )
    metadata = {"format": "pt"}  # what readers of PyTorch's files look for
    if named:
        for key, value in obj.items():
            writer.write(key, value)
        metadata[_ORDER] = json.dumps([*writer.arrays])
    else:
        metadata[_STRUCTURE] = json.dumps(writer.described(obj, ()))
    if writer.pairs:
        metadata["fusegrad_complex"] = json.dumps(writer.pairs)
    write_whole(path, lambda place: library.numpy.save_file(writer.arrays, place, metadata))


class _Writer:
    """Collects the arrays of one file under their names."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self.pairs: list[str] = []  # names of complex128 tensors, which are kept as pairs of float64

    def write(self, name: str, tensor: Tensor) -> None:
        array = np.asarray(tensor._leave("save", lambda: tensor.array), order="C")
        if array.dtype == np.complex128:
            self.pairs.append(name)
            array = array.reshape(*array.shape, 1).view(np.float64)
        self.arrays[name] = array

    def described(self, value: Any, place: tuple[Any, ...]) -> Any:
        """`value` as JSON: plain values as they are, everything else as `{kind: ...}`."""
        if isinstance(value, Tensor):
            name = self._free(".".join(map(str, place)) or "tensor")
            self.write(name, value)
            return {"tensor": name}
        if isinstance(value, _PLAIN):
            return value
        if isinstance(value, np.generic) and isinstance(value.item(), _PLAIN):
            return value.item()
        if isinstance(value, dict):
            entries = []
            for key, entry in value.items():
                if not isinstance(key, _PLAIN):
                    raise self._refused(key, place, "a dict key")
                entries.append([key, self.described(entry, (*place, key))])
            return {"dict": entries}
        if isinstance(value, (list, tuple)):
            kind = "list" if isinstance(value, list) else "tuple"
            return {kind: [self.described(entry, (*place, i)) for i, entry in enumerate(value)]}
        if isinstance(value, DType):
            return {"dtype": value.name}
        if isinstance(value, complex):
            return {"complex": [value.real, value.imag]}
        raise self._refused(value, place, "a value")

    def _free(self, name: str) -> str:
        """`name`, or one like it that no tensor has yet."""
        free, count = name, 1
        while free in self.arrays or free == _RESERVED:
            count += 1
            free = f"{name}#{count}"
        return free

    def _refused(self, value: Any, place: tuple[Any, ...], what: str) -> Exception:
        return refused(value, place, f"{what} of type {type(value).__name__}", _KINDS)


def read_safetensors(path: str) -> Any:
    """What `write_safetensors` wrote, or the tensors of any other safetensors file by their names."""
    library = _library()
    try:
        with library.safe_open(path, framework="np") as opened:
            metadata = opened.metadata() or {}
            arrays = {key: _array(opened, path, key) for key in opened.keys()}  # noqa: SIM118
    except library.SafetensorError as error:
        raise failure(
            RuntimeError,
            f"{path!r} is damaged, or neither a safetensors file nor one that torch.save wrote: {error}",
        ) from None
    try:
        for name in json.loads(metadata.get("fusegrad_complex", "[]")):
            arrays[name] = arrays[name].view(np.complex128)[..., 0]
        names = dict.fromkeys((*json.loads(metadata.get(_ORDER, "[]")), *arrays))
        tensors = {name: wrap(arrays[name]) for name in names}
        return _rebuilt(json.loads(metadata[_STRUCTURE]), tensors) if _STRUCTURE in metadata else tensors
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise failure(
            RuntimeError,
            f"{path!r} is damaged: its metadata does not say how its tensors are put together "
            f"({type(error).__name__}: {error})",
        ) from None


def _array(opened: Any, path: str, key: str) -> np.ndarray:
    """One tensor's values, in memory of their own."""
    stored = opened.get_slice(key).get_dtype()
    if stored == "BF16":
        return _bfloat16(path, key)
    try:
        array = opened.get_tensor(key)
    except (TypeError, AttributeError, KeyError):
        array = None
    if array is None or array.dtype not in FROM_NUMPY:
        raise failure(TypeError, f"tensor {key!r} of {path!r} has the dtype {stored}, which fusegrad lacks")
    return array if array.flags.writeable else array.copy()


def _bfloat16(path: str, key: str) -> np.ndarray:
    """A bfloat16 tensor, which the library cannot give to NumPy."""
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        entry = json.loads(file.read(size))[key]
    start, end = entry["data_offsets"]
    halves = np.fromfile(path, "<u2", (end - start) // 2, offset=8 + size + start)
    return halves.view(bfloat16.numpy).reshape(entry["shape"])


_REBUILD: dict[str, Callable[[Any, dict[str, Tensor]], Any]] = {
    "tensor": lambda content, tensors: tensors[content],
    "dict": lambda content, tensors: {key: _rebuilt(entry, tensors) for key, entry in content},
    "list": lambda content, tensors: [_rebuilt(entry, tensors) for entry in content],
    "tuple": lambda content, tensors: tuple(_rebuilt(entry, tensors) for entry in content),
    "dtype": lambda content, tensors: as_dtype(content),
    "complex": lambda content, tensors: complex(*content),
}


def _rebuilt(description: Any, tensors: dict[str, Tensor]) -> Any:
    if not isinstance(description, dict):
        return description
    ((kind, content),) = description.items()
    return _REBUILD[kind](content, tensors)
