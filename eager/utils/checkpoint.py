"""Gradient checkpointing: backward computes again what forward did not keep. As `torch.utils.checkpoint`.

What the ops inside keep for backward goes through `saved_tensors_hooks`. Forward keeps only places to
put it; the first that backward asks for runs the function again, which fills them all.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from fusegrad.eager.autograd.graph import saved_tensors_hooks
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.op import Op, Params, evaluate
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.state import Interpreter, enable_grad, state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.random.generator import default_generator


class CheckpointError(RuntimeError):
    """The second run of a checkpointed function did not keep what the first one did."""


class _Enough(Exception):
    """The second run has given all that the first one kept."""


_setting: dict[str, bool | None] = {"early_stop": None}


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Whether second runs of the calls inside end as soon as they have given all that is needed.

    Source: `torch.utils.checkpoint.set_checkpoint_early_stop`.
    """
    previous, _setting["early_stop"] = _setting["early_stop"], enable
    try:
        yield
    finally:
        _setting["early_stop"] = previous


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] | None = None,
    determinism_check: str = "default",
    debug: bool = False,
    preserve_rng_state: bool = True,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """`function(*args, **kwargs)`, run again in backward instead of keeping what it needs.

    use_reentrant has to be given, as in PyTorch, which warns where it is not, and makes no difference: what
    is done is PyTorch's `use_reentrant=False`.
    preserve_rng_state: the second run draws the same random numbers. context_fn gives two context
    managers, for the two runs. determinism_check: "none" leaves out the comparison of shapes and
    dtypes. early_stop: the second run ends as soon as it has given all that is needed; for calls inside of
    it, `set_checkpoint_early_stop` decides. Raises CheckpointError, a RuntimeError, where the second run
    differs from the first.

    Source: `torch.utils.checkpoint.checkpoint`.

    >>> import fusegrad as fg
    >>> x = fg.tensor([1.0, 2.0], requires_grad=True)
    >>> fg.utils.checkpoint.checkpoint(lambda t: (t * t).exp().sum(), x, use_reentrant=False).backward()
    >>> x.grad
    tensor([  5.4366, 218.3926])
    """
    if determinism_check not in ("default", "none"):
        raise failure(
            ValueError, f"determinism_check should be one of ['default', 'none'], but got {determinism_check}"
        )
    _warn_of_default(use_reentrant)
    if not state.grad_enabled or not _runs_plainly():
        # Compiled code plans its own memory.
        return function(*args, **kwargs)
    contexts = (
        context_fn() if context_fn is not None else (contextlib.nullcontext(), contextlib.nullcontext())
    )
    run = _Run(
        lambda: function(*args, **kwargs), contexts[1], preserve_rng_state, determinism_check != "none"
    )
    run.early_stop = early_stop if _setting["early_stop"] is None else _setting["early_stop"]
    with contexts[0], _interpreted_plainly(), saved_tensors_hooks(run.pack, run.unpack):
        result = function(*args, **kwargs)
    run.completed = True
    return result


