"""What is exported: a closed graph with its data, and the arguments that it was captured on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fusegrad.eager.core.errors import source_line
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.pytree import Structure, flatten, is_container
from fusegrad.eager.core.state import no_grad
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.lazy import cached_property
from fusegrad.eager.nn.module import Module
from fusegrad.eager.utils.containers import SUPPORTED_NODES
from fusegrad.tracer.capture.api import capture
from fusegrad.tracer.capture.captured import Capture, ForFile, Output
from fusegrad.tracer.export.files import ExportError
from fusegrad.tracer.ir.evaluation import evaluate_graph
from fusegrad.tracer.ir.graph import GUARD, Equation, Graph, Value, array_type, identifier, source_text
from fusegrad.tracer.observe.arrays.into_tensors import ArrayInput
from fusegrad.tracer.observe.symbols import Scalar
from fusegrad.tracer.record.doors import Answers

if TYPE_CHECKING:
    from fusegrad.tracer.export.open_sizes import OpenSizes

# How far the results of what is written may lie from eager's, relative to the largest one.
TOLERANCE = {"e": 2e-2, "f": 2e-4, "d": 1e-9}
# A function may fill a cache, set an attribute that it keeps, or warn when it is called first.
FIRST_CALLS = 2
# A file's results are always fresh memory, and what was read outside stands in it as it was.
_NO_MATTER = ("memory", "read")


@dataclass(frozen=True)
class Program:
    """A graph that is ready to be written.

    name: the function's name. arguments, captured, constants: the graph's inputs by where they
    come from. examples: the argument tensors of the captured run, in the order of `arguments`.
    leaves: those of all arguments, which `call` puts together. present: by leaf of the result, which `result`
    puts together, whether it is an output; those that are None are not. names: by a value's, what a module
    calls this tensor from outside. open: what is known of sizes that stay open, if any do. ways: where the
    graph branches, each way through it by itself, but those that may never end.
    """

    name: str
    graph: Graph
    arguments: tuple[Value, ...]
    captured: Mapping[Value, Tensor]
    constants: Mapping[Value, np.ndarray]
    examples: tuple[Tensor, ...]
    call: Structure
    leaves: tuple[Any, ...]
    result: Structure
    present: tuple[bool, ...]
    names: Mapping[str, tuple[str, ...]]
    open: OpenSizes | None = None
    ways: tuple[Program, ...] = ()

    @property
    def dropped(self) -> int:
        """How many leaves of the result are None and therefore not among the outputs."""
        return self.present.count(False)

    def role(self, value: Value) -> str:
        """Where an input comes from: "argument", "parameter" or "constant"."""
        if value in self.captured:
            return "parameter"
        return "constant" if value in self.constants else "argument"

    @cached_property
    def data(self) -> dict[Value, np.ndarray]:
        """The present values of the inputs that are no arguments."""
        return {**{v: t.array for v, t in self.captured.items()}, **self.constants}

    @cached_property
    def expected(self) -> tuple[Any, ...]:
        """What eager computes for the examples: arrays, and numbers as they are. Of sizes that are fixed."""
        arguments = dict(zip(self.arguments, self.examples, strict=True))
        bound = [arguments[v] if v in arguments else wrap(self.data[v]) for v in self.graph.inputs]
        with no_grad():
            results = evaluate_graph(self.graph, bound)
        return tuple(r.array if isinstance(r, Tensor) else r for r in results)

    def try_each(self, compare: Callable[[Program], None]) -> None:
        """Let `compare` look at the program, or at its closed forms if sizes are open.

        Raises ExportError as `compare` does, with the sizes.
        """
        if self.open is None:
            return compare(self)
        for said, closed in self.open.trials:
            try:
                compare(closed)
            except ExportError as error:
                advice = "if no such sizes are wanted, say so by the min and max of a Dim"
                raise ExportError(f"{error}\n  so for {said}; {advice}") from error

    @cached_property
    def depends_on_arguments(self) -> set[Value]:
        """The values that another call could see differ; all others are fixed by the exported data."""
        known = set(self.arguments)
        for equation in self.graph.equations:
            if any(v in known for v in equation.values()):
                known.update(equation.outputs)
        return known

    def open_guards(self, kind: str) -> list[Equation]:
        """The guards of `kind` ("branch", "check") that another call could fail."""
        return [
            e
            for e in self.graph.guards()
            if e.params["kind"] == kind and any(v in self.depends_on_arguments for v in e.values())
        ]


def captured_program(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Program:
    """Run `function` on the example arguments and give what it computed.

    Raises ExportError when the run did something that no file could repeat; the message lists
    each with its line.
    """
    return captured_way(function, args, kwargs)[0]


def captured_way(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    rolls: bool = False,
    answers: Answers | None = None,
) -> tuple[Program, tuple[Equation, ...]]:
    """The same, and the guards of the truths that the run asked for. rolls, answers: see `ForFile`."""
    name = function_name(function)
    leaves: list[Any] = []
    structure = flatten((args, dict(kwargs)), leaves)
    arrays = [id(leaf.array) for leaf in leaves if isinstance(leaf, Tensor)]
    if len(set(arrays)) < len(arrays):
        raise ExportError(
            f"export: one tensor is given for two arguments of {name}, and the file could not tell them "
            "apart; give separate tensors (clone one)"
        )
    for attempt in range(FIRST_CALLS):
        taken = capture(function, args, kwargs, puts_off=rolls, for_file=ForFile(_plain, rolls, answers))
        # What has loops rolled has no gradients.
        no_matter = (*_NO_MATTER, "derived") if rolls else _NO_MATTER
        reasons = [r for r in taken.reasons if r.kind not in no_matter]
        if taken.later is not None:
            taken.later.settle()
        again = all(r.kind == "once" for r in reasons) and bool(reasons or taken.changes)
        reasons += taken.changes
        if not again or attempt == FIRST_CALLS - 1:
            break
    if reasons:
        listed = "".join(f"\n  - {_reason_text(r)}" for r in reasons)
        raise ExportError(
            f"export: {name} does what a file cannot repeat:{listed}\n  take this out of the function"
        )
    return _program_of(taken, function, structure, leaves), taken.asked


def _plain(result: Any) -> Any:
    """A result in lists, tuples and dicts of its own: objects of registered classes are what they come apart
    into, those that are dicts with their keys.
    """
    kind = type(result)
    if isinstance(result, dict):
        return {key: _plain(value) for key, value in dict.items(result)}
    if kind in (list, tuple):
        return kind(map(_plain, result))
    if kind in SUPPORTED_NODES and not is_container(result):
        return [_plain(part) for part in SUPPORTED_NODES[kind].flatten_fn(result)[0]]
    return result


def _program_of(taken: Capture, function: Any, structure: Structure, leaves: list[Any]) -> Program:
    """A capture as a program, its result's leaves as the outputs of the graph."""
    name = function_name(function)
    tensors = {id(leaf.array): leaf for leaf in leaves if isinstance(leaf, Tensor)}
    arguments = dict(zip(taken.arguments, tensors.values(), strict=True))
    captured, constants = dict(taken.captured), dict(taken.constants)
    # What NumPy's arrays hold is data of the file, as other values of Python are.
    for host, _ in taken.hosts:
        if isinstance(host, (ArrayInput, Scalar)):
            constants[host.value] = host.found(leaves)
    values = {id(t.array): v for v, t in [*captured.items(), *arguments.items()]}
    names = taken.graph.names()
    outputs: list[Any] = []
    for output in taken.outputs:
        owner = taken.outputs[output.item[0]] if output.kind == "alias" else output
        item = _item(owner, leaves)
        if isinstance(item, Tensor):
            if id(item.array) not in values:  # a tensor from outside that no op has used
                value = Value(identifier(f"captured{len(captured)}", names), array_type(item.array))
                captured[value] = item
                values[id(item.array)] = value
            item = values[id(item.array)]
        elif item is not None and not isinstance(item, (Value, bool, int, float, complex)):
            raise ExportError(
                f"export: {name} returns an object of type {type(item).__name__}; "
                "only tensors, numbers and containers of them can be exported"
            )
        outputs.append(item)
    inputs = (*taken.arguments, *captured, *constants)
    return Program(
        name,
        Graph(inputs, taken.graph.equations, tuple(o for o in outputs if o is not None)),
        taken.arguments,
        captured,
        constants,
        tuple(arguments.values()),
        structure,
        tuple(leaves),
        taken.structure,
        tuple(o is not None for o in outputs),
        _names(function, captured),
    )


