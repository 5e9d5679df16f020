"""`save` and `load`: tensors, and containers of them, in safetensors files. Nothing is ever pickled.

A dict of tensors under names is written as it is, so that other readers of safetensors see the same
names. For anything else the tensors get names from their places, and how they are put together
stands as JSON in the file's metadata.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from typing import IO, Any, cast

import numpy as np

from fusegrad.eager.core.dtypes import FROM_NUMPY, DType, as_dtype
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.names import publish
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor, on_cpu
from fusegrad.eager.io.files import write_whole
from fusegrad.eager.nn.module import Module
from fusegrad.eager.optim.optimizer import Optimizer

_STRUCTURE = "fusegrad"  # the metadata's key
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


@publish
def save(obj: Any, f: str | os.PathLike[str] | IO[bytes]) -> None:
    """Write a tensor, or dicts, lists and tuples of tensors and plain values, to a safetensors file.

    f: a path, or a file that is open for writing bytes.

    Takes what `state_dict()` of modules, optimizers and schedules gives, also several in one dict. The
    file appears whole or not at all. A dict of named tensors is a safetensors file that any other reader
    understands. Raises TypeError, naming the place, for values of other types. Source: `torch.save`,
    which pickles.

    >>> import fusegrad as fg, tempfile
    >>> path = tempfile.mkdtemp() + "/model.safetensors"
    >>> layer = fg.nn.Linear(2, 1)
    >>> fg.save({"model": layer.state_dict(), "epoch": 3}, path)
    >>> loaded = fg.load(path)
    >>> layer.load_state_dict(loaded["model"]), loaded["epoch"]
    (<All keys matched successfully>, 3)
    """
    library = _library()
    writer = _Writer()
    named = isinstance(obj, dict) and all(
        isinstance(k, str) and k != _RESERVED and isinstance(v, Tensor) for k, v in obj.items()
    )
    metadata = {"format": "pt"}  # what readers of PyTorch's files look for
    if named:
        for key, value in obj.items():
            writer.write(key, value)
    else:
        metadata[_STRUCTURE] = json.dumps(writer.described(obj, ()))
    if writer.pairs:
        metadata["fusegrad_complex"] = json.dumps(writer.pairs)
    if hasattr(f, "write"):
        f.write(library.numpy.save(writer.arrays, metadata))
        return
    write_whole(os.fspath(f), lambda path: library.numpy.save_file(writer.arrays, path, metadata))


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
        where = "".join(f"[{key!r}]" for key in place)
        hint = f"only {_KINDS} can be saved"
        if isinstance(value, (Module, Optimizer)):
            hint = "save its state_dict()"
        return failure(TypeError, f"obj{where}: {what} of type {type(value).__name__}; {hint}")


@publish
def load(
    f: str | os.PathLike[str] | IO[bytes], map_location: Any = None, *, weights_only: bool = True
) -> Any:
    """Read what `save` wrote, or any safetensors file (as a dict of tensors). Source: `torch.load`.

    f: a path, or a file that is open for reading bytes, whose rest is read.

    map_location, weights_only: taken for PyTorch's sake; there is one device, and files only hold
    values. Tensors do not require gradients. Raises FileNotFoundError; RuntimeError for a file that is
    damaged or no safetensors file; TypeError, naming the tensor, for dtypes that fusegrad lacks.
    """
    if not (callable(map_location) or isinstance(map_location, dict)):
        on_cpu(map_location)
    if hasattr(f, "read"):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "read")
            with open(path, "wb") as copy:
                shutil.copyfileobj(cast("IO[bytes]", f), copy)
            return load(path)
    library = _library()
    path = os.fspath(f)
    if state.interpreter is not None:
        state.interpreter.effect("reads a file")
    try:
        with library.safe_open(path, framework="np") as opened:
            metadata = opened.metadata() or {}
            arrays = {key: _array(opened, path, key) for key in opened.keys()}  # noqa: SIM118
    except library.SafetensorError as error:
        raise failure(RuntimeError, _unread(path, error)) from None
    try:
        for name in json.loads(metadata.get("fusegrad_complex", "[]")):
            arrays[name] = arrays[name].view(np.complex128)[..., 0]
        tensors = {name: wrap(array) for name, array in arrays.items()}
        return _rebuilt(json.loads(metadata[_STRUCTURE]), tensors) if _STRUCTURE in metadata else tensors
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise failure(
            RuntimeError,
            f"{path!r} is damaged: its metadata does not say how its tensors are put together "
            f"({type(error).__name__}: {error})",
        ) from None


def _unread(path: str, error: Exception) -> str:
    """Why a file cannot be read. Only asked then: a safetensors file may begin with any two bytes."""
    with open(path, "rb") as file:
        pickled = file.read(2) in (b"PK", b"\x80\x02")
    if pickled:
        return (
            f"{path!r} looks like a pickle of PyTorch's, which is never read, since unpickling runs code. "
            "Write it anew with safetensors.torch.save_file"
        )
    return f"{path!r} is damaged, or no safetensors file: {error}"


def _array(opened: Any, path: str, key: str) -> np.ndarray:
    """One tensor's values, in memory of their own."""
    stored = opened.get_slice(key).get_dtype()
    if stored == "BF16":
        return _widened(path, key)
    try:
        array = opened.get_tensor(key)
    except (TypeError, AttributeError, KeyError):
        array = None
    if array is None or array.dtype not in FROM_NUMPY:
        raise failure(TypeError, f"tensor {key!r} of {path!r} has the dtype {stored}, which fusegrad lacks")
    return array if array.flags.writeable else array.copy()


def _widened(path: str, key: str) -> np.ndarray:
    """A bfloat16 tensor as float32, whose upper half it is: NumPy has no such type."""
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        entry = json.loads(file.read(size))[key]
    start, end = entry["data_offsets"]
    halves = np.fromfile(path, "<u2", (end - start) // 2, offset=8 + size + start)
    return (halves.astype(np.uint32) << 16).view(np.float32).reshape(entry["shape"])


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