def _warn_of_default(use_reentrant: bool | None) -> None:
    """Say, as PyTorch does, that a program should choose; here both choices are the same."""
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. "
            "use_reentrant=False is what is done.",
            stacklevel=3,
        )


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Run a sequence of functions (or a `Sequential`) in `segments` parts, all but the last checkpointed.

    Source: `torch.utils.checkpoint.checkpoint_sequential`.
    """
    _warn_of_default(use_reentrant)
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise failure(ValueError, f"Unexpected keyword arguments: {','.join(kwargs)}")
    steps = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = len(steps) // segments

    def part(start: int, end: int) -> Callable[[Any], Any]:
        def forward(value: Any) -> Any:
            for step in steps[start:end]:
                value = step(value)
            return value

        return forward

    start = 0
    for _ in range(segments - 1):
        input = checkpoint(part(start, start + size), input, use_reentrant=False, preserve_rng_state=preserve)
        start += size
    return part(start, len(steps))(input)


class _Slot:
    """The place of one kept tensor."""

    __slots__ = ("__weakref__", "index", "type")

    def __init__(self, index: int, tensor: Tensor) -> None:
        self.index = index
        self.type = (tensor.array.shape, tensor.array.dtype)


class _Run:
    """One checkpointed call: counts what the first run keeps, and gives it after a second one.

    completed: whether the first run is over; a backward within it asks for a part of what will be kept.
    """

    early_stop: bool | None = True
    completed = False

    def __init__(self, function: Callable[[], Any], context: Any, preserve: bool, check: bool) -> None:
        self.function, self.context, self.check = function, context, check
        generator = default_generator
        self.random = (generator.seed_value, generator.counter) if preserve else None
        self.types: list[Any] = []
        self.made: dict[int, Tensor] = {}

    def pack(self, tensor: Tensor) -> _Slot:
        """Forward keeps a place instead of the tensor."""
        slot = _Slot(len(self.types), tensor)
        self.types.append(slot.type)
        return slot

    def unpack(self, slot: _Slot) -> Tensor:
        """Give what backward asks for, and hold it no longer; asked again, the function runs again."""
        if slot.index not in self.made:
            self._compute()
        return self.made.pop(slot.index)

    def _compute(self) -> None:
        """Run the function again, and take what it keeps."""
        self.made = {}
        generator = default_generator
        now = (generator.seed_value, generator.counter)
        if self.random is not None:
            generator.seed_value, generator.counter = self.random
        try:
            with self.context, enable_grad(), _interpreted_plainly(), saved_tensors_hooks(self._take, _taken):
                self.function()
        except _Enough:
            pass
        finally:
            if self.random is not None:
                generator.seed_value, generator.counter = now
        if len(self.made) != len(self.types) and self.completed:
            raise CheckpointError(
                "checkpoint: A different number of tensors was saved during the original forward and "
                f"recomputation.\nNumber of tensors saved during forward: {len(self.types)}\n"
                f"Number of tensors saved during recomputation: {len(self.made)}."
            )

    def _take(self, tensor: Tensor) -> Tensor:
        index = len(self.made)
        if index >= len(self.types) and not self.completed:
            return tensor
        if index >= len(self.types):
            raise CheckpointError(
                "checkpoint: trying to save more tensors during recomputation than during the original "
                f"forward pass.\nNumber of tensors saved during forward: {len(self.types)}"
            )
        found = (tensor.array.shape, tensor.array.dtype)
        if self.check and found != self.types[index]:
            texts = [f"{dtype.name}{list(shape)}" for shape, dtype in (self.types[index], found)]
            raise CheckpointError(
                "checkpoint: Recomputed values for the following tensors have different metadata than during "
                f"the forward pass.\ntensor at position {index}: saved {texts[0]}, recomputed {texts[1]}"
            )
        self.made[index] = tensor
        if self.early_stop and len(self.made) == len(self.types):
            raise _Enough
        return tensor


def _taken(tensor: Tensor) -> Tensor:
    return tensor


class _Plain(Interpreter):
    """An interpreter that only evaluates: jitted functions inside run as Python, op by op."""

    def bind(self, op: Op, args: tuple[Any, ...], params: Params) -> Any:
        return evaluate(op, args, params)

    def backward(self, roots: Any, accumulates: bool) -> None:
        """The engine's own ops need no interpreter."""


def _runs_plainly() -> bool:
    return state.interpreter is None or isinstance(state.interpreter, _Plain)


@contextlib.contextmanager
def _interpreted_plainly() -> Iterator[None]:
    previous, state.interpreter = state.interpreter, _Plain()
    try:
        yield
    finally:
        state.interpreter = previous


__all__ = ["CheckpointError", "checkpoint", "checkpoint_sequential", "set_checkpoint_early_stop"]

locate("fusegrad.utils.checkpoint", globals(), __all__)
