"""A capture as data: a recorded run goes in, text and arrays come out, and the other way round.

The graph is its printed text, which is parsed; tensors from outside are numbers of objects in a `World`. What
has no words here is refused, with a reason: there is no capture that comes back with less than it had.
"""

from __future__ import annotations

import dataclasses
import math
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import NoneType
from typing import Any

import numpy as np

from fusegrad.compiler.artefacts import effects, numbers, reads
from fusegrad.compiler.artefacts.lines import file_of, path_of
from fusegrad.compiler.artefacts.structures import structure, structure_again
from fusegrad.compiler.artefacts.world import Data, Unsayable, World, from_plain, plain
from fusegrad.eager.core.dtypes import FROM_SHORT, DType
from fusegrad.eager.core.op import REGISTRY
from fusegrad.eager.ops.shape.slicing import Slice
from fusegrad.tracer.capture.captured import Capture, Output, Reason
from fusegrad.tracer.ir.branch import Side
from fusegrad.tracer.ir.graph import Equation, Graph, Source, Subgraph, Value, print_graph
from fusegrad.tracer.ir.rolled import Body
from fusegrad.tracer.ir.text import parse_graph
from fusegrad.tracer.observe.values import is_plain, text_of
from fusegrad.tracer.twin.sites import Site

MOST_CONSTANTS = 1 << 22  # bytes; what is larger is found again faster than read
MOST_TEXT = 1 << 22  # characters

# What of a capture is not told of, and why it need not be.
UNTOLD = {
    "result": "eager's own, given to the user",
    "tensors": "the arguments of this call",
    "reasons": "there are none",
    "foretold": "of runs that cannot be replayed",
    "later": "of the recorded run alone",
    "before": "of the recorded run alone",
    "asked": "for files that are exported",
    "changing": "`hosts` and `outputs` say where its numbers are found",
    "is_open": "kept is what one run has recorded; two make it for all counts",
    "changes": "what `left` and `hosts` say, in words",
    "fixed": "there is none",
}
# What must be empty for a capture to be told of, and what is said where it is not.
EMPTY = {
    "sets": "makes or meets a set, of which each process has an order of its own",
    "recomputed": "computes parts again in backward",
}


def told(made: Capture, world: World, leaves: Sequence[Any]) -> tuple[dict[str, Data], dict[str, bytes]]:
    """A capture as data and parts; the world has the roots already. leaves: of the call's arguments.

    Raises Unsayable.
    """
    for name, why in EMPTY.items():
        if getattr(made, name):
            raise Unsayable(why)
    if any(made.fixed):
        raise Unsayable("has to know a number that it was to follow")
    said = [[*reads.told(read, world), "at", *_place(read.site, world)] for read in made.reads]
    places = {id(leaf): number for number, leaf in reversed([*enumerate(leaves)])}
    data = {
        "facts": [*world.facts],
        "reads": said,
        "graph": graph_text(made.graph),
        "sources": [_source(equation.source, world) for equation in made.graph.equations],
        "arguments": [[value.name, places[id(made.tensors[value])]] for value in made.arguments],
        "captured": [[value.name, world.known(tensor)] for value, tensor in made.captured.items()],
        "met": [world.known(tensor) for tensor in made.met],
        "tracked": sorted(value.name for value in made.tracked),
        "numbers": sorted(value.name for value in made.numbers),
        "left": effects.left(made.left, made.tracked, world),
        "hosts": [[effects.host(host, world), before] for host, before in made.hosts],
        # Those that are gone, which the run had made for itself, do not come back.
        "derived": [effects.place(p, world) for p in made.derived if isinstance(p, int) or p() is not None],
        "outputs": [_output(output, world) for output in made.outputs],
        "structure": structure(made.structure.key),
        "same": [[leaf, effects.place(place, world)] for leaf, place in made.same],
        "bare": [*made.bare],
        "not_rolled": [[r.reason, *file_of(r.file, world), r.line, r.kind] for r in made.not_rolled],
        "constants": [[v.name, str(array.dtype), *array.shape] for v, array in made.constants.items()],
    }
    if not all(array.flags.c_contiguous and array.dtype.kind in "biufc" for array in made.constants.values()):
        raise Unsayable("has constants of a kind or order that is not kept")
    if sum(array.nbytes for array in made.constants.values()) > MOST_CONSTANTS:
        raise Unsayable("has constants of more bytes than are kept")
    return data, {value.name: array.tobytes() for value, array in made.constants.items()}


