"""Calls of functions that nobody knows, in the middle of a run: the replay is cut in two around them.

    h = body(x)
    extension.log(h.detach().numpy(), self.step)      a C function
    loss = head(h).square().mean()

What such a function does nobody knows, but what it is given: numbers, texts, arrays in the memory of tensors.
So a replay computes what comes before, is sure of it, calls the function with that, and goes on. Each call is
made once: what it has given stands in the call's journal (`eager/ranks/journal.py`), and where the replay
then stops, the run that is recorded takes it from there.

A function might do more than give something. Where it writes what it is given, keeps it, or changes what the
run has read before, the run is open. A replay looks for that, too. Memory that was written is put back, and
written again where the recorded run comes to the call; for what the run had read of Python there is no way
back, so that this is an error.
"""

from __future__ import annotations

import functools
import random
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from types import BuiltinFunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.interpreter import holders, is_strange
from fusegrad.eager.core.memory_order import arranged
from fusegrad.eager.core.op import Params, TensorType, bind, wrap
from fusegrad.eager.core.shared import is_exposed, owner
from fusegrad.eager.core.state import in_modes, modes, no_grad, state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.random.generator import default_generator
from fusegrad.eager.ranks.journal import journal, several
from fusegrad.tracer.observe import purity
from fusegrad.tracer.observe.arrays import foreign, known
from fusegrad.tracer.observe.lookup import ITERATORS, NUMPY_GENERATORS
from fusegrad.tracer.observe.reads import Read
from fusegrad.tracer.observe.symbols import NUMBERS
from fusegrad.tracer.observe.values import is_plain, plain_key
from fusegrad.tracer.observe.world.ahead import unobserved
from fusegrad.tracer.twin.sites import Site

if TYPE_CHECKING:
    from fusegrad.tracer.observe.observer import Observer

# Modules whose functions do things to Python itself.
_PYTHONS_OWN = frozenset({"builtins", "sys", "gc", "_imp", "_thread", "_weakref", "_operator", "_functools"})
# What may have been changed before: a replay draws before the call, too; at gradients such functions do not
# look, as iterators do not.
_UNSEEN = ("sets .grad", "draws random numbers")
# The calls that have been seen to do more, by their lines: runs with them are open.
_unfit: dict[tuple[str, int], str] = {}


# ---------------------------------------------------------------------------------- one call


class Outcome:
    """What came of one call.

    written: what it wrote into operands, by their numbers; memory: arrays that it was not given, and what it
    wrote there. problem: what it did besides giving something; "" if nothing. is_lost: whether nothing leads
    back to what was there before. what, where: the call, and its file and line, for messages.
    """

    is_recorded = True  # only a run that is recorded takes it from a journal

    def __init__(self, call: Callable[[], Any], lent: Sequence[np.ndarray]) -> None:
        """lent: the arrays that it is given."""
        before = [array.copy("K") for array in lent]
        had = holders(lent)
        self.result: Any = None
        self.error: Exception | None = None
        self.leaves: list[Any] = []
        self.problem, self.is_lost = "", False
        self.what, self.where = "", ("", 0)
        self.memory: list[tuple[np.ndarray, np.ndarray]] = []
        try:
            self.result = unobserved(call)
        except Exception as error:
            self.error, self.problem = error, "raises"
        else:
            self.structure, self.leaves = foreign.taken_apart(self.result)
            if holders(lent) != had:
                self.problem = "keeps what it is given"
            elif self._holders() - _OWN:
                self.problem = "keeps what it gives"
        self.written = {i: now.copy("K") for i, now in enumerate(lent) if not _same(now, before[i])}
        if self.written:
            self.problem = "writes what it is given"

    def _holders(self) -> set[Any]:
        """For arrays that came whether they are views, and how many have them, or that of which they are."""
        found: set[Any] = set()
        for leaf in self.leaves:
            if type(leaf) is np.ndarray:
                whole = owner(leaf)
                found.add((whole is leaf, whole.base is None, *holders([whole])))
                del whole
        return found

    def changes(self, world: World) -> None:
        """Look for what it has changed that it was not given, and put that back."""
        self.memory = world.written()
        if self.memory:
            self.problem = "writes memory that it is not given"
        if problem := world.problem():
            self.problem, self.is_lost = problem, True

    def wait(self) -> None:
        """It is over."""

    def again(self, arrays: Sequence[np.ndarray]) -> None:
        """Write what it has written, which was put back."""
        for number, now in self.written.items():
            arrays[number][...] = now
        for array, now in self.memory:
            array[...] = now


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return one.tobytes() == other.tobytes()


