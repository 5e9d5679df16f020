"""One captured run: the eager result, and what is needed to replay it soundly."""

from __future__ import annotations

import dataclasses
import inspect
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fusegrad.eager.state import state
from fusegrad.eager.tensor import Tensor
from fusegrad.tracer.graph import Graph, Value
from fusegrad.tracer.lookup import nn_module_class
from fusegrad.tracer.naming import NamingObserver
from fusegrad.tracer.observe import Observer
from fusegrad.tracer.reads import Read, is_plain
from fusegrad.tracer.record import Recorder
from fusegrad.tracer.tree import Structure, contents, flatten, is_container


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a run cannot be replayed, with the user's line.

    kind: "memory" where only the memory of the results could not be repeated, not their values.
    """

    reason: str
    file: str
    line: int
    kind: str = ""

    def __str__(self) -> str:
        return f"{self.reason} ({self.file}:{self.line})" if self.file else self.reason


@dataclass(frozen=True, slots=True)
class Output:
    """One leaf of the result.

    kind "value": computed, `value` in the graph; "object": the plain Python value `item`;
    "captured": the tensor that the reference `item` gives when called; "argument": the argument
    leaf number `item`.
    """

    kind: str
    value: Value | None = None
    item: Any = None
    requires_grad: bool = False
    grad_name: str = ""
    strides: tuple[int, ...] = ()


@dataclass
class Capture:
    """A run that was recorded.

    result: what the run returned, eager's own. graph: what it computed; its inputs are the
    argument tensors, then captured tensors, then constants; tensors: the argument tensors behind
    its inputs. tracked: the values that needed gradients. outputs, structure: how the result is
    built. reads: what must still hold for a replay. reasons: why it cannot be replayed; empty for a
    closed run.
    """

    result: Any
    graph: Graph
    arguments: tuple[Value, ...]
    captured: dict[Value, Tensor]
    constants: dict[Value, np.ndarray]
    tracked: frozenset[Value]
    outputs: tuple[Output, ...]
    structure: Structure
    tensors: dict[Value, Tensor] = field(default_factory=dict)
    reads: list[Read] = field(default_factory=list)
    reasons: list[Reason] = field(default_factory=list)


def argument_names(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> list[str]:
    """A name for each leaf of the arguments, from the signature: `x`, `batch_0`, `batch_1`."""
    module = nn_module_class()
    if module is not None and args and function is vars(module)["__call__"]:
        function = type(args[0]).forward  # which gets the arguments as they are
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
        named: list[tuple[str, Any]] = []
        positional = list(bound.args)
        parameters = list(inspect.signature(function).parameters.values())
        for parameter in parameters:
            if parameter.kind is parameter.VAR_POSITIONAL:
                named += [(f"{parameter.name}{i}", v) for i, v in enumerate(positional)]
                positional = []
            elif positional and parameter.kind in (
                parameter.POSITIONAL_ONLY,
                parameter.POSITIONAL_OR_KEYWORD,
            ):
                named.append((parameter.name, positional.pop(0)))
    except (TypeError, ValueError):
        named = [(f"argument{i}", v) for i, v in enumerate(args)]
    count = len(args)
    named = named[:count] + [(f"argument{i}", args[i]) for i in range(len(named), count)]
    named += list(kwargs.items())
    names: list[str] = []
    for name, value in named:
        leaves: list[Any] = []
        flatten(value, leaves)
        names += [name] if not is_container(value) else [f"{name}_{i}" for i in range(len(leaves))]
    return names


def capture(
    function: Callable[..., Any], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
) -> Capture:
    """Run `function` eagerly, record it, and observe what it read and did.

    function: a plain Python function (bound methods and modules are given by their function with
    `self` among the arguments). Raises whatever the function raises; nothing is captured then.
    """
    keywords = dict(kwargs or {})
    function, args = plain_function(function, args)
    recorder = Recorder()
    leaves: list[Any] = []
    flatten((args, keywords), leaves)
    names = argument_names(function, args, keywords)
    named = list(zip(names, leaves, strict=True))
    for name, leaf in named:
        if isinstance(leaf, Tensor):
            recorder.argument(leaf, name)
    observer = NamingObserver((args, keywords), [(n, v) for n, v in named if not isinstance(v, Tensor)])
    recorder.name_of = observer.name_of
    previous, state.interpreter = state.interpreter, recorder
    try:
        result = observer.run(function, args, keywords)
    finally:
        state.interpreter = previous
    try:
        made = _finish(recorder, observer, result, leaves)
        made.reasons = [_placed(r, function) for r in made.reasons]
        return made
    finally:
        observer.release()


def plain_function(function: Any, args: tuple[Any, ...]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The Python function behind a jitted function, bound method or callable object, and its arguments."""
    while True:
        if inspect.ismethod(function):  # first: it shows the attributes of its function
            args = (function.__self__, *args)
            function = function.__func__
        elif getattr(function, "__fusegrad_jit__", False):
            function = function.__wrapped__
        elif not inspect.isfunction(function) and inspect.isfunction(_call_of(function)):
            args = (function, *args)
            function = _call_of(function)
        else:
            return function, args


