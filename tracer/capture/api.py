"""Capture: a function and its arguments go in; eager's result, and all that a replay needs, come out."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from fusegrad.eager.autograd.engine import reachable
from fusegrad.eager.core.families import is_dense, layout_of
from fusegrad.eager.core.handlers import in_charge
from fusegrad.eager.core.pytree import attributes_of, contents, flatten, is_container
from fusegrad.eager.core.state import modes, state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.capture.aliases import aliased, sharing
from fusegrad.tracer.capture.callbacks import Callbacks
from fusegrad.tracer.capture.captured import Attribute, Capture, ForFile, Items, Left, Output, Reason
from fusegrad.tracer.capture.carried import carry
from fusegrad.tracer.capture.loop_hooks import FOLLOWING
from fusegrad.tracer.capture.naming import NamingObserver
from fusegrad.tracer.capture.signatures import argument_names, plain_function
from fusegrad.tracer.ir.graph import Graph, Value, ancestors
from fusegrad.tracer.observe import purity
from fusegrad.tracer.observe.arrays.into_tensors import ArrayInput, made_of
from fusegrad.tracer.observe.hosts import Place
from fusegrad.tracer.observe.lookup import is_remade, type_lookup
from fusegrad.tracer.observe.numbers import Taken
from fusegrad.tracer.observe.observer import Observer
from fusegrad.tracer.observe.python import context_variables, contexts
from fusegrad.tracer.observe.stores import Grown, Stored
from fusegrad.tracer.observe.symbols import NOTHING_CHANGING, Changing, Holding, computed, holding, parts
from fusegrad.tracer.observe.values import hold, is_plain, plain_key
from fusegrad.tracer.record.allowance import Allowance
from fusegrad.tracer.record.recorder import Recorder
from fusegrad.tracer.twin.sites import Site


def capture(
    function: Callable[..., Any],
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    puts_off: bool = False,
    keeps: bool = False,
    changing: Changing = NOTHING_CHANGING,
    allowance: Allowance | None = None,
    avoided: frozenset[str] = frozenset(),
    for_file: ForFile | None = None,
) -> Capture:
    """Run `function` eagerly, record it, and observe what it read and did.

    function: a plain Python function (bound methods and modules are given by their function with
    `self` among the arguments). puts_off: whether tensors of the result may have no values until the
    capture's `later` is settled. keeps: whether the capture has what takes the run back. changing: where the
    run finds numbers that a replay finds anew. allowance: how long recording may take; when it is used up the
    run goes on without. avoided: see `Recorder`. for_file: what is recorded otherwise where a file is
    written of the run. Raises whatever the function raises; nothing is captured then.
    """
    recorder = Recorder(puts_off, keeps, allowance)
    recorder.numbers.sources, recorder.avoided = changing.sources, avoided
    if for_file is not None:
        recorder.later.short_loops = for_file.rolls
        recorder.doors.answers = for_file.answers or recorder.doors.answers
    args, keywords = _followed(recorder, args, dict(kwargs or {}), changing)
    given, called = args, function
    function, args = plain_function(function, args)
    leaves: list[Any] = []
    flatten((given, keywords), leaves)
    names = argument_names(function, args, keywords)
    named = list(zip(names[len(names) - len(leaves) :], leaves, strict=True))
    # By what stands for it: the run may give a tensor other memory.
    tensors = {
        recorder.argument(leaf, name, place): leaf
        for place, (name, leaf) in enumerate(named)
        if isinstance(leaf, Tensor)
    }
    bound = args[: len(args) - len(given)]
    roots = [("self", owner) for owner in bound]
    roots += [(n, v) for n, v in named if not isinstance(v, Tensor)]
    observer = NamingObserver((given, keywords), FOLLOWING, roots)
    _reach_bound(observer, called, bound)
    recorder.name_of, recorder.reached = observer.name_of, observer.reached
    recorder.made_of = functools.partial(made_of, observer)
    for place, (name, leaf) in enumerate(named):
        observer.arrays.follow_argument(leaf, place, name)
    observer.opened, observer.changed = recorder.code_opens, recorder.change
    observer.changed_later = recorder.change_later
    observer.numbers, recorder.memory.let_go = recorder.numbers, functools.partial(observer.forget, 0)
    recorder.graph_changes.callbacks = Callbacks(observer)
    before = modes()
    # No call comes between this and `try`, in which a signal handler could raise.
    previous, state.interpreter = state.interpreter, in_charge(recorder)
    try:
        try:
            # The engine's own methods are called as programs call them; others are followed.
            of_ours = inspect.ismethod(called) and purity.is_trusted(function)
            result = observer.run(*((called, given) if of_ours else (function, args)), keywords)
            if for_file is not None:
                result = observer.adopt(for_file.result(result))
            if any(now is not then for now, then in zip(modes(), before, strict=True)):
                observer.open("leaves a mode, such as whether gradients are recorded, as it has set it")
            if recorder.before is not None:
                recorder.before.over()
        finally:
            state.interpreter = previous
        made = _finish(recorder, observer, result, leaves, tensors)
        fixed = recorder.numbers.fixed
        made.changing = changing
        made.fixed = Changing(
            frozenset(i for i in changing.leaves if ("leaf", i) in fixed), changing.sources & fixed
        )
        made.reasons = [_placed(r, function) for r in made.reasons]
        if made.reasons:
            recorder.later.settle()
        return made
    except BaseException:
        recorder.later.settle()  # what the run leaves behind has its values
        raise
    finally:
        observer.release()
        recorder.doors.forget_sizes()
        recorder.release()


def _followed(
    recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any], changing: Changing
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments, with numbers that are followed in place of those that change."""
    if not changing.leaves:
        return args, kwargs
    found, place = [], 0
    for value in (*args, *kwargs.values()):
        inner: list[Any] = []
        flatten(value, inner)
        if place in changing.leaves and not is_container(value):
            value = recorder.numbers.give(("leaf", place), place, value, f"argument {place}")
        found.append(value)
        place += len(inner)
    return tuple(found[: len(args)]), dict(zip(kwargs, found[len(args) :], strict=True))


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


