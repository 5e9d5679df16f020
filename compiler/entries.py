"""What a jitted function knows: an entry for each kind of arguments, and in it the variants that answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from fusegrad.compiler.base.garbage import uncollected
from fusegrad.compiler.call_family import Family
from fusegrad.compiler.deferred.interpreter import Plan
from fusegrad.compiler.explain.miss_reasons import Difference
from fusegrad.compiler.fastpath.entry import Shortcut
from fusegrad.compiler.guards.guards import Guards
from fusegrad.compiler.paths.path import Path, make_path
from fusegrad.compiler.paths.segments import Segment
from fusegrad.compiler.paths.tree import Diverged, Tree
from fusegrad.eager.core.families import Layout, layout_of
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.capture.api import Capture, Reason
from fusegrad.tracer.ir.graph import Value
from fusegrad.tracer.observe.reads import Read

# How many states of the Python world are remembered.
MOST_VARIANTS = 8
# How many other numbers are found in a place before calls are deferred.
NUMBERS_READ = 3
# After so many calls of a path its shortcut is written.
SHORTCUT_AFTER = 3


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


@dataclass(frozen=True)
class KernelCount:
    """The fused kernels of a jitted function: forward, backward, and of both at once."""

    forward: list[Any]
    backward: list[Any]
    joint: list[Any]


class Variant:
    """A trace tree, and what of Python's state its paths have read.

    shared: the reads that all paths have in common, looked at before the tree runs. It never changes,
    since other threads may be running it.
    """

    shared: Guards
    _own: dict[Path, Guards]

    def __init__(self, tree: Any, before: Variant | None = None) -> None:
        """before: the variant that this one replaces; reads that stay together keep their guards."""
        written = {} if before is None else {g.reads: g for g in (before.shared, *before._own.values())}

        def guards(reads: Iterable[Read]) -> Guards:
            made = Guards(reads)
            return written.get(made.reads, made)

        common = set.intersection(*({r.token() for r in p.capture.reads} for p in tree.paths))
        self.tree = tree
        self.shared = guards(r for r in tree.paths[0].capture.reads if r.token() in common)
        self._own = {p: guards(r for r in p.capture.reads if r.token() not in common) for p in tree.paths}
        self.shortcuts: dict[tuple[Segment, bool], Shortcut] = {}  # by whether gradients are computed at once
        self._row: tuple[Any, int] = None, 0  # the leaf that answered last, and how often in a row

    def own(self, path: Path) -> Guards:
        """What the path read and others did not."""
        return self._own[path]

    def comes_again(self, leaf: Segment) -> bool:
        """Note that a leaf has answered the long way; whether it is likely to answer the next call.

        Where there are others it must have come often in a row: a shortcut that meets another value at a
        guard has run up to there in vain.
        """
        known, count = self._row
        self._row = leaf, count + 1 if known is leaf else 1
        return leaf is self.tree.root or self._row[1] > SHORTCUT_AFTER

    def refusal(self, path: Path) -> Read | None:
        """Which of the path's own reads does not hold any more."""
        own = self.own(path)
        return own.first_failure() if own.reads else None


class Entry:
    """What is known for one key."""

    def __init__(self, key: Any, key_text: str, family: Family | None = None) -> None:
        """family: where the key leaves sizes and numbers out."""
        self.key, self.key_text, self.family = key, key_text, family
        self.variants: list[Variant] = []
        self.anchors: list[Callable[[], Any]] = []
        self.open_tries = 0
        self.compiles = 0
        self.plan = Plan()
        self.eager_runs: list[Any] = []  # see `deterministic.py`
        self.reasons: list[Reason] = []
        self.not_rolled: list[Reason] = []  # the long loops of the run that could not be captured
        self.given_up = ""
        # Why the key was new, and the last miss; the leaves in words, and what the user calls them.
        self.because: list[Difference] = []
        self.last_failure: Difference | None = None
        self.texts: list[str] = []
        self.names: list[str] = []
        self.numbers: dict[str, set[str]] = {}  # for places that held numbers: which others were found

    def is_restless(self, difference: Difference) -> bool:
        """Whether a number that the function reads was another one so often that there is no point in
        capturing each: in a deferred run numbers are inputs.
        """
        if difference.aspect == "number":
            seen = self.numbers.setdefault(difference.what, set())
            seen.add(difference.now)
            if len(seen) >= NUMBERS_READ:
                self.given_up = f"{difference.what} is another number from call to call"
        return bool(self.given_up)

    @property
    def paths(self) -> list[Any]:
        """All compiled paths."""
        return [p for v in self.variants for p in v.tree.paths]


# What is compiled.


def path_of(made: Capture, leaves: list[Any], contracted: bool) -> tuple[Path, dict[Value, Layout]]:
    """The path of a captured run, and how its arguments lie in memory."""
    numbers = {}
    for value in made.arguments:
        numbers[value] = next(
            i for i, x in enumerate(leaves) if isinstance(x, Tensor) and x is made.tensors[value]
        )
    path = make_path(made, numbers, contracted=contracted)
    return path, {v: layout_of(leaves[i].array) for v, i in numbers.items()}


@uncollected
def add_path(entry: Entry, made: Capture, leaves: list[Any], contracted: bool) -> None:
    """Compile a captured path into the entry: into a tree that it shares a stretch with, or its own."""
    path, layouts = path_of(made, leaves, contracted)
    for place, variant in enumerate(entry.variants):
        try:
            grown = Variant(variant.tree.grown(path), variant)
        except Diverged:
            continue
        entry.variants[place] = grown
        return
    if len(entry.variants) >= MOST_VARIANTS:
        # The oldest state of the Python world is the least likely to come back.
        entry.variants.pop()
    entry.variants.insert(0, Variant(Tree([path], layouts)))


@uncollected
def apart(made: Capture, leaves: list[Any], contracted: bool) -> Variant:
    """A variant of a captured path alone, whose forward is one program whatever follows."""
    path, layouts = path_of(made, leaves, contracted)
    path.derivative.alone = False
    return Variant(Tree([path], layouts))
