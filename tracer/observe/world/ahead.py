"""What a run asks of the world that answers otherwise each time: the next item of an iterator, a number of
`random`, the time. The replay asks for it again, before it computes, in the order of the run.

    batch = next(self.batches)            an item, whose tensors are inputs of the graph
    if random.random() < self.prob:       a number, of which replays ask how the comparison comes out

An answer cannot be given back. So what was asked for is kept, by thread, until a call is answered: a replay
that stops asks nothing twice when it is tried again, and a run that is recorded in its place gets these
answers first (`taken`). Up to the place where the replay stopped, and so up to the last answer, that run does
what the replay did. Only where an error of an op ends it before, answers are left; they go to the next call.
"""

from __future__ import annotations

import functools
import random
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from types import BuiltinFunctionType, GeneratorType, MethodType
from typing import Any

import numpy as np

from fusegrad.eager.core.pytree import flatten, is_container
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ranks.journal import journal
from fusegrad.tracer.observe.arrays.into_tensors import ArrayInput
from fusegrad.tracer.observe.arrays.known import array_key, is_numbers
from fusegrad.tracer.observe.hosts import Host
from fusegrad.tracer.observe.lookup import MISSING, NUMPY_GENERATORS, type_lookup
from fusegrad.tracer.observe.observer import Observer, current
from fusegrad.tracer.observe.symbols import NUMBERS, Asked, computed
from fusegrad.tracer.observe.values import hold, is_plain, plain_key
from fusegrad.tracer.observe.world import blind
from fusegrad.tracer.twin.sites import Site

_CLOCKS = (
    time.time, time.perf_counter, time.monotonic, time.process_time, time.thread_time, time.time_ns,
    time.perf_counter_ns, time.monotonic_ns, time.process_time_ns,
)  # fmt: skip
_DRAWN: dict[type, frozenset[str]] = {
    random.Random: frozenset(
        "random uniform randint randrange gauss normalvariate betavariate sample".split()
    ),
    **dict.fromkeys(
        NUMPY_GENERATORS,
        frozenset(
            "random uniform normal standard_normal integers randint rand randn random_sample beta gamma "
            "binomial poisson exponential permutation dirichlet laplace lognormal choice".split()
        ),
    ),
}


class _Raised:
    """Stands for an answer where asking has raised."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class _Waiting(threading.local):
    """The answers that this thread has asked for, and no call has had yet."""

    def __init__(self) -> None:
        self.answers: dict[Source, list[Any]] = {}


def any_waiting() -> bool:
    """Whether this thread has asked for what no call has had yet, or made calls that wait for it."""
    for source in [*_waiting.answers]:
        if source.asked() is None:
            del _waiting.answers[source]
    return bool(_waiting.answers) or journal.owes()


class Source:
    """Somebody who is asked: an iterator, or a generator of random numbers.

    symbols: what stands for the answers, by the number of the question and what was asked.
    """

    def __init__(self, asked: Any) -> None:
        self.asked = hold(asked)
        self.symbols: dict[Any, Asked] = {}

    def answer(self, number: int, ask: Callable[[Any], Any]) -> Any:
        """What is answered to the question number `number` of a call. Raises what asking raises."""
        answers = _waiting.answers.setdefault(self, [])
        if len(answers) <= number:
            try:
                answers.append(ask(self.asked()))
            except Exception as error:
                answers.append(_Raised(error))
                raise
        return _given(answers[number])

    def answered(self) -> None:
        """A call has had all that was asked for."""
        _waiting.answers.pop(self, None)

    def taken(self, ask: Callable[[Any], Any]) -> Any:
        """The next answer for a run: one that waits, or a new one. Raises what asking raises."""
        answers = _waiting.answers.get(self)
        if not answers:
            return ask(self.asked())
        found = answers.pop(0)
        if not answers:
            del _waiting.answers[self]
        return _given(found)

    def symbol(self, number: int, ask: Callable[[Any], Any], kind: type, words: str, *about: Any) -> Asked:
        """What stands for an answer of a class; there is one object for what is asked alike."""
        key = (number, kind, *about)
        if key not in self.symbols:
            self.symbols[key] = Asked(key, _Answer(self, number, ask), kind, words)
        return self.symbols[key]


def _given(answer: Any) -> Any:
    if isinstance(answer, _Raised):
        raise answer.error
    return answer


_waiting = _Waiting()


class _Sources:
    """The sources, by the ids of those who are asked, as long as these live. NumPy's generators tell nobody
    of their end: sources keep them, as long as somebody asks.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Source]] = {}
        self._of_numpy: weakref.WeakValueDictionary[int, Source] = weakref.WeakValueDictionary()

    def of(self, asked: Any) -> Source | None:
        """The source; None for one whose end nobody would hear of."""
        found = self._known.get(id(asked))
        if found is None:
            key = id(asked)
            if type(asked) in NUMPY_GENERATORS:
                source = self._of_numpy.get(key)
                if source is None:
                    source = self._of_numpy[key] = Source(asked)
                return source
            try:
                reference = weakref.ref(asked, lambda _: self._known.pop(key, None))
            except TypeError:
                return None
            found = self._known[key] = reference, Source(asked)
        return found[1]


