"""What the engine keeps per thread: whether gradients are recorded, and who interprets ops."""

from __future__ import annotations

import functools
import inspect
import threading
import warnings
from collections.abc import Callable
from typing import Any

from fusegrad.eager.core.errors import failure


class Interpreter:
    """Something that takes over every `bind` of a thread: a recorder, or abstract evaluation.

    What it is told besides goes by, or is an effect, unless a subclass knows better.
    """

    # Takes exchanges with other ranks for ops (see `eager/ranks/exchange_op.py`); None: they are effects.
    with_ranks: Any = None

    def bind(self, op: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Give the result of `op`; see `eager.op.bind`."""
        raise NotImplementedError

    def calls(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any] | None:
        """A jitted function is called: what the call gives, in a row of one; None where its body is a part of
        what the interpreter is in charge of.
        """
        return None

    def reach(self, tensor: Any) -> None:
        """Somebody is about to read the values of `tensor`, or memory that they depend on."""

    def reach_graph(self, tensor: Any) -> None:
        """Somebody is about to look at the place of `tensor` on the graph, though not at its values."""
        self.reach(tensor)

    def leave(self, tensor: Any, door: str, value: Any) -> Any:
        """A tensor's `value` reaches Python through `door` ("bool", "item", "repr", ...).

        What Python gets in its place; None if it gets that.
        """
        return None

    def effect(self, reason: str, kind: str = "") -> None:
        """The engine does something that a replay could not repeat; kind: "once" if it is not done again."""

    def replaces_data(self, tensor: Any, value: Any) -> None:
        """`tensor` is about to get the memory of `value`."""
        self.effect("replaces a tensor's data")

    def requires_grad_changes(self, tensor: Any) -> None:
        """`tensor` is about to require gradients or not, or to be taken off the graph."""
        self.effect("changes requires_grad")

    # Python code of the user's that the engine calls.

    def begins_method(self, kind: Any, name: str, context: Any) -> Callable[..., Any] | None:
        """A method of a custom Function is about to be called: what to call in its place, or None."""
        self.effect(f"runs the custom Function {kind.__name__}, whose backward is Python code")
        return None

    def ended_method(self, kind: Any, context: Any) -> None:
        """Forward has run: what was asked for inside is about to be put on the graph as it is."""
        self.effect(f"runs the custom Function {kind.__name__}, whose backward is Python code")

    def puts_hook(self, tensor: Any) -> None:
        """A hook is about to be put on `tensor`."""
        self.effect("puts a hook on a tensor")

    def calls_hook(self, hook: Callable[..., Any]) -> Callable[..., Any] | None:
        """A backward is about to call a hook: what to call in its place, or None."""

    def evaluating(self, plain: Interpreter) -> Interpreter:
        """What evaluates ops at once and is else what this one is; without this one that would be `plain`."""
        return plain

    def checkpoints(self, args: Any, preserves: bool) -> Any:
        """A function of `args` begins that backward will run again. preserves: drawing the same numbers.

        What is `first` and `again` around its runs, as long as what it is a part of `is_going_on`, and raises
        what is said to be `enough` after the op that is at work; or None, where ops are evaluated at once.
        """
        self.effect("runs a checkpointed function, which backward runs again")

    def constant(self, tensor: Any) -> None:
        """`tensor` was made from Python data, not by an op."""

    def check(self, tensor: Any, passed: Callable[[], Any], within: tuple[int, ...] = ()) -> bool:
        """See `testable`: `passed` makes the 0-d bool tensor that says whether the test is passed."""
        return True

    def follows(self, x: Any, index: Any, dim: int) -> bool:
        """Whether `x` is to be indexed, along a dimension, by what the 0-d tensor `index` holds, whatever
        that is (`SELECT_AT`), and not by the number that it holds now.
        """
        return False

    def is_outside(self, tensor: Any) -> bool:
        """Whether a tensor was there before what is interpreted began."""
        return True

    def window(self, x: Any, index: Any, dim: int, length: int) -> Any:
        """The slice of `x` of so many elements that begins where the 0-d tensor `index` says."""
        raise NotImplementedError

    def decides_size(self, what: str, tensor: Any, asked: Any, count: Callable[[], Any]) -> int | None:
        """The size of a result that the values of `tensor` decide, as `count` gives it by ops; None where the
        op is to find it for itself, now. what: what is asked for, in words; asked: the same for the program.
        """
        self.effect(f"asks for {what}, a result whose shape depends on the values")
        return None

    # Numbers. follows_numbers: whether it knows what stands for them, and binds it.

    follows_numbers = False

    def in_rules(self, inputs: Any, params: Any) -> tuple[Any, Any]:
        """What a gradient rule gets for what a node kept, of which numbers may be others at a replay."""
        return inputs, params

    # Writes.

    def before_write(self, target: Any, may_wait: bool = False) -> None:
        """The memory of `target` is about to be written. may_wait: `writes_later` will be asked first."""
        self.effect("writes into a tensor in place")

    def writes_later(self, target: Any, index: Any, value: Any) -> bool:
        """Whether the write `target[index] = value` of memory waits, and the interpreter does it."""
        return False

    def wrote(
        self,
        target: Any,
        result: Any,
        index: Any = None,
        on_graph: bool = False,
        overwrites: bool = False,
    ) -> None:
        """The values of `result` were written into `target`, at a basic `index` if one is given.

        on_graph: the write went on the autograd graph. overwrites: what was there before was cut off there.
        """

    def copied(self, copy: Any, original: Any) -> None:
        """The tensor `copy` was given the values of `original`, not by an op."""

    # Gradients and steps.

    def backward(self, roots: Any, accumulates: bool) -> Interpreter | None:
        """A backward from `roots` begins: who interprets its ops. accumulates: it writes `.grad`."""
        if accumulates:
            self.effect("calls backward(), which writes .grad")
        return self

    def enter_transform(self) -> None:
        """A functional transform begins: its function runs next, on tensors of its own."""

    def leaf(self, tensor: Any) -> Any:
        """A tensor with the values of `tensor` for a transform; None: any that is off the graph will do."""

    def beneath_batch(self) -> Interpreter | None:
        """A function of a batch is about to run: who interprets the ops on what stands behind its tensors."""
        return self

    def draws(self, *parameters: Any) -> None:
        """Random numbers are about to be drawn for these parameters of a distribution."""

    def made_like(self, made: Any, input: Any) -> Any:
        """What stands for `made`, which has the shape of `input` and may be written like that."""
        return made

    def applies(self, kind: Any, args: tuple[Any, ...]) -> Any:
        """A custom Function is about to be called: in a tuple what it gives, if `forward` is not to run."""

    def sees_gradient(self, tensor: Any) -> None:
        """What a tensor's `.grad` is, or whether there is any, is about to be used."""

    def before_gradient(self, tensor: Any) -> None:
        """A tensor's `.grad` is about to be another one, or None."""
        self.effect("sets .grad")

    def sees_parameters(self, optimizer: Any) -> None:
        """What an optimizer's parameters are is about to be used."""

    def takes_step(self, optimizer: Any) -> bool:
        """An optimizer takes a step: whether the interpreter has taken it."""
        self.effect("an optimizer writes into parameters")
        return False

    # See `handlers.py`.

    def interrupted(self, busy: bool) -> None:
        """A signal handler is going to use tensors. busy: in the middle of one of these methods."""


class _State(threading.local):
    """What holds for the current thread.

    inference: inside `inference_mode`. saved_hooks: the innermost (pack, unpack) pair of
    `saved_tensors_hooks`, with what was there before it, or None. walk: the innermost backward at work.
    autocast: the dtype in which `autocast` has products computed, or None. devices: those of `with` blocks,
    the innermost last; default_device: that outside of them, if one was set. making: the device on which
    tensors are made now, if that is asked for. asks: whether functions ask arguments of users' classes for
    their `__torch_function__`; None where no mode may be asked either. function_modes: what is asked before
    them, the innermost last. transforms: how
    many functional transforms are at work, in whose functions what changes tensors for good is refused.
    """

    grad_enabled: bool = True
    inference: bool = False
    interpreter: Interpreter | None = None
    saved_hooks: tuple[tuple[Callable[..., Any], Callable[..., Any]], Any] | None = None
    walk: Any = None
    autocast: Any = None
    devices: tuple[Any, ...] = ()
    default_device: Any = None
    making: Any = None
    asks: bool | None = True
    function_modes: tuple[Any, ...] = ()
    transforms: int = 0


state = _State()


REQUIRES_GRAD = (
    "You are attempting to call Tensor.requires_grad_() (or perhaps using torch.autograd.functional.* APIs) "
    "inside of a function being transformed by a functorch transform. This is unsupported, please attempt to "
    "use the functorch transforms (e.g. grad, vjp, jacrev, jacfwd, hessian) or call requires_grad_() outside "
    "of a function being transformed instead."
)


def refuse_transforms(error: str) -> None:
    """Raise RuntimeError, with this text, within a function that a functional transform calls."""
    if state.transforms:
        raise failure(RuntimeError, error)


# Called with every new node while there are any: anomaly mode, saved-tensor hooks. Each looks for itself
# whether it is on in this thread. While there are any, no compiled code answers.
watchers: list[Callable[[Any], None]] = []


def tell(effect: str) -> None:
    """Tell who interprets this thread's ops, if somebody does, of an effect that ops have not: what sets
    something that outlives a call says so, and what tells how that is set.
    """
    if state.interpreter is not None:
        state.interpreter.effect(effect)


# All of it but who is at work.
_MODES = tuple(name for name in _State.__annotations__ if name not in ("interpreter", "walk"))


def modes() -> tuple[Any, ...]:
    """What is set for this thread: a call that is to be replayed leaves it as it was."""
    return tuple(getattr(state, name) for name in _MODES)


class in_state:
    """Inside, this thread's state has the given values: `with in_state(grad_enabled=False):`.

    No generator: one that the exception of a signal handler has left half way through ends when it is
    collected, and would put back then what was there before, whoever is in charge by that time.
    """

    def __init__(self, **values: Any) -> None:
        self._values = values

    def __enter__(self) -> None:
        self._before = {name: getattr(state, name) for name in self._values}
        self._set(self._values)

    def __exit__(self, *exception: object) -> None:
        self._set(self._before)

    @staticmethod
    def _set(values: dict[str, Any]) -> None:
        for name, value in values.items():
            setattr(state, name, value)


def in_modes(given: tuple[Any, ...]) -> in_state:
    """Inside, this thread has the modes of another one, as `modes` has told them."""
    return in_state(**dict(zip(_MODES, given, strict=True)))


def draws(*parameters: Any) -> None:
    """Tell whoever interprets ops that numbers are drawn for these parameters."""
    if state.interpreter is not None:
        state.interpreter.draws(*parameters)


def testable(tensor: Any, passed: Callable[[], Any], within: tuple[int, ...] = ()) -> bool:
    """Whether an op may now test the values of its operand `tensor`, and raise if they are not fit.

    Not where only types are known. A recorder is told, so that a replay makes the test as well:
    `passed` gives its outcome as ops on `tensor`. within: if it is whether all are at least one number and
    less than another one, these; maybe a third one that is let pass, too. Then they may be known to be fit.
    """
    interpreter = state.interpreter
    if interpreter is None:
        return not tensor.is_meta
    return interpreter.check(tensor, passed, within)


class _Mode:
    """A context manager that is a decorator too: of functions, and of generators at each resumption."""

    def clone(self) -> _Mode:
        """A fresh one of the same setting, for a call of a decorated function."""
        return type(self)()

    def __enter__(self) -> None:
        raise NotImplementedError

    def __exit__(self, *exception: object) -> None:
        raise NotImplementedError

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        again = self.clone
        if inspect.isclass(function):
            warnings.warn(
                "Decorating classes is deprecated and will be disabled in future versions. You should only "
                "decorate functions or methods. To preserve the current behavior of class decoration, you "
                "can directly decorate the `__init__` method and nothing else.",
                FutureWarning,
                stacklevel=2,
            )
        if inspect.isgeneratorfunction(function):
            return functools.wraps(function)(_resumed_in(again, function))

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with again():
                return function(*args, **kwargs)

        return wrapped


def _resumed_in(again: Callable[[], _Mode], function: Callable[..., Any]) -> Callable[..., Any]:
    """The generator function, each of its steps run in the mode, the caller's mode kept between them."""

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        generator = function(*args, **kwargs)
        step, given = generator.send, None
        while True:
            try:
                with again():
                    made = step(given)
            except StopIteration as stop:
                return stop.value
            try:
                given = yield made
                step = generator.send
            except GeneratorExit:
                with again():
                    generator.close()
                raise
            except BaseException as error:
                step, given = generator.throw, error

    return wrapped


def _recorded(mode: bool) -> bool:
    """Whether gradients are recorded in this grad mode; what is made in inference mode has none in any."""
    return mode and not state.inference


class _GradMode(_Mode):
    """Sets grad mode for the current thread."""

    enable: bool

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        # `@no_grad` without parentheses.
        made = super().__new__(cls)
        if function is None:
            return made
        cls.__init__(made)
        return made(function)

    def __init__(self) -> None:
        self._previous: list[bool] = []

    def __enter__(self) -> None:
        self._previous.append(state.grad_enabled)
        state.grad_enabled = _recorded(self.enable)

    def __exit__(self, *exception: object) -> None:
        state.grad_enabled = self._previous.pop()


class no_grad(_GradMode):
    """Ops inside record no gradients. Context manager or decorator; as `torch.no_grad`.

    >>> import fusegrad as fg
    >>> x = fg.tensor([1.0], requires_grad=True)
    >>> with fg.no_grad():
    ...     (x * 2).requires_grad
    False
    """

    enable = False


class enable_grad(_GradMode):
    """Ops inside record gradients again, also within `no_grad`; as `torch.enable_grad`."""

    enable = True


def is_grad_enabled() -> bool:
    """Whether ops of this thread record gradients."""
    return state.grad_enabled


class set_grad_enabled(_Mode):
    """Set grad mode at once; used in `with`, it is restored at the end; as `torch.set_grad_enabled`."""

    def __init__(self, mode: bool) -> None:
        self.mode = bool(mode)
        self._previous = state.grad_enabled
        state.grad_enabled = _recorded(self.mode)

    def clone(self) -> set_grad_enabled:
        return set_grad_enabled(self.mode)

    def __enter__(self) -> None:
        state.grad_enabled = _recorded(self.mode)

    def __exit__(self, *exception: object) -> None:
        state.grad_enabled = self._previous

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        state.grad_enabled = self._previous  # as a decorator it sets the mode inside the function only
        return super().__call__(function)


class inference_mode(_Mode):
    """`no_grad` whose results can never be part of a graph; as `torch.inference_mode`.

    Tensors made inside (`is_inference()`) may not be kept for a backward, written in place outside,
    or made to require gradients: RuntimeError. `clone()` them to get ordinary ones.

    >>> import fusegrad as fg
    >>> with fg.inference_mode():
    ...     y = fg.ones(2) * 3
    >>> y.is_inference(), y.clone().is_inference()
    (True, False)
    """

    def __new__(cls, mode: Any = True) -> Any:
        made = super().__new__(cls)
        if isinstance(mode, bool):
            return made
        cls.__init__(made)
        return made(mode)

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode
        self._previous: list[tuple[bool, bool]] = []

    def clone(self) -> inference_mode:
        return inference_mode(self.mode)

    def __enter__(self) -> None:
        self._previous.append((state.grad_enabled, state.inference))
        state.inference = self.mode
        state.grad_enabled = not self.mode

    def __exit__(self, *exception: object) -> None:
        state.grad_enabled, state.inference = self._previous.pop()


def is_inference_mode_enabled() -> bool:
    """Whether this thread is inside `inference_mode`."""
    return state.inference
