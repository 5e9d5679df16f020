"""Views and writes: how a write into a tensor or into a view of it moves their places on the graph.

A view remembers the tensor that it is a view of, and the view ops that lead from there to it; the
base knows its views weakly. A write through any of them gives the base a new node (`CopySlices`),
and every view a new one, made from the base's by its ops when it is next asked for, as PyTorch does it.

Tensor.alias: of a view, (base, ((op, params), ...), origin); of a tensor with views, the `Views` that
know them (`writes/lagging.py`); else None.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from fusegrad.eager.autograd.node import place, record, share
from fusegrad.eager.autograd.writes.lagging import MANY, Lagging, Views, note, settle
from fusegrad.eager.autograd.writes.written import CopySlices, Refusal, Steps
from fusegrad.eager.core import shared
from fusegrad.eager.core.errors import failure, user_spot
from fusegrad.eager.core.names import attach
from fusegrad.eager.core.op import Op, Params, keep_graph
from fusegrad.eager.core.stand_in import putting_off, tell_others
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor

# Where a view comes from, if writes through it cannot be followed. The texts are PyTorch's.
NO_GRAD, INFERENCE, SEVERAL, FUNCTION = "no_grad", "inference", "several", "function"
_MADE_IN = (
    "{subject} created in {mode} mode and {what} modified inplace {outside}. Given that this use case is "
    "ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and the "
    "inplace either both inside the {block} block (if you don't want the inplace to be tracked) or both "
    "outside (if you want the inplace to be tracked)."
)
_SEVERAL = (
    "{subject} and {what} modified inplace{outside}. This view is the output of a function that returns "
    "multiple views. Such functions do not allow the output views to be modified inplace. You should replace "
    "the inplace operation by an out-of-place one."
)
_FUNCTION = (
    "{subject} and {what} modified inplace{outside}. This view was created inside a custom Function (or "
    "because an input was returned as-is) and the autograd logic to handle view+inplace would override the "
    "custom backward associated with the custom Function, leading to incorrect gradients. This behavior is "
    "forbidden. You can fix this by cloning the output of the custom Function."
)
LEAF = "a leaf Variable that requires grad is being used in an in-place operation"
LEAF_VIEW = "a view of a leaf Variable that requires grad is being used in an in-place operation"


def taken(view: Tensor, source: Tensor, op: Op, params: Params, recording: bool) -> None:
    """Note that `view` is what the view op gave for `source`; recording: grad mode is on."""
    origin = None if recording else INFERENCE if state.inference else NO_GRAD
    known: Any = source.alias
    if type(known) is tuple:
        base, (_, steps, before) = _behind(known[0]), known
        view.alias = (base, (*steps, (op, params)), origin or before)
        known = base.alias
    else:
        base = source
        view.alias = (source, ((op, params),), origin)
    if not (recording or base.needs_grad):
        return  # nothing that can be on a graph: most of these are a backward's own
    note(base, view)
    if type(view.alias[2]) is tuple:
        base.alias.refusing.append(weakref.ref(view))


def step_behind(tensor: Tensor) -> None:
    """Make `tensor` a view like those that it has, of a base that nobody else holds.

    Then it can become another view of that, and the steps that lead to its views stay what they are.
    """
    base = share(tensor)
    if tensor.grad_fn is not None:
        place(base, tensor.grad_fn, tensor.output_index)
    views = views_of(tensor)
    base.alias, tensor.alias = tensor.alias, (base, (), None)
    note(base, tensor)
    for view in views:
        _, steps, origin = view.alias
        view.alias = (base, steps, origin)


def _behind(base: Tensor) -> Tensor:
    """The base, or what it has stepped behind since: of views that it did not note it knew nothing."""
    while type(base.alias) is tuple:
        base = base.alias[0]
    return base


def several(views: Sequence[Tensor], name: str, first: int = 0) -> tuple[Tensor, ...]:
    """Mark the views that one call of `name` (a node's name) gave: they may not be written in place.

    first: the number of the first of them.
    """
    for index, view in enumerate(views, first):
        if type(view.alias) is tuple and view.alias[2] is None:
            refused_when_written(view, view.alias[0], view.alias[1], (SEVERAL, index, name))
    return tuple(views)


def refused_when_written(view: Tensor, base: Tensor, steps: Steps, origin: Any) -> None:
    """Make `view` one that may not be written, nor used after what it is a view of was."""
    view.alias = (base, steps, origin)
    note(base, view)
    _behind(base).alias.refusing.append(weakref.ref(view))


def unrelated(views: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Have autograd take views of one tensor for tensors of their own, each written for itself."""
    for view in views:
        shared.part(view.version)
        view.alias, view.version = None, [0, None, shared.Parted()]
    return tuple(views)


def become(tensor: Tensor, result: Tensor) -> None:
    """Give a tensor without values those of `result`, and its place on the graph. It knows what it views."""
    for slot in ("array", "grad_fn", "needs_grad", "output_index", "version"):
        setattr(tensor, slot, getattr(result, slot))
    if type(tensor.alias) is tuple:
        note(tensor.alias[0], tensor)


def owned(view: Tensor) -> Tensor:
    """Have autograd take a view of what nobody else has for none, as PyTorch's op gives none."""
    if type(view.alias) is tuple:
        view.alias = None
    return view


def base_of(tensor: Tensor) -> Tensor:
    """The tensor whose memory `tensor` is a view of; itself, if it is no view."""
    alias = tensor.alias
    if type(alias) is not tuple:
        return tensor
    base = _behind(alias[0])
    # Whoever gave either a new array parted them.
    return base if not tensor.array.size or np.may_share_memory(base.array, tensor.array) else tensor


def _base(self: Tensor) -> Tensor | None:
    """What the tensor is a view of, or None."""
    base = base_of(self)
    return None if base is self else base


attach(property(_base), "_base")


@attach
def _is_view(self: Tensor) -> bool:
    """Whether a view op made it."""
    return base_of(self) is not self


def check_write(target: Tensor, name: str) -> None:
    """Refuse a recorded write that cannot be followed. Raises RuntimeError."""
    base = base_of(target)
    if base is not target:
        origin = target.alias[2]
        if origin is not None:
            raise failure(RuntimeError, f"{name}: {_refusal(target, 'is being')}")
        if _is_leaf_to_writes(base):
            raise failure(RuntimeError, f"{name}: {LEAF_VIEW} ({_described(target)})")
    if _is_leaf_to_writes(target):
        what = LEAF_VIEW if name == "__setitem__" else LEAF
        raise failure(
            RuntimeError, f"{name}: {what} ({_described(target)}); use no_grad(), or the out-of-place form"
        )


def begin_at_base(target: Tensor) -> None:
    """Give a view that is about to be written the node that it has from its base, where it has another.

    For what a write takes of a view its hooks are not called, and a view that reaches further than what it
    was taken of has elements from there: PyTorch goes on from the base. Others took it as it was.
    """
    base, node = base_of(target), target.maker
    if base is target or base.maker is None or node is None or node.refused:
        return
    if not _lead_to(node, target.alias[1]) or (node.extra is not None and node.extra.calls()):
        Lagging(base).catch_up(target)


def _lead_to(node: Any, steps: Steps) -> bool:
    """Whether `steps` from the base are what leads to `node`."""
    for _, params in reversed(steps):
        if getattr(node, "params", None) is not params:
            return False
        node = node.edges[0][1] if node.edges else None
    return True


def _is_leaf_to_writes(tensor: Tensor) -> bool:
    """Whether derivatives may be asked for by `tensor` as it is, so that no write may be recorded."""
    if not tensor.needs_grad:
        return False
    node = tensor.grad_fn
    return node is None or node.argument


def _described(tensor: Tensor) -> str:
    return f"{tensor.array.dtype.name}{list(tensor.array.shape)}"


def _refusal(view: Tensor, what: str) -> str:
    """Why a write that the origin of `view` stands in the way of is refused."""
    origin, node = view.alias[2], view.maker
    if origin in (NO_GRAD, INFERENCE):
        inference, subject = origin == INFERENCE, "A view was"
        if node is not None and not node.refused:
            name = node.name().removesuffix("Backward0")
            subject = f"Output {view.output_index} of {name} is a view of a view which was"
        return _MADE_IN.format(
            subject=subject,
            mode=origin,
            what=what,
            outside="in normal mode" if inference else "with grad mode enabled",
            block="inference_mode" if inference else "no_grad",
        )
    kind, index, name = origin
    subject, outside = f"Output {index} of {name.removesuffix('Backward0')} is a view", ""
    if not name:  # of what needed no gradient
        subject, outside = "A view was created in no_grad mode", " with grad mode enabled"
    return (_SEVERAL if kind == SEVERAL else _FUNCTION).format(subject=subject, what=what, outside=outside)


# Before a write.


def ask_before_write(version: list[Any], reader: Any) -> None:
    """Have `reader.before_write(version)` called before the memory that `version` counts is written.

    Compiled backwards read memory that eager's would not have kept; readers are held weakly.
    """
    if type(version) is not list:
        return
    if len(version) < 3:
        version.append([])
    readers = version[2]
    many = len(readers)
    if many >= MANY and not many & (many - 1):  # each time that there are twice as many
        readers[:] = [r for r in readers if r() is not None]
    readers.append(weakref.ref(reader))


def tell_readers(tensor: Tensor) -> None:
    """Let those who asked take copies before `tensor` is written; they need not be told again."""
    if putting_off:
        tell_others(tensor.array)
    version: Any = tensor.version
    if len(version) > 2:
        readers = version[2]
        if type(readers) is shared.Parted:
            if readers:
                version[2] = shared.Parted()
            shared.tell_watching(tensor)
        else:
            version.pop()
        for reference in readers:
            reader = reference()
            if reader is not None:
                reader.before_write(version)


# After a write.


def count_write(tensor: Tensor, spot: Any) -> None:
    """Count a write into the memory of `tensor` that changes no place on the graph, done at `spot`."""
    version = tensor.version
    if tensor.alias is not None or type(version) is not list:
        wrote(tensor)
        return
    version[0] = number = version[0] + 1
    version[1] = (number, spot)


def count_writes(tensors: Sequence[Tensor], spot: Any) -> None:
    """`tell_readers` and `count_write` for the memory of each: all of a step's parameters, say."""
    for tensor in tensors:
        version: Any = tensor.version
        if putting_off or tensor.alias is not None or type(version) is not list or len(version) > 2:
            tell_readers(tensor)
            count_write(tensor, spot)
        else:
            version[0] = number = version[0] + 1
            version[1] = (number, spot)


# Writes that leave nothing of what was there: it gets a gradient of zeros, and not none.
OVERWRITING = ("copy_", "fill_", "zero_")


def overwrites(result: Tensor, name: str) -> bool:
    """Whether a recorded write of `result` by `name` cuts off what was there before."""
    return not result.needs_grad or result.grad_fn is None or name in OVERWRITING


def wrote(target: Tensor) -> None:
    """Count a write into the memory of `target`, and note where it was."""
    version: Any = target.version
    number = version.count_write() if type(version) is not list else version[0] + 1
    version[0] = number
    version[1] = (number, user_spot(4))  # of whoever wrote: a method, and what it calls
    base = base_of(target)
    known = base.alias
    if type(known) is Views and known.refusing and base.needs_grad:
        for view in known.take_refusing():
            if base_of(view) is base:
                refuse(view)


def follow(target: Tensor, result: Tensor, name: str) -> None:
    """Give `target`, its base and its views their places on the graph after `result` was written there."""
    if result.needs_grad and result.grad_fn is not None:
        result.grad_fn.keep_written(result.output_index, result, target)
    base = base_of(target)
    if base is not target:
        moved(base, target.alias[1], result, name)
        return
    if overwrites(result, name):
        moved(target, (), result, name)
    else:
        assert result.grad_fn is not None
        settle(target, result.grad_fn, result.output_index)
        refresh(target)


def moved(base: Tensor, steps: Steps, value: Tensor, name: str) -> None:
    """Give `base` its place after `value` was written where the view ops `steps` lead."""
    settle(base, CopySlices(base, steps, value, name), 0)
    refresh(base)


def views_of(base: Tensor) -> list[Tensor]:
    """The living views of `base`."""
    found = base.alias.living() if type(base.alias) is Views else []
    return [v for v in found if base_of(v) is base]


def seen_by_others(tensor: Tensor) -> bool:
    """Whether there are views of `tensor`, which may be a view itself."""
    base = base_of(tensor)
    steps: Steps = () if base is tensor else tensor.alias[1]
    return any(v is not tensor and v.alias[1][: len(steps)] == steps for v in views_of(base))


def refresh(base: Tensor) -> None:
    """Tell the views of `base` that it is elsewhere on the graph now."""
    known = base.alias
    if not base.needs_grad or type(known) is not Views:
        return
    lagging, fresh = known.moved(base)
    for view in fresh:
        if base_of(view) is not base:
            continue
        if view.alias[2] is not None:
            refuse(view)
        else:
            lagging.tell(view)


def refuse(view: Tensor) -> None:
    """Let `view` raise when it is used on the graph."""
    refusal = Refusal(_refusal(view, "its base or another view of its base has been"))
    view.needs_grad, view.grad_fn, view.output_index = True, refusal, 0


keep_graph(record, taken)