_sources = _Sources()


class _Answer:
    """The answer to one of the questions of a call."""

    __slots__ = ("ask", "number", "source")

    def __init__(self, source: Source, number: int, ask: Callable[[Any], Any]) -> None:
        self.source, self.number, self.ask = source, number, ask

    def find(self) -> Any:
        return self.source.answer(self.number, self.ask)


class _Now:
    """What a clock says."""

    __slots__ = ("clock",)

    def __init__(self, clock: Callable[[], Any]) -> None:
        self.clock = clock

    def find(self) -> Any:
        return self.clock()


class Asks(Host):
    """That a call asks, here in its order; `fits`: whether what comes is of the kind that it was."""

    value = None  # type: ignore[assignment]

    def __init__(
        self, symbol: Asked, source: Source | None, fits: Callable[[Any], bool] | None = None
    ) -> None:
        self.symbol, self.source, self.fits = symbol, source, fits

    def key(self) -> Any:
        return ("asks", id(self.symbol))

    def comes_again(self, leaves: Sequence[Any]) -> bool:
        return False


# ---------------------------------------------------------------------------------- what is asked


def asking(observer: Observer, function: Any, site: Site) -> Any:
    """What to call in place of a clock, or of a method of `random`'s; None for other functions."""
    if type(function) is BuiltinFunctionType and function in _CLOCKS:
        return functools.partial(_look_at_clock, observer, function, site)
    is_method = type(function) in (BuiltinFunctionType, MethodType)
    owner = function.__self__ if is_method else None
    is_outside = is_method and (observer.is_outer(function) or observer.is_outer(owner))
    if is_outside and type(owner) in _DRAWN and function.__name__ in _DRAWN[type(owner)]:
        return functools.partial(_draw, observer, owner, function.__name__, site)
    return None


def _hindered(observer: Observer) -> bool:
    """Whether a replay could not ask for what the run asks for now."""
    recorder: Any = state.interpreter
    if getattr(recorder, "hosts", None) is None:  # within a transform, say
        return True
    return recorder.before is not None or bool(observer.loops.rolling)


def _ask(observer: Observer, symbol: Asked, source: Source | None, fits: Any = None) -> None:
    recorder: Any = state.interpreter
    recorder.hosts.append((Asks(symbol, source, fits), len(recorder.equations)))


def _question(observer: Observer, source: Source) -> int:
    """The number of the next question of the run."""
    number = observer.numbers.questions.get(id(source), 0)
    observer.numbers.questions[id(source)] = number + 1
    return number


def _look_at_clock(observer: Observer, clock: Callable[[], Any], site: Site, /, *args: Any) -> Any:
    if args or _hindered(observer):
        observer.open(f"calls `{clock.__name__}` of `time`", site)
        return clock(*args)
    observer.does("looks at the clock", site)
    found, recorder = clock(), state.interpreter
    key = ("clock", len(recorder.hosts))  # type: ignore[union-attr]
    symbol = _clocks.setdefault((clock, key), Asked(key, _Now(clock), type(found), f"`{clock.__name__}()`"))
    _ask(observer, symbol, None)
    return observer.numbers.stand_for(symbol, found)


_clocks: dict[Any, Asked] = {}


def _draw(observer: Observer, owner: Any, name: str, site: Site, /, *args: Any, **kwargs: Any) -> Any:
    words, varies = (
        f"calls `{name}` of a {type(owner).__name__}",
        observer.numbers.has((args, (*kwargs.values(),))),
    )
    for value in (*args, *kwargs.values()) if not varies else ():
        observer.consume(value, site, words)
    # What it draws from is kept, and not the list, which somebody may change.
    args = tuple([tuple(x) if type(x) in (list, range) else x for x in args])
    named = tuple(sorted(kwargs.items()))
    source, ask = _sources.of(owner), functools.partial(_called, name, args, named)
    if source is None:
        observer.open(words, site)
        return ask(owner)
    found = source.taken(ask)
    plain = is_plain((args, named)) and not varies
    if not plain or _hindered(observer) or not _can_be_drawn(found):
        observer.open(words, site)
        return found
    observer.does("draws a number of Python's", site)
    key = name, plain_key(args), plain_key(named)
    symbol = source.symbol(_question(observer, source), ask, type(found), f"`random.{name}()`", *key)
    if type(found) in NUMBERS:
        _ask(observer, symbol, source)
        return observer.numbers.stand_for(symbol, found)
    _ask(observer, symbol, source, functools.partial(_is_drawn_like, _kind_of_draw(found)))
    if type(found) is np.ndarray:
        return observer.arrays.follow(observer.adopt(found), symbol)
    parts = [computed(_leaf(place), (symbol,), type(x)) for place, x in enumerate(found)]
    return observer.local([observer.numbers.stand_for(p, x) for p, x in zip(parts, found, strict=True)])


