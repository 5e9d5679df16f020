"""What a jitted function knows: an entry for each kind of arguments, and in it the variants that answer."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fusegrad.compiler.base.background import Work
from fusegrad.compiler.call_family import Coming, Family, family_key
from fusegrad.compiler.call_key import describe_key, is_object
from fusegrad.compiler.deferred.interpreter import Plan
from fusegrad.compiler.explain.miss_reasons import Difference, is_number, of_read
from fusegrad.compiler.fastpath.entry import Checks, Shortcut
from fusegrad.compiler.guards.guards import Guards
from fusegrad.compiler.paths.path import Path, let_go, make_path
from fusegrad.compiler.paths.segments import Segment
from fusegrad.compiler.paths.tree import Diverged, Tree
from fusegrad.eager.core.families import Layout, layout_of
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.garbage import uncollected
from fusegrad.tracer.capture.captured import Capture, Reason
from fusegrad.tracer.ir.graph import Value
from fusegrad.tracer.observe.reads import Read
from fusegrad.tracer.observe.symbols import Changing, Scalar
from fusegrad.tracer.observe.values import hold

# How many states of the Python world are remembered.
MOST_VARIANTS = 8
# How many other numbers are found in a place before they are inputs of replays, and where that cannot be,
# before calls are deferred.
NUMBERS_FOLLOWED, NUMBERS_READ = 2, 3
# After so many calls of a path its shortcut is written.
SHORTCUT_AFTER = 3


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
        self.calls = any(segment.calls for segment in tree.root.walk())
        self.shared = guards(r for r in tree.paths[0].capture.reads if r.token() in common)
        self._own = {p: guards(r for r in p.capture.reads if r.token() not in common) for p in tree.paths}
        self.shortcuts: dict[tuple[Segment, bool], Shortcut] = {}  # by whether gradients are computed at once
        self._row: tuple[Any, int] = None, 0  # the leaf that answered last, and how often in a row

    def reads(self, source: Any) -> bool:
        """Whether any of its paths has read what is at this place."""
        return any(getattr(read, "source", None) == source for read in self._every())

    def failed_numbers(self) -> list[Read]:
        """The reads of numbers that do not hold any more, of all paths."""
        return [read for read in self._every() if is_number(read) and not read.holds()]

    def _every(self) -> Iterable[Read]:
        return itertools.chain(self.shared.reads, *(guards.reads for guards in self._own.values()))

    def own(self, path: Path) -> Guards:
        """What the path read and others did not."""
        return self._own[path]

    def checks(self, leaf: Segment) -> Checks:
        """What asks whether all is as it was of what all paths have read, and the leaf's alone."""
        assert leaf.path is not None
        return [guards.check for guards in (self.shared, self.own(leaf.path)) if guards.reads]

    def comes_again(self, leaf: Segment) -> bool:
        """Note that a leaf has answered the long way; whether it is likely to answer the next call.

        Where there are others it must have come often in a row: a shortcut that meets another value at a
        guard has run up to there in vain.
        """
        known, count = self._row
        self._row = leaf, count + 1 if known is leaf else 1
        return leaf is self.tree.root or self._row[1] > SHORTCUT_AFTER

    def refusal(self, path: Path) -> Read | None:
        """Which of the path's own reads does not hold any more, or of all paths' (a call may change one)."""
        own = self.own(path)
        failed = own.first_failure() if own.reads else None
        # A call of a function that nobody knows may have changed what was asked before the tree ran.
        return self.shared.first_failure() if failed is None and self.calls else failed


class Entry:
    """What is known for one key."""

    def __init__(
        self, key: Any, key_text: str, family: Family | None = None, changing: frozenset[int] = frozenset()
    ) -> None:
        """family: where the key leaves sizes and numbers out. changing: the numbers that it leaves out."""
        self.key, self.key_text, self.family = key, key_text, family
        self.variants: list[Variant] = []
        self.anchors: list[Callable[[], Any]] = []
        self.open_tries = 0
        self.compiles = 0
        self.compiling: Work[Any] | None = None  # another path, see `learning.py`
        self.plan = Plan()
        self.eager_runs: list[Any] = []  # see `deterministic.py`
        self.reasons: list[Reason] = []
        self.not_rolled: list[Reason] = []  # the long loops of the run that could not be captured
        self.given_up = ""
        # Runs that earlier processes have recorded; why the last had to be recorded here, and is not kept.
        self.recalled, self.not_recalled, self.not_kept = 0, "", ""
        # Why the key was new, and the last miss; the leaves in words, and what the user calls them.
        self.because: list[Difference] = []
        self.last_failure: Difference | None = None
        self.texts: list[str] = []
        self.names: list[str] = []
        self.numbers: dict[Any, set[str]] = {}  # for places that held numbers: which others were found
        # Where numbers are inputs of a replay, and the places outside where a run had to know them.
        self.changing = Changing(changing)
        self._fixed: set[Any] = set()
        # Whether tensors outside are others each time, see `_moves_on`; how often calls come since.
        self.coming, self.moving = Coming(), False
        self._moved: dict[Any, tuple[int, int]] = {}

    def is_restless(self, difference: Difference) -> bool:
        """Whether a number that the function reads was another one so often that there is no point in
        capturing each: in a deferred run numbers are inputs. Before that, they are made inputs of replays. Or
        whether a tensor outside was another one.
        """
        if difference.aspect in ("shape", "gone"):
            return self._moves_on(difference)
        failed = {read for variant in self.variants for read in variant.failed_numbers()}
        is_restless = False
        # All at once: several counters and means change together.
        for other in [difference, *map(of_read, failed)]:
            place = other.source or other.what
            seen = self.numbers.setdefault(place, set()) if other.aspect == "number" else set()
            seen.add(other.now)
            if len(seen) >= NUMBERS_READ and other is difference:
                self.given_up = f"{difference.what} is another number from call to call"
                is_restless = True
            elif len(seen) >= NUMBERS_FOLLOWED and other.source not in (None, *self._fixed):
                self.changing = self.changing._replace(sources=self.changing.sources | {other.source})
                # They know the number.
                self.variants = [v for v in self.variants if not v.reads(other.source)]
        return is_restless

    def _moves_on(self, difference: Difference) -> bool:
        """Whether a tensor in a place outside was others, or of other sizes, several calls in a row, with no
        call between them that a path has answered: as a cache that grows by `cat`. In deferred runs its sizes
        are left open. What comes again, with what it reads of the same sizes, is captured.
        """
        if self.moving:
            self.moving = False
            return False
        place = difference.source or difference.what
        answered = sum(path.calls for path in self.paths)
        known, times = self._moved.get(place, (answered, 0))
        times = times + 1 if known == answered else 1
        self._moved[place] = answered, times
        if times < NUMBERS_FOLLOWED:
            return False
        what = "of other sizes" if difference.aspect == "shape" else "another tensor"
        self.given_up = f"{difference.what} is {what} from call to call"
        self.moving, self.plan.sizes_change = True, True
        self.coming.begin()
        return True

    def fix(self, sources: Collection[Any]) -> None:
        """Note that a run has to know the numbers in these places."""
        self._fixed.update(sources)
        self.changing = self.changing._replace(sources=self.changing.sources - self._fixed)

    def take(self, before: Variant | None, tree: Tree) -> None:
        """Answer by a tree from now on; before: the variant in which it has grown, if it has."""
        if before is not None:
            self.variants = [Variant(tree, before) if v is before else v for v in self.variants]
            return
        # The oldest state of the Python world is the least likely to come back.
        self.variants = [Variant(tree), *self.variants][:MOST_VARIANTS]

    @property
    def paths(self) -> list[Any]:
        """All compiled paths."""
        return [p for v in self.variants for p in v.tree.paths]


