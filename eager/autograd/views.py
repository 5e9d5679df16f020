"""Views and writes: how a write into a tensor or into a view of it moves their places on the graph.

A view remembers the tensor that it is a view of, and the view ops that lead from there to it; the
base knows its views weakly. A write through any of them gives the base a new node (`CopySlices`),
and every view a new one, made from the base's by its ops, as PyTorch does it.

Tensor.alias: of a view, (base, ((op, params), ...), origin); of a tensor with views, a list of a
number (when to look for dead ones) and weak references to them; else None.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from fusegrad.eager.autograd.node import Node, constant, edge_of, place, record, share
from fusegrad.eager.core import families, shared
from fusegrad.eager.core.errors import failure, user_spot
from fusegrad.eager.core.names import attach
from fusegrad.eager.core.op import Op, Params, bind, keep_graph, wrap
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.stand_in import plain
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor

Steps = tuple[tuple[Op, Params], ...]

# Where a view comes from, if writes through it cannot be followed. The texts are PyTorch's.
NO_GRAD, INFERENCE, SEVERAL, FUNCTION = "no_grad", "inference", "several", "function"
_MADE_IN = (
    "{subject} created in {mode} mode and {what} modified inplace {outside}. Given that this use case is "
    "ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and the "
    "inplace either both inside the {block} block (if you don't want the inplace to be tracked) or both "
    "outside (if you want the inplace to be tracked)."
)
_SEVERAL = (
    "Output {index} of {name} is a view and {what} modified inplace. This view is the output of a function "
    "that returns multiple views. Such functions do not allow the output views to be modified inplace. You "
    "should replace the inplace operation by an out-of-place one."
)
_FUNCTION = (
    "Output {index} of {name} is a view and {what} modified inplace. This view was created inside a custom "
    "Function (or because an input was returned as-is) and the autograd logic to handle view+inplace would "
    "override the custom backward associated with the custom Function, leading to incorrect gradients. This "
    "behavior is forbidden. You can fix this by cloning the output of the custom Function."
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
    if known is None:
        base.alias = [_MANY, _weakly(view)]
    else:
        known.append(_weakly(view))
        if len(known) > known[0]:
            alive = [r for r in known[1:] if r() is not None]
            known[:] = [max(_MANY, 2 * len(alive)), *alive]


_weakly = weakref.ref
_MANY = 32


def step_behind(tensor: Tensor) -> None:
    """Make `tensor` a view like those that it has, of a base that nobody else holds.

    Then it can become another view of that, and the steps that lead to its views stay what they are.
    """
    base = share(tensor)
    if tensor.grad_fn is not None:
        place(base, tensor.grad_fn, tensor.output_index)
    views = views_of(tensor)
    base.alias = [_MANY, *map(_weakly, [*views, tensor])]
    for view in views:
        _, steps, origin = view.alias  # type: ignore[misc]
        view.alias = (base, steps, origin)
    tensor.alias = (base, (), None)


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
            view.alias = (*view.alias[:2], (SEVERAL, index, name))
    return tuple(views)


def unrelated(views: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Have autograd take views of one tensor for tensors of their own, each written for itself."""
    for view in views:
        shared.part(view.version)
        view.alias, view.version = None, [0, None, shared.Parted()]
    return tuple(views)


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
        origin = target.alias[2]  # type: ignore[index]
        if origin is not None:
            raise failure(RuntimeError, f"{name}: {_refusal(origin, 'is being')}")
        if base.needs_grad and base.grad_fn is None:
            raise failure(RuntimeError, f"{name}: {LEAF_VIEW} ({_described(target)})")
    if target.needs_grad and target.grad_fn is None:
        what = LEAF_VIEW if name == "__setitem__" else LEAF
        raise failure(
            RuntimeError, f"{name}: {what} ({_described(target)}); use no_grad(), or the out-of-place form"
        )


def _described(tensor: Tensor) -> str:
    return f"{tensor.array.dtype.name}{list(tensor.array.shape)}"


def _refusal(origin: Any, what: str) -> str:
    """Why a write that `origin` stands in the way of is refused."""
    if origin in (NO_GRAD, INFERENCE):
        inference = origin == INFERENCE
        return _MADE_IN.format(
            subject="A view was",
            mode=origin,
            what=what,
            outside="in normal mode" if inference else "with grad mode enabled",
            block="inference_mode" if inference else "no_grad",
        )
    kind, index, name = origin
    return (_SEVERAL if kind == SEVERAL else _FUNCTION).format(
        index=index, name=name.removesuffix("Backward0"), what=what
    )


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
    if len(readers) >= _MANY:
        readers[:] = [r for r in readers if r() is not None]
    readers.append(weakref.ref(reader))


def tell_readers(tensor: Tensor) -> None:
    """Let those who asked take copies before `tensor` is written; they need not be told again."""
    version: Any = tensor.version
    if len(version) > 2:
        readers = version[2]
        if type(readers) is shared.Parted:
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
        if tensor.alias is not None or type(version) is not list or len(version) > 2:
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
    if type(base.alias) is list and base.needs_grad:
        for view in views_of(base):
            if type(view.alias[2]) is tuple:  # type: ignore[index]
                refuse(view)