_OWN: set[Any] = set()
# What that is for arrays that nobody else has: alone, in a tuple, views.
_OWN = set().union(
    *(
        Outcome(call, ())._holders()
        for call in (lambda: np.zeros(2), lambda: (np.zeros(2), 1), lambda: np.zeros(4)[::2])
    )
)


class Cut(foreign.Call):
    """A function with its constant operands, and what must not change while it is called.

    reads: what the run has read before; numbers_at: where it has found numbers;
    outside: the tensors from outside that it has met.
    """

    def __init__(
        self, function: known.Applied, given: Sequence[np.ndarray], outcome: Outcome, site: Site
    ) -> None:
        super().__init__(function, given, outcome.result, site)
        self.reads: tuple[Read, ...] = ()
        self.numbers_at: tuple[Any, ...] = ()
        self.outside: tuple[weakref.ref[Tensor], ...] = ()
        self._where, self.what = (site.file, site.line), described(function, given)
        self._text = self.what
        self._modes = modes()  # a callback may ask for them, within `no_grad` say
        self._known = _numbers.setdefault(self.what, {})
        self._first = self._numbered(outcome, self._turned(foreign.placed(outcome.leaves)[0]))
        self.types = tuple([TensorType(x.shape, x.dtype) for x in self._first])

    def __str__(self) -> str:
        return f"{self._function!r}"

    def arrays(self, given: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """The number of what came, and the arrays in it. Raises RuntimeError where a replay cannot go on."""
        if self._first is not None:
            first, self._first = self._first, None
            return first
        placed = [arranged(a, order) for a, (_, _, order) in zip(given, self._given, strict=True)]
        outcome = journal.taken(self.what, placed)
        if outcome is None:
            if self._where in _unfit or not journal.keeps:
                raise RuntimeError(f"{self} is not called by replays")
            world, lent = _about.world, [array.copy("K") for array in placed]
            with in_modes(self._modes):
                outcome = Outcome(lambda: self._function(*lent), lent)
                outcome.changes(world)
            outcome.what, outcome.where = str(self), self._where
            journal.note(self.what, journal.sample(placed), outcome, outcome)
        if outcome.problem:
            raise RuntimeError(f"{self} {outcome.problem}")
        made, places = foreign.placed(outcome.leaves)
        if (places, foreign.kinds(made)) != self._key[2:]:
            raise RuntimeError(f"{self} gives something else than it gave")
        return self._numbered(outcome, self._turned(made))

    def _numbered(self, outcome: Outcome, made: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        key = outcome.structure.key, tuple(foreign.kinds(outcome.leaves))
        return np.array([self._known.setdefault(key, len(self._known))]), *made

    def look(self, fails: Callable[[], Any], tensors: Sequence[Tensor]) -> bool:
        """Note what is there before the call; whether it is what the run had found.

        fails: gives a read of the run that does not hold. tensors: those that the run had met from outside.
        """
        with in_modes(self._modes):
            _about.world = World(self.numbers_at, tensors, fails)
        return fails() is None


class World:
    """What a call might change besides what it is given: numbers, tensors' memory, generators, modes."""

    def __init__(self, places: Iterable[Any], tensors: Iterable[Tensor], fails: Callable[[], Any]) -> None:
        """fails: gives a read that does not hold; None if all do."""
        self._tensors, self._places, self._fails = [*tensors], [*places], fails
        self._before = self._now()
        self._memory = [(t.array, t.array.copy("K")) for t in self._tensors if is_exposed(t.array)]

    def _now(self) -> Any:
        numbers = [plain_key(place.find()) for place in self._places]
        tensors = [(id(t.array), list.__getitem__(t.version, 0), t.needs_grad) for t in self._tensors]
        return numbers, tensors, default_generator.seed_value, default_generator.counter, modes()

    def problem(self) -> str:
        """What was changed that is not memory; "" if nothing was."""
        if (read := self._fails()) is not None:
            return f"changes what was read before ({read.subject()})"
        return "" if self._now() == self._before else "changes a number, a tensor, a mode or random numbers"

    def written(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The memory that was written, with what it then held; it is put back."""
        found = [(now, now.copy("K"), before) for now, before in self._memory if not _same(now, before)]
        for now, _, before in found:
            now[...] = before
        return [(now, after) for now, after, _ in found]


_numbers: dict[str, dict[Any, int]] = {}


def described(function: known.Applied, given: Sequence[np.ndarray]) -> str:
    """A call by its function, constant operands and types. Functions of one name are told apart by who they
    are, and methods by whose they are.
    """
    types = ", ".join(f"{a.dtype}{list(a.shape)}" for a in given)
    called = function.function
    owner = called.__self__ if isinstance(called, BuiltinFunctionType) else None
    return f"{function!r} at {id(owner or called):x} of {types}"


class UnknownOp(foreign.ForeignOp):
    """Operands: the arrays that a call takes. Results: the number of what came, and the arrays in it.

    Params: `call`, and its `number` in the run.
    """


class _About(threading.local):
    """What is about to be called by this thread. world: what is there before."""

    world: World


_about = _About()
UNKNOWN = UnknownOp("unknown", "*operands", None)


# ---------------------------------------------------------------------------------- recording


def calling(observer: Observer, function: Any, reason: str, site: Site) -> Any:
    """What to call in place of an unknown function. reason: why the run is open where it cannot be a cut."""
    if isinstance(function, BuiltinFunctionType) and not _is_fit_function(observer, function):
        observer.open(reason, site)
        return function
    return functools.partial(_call, observer, function, reason, site)


def _is_fit_function(observer: Observer, function: BuiltinFunctionType) -> bool:
    whose = function.__self__
    if whose is None or isinstance(whose, ModuleType):
        return (function.__module__ or "builtins").partition(".")[0] not in _PYTHONS_OWN
    kind = type(whose)
    holds = issubclass(kind, (np.ndarray, np.generic, memoryview)) or kind in purity.CONTAINERS
    is_asked = kind in NUMPY_GENERATORS or kind in ITERATORS or issubclass(kind, random.Random)
    return observer.is_outer(whose) and not (holds or is_asked)


def _call(observer: Observer, function: Any, reason: str, site: Site, /, *args: Any, **kwargs: Any) -> Any:
    recorder: Any = state.interpreter
    owed, operands = journal.owes(), _Operands(observer, site)
    values = (*args, *kwargs.values())
    if _is_hindered(observer, function) or not all(operands.takes(value) for value in values):
        if owed:
            journal.must_be_over(f"a call of {function!r}")
        observer.open(reason, site)
        return function(*args, **kwargs)
    template = operands.template(tuple(args)), {name: operands.template(x) for name, x in kwargs.items()}
    applied = known.Applied(function, *template, (*operands.keys, *kwargs))
    recorder.later.settle(f"it {reason}")
    given = [tensor.array for tensor in operands.tensors]
    outcome: Outcome | None = None
    if owed:
        _refuse_what_is_lost()
        outcome = journal.taken(described(applied, given), given)
    problem = _unfit.get((site.file, site.line), "")
    if outcome is None:
        lent = [x for x in foreign.taken_apart((args, kwargs))[1] if type(x) is np.ndarray]
        outcome = _made(observer, functools.partial(function, *args, **kwargs), lent)
    else:
        outcome.again(given)
    problem = problem or outcome.problem or _not_followed(recorder, outcome, given)
    if problem:
        observer.open(f"{reason}, which {problem}", site)
        if outcome.error is not None:
            raise outcome.error
        return outcome.result
    several[0] = True  # from now on calls keep journals
    cut = Cut(applied, given, outcome, site)
    cut.reads = (*observer.reads, *recorder.reads)
    cut.numbers_at = tuple(observer.numbers.places)
    cut.outside = tuple([weakref.ref(tensor) for tensor in recorder.captured.values()])
    return _followed(observer, cut, outcome, operands.tensors, reason, site)


def _refuse_what_is_lost() -> None:
    """Raise RuntimeError where calls that a replay has made have changed what the run begins with."""
    for outcome in journal.owed():
        if outcome.is_lost:
            _unfit[outcome.where] = outcome.problem
            raise failure(
                RuntimeError,
                f"{outcome.what} {outcome.problem}, which it did not do when this was recorded, and which "
                "the jitted function had looked at before. From now on runs with this call are not replayed",
            )


def _is_hindered(observer: Observer, function: Any) -> bool:
    """Whether a replay could not make the call here, or not see what it does."""
    recorder: Any = state.interpreter
    if getattr(recorder, "hosts", None) is None or not observer.is_known(function):
        return True
    if getattr(recorder.with_ranks, "made", True):  # an interpreter in front of the recorder has no ranks
        return True
    calls = recorder.calls_again
    # A replay takes no locks, and sets no variables that are set back.
    if observer.held or observer.entered:
        return True
    busy = calls.within or calls.repeated or observer.loops.rolling or recorder.allowance.spent
    lent = any(host.lent for host, _ in recorder.hosts)
    seen = any(not what.startswith(_UNSEEN) for what, *_ in recorder.changes)
    return bool(busy or lent or seen or recorder.before is not None or state.inference or is_strange())


class _Operands(foreign.Operands):
    """Operands of an unknown call."""

    def varies(self, value: Any) -> bool:
        return type(value) in NUMBERS and self._observer.numbers.any_given((value,))

    def takes(self, value: Any) -> bool:
        """Whether a replay can give the same operand, or that of now."""
        observer = self._observer
        if type(value) is tuple:
            return all(map(self.takes, value))
        if self.varies(value):
            return True
        if isinstance(value, (np.ndarray, np.generic)):
            return foreign.is_fit(observer, value)
        return is_plain(value) and not observer.numbers.has(value)


def _made(observer: Observer, call: Callable[[], Any], lent: Sequence[np.ndarray]) -> Outcome:
    """The call of a run that is recorded, and what it did that a replay could not repeat."""
    recorder: Any = state.interpreter
    reads = [read for read in (*observer.reads, *recorder.reads) if read.holds()]
    outside = {id(t): t for t in (*recorder.captured.values(), *observer.captured_tensors.values())}
    outside |= {id(t): t for t in foreign.taken_apart(observer.arguments)[1] if observer.is_tensor(t)}
    fails = functools.partial(next, (read for read in reads if not read.holds()), None)
    world = World(observer.numbers.places, outside.values(), fails)
    outcome = Outcome(call, lent)
    outcome.changes(world)
    for array, now in outcome.memory:
        array[...] = now
    return outcome


def _not_followed(recorder: Any, outcome: Outcome, given: Sequence[np.ndarray]) -> str:
    """What it is about the result that is not followed; "" if nothing."""
    made, plain = foreign.placed(outcome.leaves)[0], [x for x in outcome.leaves if type(x) is not np.ndarray]
    apart = all(not np.may_share_memory(a, b) for i, a in enumerate(made) for b in (*given, *made[:i]))
    known_memory = any(recorder.memory.find(x) is not None for x in made)
    fits = all(known.is_numbers(x) and foreign.is_dense(x) for x in made) and all(map(is_plain, plain))
    return "" if apart and fits and not known_memory else "gives what is not followed"


def _followed(
    observer: Observer, cut: Cut, outcome: Outcome, operands: Sequence[Tensor], reason: str, site: Site
) -> Any:
    """The result, recorded: what comes before is tested and done, then the call, then its outcome."""
    recorder: Any = state.interpreter
    with no_grad():
        place = len(recorder.equations)
        recorder.doors.guard(_sure(recorder), cut=place)
        params: Params = {"call": cut, "number": place}
        number, *made = recorder.later.at_once(lambda: bind(UNKNOWN, tuple(operands), params))
        recorder.doors.guard(number, cut=place)
    return foreign.followed(observer, cut, made, outcome.leaves, f"{reason}, a cut", site)


def _sure(recorder: Any) -> Tensor:
    """A truth, so that what comes before runs apart."""
    always = wrap(np.array(True))
    recorder.constant(always)
    return always
