"""The trace tree: the captured paths of a function for one kind of arguments.

Paths share the stretch up to the guard where they part. Each node is a segment: a program that
computes up to its guard; the value seen there chooses the child. A leaf gives the results and
holds the program of its backward. When a path is added, the tree is planned anew; kernels that
stay the same are found compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from fusegrad.compiler.commit import Commit, in_place
from fusegrad.compiler.path import Path, asks, guard_key, layout_of
from fusegrad.compiler.program import Program, viewed
from fusegrad.compiler.slices import backward_slice, kept, producers
from fusegrad.eager.families import Layout, contiguous_layout, is_dense
from fusegrad.eager.op import EXPLAINED
from fusegrad.eager.tensor import Tensor
from fusegrad.tracer import passes
from fusegrad.tracer.capture import Capture
from fusegrad.tracer.graph import GUARD, Equation, Graph, Value
from fusegrad.tracer.hosts import Host, at


def is_branch(equation: Equation) -> bool:
    """Whether the equation is a guard with a continuation for each value."""
    return equation.op is GUARD and equation.params["kind"] == "branch"


@dataclass(eq=False)
class Joint:
    """A leaf's results and gradients by one program, for a backward that starts with 1.

    Most losses are made to be derived at once; then what forward and backward share is computed
    once, and nothing is kept in between.
    """

    program: Program
    inputs: list[tuple[str, Any]]
    checks: list[tuple[int, tuple[Any, ...]]]
    results: list[tuple[int, tuple[Any, ...]]]
    left: list[tuple[int, tuple[Any, ...]]]
    gradients: list[tuple[int, tuple[Any, ...]]]


@dataclass(eq=False)
class Run:
    """A run that reached a leaf: its results, what is left to the world, what was kept, the gradients if they
    came along, and what takes back the drawing of random numbers.

    written: tensors that are to be; memory: copies of what they held before, if those were asked for.
    """

    leaf: Segment
    results: list[np.ndarray]
    left: list[np.ndarray]
    environment: list[Any]
    written: list[Tensor] = field(default_factory=list)
    memory: list[np.ndarray] = field(default_factory=list)
    gradients: list[np.ndarray] | None = None
    undo: list[Callable[[], None]] = field(default_factory=list)


class Stopped(NamedTuple):
    """A run that reached no leaf: the segment where it stopped, and why, if not by its guard.

    seen: the key of the value that the guard met, which has no continuation.
    """

    segment: Segment
    reason: Any = ""
    seen: Any = None


# A leaf gets a joint program when this many of its calls were followed by a plain backward, and
# these were at least three quarters of all.
JOINT_AFTER = 3


@dataclass(eq=False)
class Usage:
    """How often a leaf ran, and was derived by a plain backward; of late, when it is often."""

    calls: int = 0
    derived: int = 0

    def followed(self) -> bool:
        """Note a call that may be derived; whether it probably will be."""
        self.calls += 1
        if self.calls >= 64:
            self.calls, self.derived = self.calls // 2, self.derived // 2
        return self.derived >= JOINT_AFTER and 4 * self.derived >= 3 * (self.calls - 1)


@dataclass(eq=False)
class Segment:
    """A node of the tree: equations up to a guard, and what comes after for each value of it.

    owner: the path that brought the segment; it binds captured tensors and constants.
    inputs: where each input of the program comes from (see `Tree`). gives: (environment index,
    place in the program's arrays) of what later stretches read. checks: places of values that
    must be true. hosts: what Python gives before the program runs, with places in the environment.
    results, left: places of the path's results, and of what it leaves to the world, at a leaf; commit:
    what then leaves it. hows: for a node of a leaf, what
    its backward needs of each input, by whether its forward kept what backward reads.
    """

    owner: Path
    equations: list[Equation]
    guard: Equation | None = None
    givers: list[Host] = field(default_factory=list)
    children: dict[Any, Segment] = field(default_factory=dict)
    path: Path | None = None
    program: Program | None = None
    inputs: list[tuple[str, Any]] = field(default_factory=list)
    gives: list[tuple[int, int]] = field(default_factory=list)
    checks: list[tuple[int, tuple[Any, ...]]] = field(default_factory=list)
    guard_place: tuple[int, tuple[Any, ...]] | None = None
    hosts: list[tuple[Host, int]] = field(default_factory=list)
    results: list[tuple[int, tuple[Any, ...]]] = field(default_factory=list)
    left: list[tuple[int, tuple[Any, ...]]] = field(default_factory=list)
    backward: Program | None = None
    backward_inputs: list[tuple[str, Any]] = field(default_factory=list)
    gradient_places: list[tuple[int, tuple[Any, ...]]] = field(default_factory=list)
    above: list[Segment] = field(default_factory=list)
    kept_above: dict[Value, int] = field(default_factory=dict)
    joint: Joint | None = None
    commit: Commit | None = None
    hows: dict[bool, list[str]] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)

    def followed(self) -> bool:
        """Note a call that may be derived; whether it probably will be, by a plain backward."""
        return self.usage.followed()

    def walk(self) -> list[Segment]:
        """This node and all below it."""
        return [self, *(s for child in self.children.values() for s in child.walk())]

    def chains(self) -> list[list[Segment]]:
        """For each leaf at or below this node the nodes down to it."""
        if self.path is not None:
            return [[self]]
        return [[self, *chain] for child in self.children.values() for chain in child.chains()]


class Diverged(Exception):
    """A path that cannot share this tree: it differs elsewhere than in the value of a guard."""


class _Part(NamedTuple):
    """What a path does up to a guard."""

    equations: list[Equation]
    guard: Equation | None
    givers: list[Host]


def _parts(path: Path) -> list[_Part]:
    """The path's forward cut after each branch guard."""
    result = [_Part([], None, [])]
    for equation in path.forward:
        host = asks(equation)
        if host is not None:
            result[-1].givers.append(path.hosts[host])
        elif is_branch(equation):
            result[-1] = result[-1]._replace(guard=equation)
            result.append(_Part([], None, []))
        else:
            result[-1].equations.append(equation)
    return result


class Tree:
    """Paths with the same arguments' types, in one tree.

    Inputs of programs are found by (kind, reference): "argument", leaf number; "captured", a
    `Captured`; "constant", an array; "kept", environment index; "seed",
    number of the output's gradient.
    """

    def __init__(self, paths: Sequence[Path], layouts: dict[Value, Layout]) -> None:
        self.arguments = layouts
        self.layouts = dict(layouts)
        self.paths = list(paths)
        self.environment = 0
        self.derived = any(p.wanted for p in paths)
        self.root = self._chain(paths[0], _parts(paths[0]))
        for path in paths[1:]:
            self._insert(path)
        self._plan(self.root, {}, [])

    # Growing.

    def grown(self, path: Path) -> Tree:
        """A tree with one more path. Raises Diverged where it does not belong here.

        It is a new tree, since other threads may be running this one.
        """
        return Tree([*self.paths, path], self.arguments)

    def _insert(self, path: Path) -> None:
        parts = _parts(path)
        node = self.root
        for place, part in enumerate(parts):
            self._check_same(node, path, part)
            if part.guard is None:
                raise Diverged("the path is here already")
            key = guard_key(part.guard.params["expected"])
            child = node.children.get(key)
            if child is None:
                node.children[key] = self._chain(path, parts[place + 1 :])
                return
            node = child

    @staticmethod
    def _chain(path: Path, parts: Sequence[_Part]) -> Segment:
        part, rest = parts[0], parts[1:]
        segment = Segment(path, *part)
        if part.guard is None:
            segment.path = path
        else:
            segment.children[guard_key(part.guard.params["expected"])] = Tree._chain(path, rest)
        return segment

    @staticmethod
    def _check_same(node: Segment, path: Path, part: _Part) -> None:
        """Whether the path computes what the node does, from the same tensors and constants."""
        equations, guard, givers = part
        if [(h.key(), h.value) for h in givers] != [(h.key(), h.value) for h in node.givers]:
            raise Diverged("asks Python for something else")
        ours = [(e.key(), e.outputs) for e in equations]
        theirs = [(e.key(), e.outputs) for e in node.equations]
        if ours != theirs or (guard is None) != (node.guard is None):
            raise Diverged("other equations")
        if guard is not None and node.guard is not None and guard.inputs != node.guard.inputs:
            raise Diverged("another guard")
        read = {v for e in equations for v in e.values()} | set(guard.values() if guard else ())
        for value in read:
            mine, other = path.captured.get(value), node.owner.captured.get(value)
            if (mine is None) != (other is None) or (
                mine and other and mine.reference() is not other.reference()
            ):
                raise Diverged("another captured tensor")
            a, b = path.constants.get(value), node.owner.constants.get(value)
            if (a is None) != (b is None) or (a is not None and b is not None and a.tobytes() != b.tobytes()):
                raise Diverged("another constant")

    # Planning.

    def _plan(self, segment: Segment, available: dict[Value, int], above: list[Segment]) -> None:
        """Plan the segment's program, then its children's, then say what of it is kept.

        available: the values in memory by now, with their places in the environment (assigned
        when something reads them).
        """
        for host in segment.givers:
            segment.hosts.append((host, self.environment))
            available[host.value] = self.environment
            self.layouts[host.value] = contiguous_layout(host.value.shape)
            self.environment += 1
        chains = segment.chains()
        stretch = {id(e) for e in segment.equations}
        wanted = dict.fromkeys(v for e in segment.equations if e.op is GUARD for v in e.values())
        if segment.guard is not None:
            wanted.update(dict.fromkeys(segment.guard.values()))
        if segment.path is not None:
            wanted.update(dict.fromkeys((*segment.path.results, *segment.path.left)))
        wanted.update(dict.fromkeys(_obliged(segment)))
        for chain in chains:
            made_by = _made_by([*above, *chain])
            wanted.update(dict.fromkeys(kept(_later_targets(chain), stretch, available, made_by)))
        graph = self._slice(segment.owner, wanted, available, [*above, segment])
        layouts = self._layouts_for(graph, segment.owner)
        results, apart = _result_layouts(segment)
        segment.program = Program(graph, layouts, results, apart=apart)
        stored = [v for v in segment.program.stored() if v not in available]
        ours = {**available, **dict.fromkeys(stored, -1)}
        for value in stored:
            layout = segment.program.sources.layouts.get(value)
            self.layouts[value] = layout or contiguous_layout(value.shape)
        for child in segment.children.values():
            self._plan(child, ours, [*above, segment])
        if segment.path is not None:
            self._plan_backward(segment, ours, [*above, segment])
            segment.kept_above = {v: ours[v] for v in available if ours[v] >= 0}
        extra = [v for v in stored if ours[v] >= 0]
        available.update({v: i for v, i in ours.items() if v in available})
        self._finish(segment, graph, extra, ours)

    def _slice(self, owner: Path, targets: Any, available: dict[Value, int], chain: list[Segment]) -> Graph:
        equations = [e for s in chain for e in s.equations]
        return self._graph(owner, targets, available, equations)

    def _graph(
        self, owner: Path, targets: Any, available: dict[Value, int], equations: Sequence[Equation]
    ) -> Graph:
        """What computes `targets`; the values that it reads get places in the environment."""
        order = {id(e): i for i, e in enumerate(equations)}
        inputs = (*owner.inputs, *owner.seeds)
        graph = backward_slice(targets, available, producers(equations), inputs, order)
        for value in graph.inputs:
            if available.get(value) == -1:
                available[value] = self.environment
                self.environment += 1
        return graph

    def _plan_backward(self, segment: Segment, available: dict[Value, int], chain: list[Segment]) -> None:
        path = segment.path
        assert path is not None
        if not path.wanted:
            return
        segment.above = chain[:-1]
        equations = [*(e for s in chain for e in s.equations), *path.backward]
        graph = self._graph(path, path.gradients, available, equations)
        segment.backward = Program(passes.dead_code(graph), self._layouts_for(graph, path)).finish()
        segment.backward_inputs = [self._source(v, path, available) for v in graph.inputs]
        path.saved |= {i for i, v in enumerate(path.results) if v in graph.inputs}
        found = dict(zip(graph.outputs, segment.backward.graph.outputs, strict=True))
        segment.gradient_places = [segment.backward.locate(found[g]) for g in path.gradients]

    def make_joint(self, segment: Segment) -> None:
        """Compile the results and gradients of a leaf (with one scalar to derive) as one program."""
        path = segment.path
        assert path is not None
        checks = [e.inputs[0] for e in segment.equations if e.op is GUARD]
        targets = dict.fromkeys((*path.results, *path.left, *checks, *_obliged(segment), *path.gradients))
        equations = [e for s in [*segment.above, segment] for e in s.equations] + list(path.backward)
        graph = self._graph(path, targets, dict(segment.kept_above), equations)
        results, apart = _result_layouts(segment)
        program = Program(graph, self._layouts_for(graph, path), results, apart=apart).finish()
        found = dict(zip(graph.outputs, program.graph.outputs, strict=True))
        inputs = []
        for value in graph.inputs:
            kind, reference = self._source(value, path, segment.kept_above)
            if kind == "seed":
                kind, reference = "constant", np.ones(value.shape, value.dtype)
            inputs.append((kind, reference))
        places = [
            [program.locate(found[v]) for v in group]
            for group in (checks, path.results, path.left, path.gradients)
        ]
        segment.joint = Joint(program, inputs, *places)

    def _layouts_for(self, graph: Graph, owner: Path) -> dict[Value, Layout]:
        layouts = {}
        for value in graph.inputs:
            captured = owner.captured.get(value)
            if captured is not None:
                layouts[value] = captured.layout
            elif value in owner.constants:
                layouts[value] = layout_of(owner.constants[value])
            elif value not in owner.seeds and value in self.layouts:
                layouts[value] = self.layouts[value]
        return layouts

    def _source(self, value: Value, owner: Path, available: dict[Value, int]) -> tuple[str, Any]:
        """Where a program's input comes from at run time."""
        if value in owner.seeds:
            return "seed", owner.seeds.index(value)
        if value in available:
            return "kept", available[value]
        if value in owner.argument_leaves:
            return "argument", owner.argument_leaves[value]
        if value in owner.captured:
            return "captured", owner.captured[value]
        return "constant", owner.constants[value]

    def _finish(self, segment: Segment, graph: Graph, extra: list[Value], ours: dict[Value, int]) -> None:
        program = segment.program
        assert program is not None
        written = self._written_in_place(segment, program)
        program.finish(extra)
        segment.inputs = [self._source(v, segment.owner, ours) for v in graph.inputs]
        segment.gives = [(ours[v], program.arrays[v]) for v in extra]
        found = dict(zip(graph.outputs, program.graph.outputs, strict=True))
        segment.checks = [program.locate(found[e.inputs[0]]) for e in segment.equations if e.op is GUARD]
        if segment.guard is not None:
            segment.guard_place = program.locate(found[segment.guard.inputs[0]])
        if segment.path is not None:
            segment.results = [program.locate(found[v]) for v in segment.path.results]
            segment.left = [program.locate(found[v]) for v in segment.path.left]
            segment.commit = Commit(segment.path, written) if segment.path.capture.left else None

    @staticmethod
    def _written_in_place(segment: Segment, program: Program) -> set[int]:
        """Have the program of a leaf write in place what it can; the numbers of those writes."""
        path = segment.path
        # A guard may still fail, or a later backward ask for what was there.
        if path is None or path.wanted or any(e.op is GUARD for e in segment.equations):
            return set()
        writes = path.capture.left.writes
        pairs = [(v, target) for v, (target, _) in zip(path.left, writes, strict=False)]
        outputs = [v for v in program.graph.outputs if isinstance(v, Value)]
        alone = [(v, t) for v, t in pairs if outputs.count(v) == 1 and v not in path.results]
        program.into = in_place(program, alone)
        return {i for i, (v, _) in enumerate(pairs) if v in program.into}

    # Running.

    def run(
        self,
        leaves: Sequence[Any],
        refuses: Callable[[Path], Any] | None = None,
        keep: bool = False,
    ) -> Run | Stopped:
        """Run to a leaf.

        refuses: asked before the last stretch of a path, why (if at all) its results must not be used.
        keep: give back copies of the memory that is about to be written. Stopped says why no leaf was
        reached; then nothing outside has changed.
        """
        undo: list[Callable[[], None]] = []
        found = self._walk(leaves, refuses, undo, keep)
        if isinstance(found, Run):
            found.undo = undo
            return found
        for restore in reversed(undo):
            restore()
        return found

    def _walk(
        self,
        leaves: Sequence[Any],
        refuses: Callable[[Path], Any] | None,
        undo: list[Callable[[], None]],
        keep: bool,
    ) -> Run | Stopped:
        segment = self.root
        environment: list[Any] = [None] * self.environment
        written: list[Tensor] = []
        while True:
            if segment.path is not None:
                reason = refuses(segment.path) if refuses is not None else None
                if reason is not None:
                    return Stopped(segment, reason)
                changed = _changed(segment.path.capture, leaves)
                if changed:
                    return Stopped(segment, changed)
                targets = [] if segment.commit is None else segment.commit.tensors(leaves)
                if targets is None:
                    return Stopped(segment, "memory that is written overlaps with what is read")
                written = targets
            if segment.hosts and not self._ask(segment, leaves, environment, undo):
                return Stopped(segment, "a gradient, or an optimizer's number, is not what it was")
            memory = [np.array(t.array) for t in written] if keep else []
            joint = segment.joint
            if joint is not None and segment.followed():
                return _run_joint(segment, joint, leaves, environment, written, memory) or Stopped(segment)
            if segment.commit is not None and segment.commit.begins:
                segment.commit.begin(written)
            made = _run_segment(segment, leaves, environment)
            if made is None:
                return Stopped(segment)
            if segment.guard is None:
                left = _at(made, segment.left)
                return Run(segment, _at(made, segment.results), left, environment, written, memory)
            assert segment.guard_place is not None
            index, chain = segment.guard_place
            seen = guard_key(viewed(made[index], chain).item())
            child = segment.children.get(seen)
            if child is None:
                return Stopped(segment, seen=seen)
            segment = child

    def _ask(
        self,
        segment: Segment,
        leaves: Sequence[Any],
        environment: list[Any],
        undo: list[Callable[[], None]],
    ) -> bool:
        """Have Python give what the segment's program reads; whether it could."""
        for host, place in segment.hosts:
            restore = host.undo()
            if restore is not None:
                undo.append(restore)
            array = host.array(leaves)
            if array is None:
                return False
            # What a later backward reads must not change meanwhile.
            environment[place] = np.array(array) if host.lent and self.derived else array
        return True


def _changed(capture: Capture, leaves: Sequence[Any]) -> str:
    """What is no longer true of the tensors of the call; empty if all is as it was."""
    for i, place in capture.same:
        tensor = at(place, leaves)
        if tensor is None or leaves[i].array is not tensor.array:
            return "two tensors that were one are not one now"
    if any(leaves[i].grad is not None for i in capture.bare):
        return "an argument has a .grad now"
    return ""


def _run_joint(
    segment: Segment,
    joint: Joint,
    leaves: Sequence[Any],
    environment: list[Any],
    written: list[Tensor],
    memory: list[np.ndarray],
) -> Run | None:
    """Results and gradients at once; None where the program does not answer this call."""
    arrays = gather(joint.inputs, leaves, environment)
    if arrays is None:
        return None
    try:
        made = joint.program.run(arrays)
    except EXPLAINED:
        return None
    if not all(array.item() for array in _at(made, joint.checks)):
        return None
    results, left = _at(made, joint.results), _at(made, joint.left)
    gradients = gradients_at(made, joint.gradients, (*arrays, *results, *left))
    return Run(segment, results, left, environment, written, memory, gradients)


def _at(made: Sequence[np.ndarray], places: Sequence[tuple[int, tuple[Any, ...]]]) -> list[np.ndarray]:
    """The arrays at `places` of what a program made."""
    return [viewed(made[index], chain) if chain else made[index] for index, chain in places]


def gradients_at(
    made: Sequence[np.ndarray], places: Sequence[tuple[int, tuple[Any, ...]]], others: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """The gradients at `places`, each in memory of its own: `.grad` is written in place.

    others: arrays that somebody else has, among them what the program was given.
    """
    taken = {id(array) for array in others}
    found = []
    for index, chain in places:
        array = viewed(made[index], chain) if chain else made[index]
        found.append(np.array(array) if id(made[index]) in taken else array)
        taken.add(id(made[index]))
    return found


def _run_segment(segment: Segment, leaves: Sequence[Any], environment: list[Any]) -> list[np.ndarray] | None:
    """Run a segment's program and note what is kept; None where it does not answer this call."""
    arrays = gather(segment.inputs, leaves, environment)
    if arrays is None:
        return None
    assert segment.program is not None
    try:
        made = segment.program.run(arrays)
    except EXPLAINED:
        # An op that NumPy runs refuses its input; eager raises the error that says why.
        return None
    for place, index in segment.gives:
        environment[place] = made[index]
    return made if all(array.item() for array in _at(made, segment.checks)) else None


def refill(leaf: Segment, leaves: Sequence[Any], environment: list[Any]) -> None:
    """Keep what the backward program reads, which a joint run did not."""
    _run_segment(leaf, leaves, environment)


def gather(
    inputs: list[tuple[str, Any]],
    leaves: Sequence[Any],
    environment: list[Any],
    seeds: Sequence[Any] = (),
    preserved: Mapping[int, np.ndarray] = MappingProxyType({}),
) -> list[np.ndarray] | None:
    """The arrays that a program takes; None where a captured tensor is not what it was.

    preserved: what captured tensors (by id of their `Captured`) held before they were written.
    """
    arrays = []
    for kind, reference in inputs:
        if kind == "argument":
            arrays.append(leaves[reference].array)
        elif kind == "kept":
            array = environment[reference]
            # Native code would read whatever lies there.
            assert array is not None, "a value is read that no segment kept"
            arrays.append(array)
        elif kind == "constant":
            arrays.append(reference)
        elif kind == "seed":
            arrays.append(seeds[reference])
        else:
            array = preserved.get(id(reference))
            if array is None:
                array = reference.array()
            if array is None:
                return None
            arrays.append(array)
    return arrays


def _obliged(segment: Segment) -> list[Value]:
    """What a segment computes only to find out whether it can be."""
    obliged = segment.owner.obliged
    return [v for e in segment.equations for v in e.outputs if v in obliged] if obliged else []


def _made_by(chain: Sequence[Segment]) -> dict[Value, Equation]:
    """The equations of a path from the root to a leaf, and of its backward."""
    equations = [e for s in chain for e in s.equations]
    leaf = chain[-1].path
    return producers([*equations, *(leaf.backward if leaf else ())])


def _later_targets(chain: Sequence[Segment]) -> list[Any]:
    """What the segments after the first, and the backward at the end, have to compute."""
    targets: list[Any] = []
    for segment in chain[1:]:
        targets += [v for e in segment.equations if e.op is GUARD for v in e.values()]
        targets += segment.guard.values() if segment.guard is not None else ()
        targets += _obliged(segment)
    leaf = chain[-1].path
    assert leaf is not None
    return [*targets, *((*leaf.results, *leaf.left) if len(chain) > 1 else ()), *leaf.gradients]


def _result_layouts(segment: Segment) -> tuple[dict[Value, Layout], set[Value]]:
    """The layouts of results that eager does not give in row-major order; and those that it gives as views
    with gaps between their elements.
    """
    layouts: dict[Value, Layout] = {}
    apart: set[Value] = set()
    if segment.path is None:
        return layouts, apart
    outputs = [o for o in segment.path.capture.outputs if o.value is not None]
    for value, output in zip(segment.path.results, outputs, strict=True):
        strides = tuple(s // value.dtype.itemsize for s in output.strides)
        layout = unusual_layout(value.shape, strides)
        if layout is not None:
            layouts[value] = layout
        elif 0 not in value.shape and not is_dense(value.shape, strides):
            apart.add(value)
    return layouts, apart


def unusual_layout(shape: tuple[int, ...], strides: tuple[int, ...]) -> Layout | None:
    """The layout that results with these strides (in elements) are given in; None for row-major order."""
    usual = strides == contiguous_layout(shape).strides or 0 in shape
    if not usual and all(s > 0 for s in strides) and is_dense(shape, strides):
        return Layout(shape, strides)
    return None
