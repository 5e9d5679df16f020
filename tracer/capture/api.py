"""Capture: a function and its arguments go in; eager's result, and all that a replay needs, come out."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fusegrad.eager.autograd.engine import reachable
from fusegrad.eager.core.handlers import in_charge
from fusegrad.eager.core.shared import is_same
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.capture.callbacks import Callbacks
from fusegrad.tracer.capture.carried import carry
from fusegrad.tracer.capture.hooks import FOLLOWING
from fusegrad.tracer.capture.signatures import argument_names, plain_function
from fusegrad.tracer.ir.graph import Graph, Value, ancestors
from fusegrad.tracer.observe import purity
from fusegrad.tracer.observe.hosts import Host, Place
from fusegrad.tracer.observe.lookup import type_lookup
from fusegrad.tracer.observe.naming import NamingObserver
from fusegrad.tracer.observe.observer import Observer
from fusegrad.tracer.observe.pytree import Structure, contents, flatten, is_container
from fusegrad.tracer.observe.reads import Read
from fusegrad.tracer.observe.stores import Grown, Stored
from fusegrad.tracer.observe.values import hold, is_plain
from fusegrad.tracer.record.before import Before
from fusegrad.tracer.record.later import Later
from fusegrad.tracer.record.recorder import Recorder
from fusegrad.tracer.twin.sites import Site


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a run cannot be replayed, with the user's line.

    kind: "memory" where only the memory of the results could not be repeated, not their values; "once"
    where a later run will not do it again.
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

    kind "value": computed, `value` in the graph; "number": what `item`, a value in the graph, has for its one
    element; "late": what lies at the place `item` when all is done; "object": the plain Python value `item`;
    "captured": the tensor that the reference `item` gives when called; "argument": the argument
    leaf number `item`; "alias": a tensor off the graph, of the memory of the output number `item[0]`, and the
    same as the output number `item[1]`. freed: a backward inside the run has freed its graph.
    """

    kind: str
    value: Value | None = None
    item: Any = None
    requires_grad: bool = False
    grad_name: str = ""
    strides: tuple[int, ...] = ()
    freed: bool = False


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute that the run has set: of the object that `owner` gives when called, to a value that has
    this structure, with so many leaves (`count`).
    """

    owner: Callable[[], Any]
    name: str
    structure: Structure
    count: int


@dataclass(frozen=True, slots=True)
class Items:
    """What the run has appended to the list that `owner` gives when called: a tuple of this structure, with
    so many leaves (`count`). emptied: whether what was there before is gone.
    """

    owner: Callable[[], Any]
    emptied: bool
    structure: Structure
    count: int


@dataclass(frozen=True, slots=True)
class Left:
    """What the run left in the world, besides its result.

    writes: (input, what its memory holds in the end); quiet: the numbers of those that autograd does not
    notice. gradients: (tensor, what its `.grad` is in the end; None: there is none). attributes: those that
    were set; items: what lists have got; the leaves of both are the last of the capture's outputs. counts:
    those that grew: the object, the name, and by how much. after: methods that are called when all is done.
    numbers: what the Python numbers among the outputs are taken out of. replaced: (tensor, what the memory
    holds that it is given).
    """

    writes: tuple[tuple[Value, Value], ...] = ()
    quiet: frozenset[int] = frozenset()
    gradients: tuple[tuple[Place, Value | None], ...] = ()
    attributes: tuple[Attribute, ...] = ()
    items: tuple[Items, ...] = ()
    counts: tuple[tuple[Callable[[], Any], str, int], ...] = ()
    after: tuple[weakref.WeakMethod[Any], ...] = ()
    numbers: tuple[Value, ...] = ()
    replaced: tuple[tuple[Place, Value], ...] = ()

    def values(self) -> list[Value]:
        """What is computed for the world, and for the numbers of the result."""
        gradients = (v for _, v in self.gradients if v is not None)
        return [*(v for _, v in self.writes), *gradients, *(v for _, v in self.replaced), *self.numbers]

    def __bool__(self) -> bool:
        python = self.attributes or self.items or self.counts or self.after
        return bool(self.writes or self.gradients or self.replaced or python)


@dataclass
class Capture:
    """A run that was recorded.

    result: what the run returned, eager's own. graph: what it computed; its inputs are the
    argument tensors, then captured tensors, then what Python gives, then constants; tensors: the argument
    tensors behind its inputs. tracked: the values that needed gradients. outputs, structure: how the
    result is built. left: what else it left. hosts: the inputs whose values Python gives, each with the
    number of equations before it.
    reads: what must still hold for a replay. same: (leaf number, place) of tensors that were one array,
    and so are one value of the graph. bare: the leaves that had no `.grad`, and must have none. derived: the
    tensors whose gradients the run asked for, which must have no hooks.
    reasons: why it cannot be replayed; empty for a closed run. foretold: whether a run that meets the same
    `reads` cannot be replayed, either. changes: what it did to the world that a
    replay does, too. later: what of the result waits to be computed. before: what takes the run back.
    not_rolled: the long loops of which every round ran.
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
    same: list[tuple[int, Place]] = field(default_factory=list)
    bare: list[int] = field(default_factory=list)
    derived: list[Place] = field(default_factory=list)
    left: Left = Left()
    hosts: list[tuple[Host, int]] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    reasons: list[Reason] = field(default_factory=list)
    foretold: bool = False
    changes: list[Reason] = field(default_factory=list)
    later: Later | None = None
    before: Before | None = None
    not_rolled: list[Reason] = field(default_factory=list)


