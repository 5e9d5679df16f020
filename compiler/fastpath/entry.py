"""The shortcut of a path: a replay written out as one straight Python function.

`jit` finds the code for a call by a key of all its arguments, and runs a tree that may branch. Where a
function has answered such a call before, it is known beforehand what that comes to:

    def answer(args):
        if state.interpreter is not None or ...: return MISSED
        if not (type(args) is tuple and len(args) == 2): return MISSED
        args_0, args_1, = args
        if not (match(args_0, args_1)): return MISSED
        if check() is not None: return MISSED
        made2, made2_tensor, = make(args_0.array, args_1.array, nothing)
        stats.calls += 1
        return made2_tensor

What it misses is answered as ever, so it changes nothing until it is sure to answer: what a path leaves in
the world, and draws from generators, comes behind all tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import is_
from typing import TYPE_CHECKING, Any

from fusegrad.compiler.base import debug
from fusegrad.compiler.fastpath.commit_lines import CommitWriter
from fusegrad.compiler.fastpath.node_lines import NodeWriter
from fusegrad.compiler.fastpath.python_writer import Source, TooDifficult
from fusegrad.compiler.native.match import Match
from fusegrad.compiler.paths.path import guard_key
from fusegrad.compiler.paths.segments import Joint, Segment
from fusegrad.eager.core import dtypes
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor, Untracked
from fusegrad.tracer.observe.hosts import GradientOf, Host
from fusegrad.tracer.observe.pytree import contents, is_container
from fusegrad.tracer.observe.values import MISSING, Expected

if TYPE_CHECKING:
    from fusegrad.compiler.entries import Stats, Variant
    from fusegrad.compiler.paths.path import Path

_SLOTS = ("array", "needs_grad", "version")
MOST_TENSORS = 64  # each is compared with all others


class Shortcut:
    """The written function for calls that end at one leaf of a variant's tree.

    checks: what asks what the variant and the path have read; joint: what computes its gradients at once, if
    anything does.
    """

    def __init__(
        self, variant: Variant, leaf: Segment, args: Sequence[Any], leaves: Sequence[Any], stats: Stats
    ) -> None:
        """args, leaves: of a call that the leaf has answered."""
        self.leaf, self.checks, self.joint = leaf, _checks(variant, leaf), leaf.joint
        self.text = ""
        self.answer: Any = None
        try:
            writer = _Writer(variant, leaf, leaves, stats)
            text = writer.write(args)
            answer = writer.function(text, "shortcut")
        except TooDifficult:
            return
        except Exception:
            # The long way works; a fault of ours must not become one of the user's program.
            if debug.level():
                raise
            return
        self.text, self.answer = text, answer
        debug.show(2, "shortcut", lambda: self.text)

    def is_of(self, variant: Variant) -> bool:
        """Whether the variant is still what the shortcut was written for."""
        return self.checks == _checks(variant, self.leaf) and self.joint is self.leaf.joint


def _checks(variant: Variant, leaf: Segment) -> list[Callable[[], int | None]]:
    """What asks whether all is as it was of what the variant has read, and the leaf's path alone."""
    assert leaf.path is not None
    return [guards.check for guards in (variant.shared, variant.own(leaf.path)) if guards.reads]


