"""Hooks on gradients: where they are kept, and how they are called.

A tensor that an op made has its hooks on the node that made it (`Extra`), a leaf in its own
dictionary. Where there are none, a backward asks once per node and once per leaf.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.names import attach
from fusegrad.eager.core.stand_in import give_values, putting_off
from fusegrad.eager.core.state import refuse_transforms, state
from fusegrad.eager.core.tensor import Tensor

Hooks = dict[int, Callable[..., Any]]


# By id: tensors beside the way that gradients take, of which those that come later were not made: items of
# lists that the rounds of a loop appended which a capture left out.
beside: weakref.WeakValueDictionary[int, Tensor] = weakref.WeakValueDictionary()


def refuse_beside(tensor: Any, name: str) -> None:
    """Raise RuntimeError for a tensor whose gradient would lack what comes of it later."""
    if beside and beside.get(id(tensor)) is tensor:
        raise failure(
            RuntimeError,
            f"{name}: the gradient of this item is not known, as the rounds of the loop that appended it are "
            "compiled as one. Put it into a variable in its round (`if t == 5: kept = h`), or call the "
            "function without jit.",
        )


class RemovableHandle:
    """Takes a hook away again: `handle.remove()`, or at the end of a `with`.

    Without a hook whoever made the handle puts it under the handle's `id`, and more about it into what
    `extra_dict` is, a dict or a list of such, as with `torch.utils.hooks.RemovableHandle`.
    """

    _next = 0

    def __init__(self, hooks: Hooks, hook: Any = None, *, extra_dict: Any = None) -> None:
        self._hooks = hooks
        self.id = RemovableHandle._next
        RemovableHandle._next += 1
        self._extra = [extra_dict] if isinstance(extra_dict, dict) else extra_dict or []
        if hook is not None:
            hooks[self.id] = hook

    def hooks_dict_ref(self) -> Hooks:
        """The hooks among which this one is."""
        return self._hooks

    def remove(self) -> None:
        """Remove the hook; removing it again does nothing."""
        for place in (self._hooks, *self._extra):
            place.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


class Extra:
    """What few nodes have.

    tensors: hooks of output tensors, by output index. retained: the output tensors that keep
    their gradient, weakly. prehooks, hooks: those of the node itself. metadata: the user's.
    """

    __slots__ = ("hooks", "metadata", "prehooks", "retained", "tensors")

    def __init__(self) -> None:
        self.tensors: dict[int, Hooks] = {}
        self.retained: dict[int, weakref.ref[Any]] = {}
        self.prehooks: Hooks = {}
        self.hooks: Hooks = {}
        self.metadata: dict[str, Any] = {}

    def calls(self) -> bool:
        """Whether a backward calls anybody here, or leaves a gradient."""
        return bool(self.retained or self.prehooks or self.hooks or any(self.tensors.values()))

    def received(self, slots: list[Any], one_op: bool) -> list[Any]:
        """The gradients of the node's outputs after the tensors' hooks, in the order of registration.

        one_op: the outputs are those of one op, whose hooks see None where only other outputs have gradients.
        """
        for output, hooks in self.tensors.items():
            if one_op or slots[output] is not None:
                slots[output] = through(hooks, slots[output])
        for output, reference in self.retained.items():
            tensor, gradient = reference(), slots[output]
            if tensor is not None and gradient is not None:
                tensor.gradient = gradient if tensor.gradient is None else tensor.gradient + gradient
        return slots

    def before(self, slots: list[Any]) -> list[Any]:
        """The gradients of the outputs after the node's prehooks."""
        for hook in list(self.prehooks.values()):
            made = _called(hook)(tuple(slots))
            if made is not None:
                slots = list(_checked(hook, made, slots))
        return slots

    def after(
        self, produced: Sequence[Any], slots: Sequence[Any], edges: Sequence[Any], places: list[int]
    ) -> Sequence[Any]:
        """The gradients of the inputs after the node's hooks, which see None for inputs that have none.

        edges: of the inputs that `produced` are the gradients of. places: the inputs that are tensors.
        """
        known = dict(zip((index for index, _, _ in edges), produced, strict=True))
        shown: Sequence[Any] = [known.get(place) for place in places]
        for hook in list(self.hooks.values()):
            made = _called(hook)(tuple(shown), tuple(slots))
            if made is not None:
                shown = _checked(hook, made, shown)
        return [shown[places.index(index)] for index, _, _ in edges]


