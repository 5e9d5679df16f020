"""The trace tree: the captured paths of a function for one kind of arguments.

Paths share the stretch up to the guard where they part. Each node is a segment: a program that
computes up to its guard; the value seen there chooses the child. A leaf gives the results and
holds the program of its backward. When a path is added, the tree is planned anew; kernels that
stay the same are found compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fusegrad.compiler.base import background, debug
from fusegrad.compiler.base.lock import compiling
from fusegrad.compiler.paths import segments
from fusegrad.compiler.paths.commit import Commit, orders_of
from fusegrad.compiler.paths.eager_forward import undisturbed
from fusegrad.compiler.paths.path import Path, asks, guard_key
from fusegrad.compiler.paths.rematerialization import backward_slice, kept, producers
from fusegrad.compiler.paths.segments import Code, Segment, equations_of_both
from fusegrad.compiler.paths.writing_leaf import Writing, writing
from fusegrad.compiler.program.program import Program
from fusegrad.eager.core.dtypes import default_float
from fusegrad.eager.core.families import Layout, contiguous_layout, is_dense, layout_of
from fusegrad.eager.core.state import in_modes, modes
from fusegrad.eager.garbage import put_off, uncollected
from fusegrad.tracer.ir import passes
from fusegrad.tracer.ir.graph import GUARD, Equation, Graph, Value
from fusegrad.tracer.observe.hosts import Host


def is_branch(equation: Equation) -> bool:
    """Whether the equation is a guard with a continuation for each value."""
    return equation.op is GUARD and equation.params["kind"] == "branch"


# What a check must not wait for: it would be kept in memory for the rest.
_DEAR = ("contraction", "opaque")


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
    return [*result[:-1], *_checked_first(path, result[-1])]


def _checked_first(path: Path, last: _Part) -> list[_Part]:
    """The last stretch of a path; where it writes memory, in two: what it checks, and the rest.

    Nothing can stop the rest any more, so that it may write in place.
    """
    checks = [e for e in last.equations if e.op is GUARD]
    if not checks or not path.capture.left.writes:
        return [last]
    asked = {host.value for host in last.givers}
    made_by, needed = producers(last.equations), {id(e) for e in checks}
    pending = [v for e in checks for v in e.values()]
    while pending:
        value = pending.pop()
        equation = made_by.get(value)
        if value in asked or (equation is not None and equation.op.family in _DEAR):
            return [last]
        if equation is not None and id(equation) not in needed:
            needed.add(id(equation))
            pending += equation.values()
    first = [e for e in last.equations if id(e) in needed and e is not checks[-1]]
    rest = [e for e in last.equations if id(e) not in needed]
    return [_Part(first, checks[-1], []), _Part(rest, None, last.givers)]


class Tree:
    """Paths with the same arguments' types, in one tree.

    Inputs of programs are found by (kind, reference): "argument", leaf number; "captured", a
    `Captured`; "constant", an array; "kept", environment index; "seed",
    number of the output's gradient.
    """

    def __init__(self, paths: Sequence[Path], layouts: dict[Value, Layout], has_hopes: bool = False) -> None:
        """has_hopes: whether calls may get results and gradients from one program from the first one on.

        Nobody knows yet whether they will be derived, but who asks for gradients of one number mostly takes
        them. Programs for results, and for gradients, alone are then compiled when one is first to run, and
        planned then, too, unless they say what segments above have to keep.
        """
        self.arguments = layouts
        self.layouts = dict(layouts)
        self.paths = list(paths)
        self.environment = 0
        self.derived = any(p.derivative.wanted for p in paths)
        self.root = self._chain(paths[0], _parts(paths[0]))
        for path in paths[1:]:
            self._insert(path)
        puts_off = self.root.path is not None
        most = segments.LONG_PATH if not puts_off else segments.LONG_PATH * segments.LONG_HOPED
        pays = equations_of_both(paths[0]) <= most
        # It takes less than the others in whose place it is. For these a call waits when hopes are given up.
        pays = pays or (puts_off and not background.takes_long(len(paths[0].forward)))
        self.hopeful = has_hopes and pays and paths[0].derivative.alone
        if self.hopeful and puts_off:
            self._put_off(self.root)
        else:
            self._plan(self.root, {}, [])
        if self.hopeful:
            (leaf,) = (segment for segment in self.root.walk() if segment.path is not None)
            leaf.joint = self.joint_code(leaf)
            leaf.answers.usage.hoped = True

    def complete(self) -> Tree:
        """Wait until its programs are compiled, which has begun, and place them in memory."""
        for segment in self.root.walk():
            for program in segment.programs():
                if program.is_begun:
                    program.complete()
        return self

    # Growing.

    def grown(self, path: Path) -> Tree:
        """A tree with one more path. Raises Diverged where it does not belong here.

        It is a new tree, since other threads may be running this one.
        """
        return Tree([*self.paths, path], self.arguments)

    def _insert(self, path: Path) -> None:
        if not self._finds_the_same(path):
            raise Diverged("a tensor from outside was something else")
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

    def _finds_the_same(self, path: Path) -> bool:
        """Whether the tensors that paths find outside were the same for all: one asks for all of them."""
        others = (c for other in self.paths if other is not path for c in other.outside())
        known = {id(t): c.facts() for c in others if (t := c.reference()) is not None}
        return all(known.get(id(c.reference()), c.facts()) == c.facts() for c in path.outside())

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
        self._place_hosts(segment, available)
        self._plan_code(segment, available, above)

    def _place_hosts(self, segment: Segment, available: dict[Value, int]) -> None:
        """Give what Python gives to the segment its places in the environment."""
        for host in segment.givers:
            if host.value is None:
                continue
            segment.hosts.append((host, self.environment))
            available[host.value] = self.environment
            self.layouts[host.value] = contiguous_layout(host.value.shape)
            self.environment += 1

    def _put_off(self, leaf: Segment) -> None:
        """Have the programs of results, and of gradients, alone planned when one is asked for."""
        given, float_dtype = modes(), default_float()
        available: dict[Value, int] = {}
        self._place_hosts(leaf, available)
        leaf.kept_above = dict(available)
        leaf.commit = self._commit(leaf, set())

        def plan() -> bool:
            with compiling, put_off(), in_modes(given), undisturbed():
                if leaf.plan_later is not plan:
                    return leaf.can_run_apart()  # another thread was faster
                if default_float() is not float_dtype:
                    return False
                try:
                    self._plan_code(leaf, dict(available), [])
                except Exception:
                    # The program of both works; a fault of the compiler shows where it is looked for.
                    leaf.plan_later = lambda: False
                    if debug.faults_are_raised():
                        raise
                    return False
                leaf.plan_later = None
                return True

        leaf.plan_later = plan

    def _plan_code(self, segment: Segment, available: dict[Value, int], above: list[Segment]) -> None:
        """See `_plan`."""
        chains = segment.chains()
        stretch = {id(e) for e in segment.equations}
        wanted = dict.fromkeys(v for e in segment.equations if e.op is GUARD for v in e.values())
        if segment.guard is not None:
            wanted.update(dict.fromkeys(segment.guard.values()))
        if segment.path is not None:
            wanted.update(dict.fromkeys((*segment.path.results, *segment.path.left)))
        wanted.update(dict.fromkeys(_obliged(segment)))
        asked = set(wanted)
        for chain in chains:
            made_by = _made_by([*above, *chain])
            wanted.update(dict.fromkeys(kept(_later_targets(chain), stretch, available, made_by)))
        graph = self._slice(segment.owner, wanted, available, [*above, segment])
        layouts = self._layouts_for(graph, segment.owner)
        results, seen, apart = _result_layouts(segment)

        def make(graph: Graph) -> Program:
            return Program(
                graph, layouts, results, seen=seen, apart=apart, plans=segment.owner.plans, is_kept=True
            )

        path = segment.path
        guards = [e.inputs[0] for e in segment.equations if e.op is GUARD]
        if path is None or not path.capture.left.writes or path.derivative.wanted:
            program, written, first = Writing(
                make(graph), set()
            )  # a later backward may ask for what was there
        else:
            program, written, first = writing(path, graph, make, orders_of(path, self.layouts), guards)
        stored = [v for v in program.stored() if v not in available]
        for value in stored:
            layout = program.sources.layouts.get(value)
            self.layouts[value] = layout or contiguous_layout(value.shape)
        lowered = program.lowered(graph.outputs)
        for value, (_, layout) in lowered.items():
            if value not in available:
                stored.append(value)
                self.layouts[value] = layout
        ours = {**available, **dict.fromkeys(stored, -1)}
        for child in segment.children.values():
            self._plan(child, ours, [*above, segment])
        if segment.path is not None:
            self._plan_backward(segment, ours, [*above, segment])
            segment.kept_above = {v: ours[v] for v in available if ours[v] >= 0}
        extra = [v for v in stored if ours[v] >= 0]
        available.update({v: i for v, i in ours.items() if v in available})
        # What was kept in case that backward reads it, and is not read.
        unread = [v for v in wanted if v not in asked and ours.get(v, -1) < 0]
        if first is not None:
            unread += guards
            first.begin()
            inputs = [self._source(v, segment.owner, ours) for v in first.graph.inputs]
            segment.asked = Code(first, inputs, checks=[first.locate(v) for v in first.graph.outputs])
        instead = {v: now for v, (now, _) in lowered.items()}
        self._finish(segment, program, graph, extra, unread, ours, instead)
        if path is not None:
            segment.commit = self._commit(segment, written)

    def _slice(self, owner: Path, targets: Any, available: dict[Value, int], chain: list[Segment]) -> Graph:
        equations = [e for s in chain for e in s.equations]
        return self._graph(owner, targets, available, equations)

    def _graph(
        self, owner: Path, targets: Any, available: dict[Value, int], equations: Sequence[Equation]
    ) -> Graph:
        """What computes `targets`; the values that it reads get places in the environment."""
        order = {id(e): i for i, e in enumerate(equations)}
        inputs = (*owner.inputs, *owner.derivative.seeds)
        graph = backward_slice(targets, available, producers(equations), inputs, order)
        for value in graph.inputs:
            if available.get(value) == -1:
                available[value] = self.environment
                self.environment += 1
        return graph

    def _plan_backward(self, segment: Segment, available: dict[Value, int], chain: list[Segment]) -> None:
        path = segment.path
        assert path is not None
        if not path.derivative.wanted:
            return
        segment.above = chain[:-1]
        equations = [*(e for s in chain for e in s.equations), *path.derivative.equations]
        graph = self._graph(path, path.derivative.gradients, available, equations)
        layouts = self._layouts_for(graph, path)
        program = Program(passes.dead_code(graph), layouts, plans=path.plans, is_kept=True).arrange()
        self._begin(program, segment)
        inputs = [self._source(v, path, available) for v in graph.inputs]
        path.derivative.saved |= path.read_results(graph.inputs)
        found = dict(zip(graph.outputs, program.graph.outputs, strict=True))
        places = [program.locate(found[g]) for g in path.derivative.gradients]
        segment.backward = Code(program, inputs, gradients=places)

    @uncollected
    def make_joint(self, segment: Segment) -> None:
        """Give a leaf (with one scalar to derive) one program for results and gradients."""
        segment.joint = self.joint_code(segment)
        segment.joint.program.complete()

    def joint_code(self, segment: Segment) -> Code:
        """The results and gradients of a leaf as one program, which LLVM has begun with."""
        path = segment.path
        assert path is not None
        checks = [e.inputs[0] for e in segment.equations if e.op is GUARD]
        targets = dict.fromkeys(
            (*path.results, *path.left, *checks, *_obliged(segment), *path.derivative.gradients)
        )
        equations = [e for s in [*segment.above, segment] for e in s.equations] + list(
            path.derivative.equations
        )
        graph = self._graph(path, targets, dict(segment.kept_above), equations)
        results, seen, apart = _result_layouts(segment)
        layouts = self._layouts_for(graph, path)
        program = Program(
            graph, layouts, results, seen=seen, apart=apart, plans=path.plans, is_kept=True
        ).begin()
        found = dict(zip(graph.outputs, program.graph.outputs, strict=True))
        inputs = []
        for value in graph.inputs:
            kind, reference = self._source(value, path, segment.kept_above)
            if kind == "seed":
                kind, reference = "constant", np.ones(value.shape, value.dtype)
            inputs.append((kind, reference))
        places = [
            [program.locate(found[v]) for v in group]
            for group in (checks, path.results, path.left, path.derivative.gradients)
        ]
        checked, results_at, left, gradients = places
        held = [found[v] for v in path.derivative.gradients]
        return Code(
            program, inputs, checks=checked, results=results_at, left=left, gradients=gradients, held=held
        )

    def _layouts_for(self, graph: Graph, owner: Path) -> dict[Value, Layout]:
        layouts = {}
        for value in graph.inputs:
            captured = owner.captured.get(value)
            if captured is not None:
                layouts[value] = captured.layout
            elif value in owner.constants:
                layouts[value] = layout_of(owner.constants[value])
            elif value not in owner.derivative.seeds and value in self.layouts:
                layouts[value] = self.layouts[value]
        return layouts

    def _source(self, value: Value, owner: Path, available: dict[Value, int]) -> tuple[str, Any]:
        """Where a program's input comes from at run time."""
        if value in owner.derivative.seeds:
            return "seed", owner.derivative.seeds.index(value)
        if value in available:
            return "kept", available[value]
        if value in owner.argument_leaves:
            return "argument", owner.argument_leaves[value]
        if value in owner.captured:
            return "captured", owner.captured[value]
        return "constant", owner.constants[value]

    def _finish(
        self,
        segment: Segment,
        program: Program,
        graph: Graph,
        extra: list[Value],
        unread: list[Value],
        ours: dict[Value, int],
        instead: dict[Value, Value],
    ) -> None:
        """Begin to compile, and note where all lies. instead: what stands for values that were lowered."""
        found = dict(zip(graph.outputs, program.graph.outputs, strict=True))
        held = [instead.get(v, v) for v in extra]
        program.arrange(held, [found[v] for v in unread])
        self._begin(program, segment)
        code = segment.code = Code(program, [self._source(v, segment.owner, ours) for v in graph.inputs])
        code.held = held
        code.keeps = [(ours[v], program.locate(now)) for v, now in zip(extra, held, strict=True)]
        guards = [e for e in segment.equations if e.op is GUARD and segment.asked is None]
        code.checks = [program.locate(found[e.inputs[0]]) for e in guards]
        if segment.guard is not None:
            code.guard = program.locate(found[segment.guard.inputs[0]])
        if segment.path is not None:
            code.results = [program.locate(found[v]) for v in segment.path.results]
            code.left = [program.locate(found[v]) for v in segment.path.left]

    def _commit(self, leaf: Segment, written: set[int]) -> Commit | None:
        """What leaves in the world what a leaf does. written: by the numbers of those its program writes."""
        path = leaf.path
        assert path is not None
        return Commit(path, written, orders_of(path, self.layouts)) if path.capture.left else None

    def _begin(self, program: Program, segment: Segment) -> None:
        """Have LLVM begin with a program of a segment, unless calls are hoped to need another."""
        if segment.path is None or not self.hopeful:
            program.compile()