def capture(
    function: Callable[..., Any],
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    puts_off: bool = False,
    keeps: bool = False,
) -> Capture:
    """Run `function` eagerly, record it, and observe what it read and did.

    function: a plain Python function (bound methods and modules are given by their function with
    `self` among the arguments). puts_off: whether tensors of the result may have no values until the
    capture's `later` is settled. keeps: whether the capture has what takes the run back. Raises whatever
    the function raises; nothing is captured then.
    """
    keywords, given, called = dict(kwargs or {}), args, function
    function, args = plain_function(function, args)
    recorder = Recorder(puts_off, keeps)
    leaves: list[Any] = []
    flatten((given, keywords), leaves)
    names = argument_names(function, args, keywords)
    named = list(zip(names[len(names) - len(leaves) :], leaves, strict=True))
    for place, (name, leaf) in enumerate(named):
        if isinstance(leaf, Tensor):
            recorder.argument(leaf, name, place)
    bound = args[: len(args) - len(given)]
    roots = [("self", owner) for owner in bound]
    roots += [(n, v) for n, v in named if not isinstance(v, Tensor)]
    observer = NamingObserver((given, keywords), FOLLOWING, roots)
    _reach_bound(observer, called, bound)
    recorder.name_of, recorder.reached = observer.name_of, observer.reached
    observer.opened, observer.changed = recorder.code_opens, recorder.change
    observer.numbers, recorder.memory.let_go = recorder.numbers, functools.partial(observer.forget, 0)
    recorder.graph_changes.callbacks = Callbacks(observer)
    previous, state.interpreter = state.interpreter, in_charge(recorder)
    try:
        try:
            # The engine's own methods are called as programs call them; others are followed.
            of_ours = inspect.ismethod(called) and purity.is_trusted(function)
            result = observer.run(*((called, given) if of_ours else (function, args)), keywords)
            if recorder.before is not None:
                recorder.before.over()
        finally:
            state.interpreter = previous
        made = _finish(recorder, observer, result, leaves)
        made.reasons = [_placed(r, function) for r in made.reasons]
        if made.reasons:
            recorder.later.settle()
        return made
    except BaseException:
        recorder.later.settle()  # what the run leaves behind has its values
        raise
    finally:
        observer.release()
        recorder.release()


def _reach_bound(observer: Observer, called: Any, bound: tuple[Any, ...]) -> None:
    """Note what a bound method or a callable object brings along: it is no argument of the call."""
    for owner in bound:
        observer.reached(owner)
    while getattr(called, "__fusegrad_jit__", False) and not inspect.ismethod(called):
        called = called.__wrapped__
    if any(called is owner for owner in bound):
        # Which code runs is for its class to say.
        site = Site("", 0, type(called).__name__)
        observer.read_type(called, site)
        observer.read_class(type(called), "__call__", type_lookup(type(called), "__call__"), site)


def _placed(reason: Reason, function: Callable[..., Any]) -> Reason:
    """A reason that is about the result as a whole points at the function's definition."""
    code = getattr(function, "__code__", None)
    if reason.file or code is None:
        return reason
    return dataclasses.replace(reason, file=code.co_filename, line=code.co_firstlineno)