def _finish(
    recorder: Recorder, observer: Observer, result: Any, leaves: list[Any], tensors: dict[Value, Tensor]
) -> Capture:
    recorder.finish()
    reasons = [Reason(*r) for r in recorder.open_reasons]
    if recorder.allowance.spent:
        # What was not recorded would count as if it came from somewhere else.
        return _unfinished(recorder, result, reasons[: [r.kind for r in reasons].index("long") + 1])
    context_variables.check_left(observer)
    contexts.check_ended(observer)
    for item in observer.numbers.items:  # which a replay does not find outside, but is given
        observer.captured_tensors.pop(item, None)
    reasons += [Reason(e.reason, e.site.file, e.site.line, e.kind) for e in observer.effects]
    for value, tensor in recorder.captured.items():
        if id(tensor) not in observer.captured_tensors:
            reasons.append(
                Reason(f"uses a tensor ({value.type.dtype.name}{list(value.shape)}) of unknown origin", "", 0)
            )
    found: list[Any] = []
    try:
        structure = flatten(result, found, objects=functools.partial(_is_made, observer))
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
    found, lent = _tensors_of_arrays(recorder, found)
    if any(id(found[i]) in recorder.replaced for i in lent):
        reasons.append(Reason("gives an array of memory that it has also given to a tensor", "", 0))
    outputs = tuple(_output(recorder, observer, leaf, leaves, reasons) for leaf in found)
    if any(o.requires_grad and not o.freed for o in outputs):
        # Of these nobody knows whether they are written before a backward.
        inference = any(t.is_inference() for t in recorder.captured.values())
        reasons += [Reason("derives what was computed of a tensor of inference mode", "", 0)] * inference
        reasons += [Reason(deed, "", 0) for deed in recorder.calls_again.deeds]
    outputs = aliased(outputs, found)
    outputs = tuple(dataclasses.replace(o, lent=lent.get(i)) for i, o in enumerate(outputs))
    same = _same(leaves, observer)
    kept = [o.item() for o in outputs if o.kind == "captured"]
    kept += [place() for _, place in same if not isinstance(place, int)]
    carried = carry(recorder, observer, kept)
    reasons += sharing(outputs, found, leaves, recorder)
    counts = tuple((hold(c.owner), c.name, c.value() - c.first) for c in observer.stores.counts())
    left = _left(recorder, outputs, found, reasons)
    reasons += _written_arrays(recorder, observer)
    taken = ([o.item] if o.kind == "number" else [value for _, value in o.held] for o in outputs)
    numbers = tuple(dict.fromkeys(itertools.chain.from_iterable(taken)))
    left = dataclasses.replace(left, attributes=attributes, items=items, counts=counts, numbers=numbers)
    left = dataclasses.replace(left, hits=tuple(observer.stores.hits))
    values = dict.fromkeys(o.value for o in outputs if o.value is not None)
    hosts = (h.value for h, _ in recorder.hosts if h.value is not None)
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
        tensors,
        _met(recorder, observer, (*leaves, *carried)),
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
        recomputed=tuple(recorder.calls_again.made),
        numbers=frozenset(recorder.scalars.values),
        asked=tuple(recorder.doors.asked),
        sets=observer.sets,
    )