def _obliged(segment: Segment) -> list[Value]:
    """What a segment computes only to find out whether it can be."""
    obliged = segment.owner.obliged
    return [v for e in segment.equations for v in e.outputs if v in obliged] if obliged else []


def _made_by(chain: Sequence[Segment]) -> dict[Value, Equation]:
    """The equations of a path from the root to a leaf, and of its backward."""
    equations = [e for s in chain for e in s.equations]
    leaf = chain[-1].path
    return producers([*equations, *(leaf.derivative.equations if leaf else ())])


def _later_targets(chain: Sequence[Segment]) -> list[Any]:
    """What the segments after the first, and the backward at the end, have to compute."""
    targets: list[Any] = []
    for segment in chain[1:]:
        targets += [v for e in segment.equations if e.op is GUARD for v in e.values()]
        targets += segment.guard.values() if segment.guard is not None else ()
        targets += _obliged(segment)
    leaf = chain[-1].path
    assert leaf is not None
    return [*targets, *((*leaf.results, *leaf.left) if len(chain) > 1 else ()), *leaf.derivative.gradients]


def _result_layouts(segment: Segment) -> tuple[dict[Value, Layout], dict[Value, tuple[int, ...]], set[Value]]:
    """The layouts of results that eager does not give in row-major order, the strides of all, and those that
    it gives as views with gaps between their elements.
    """
    layouts: dict[Value, Layout] = {}
    seen: dict[Value, tuple[int, ...]] = {}
    apart: set[Value] = set()
    if segment.path is None:
        return layouts, seen, apart
    outputs = [o for o in segment.path.capture.outputs if o.value is not None]
    for value, output in zip(segment.path.results, outputs, strict=True):
        strides = tuple(s // value.dtype.itemsize for s in output.strides)
        seen[value] = strides
        layout = unusual_layout(value.shape, strides)
        if layout is not None:
            layouts[value] = layout
        elif 0 not in value.shape and not is_dense(value.shape, strides):
            apart.add(value)
    return layouts, seen, apart


def unusual_layout(shape: tuple[int, ...], strides: tuple[int, ...]) -> Layout | None:
    """The layout that results with these strides (in elements) are given in; None for row-major order."""
    usual = strides == contiguous_layout(shape).strides or 0 in shape
    if not usual and all(s > 0 for s in strides) and is_dense(shape, strides):
        return Layout(shape, strides)
    return None
