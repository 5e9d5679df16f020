"""`jit`: run a function eagerly once, then replay what it computed as native code.

A call is looked up by a key of its arguments (structure, dtypes, shapes, layouts, Python values
by type and bits, grad mode). Under a key lie variants, each a trace tree whose paths were
captured in the same state of the Python world. A tree runs natively from guard to guard; at
its leaf the reads of the path are checked, and the results are handed out only if they hold.
Anything else runs eagerly, is recorded, and becomes a new path. Where the body cannot be skipped,
it runs, and its ops are deferred (`compiler/deferred.py`).
"""

from __future__ import annotations

import functools
import threading
import time
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fusegrad.compiler import debug
from fusegrad.compiler.deferred import Deferred, Plan
from fusegrad.compiler.stand_in import has_values
from fusegrad.eager import autograd, dtypes
from fusegrad.eager.op import wrap
from fusegrad.eager.state import state
from fusegrad.eager.tensor import Tensor
from fusegrad.tracer.capture import Capture, Reason, capture
from fusegrad.tracer.reads import MISSING, Read, hold, plain_key
from fusegrad.tracer.tree import Structure, flatten

# Bounds, after which calls stay eager and `explain()` says so.
MOST_KEYS = 256
MOST_PATHS = 64
FEW_PATHS = 8  # of which each must have answered a call, on the average, for more to be compiled
MOST_VARIANTS = 8
OPEN_TRIES = 3
# A function whose run was open may run closed later (it filled a cache, say): after so many deferred
# calls one is recorded again.
TRY_AGAIN = (8, 64)
# How often numbers must come before calls with them are captured, and how many are remembered.
NUMBERS_SEEN = 4
MOST_NUMBERS = 1024
OPEN = "its runs cannot be replayed"


@dataclass
class Stats:
    """Counters of a jitted function.

    calls: all calls; compiled_calls: answered by compiled code; eager_calls: by the function
    itself; compiles: paths and stretches compiled; guard_failures: compiled code was there, but a guard (on
    data or on Python state) did not hold.
    """

    calls: int = 0
    compiled_calls: int = 0
    eager_calls: int = 0
    compiles: int = 0
    guard_failures: int = 0


class JitError(RuntimeError):
    """A promise that `jit` was asked for (`require`, `verify`) does not hold; the message says why."""


class _Miss(Exception):
    """A compiled path does not answer this call."""


class Variant:
    """A trace tree, and what of Python's state all its paths have read."""

    tree: Any
    shared: list[Read]  # the reads that all paths have in common: looked at before the tree runs

    def __init__(self, tree: Any) -> None:
        self.settle(tree)

    def settle(self, tree: Any) -> None:
        """Put a tree in place."""
        first, *others = [p.capture.reads for p in tree.paths]
        known = [{r.describe() for r in reads} for reads in others]
        self.shared = [r for r in first if all(r.describe() in k for k in known)]
        self.tree = tree


class Entry:
    """What is known for one key."""

    def __init__(self, key: Any, key_text: str) -> None:
        self.key, self.key_text = key, key_text
        self.variants: list[Variant] = []
        self.anchors: list[Callable[[], Any]] = []
        self.open_tries = 0
        self.compiles = 0
        self.plan = Plan()
        self.seen: dict[Any, int] = {}  # for arguments with other numbers: how often they came
        self.reasons: list[Reason] = []
        self.given_up = ""
        self.last_failure = ""

    @property
    def paths(self) -> list[Any]:
        """All compiled paths."""
        return [p for v in self.variants for p in v.tree.paths]


