"""What a jitted function knows: `jit.py` answers calls by it, and others add to it, or tell of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

from fusegrad.compiler.base.background import Work
from fusegrad.compiler.base.lock import compiling
from fusegrad.compiler.base.stats import Stats
from fusegrad.compiler.batching.cells import Cells
from fusegrad.compiler.call_key import describe_key, is_object, key_of
from fusegrad.compiler.entries import Entry, KernelCount
from fusegrad.compiler.explain.miss_reasons import Difference, closest, leaf_names, leaf_text
from fusegrad.tracer.observe.values import hold

P = ParamSpec("P")
R = TypeVar("R")


class Jitted(Generic[P, R]):
    """The function, what was asked for, counters, and an entry for each kind of arguments."""

    def __init__(self, function: Callable[P, R], verify: int, require: str | None, contract: bool) -> None:
        self.__wrapped__ = function
        self.verify, self.require, self.contract = verify, require, contract
        self.stats = Stats()
        self.entries: dict[Any, Entry] = {}
        self.captured_once: dict[Any, Any] = {}  # the first key of each family
        self.families: dict[Any, Entry] = {}  # the last one for objects of some classes
        self.last_miss: list[Difference] = []
        self.misses: Counter[str] = Counter()  # how often each thing was other than it was
        self.at_work: Work[Any] | None = None  # what was begun to be compiled beside the program
        self.told = False  # whether it was said what takes long
        self.long_runs = 0
        self.waited = 0.0  # so many seconds for what was compiled
        self.recalled: set[str] = set()  # the runs of earlier processes that it has taken over, as text
        self.avoided: frozenset[str] = frozenset()  # kinds of reasons that later runs can do without
        self._answer: Callable[[tuple[Any, ...]], Any] | None = None  # the shortcut that was taken last
        self._cells = Cells(function, key_of)  # the kinds of calls in batched programs

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

    def is_due(self) -> bool:
        """Whether the next replayed call is to be verified."""
        return self.verify > 0 and (self.stats.compiled_calls + 1) % self.verify == 0

    # Telling.

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
            self.families.clear()
            self.recalled.clear()
            self._answer = None
            self._cells.clear()
