"""Gradient checkpointing: backward computes again what forward did not keep. As `torch.utils.checkpoint`.

What the ops inside keep for backward goes through `saved_tensors_hooks`. Forward keeps only places to
put it; the first that backward asks for runs the function again, which fills them all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fusegrad.eager.autograd.graph import followed_hooks
from fusegrad.eager.autograd.node import MODIFIED
from fusegrad.eager.core.errors import failure, warn
from fusegrad.eager.core.op import Op, Params, evaluate
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.pytree import flatten
from fusegrad.eager.core.stand_in import stands_for_batch
from fusegrad.eager.core.state import Interpreter, enable_grad, in_state, state, tell
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

    use_reentrant has to be given, as in PyTorch, which warns where it is not. What is done is PyTorch's
    `use_reentrant=False`, but that with True second runs go to their end.
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
    if not state.grad_enabled or _of_a_batch(args, kwargs):
        return function(*args, **kwargs)
    if context_fn is not None:
        tell("enters contexts around a checkpointed function")
    contexts = (
        context_fn() if context_fn is not None else (contextlib.nullcontext(), contextlib.nullcontext())
    )
    run = Run(function, args, kwargs, contexts[1], preserve_rng_state, determinism_check != "none")
    stops = early_stop if _setting["early_stop"] is None else _setting["early_stop"]
    run.early_stop = stops and not use_reentrant
    with contexts[0], run.first(), followed_hooks(run.pack, run.unpack):
        result = function(*args, **kwargs)
    run.completed = True
    return result


def _of_a_batch(*values: Any) -> bool:
    """Whether there are tensors that stand for a batch, whose ops are others: what they need is kept."""
    leaves: list[Any] = []
    flatten(values, leaves)
    return any(isinstance(x, Tensor) and stands_for_batch(x.array) for x in leaves)


def _warn_of_default(use_reentrant: bool | None) -> None:
    """Say, as PyTorch does, that a program should choose; here both choices are the same."""
    if use_reentrant is None:
        warn(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. "
            "use_reentrant=False is what is done."
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


class Run:
    """One checkpointed call: counts what the first run keeps, and gives it after a second one.

    completed: whether the first run is over; a backward within it asks for a part of what will be kept.
    recorded: what an interpreter has noted of it. kept: the tensors among the arguments, which nobody may
    write before backward, each with the number that its writes had.
    """

    early_stop: bool | None = True
    completed = False

    def __init__(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        context: Any,
        preserve: bool,
        check: bool,
    ) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs
        self.context, self.check = context, check
        generator = default_generator
        self.random = (generator.seed_value, generator.counter) if preserve else None
        self.types: list[Any] = []
        self.made: dict[int, Tensor] = {}
        self.recorded = state.interpreter.checkpoints(args, preserve) if state.interpreter else None
        plain = _PLAIN if state.interpreter is None else state.interpreter.evaluating(_PLAIN)
        # Ops are evaluated at once, and operands cast as they are now.
        self.modes = {"interpreter": plain, "autocast": state.autocast}
        self.kept = [(arg, arg.version[0]) for arg in args if isinstance(arg, Tensor)]

    def first(self) -> contextlib.AbstractContextManager[Any]:
        """Around the first run."""
        return in_state(**self.modes) if self.recorded is None else self.recorded.first()

    def _again(self) -> None:
        """The function once more."""
        if self.recorded is not None and self.recorded.is_going_on():
            with self.recorded.again():
                self.function(*self.args, **self.kwargs)
        else:
            with in_state(**self.modes):
                # What observes a run is over with it.
                getattr(self.function, "of_run", self.function)(*self.args, **self.kwargs)

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
        self._check_arguments()
        self.made = {}
        generator = default_generator
        now = (generator.seed_value, generator.counter)
        if self.random is not None:
            generator.seed_value, generator.counter = self.random
        try:
            with self.context, enable_grad(), followed_hooks(self._take, _taken):
                self._again()
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

    def _check_arguments(self) -> None:
        for tensor, version in self.kept:
            if tensor.version[0] != version:
                raise failure(
                    RuntimeError,
                    MODIFIED.format(
                        name="_NoopSaveInputsBackward",
                        what="input",
                        dtype=tensor.array.dtype.name,
                        shape=[*tensor.array.shape],
                        then=version,
                        now=tensor.version[0],
                    ),
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
            if self.recorded is None or not self.recorded.is_going_on():
                raise _Enough
            self.recorded.enough = _Enough()
        return tensor


def _taken(tensor: Tensor) -> Tensor:
    return tensor


class _Plain(Interpreter):
    """An interpreter that only evaluates: jitted functions inside run as Python, op by op."""

    def bind(self, op: Op, args: tuple[Any, ...], params: Params) -> Any:
        return evaluate(op, args, params)

    def backward(self, roots: Any, accumulates: bool) -> None:
        """The engine's own ops need no interpreter."""


_PLAIN = _Plain()


__all__ = ["CheckpointError", "checkpoint", "checkpoint_sequential", "set_checkpoint_early_stop"]

locate("fusegrad.utils.checkpoint", globals(), __all__)