def _unfinished(recorder: Recorder, result: Any, reasons: list[Reason]) -> Capture:
    """What is known of a run that was too long to record: its result, and why it is not replayed."""
    structure = flatten((), [])
    graph = Graph((), (), ())
    made = Capture(result, graph, (), {}, {}, frozenset(), (), structure)
    made.reasons, made.later = reasons, recorder.later
    return made


def _attribute(
    stored: Stored, observer: Observer, found: list[Any], shown: set[int], reasons: list[Reason]
) -> Attribute:
    """What a replay sets an attribute to; `found` gets its leaves, and `shown` its containers."""
    value, before = stored.value(), len(found)
    if stored.before is not None and _counts_on(stored.owner, stored.before.raw, value):
        reasons.append(Reason(f"sets `{stored.name}` of a class to another number", "", 0))
    reasons += _containers(value, observer, shown)
    try:
        structure = flatten(value, found, objects=functools.partial(_is_made, observer))
    except ValueError as error:
        reasons.append(Reason(f"sets `{stored.name}` to {error}", "", 0))
        del found[before:]
        structure = flatten((), found)
    return Attribute(hold(stored.owner), stored.name, structure, len(found) - before)


def _is_made(observer: Observer, value: Any) -> bool:
    """Whether a value is an object that the run has made, and a replay makes again."""
    return observer.status(value) == "local" and is_remade(value)


def _counts_on(owner: Any, before: Any, value: Any) -> bool:
    """Whether a class has another number than before, as those have that count: each would be a program."""
    return isinstance(owner, type) and type(value) in (int, float) and plain_key(before) != plain_key(value)


def _items(
    grown: Grown, observer: Observer, found: list[Any], shown: set[int], reasons: list[Reason]
) -> Items:
    """What a replay appends to a list; `found` and `shown` as in `_attribute`."""
    before = len(found)
    reasons += _containers(tuple(grown.added), observer, shown)
    try:
        structure = flatten(tuple(grown.added), found, objects=functools.partial(_is_made, observer))
    except ValueError as error:
        reasons.append(Reason(f"appends {error} to a list", "", 0))
        del found[before:]
        structure = flatten((), found)
    return Items(hold(grown.owner), grown.emptied, structure, len(found) - before)


def _tensors_of_arrays(recorder: Recorder, found: list[Any]) -> tuple[list[Any], dict[int, int]]:
    """The leaves of the result, with tensors in place of the arrays that lie in their memory; and by the
    numbers of these leaves, which array it is.
    """
    tensors, lent = [*found], {}
    numbers: dict[int, int] = {}
    for i, leaf in enumerate(found):
        taken = recorder.numbers.of(leaf)
        if taken is not None and taken.tensor is not None and isinstance(leaf, np.ndarray):
            tensors[i] = taken.tensor
            lent[i] = numbers.setdefault(id(leaf), len(numbers))
    return tensors, lent


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
                reasons.append(Reason("returns a .grad, or an array's memory, that was there before", "", 0))
            node = leaf.grad_fn
            name = node.name() if node is not None else ""
            strides = leaf.array.strides
            nodes = reachable([leaf])
            freed = any(n.inputs is None for n in nodes)
            problem = "" if freed or not leaf.needs_grad else recorder.graph_changes.problem_of(nodes)
            problems = [problem] if problem else []
            if any(map(recorder.graph_changes.keeps_what_is_gone, nodes)):
                problems.append("gives a result whose backward needs memory written since")
            if leaf.requires_grad and not leaf.needs_grad:
                problems.append("returns a view made under no_grad of what requires gradients")
            reasons += [Reason(each, "", 0, "derived") for each in problems]
            inference = leaf.is_inference() and not state.inference
            value = recorder.value_of(leaf)
            return Output("value", value, None, leaf.needs_grad, name, strides, freed, inference)
        reasons.append(Reason("returns a tensor of unknown origin", "", 0))
    elif not is_plain(leaf):
        reasons.append(Reason(f"returns an object of type {type(leaf).__name__} that is not a tensor", "", 0))
    number = recorder.numbers.of(leaf)
    if number is not None and number.tensor is not None:
        held = [holding(recorder.value_of(number.tensor), type(leaf.item()))]
        number = Taken(leaf, number.looked, late=computed(type(leaf), held, type(leaf)))
    if number is not None and number.symbol is not None:
        return Output("computed", item=number.symbol)
    if number is not None and number.late is not None:
        held = [s for s in parts([number.late]) if isinstance(s, Holding)]
        taken = tuple((s, recorder.taken_out_of(s.value)) for s in held)
        return Output("computed", item=number.late, held=taken)
    if number is not None and number.value is not None:
        return Output("number", item=recorder.taken_out_of(number.value))
    return Output("object", item=leaf) if number is None else Output("late", item=number.place)


