"""Adding to the `.grad` of leaves."""

from __future__ import annotations

import numpy as np

from fusegrad.eager.autograd import hooks
from fusegrad.eager.autograd.node import is_writable, replaced_gradient
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor


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
    known = leaf.grad
    if known is not None and not create_graph:
        add_into(leaf, gradient, taken)
        return
    version = 0 if known is None else known.version[0]
    if create_graph:
        made = gradient if known is None else known + gradient
    else:
        array = gradient.array
        if (array.base is not None and not fresh) or id(array) in taken:
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


def add_into(leaf: Tensor, gradient: Tensor, taken: set[int]) -> None:
    """`leaf.grad += gradient`, in the memory of `leaf.grad`, as PyTorch does it, if nobody else holds it.

    A signal handler, or another thread, may add to it as well: Python may call them wherever a call has
    returned, and so nowhere between the last look at `leaf.grad` and the sum.
    """
    known = leaf.grad
    assert known is not None
    version, aside = known.version[0], not is_writable(known, gradient, taken)
    interpreter = state.interpreter
    total = None if interpreter is None else known + gradient
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
        if leaf.grad is known:
            np.add(array, added, array)
            known.version[0] += 1
            if interpreter is not None:
                interpreter.wrote(known, total)
            return
    accumulate(leaf, gradient, False, taken, False)


def add_to_leaf(leaf: Tensor, gradient: Tensor, create_graph: bool, taken: set[int]) -> None:
    """Add a leaf's whole gradient to its `.grad`, and call the hooks for when that is done."""
    first = leaf.grad is None
    accumulate(leaf, gradient, create_graph, taken, False)
    for hook in list(leaf.__dict__.get(hooks.ACCUMULATED, {}).values()):
        if hook(leaf) is not None:
            raise RuntimeError("Tensor post accumulate grad hooks should return None.")
    # As in PyTorch, where the first gradient becomes `.grad` itself.
    came = leaf.grad if first and leaf.grad is not None else gradient
    for hook in list(leaf.__dict__.get(hooks.AFTER, {}).values()):
        hook(came)