def _called(name: str, args: tuple[Any, ...], named: tuple[tuple[str, Any], ...], owner: Any) -> Any:
    return getattr(owner, name)(*args, **dict(named))


def _can_be_drawn(found: Any) -> bool:
    """Whether a draw is a number, an array, or a list of numbers."""
    return is_numbers(found) or all(type(x) in NUMBERS for x in (found if type(found) is list else [found]))


def _kind_of_draw(found: Any) -> Any:
    return array_key(found) if type(found) is np.ndarray else [*map(type, found)]


def _is_drawn_like(kind: Any, found: Any) -> bool:
    return (type(found) in (np.ndarray, list)) and _kind_of_draw(found) == kind


# ---------------------------------------------------------------------------------- items

# What the code of an iterator does not look at: it may have been changed before.
_UNSEEN = ("sets .grad",)


def item_of(observer: Observer, iterator: Any, site: Site) -> Any:
    """`next(iterator)` of an iterator that lives outside. Raises what that raises."""
    source = _sources.of(iterator) if _is_fit(observer, iterator) else None
    recorder: Any = state.interpreter
    words = "advances an iterator that lives outside the function"
    if source is None or _hindered(observer) or not state.grad_enabled:
        observer.open(words, site)
        return next(iterator) if source is None else source.taken(next)
    changes = dict.fromkeys(what for what, *_ in recorder.changes if what not in _UNSEEN)
    done = [what for what in changes if blind.hears_of(iterator, what)]
    if done:
        observer.open(f"{words}, which may see that the function {done[0]} before", site)
        return source.taken(next)
    observer.does("advances an iterator", site)
    recorder.later.settle("advances an iterator")
    found = unobserved(functools.partial(source.taken, next))
    leaves: list[Any] = []
    structure = flatten(found, leaves, False)
    tensors = [x for x in leaves if isinstance(x, Tensor)]
    problem = next(filter(None, map(_problem_of, leaves)), "")
    known = any(map(recorder.knows, tensors)) or not _are_apart(tensors)
    if known or not (is_plain(found) or observer.is_tensor(found) or observer.status(found) == "unknown"):
        problem = "what the function has already"
    if problem:
        observer.open(f"advances an iterator that gives {problem}", site)
        return found
    kind = type(iterator).__name__
    symbol = source.symbol(_question(observer, source), next, type(found), f"an item of a {kind}")
    _ask(observer, symbol, source, _Alike(structure, leaves))
    observer.register_argument(found)
    for place, leaf in enumerate(leaves):
        if isinstance(leaf, Tensor):
            part = computed(_leaf(place), (symbol,), Tensor)
            make = functools.partial(ArrayInput, symbol=part, strides=leaf.array.strides, lent=True)
            recorder.host(leaf, "item", make)
            observer.numbers.items[id(leaf)] = leaf
    return found


def _is_fit(observer: Observer, iterator: Any) -> bool:
    kind = type(iterator)
    has_next = kind is GeneratorType or type_lookup(kind, "__next__") is not MISSING
    return has_next and observer.is_outer(iterator)


def unobserved(call: Callable[[], Any]) -> Any:
    """What a call gives that is no part of the run."""
    interpreter, observer = state.interpreter, current.observer
    state.interpreter, current.observer = None, None
    try:
        return call()
    finally:
        state.interpreter, current.observer = interpreter, observer


def _problem_of(leaf: Any) -> str:
    """What it is about a part of an item that a replay could not be given; "" if nothing."""
    if type(leaf) is Tensor:
        return "a tensor on the graph" if leaf.needs_grad or leaf.is_inference() else ""
    return "" if is_plain(leaf) else f"a {type(leaf).__name__} object"


def _are_apart(tensors: Sequence[Tensor]) -> bool:
    """Whether no two are one, or have one array."""
    return len({id(tensor.array) for tensor in tensors}) == len(tensors)


class _Alike:
    """Whether an item is like another one: made of tensors of the same types, and else of the same values."""

    def __init__(self, structure: Any, leaves: Sequence[Any]) -> None:
        self._structure, self._kinds = structure.key, [*map(_kind, leaves)]

    def __call__(self, item: Any) -> bool:
        leaves: list[Any] = []
        structure = flatten(item, leaves, False)
        if structure.key != self._structure or [*map(_kind, leaves)] != self._kinds:
            return False
        return _are_apart([leaf for leaf in leaves if isinstance(leaf, Tensor)])


def _kind(leaf: Any) -> Any:
    if type(leaf) is Tensor:
        array = leaf.array
        return Tensor, array.shape, array.dtype, array.strides, leaf.needs_grad, leaf.is_inference()
    return plain_key(leaf) if is_plain(leaf) else object()


@functools.cache
def _leaf(place: int) -> Callable[[Any], Any]:
    """What gives the leaf number `place` of an item."""

    def leaf(item: Any) -> Any:
        if not is_container(item):
            return item
        leaves: list[Any] = []
        flatten(item, leaves, False)
        return leaves[place]

    return leaf
