"""`Batcher`: the interpreter of a program whose calls wait for others of their kind.

The program gets tensors without values. When somebody asks for values, all that waits is done, in groups
(`agenda.py`, `groups.py`), and the tensor that is asked about gets its value and its place on the graph;
others stay as they are, rows of something larger, which calls that take them read there. What a program does
besides (a write into memory, a backward, a hook) is done at its place, after all that waits, by which
everything then has values of its own. Views are made again of what they are views of when somebody looks, so
they share memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.autograd import views
from fusegrad.eager.autograd.node import place
from fusegrad.eager.batching import agenda
from fusegrad.eager.batching.groups import Groups
from fusegrad.eager.batching.kinds import MOST_AT_HAND, OpKind, key_of, kinds, type_of
from fusegrad.eager.batching.natively import natively
from fusegrad.eager.batching.report import Report
from fusegrad.eager.batching.table import LONGEST, Table, is_watched
from fusegrad.eager.batching.touched import Touched
from fusegrad.eager.core import shared
from fusegrad.eager.core.handlers import in_charge
from fusegrad.eager.core.op import Op, Params, bind, wrap
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.stand_in import StandIn, Waits, has_values, putting_off
from fusegrad.eager.core.state import Interpreter, state
from fusegrad.eager.core.tensor import Tensor

# So often it is only noted what an example has looked at; then it is said for each.
MOST_READS = 1 << 10


class Batcher(Interpreter, Waits):
    """In charge of the ops of a program.

    parks: lets others go on until all that waits is done, if there are any.
    """

    def __init__(self, report: Report) -> None:
        super().__init__()
        self.report = report
        self.parks: Callable[[], None] | None = None
        outside = state.interpreter
        self.outside = None if outside is None else outside.beneath_batch()
        self._table = Table()
        self._find, self._add, self._wait = natively.ways(self._table)
        self._groups = Groups(self._table, report)
        self._touched = Touched()
        self._read: list[tuple[int, list[Any]]] = []  # by example, what nobody has told `_touched` of
        self._taken: dict[Any, int] = {}  # the last example that has taken the weights of a kind
        self._writes = False  # whether a write is under way: what it takes is computed at once

    def run(self, function: Callable[..., Any], /, *args: Any) -> Any:
        """What `function` gives. Whatever it leaves behind has its values, also if it raises."""
        before, state.interpreter = state.interpreter, in_charge(self)
        try:
            putting_off.add(self)
            return function(*args)
        finally:
            state.interpreter = before
            self.close()

    def goes_on_with(self, example: int, parks: Callable[[], None] | None) -> None:
        """Another example is at work from now on."""
        self._note_reads()
        self._table.fresh.clear()
        self._table.now[0], self.parks, self._writes = example, parks, False

    @property
    def example(self) -> int:
        """Which example is at work."""
        return self._table.now[0]

    def _note_reads(self) -> None:
        """Keep in mind what the example at work has looked at: a write may come."""
        table = self._table
        if table.fresh and self.parks is not None:
            self._read.append((self.example, [table.tensors[number] for number in table.fresh.values()]))
            if len(self._read) > MOST_READS:
                self._tell_of_reads()

    def _tell_of_reads(self) -> None:
        for example, tensors in self._read:
            for tensor in tensors:
                self._touched.has_read(tensor.array, example)
        self._read.clear()

    def close(self) -> None:
        """All is over: give what there is its values."""
        self.parks = None
        try:
            self.settle()
        finally:
            putting_off.discard(self)

    def beneath(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """What `function` gives with whoever is outside in charge."""
        inside, state.interpreter = state.interpreter, self.outside
        try:
            return function(*args, **kwargs)
        finally:
            state.interpreter = inside

    # Ops.

    def waits_at_once(self, op: Op, args: tuple[Any, ...], params: Params) -> Any:
        if self._wait is None or self._writes:
            return None
        with self.lock:
            made = self._wait(kinds.waiting(op, args, params), args)
        return None if made is False else made

    def bind(self, op: Op, args: tuple[Any, ...], params: Params) -> Any:
        if not self._writes:
            with self.lock:
                made = self._later(op, args, params)
            if made is not None:
                return made
        for a in args:
            if isinstance(a, Tensor):
                self.reach(a)
        return self.beneath(bind, op, args, params)

    def _later(self, op: Op, args: tuple[Any, ...], params: Params) -> Any:
        """What stands for the results of a call that waits; None for one that does not."""
        if is_watched():
            self.report.alone(op.name, "somebody looks at every node")
            return None
        if self._table.count >= LONGEST:
            self.execute("so many calls waited")
        operands = self._operands(args)
        if type(operands) is str:
            self.report.alone(op.name, operands)
            return None
        types = self._table.types
        kind = kinds.of(op, args, params, state.grad_enabled, [types[o] for o in operands])
        why = kind.refusal or (self._out_of_range(kind, args) if kind.has_positions else "")
        if why:
            self.report.alone(op.name, why)
            return None
        known = kinds.waiting(op, args, params)
        if not kind.has_positions and len(known.kinds) < MOST_AT_HAND:
            known.add(key_of(kind.mode, [types[o] for o in operands], operands), kind)
        return self._table.waits(kind, operands, args)

    def calls(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any] | None:
        """A call of a jitted function waits as a whole, if it did nothing else than to compute when it was
        recorded; otherwise its ops wait.
        """
        if self.outside is not None or self._writes:
            return None
        cells, table = function._cells, self._table
        with self.lock:
            if self._find and not kwargs:
                found = self._find(cells.known, args)
                if found is not False:
                    (kind, operands), (example, begin) = found, table.now
                    taken = self._taken.get(kind) == example or self._takes(kind)
                    if taken and kind.is_unchanged(args) and len(table.kinds) - begin < LONGEST:
                        made = self._add(kind, operands, example)
                        return (kind.builds(made) if kind.builds else kind.built(made, args),)
            return None if is_watched() else self._cell(cells, args, kwargs)

    def _cell(self, cells: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any] | None:
        """The same where there is more to find out."""
        table = self._table
        leaves: Sequence[Any] = args
        operands = self._operands(args)
        if type(operands) is str:
            self.report.alone(cells.name, operands)
            return None
        types = table.types
        key: Any = key_of(state.grad_enabled, [types[o] for o in operands], operands)
        if kwargs or len(operands) != len(args):
            key, leaves = self._key(cells, args, kwargs)
            operands = self._operands(leaves)
            if key is None or type(operands) is str:
                return None
        kind = cells.known.kinds.get(key)
        if type(kind) is str:
            self.report.alone(cells.name, kind)
            return None
        if kind is None or not kind.holds():
            self.execute("a jitted function is recorded")
            self.settle()
            return (self.beneath(cells.record, key, args, kwargs),)
        if not kind.admits(leaves) or not self._takes(kind):
            self.report.alone(cells.name, "somebody has to look at what it takes")
            return None
        if table.count >= LONGEST:
            self.execute("so many calls waited")
        return (kind.built(self._add(kind, operands, self.example), leaves),)

    def _key(self, cells: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, list[Any]]:
        """What tells kinds of calls apart whose arguments are not just tensors, with the leaves of these."""
        leaves: list[Any] = []
        return cells.key(args, kwargs, leaves), leaves

    def _takes(self, kind: Any) -> bool:
        """Whether the weights of a kind may be read later; that they are is noted."""
        if self._taken.get(kind) != self.example:
            if type(self._operands(kind.weights)) is str:
                return False
            self._taken[kind] = self.example
        return True

    def _operands(self, args: Sequence[Any]) -> Any:
        """The numbers of the tensors among arguments; or why the call cannot wait."""
        table = self._table
        numbers, fresh = table.numbers, table.fresh
        found = []
        number: Any
        for a in args:
            number = numbers.get(key := id(a))
            if number is None:
                number = fresh.get(key)
            if number is None:
                if not isinstance(a, Tensor):
                    continue
                number = table.sure.get(key)
                if number is None or self._touched.is_written:
                    number = self._from_outside(a)
                    if type(number) is str:
                        return number
                fresh[key] = number
            found.append(number)
        return tuple(found)

    def _from_outside(self, tensor: Tensor) -> int | str:
        array = tensor.array
        if not has_values(array):
            return "it takes a tensor of somebody else that has no values"
        if type(tensor.version) is shared.Untracked or shared.is_exposed(array):
            return "NumPy code may write what it takes without a word"
        if self.parks is not None and self._touched.is_written:
            self._touched.read(array, self.example)
        is_leaf = tensor.needs_grad and tensor.maker is None
        return self._table.outside(tensor, type_of(array, tensor.needs_grad, type(tensor), is_leaf))

    def _out_of_range(self, kind: OpKind, args: tuple[Any, ...]) -> str:
        """Why a call that has positions along dimensions cannot wait, if it cannot."""
        op = kind.op
        assert op.positions is not None
        found = op.positions([a.array if isinstance(a, Tensor) else a for a in args], kind.params)
        for number, least, end in found or ():
            index = args[number]
            if isinstance(index, Tensor):
                array = index.array
                if id(index) in self._table.numbers:
                    return "its index has to be looked at"
                if array.size and not (array.min() >= least and array.max() < end):
                    return "its index is out of range"
        return "" if found else "it may refuse values, so it is done at its line"

    # Doing what waits.

    def execute(self, why: str, sweeps: bool = True) -> None:
        """Do all that waits and somebody may look at. sweeps: and forget what nobody has any more."""
        table = self._table
        with self.lock:
            if not table.count:
                return
            self.report.stop(why)
            self.report.costs.waited(table.count)
            calls, givers, takers = table.needed()
            kinds, depths = table.kinds, table.depths
            own = np.array([kinds[call].runs_as.number for call in calls.tolist()], np.int64)
            deep = np.array([depths[value] for value in table.first_results(calls).tolist()], np.int64)
            table.is_taken()

            def run() -> None:
                for group in agenda.in_groups(own, deep, givers, takers):
                    self._groups.run(kinds[int(calls[group[0]])].runs_as, calls[group])

            if len(calls):
                self.beneath(run)
            self._note_reads()
            if sweeps:
                table.sweep_in_time()

    def await_values(self, why: str, tensor: Tensor | None = None) -> None:
        """Have done what waits, or at least what gives a tensor; other examples may go on before."""
        if self._table.count and self.parks is not None and not self._writes:
            self.parks()
        if tensor is None or self._table.waits_for(tensor):
            self.execute(why)

    def settle(self) -> None:
        """Do all that waits, and give every tensor its own values."""
        with self.lock:
            self.execute("everything was asked for", sweeps=False)
            self._realize_all(lambda call: True)
            self._table.sweep()

    def _realize_all(self, chosen: Callable[[int], bool]) -> None:
        for tensor in self._table.held(chosen):
            self._realize(tensor)

    def _realize(self, tensor: Tensor) -> None:
        """Give a tensor its values and its place on the graph."""
        table = self._table
        number = table.hand_out(tensor)
        if number is None:
            return
        call = table.makers[number]
        kind, bases = table.kinds[call], table.bases.get(call)
        before, state.grad_enabled = state.grad_enabled, kind.mode
        try:
            if bases is not None:
                for base in bases:
                    if isinstance(base, Tensor):
                        self._realize(base)
                result = self.beneath(bind, kind.op, bases, kind.params)
                tensor.alias = result.alias
                if result.needs_grad and not result.version[0]:
                    self._place_of_view(number, result)
            else:
                result = self.beneath(self._own, number, kind.results[number - table.firsts[call]].array)
        finally:
            state.grad_enabled = before
        views.become(tensor, result)

    def _place_of_view(self, number: int, view: Tensor) -> None:
        """Give a view that was made again the place on the graph that calls know which have taken it."""
        holder, row = self._table.place(number)
        if holder >= 0:
            self._table.results(holder).on_graph(view, row)
        elif self._table.is_alone(number):
            value = self._table.single(holder, row)
            place(view, value.maker, value.output_index)

    def _own(self, number: int, expected: StandIn) -> Tensor:
        """A result in memory of its own, that lies as the op would have laid it."""
        found = self._table.value(number)
        if self._table.is_alone(number):
            return found
        if self.outside is not None:
            return ops.clone(found)
        if expected.ndim < 2:
            array = found.array.copy()
        else:
            array = np.empty_like(expected.view(np.ndarray))
            array[...] = found.array
        own = wrap(array)
        own.needs_grad, own.maker, own.output_index = found.needs_grad, found.maker, found.output_index
        return own

    # What the engine asks and reports.

    def has_waiting(self, tensor: Tensor) -> bool:
        return id(tensor) in self._table.numbers

    def reads(self, array: np.ndarray) -> bool:
        return any(np.may_share_memory(array, tensor.array) for tensor in self._table.outsiders())

    def reach(self, tensor: Tensor) -> None:
        if id(tensor) in self._table.numbers:
            if self._table.waits_for(tensor):
                self.await_values("values were asked for", tensor)
            self._realize(tensor)
        elif has_values(tensor.array):
            self._table.is_unsure(tensor)
            self._reads(tensor)
        self._tell("reach", tensor)

    def leave(self, tensor: Tensor, door: str, value: Any) -> Any:
        """Whoever opens a door has reached the tensor before."""
        return None if self.outside is None else self.beneath(self.outside.leave, tensor, door, value)

    def _reads(self, tensor: Tensor) -> None:
        if self.parks is not None:
            self._touched.read(tensor.array, self.example)

    def effect(self, reason: str, kind: str = "") -> None:
        self.await_values(f"the program {reason}")
        self.settle()
        self._note_reads()
        self._table.is_unsure()
        self._tell("effect", reason)

    def before_write(self, target: Tensor, may_wait: bool = False) -> None:
        """Views without values may be of the same memory; of what else waits, some may read it."""
        self._writes = False
        self.reach(target)
        table = self._table
        if self.example in table.examples[table.begin :]:
            self.await_values("a tensor was written")
        with self.lock:
            self._note_reads()
            table.is_unsure()
            if any(call >= table.begin for call in table.bases) or self.reads(target.array):
                self.execute("a tensor was written")
            self._realize_all(lambda call: call in table.bases)
        if self.parks is not None:
            self._tell_of_reads()
            self._touched.write(target.array, self.example)
            self._find = self._wait = None  # they would not see what has been written since
        self._writes = True
        self._tell("before_write", target, may_wait)

    def wrote(self, target: Any, *args: Any, **kwargs: Any) -> None:
        self._writes = False
        self._tell("wrote", target, *args, **kwargs)

    def backward(self, roots: Any, accumulates: bool) -> Interpreter | None:
        """A backward runs at once: it writes gradients and calls hooks."""
        self.await_values("the program calls backward()")
        self.settle()
        return None if self.outside is None else self.beneath(self.outside.backward, roots, accumulates)

    def check(self, tensor: Tensor, passed: Callable[[], Tensor], within: tuple[int, ...] = ()) -> bool:
        self.reach(tensor)
        return True if self.outside is None else self.beneath(self.outside.check, tensor, passed, within)

    def follows(self, x: Any, index: Any, dim: int) -> bool:
        return self.outside is not None and self.beneath(self.outside.follows, x, index, dim)

    def made_like(self, made: Any, input: Any) -> Any:
        return made if self.outside is None else self.beneath(self.outside.made_like, made, input)

    def enter_transform(self) -> None:
        self.effect("begins a transform")

    def beneath_batch(self) -> Interpreter | None:
        self.effect("begins a batch")
        return self.outside

    def interrupted(self, busy: bool) -> None:
        if not busy:
            self.settle()

    def _tell(self, name: str, *args: Any, **kwargs: Any) -> None:
        if self.outside is not None:
            self.beneath(getattr(self.outside, name), *args, **kwargs)


def _passing(name: str) -> Callable[..., Any]:
    """A method that does what waits, and asks whoever is outside, or does what there is to do without one."""

    def method(self: Batcher, *args: Any, **kwargs: Any) -> Any:
        for a in args:
            if isinstance(a, Tensor):
                self.reach(a)
        if self.outside is None:
            return getattr(Interpreter, name)(self, *args, **kwargs)
        return self.beneath(getattr(self.outside, name), *args, **kwargs)

    return method


for _name, _member in vars(Interpreter).items():
    if not _name.startswith("_") and _name not in vars(Batcher):
        setattr(Batcher, _name, _passing(_name))