def follow(target: Tensor, result: Tensor, name: str) -> None:
    """Give `target`, its base and its views their places on the graph after `result` was written there."""
    if result.needs_grad and result.grad_fn is not None:
        result.grad_fn.keep_written(result.output_index, result, target)
    base = base_of(target)
    if base is not target:
        moved(base, target.alias[1], result, name)  # type: ignore[index]
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


def settle(tensor: Tensor, node: Node, index: int) -> None:
    """Make `tensor` the output `index` of `node`; a gradient that it retains is asked for there."""
    old = tensor.grad_fn
    if old is not None and old.extra is not None:
        reference = old.extra.retained.get(tensor.output_index)
        if reference is not None and reference() is tensor:
            del old.extra.retained[tensor.output_index]
            node.extras().retained[index] = reference
    tensor.needs_grad, tensor.grad_fn, tensor.output_index = True, node, index


def views_of(base: Tensor) -> list[Tensor]:
    """The living views of `base`."""
    found = [r() for r in base.alias[1:]] if type(base.alias) is list else []
    return [v for v in found if v is not None and base_of(v) is base]


def seen_by_others(tensor: Tensor) -> bool:
    """Whether there are views of `tensor`, which may be a view itself."""
    base = base_of(tensor)
    steps: Steps = () if base is tensor else tensor.alias[1]  # type: ignore[index]
    return any(v is not tensor and v.alias[1][: len(steps)] == steps for v in views_of(base))  # type: ignore[index]


def refresh(base: Tensor) -> None:
    """Give every view of `base` a node that leads to where `base` is on the graph now."""
    if not base.needs_grad:
        return
    for view in views_of(base):
        _, steps, origin = view.alias  # type: ignore[misc]
        if origin is not None:
            refuse(view)
            continue
        made = base
        for op, params in steps:
            # Only where it lies is asked, also of what has no values yet.
            viewed = wrap(op.evaluate((wrap(plain(made.array)),), params))
            record(op, (made,), params, (viewed,))
            made = viewed
        if made.grad_fn is not None:
            settle(view, made.grad_fn, made.output_index)


def refuse(view: Tensor) -> None:
    """Let `view` raise when it is used on the graph."""
    refusal = Refusal(_refusal(view.alias[2], "its base or another view of its base has been"))  # type: ignore[index]
    view.needs_grad, view.grad_fn, view.output_index = True, refusal, 0


class Refusal(Node):
    """The node of a tensor whose gradient cannot be followed any more: using it is an error."""

    __slots__ = ("refused",)
    edges = ()

    def __init__(self, refused: str) -> None:
        self.begin()
        self.refused = refused
        self.inputs, self.outputs = (), ()

    def name(self) -> str:
        """Not PyTorch's: there the error comes when the node is asked for."""
        return "Refusal"


class CopySlices(Node):
    """A write of `value` into the part of `base` where view ops lead; into all of it if there are none.

    What was there before gets no gradient, the rest of the base all of it.
    """

    __slots__ = ("_name", "_steps")

    def __init__(self, base: Tensor, steps: Steps, value: Tensor, name: str) -> None:
        self.begin()
        self._steps = steps
        plain = "".join(part.capitalize() for part in name.strip("_").split("_"))
        self._name = "CopySlices" if steps else f"{plain}Backward0"
        self.types = self.output_types = [(base.array.shape, base.array.dtype)]
        self.types = [*self.types, (value.array.shape, value.array.dtype)]
        self.edges = [(i, *edge_of(t)) for i, t in enumerate((base, value)) if t.needs_grad]
        self.versions = []
        self.inputs = ()

    def name(self) -> str:
        return self._name

    def apply(self, gradients: list[Tensor | None], edges: Any = None) -> list[Tensor | None]:
        (g,) = gradients
        assert g is not None
        return [self._inside(g) if i else self._outside(g) for i, _, _ in edges or self.edges]

    def _inside(self, g: Tensor) -> Tensor:
        """The part of `g` that was written."""
        for op, params in self._steps:
            g = bind(op, (g,), params)
        return families.fit(g, *self.types[1])

    def _outside(self, g: Tensor) -> Tensor:
        """`g` with zeros where it was written."""
        if not self._steps:
            return constant(0, g.array.shape, g.array.dtype)
        if state.grad_enabled or state.interpreter is not None:
            mask = np.zeros(g.array.shape, bool)
            self._fill(mask, True)
            where = wrap(mask)
            if state.interpreter is not None:
                state.interpreter.constant(where)
            return ops.where(where, 0, g)
        result = np.array(g.array, order="C")
        self._fill(result, 0)
        return wrap(result)

    def _fill(self, array: np.ndarray, value: Any) -> None:
        """Write `value` into the part of a row-major `array`."""
        part = self._part(array)
        if part.flags.writeable and np.may_share_memory(part, array):
            part[...] = value
        else:
            # The base lay so that these ops gave a view; on this array they copy. Go by positions.
            array.reshape(-1)[self._part(np.arange(array.size).reshape(array.shape))] = value

    def _part(self, array: np.ndarray) -> np.ndarray:
        for op, params in self._steps:
            array = op.evaluate((wrap(array),), params)
        return array


keep_graph(record, taken)