def of_family(function: Any, key: Any, leaves: list[Any]) -> Entry | None:
    """What a jitted function knows of calls that differ from a captured one in sizes and Python numbers
    alone; None where that is the first of them, or its arguments have neither.
    """
    shared = family_key(key, leaves)
    if shared is None:
        return None
    entry: Entry | None = function.entries.get(shared) or _inherited(function, shared, leaves)
    if entry is None:
        first = function.captured_once.setdefault(shared, key)
        if first is key:
            return None
        objects = [i for i, leaf in enumerate(leaves) if is_object(leaf)]
        entry = Entry(shared, "", Family(first, leaves, objects))
        entry.anchors = [hold(leaves[place]) for place in objects]
        entry.given_up = "other numbers or sizes than in captured calls"
        entry.plan.numbers_change = True
        known = function.entries.get(first)
        function.tell_apart(entry, key, leaves, known.names if known is not None else [])
        # Other threads meet it as soon as it is there; one of them may have been faster.
        entry = function.entries.setdefault(shared, entry)
        function.families[_by_classes(shared, leaves)] = entry
    assert entry is not None and entry.family is not None
    if entry.family.meets(key, leaves):
        entry.plan.sizes_change = entry.family.sizes_change
        entry.key_text = describe_key(leaves, entry.family.shapes)
    return entry


def _inherited(function: Any, shared: Any, leaves: list[Any]) -> Entry | None:
    """What is known of calls with other objects of the same classes, where one of these is gone, as a cache
    that was made for each text. Nothing about objects is assumed where bodies run.
    """
    entry: Entry | None = function.families.get(_by_classes(shared, leaves))
    if entry is None or not any(anchor() is None for anchor in entry.anchors):
        return None
    function.entries.pop(entry.key, None)
    entry.key, entry.anchors = shared, [hold(leaf) for leaf in leaves if is_object(leaf)]
    function.entries[shared] = entry
    return entry


def _by_classes(shared: tuple[Any, ...], leaves: list[Any]) -> tuple[Any, ...]:
    """The key of a family without the identity of objects."""
    kinds = zip(leaves, shared[-len(leaves) :], strict=True)
    return (*shared[: -len(leaves)], *[type(leaf) if is_object(leaf) else kind for leaf, kind in kinds])


# What is compiled.


def path_maker(
    made: Capture, leaves: list[Any], contracted: bool
) -> tuple[Callable[[], Path], dict[Value, Layout]]:
    """What makes the path of a captured run, at any time and in any thread, and how its arguments lie in
    memory.
    """
    numbers = {}
    for value in made.arguments:
        numbers[value] = next(
            i for i, x in enumerate(leaves) if isinstance(x, Tensor) and x is made.tensors[value]
        )
    scalars = [host.value for host, _ in made.hosts if isinstance(host, Scalar)]
    make = functools.partial(make_path, made, numbers, let_go(made), scalars, contracted)
    return make, {v: layout_of(leaves[i].array) for v, i in numbers.items()}


def tree_with(
    path: Path, layouts: dict[Value, Layout], variants: Sequence[Variant], has_hopes: bool
) -> tuple[Variant | None, Tree]:
    """A tree with a path: one that grows in a variant with which the path shares a stretch, or its own. To be
    completed. has_hopes: see `Tree`.
    """
    for variant in variants:
        try:
            return variant, variant.tree.grown(path)
        except Diverged:
            continue
    return None, Tree([path], layouts, has_hopes)


@uncollected
def apart(made: Capture, leaves: list[Any], contracted: bool) -> Variant:
    """A variant of a captured path alone, whose forward is one program whatever follows."""
    make, layouts = path_maker(made, leaves, contracted)
    path = make()
    path.derivative.alone = False
    return Variant(Tree([path], layouts).complete())
