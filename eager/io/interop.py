"""Tensors and other array libraries: DLPack both ways, and what NumPy's functions make of tensors."""

from __future__ import annotations

import copy
import copyreg
from typing import Any

import numpy as np

from fusegrad.eager.autograd import hooks
from fusegrad.eager.autograd.node import reach, share
from fusegrad.eager.core import shared
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.names import attach, publish
from fusegrad.eager.core.op import wrap, wrap_foreign
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.places.device import on_cpu
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.overrides.asking import of_class

# What the engine itself keeps on tensors: hooks, and what belongs to the graph of this process.
OWN_ATTRIBUTES = frozenset({*hooks.PLACES, "_accumulate_grad_metadata"})
OWN_SLOTS = frozenset(copyreg._slotnames(Tensor))  # type: ignore[attr-defined]
_CPU = (1, 0)  # DLPack's number for the CPU, and the device's


@attach
def __array_wrap__(
    self: Tensor, array: np.ndarray, context: Any = None, return_scalar: bool = False
) -> Tensor:
    """What NumPy's functions give for tensors is a tensor; bools become uint8, as in PyTorch."""
    array = np.asarray(array)
    return ops.from_numpy(array.astype(np.uint8) if array.dtype == np.bool_ else array)


@attach
def __dlpack_device__(self: Tensor) -> tuple[int, int]:
    """Where the memory is, for DLPack: the CPU."""
    return _CPU


@attach
def __dlpack__(
    self: Tensor,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """A capsule with the tensor's memory (a copy, if `copy`), for `from_dlpack` of any library.

    Raises BufferError for a tensor that requires gradients. Source: `torch.Tensor.__dlpack__`.
    """
    if self.requires_grad:
        raise failure(BufferError, "Can't export tensors that require gradient, use tensor.detach()")
    if stream not in (None, -1):
        raise failure(BufferError, "stream must be None on the CPU")
    array = self._leave("__dlpack__", self._lent)
    return array.__dlpack__(max_version=max_version, dl_device=dl_device, copy=copy)


class _Capsule:
    """A bare DLPack capsule in the form in which NumPy takes it."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU


@publish
def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor with the memory of another library's array (or of a DLPack capsule).

    copy: True for memory of its own, False to refuse where sharing is not possible. Arrays that may not
    be written (JAX's, and bare capsules, which cannot say) give tensors that may not be either. Raises
    TypeError for what has no DLPack, BufferError for arrays on other devices. Source: `torch.from_dlpack`.

    >>> import fusegrad as fg, numpy as np
    >>> array = np.zeros(2)
    >>> x = fg.from_dlpack(array)
    >>> array[0] = 7
    >>> x
    tensor([7., 0.], dtype=torch.float64)
    """
    on_cpu(device)
    if type(ext_tensor).__name__ == "PyCapsule":
        ext_tensor = _Capsule(ext_tensor)
    if not hasattr(ext_tensor, "__dlpack__"):
        raise failure(
            TypeError,
            f"an array with __dlpack__ or a DLPack capsule is needed, not {type(ext_tensor).__name__}",
        )
    return ops.from_numpy(np.from_dlpack(ext_tensor, copy=copy))


@attach
def __copy__(self: Tensor) -> Tensor:
    """`copy.copy`: the same memory, as a leaf, with the same attributes."""
    reach(self)
    tensor = of_class(share(self), type(self))
    tensor.needs_grad = self.needs_grad
    _set(tensor, _attributes(self), _slots(self))
    return tensor


@attach
def __deepcopy__(self: Tensor, memo: dict[int, Any]) -> Tensor:
    """`copy.deepcopy`: memory of its own, as this lies, and shared with the copies of those that share this,
    with the gradient and the attributes.

    Raises RuntimeError for a tensor that an op made.
    """
    if self.grad_fn is not None:
        raise failure(
            RuntimeError,
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the "
            "moment; detach() first",
        )
    array, others = self._leave("deepcopy", lambda: shared.copied(self.array, memo))
    tensor = of_class(wrap(array), type(self))
    others.append(tensor)
    for other in others if len(others) > 1 else ():
        shared.part(other.version)  # each counts its own writes
    tensor.needs_grad = self.needs_grad
    memo[id(self)] = tensor
    tensor.gradient = copy.deepcopy(self.gradient, memo)
    _set(tensor, *copy.deepcopy((_attributes(self), _slots(self)), memo))
    return tensor


@attach
def __reduce__(self: Tensor) -> Any:
    """Pickling: the values as a leaf, with the attributes. The graph and the gradient stay behind."""
    content = (type(self), self._leave("pickle", lambda: self.array), self.needs_grad)
    return _rebuild, content, own_state(self)


def _rebuild(kind: type[Tensor], array: np.ndarray, needs_grad: bool) -> Tensor:
    tensor = of_class(wrap_foreign(array), kind)
    tensor.needs_grad = needs_grad
    return tensor


def own_state(tensor: Tensor) -> Any:
    """What a tensor has that its memory does not say, as pickles have it; None where there is nothing.

    It is what its class gives by `__getstate__`, or attributes, or a pair: these, and what it has in slots.
    """
    if type(tensor).__getstate__ is not object.__getstate__:
        return tensor.__getstate__()
    attributes, slots = _attributes(tensor), _slots(tensor)
    return (attributes, slots) if slots else attributes or None


def _attributes(tensor: Tensor) -> dict[str, Any]:
    """What the user set on a tensor: everything but hooks."""
    return {name: value for name, value in tensor.__dict__.items() if name not in OWN_ATTRIBUTES}


def _slots(tensor: Tensor) -> dict[str, Any]:
    """What a tensor of a user's class has in slots of that class."""
    names = [name for name in copyreg._slotnames(type(tensor)) if name not in OWN_SLOTS]  # type: ignore[attr-defined]
    return {name: getattr(tensor, name) for name in names if hasattr(tensor, name)}


def _set(tensor: Tensor, attributes: dict[str, Any], slots: dict[str, Any]) -> None:
    tensor.__dict__.update(attributes)
    for name, value in slots.items():
        setattr(tensor, name, value)