def again(
    data: Mapping[str, Data], parts: Mapping[str, bytes], world: World, leaves: Sequence[Any]
) -> Capture | str:
    """The capture that was told of, if all that it read is so now; else what is not, in words. May raise
    anything where there is nothing to look at.
    """
    found, known = [], 0
    for *said, _, file, line, text in data["reads"]:
        read = reads.again(said, world, Site(path_of(file, world), line, text))
        same = reads.told(read, world) == said
        for fact, expected, value in _met(world, data["facts"], known):
            if fact != expected:
                return f"{text_of(value)} is of another kind, or has other code"
        if not same:
            return f"{read.subject()} is another one, now {read.was()}"
        known = len(world.facts)
        found.append(read)
    if world.facts != data["facts"]:
        return "other objects are met"
    graph = _graph(data["graph"], data["sources"], world)
    values = {v.name: v for v in graph.inputs}
    values.update((v.name, v) for equation in graph.equations for v in equation.outputs)
    arguments = {values[name]: leaves[place] for name, place in data["arguments"]}
    captured = {values[name]: world.at(number) for name, number in data["captured"]}
    for value, tensor in (*arguments.items(), *captured.items()):
        if (tensor.array.shape, tensor.array.dtype) != (value.shape, value.dtype):
            return "a tensor has another type"
    return Capture(
        None,
        graph,
        tuple(arguments),
        captured,
        {
            values[name]: np.frombuffer(parts[name], dtype).reshape(shape).copy()
            for name, dtype, *shape in data["constants"]
        },
        frozenset(values[name] for name in data["tracked"]),
        tuple(_output_again(output, values, world) for output in data["outputs"]),
        structure_again(data["structure"]),
        tensors=arguments,
        met=[world.at(number) for number in data["met"]],
        same=[(leaf, effects.place_again(place, world)) for leaf, place in data["same"]],
        bare=data["bare"],
        derived=[effects.place_again(place, world) for place in data["derived"]],
        left=effects.left_again(data["left"], values, world),
        hosts=[(effects.host_again(host, values, world), before) for host, before in data["hosts"]],
        reads=found,
        not_rolled=[
            Reason(why, path_of(file, world), line, kind) for why, file, line, kind in data["not_rolled"]
        ],
        numbers=frozenset(values[name] for name in data["numbers"]),
    )


def _met(world: World, facts: Sequence[Data], known: int) -> Iterator[tuple[Data, Data, Any]]:
    """What is said of each object that has been met since so many were, what was, and the object."""
    for number in range(known, len(world.facts)):
        yield world.facts[number], facts[number] if number < len(facts) else None, world.objects[number]


# ---------------------------------------------------------------------------------- places in sources


def _place(site: Site, world: World) -> list[Data]:
    return [*file_of(site.file, world), site.line, site.text]


def _source(source: Source | None, world: World) -> list[Data]:
    return [] if source is None else [*file_of(source.file, world), source.line]


# ---------------------------------------------------------------------------------- the graph


# What a graph's text says to the bit, and names in it that mean something already.
_LITERALS = frozenset({bool, int, float, complex, str, NoneType, Slice})
_OF_NAMES = frozenset({"__module__", "__doc__", "__dict__", "__qualname__", "__orig_bases__", "grad_name"})
_TAKEN = frozenset({"inf", "nan", *FROM_SHORT})
_NANS = (plain(math.nan),)


def graph_text(graph: Graph) -> str:
    """The graph's text, where that says all of it. Raises Unsayable."""
    _check_words(graph)
    try:
        text = print_graph(graph, sources=False)
    except TypeError as error:
        raise Unsayable(f"has no text for its graph: {error}") from error
    if len(text) > MOST_TEXT:
        raise Unsayable("has a graph that is longer than what is kept")
    return text


def _check_words(graph: Graph) -> None:
    """Whether all that stands in a graph comes back from its text as it is. Raises Unsayable."""
    named = [*graph.inputs, *(value for equation in graph.equations for value in equation.outputs)]
    names = {value.name for value in named}
    if len(names) < len({*named}) or not names.isdisjoint(_TAKEN):
        raise Unsayable("has two values of one name in its graph, or one with a name that is taken")
    for equation in graph.equations:
        if type(equation.op).__module__.startswith("fusegrad.eager.library."):
            # What it says of types went into the graph, and nobody has read it.
            name = equation.op.name.replace("__", "::")
            raise Unsayable(f"calls an op `{name}` of the program's own")
        if REGISTRY.get(equation.op.name) is not equation.op:
            raise Unsayable(f"has an op `{equation.op.name}` that cannot be found by its name")
        for word in (*equation.inputs, *equation.params.values()):
            _check_word(word)
    for word in graph.outputs:
        _check_word(word)


