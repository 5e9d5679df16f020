"""Tensors in memory that several processes have: `share_memory_`, and how they come to another process.

The memory is a file, in the system's folder for memory where there is one, mapped by each process. A child
that is forked has the mapping; for others what `multiprocessing` pickles has the file's path and the tensor's
place there. The file goes when the process that made it has no use for the mapping, or ends.
"""

from __future__ import annotations

import contextlib
import os
import sys
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.names import attach
from fusegrad.eager.core.op import wrap_foreign
from fusegrad.eager.core.shared import watching
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor

if TYPE_CHECKING:
    import mmap

_FOLDER = "/dev/shm"
# By mapping: the path of its file.
_paths: weakref.WeakKeyDictionary[mmap.mmap, str] = weakref.WeakKeyDictionary()


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)


def _new_mapping(size: int) -> mmap.mmap:
    """A mapping of a new file."""
    import mmap  # here, and so below: few programs need them
    import tempfile
    from multiprocessing.util import Finalize

    folder = _FOLDER if os.path.isdir(_FOLDER) else None
    number, path = tempfile.mkstemp(prefix="fusegrad-", dir=folder)
    try:
        os.truncate(path, max(size, 1))
        mapping = mmap.mmap(number, max(size, 1))
    finally:
        os.close(number)
    _paths[mapping] = path
    Finalize(mapping, _remove, (path,), exitpriority=0)  # by this process alone
    return mapping


def _mapping_of(array: np.ndarray) -> mmap.mmap | None:
    """The mapping in which an array lies, if it is one of ours."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    owner = owner.obj if isinstance(owner, memoryview) else owner
    return owner if type(owner).__name__ == "mmap" and owner in _paths else None


@attach
def is_shared(self: Tensor) -> bool:
    """Whether other processes can have the memory. Source: `torch.Tensor.is_shared`."""
    return _mapping_of(self.array) is not None


@attach
def share_memory_(self: Tensor) -> Tensor:
    """Move the values to memory that other processes can have; gives the tensor itself.

    Processes that are started from then on, and get the tensor as an argument, by fork, or through a queue,
    write where this one reads. Raises RuntimeError for a tensor that has views, or is one: they would stay
    behind.
    Source: `torch.Tensor.share_memory_`.

    >>> import fusegrad as fg
    >>> fg.ones(2).share_memory_().is_shared()
    True
    """
    if is_shared(self):
        return self
    if self.alias is not None:
        raise failure(
            RuntimeError,
            "share_memory_: the tensor has views or is one, which would stay in memory that is not shared: "
            "share it before views are taken, or share a clone",
        )
    if state.interpreter is not None:
        state.interpreter.effect("moves a tensor into shared memory")
    _tell_multiprocessing()
    array = np.ascontiguousarray(self.array)
    mapping = _new_mapping(array.nbytes)
    shared = np.frombuffer(mapping, array.dtype, array.size).reshape(array.shape)
    shared[...] = array
    self.array = shared
    watching.moved()
    return self


def _reduced(tensor: Tensor) -> Any:
    """What `multiprocessing` pickles of a tensor: its place in shared memory, or what every pickle has."""
    mapping = _mapping_of(tensor.array)
    if mapping is None:
        return tensor.__reduce_ex__(4)
    array = tensor.array
    start = (
        array.__array_interface__["data"][0] - np.frombuffer(mapping, np.uint8).__array_interface__["data"][0]
    )
    place = (array.dtype, array.shape, array.strides, start)
    return _attached, (type(tensor), _paths[mapping], place, tensor.needs_grad)


_opened: weakref.WeakValueDictionary[str, mmap.mmap] = weakref.WeakValueDictionary()


def _attached(kind: type, path: str, place: tuple[Any, ...], needs_grad: bool) -> Tensor:
    """A tensor in memory that another process made."""
    import mmap

    _tell_multiprocessing()
    mapping = _opened.get(path)
    if mapping is None:
        with open(path, "r+b") as file:
            mapping = mmap.mmap(file.fileno(), 0)
        _opened[path] = mapping
        _paths[mapping] = path
    dtype, shape, strides, start = place
    tensor = wrap_foreign(np.ndarray(shape, dtype, mapping, start, strides))
    tensor.__class__ = kind
    tensor.needs_grad = needs_grad
    return tensor


def _tell_multiprocessing() -> None:
    """Have `multiprocessing` pickle tensors as `_reduced` says."""
    from multiprocessing.reduction import ForkingPickler

    parameters: Any = sys.modules.get("fusegrad.eager.nn.parameter")
    for kind in (Tensor, *((parameters.Parameter, parameters.Buffer) if parameters else ())):
        ForkingPickler.register(kind, _reduced)