class JitFunction:
    """A function that replays as native code. Made by `jit`.

    stats: counters. explain(): what was compiled, guarded and refused. __wrapped__: the function.
    """

    __fusegrad_jit__ = True

    def __init__(self, function: Callable[..., Any], verify: int = 0, require: str | None = None) -> None:
        if not callable(function):
            raise TypeError(f"jit takes a function, method or module, not {type(function).__name__}")
        if verify < 0 or require not in (None, "replay"):
            raise ValueError(f"verify is 0 or more and require None or 'replay', not {verify}, {require!r}")
        self.__wrapped__ = function
        self.verify, self.require = verify, require
        self.stats = Stats()
        self.entries: dict[Any, Entry] = {}
        self._captured_once: set[Any] = set()
        self._lock = threading.RLock()
        functools.update_wrapper(self, function, updated=())

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<jit {getattr(self, '__qualname__', self.__wrapped__)!s}>"

    def __getattr__(self, name: str) -> Any:
        # A jitted module still has its parameters, its state_dict and so on.
        if name.startswith("__") or "__wrapped__" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.__wrapped__, name)

    # Calling.

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if state.interpreter is not None:
            # Inside another captured run: part of it.
            return self.__wrapped__(*args, **kwargs)
        self.stats.calls += 1
        leaves: list[Any] = []
        try:
            key = call_key(args, kwargs, leaves)
        except _Unkeyed as error:
            return self._eager(args, kwargs, str(error))
        entry = self.entries.get(key)
        if entry is None:
            if len(self.entries) >= MOST_KEYS:
                return self._eager(args, kwargs, f"more than {MOST_KEYS} kinds of arguments were seen")
            family = self._family(key, leaves)
            if family is not None:
                return self._defer(family, args, kwargs)
        if entry is not None:
            if entry.given_up and not (entry.given_up == OPEN and entry.plan.asked in TRY_AGAIN):
                return self._defer(entry, args, kwargs)
            try:
                result = self._replay(entry, leaves)
                if self.verify and self.stats.compiled_calls % self.verify == 0:
                    check_same(self, result, self.__wrapped__(*args, **kwargs))
                return result
            except _Miss as miss:
                entry.last_failure = str(miss)
                if entry.variants:
                    self.stats.guard_failures += 1
                debug.show(1, f"{self!r}: guard failed", lambda: entry.last_failure)
        return self._capture(key, args, kwargs, leaves)

    def _family(self, key: Any, leaves: list[Any]) -> Entry | None:
        """Where a call goes whose arguments differ from a captured one's in Python numbers alone.

        Its ops are deferred, with the numbers as inputs of the stretches: a new learning rate
        compiles nothing. Numbers that come again are captured, since a replay is faster.
        """
        if self.require or not any(type(leaf) in _NUMBERS for leaf in leaves):
            return None
        kinds = [type(x) if type(x) in _NUMBERS else k for x, k in zip(leaves, key[3:], strict=True)]
        shared = ("numbers", *key[:3], *kinds)
        family = self.entries.get(shared)
        if family is None:
            if shared not in self._captured_once:
                self._captured_once.add(shared)
                return None
            family = self.entries[shared] = Entry(shared, describe_key(leaves, numbers=False))
            family.given_up = "other numbers than in captured calls"
        if len(family.seen) >= MOST_NUMBERS:
            family.seen.clear()
        family.seen[key] = family.seen.get(key, 0) + 1
        return family if family.seen[key] <= NUMBERS_SEEN else None

    def _eager(self, args: tuple[Any, ...], kwargs: dict[str, Any], reason: str) -> Any:
        """A call that is not looked up, because of its arguments."""
        entry = self.entries.setdefault(reason, Entry(reason, "others"))
        entry.given_up = reason
        return self._defer(entry, args, kwargs)

    def _defer(self, entry: Entry, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the function itself, its ops deferred where that pays."""
        if self.require:
            raise self._unable(entry)
        plan = entry.plan
        plan.asked += 1
        if not plan.defers():
            self.stats.eager_calls += 1
            started = time.perf_counter()
            result = self.__wrapped__(*args, **kwargs)
            plan.note("eager", time.perf_counter() - started, False)
            return result
        run = Deferred(plan)
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

    def _unable(self, entry: Entry) -> JitError:
        """What says that the function cannot be replayed, although it has to be."""
        reasons = "".join(f"\n  {reason}" for reason in entry.reasons)
        return JitError(f"{self!r} is required to replay, and cannot: {entry.given_up}{reasons}")

    def _replay(self, entry: Entry, leaves: list[Any]) -> Any:
        """Answer from compiled code, or raise _Miss with the reason."""
        if any(anchor() is None for anchor in entry.anchors):
            # Another object has taken the place in memory that the key is about.
            self.entries.pop(entry.key, None)
            raise _Miss("an object among the arguments is gone")
        failure = "nothing compiled yet"
        for variant in list(entry.variants):
            if len(entry.variants) > 1:
                failed = next((r for r in variant.shared if not r.holds()), None)
                if failed is not None:
                    failure = f"{failed.describe()}: no longer so"
                    continue
            found = variant.tree.run(leaves)
            if not hasattr(found, "leaf"):
                failure = _guard_text(found)
                continue
            path = found.leaf.path
            failed = next((r for r in path.capture.reads if not r.holds()), None)
            if failed is not None:
                failure = f"{failed.describe()}: no longer so"
                continue
            self.stats.compiled_calls += 1
            path.calls += 1
            if path.derives_alone and found.leaf.joint is None and found.leaf.followed():
                self._compile_joint(variant.tree, found.leaf)
            return finish(found, leaves)
        raise _Miss(failure)

    def _capture(self, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any], leaves: list[Any]) -> Any:
        """Run eagerly with the recorder on, and compile the path."""
        self.stats.eager_calls += 1
        made = capture(self.__wrapped__, args, kwargs)
        result, made.result = made.result, None
        with self._lock:
            entry = self.entries.get(key)
            if entry is None:
                entry = self.entries[key] = Entry(key, describe_key(leaves))
                entry.anchors = [hold(x) for x in leaves if _is_object(x)]
            debug.show(1, f"{self!r}: captured", lambda: "\n".join(map(str, made.reasons)) or "closed")
            if made.reasons:
                self._refuse(entry, made)
                if self.require:
                    raise self._unable(entry)
            else:
                entry.given_up = ""
                self._compile(entry, made, leaves)
        return result

    def _refuse(self, entry: Entry, made: Capture) -> None:
        """The run was open: from now on the body runs, unless other runs were closed."""
        entry.reasons = made.reasons
        entry.open_tries += 1
        entry.plan.asked += 1
        if not entry.variants or entry.open_tries >= OPEN_TRIES:
            entry.given_up = OPEN

    def _compile(self, entry: Entry, made: Capture, leaves: list[Any]) -> None:
        unused = entry.compiles >= FEW_PATHS and sum(p.calls for p in entry.paths) < entry.compiles
        if unused or entry.compiles >= MOST_PATHS:
            entry.given_up = f"{entry.compiles} paths were compiled and still: {entry.last_failure}"
            return
        entry.compiles += 1
        self.stats.compiles += 1
        try:
            _add_path(entry, made, leaves)
        except Exception as error:
            # A fault of the compiler must not become one of the user's program.
            if debug.level():
                raise
            entry.variants.clear()
            entry.given_up = f"the compiler failed: {type(error).__name__}: {error}"

    def _compile_joint(self, tree: Any, leaf: Any) -> None:
        """Forward and backward of a path as one program, from the next call on."""
        with self._lock:
            try:
                if leaf.joint is None:
                    tree.make_joint(leaf)
            except Exception:
                # The separate programs work; a fault of the compiler shows where it is looked for.
                leaf.path.derives_alone = False
                if debug.level():
                    raise

    # Telling.

    def explain(self) -> Any:
        """What was compiled and guarded, and what runs eagerly and why; `print` it."""
        from fusegrad.compiler.explain import Explanation

        return Explanation(self)

    def segments(self) -> list[Any]:
        """The segments of all compiled paths and stretches."""
        trees = [v.tree for e in self.entries.values() for v in e.variants]
        trees += [p.tree for e in self.entries.values() for s in e.plan.stretches for p in s.parts]
        return [s for t in trees for s in t.root.walk()]

    def kernels(self) -> KernelCount:
        """The kernels of all compiled paths."""
        segments = self.segments()
        forward = [s.program for s in segments]
        backward = [s.backward for s in segments if s.backward is not None]
        joint = [s.joint.program for s in segments if s.joint is not None]
        return KernelCount(
            *([k for p in programs for k in p.kernels] for programs in (forward, backward, joint))
        )

    def memory_bytes(self) -> int:
        """Bytes of temporaries and results that one call of each compiled path needs."""
        programs = [p for s in self.segments() for p in (s.program, s.backward) if p is not None]
        return sum(p.memory_bytes() for p in programs)

    def clear(self) -> None:
        """Forget everything compiled; the counters stay."""
        with self._lock:
            self.entries.clear()
            self._captured_once.clear()


@dataclass(frozen=True)
class KernelCount:
    """The fused kernels of a jitted function: forward, backward, and of both at once."""

    forward: list[Any]
    backward: list[Any]
    joint: list[Any]


def _add_path(entry: Entry, made: Capture, leaves: list[Any]) -> None:
    """Compile a captured path into the entry: into a tree that it shares a stretch with, or its own."""
    from fusegrad.compiler.path import layout_of, make_path
    from fusegrad.compiler.tree import Diverged, Tree

    numbers = {}
    for value in made.arguments:
        numbers[value] = next(
            i for i, x in enumerate(leaves) if isinstance(x, Tensor) and x is made.tensors[value]
        )
    path = make_path(made, numbers)
    for variant in entry.variants:
        try:
            variant.settle(variant.tree.grown(path))
        except Diverged:
            continue
        return
    if len(entry.variants) >= MOST_VARIANTS:
        # The oldest state of the Python world is the least likely to come back.
        entry.variants.pop()
    layouts = {v: layout_of(leaves[i].array) for v, i in numbers.items()}
    entry.variants.insert(0, Variant(Tree([path], layouts)))


def finish(run: Any, leaves: list[Any]) -> Any:
    """The function's result from what a run of the tree gave."""
    path, results = run.leaf.path, run.results
    node = None
    if path.wanted and state.grad_enabled:
        from fusegrad.compiler.node import AGAIN, RESULT, SAVED, CompiledNode

        node = CompiledNode(run, leaves)
    tensors: dict[Any, Tensor] = {}
    items = []
    number = 0
    for output in path.capture.outputs:
        if output.kind == "argument":
            items.append(leaves[output.item])
        elif output.kind == "object":
            items.append(output.item)
        elif output.kind == "captured":
            items.append(output.item())
        else:
            if output.value not in tensors:
                tensor = wrap(results[number])
                if node is not None:
                    if output.requires_grad:
                        autograd.place(tensor, node, path.seeded.index(number))
                    if output.value in path.kept_by_eager:
                        node.keep(tensor, RESULT, SAVED, output.value)
                    elif number in path.saved:
                        node.keep(tensor, RESULT, AGAIN, output.value)
                tensors[output.value] = tensor
            items.append(tensors[output.value])
            number += 1
    structure: Structure = path.capture.structure
    return structure.build(iter(items))


# Two runs that should agree to rounding: what relative difference is rounding.
_ROUNDING = {2: 1e-2, 4: 1e-3, 8: 1e-8}  # by the bytes of a real number


def check_same(function: JitFunction, ours: Any, theirs: Any) -> None:
    """Raise JitError where a compiled call's result is not eager's."""
    mine: list[Any] = []
    others: list[Any] = []
    same = flatten(ours, mine).key == flatten(theirs, others).key
    for place, (a, b) in enumerate(zip(mine, others, strict=False)):
        if isinstance(a, Tensor) and isinstance(b, Tensor):
            x, y = a.array, b.array
            same = same and (x.shape, x.dtype, a.needs_grad) == (y.shape, y.dtype, b.needs_grad)
            if same and x.dtype.kind in "fc":
                rounding = _ROUNDING[x.real.itemsize]
                same = np.allclose(x, y, rounding, rounding * 1e-2, equal_nan=True)
            else:
                same = same and np.array_equal(x, y)
        else:
            same = same and (a is b or plain_key(a) == plain_key(b))
        if not same:
            raise JitError(f"{function!r}: compiled and eager differ in result {place}:\n{a!r}\n{b!r}")
    if not same:
        raise JitError(f"{function!r}: compiled and eager give other containers:\n{ours!r}\n{theirs!r}")


# Keys.

_NUMBERS = (int, float)


class _Unkeyed(Exception):
    """Arguments that no key can tell apart."""


def call_key(args: tuple[Any, ...], kwargs: dict[str, Any], leaves: list[Any]) -> Any:
    """What must be equal for two calls to be answered by the same code; fills `leaves`."""
    try:
        structure = flatten((args, kwargs) if kwargs else args, leaves)
    except ValueError as error:
        raise _Unkeyed(f"an argument is {error}") from None
    parts: list[Any] = [structure.key, state.grad_enabled, dtypes.default_float()]
    seen: dict[int, int] = {}
    for place, leaf in enumerate(leaves):
        if isinstance(leaf, Tensor):
            array = leaf.array
            if not has_values(array):
                array.item()  # refuses: the tensor waits in another thread
            # The place of its first appearance tells f(x, x) from f(x, y).
            first = seen.setdefault(id(leaf), place)
            parts.append((array.shape, array.dtype, array.strides, leaf.needs_grad, type(leaf), first))
        else:
            plain = plain_key(leaf)
            parts.append(plain if plain is not MISSING else (type(leaf), id(leaf)))
    return tuple(parts)


def _is_object(leaf: Any) -> bool:
    """Whether a leaf is keyed by its identity."""
    return not isinstance(leaf, Tensor) and plain_key(leaf) is MISSING


def describe_key(leaves: list[Any], numbers: bool = True) -> str:
    """The arguments of a key for people: `float32[32, 784], 3, <Model>`; or with `any int` for 3."""
    parts = []
    for leaf in leaves:
        if isinstance(leaf, Tensor):
            text = f"{leaf.array.dtype.name}{list(leaf.array.shape)}"
            parts.append(text + (" requires_grad" if leaf.needs_grad else ""))
        elif not numbers and type(leaf) in _NUMBERS:
            parts.append(f"any {type(leaf).__name__}")
        else:
            parts.append(repr(leaf) if not _is_object(leaf) else f"<{type(leaf).__name__}>")
    return ", ".join(parts)


def _guard_text(segment: Any) -> str:
    """Which guard sent a call away."""
    from fusegrad.tracer.record import source_text

    if segment.guard is None:
        return "a captured tensor changed its type, or an op refused its input"
    return f"another value at {source_text(segment.guard.source)}"


def jit(function: Callable[..., Any] | None = None, *, verify: int = 0, require: str | None = None) -> Any:
    """Make `function` replay as native code; as decorator or call.

    The first call runs eagerly, is recorded and compiled; later calls with arguments of the same
    types skip the Python body, as long as everything that it read is as it was. What cannot be
    replayed soundly runs its body, and `explain()` says why. Works on functions, methods and
    modules. Raises TypeError for what cannot be called.

    verify: run every `verify`-th replayed call eagerly as well, and raise `JitError` where the results
    differ by more than rounding (a replayed function has no effects that would happen twice).
    require: "replay" raises `JitError`, with the reasons, where the body would have to run.

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
        return functools.partial(jit, verify=verify, require=require)
    return JitFunction(function, verify, require)
