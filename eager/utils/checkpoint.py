"""Gradient checkpointing: backward computes again what forward did not keep. As `torch.utils.checkpoint`.

What the ops inside keep for backward goes through `saved_tensors_hooks`. Forward keeps only places to
put it; the first that backward asks for runs the function again, which fills them all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fusegrad.eager.autograd.graph import followed_hooks
from fusegrad.eager.autograd.node import MODIFIED, place, share
from fusegrad.eager.autograd.underived import Underived
from fusegrad.eager.core.errors import failure, spot_text, user_spot, warn
from fusegrad.eager.core.op import Op, Params, evaluate
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.pytree import flatten
from fusegrad.eager.core.stand_in import stands_for_batch
from fusegrad.eager.core.state import Interpreter, enable_grad, in_state, no_grad, state, tell
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.random.generator import default_generator


class CheckpointError(RuntimeError):
    """The second run of a checkpointed function did not keep what the first one did."""


_ALONE = (
    "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` "
    "parameter to .backward(). To resolve this error, you can either set use_reentrant=False, or call "
    ".backward() without passing the `inputs` argument."
)
_NONE = "none of output has requires_grad=True, this checkpoint() is not necessary"
_LISTED = """Operations executed during the original forward:

{first}

Operations executed during recomputation:

{second}

ERROR: Detected non-determinism while running activation checkpointing

You are seeing this error because you passed `debug=True` to checkpoint and tensors to be saved during the
original forward differ from those saved during recomputation. This can happen if different operators were ran
in the original forward and in the recomputation. Compare those above, which are listed in the order in which
they were executed, each with the line that asked for it."""


class _Enough(Exception):
    """The second run has given all that the first one kept."""


_setting: dict[str, bool | None] = {"early_stop": None, "debug": None}


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


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Whether errors of the calls inside list the ops of both runs, whatever their `debug` is.

    Source: `torch.utils.checkpoint.set_checkpoint_debug_enabled`.
    """
    previous, _setting["debug"] = _setting["debug"], enabled
    try:
        yield
    finally:
        _setting["debug"] = previous


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

    use_reentrant has to be given, as in PyTorch, which warns where it is not, and takes True. With True there
    are gradients only where a tensor among `args` requires one, not by `grad` nor `backward(inputs=...)`, and
    second runs go to their end.
    preserve_rng_state: the second run draws the same random numbers. context_fn gives two context
    managers, for the two runs. determinism_check: "none" leaves out the comparison of shapes and
    dtypes. debug: errors list the ops of both runs. early_stop: the second run ends as soon as it has given
    all that is needed; for calls inside of it, `set_checkpoint_early_stop` decides. Raises CheckpointError, a
    RuntimeError, where the second run differs from the first.

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
    reentrant = _chosen(use_reentrant)
    if reentrant:
        _check_reentrant(args, kwargs, context_fn is not None or debug)
    if not state.grad_enabled or _of_a_batch(args, kwargs):
        return function(*args, **kwargs)
    if reentrant and not _any_requires_grad(args):
        with no_grad():
            return function(*args)
    if context_fn is not None:
        tell("enters contexts around a checkpointed function")
    contexts = (
        context_fn() if context_fn is not None else (contextlib.nullcontext(), contextlib.nullcontext())
    )
    run = Run(function, args, kwargs, contexts[1], preserve_rng_state, determinism_check != "none")
    stops = early_stop if _setting["early_stop"] is None else _setting["early_stop"]
    run.early_stop, run.reentrant = stops and not reentrant, reentrant
    if (debug if _setting["debug"] is None else _setting["debug"]) and run.recorded is None:
        run.list_ops()
    with contexts[0], run.first(), followed_hooks(run.pack, run.unpack):
        result = function(*args, **kwargs)
    run.completed = True
    return _on_graph(result, args) if reentrant else result


def _of_a_batch(*values: Any) -> bool:
    """Whether there are tensors that stand for a batch, whose ops are others: what they need is kept."""
    leaves: list[Any] = []
    flatten(values, leaves)
    return any(isinstance(x, Tensor) and stands_for_batch(x.array) for x in leaves)