def _names(function: Any, captured: Mapping[Value, Tensor]) -> dict[str, tuple[str, ...]]:
    """What the module that is called, or whose method is, calls each of its tensors."""
    while getattr(function, "__fusegrad_jit__", False):
        function = function.__wrapped__
    module = getattr(function, "__self__", function)
    found: dict[int, list[str]] = {}
    if isinstance(module, Module):
        for names in (module.named_parameters, module.named_buffers):
            for name, tensor in names(remove_duplicate=False):
                found.setdefault(id(tensor.array), []).append(name)
    return {v.name: tuple(found[id(t.array)]) for v, t in captured.items() if id(t.array) in found}


def _item(output: Output, leaves: list[Any]) -> Any:
    if output.kind == "value":
        return output.value
    if output.kind == "computed":
        return output.item.find(leaves)
    return leaves[output.item] if output.kind == "argument" else output.item


def function_name(function: Any) -> str:
    """What the user calls the function: its qualified name, or its type's for a module."""
    while getattr(function, "__fusegrad_jit__", False):
        function = function.__wrapped__
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return name.replace("<locals>.", "")


def _reason_text(reason: Any) -> str:
    """`draws random numbers (train.py:12: x = fg.rand(3))`."""
    if not reason.file:
        return str(reason.reason)
    text = source_line(reason.file, reason.line)
    return f"{reason.reason} (at {reason.file}:{reason.line}{': ' + text if text else ''})"