def _check_word(word: Any) -> None:
    if isinstance(word, Subgraph):
        if type(word) not in (Body, Side):
            raise Unsayable("has the gradient of a loop that data end, which is more than its text")
        _check_words(word.graph)
    elif isinstance(word, tuple) and type(word) is not Slice and not means_more(type(word)):
        for part in word:
            _check_word(part)
    elif isinstance(word, (float, complex)) and word != word and plain(word) not in _NANS:
        raise Unsayable("has a NaN in its graph that is another than the text's")
    elif not isinstance(word, (Value, DType)) and type(word) not in _LITERALS and means_more(type(word)):
        raise Unsayable(f"has a {type(word).__name__} in its graph, which has no text")


def means_more(kind: type) -> bool:
    """Whether a class is more than tuples or numbers: some of ours only say what a node is called, for which
    results have a word of their own.
    """
    ours = kind.__module__.startswith("fusegrad.eager.ops.") and kind.__bases__ in ((tuple,), (int,))
    return kind is not tuple and not (ours and not {*vars(kind)} - _OF_NAMES)


def _graph(text: str, sources: Sequence[Data], world: World) -> Graph:
    graph = parse_graph(text)
    equations = [
        dataclasses.replace(e, source=Source(path_of(said[0], world), said[1])) if said else e
        for e, said in zip(graph.equations, sources, strict=True)
    ]
    return Graph(graph.inputs, tuple[Equation, ...](equations), graph.outputs)


# ---------------------------------------------------------------------------------- results


def _none(item: Any, world: World) -> Data:
    if item is not None:
        raise Unsayable("gives a result that has no words")
    return []


def _plain_item(item: Any, world: World) -> Data:
    if not is_plain(item):
        raise Unsayable("gives an object")
    return plain(item)


def _captured_item(item: Any, world: World) -> Data:
    return world.known(item())


def _again_captured(item: Data, world: World) -> Any:
    return weakref.ref(world.at(item))


Said = tuple[Callable[[Any, World], Data], Callable[[Data, Any], Any]]
# Of each kind of output what its `item` is, as data and back; or why it is not kept.
ITEMS: dict[str, Said | str] = {
    "value": (_none, lambda item, world: None),
    "number": (lambda item, world: item.name, lambda item, world: item),
    "object": (_plain_item, lambda item, world: from_plain(item)),
    "captured": (_captured_item, _again_captured),
    "argument": (lambda item, world: item, lambda item, world: item),
    "alias": (lambda item, world: [*map(int, item)], lambda item, world: (*item[:2], bool(item[2]))),
    "late": "gives what lies somewhere when all is done",
    "computed": (numbers.told, lambda item, world: item),
}


def _output(output: Output, world: World) -> Data:
    said = ITEMS[output.kind]
    if isinstance(said, str):
        raise Unsayable(said)
    if output.lent is not None:
        raise Unsayable("gives a NumPy array")
    value = "" if output.value is None else output.value.name
    flags = [int(output.requires_grad), int(output.freed), int(output.inference)]
    held = [[numbers.told(symbol, world), value.name] for symbol, value in output.held]
    said_of_item = said[0](output.item, world)
    return [output.kind, value, said_of_item, output.grad_name, [*output.strides], *flags, held]


def _output_again(data: Data, values: Mapping[str, Value], world: World) -> Output:
    kind, value, item, grad_name, strides, requires_grad, freed, inference, held = data
    said = ITEMS[kind]
    assert not isinstance(said, str)
    return Output(
        kind,
        values[value] if value else None,
        _of_values(kind, item, values, world) if kind in ("number", "computed") else said[1](item, world),
        bool(requires_grad),
        grad_name,
        tuple(strides),
        bool(freed),
        bool(inference),
        held=tuple((numbers.again(symbol, values, world), values[value]) for symbol, value in held),
    )


def _of_values(kind: str, item: Data, values: Mapping[str, Value], world: World) -> Any:
    return values[item] if kind == "number" else numbers.again(item, values, world)