class _Writer(Source):
    def __init__(self, variant: Variant, leaf: Segment, leaves: Sequence[Any], stats: Stats) -> None:
        super().__init__()
        self.variant, self.leaf, self.leaves = variant, leaf, leaves
        self.joint = leaf.joint
        # What is run: forward and backward at once, if backward most likely follows.
        self.code: Joint | Segment = self.joint or leaf
        (chain,) = [chain for chain in variant.tree.root.chains() if chain[-1] is leaf]
        self.above: list[Segment] = chain[:-1]
        self.constants |= {
            "dtypes": dtypes,
            "stats": stats,
            "path": leaf.path,
            "leaf": leaf,
            "usage": leaf.usage,
            "is_": is_,
            "guard_key": guard_key,
        }
        self.names: list[str] = []  # of the leaves of the arguments
        self.found: dict[Any, str] = {}  # other tensors: by their ids, and by the keys of hosts
        self.kept: dict[int, str] = {}  # what lies in the environment, by place

    def write(self, args: Sequence[Any]) -> str:
        """The source. Raises TooDifficult."""
        path = self._path()
        self._modes()
        self._arguments(args)
        self._guards()
        if path.derives_alone:
            self.lines.append("if not usage.expected(): return MISSED")
        commit = self._tensors(path)
        for segment in self.above:
            self._stretch(segment)
        self._ask(self.leaf)
        assert self.code.program is not None
        begin = commit.begin() if commit is not None and commit.commit.begins else ()
        arrays = self.run(self.code.program, self._inputs(self.code), begin=begin)
        self._count(arrays)
        items = self._results(path, arrays)
        if commit is not None:
            commit.leave(arrays, self.code.left)
        self._return(path, items)
        return self.text("args")

    def _path(self) -> Path:
        """The path, if there is nothing about it that has to be asked at each call."""
        path = self.leaf.path
        assert path is not None
        if path.capture.same or path.capture.bare:
            raise TooDifficult
        if path.derives_alone and self.code is self.leaf:
            raise TooDifficult  # until it is known whether backward follows
        drawn = [host for segment in self.above for host, _ in segment.hosts if changes_something(host)]
        program = self.code.program
        assert program is not None
        may_stop = self.code.checks or program.checks or program.placed().calls is None
        if drawn or (may_stop and any(changes_something(host) for host, _ in self.leaf.hosts)):
            raise TooDifficult
        return path

    # Whether the call is as expected.

    def _modes(self) -> None:
        self.unless("state.interpreter is None and not state.inference")
        self.unless(f"state.grad_enabled is {state.grad_enabled}")
        self.unless(f"dtypes.default_float() is {self.constant('dtype', dtypes.default_float())}")

    def _arguments(self, args: Sequence[Any]) -> None:
        """Take the arguments apart, as `flatten` does, and compare the leaves."""
        self._take_apart("args", args)
        tensors: list[Tensor] = []
        for name, leaf in zip(self.names, self.leaves, strict=True):
            if isinstance(leaf, Tensor):
                tensors.append(leaf)
                continue
            expected = Expected(leaf)
            same = f"{self.constant('matches', expected.matches)}({name})"
            if expected.key is not MISSING:
                same = f"{name} is {self.constant('value', leaf)} or {same}"
            self.unless(same)
        if len({id(x) for x in tensors}) < len(tensors) or len(tensors) > MOST_TENSORS:
            raise TooDifficult
        given = [name for name, x in zip(self.names, self.leaves, strict=True) if isinstance(x, Tensor)]
        self._match(dict(zip(given, tensors, strict=True)), alike=False)

    def _match(self, tensors: dict[str, Tensor], alike: bool) -> None:
        """A line that asks whether tensors are of the types that these have; `alike`: they may be one."""
        if not tensors:
            return
        known = [*tensors.values()]
        own = all(getattr(type(x), slot) is getattr(Tensor, slot) for x in known for slot in _SLOTS)
        if not own or any(type(x.version) is Untracked for x in known):
            raise TooDifficult
        match = Match(known, alike)
        self.constant("types", match)  # which keeps them alive
        self.unless(f"{self.constant('match', match.matches)}({', '.join(tensors)})")

    def _take_apart(self, name: str, value: Any) -> None:
        if not is_container(value):
            self.names.append(name)
            return
        kind = type(value)
        parts = contents(value)
        names = [f"{name}_{i}" for i in range(len(parts))]
        test = f"type({name}) is {kind.__name__} and len({name}) == {len(parts)}"
        if kind is dict:
            if not all(type(key) is str for key in value):
                raise TooDifficult
            test += f" and all(map(is_, {name}, {self.constant('keys', list(value))}))"
        elif kind is not list and kind is not tuple:
            raise TooDifficult
        self.unless(test)
        if names:
            self.lines.append(f"{', '.join(names)}, = {name}{'.values()' if kind is dict else ''}")
        for part_name, part in zip(names, parts, strict=True):
            self._take_apart(part_name, part)

    def _guards(self) -> None:
        for function in _checks(self.variant, self.leaf):
            check = self.constant("check", function)
            self.lines += ["try:", f"    if {check}() is not None: return MISSED"]
            self.lines += ["except Exception: return MISSED"]

    # What it reads besides.

    def _tensors(self, path: Path) -> CommitWriter | None:
        """Lines that find the tensors from outside, and ask whether they are what they were; what writes the
        lines that leave something in the world.
        """
        commit = self.leaf.commit
        segments = [*self.above, self.code]
        read = [reference for s in segments for kind, reference in s.inputs if kind == "captured"]
        if path.wanted or (commit is not None and commit.targets):
            read += path.captured.values()
        staying = dict(self._outside(captured.reference) for captured in read)
        self._match(staying, alike=True)
        hosts = [host for s in (*self.above, self.leaf) for host, _ in s.hosts]
        gradients = dict(self._gradient(host) for host in hosts if isinstance(host, GradientOf))
        self._match(gradients, alike=True)
        if commit is None and not hosts:
            return None
        self.lines.append(f"leaves = ({''.join(f'{name}, ' for name in self.names)})")
        if commit is None:
            return None
        for place, _ in path.capture.left.gradients:
            if not isinstance(place, int):
                self._outside(place)
        others = {self.names[i]: self.leaves[i] for i in path.argument_leaves.values()}
        writer = CommitWriter(self, commit, staying, {**others, **gradients}, self._target)
        writer.ask()
        return writer

    def _outside(self, reference: Any) -> tuple[str, Tensor]:
        """The name of a tensor that is held weakly, after lines that find it; and the tensor."""
        tensor = reference()
        if tensor is None:
            raise TooDifficult
        name = self.found.get(id(tensor))
        if name is None:
            name = self.found[id(tensor)] = f"outside{len(self.found)}"
            self.lines.append(f"{name} = {self.constant('reference', reference)}()")
            self.lines.append(f"if {name} is None: return MISSED")
        return name, tensor

    def _gradient(self, host: GradientOf) -> tuple[str, Tensor]:
        """The same for a `.grad`."""
        place = host.place
        owner, tensor = (
            (self.names[place], self.leaves[place]) if isinstance(place, int) else self._outside(place)
        )
        if tensor.grad is None:
            raise TooDifficult
        name = self.found.get(host.key())
        if name is None:
            name = self.found[host.key()] = f"gradient{len(self.found)}"
            self.lines.append(f"{name} = {owner}.grad")
        return name, tensor.grad

    def _target(self, target: Any) -> str:
        """The name of a tensor that is written (one of `Commit.targets`), or gets a gradient."""
        if isinstance(target, int):
            return self.names[target]
        return self.found[target.key() if isinstance(target, GradientOf) else id(target())]

    # What answers it.

    def _stretch(self, segment: Segment) -> None:
        """Lines that run a stretch up to its guard, and leave where that holds something else."""
        self._ask(segment)
        assert segment.program is not None and segment.guard_place is not None
        arrays = self.run(segment.program, self._inputs(segment))
        self.kept.update((place, arrays[index]) for place, index in segment.gives)
        self._checks(segment, arrays)
        after = [key for key, child in segment.children.items() if child in (*self.above, self.leaf)]
        key = self.constant("key", after[0])
        self.unless(f"guard_key({self.seen(arrays, segment.guard_place)}.item()) == {key}")

    def _ask(self, segment: Segment) -> None:
        """Lines that have Python give what a stretch reads; what changes something comes last."""
        for host, place in sorted(segment.hosts, key=lambda row: changes_something(row[0])):
            if isinstance(host, GradientOf):
                array = f"{self.found[host.key()]}.array"
                # What a later backward reads must not change meanwhile.
                self.kept[place] = f"copied({array})" if self.variant.tree.derived else array
                continue
            name = self.kept[place] = f"given{place}"
            self.lines.append(f"{name} = {self.constant('ask', host.array)}(leaves)")
            self.lines.append(f"if {name} is None: return MISSED")

    def _inputs(self, code: Joint | Segment) -> list[str]:
        return [self._input(kind, reference) for kind, reference in code.inputs]

    def _input(self, kind: str, reference: Any) -> str:
        if kind == "argument":
            return f"{self.names[reference]}.array"
        if kind == "constant":
            return self.constant("array", reference)
        if kind == "kept":
            return self.kept[reference]
        assert kind == "captured"
        return f"{self._target(reference.reference)}.array"

    def _checks(self, code: Joint | Segment, arrays: Sequence[str]) -> None:
        """Lines that leave where an op refuses its input."""
        for place in code.checks:
            self.unless(f"{self.seen(arrays, place)}.item()")

    def _count(self, arrays: Sequence[str]) -> None:
        """Lines that count the call, if no op of it refuses its input."""
        self._checks(self.code, arrays)
        self.lines += ["stats.calls += 1", "stats.compiled_calls += 1", "path.calls += 1"]

    def _results(self, path: Path, arrays: Sequence[str]) -> list[str]:
        """Lines that give the results and put them on the graph; the items of what is returned."""
        results = [self.seen(arrays, place) for place in self.code.results]
        if path.plain:
            return [self.tensor(result) for result in results]
        gradients: list[str] = []
        if isinstance(self.code, Joint):
            self.lines.append("usage.followed()")
            taken = {*range(len(self.code.inputs)), *(index for index, _ in self.code.results)}
            gradients = self.apart(arrays, self.code.gradients, taken)
        else:
            self.kept.update((place, arrays[index]) for place, index in self.leaf.gives)
        kept = [self.kept.get(place, "None") for place in range(self.variant.tree.environment)]
        outside = [] if not path.wanted else [self._target(c.reference) for c in path.captured.values()]
        writer = NodeWriter(self, self.leaf, self.joint, self.names, self.leaves, outside)
        return writer.write(results, kept, gradients)

    def _return(self, path: Path, items: Sequence[str]) -> None:
        """A line that gives `items` as the function does."""
        structure = path.capture.structure
        text = _put_together(structure.key, iter(items))
        if text is None:
            text = f"{self.constant('build', structure.build)}(iter(({', '.join(items)},)))"
        self.lines.append(f"return {text}")


def changes_something(host: Host) -> bool:
    """Whether something outside is another one after the host was asked: a generator of random numbers."""
    return type(host).undo is not Host.undo


def _put_together(key: Any, parts: Iterator[str]) -> str | None:
    """The expression for a container of the structure `key`; None where that takes more than brackets."""
    if key is None:
        return next(parts)
    kind, _, inner = key
    items = [_put_together(part, parts) for part in inner]
    if kind not in (list, tuple) or None in items:
        return None
    text = "".join(f"{item}, " for item in items)
    return f"[{text}]" if kind is list else f"({text})"