def _finish(recorder: Recorder, observer: Observer, result: Any, leaves: list[Any]) -> Capture:
    recorder.finish()
    reasons = [Reason(*r) for r in recorder.open_reasons]
    reasons += [Reason(e.reason, e.site.file, e.site.line, e.kind) for e in observer.effects]
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
    shown: set[int] = set()
    reasons += _containers(result, observer, shown)
    attributes = tuple(_attribute(stored, observer, found, shown, reasons) for stored in observer.stores)
    items = tuple(_items(grown, observer, found, shown, reasons) for grown in observer.stores.grown.values())
    if items and recorder.before is not None:
        reasons.append(Reason("changes a list that lives outside the function", "", 0))
    outputs = tuple(_output(recorder, observer, leaf, leaves, reasons) for leaf in found)
    outputs = _aliased(outputs, found)
    same = _same(leaves, observer)
    kept = [o.item() for o in outputs if o.kind == "captured"]
    kept += [place() for _, place in same if not isinstance(place, int)]
    carry(recorder, observer, kept)
    reasons += _sharing(outputs, found, leaves, recorder)
    counts = tuple((hold(c.owner), c.name, c.value() - c.first) for c in observer.stores.counts())
    left = _left(recorder, outputs, found, reasons)
    python = sum([a.count for a in attributes] + [i.count for i in items])
    if any(o.kind == "late" for o in outputs[len(outputs) - python :]):
        reasons.append(Reason("sets an attribute to what a learning rate schedule has set", "", 0))
    numbers = tuple(dict.fromkeys(o.item for o in outputs if o.kind == "number"))
    left = dataclasses.replace(left, attributes=attributes, items=items, counts=counts, numbers=numbers)
    values = dict.fromkeys(o.value for o in outputs if o.value is not None)
    hosts = (h.value for h, _ in recorder.hosts)
    inputs = (*recorder.inputs, *recorder.captured, *hosts, *recorder.constants)
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
        {recorder.memory.find(t.array).original: t for t in leaves if isinstance(t, Tensor)},  # type: ignore[union-attr]
        same,
        recorder.bare,
        [*recorder.derived.values()],
        left,
        recorder.hosts,
        [*observer.reads, *recorder.reads],
        list(dict.fromkeys(reasons)),
        bool(reasons) and (recorder.code_first or not recorder.open_reasons),
        [Reason(*change) for change in dict.fromkeys(recorder.changes)],
        recorder.later,
        recorder.before,
        [
            Reason(str(loop), loop.site.file, loop.site.line)
            for loop in dict.fromkeys(observer.loops.not_rolled)
        ],
    )


def _attribute(
    stored: Stored, observer: Observer, found: list[Any], shown: set[int], reasons: list[Reason]
) -> Attribute:
    """What a replay sets an attribute to; `found` gets its leaves, and `shown` its containers."""
    value, before = stored.value(), len(found)
    reasons += _containers(value, observer, shown)
    try:
        structure = flatten(value, found)
    except ValueError as error:
        reasons.append(Reason(f"sets `{stored.name}` to {error}", "", 0))
        del found[before:]
        structure = flatten((), found)
    return Attribute(hold(stored.owner), stored.name, structure, len(found) - before)


def _items(
    grown: Grown, observer: Observer, found: list[Any], shown: set[int], reasons: list[Reason]
) -> Items:
    """What a replay appends to a list; `found` and `shown` as in `_attribute`."""
    before = len(found)
    reasons += (reason for item in grown.added for reason in _containers(item, observer, shown))
    try:
        structure = flatten(tuple(grown.added), found)
    except ValueError as error:
        reasons.append(Reason(f"appends {error} to a list", "", 0))
        del found[before:]
        structure = flatten((), found)
    return Items(hold(grown.owner), grown.emptied, structure, len(found) - before)


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
            known = recorder.memory.find(leaf.array)
            if known is not None and any(known.original == h.value for h, _ in recorder.hosts if h.lent):
                reasons.append(Reason("returns a tensor's .grad that was there before", "", 0))
            node = leaf.grad_fn
            name = node.name() if node is not None else ""
            strides = leaf.array.strides
            nodes = reachable([leaf])
            freed = any(n.inputs is None for n in nodes)
            problem = "" if freed or not leaf.needs_grad else recorder.graph_changes.problem_of(nodes)
            if problem:
                reasons.append(Reason(problem, "", 0))
            if any(map(recorder.graph_changes.keeps_what_is_gone, nodes)):
                reasons.append(Reason("gives a result whose backward needs memory written since", "", 0))
            return Output("value", recorder.value_of(leaf), None, leaf.needs_grad, name, strides, freed)
        reasons.append(Reason("returns a tensor of unknown origin", "", 0))
    elif not is_plain(leaf):
        reasons.append(Reason(f"returns an object of type {type(leaf).__name__} that is not a tensor", "", 0))
    number = recorder.numbers.of(leaf)
    if number is not None and number.value is not None:
        return Output("number", item=recorder.taken_out_of(number.value))
    return Output("object", item=leaf) if number is None else Output("late", item=number.place)


def _same(leaves: list[Any], observer: Observer) -> list[tuple[int, Place]]:
    """Where two tensors of the call, or one of it and one found outside, were one array."""
    tensors = {i: leaf for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)}
    first: dict[int, int] = {}
    same: list[tuple[int, Place]] = []
    for i, tensor in tensors.items():
        j = first.setdefault(id(tensor.array), i)
        if tensors[j] is not tensor:
            same.append((i, j))
    for tensor in observer.captured_tensors.values():
        if id(tensor.array) in first:
            same.append((first[id(tensor.array)], weakref.ref(tensor)))
    return same


