"""`.grad`: what backward adds to it, and how programs read, set and delete it.

What is ours reads and sets the slot, `Tensor.gradient`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fusegrad.eager.autograd import hooks
from fusegrad.eager.autograd.node import is_writable, replaced_gradient
from fusegrad.eager.core.errors import failure, warn
from fusegrad.eager.core.names import attach
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor

NOT_A_LEAF = (
    "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't "
    "be populated during autograd.backward(). If you indeed want the .grad field to be populated for a "
    "non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by "
    "mistake, make sure you access the leaf Tensor instead. See github.com/pytorch/pytorch/pull/30531 for "
    "more information."
)


def accumulate(leaf: Tensor, gradient: Tensor, create_graph: bool, taken: set[int], fresh: bool) -> None:
    """Add `gradient` to `leaf.grad`, if the leaf still requires grad.

    taken: ids of arrays that somebody else may hold (the roots' gradients, other leaves'). An
    array that is not among them and is no view becomes `.grad` itself; others are copied.
    Until the walk ends an array that became `.grad` may be on its way to a node as well, and is not written.
    fresh: the node made the array's memory for this gradient, although it may be a view of it.
    """
    if not leaf.needs_grad:
        return
    interpreter = state.interpreter
    if interpreter is not None:
        interpreter.sees_gradient(leaf)
    known = leaf.gradient
    if known is not None and not create_graph:
        add_into(leaf, gradient, taken)
        return
    version = 0 if known is None else known.version[0]
    if create_graph:
        made = gradient if known is None else known + gradient
    else:
        array = gradient.array
        if array.strides != leaf.array.strides and _lies_otherwise(array, leaf.array):
            array = _laid_as(leaf.array, array)
        elif (array.base is not None and not fresh) or id(array) in taken:
            array = np.array(array)
        else:
            taken.add(id(array))
        made = wrap(array)
        if interpreter is not None:
            interpreter.copied(made, gradient)
    if interpreter is not None:
        interpreter.before_gradient(leaf)
    if not replaced_gradient(leaf, known, version, made):
        accumulate(leaf, gradient, create_graph, taken, fresh)


def _lies_otherwise(array: np.ndarray, leaf: np.ndarray) -> bool:
    """Whether a gradient is not in the order of its leaf's memory, in which `.grad` lies, as in PyTorch."""
    if array.flags.c_contiguous and leaf.flags.c_contiguous:
        return False
    return _empty_as(leaf, array.dtype).strides != array.strides


def _laid_as(leaf: np.ndarray, array: np.ndarray) -> np.ndarray:
    laid = _empty_as(leaf, array.dtype)
    np.copyto(laid, array)
    return laid


