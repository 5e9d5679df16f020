"""`save` and `load`: any value in PyTorch's files, or tensors and plain values in safetensors files."""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
from typing import IO, Any

from fusegrad.eager.core.errors import failure, warn
from fusegrad.eager.core.names import publish
from fusegrad.eager.core.places.device import on_cpu
from fusegrad.eager.core.state import state
from fusegrad.eager.io import options
from fusegrad.eager.io.files import write_whole
from fusegrad.eager.io.safetensors_file import read_safetensors, write_safetensors
from fusegrad.eager.io.torch_file import read_torch
from fusegrad.eager.io.torch_writer import write_torch
from fusegrad.eager.io.unpickling import Careful, Trusting
from fusegrad.eager.io.windows import Window

_YES = ("1", "y", "yes", "true")


@publish
def save(
    obj: Any,
    f: str | os.PathLike[str] | IO[bytes],
    pickle_module: Any = pickle,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write any value that can be pickled, with the tensors in it, to a file.

    f: a path, or a file that is open for writing bytes. The file is one of PyTorch's, which `torch.load`
    reads: with weights_only=True what consists of tensors and plain values, and without that also modules,
    optimizers and schedules of PyTorch's classes, and objects of classes that are importable there. Where the
    path ends in .safetensors, it is one of safetensors (`pip install fusegrad[safetensors]`), of tensors and
    plain values.

    pickle_module: what pickles, whose `Pickler` is to be derived from Python's own.
    _use_new_zipfile_serialization: False for the form from before PyTorch 1.6. A path's file appears whole or
    not at all. Tensors that overlap in memory still do when they are loaded, but for safetensors. Raises what
    pickle raises for values that it does not take; for safetensors TypeError, naming the place. Source:
    `torch.save`.

    >>> import fusegrad as fg, tempfile
    >>> path = tempfile.mkdtemp() + "/model.pt"
    >>> layer = fg.nn.Linear(2, 1)
    >>> fg.save({"model": layer.state_dict(), "epoch": 3}, path)
    >>> loaded = fg.load(path)
    >>> layer.load_state_dict(loaded["model"]), loaded["epoch"]
    (<All keys matched successfully>, 3)
    >>> fg.save(layer, path)
    >>> fg.load(path, weights_only=False)
    Linear(in_features=2, out_features=1, bias=True)
    """

    def write(file: IO[bytes]) -> None:
        zipped = bool(_use_new_zipfile_serialization)
        write_torch(obj, file, zipped, pickle_module, pickle_protocol, not _disable_byteorder_record)

    if not isinstance(f, (str, os.PathLike)):
        _check_writable(f)
        write(f)
        f.flush()
        return
    path = os.fspath(f)
    if path.endswith(".safetensors"):
        write_safetensors(obj, path)
        return

    def fill(place: str) -> None:
        with open(place, "wb") as file:
            write(file)

    write_whole(path, fill)


def _check_writable(file: Any) -> None:
    if not callable(getattr(file, "write", None)):
        raise failure(
            TypeError if hasattr(file, "write") else AttributeError,
            "expected 'f' to be string, path, or a file-like object with a 'write' attribute: a "
            f"{type(file).__name__} has no callable attribute 'write'",
        )


@publish
def load(
    f: str | os.PathLike[str] | IO[bytes],
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Read what `save` or `torch.save` wrote, or a safetensors file (as a dict of tensors).

    f: a path, or a file that is open for reading bytes, from where it stands. map_location: the CPU, for
    files whose tensors were on another device; also as a dict or a function. mmap: whether tensors lie in the
    mapped file, which is read where they are.

    weights_only: True, which it is where nothing is said and no pickle_module given, for nothing but tensors,
    plain values, and objects of classes that `torch.serialization.add_safe_globals` allows: nothing else of
    the file is run. **False runs what the file says**: only for files whose origin you trust. The variables
    TORCH_FORCE_WEIGHTS_ONLY_LOAD and TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD mean what they mean for PyTorch.

    Raises FileNotFoundError; RuntimeError for a file that is damaged or no such file, or whose tensors
    were elsewhere; pickle.UnpicklingError for one that holds what is not allowed; TypeError, naming the
    tensor, for dtypes that fusegrad lacks. Source: `torch.load`.
    """
    if not (callable(map_location) or isinstance(map_location, dict)):
        on_cpu(map_location)
    if state.interpreter is not None:
        state.interpreter.effect("reads a file")
    reader = _reader(weights_only, pickle_module, pickle_load_args)
    mapped = options.load.mmap if mmap is None else mmap
    if isinstance(f, (str, os.PathLike)):
        path = os.fspath(f)
        with open(path, "rb") as file:
            if not _is_torch(file):
                return read_safetensors(path)
            return read_torch(file, repr(path), map_location, reader, path if mapped else None)
    if mapped:
        raise failure(ValueError, "f must be a file path in order to use the mmap argument")
    if not _is_torch(Window(f)):
        return _other_file(f)
    return read_torch(f, "the file", map_location, reader)


def _reader(weights_only: bool | None, module: Any, options: dict[str, Any]) -> Careful | Trusting:
    """What reads pickles as `load` was told to, or as the environment says."""
    force, forbid = (
        os.environ.get(f"TORCH_FORCE_{what}", "0").lower() in _YES
        for what in ("WEIGHTS_ONLY_LOAD", "NO_WEIGHTS_ONLY_LOAD")
    )
    if force and forbid:
        raise failure(
            RuntimeError,
            "Only one of `TORCH_FORCE_WEIGHTS_ONLY_LOAD` or `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD` should be "
            "set, but "
            "both were set.",
        )
    careful = module is None if weights_only is None else bool(weights_only)
    if force:
        careful = True
    elif forbid and weights_only is None:
        warn(
            "Environment variable TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD detected, since the `weights_only` "
            "argument was "
            "not explicitly passed to `torch.load`, forcing weights_only=False."
        )
        careful = False
    if not careful:
        return Trusting(module or pickle, **options)
    if module is not None:
        raise failure(RuntimeError, "Can not safely load weights when explicit pickle_module is specified")
    if options:
        warn("pickle_load_args only works if `weights_only=False`.")
    return Careful(options.get("encoding", "utf-8"))


def _other_file(file: IO[bytes]) -> Any:
    """What a safetensors file holds that a program has opened: the library wants a path."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "read")
        with open(path, "wb") as named:
            shutil.copyfileobj(file, named)
        return read_safetensors(path)


def _is_torch(file: Any) -> bool:
    """Whether a file begins as a zip or a pickle, and not as a safetensors file; gives it back at its start.

    The latter begins with the length of its header, which may be any bytes, and then with a brace.
    """
    start = file.read(9)
    file.seek(0)
    return start[:2] in (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05") and start[8:] != b"{"