def _left(recorder: Recorder, outputs: tuple[Output, ...], found: list[Any], reasons: list[Reason]) -> Left:
    """What the run wrote from outside, and the gradients that it left."""
    writes = []
    seeds = [o.value for o in outputs if o.value is not None and o.requires_grad and not o.freed]
    derived = bool(seeds)
    reasons += [Reason(problem, "", 0) for problem in recorder.graph_changes.problems(derived)]
    if recorder.since and recorder.since & ancestors(recorder.equations, seeds):
        # Its gradients would have to come to the leaf by two ways.
        reasons.append(Reason("writes into a leaf, and gives a result that is derived by it since", "", 0))
    for known in recorder.memory.written():
        if not known.array.flags.c_contiguous:
            reasons.append(Reason("writes into a tensor that does not lie in row-major order", "", 0))
        unseen = known.original in recorder.tracked and known.original not in recorder.noticed
        if derived and unseen:
            # The result's node copies what its backward reads where a write is noticed.
            reasons.append(Reason("writes through `.data`, and gives a result that can be derived", "", 0))
        writes.append((known.original, recorder.memory.current(known)))
    taken = {o.value for o in outputs} | {v for _, v in writes}
    gradients = []
    for gradient in recorder.gradients.values():
        tensor, final = gradient.tensor, gradient.tensor.gradient
        if not gradient.assigned or (final is not None and final is gradient.before):
            continue
        value = None
        if final is not None:
            seen = recorder.memory.find(final.array)
            if seen is None or seen.parent is not None or seen.outside or final.needs_grad:
                reasons.append(
                    Reason("leaves a .grad that it has not computed, or that needs gradients", "", 0)
                )
                continue
            if any(leaf is final for leaf in found):
                reasons.append(Reason("returns a tensor that is also the .grad of another", "", 0))
            value = recorder.copy_of(seen.value) if seen.value in taken else seen.value
            taken.add(value)
        gradients.append((recorder.place_of(tensor), value))
    replaced = []
    for tensor in recorder.replaced.values():
        if derived:
            reasons.append(Reason("replaces a tensor's data, and gives a result that can be derived", "", 0))
        others = [
            t for t in (*found, *recorder.replaced.values()) if isinstance(t, Tensor) and t is not tensor
        ]
        others += [g.tensor.grad for g in recorder.gradients.values() if g.tensor.grad is not None]
        if any(np.may_share_memory(t.array, tensor.array) for t in others):
            reasons.append(Reason("gives a tensor whose memory it has also given to another", "", 0))
        replaced.append((recorder.place_of(tensor), recorder.copy_of(recorder.value_of(tensor))))
    quiet = frozenset(i for i, (first, _) in enumerate(writes) if first not in recorder.noticed)
    left = Left(tuple(writes), quiet, tuple(gradients), after=tuple(recorder.after))
    return dataclasses.replace(left, replaced=tuple(replaced))


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


def _aliased(outputs: tuple[Output, ...], found: list[Any]) -> tuple[Output, ...]:
    """The outputs, those said to be aliases that lie just where another one does, as `detach` gives them."""
    result = list(outputs)
    first = {id(leaf): i for i, leaf in reversed(list(enumerate(found)))}
    for i, (output, leaf) in enumerate(zip(outputs, found, strict=True)):
        if output.kind != "value" or _on_graph(leaf):
            continue
        for j, other in enumerate(found):
            owner = result[j].kind == "value" and (_on_graph(other) or first[id(other)] < first[id(leaf)])
            if owner and leaf.version is other.version and is_same(leaf.array, other.array):
                result[i] = Output("alias", item=(j, first[id(leaf)]))
                break
    return tuple(result)


def _on_graph(tensor: Tensor) -> bool:
    return tensor.needs_grad or tensor.grad_fn is not None


def _sharing(
    outputs: tuple[Output, ...], found: list[Any], leaves: list[Any], recorder: Recorder
) -> Iterator[Reason]:
    """Results that share memory with each other or with what came in: a replay would return copies."""
    computed = [(o, t) for o, t in zip(outputs, found, strict=True) if o.kind == "value"]
    outside = [a.array for a in leaves if isinstance(a, Tensor)]
    outside += recorder.memory.outside()
    for i, (output, tensor) in enumerate(computed):
        if any(np.may_share_memory(tensor.array, a) for a in outside):
            yield Reason("returns a view of a tensor that came from outside", "", 0, "memory")
        for other, sibling in computed[:i]:
            same = other.value == output.value
            if same and sibling is not tensor:
                yield Reason("returns two tensors of one memory", "", 0, "memory")
            elif not same and np.may_share_memory(tensor.array, sibling.array):
                yield Reason("returns two views of one memory", "", 0, "memory")