def branched(name: str, guards: Sequence[Equation], how: str = "") -> ExportError:
    """An error about branches that a file cannot say."""
    listed = "".join(f"\n  - {g}" for g in dict.fromkeys(map(guard_text, guards)))
    return ExportError(
        f"export: {name} branched on the values of tensors{how and ' '}{how}, and a file cannot say "
        f"which side other data take:{listed}\n  write the choice with fusegrad.where, or export to .py or "
        ".html, which keep the branch as a guard"
    )


def guard_text(equation: Equation) -> str:
    """`train.py:42  if h.mean() > 10:  (was True)`."""
    assert equation.op is GUARD
    return f"{source_text(equation.source)}  (was {equation.params['expected']!r})"


def difference(result: np.ndarray, expected: np.ndarray) -> str | None:
    """How two results differ beyond rounding, or None."""
    if result.shape != expected.shape:
        return f"shape {list(result.shape)}, not {list(expected.shape)}"
    if expected.dtype.kind != "f":
        wrong = int(np.sum(result != expected))
        return f"{wrong} of {expected.size} elements differ" if wrong else None
    finite = np.isfinite(expected)
    if (
        not np.array_equal(result[~finite], expected[~finite], equal_nan=True)
        or not np.isfinite(result[finite]).all()
    ):
        return "NaN or infinity in other places"
    if not finite.any():
        return None
    away = np.abs(result[finite].astype(np.float64) - expected[finite].astype(np.float64))
    scale = max(1.0, float(np.abs(expected[finite]).max()))
    bound = TOLERANCE[expected.dtype.char] * scale
    return f"by up to {away.max():.3g}" if away.max() > bound else None