def _met(recorder: Recorder, observer: Observer, others: Iterable[Any]) -> list[Tensor]:
    """The tensors found outside that are no inputs of the graph, and none of `others`."""
    others = {id(t) for t in (*others, *recorder.captured.values())}
    return [tensor for tensor in observer.captured_tensors.values() if id(tensor) not in others]


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
        if not is_dense(*layout_of(known.array)[:2]):
            reasons.append(Reason("writes into a tensor whose elements have gaps between them", "", 0))
        unseen = known.original in recorder.tracked and not recorder.times_written(known.original)
        if derived and unseen:
            # The result's node copies what its backward reads where a write is noticed.
            reasons.append(Reason("writes through `.data`, and gives a result that can be derived", "", 0))
        writes.append((known.original, recorder.memory.current(known)))
    taken = {o.value for o in outputs} | {v for _, v in writes}
    gradients, made = [], _written_results(outputs, found)
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
            if final.version[0]:
                made[value] = final.version[0]
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
    times = tuple(recorder.times_written(first) for first, _ in writes)
    left = Left(tuple(writes), times, made, tuple(gradients), after=tuple(recorder.after))
    return dataclasses.replace(left, replaced=tuple(replaced), flags=recorder.graph_changes.flags())


def _written_results(outputs: tuple[Output, ...], found: list[Any]) -> dict[Value, int]:
    """How often the results that the run made were written, those that were."""
    made: dict[Value, int] = {}
    for output, tensor in zip(outputs, found, strict=True):
        if output.value is not None and type(tensor.version) is list and tensor.version[0]:
            made.setdefault(output.value, tensor.version[0])
    return made


def _written_arrays(recorder: Recorder, observer: Observer) -> Iterator[Reason]:
    """Arrays that the run has read, and written as tensors: a replay reads first and writes then."""
    arrays = [array for _, array in observer.arrays.outside()]
    made = {host.value for host, _ in recorder.hosts if isinstance(host, ArrayInput)}
    for known in recorder.memory.written():
        if known.original in made or any(np.may_share_memory(known.array, array) for array in arrays):
            yield Reason("writes into a tensor that has the memory of a NumPy array which it reads", "", 0)


def _containers(result: Any, observer: Observer, seen: set[int]) -> list[Reason]:
    """Containers in the result that a replay could not make afresh: found outside, or met elsewhere.

    seen: what else the run gives or leaves is made of, to which this is added.
    """
    met: dict[int, Any] = {}
    pending, found = [result], []
    while pending:
        value = pending.pop()
        is_object = _is_made(observer, value)
        if not (is_object or is_container(value)) or id(value) in met:
            continue
        met[id(value)] = value
        pending += attributes_of(value).values() if is_object else contents(value)
        if type(value) is not tuple:
            if observer.status(value) != "local":
                found.append(Reason(f"returns a {type(value).__name__} that it did not make", "", 0))
            if id(value) in seen:
                found.append(Reason(f"returns the same {type(value).__name__} twice", "", 0))
    seen.update(met)
    return found
