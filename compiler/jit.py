"""`jit`: run a function once, then replay what it computed as native code.

A call is looked up by a key of its arguments (structure, dtypes, shapes, layouts, Python values
by type and bits, grad mode). Under a key lie variants, each a trace tree whose paths were
captured in the same state of the Python world. A tree runs natively from guard to guard; at
its leaf the reads of the path are checked, and the results are handed out only if they hold.
Anything else runs eagerly, is recorded, and becomes a new path. Where the body cannot be skipped,
it runs, and its ops are deferred (`compiler/deferred/interpreter.py`).
"""

from __future__ import annotations

import functools
import time
import types
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, overload

from fusegrad.compiler import deterministic, entries, learning, pickled
from fusegrad.compiler.base import background, debug
from fusegrad.compiler.base.background import Work
from fusegrad.compiler.base.lock import compiling
from fusegrad.compiler.call_family import Family, without
from fusegrad.compiler.call_key import Unkeyed, call_key, describe_key, is_object
from fusegrad.compiler.deferred.interpreter import Deferred
from fusegrad.compiler.entries import Entry, KernelCount, Stats, Variant
from fusegrad.compiler.explain.miss_reasons import (
    Difference,
    closest,
    difference,
    leaf_names,
    leaf_text,
)
from fusegrad.compiler.fastpath.entry import Shortcut
from fusegrad.compiler.jitted_object import JittedObject, is_calling
from fusegrad.compiler.native import calls as native_calls
from fusegrad.compiler.paths import replay
from fusegrad.compiler.paths.segments import MISSED, Segment, Stopped
from fusegrad.compiler.verify import Again
from fusegrad.eager.autograd.node import watchers
from fusegrad.eager.core.settings import setting
from fusegrad.eager.core.state import state
from fusegrad.tracer.capture.api import capture
from fusegrad.tracer.observe.reads import Read
from fusegrad.tracer.observe.symbols import Changing
from fusegrad.tracer.observe.values import hold

# Bounds, after which calls stay eager and `explain()` says so.
MOST_KEYS = 256
# A function whose run was open may run closed later (it filled a cache, say): after so many deferred
# calls one is recorded again.
TRY_AGAIN = (8, 64)


P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")


class Decorator(Protocol):
    """What `jit` is with options alone: it takes the function next."""

    def __call__(self, function: Callable[P, R], /) -> JitFunction[P, R]: ...


class _Miss(Exception):
    """No compiled path answers this call; its argument is the `Difference`."""