def _chosen(use_reentrant: bool | None) -> bool:
    """What a program has chosen; where it has not, PyTorch says that it should, and takes True."""
    if use_reentrant is None:
        warn(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. "
            "use_reentrant=False is recommended, but if you need to preserve the current default behavior, "
            "you can pass use_reentrant=True."
        )
    return use_reentrant is not False


def _check_reentrant(args: Sequence[Any], kwargs: dict[str, Any], asks_more: bool) -> None:
    """Refuse what goes with `use_reentrant=False` alone; warn where no gradient will come through."""
    if kwargs:
        raise failure(ValueError, "Unexpected keyword arguments: " + ",".join(kwargs))
    if asks_more:
        raise failure(
            ValueError, "Passing `context_fn` or `debug` is only supported when use_reentrant=False."
        )
    if not _any_requires_grad(args):
        warn("None of the inputs have requires_grad=True. Gradients will be None")


def _any_requires_grad(args: Sequence[Any]) -> bool:
    return any(isinstance(arg, Tensor) and arg.requires_grad for arg in args)


def _on_graph(result: Any, args: Sequence[Any]) -> Any:
    """Results of which none requires a gradient as PyTorch gives them with `use_reentrant=True`: they do."""
    found = result if isinstance(result, tuple) else (result,)
    tensors = [t for t in found if isinstance(t, Tensor) and t.array.dtype.kind in "fcV"]
    if not tensors or any(t.needs_grad for t in tensors):
        return result
    inputs = tuple([arg for arg in args if isinstance(arg, Tensor)])
    made = [
        place(share(t), Underived(_NONE, t, inputs, RuntimeError), 0) if any(t is x for x in tensors) else t
        for t in found
    ]
    return tuple(made) if isinstance(result, tuple) else made[0]


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Run a sequence of functions (or a `Sequential`) in `segments` parts, all but the last checkpointed.

    Source: `torch.utils.checkpoint.checkpoint_sequential`.
    """
    reentrant = _chosen(use_reentrant)
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
        run = part(start, start + size)
        input = checkpoint(run, input, use_reentrant=reentrant, preserve_rng_state=preserve)
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
    reentrant: whether backwards for some gradients alone are refused. listed: the ops of both runs, for
    errors.
    recorded: what an interpreter has noted of it. kept: the tensors among the arguments, which nobody may
    write before backward, each with the number that its writes had.
    """

    early_stop: bool | None = True
    reentrant = completed = False
    listed: tuple[list[str], list[str]] | None = None

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

    def list_ops(self) -> None:
        """Have the ops of both runs noted."""
        self.listed = [], []
        self.modes["interpreter"] = _Listing(self.listed)

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
        if self.reentrant and state.walk is not None and state.walk.needed is not None:
            raise failure(RuntimeError, _ALONE)
        if slot.index not in self.made:
            try:
                self._compute()
            except CheckpointError as error:
                if self.listed is None:
                    raise
                first, second = map("\n".join, self.listed)
                raise CheckpointError(_LISTED.format(first=first, second=second)) from error
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


class _Listing(_Plain):
    """One that notes the ops of the first run, and then those of the second one."""

    def __init__(self, listed: tuple[list[str], list[str]]) -> None:
        self._listed = listed

    def bind(self, op: Op, args: tuple[Any, ...], params: Params) -> Any:
        made = evaluate(op, args, params)
        of_run = self._listed[state.walk is not None]
        given = [
            f"{a.array.dtype.name}{[*a.array.shape]}" if isinstance(a, Tensor) else repr(a) for a in args
        ]
        of_run.append(f"{op.name}({', '.join(given)})  at {spot_text(user_spot())}")
        return made


__all__ = [
    "CheckpointError",
    "checkpoint",
    "checkpoint_sequential",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
]

locate("fusegrad.utils.checkpoint", globals(), __all__)