def _empty_as(leaf: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Memory in the order of a leaf's, or in rows where its elements share memory or have gaps in between."""
    return np.empty_like(leaf, dtype) if _is_dense(leaf) else np.empty(leaf.shape, dtype)


def _is_dense(array: np.ndarray) -> bool:
    """Whether its elements fill a stretch of memory, each place once."""
    step = array.itemsize
    for stride, n in sorted(zip(array.strides, array.shape, strict=True)):
        if n != 1 and stride != step:
            return False
        step *= n
    return True


def add_into(leaf: Tensor, gradient: Tensor, taken: set[int]) -> None:
    """`leaf.grad += gradient`, in the memory of `leaf.grad`, as PyTorch does it, if nobody else holds it.

    A signal handler, or another thread, may add to it as well: Python may call them wherever a call has
    returned, and so nowhere between the last look at `leaf.grad` and the sum.
    """
    if not leaf.needs_grad:
        return  # it was frozen since
    known = leaf.gradient
    assert known is not None
    try:
        version, aside = known.version[0], not is_writable(known, gradient, taken)
        interpreter = state.interpreter
        total = None if interpreter is None and not known.is_meta else known + gradient
        if aside:
            made = wrap(known.array + gradient.array) if total is None else total
            if interpreter is not None:
                interpreter.before_gradient(leaf)
            if replaced_gradient(leaf, known, version, made):
                return
        else:
            if interpreter is not None:
                interpreter.before_write(known)
            array, added = known.array, gradient.array
            if leaf.gradient is known:
                np.add(array, added, array)
                known.version[0] += 1
                if interpreter is not None:
                    interpreter.wrote(known, total)
                return
        accumulate(leaf, gradient, False, taken, False)
    except ValueError as error:
        raise _misfit(error, known, gradient) from None


def _misfit(error: ValueError, known: Tensor, gradient: Tensor) -> Exception:
    """What is raised in the place of `error`, with which a gradient was added to `known`, another one."""
    if known.array.shape == gradient.array.shape:
        return error
    return failure(
        RuntimeError,
        f"backward: a gradient of shape {list(gradient.array.shape)} cannot be added to the `.grad` of shape "
        f"{list(known.array.shape)}, from before the tensor's data got another shape; set it to None",
    )


def add_to_leaf(leaf: Tensor, gradient: Tensor, create_graph: bool, taken: set[int]) -> None:
    """Add a leaf's whole gradient to its `.grad`, and call the hooks for when that is done."""
    first = leaf.gradient is None
    accumulate(leaf, gradient, create_graph, taken, False)
    for hook in list(leaf.__dict__.get(hooks.ACCUMULATED, {}).values()):
        if hook(leaf) is not None:
            raise RuntimeError("Tensor post accumulate grad hooks should return None.")
    for averaging in leaf.__dict__.get(hooks.AVERAGED, ()):
        averaging.came()
    # As in PyTorch, where the first gradient becomes `.grad` itself.
    came = leaf.gradient if first and leaf.gradient is not None else gradient
    for hook in list(leaf.__dict__.get(hooks.AFTER, {}).values()):
        hook(came)


# As programs have it.


def grad(self: Tensor) -> Tensor | None:
    """The accumulated gradient of a leaf, or None; of what is no leaf only after `retain_grad`."""
    gradient = self.gradient
    if gradient is None and self.grad_fn is not None and warns_of_gradient(self):
        warn(NOT_A_LEAF)
    return gradient


def warns_of_gradient(tensor: Tensor) -> bool:
    """Whether to read `.grad` is a mistake: no backward will put one there."""
    return tensor.gradient is None and tensor.grad_fn is not None and not hooks.retains_grad(tensor)


def check_gradient(tensor: Tensor, value: Any) -> None:
    """Raises TypeError for what is no tensor, RuntimeError for one that cannot be this tensor's gradient."""
    if value is None:
        return
    if not isinstance(value, Tensor):
        kind = type(value).__name__
        raise failure(TypeError, f"assigned grad expected to be a Tensor or None but got grad of type {kind}")
    if value is tensor:
        raise failure(RuntimeError, "can't assign Variable as its own grad")
    mine, given = tensor.array, value.array
    if given.dtype != mine.dtype:
        raise failure(
            RuntimeError,
            f"attempting to assign a gradient with dtype '{given.dtype.name}' to a tensor of dtype "
            f"'{mine.dtype.name}'. Please ensure that the gradient and the tensor have the same dtype",
        )
    if given.shape != mine.shape:
        raise failure(
            RuntimeError,
            f"attempting to assign a gradient of size '{list(given.shape)}' to a tensor of size "
            f"'{list(mine.shape)}'. Please ensure that the gradient and the tensor are the same size",
        )


def gradient_of(tensor: Tensor) -> Tensor | None:
    """A tensor's `.grad`, whose presence decides something; an interpreter is told."""
    if state.interpreter is not None:
        state.interpreter.sees_gradient(tensor)
    return tensor.gradient


def set_gradient(tensor: Tensor, gradient: Tensor | None) -> None:
    """Make `gradient` the `.grad` of `tensor`; an interpreter is told."""
    if state.interpreter is not None:
        state.interpreter.before_gradient(tensor)
    tensor.gradient = gradient


def _set(self: Tensor, value: Any) -> None:
    check_gradient(self, value)
    self.gradient = value


def _delete(self: Tensor) -> None:
    self.gradient = None


attach(property(grad, _set, _delete), "grad")
