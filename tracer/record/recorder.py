"""The recorder: the ops of a run go in, through `bind`; equations, guards and reasons not to replay come out.

While it is in charge of a thread, `bind` still evaluates eagerly, or as late as nobody can tell
(`later.py`); each op is written down as an equation of the graph beside.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any

from fusegrad.eager.autograd.views import base_of
from fusegrad.eager.core.errors import user_location
from fusegrad.eager.core.op import REGISTRY, Op, Params, evaluate
from fusegrad.eager.core.state import Interpreter
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.index.take_and_put import SELECT_AT
from fusegrad.tracer.ir.graph import Equation, Source, Value, array_type, identifier
from fusegrad.tracer.observe.arrays.into_tensors import Made
from fusegrad.tracer.observe.hosts import Gradient, GradientOf, Host, NoGradient, Place
from fusegrad.tracer.observe.numbers import Numbers
from fusegrad.tracer.observe.optimizer_steps import ParametersRead
from fusegrad.tracer.observe.reads import Read
from fusegrad.tracer.observe.symbols import Outcome, Symbol
from fusegrad.tracer.observe.variables import REBIND
from fusegrad.tracer.record.allowance import Allowance
from fusegrad.tracer.record.before import Before
from fusegrad.tracer.record.checkpoints import Checkpoint, Checkpoints
from fusegrad.tracer.record.constants import Constants
from fusegrad.tracer.record.doors import Doors
from fusegrad.tracer.record.draws import draw
from fusegrad.tracer.record.graph_changes import GraphChanges
from fusegrad.tracer.record.later import Later, never_fit
from fusegrad.tracer.record.memory import Chosen, Memory, Unfollowed, shares_memory
from fusegrad.tracer.record.ranges import Ranges
from fusegrad.tracer.record.references import note_operands
from fusegrad.tracer.record.scalars import Doubles, Scalars
from fusegrad.tracer.record.steps import record_step


class Recorder(Interpreter):
    """An interpreter that evaluates and takes notes.

    equations: what ran, in order, guards included.
    inputs: the argument tensors' values; captured: values of tensors found outside, by value;
    constants: values made from Python data during the run; hosts: what a replay asks Python for before
    it goes on, each with the number of equations before it.
    tracked: the values whose tensors needed gradients.
    bare: the arguments that must have no `.grad`. derived: where the leaves from outside are whose gradients
    the run has asked for, by id. steps_taken: how often the run has counted up each count of
    an optimizer's steps, by id, and the value that it then held. after: Python code that replays run in the
    end. since: what leaves from outside held after they were written. replaced: the tensors from outside, by
    id, that were given other memory.
    gradients: the tensors from outside whose `.grad` was looked at or set, by id. before: what takes the run
    back, if that is asked for. open_reasons: (sentence, file, line, kind) for each thing that a replay could
    not repeat; changes: the same for what it does repeat, though it changes the world. code_first: whether
    the first of them is what the function's code does, to which `reads` lead. avoided: the kinds of reasons
    that the run goes around. operands, results: the tensors that ops were given lately, and that they gave,
    if somebody wants to know; nothing for values that came as several. name_of: gives a captured tensor its
    name ("" if unknown); reached: notes that `reads` guard the way to a tensor; made_of: see `Bringing`.
    """

    follows_numbers = True

    def __init__(self, puts_off: bool = False, keeps: bool = False, bound: Allowance | None = None) -> None:
        """puts_off: whether ops may wait (see `later.py`). keeps: whether the run may be taken back."""
        self.equations: list[Equation] = []
        self.inputs: list[Value] = []
        self.captured: dict[Value, Tensor] = {}
        self.constants = Constants()
        self.hosts: list[tuple[Host, int]] = []
        self.tracked: set[Value] = set()
        self.gradients: dict[int, Gradient] = {}
        self.before = Before(self.gradients) if keeps else None
        self.bare: list[int] = []
        self.derived: dict[int, Place] = {}
        self.reads: list[Read] = []
        self.after: list[weakref.WeakMethod[MethodType]] = []
        self.steps_taken: dict[int, tuple[int, Value]] = {}
        self._versions: dict[Value, Any] = {}  # of what comes from outside
        self._taken_out: dict[Value, Value] = {}
        self._writes: dict[int, int] = {}  # by the id of what counts them, how many there were at first
        self.since: set[Value] = set()
        self.replaced: dict[int, Tensor] = {}
        self._done: list[tuple[bool, Any]] = []
        self.open_reasons: list[tuple[str, str, int, str]] = []
        self.code_first = self._leaves_waiting = False  # the latter: what is outside may have no values yet
        self.changes: list[tuple[str, str, int, str]] = []
        self.name_of: Callable[[Tensor], str] = lambda tensor: ""
        self.reached: Callable[[Tensor], Any] = lambda tensor: None
        self.made_of: Callable[[Tensor], Made | None] = lambda tensor: None
        self.memory = Memory(self.emit, self.tracked)
        self.numbers, self.scalars, self.doors = Numbers(), Scalars(self), Doors(self)
        self.doubles, self.in_rules = Doubles(self), self.scalars.in_rules  # type: ignore[method-assign]
        self.numbers.asked = self._depends
        self.later = Later(self.memory, puts_off)
        self.ranges, self.avoided = Ranges(self), frozenset[str]()
        self.later.is_fit = self.ranges.takes
        self.graph_changes, self.allowance = GraphChanges(self), bound or Allowance()
        self.calls_again, self.with_ranks = Checkpoints(self), self.graph_changes.with_ranks
        self.operands: dict[Value, Callable[[], Tensor | None]] | None = None
        self.results: list[weakref.ref[Tensor]] | None = None
        self._places, self.names, self._count = dict[int, int](), set[str](), 0

    # Where values come from.

    def argument(self, tensor: Tensor, name: str, place: int) -> Value:
        """Declare an argument tensor, the leaf number `place` of the call, as an input of the graph."""
        self._places.setdefault(id(tensor), place)
        known = self.memory.find(tensor.array)
        if known is not None:
            return known.value
        value = self._define(tensor, identifier(name, self.names), outside=True)
        self.inputs.append(value)
        return value

    def place_of(self, tensor: Tensor) -> Place:
        """Where a replay finds a tensor from outside."""
        place = self._places.get(id(tensor))
        return weakref.ref(tensor) if place is None else place

    def value_of(self, tensor: Tensor, name: str = "") -> Value:
        """The value that stands for `tensor`; one that was never seen is captured from outside.

        name: for one that nobody else has a name for.
        """
        known = self.memory.find(tensor.array)
        if known is not None:
            return self.memory.current(known)
        name = self.name_of(tensor) or name or f"captured{len(self.captured)}"
        value = self._define(tensor, identifier(name, self.names), outside=True)
        self.captured[value] = tensor
        return value

    def constant(self, tensor: Tensor) -> None:
        """`tensor` was made from Python data, which are guarded: its values are constant, or come anew."""
        made, seen = self.made_of(tensor), self.memory.find(tensor.array)
        if made is not None:
            if seen is None:
                self.host(tensor, "array", *made)
            elif seen.original not in [host.value for host, _ in self.hosts]:
                self.effect("makes a tensor of an array that is in the memory of another one")
            return
        known = None if tensor.needs_grad else self.constants.same(tensor.array)
        if known is None:
            known = self._define(tensor, identifier(f"constant{len(self.constants)}", self.names))
            self.constants.add(known, tensor.array)
        else:
            self.memory.define(tensor.array, known)

    def host(self, tensor: Tensor, name: str, make: Callable[[Value], Host], outside: bool = False) -> None:
        """Note that a replay asks Python for the values of `tensor`."""
        value = self._define(tensor, identifier(f"{name}{len(self.hosts)}", self.names), outside)
        host = make(value)
        self.hosts.append((host, len(self.equations)))
        if self.before is not None and not outside:
            self.before.given[host] = tensor.array.copy()

    def release(self) -> None:
        """Forget all of the run: parts that know each other would keep it. Nothing is asked any more."""
        self.later.is_fit = never_fit  # who has the result may have what waits for long
        self.memory.release()
        self.numbers.release()
        vars(self).clear()

    def knows(self, tensor: Tensor) -> bool:
        """Whether `tensor` is an argument, or was made or captured by this run."""
        return self.memory.find(tensor.array) is not None

    def _define(self, tensor: Tensor, name: str, outside: bool = False) -> Value:
        value = Value(name, array_type(tensor.array))
        self.names.add(name)
        self.memory.define(tensor.array, value, outside)
        if tensor.needs_grad:
            self.tracked.add(value)
        if outside:
            self.ranges.comes_from_outside(value, tensor.array)
            version: Any = tensor.version
            self._versions[value] = version
            if type(version) is list:
                self._writes.setdefault(id(version), version[0])
        return value

    def times_written(self, value: Value) -> int:
        """How often a tensor from outside was written, as its version says; by what it held at first."""
        version = self._versions.get(value)
        return version[0] - self._writes[id(version)] if type(version) is list else 0

    def _fresh(self) -> str:
        name = f"v{self._count}"
        self._count += 1
        while name in self.names:
            name += "_"
        self.names.add(name)
        return name

    # What the engine reports.

    def bind(self, op: Op, args: tuple[Any, ...], params: Params) -> Any:
        args, params = self.scalars.plain(args, params)
        if op.family == "random":
            return draw(self, op, args, params)
        self.later.meets(args)
        if self.allowance.is_spent(self):
            return evaluate(op, args, params)
        asked, given, rest = self.scalars.operands(op, args, params)
        inputs = tuple(self.value_of(a) if isinstance(a, Tensor) else a for a in given)
        if self.operands is not None:
            note_operands(self.operands, inputs, given)
        result = self.ranges.chosen(args, params) if op is SELECT_AT else self.later.run(op, args, params)
        self.allowance.goes_on()
        made = []
        for tensor in result if type(result) is tuple else (result,):
            array, value = tensor.array, Value(self._fresh(), array_type(tensor.array))
            if op.view:
                self.memory.view(array, value, args[0].array, op, params)
            elif op is SELECT_AT:
                self.memory.part(array, value, args[0].array, Chosen(inputs[1], params["dim"]))
            else:
                if shares_memory(array, args):
                    self.effect(f"{op.name} gave memory of its input, which no view op did")
                self.memory.define(array, value)
            if tensor.needs_grad:
                self.tracked.add(value)
            made.append(value)
            if self.results is not None:
                self.results.append(weakref.ref(tensor))
        self.equations.append(Equation(asked, inputs, dict(rest), tuple(made), self._source()))
        self.ranges.note(self.equations[-1])
        self.calls_again.evaluated()
        return result

    def emit(self, op: Op, inputs: tuple[Any, ...], params: Params) -> Value:
        """An equation of a write: what it gives is in memory already."""
        output = Value(self._fresh(), op.infer([getattr(v, "type", v) for v in inputs], params))
        if any(v in self.tracked and op.rule(i) is not None for i, v in enumerate(inputs)):
            self.tracked.add(output)
        self.equations.append(Equation(op, inputs, dict(params), (output,), self._source()))
        self.ranges.note(self.equations[-1])
        return output

    def follows(self, x: Tensor, index: Tensor, dim: int) -> bool:
        return "positions" not in self.avoided and self.ranges.follows(x, index, dim)

    def window(self, x: Tensor, index: Tensor, dim: int, length: int) -> Tensor:
        return self.ranges.window(x, index, dim, length)

    def reach(self, tensor: Tensor) -> None:
        self.later.reach(tensor)

    def reach_graph(self, tensor: Tensor) -> None:
        """A tensor without values has its place on the graph."""

    def leave(self, tensor: Tensor, door: str, value: Any) -> Any:
        return self.doors.leave(tensor, door, value)

    def check(self, tensor: Tensor, passed: Callable[[], Tensor], within: tuple[int, ...] = ()) -> bool:
        is_known = bool(within) and self.later.on and self.ranges.are_within(self.value_of(tensor), *within)
        return not is_known and self.doors.check(tensor, passed)

    def decides_size(self, what: str, tensor: Tensor, asked: Any, count: Callable[[], Tensor]) -> int:
        return self.doors.size(tensor, asked, count)

    def effect(self, reason: str, kind: str = "") -> None:
        self.later.settle(f"it {reason}")
        self.open_reasons.append((reason, *user_location(), kind))

    def code_opens(self) -> None:
        """The function's code does, or is about to do, what a replay could not repeat."""
        self.code_first = self.code_first or not self.open_reasons
        self.later.settle()

    def interrupted(self, busy: bool) -> None:
        """What a signal handler did meanwhile may have changed what the run has found, and will find."""
        self.open_reasons.append(("a signal handler uses tensors meanwhile", *user_location(), "once"))
        if not busy:
            self.later.settle()

    def change(self, what: str) -> None:
        """Note what a replay does to the world."""
        self.later.settle(f"it {what}")
        self.changes.append((what, *user_location(), ""))

    def change_later(self, what: str) -> None:
        """The same of what may have no values until the run is over."""
        self.changes.append((what, *user_location(), ""))
        self._leaves_waiting = True

    def _depends(self, symbol: Symbol, found: Any) -> None:
        """What the run does depends on a number that a replay comes by anew."""
        self.hosts.append((Outcome(symbol, found, user_location()), len(self.equations)))

    def taken_out_of(self, value: Value) -> Value:
        """What a replay takes a number of the result out of: memory that nobody has written by then."""
        if value not in self._taken_out:
            self._taken_out[value] = self.copy_of(value)
        return self._taken_out[value]

    def _source(self) -> Source:
        return Source(*user_location())

    # Writes.

    def before_write(self, target: Tensor, may_wait: bool = False) -> None:
        """What is there before is noted, if nobody has used it yet."""
        if not self.later.goes_on(target, may_wait, self.is_outside(target)):
            self.later.settle("what is there is written in place")
        self.later.meets((target,))
        self.value_of(target)
        self.about_to_write(target)

    def about_to_write(self, target: Tensor) -> None:
        """Keep what lies in the memory of a tensor, where the run may be taken back."""
        known = self.memory.find(target.array)
        if self.before is not None and known is not None:
            self.before.note_write(known, target.version)

    def writes_later(self, target: Tensor, index: Any, value: Tensor) -> bool:
        return self.later.write(target, index, value)

    def wrote(
        self,
        target: Tensor,
        result: Tensor,
        index: Any = None,
        on_graph: bool = False,
        overwrites: bool = False,
    ) -> None:
        known = self.memory.find(target.array)
        assert known is not None, "every write is told beforehand"
        assert self.before is None or self.before.has(known), "every write is told beforehand"
        base = base_of(target)
        if on_graph and self.is_outside(base):
            self.effect("puts a tensor from outside on the graph by writing into it")
        if self.is_outside(base):
            self.change("writes into a tensor in place")
        value = self.value_of(result)
        try:
            if index is not None:
                assign = REGISTRY["assign"]
                value = self.emit(assign, (self.memory.current(known), value), {"index": index})
            elif overwrites:
                value = self.emit(REGISTRY["overwritten"], (self.memory.current(known), value), {})
            before = self.memory.current(known)
            if before in self.tracked and not on_graph and not self.is_outside(base):
                # Autograd does not see it: its gradient is that of what was there before.
                value = self.emit(REGISTRY["rewritten"], (before, value), {})
            self.memory.write(known, value)
        except Unfollowed as error:
            self.effect(str(error), error.kind)
        root = known.root()
        self.graph_changes.wrote(root, target)
        if root.outside and root.original in self.tracked:
            self.since.update(known.values())

    def copied(self, copy: Tensor, original: Tensor) -> None:
        if self.memory.find(copy.array) is None:
            value = self.value_of(original)
            if copy.array.flags.c_contiguous and not original.array.flags.c_contiguous:
                value = self.emit(REGISTRY["contiguous"], (value,), {})
            self.memory.define(copy.array, value)

    def copy_of(self, value: Value) -> Value:
        """The value once more, for memory of its own."""
        return self.emit(REGISTRY["clone"], (value,), {})

    def replaces_data(self, tensor: Tensor, value: Tensor) -> None:
        """A replay gives a tensor from outside other memory, too, if the run has made that, of its type."""
        self.later.settle()
        self.later.meets((tensor, value))
        ours, given = tensor.array, value.array
        alike = (ours.shape, ours.dtype, ours.strides) == (given.shape, given.dtype, given.strides)
        if not alike or self.is_outside(value) or self.is_made(tensor) or self.before is not None:
            self.effect("replaces a tensor's data")
            return
        self.value_of(tensor)
        self.change("replaces a tensor's data")
        self.replaced[id(tensor)] = tensor

    def requires_grad_changes(self, tensor: Tensor) -> None:
        self.graph_changes.requires_grad_changes(tensor)

    def is_made(self, tensor: Tensor) -> bool:
        """Whether the tensor was made by this run; its memory may be that of another one from outside, and
        what is from outside may have been given memory that the run has made.
        """
        known = self.memory.find(tensor.array)
        return known is not None and not known.outside and id(tensor) not in self.replaced

    def writes_at_first(self, tensor: Tensor) -> int | None:
        """How often the memory of a tensor from outside had been written when it was first seen."""
        return self._writes.get(id(tensor.version))

    def is_outside(self, tensor: Tensor) -> bool:
        """Whether the tensor was there before the run: an argument, captured, or a gradient of one."""
        known = self.memory.find(tensor.array)
        return known is None or known.root().outside

    # Gradients and steps.

    def backward(self, roots: Sequence[Tensor], accumulates: bool) -> Recorder:
        """A backward is recorded like the rest, as long as it stays within the run."""
        if accumulates:
            self.later.settle()
        self.graph_changes.backward(roots)
        return self

    def checkpoints(self, args: Sequence[Any], preserves: bool) -> Checkpoint:
        return self.calls_again.begin(args, preserves)

    def begins_method(self, kind: Any, name: str, context: Any) -> Callable[..., Any] | None:
        self.later.settle()
        callbacks = self.graph_changes.callbacks
        found = None if callbacks is None else callbacks.method(kind, name, context)
        return found or super().begins_method(kind, name, context)

    def ended_method(self, kind: Any, context: Any) -> None:
        if context.dirty_tensors:
            self.effect(f"writes what it gets in the custom Function {kind.__name__}")

    def puts_hook(self, tensor: Tensor) -> None:
        if not self.graph_changes.is_own(tensor):
            super().puts_hook(tensor)

    def calls_hook(self, hook: Callable[..., Any]) -> Callable[..., Any] | None:
        self.later.settle()
        callbacks = self.graph_changes.callbacks
        found = None if callbacks is None else callbacks.hook(hook)
        if found is None:
            self.effect("runs hooks in backward")
        return found

    def sees_gradient(self, tensor: Tensor) -> None:
        self.later.settle()
        if id(tensor) in self.gradients or self.is_made(tensor):
            return
        self.gradients[id(tensor)] = Gradient(tensor, tensor.gradient)
        place = self.place_of(tensor)
        if tensor.gradient is not None:
            if not self.knows(tensor.gradient):
                self.host(tensor.gradient, "gradient", lambda value: GradientOf(value, place), outside=True)
        elif isinstance(place, int):
            self.bare.append(place)
        else:
            self.reads.append(NoGradient(tensor))

    def before_gradient(self, tensor: Tensor) -> None:
        self.later.settle()
        if not self.is_made(tensor):
            self.change("sets .grad")
            self.gradients.setdefault(id(tensor), Gradient(tensor, None)).assigned = True

    def sees_parameters(self, optimizer: Any) -> None:
        self.reads.append(ParametersRead(optimizer))
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self.reached(parameter)

    def finally_(self, method: MethodType, looks: bool) -> None:
        """Note code that a replay runs in the end. looks: whether that may look at anything."""
        self.change("steps a learning rate schedule")
        self.after.append(weakref.WeakMethod(method))
        self._done.append((looks, self._work(looks)))

    def _work(self, looks: bool) -> Any:
        """What the run has done to the world so far, and asked of it, that such code may see."""
        if not looks:
            return [what for what, *_ in self.changes].count(REBIND)
        written = [(k.original, k.value) for k in self.memory.written()]
        return len(self.hosts), written, [(i, id(g.tensor.gradient)) for i, g in self.gradients.items()]

    def finish(self) -> None:
        """The run is over: what a replay does at the end must have been done at the end."""
        self.ranges.finish()
        self.graph_changes.finish()
        if self._leaves_waiting:
            self.later.settle()
        if any(self._work(looks) != done for looks, done in self._done):
            self.effect("steps a learning rate schedule before it is done; step it last", "schedule")

    # Rounds of loops (see `rolling.py`).

    def noted(self) -> tuple[int, ...]:
        """How much was noted besides equations: inputs, and what a replay asks or does outside the graph."""
        inputs = self.inputs, self.captured, self.constants, self.hosts, self.bare, self.derived
        world = self.gradients, self.reads, self.after, self.steps_taken, self.open_reasons, self.changes
        return self.numbers.computed, *self.calls_again.noted(), *map(len, (*inputs, *world))

    def replace(self, first: int, op: Op, inputs: tuple[Any, ...], params: Params) -> tuple[Value, ...]:
        """Say all equations from the one numbered `first` on in another one; what it gives."""
        source = self.equations[first].source
        made = tuple([Value(self._fresh(), type_) for type_ in op.infer([v.type for v in inputs], params)])
        self.equations[first:] = [Equation(op, inputs, params, made, source)]
        return made

    def takes_step(self, optimizer: Any) -> bool:
        self.later.settle()
        return not self.allowance.spent and record_step(self, optimizer)