class JitFunction(Generic[P, R]):
    """A function that replays as native code. Made by `jit`.

    stats: counters. explain(): what was compiled, guarded and refused. __wrapped__: the function.
    """

    __fusegrad_jit__ = True

    def __init__(
        self, function: Callable[P, R], verify: int = 0, require: str | None = None, contract: bool = False
    ) -> None:
        if not callable(function):
            raise TypeError(f"jit takes a function, method or module, not {type(function).__name__}")
        if verify < 0 or require not in (None, "replay"):
            raise ValueError(f"verify is 0 or more and require None or 'replay', not {verify}, {require!r}")
        self.__wrapped__ = function
        self.verify, self.require, self.contract = verify, require, contract
        self.stats = Stats()
        self.entries: dict[Any, Entry] = {}
        self.captured_once: dict[Any, Any] = {}  # the first key of each family
        self.last_miss: list[Difference] = []
        self.misses: Counter[str] = Counter()  # how often each thing was other than it was
        self.at_work: Work[Any] | None = None  # what was begun to be compiled beside the program
        self.told = False  # whether it was said what takes long
        self.long_runs = 0
        self.waited = 0.0  # so many seconds for what was compiled
        # Whether tensors are indexed by what others hold, and not by the numbers.
        self.follows_positions = True
        self._answer: Callable[[tuple[Any, ...]], Any] | None = None  # the shortcut that was taken last
        functools.update_wrapper(self, function, updated=())

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(
        self: JitFunction[Concatenate[Any, Q], R], instance: object, owner: type | None = None
    ) -> Callable[Q, R]: ...

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __reduce__(self) -> Any:
        return pickled.reduced(self)

    def __repr__(self) -> str:
        return f"<jit {getattr(self, '__qualname__', self.__wrapped__)!s}>"

    def __getattr__(self, name: str) -> Any:
        # A jitted function still has what was set on the function.
        if name.startswith("__") or "__wrapped__" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.__wrapped__, name)

    # Calling.

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        answer = self._answer  # another thread may put another one there
        if answer is not None and not kwargs:
            result = answer(args)
            if result is not MISSED:
                return result
        if state.interpreter is not None:
            # Inside another captured run: part of it.
            return self.__wrapped__(*args, **kwargs)
        self.stats.calls += 1
        if watchers:
            # Anomaly mode and hooks on what is saved look at every node.
            self.stats.eager_calls += 1
            return self.__wrapped__(*args, **kwargs)
        # The function itself must not run in an `except` clause of ours: it would find our exception.
        leaves: list[Any] = []
        unkeyed: str | None = None
        try:
            key = call_key(args, kwargs, leaves)
        except Unkeyed as error:
            unkeyed = str(error)
        if unkeyed is not None:
            return self._eager(args, kwargs, unkeyed)
        if setting.wanted:
            return deterministic.answer(self, key, leaves, args, kwargs)
        entry, family = self.entries.get(key), None
        if entry is None:
            if len(self.entries) >= MOST_KEYS:
                return self._eager(args, kwargs, f"more than {MOST_KEYS} kinds of arguments were seen")
            if self.long_runs >= learning.LONG_RUNS:
                return self._eager(args, kwargs, learning.LONG)
            alike = entries.of_family(self, key, leaves)
            if alike is not None:
                family = alike.family
                assert family is not None
                entry = self.entries.get(family.open_key(key))
                begins = entry is None and family.is_like_first(key)
                answers = begins or self.require or (entry is not None and not entry.given_up)
                if not answers and family.defers(key):
                    return self._defer(alike, args, kwargs)
        if entry is not None:
            learning.take_over(self, entry)
            if entry.given_up and not (entry.given_up == learning.OPEN and entry.plan.asked in TRY_AGAIN):
                return self._defer(entry, args, kwargs)
            try:
                return self._replay(entry, leaves, args, kwargs)
            except _Miss as miss:
                missed: Difference = miss.args[0]
            if entry.compiling is not None:
                self.stats.eager_calls += 1
                return self.__wrapped__(*args, **kwargs)
            entry.last_failure = missed
            self.last_miss = [missed]
            self.misses[missed.what] += 1
            if entry.variants:
                self.stats.guard_failures += 1
            debug.show(1, f"{self!r}: guard failed", lambda: str(entry.last_failure))
            if entry.is_restless(missed) and not self.require:
                return self._defer(entry, args, kwargs)
        return self._capture(key, family, args, kwargs, leaves)

    def _eager(self, args: tuple[Any, ...], kwargs: dict[str, Any], reason: str) -> Any:
        """A call that is not looked up, because of its arguments."""
        entry = self.entries.setdefault(reason, Entry(reason, "others"))
        entry.given_up = reason
        return self._defer(entry, args, kwargs)

    def _defer(self, entry: Entry, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the function itself, its ops deferred where that pays."""
        if self.require:
            raise learning.unable(self, entry)
        plan = entry.plan
        plan.asked += 1
        # Of a run that is too long to record deferring would know the first ops alone.
        if setting.wanted or entry.given_up == learning.LONG or not plan.defers():
            self.stats.eager_calls += 1
            started = time.perf_counter()
            result = self.__wrapped__(*args, **kwargs)
            plan.note("eager", time.perf_counter() - started, False)
            return result
        run = Deferred(plan, background.bound(), functools.partial(learning.tell_of_stretches, self, plan))
        stretches = len(plan.stretches)
        started = time.perf_counter()
        try:
            result = run.run(self.__wrapped__, args, kwargs)
        finally:
            self.stats.compiles += len(plan.stretches) - stretches
            if run.compiled:
                self.stats.compiled_calls += 1
            else:
                self.stats.eager_calls += 1
        if run.compiled and not run.learned:
            plan.note("deferred", time.perf_counter() - started, run.tracked)
        return result

    def _replay(self, entry: Entry, leaves: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Answer from compiled code, or raise _Miss with the reason."""
        if entry.anchors and any(anchor() is None for anchor in entry.anchors):
            # Another object has taken the place in memory that the key is about.
            self.entries.pop(entry.key, None)
            raise _Miss(Difference("state", "an object among the arguments is gone"))
        missed: list[tuple[Variant, Read | Stopped]] = []
        for variant in list(entry.variants):
            failed = variant.shared.first_failure()
            if failed is not None:
                missed.append((variant, failed))
                continue
            due = self._is_due()
            found = replay.run(variant.tree, leaves, variant.refusal, due)
            if isinstance(found, Stopped):
                missed.append((variant, found))
                continue
            return self._finish(variant, found, leaves, args, kwargs, due)
        raise _Miss(difference(missed))

    def _is_due(self) -> bool:
        """Whether the next replayed call is to be verified."""
        return self.verify > 0 and (self.stats.compiled_calls + 1) % self.verify == 0

    def _finish(
        self,
        variant: Variant,
        found: replay.Answer,
        leaves: list[Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        due: bool,
    ) -> Any:
        """What a call gives that a leaf of a variant answers; due: whether eager is to say the same."""
        path = found.leaf.path
        assert path is not None
        self.stats.compiled_calls += 1
        path.calls += 1
        alone = path.derivative.alone and found.leaf.joint is None and found.leaf.followed()
        if alone and found.leaf.earns_joint_program():
            learning.join(self, variant.tree, found.leaf)
        second = Again(found, leaves) if due else None
        result = found.finish()
        if second is not None:
            second.compare(self, result, args, kwargs)
        again = variant.comes_again(found.leaf)
        if not (kwargs or self.verify) and path.calls > entries.SHORTCUT_AFTER:
            self._answer = self._shortcut(variant, found.leaf, args, leaves) if again else None
        return result

    def _shortcut(self, variant: Variant, leaf: Segment, args: Sequence[Any], leaves: Sequence[Any]) -> Any:
        """What answers calls like this one faster, if there is such a thing."""
        joint = leaf.derives_at_once()
        if joint is None or (joint and leaf.joint is None):
            return None  # what is compiled beside the program is taken over the long way
        known = variant.shortcuts.get((leaf, joint))
        if known is None or not known.is_of(variant):
            known = Shortcut(variant, leaf, joint, args, leaves, self.stats)
            variant.shortcuts[leaf, joint] = known
        return known.answer

    def _capture(
        self,
        key: Any,
        family: Family | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        leaves: list[Any],
    ) -> Any:
        """Run eagerly with the recorder on, and compile the path.

        Where the run has put ops off, the result is what the path computes. family: of the arguments, where
        others of it are known.
        """
        native_calls.prepare()
        # Another thread may find meanwhile that more numbers change.
        leaves_out = frozenset() if family is None else family.changing
        known = self.entries.get(without(key, leaves_out))
        changing = Changing(leaves_out, frozenset() if known is None else known.changing.sources)
        allowance = learning.allowance(self)
        made = capture(
            self.__wrapped__,
            args,
            kwargs,
            puts_off=True,
            changing=changing,
            allowance=allowance,
            follows_positions=self.follows_positions,
        )
        key = without(key, leaves_out - made.fixed.leaves)
        if family is not None:
            family.fix(made.fixed.leaves)
        result, made.result = made.result, None
        later = made.later
        assert later is not None
        waits = later.waits
        try:
            self.stats.eager_calls += not waits
            entry = learning.learn(self, key, made, args, kwargs, leaves, allowance)
            if waits:
                result = self._replay(entry, leaves, args, kwargs)
        except _Miss:
            self.stats.eager_calls += 1  # there is no path, or it does not answer
        finally:
            later.settle()
        return result

    def new_entry(
        self,
        key: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        leaves: list[Any],
        changing: frozenset[int] = frozenset(),
    ) -> Entry:
        """Room for a kind of arguments, with how it differs from the most similar one that is known.

        changing: the numbers that the key leaves out.
        """
        entry = Entry(key, describe_key(leaves, changing=changing), changing=changing)
        entry.anchors = [hold(x) for x in leaves if is_object(x)]
        entry.names = leaf_names(self.__wrapped__, args, kwargs, len(leaves))
        self.tell_apart(entry, key, leaves, entry.names)
        self.entries[key] = entry
        return entry

    def tell_apart(self, entry: Entry, key: Any, leaves: list[Any], names: list[str]) -> None:
        """Note how a new kind of arguments differs from the most similar one that is known."""
        texts = [leaf_text(leaf) for leaf in leaves]
        entry.texts = [leaf_text(leaf, i in entry.changing.leaves) for i, leaf in enumerate(leaves)]
        others = [(e.key, e.texts, e.names) for e in list(self.entries.values()) if e.names]
        entry.because = closest(key, texts, names, others)
        self.last_miss = entry.because or self.last_miss

    # Telling.

    def explain(self, *, kernels: bool = False) -> Any:
        """What was compiled and guarded, and what runs eagerly and why; `print` it.

        kernels: say of each kernel how its loops run, and about how many cycles that was expected to take.
        """
        from fusegrad.compiler.explain.explain import Explanation

        return Explanation(self, kernels)

    def segments(self) -> list[Any]:
        """The segments of all compiled paths and stretches."""
        trees = [v.tree for e in list(self.entries.values()) for v in e.variants]
        trees += [p.tree for e in list(self.entries.values()) for s in e.plan.stretches for p in s.parts]
        return [s for t in trees for s in t.root.walk()]

    def kernels(self) -> KernelCount:
        """The kernels of all compiled paths."""
        segments = self.segments()
        forward = [s.code.program for s in segments if s.code is not None]
        backward = [s.backward.program for s in segments if s.backward is not None]
        joint = [s.joint.program for s in segments if s.joint is not None]
        return KernelCount(
            *(
                [k for p in programs for part in (p, *p.bodies) for k in part.kernels]
                for programs in (forward, backward, joint)
            )
        )

    def memory_bytes(self) -> int:
        """Bytes of temporaries and results that one call of each compiled path needs."""
        ways = [(s.code, s.backward) if s.joint is None else (s.joint,) for s in self.segments()]
        return sum(code.program.memory_bytes() for codes in ways for code in codes if code is not None)

    def clear(self) -> None:
        """Forget everything compiled; the counters stay."""
        with compiling:
            self.entries.clear()
            self.captured_once.clear()
            self._answer = None


@overload
def jit(
    function: None = None, *, verify: int = 0, require: str | None = None, contract: bool = False
) -> Decorator: ...


@overload
def jit(
    function: Callable[P, R], *, verify: int = 0, require: str | None = None, contract: bool = False
) -> JitFunction[P, R]: ...


def jit(
    function: Callable[..., Any] | None = None,
    *,
    verify: int = 0,
    require: str | None = None,
    contract: bool = False,
) -> Any:
    """Make `function` replay as native code; as decorator or call.

    The first call runs eagerly, is recorded and compiled; later calls with arguments of the same
    types skip the Python body, as long as everything that it read is as it was. What cannot be
    replayed soundly runs its body, and `explain()` says why. Works on functions, methods and
    modules. Raises TypeError for what cannot be called.

    Where tensors have some hundred thousand elements, the first call's body runs without computing
    anything, unless it looks at values or writes; then the compiled code gives the result.

    verify: run every `verify`-th replayed call eagerly as well, and raise `JitError` where the results
    differ by more than rounding. Memory, gradients and random generators are put back for it (not
    so schedules and attributes: calls that step a schedule or set an attribute are not verified).
    require: "replay" raises `JitError`, with the reasons, where the body would have to run.
    contract: in replays `a * b + c` may be rounded once, not twice: polynomials are up to twice as fast, and
    results differ from eager's by what rounding their products made (docs/jit.md).

    >>> import fusegrad as fg
    >>> @fg.jit
    ... def double(x):
    ...     return x * 2
    >>> double(fg.tensor([1.0, 2.0])), double(fg.tensor([3.0, 4.0]))
    (tensor([2., 4.]), tensor([6., 8.]))
    >>> double.stats.compiled_calls
    1
    """
    if function is None:
        return functools.partial(jit, verify=verify, require=require, contract=contract)
    jitted = JitFunction(function, verify, require, contract)
    return JittedObject(jitted) if is_calling(function) and not isinstance(function, JitFunction) else jitted
