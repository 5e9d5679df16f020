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
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar, overload

from fusegrad.compiler import deterministic, entries, learning, pickled
from fusegrad.compiler.answered import Missed, replayed
from fusegrad.compiler.base import background, debug
from fusegrad.compiler.call_family import Coming, Family, without
from fusegrad.compiler.call_key import Unkeyed, call_key
from fusegrad.compiler.deferred.interpreter import Deferred
from fusegrad.compiler.earlier import Earlier
from fusegrad.compiler.entries import Entry
from fusegrad.compiler.explain.miss_reasons import Difference
from fusegrad.compiler.explanation import Explanation
from fusegrad.compiler.jitted import Jitted
from fusegrad.compiler.jitted_object import JittedObject, is_calling
from fusegrad.compiler.native import calls as native_calls
from fusegrad.compiler.paths.segments import MISSED
from fusegrad.eager.autograd.node import watchers
from fusegrad.eager.core.settings import setting
from fusegrad.eager.core.state import state
from fusegrad.eager.ranks.journal import journal, several
from fusegrad.tracer.capture.api import capture
from fusegrad.tracer.observe.symbols import Changing
from fusegrad.tracer.observe.world.ahead import any_waiting

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


class JitFunction(Jitted[P, R]):
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
        super().__init__(function, verify, require, contract)
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
        interpreter = state.interpreter
        if interpreter is not None:
            # Inside another captured run it is part of that; in a batch it may wait as a whole.
            made = interpreter.calls(self, args, kwargs)
            return self.__wrapped__(*args, **kwargs) if made is None else made[0]
        with_ranks = several[0]
        if with_ranks:
            journal.begin()
        try:
            answer = self._answer  # another thread may put another one there
            if answer is not None and not kwargs:
                result = answer(args)
                if result is not MISSED:
                    return result
                if with_ranks:
                    journal.again()
            self.stats.calls += 1
            return self._called(args, kwargs)
        finally:
            if with_ranks:
                journal.end()

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a call gives that has no shortcut."""
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
                    return self._defer(alike, args, kwargs, family.coming(key))
        if entry is not None:
            learning.take_over(self, entry)
            tries = entry.given_up == learning.OPEN and entry.plan.asked in TRY_AGAIN
            tries = tries or (entry.moving and not entry.coming.waits())
            if entry.given_up and not tries and not any_waiting():
                return self._defer(entry, args, kwargs, entry.coming)
            try:
                return replayed(self, entry, leaves, args, kwargs)
            except Missed as miss:
                missed: Difference = miss.args[0]
            must_record = any_waiting()  # only a run that is recorded gets the answers
            if entry.compiling is not None:
                if must_record:
                    return self._capture(key, family, args, kwargs, leaves)
                self.stats.eager_calls += 1
                return self.__wrapped__(*args, **kwargs)
            entry.last_failure = missed
            self.last_miss = [missed]
            self.misses[missed.what] += 1
            if entry.variants:
                self.stats.guard_failures += 1
            debug.show(1, f"{self!r}: guard failed", lambda: str(entry.last_failure))
            if entry.is_restless(missed) and not (self.require or must_record):
                return self._defer(entry, args, kwargs, entry.coming)
        return self._capture(key, family, args, kwargs, leaves)

    def _eager(self, args: tuple[Any, ...], kwargs: dict[str, Any], reason: str) -> Any:
        """A call that is not looked up, because of its arguments."""
        entry = self.entries.setdefault(reason, Entry(reason, "others"))
        entry.given_up = reason
        return self._defer(entry, args, kwargs)

    def _defer(
        self, entry: Entry, args: tuple[Any, ...], kwargs: dict[str, Any], coming: Coming | None = None
    ) -> Any:
        """Run the function itself, its ops deferred where that pays. coming: is told of their sizes."""
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
        if coming is not None:
            coming.meets(run.met)
        if run.compiled and not run.learned:
            plan.note("deferred", time.perf_counter() - started, run.tracked)
        return result

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
        earlier = Earlier(self, without(key, leaves_out), leaves, family, leaves_out)
        result = earlier.answer(args, kwargs, allowance)
        if result is not MISSED:
            return result
        made = capture(
            self.__wrapped__,
            args,
            kwargs,
            puts_off=True,
            changing=changing,
            allowance=allowance,
            avoided=self.avoided,
        )
        if journal.owes():
            journal.must_be_over("the end of the run")
        key = without(key, leaves_out - made.fixed.leaves)
        if family is not None:
            family.fix(made.fixed.leaves)
        earlier.tell(made)
        result, made.result = made.result, None
        later = made.later
        assert later is not None
        waits = later.waits
        try:
            self.stats.eager_calls += not waits
            entry = learning.learn(self, key, made, args, kwargs, leaves, allowance)
            if family is not None:
                entry.coming = family.coming(key)
            earlier.keep(entry)
            if waits:
                result = replayed(self, entry, leaves, args, kwargs)
        except Missed:
            self.stats.eager_calls += 1  # there is no path, or it does not answer
        finally:
            later.settle()
        return result

    # Telling.

    def explain(self, *, kernels: bool = False) -> Any:
        """What was compiled and guarded, and what runs eagerly and why; `print` it.

        kernels: say of each kernel how its loops run, and about how many cycles that was expected to take.
        """
        return Explanation(self, kernels)


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