def _call_of(value: Any) -> Any:
    """What calling an object runs: `__call__` as its class defines it."""
    return vars(type).get("__call__") if isinstance(value, type) else getattr(type(value), "__call__", None)  # noqa: B004


def _placed(reason: Reason, function: Callable[..., Any]) -> Reason:
    """A reason that is about the result as a whole points at the function's definition."""
    code = getattr(function, "__code__", None)
    if reason.file or code is None:
        return reason
    return dataclasses.replace(reason, file=code.co_filename, line=code.co_firstlineno)


def _finish(recorder: Recorder, observer: Observer, result: Any, leaves: list[Any]) -> Capture:
    reasons = [Reason(*r) for r in recorder.open_reasons]
    reasons += [Reason(e.reason, e.site.file, e.site.line) for e in observer.effects]
    for value, tensor in recorder.captured.items():
        if id(tensor) not in observer.captured_tensors:
            reasons.append(
                Reason(f"uses a tensor ({value.type.dtype.name}{list(value.shape)}) of unknown origin", "", 0)
            )
    found: list[Any] = []
    try:
        structure = flatten(result, found)
    except ValueError as error:
        reasons.append(Reason(f"returns {error}", "", 0))
        found = []
        structure = flatten((), found)
    reasons += _containers(result, observer, set())
    outputs = tuple(_output(recorder, observer, leaf, leaves, reasons) for leaf in found)
    reasons += _sharing(outputs, found, leaves, recorder)
    values = dict.fromkeys(o.value for o in outputs if o.value is not None)
    inputs = (*recorder.inputs, *recorder.captured, *recorder.constants)
    graph = Graph(inputs, tuple(recorder.equations), tuple(values))
    return Capture(
        result,
        graph,
        tuple(recorder.inputs),
        dict(recorder.captured),
        dict(recorder.constants),
        frozenset(recorder.tracked),
        outputs,
        structure,
        {recorder.value_of(t): t for t in leaves if isinstance(t, Tensor)},
        list(observer.reads),
        list(dict.fromkeys(reasons)),
    )


def _output(
    recorder: Recorder, observer: Observer, leaf: Any, leaves: list[Any], reasons: list[Reason]
) -> Output:
    """How a replay makes this leaf of the result."""
    for i, argument in enumerate(leaves):
        if leaf is argument and not is_plain(leaf):
            return Output("argument", item=i)
    if isinstance(leaf, Tensor):
        if id(leaf) in observer.captured_tensors:
            return Output("captured", item=weakref.ref(leaf))
        if recorder.knows(leaf):
            node = leaf.grad_fn
            name = node.name() if node is not None else ""
            strides = leaf.array.strides
            return Output("value", recorder.value_of(leaf), None, leaf.needs_grad, name, strides)
        reasons.append(Reason("returns a tensor of unknown origin", "", 0))
    elif not is_plain(leaf):
        reasons.append(Reason(f"returns an object of type {type(leaf).__name__} that is not a tensor", "", 0))
    return Output("object", item=leaf)


def _containers(result: Any, observer: Observer, seen: set[int]) -> Iterator[Reason]:
    """Containers in the result that a replay could not make afresh: found outside, or met twice."""
    if not is_container(result):
        return
    if type(result) is not tuple:
        if observer.status(result) != "local":
            yield Reason(f"returns a {type(result).__name__} that it did not make", "", 0)
        if id(result) in seen:
            yield Reason(f"returns the same {type(result).__name__} twice", "", 0)
    if id(result) in seen:
        return
    seen.add(id(result))
    for item in contents(result):
        yield from _containers(item, observer, seen)


def _sharing(
    outputs: tuple[Output, ...], found: list[Any], leaves: list[Any], recorder: Recorder
) -> Iterator[Reason]:
    """Results that share memory with each other or with what came in: a replay would return copies."""
    computed = [(o, t) for o, t in zip(outputs, found, strict=True) if o.kind == "value"]
    outside = [a.array for a in leaves if isinstance(a, Tensor)]
    outside += [t.array for t in recorder.captured.values()]
    for i, (output, tensor) in enumerate(computed):
        if any(np.may_share_memory(tensor.array, a) for a in outside):
            yield Reason("returns a view of a tensor that came from outside", "", 0, "memory")
        for other, sibling in computed[:i]:
            same = other.value == output.value
            if same and sibling is not tensor:
                yield Reason("returns two tensors of one memory", "", 0, "memory")
            elif not same and np.may_share_memory(tensor.array, sibling.array):
                yield Reason("returns two views of one memory", "", 0, "memory")