def through(hooks: Hooks, gradient: Any) -> Any:
    """`gradient` after a tensor's hooks; one that returns None leaves it."""
    for hook in list(hooks.values()):
        made = _called(hook)(gradient)
        if made is not None:
            (gradient,) = _checked(hook, (made,), (gradient,))
    return gradient


def _checked(hook: Callable[..., Any], made: Any, before: Sequence[Any]) -> Sequence[Any]:
    """What a hook gave, if it can stand for what it was given."""
    name = getattr(hook, "__name__", type(hook).__name__)
    if not isinstance(made, (tuple, list)):
        made = (made,)
    if len(made) != len(before):
        raise failure(
            RuntimeError,
            f"hook {name!r} has returned an incorrect number of values (got {len(made)}, but expected "
            f"{len(before)})",
        )
    for new, old in zip(made, before, strict=True):
        if new is not None and not isinstance(new, Tensor):
            raise failure(TypeError, f"expected Tensor, but hook {name!r} returned {type(new).__name__!r}")
        if new is None or old is None:
            continue
        if new.array.shape != old.array.shape:
            raise failure(
                RuntimeError,
                f"hook {name!r} has changed the size of value: {list(old.array.shape)} became "
                f"{list(new.array.shape)}",
            )
        if new.array.dtype != old.array.dtype:
            raise failure(
                RuntimeError,
                f"hook {name!r} has changed the type of value (was {old.dtype}, got {new.dtype})",
            )
    return made


# Hooks of leaves stand in the tensor's own dictionary, under PyTorch's names.
LEAF, ACCUMULATED = "_backward_hooks", "_post_accumulate_grad_hooks"
BEFORE, AFTER = "_pre_accumulate_grad_hooks", "_after_accumulate_grad_hooks"
# What averages gradients over ranks, which is told as ACCUMULATED are.
AVERAGED = "_averaged_grads"
PLACES = frozenset({LEAF, ACCUMULATED, BEFORE, AFTER, AVERAGED})

# How many hooks were ever put on leaves: while it is 0, backward does not look for any.
leaf_hooks = [0]


@attach
def register_hook(self: Tensor, hook: Any) -> RemovableHandle:
    """Call `hook(gradient)` when backward has this tensor's gradient; it may return another one.

    Hooks run in the order of registration; `remove()` of the handle that is given takes one away.
    Raises RuntimeError for a tensor that needs no gradient. Source: `torch.Tensor.register_hook`.

    >>> import fusegrad as fg
    >>> x = fg.tensor([1.0, 2.0], requires_grad=True)
    >>> handle = x.register_hook(lambda gradient: gradient * 10)
    >>> x.sum().backward()
    >>> x.grad
    tensor([10., 10.])
    """
    refuse_beside(self, "register_hook")
    if putting_off:
        give_values((self,))
    if state.interpreter is not None:
        state.interpreter.puts_hook(self)
    if not self.needs_grad:
        raise failure(RuntimeError, "cannot register a hook on a tensor that doesn't require gradient")
    if self.grad_fn is not None:
        hooks = self.grad_fn.extras().tensors.setdefault(self.output_index, {})
        return RemovableHandle(hooks, hook)
    leaf_hooks[0] += 1
    return RemovableHandle(self.__dict__.setdefault(LEAF, {}), hook)


@attach
def register_post_accumulate_grad_hook(self: Tensor, hook: Any) -> RemovableHandle:
    """Call `hook(tensor)` after backward has added to this leaf's `.grad`.

    Source: `torch.Tensor.register_post_accumulate_grad_hook`.
    """
    _tell(self)
    if not self.needs_grad:
        raise failure(RuntimeError, "cannot register a hook on a tensor that doesn't require gradient")
    if self.grad_fn is not None:
        raise failure(RuntimeError, "post accumulate grad hooks cannot be registered on non-leaf tensors")
    leaf_hooks[0] += 1
    return RemovableHandle(self.__dict__.setdefault(ACCUMULATED, {}), hook)


