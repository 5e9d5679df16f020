"""`save` and `load`: tensors and plain values in PyTorch's files, or in safetensors files; never code."""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from typing import IO, Any, cast

from fusegrad.eager.core.names import publish
from fusegrad.eager.core.places.device import on_cpu
from fusegrad.eager.core.state import state
from fusegrad.eager.io.files import write_whole
from fusegrad.eager.io.safetensors_file import read_safetensors, write_safetensors
from fusegrad.eager.io.torch_file import read_torch
from fusegrad.eager.io.torch_writer import write_torch


@publish
def save(
    obj: Any,
    f: str | os.PathLike[str] | IO[bytes],
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write a tensor, or dicts, lists, tuples and sets of tensors and plain values, to a file.

    f: a path, or a file that is open for writing bytes. The file is one of PyTorch's, which
    `torch.load(weights_only=True)` reads; where the path ends in .safetensors, it is one of safetensors
    (`pip install fusegrad[safetensors]`). _use_new_zipfile_serialization: False for the form from before
    PyTorch 1.6. The other arguments are taken for PyTorch's sake.

    Takes what `state_dict()` of modules, optimizers and schedules gives, also several in one dict. The
    file appears whole or not at all. Tensors that overlap in memory still do when they are loaded, but for
    safetensors. Raises TypeError, naming the place, for values of other types. Source: `torch.save`.

    >>> import fusegrad as fg, tempfile
    >>> path = tempfile.mkdtemp() + "/model.pt"
    >>> layer = fg.nn.Linear(2, 1)
    >>> fg.save({"model": layer.state_dict(), "epoch": 3}, path)
    >>> loaded = fg.load(path)
    >>> layer.load_state_dict(loaded["model"]), loaded["epoch"]
    (<All keys matched successfully>, 3)
    """
    zipped = bool(_use_new_zipfile_serialization)
    if hasattr(f, "write"):
        buffer = io.BytesIO()
        write_torch(obj, buffer, zipped)
        f.write(buffer.getbuffer())
        return
    path = os.fspath(f)
    if path.endswith(".safetensors"):
        write_safetensors(obj, path)
        return

    def fill(place: str) -> None:
        with open(place, "wb") as file:
            write_torch(obj, file, zipped)

    write_whole(path, fill)


@publish
def load(
    f: str | os.PathLike[str] | IO[bytes],
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = True,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Read what `save` or `torch.save` wrote, or a safetensors file (as a dict of tensors). Runs none of it.

    f: a path, or a file that is open for reading bytes, whose rest is read. map_location: the CPU, for
    files whose tensors were on another device; also as a dict or a function. weights_only: nothing but
    tensors and plain values is ever loaded, whatever it says. The others are taken for PyTorch's sake.

    Raises FileNotFoundError; RuntimeError for a file that is damaged or no such file, or whose tensors
    were elsewhere; pickle.UnpicklingError for one that holds other objects; TypeError, naming the tensor,
    for dtypes that fusegrad lacks. Source: `torch.load`.
    """
    if not (callable(map_location) or isinstance(map_location, dict)):
        on_cpu(map_location)
    if state.interpreter is not None:
        state.interpreter.effect("reads a file")
    if not hasattr(f, "read"):
        path = os.fspath(f)
        with open(path, "rb") as file:
            if not _is_torch(file):
                return read_safetensors(path)
            return read_torch(file, repr(path), map_location)
    with tempfile.TemporaryFile() as copy:
        shutil.copyfileobj(cast("IO[bytes]", f), copy)
        copy.seek(0)
        if _is_torch(copy):
            return read_torch(copy, "the file", map_location)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "read")
            with open(path, "wb") as named:
                shutil.copyfileobj(copy, named)
            return read_safetensors(path)


def _is_torch(file: IO[bytes]) -> bool:
    """Whether a file begins as a zip or a pickle, and not as a safetensors file; gives it back at its start.

    The latter begins with the length of its header, which may be any bytes, and then with a brace.
    """
    start = file.read(9)
    file.seek(0)
    return start[:2] in (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05") and start[8:] != b"{"