def before_accumulation(leaf: Tensor, hook: Callable[[Any], Any]) -> RemovableHandle:
    """Call `hook(gradient)` after the leaf's own hooks, only where its `.grad` is about to be added to."""
    _tell(leaf)
    leaf_hooks[0] += 1
    return RemovableHandle(leaf.__dict__.setdefault(BEFORE, {}), hook)


def after_accumulation(leaf: Tensor, hook: Callable[[Any], Any]) -> RemovableHandle:
    """Call `hook(gradient)` when all is done with what was added to the leaf's `.grad`."""
    _tell(leaf)
    leaf_hooks[0] += 1
    return RemovableHandle(leaf.__dict__.setdefault(AFTER, {}), hook)


_RETAIN = (
    "You are attempting to call Tensor.retain_grad() inside of a function being transformed by a functorch "
    "transform. This is unsupported, please attempt to use the functorch transforms (e.g. grad, vjp, jacrev, "
    "jacfwd, hessian) or call retain_grad() outside of a function being transformed instead."
)


@attach
def retain_grad(self: Tensor) -> None:
    """Have backward keep this tensor's gradient in `.grad`, also if it is no leaf.

    Source: `torch.Tensor.retain_grad`.
    """
    _tell(self)
    refuse_beside(self, "retain_grad")
    if not self.needs_grad:
        raise failure(RuntimeError, "can't retain_grad on Tensor that has requires_grad=False")
    refuse_transforms(_RETAIN)
    if self.grad_fn is not None and not retains_grad(self):
        self.grad_fn.extras().retained[self.output_index] = weakref.ref(self)


def retains_grad(self: Tensor) -> bool:
    """Whether backward keeps the gradient of this tensor, which is no leaf."""
    if putting_off:
        give_values((self,))
    if state.interpreter is not None:
        state.interpreter.reach_graph(self)
    node = self.grad_fn
    if node is None or node.extra is None:
        return False
    reference = node.extra.retained.get(self.output_index)
    return reference is not None and reference() is self


attach(property(retains_grad), "retains_grad")


class Averaging(Protocol):
    """Averages the gradient of a leaf over ranks, in backwards for which it was told to."""

    def awaits(self) -> bool:
        """Whether the next backward is one."""

    def came(self) -> None:
        """The gradient is there."""


def put_averaging(leaf: Tensor, averaging: Averaging) -> None:
    """Tell `averaging` when backward has added to this leaf's `.grad`."""
    leaf_hooks[0] += 1
    leaf.__dict__.setdefault(AVERAGED, []).append(averaging)


def is_averaged(leaf: Any) -> bool:
    """Whether the leaf's next gradient is to be averaged over ranks."""
    return any(averaging.awaits() for averaging in leaf.__dict__.get(AVERAGED, ()))


def has_hooks(leaf: Any) -> bool:
    """Whether backward calls somebody with the gradient of this leaf."""
    return has_own_hooks(leaf) or is_averaged(leaf)


def has_own_hooks(leaf: Any) -> bool:
    """Whether that is a hook of the program's."""
    return any(leaf.__dict__.get(kind) for kind in (LEAF, ACCUMULATED, BEFORE, AFTER))


def any_has_hooks(*leaves: Any) -> bool:
    """Whether one of the leaves has hooks; None stands for one that is gone."""
    return any(leaf is not None and has_hooks(leaf) for leaf in leaves)


def any_was_made(*leaves: Any) -> bool:
    """Whether an op has made one of the leaves, so that backward goes on behind it."""
    return any(leaf is not None and leaf.grad_fn is not None for leaf in leaves)


def _called(hook: Callable[..., Any]) -> Callable[..., Any]:
    """A hook that is about to be called, or what an interpreter has in its place."""
    return (state.interpreter and state.interpreter.calls_hook(hook)) or hook


def _tell(tensor: Tensor) -> None:
    if putting_off:
        give_values((tensor,))
    if state.interpreter is not None:
        state.interpreter.effect("puts a hook on a tensor")
