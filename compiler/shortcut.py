"""The shortcut of a path: a replay written out as one straight Python function.

`jit` finds the code for a call by a key of all its arguments, and runs a tree that may branch. Where a
function has answered such a call before, and its path has no guards on data and writes nothing, all of
that is known beforehand:

    def answer(args):
        if state.interpreter is not None or ...: return MISSED
        if not (type(args) is tuple and len(args) == 2): return MISSED
        args_0, args_1, = args
        if not (match(args_0, args_1)): return MISSED
        if check() is not None: return MISSED
        made2 = placement.small_array(shape, dtype)
        arena = taken()
        run(args_0.array, args_1.array, made2, *arena)
        arenas.append(arena)
        stats.calls += 1
        return wrap(made2)

What it misses is answered as ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import is_
from typing import TYPE_CHECKING, Any

from fusegrad.compiler import debug
from fusegrad.compiler.calling import Match
from fusegrad.compiler.node_lines import NodeWriter
from fusegrad.compiler.segments import Joint, Segment
from fusegrad.compiler.source import Source, TooDifficult
from fusegrad.eager import dtypes
from fusegrad.eager.state import state
from fusegrad.eager.tensor import Tensor, Untracked
from fusegrad.tracer.tree import contents, is_container
from fusegrad.tracer.values import MISSING, Expected

if TYPE_CHECKING:
    from fusegrad.compiler.jit import Stats, Variant
    from fusegrad.compiler.path import Path

_SLOTS = ("array", "needs_grad", "version")
MOST_TENSORS = 64  # each is compared with all others


class Shortcut:
    """The written function of a variant whose tree is a single leaf.

    check: what asks the variant's reads; joint: what computes its gradients at once, if anything does.
    """

    def __init__(self, variant: Variant, args: Sequence[Any], leaves: Sequence[Any], stats: Stats) -> None:
        """args, leaves: of a call that the variant has answered."""
        self.check, self.joint = variant.shared.check, variant.tree.root.joint
        self.text = ""
        self.answer: Any = None
        try:
            writer = _Writer(variant, self.joint, leaves, stats)
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
        return self.check is variant.shared.check and self.joint is variant.tree.root.joint


class _Writer(Source):
    def __init__(self, variant: Variant, joint: Joint | None, leaves: Sequence[Any], stats: Stats) -> None:
        super().__init__()
        self.variant, self.leaves = variant, leaves
        self.leaf = variant.tree.root
        # What is run: forward and backward at once, if backward most likely follows.
        self.code: Joint | Segment = joint or self.leaf
        self.constants |= {
            "dtypes": dtypes,
            "stats": stats,
            "path": self.leaf.path,
            "leaf": self.leaf,
            "usage": self.leaf.usage,
            "is_": is_,
        }
        self.names: list[str] = []  # of the leaves of the arguments

    def write(self, args: Sequence[Any]) -> str:
        """The source. Raises TooDifficult."""
        path = self._path()
        self._modes()
        self._arguments(args)
        self._guards()
        if path.derives_alone:
            self.lines.append("if not usage.expected(): return MISSED")
        assert self.code.program is not None
        inputs = [self._input(kind, reference) for kind, reference in self.code.inputs]
        arrays = self.run(self.code.program, inputs)
        self._count(arrays)
        if path.plain:
            self._return(path, [f"wrap({self.seen(arrays, place)})" for place in self.code.results])
        else:
            self._node(path, arrays)
        return self.text("args")

    def _path(self) -> Path:
        """The path, if nothing but its program has to be run."""
        leaf, path = self.leaf, self.leaf.path
        if path is None or leaf.hosts or leaf.commit is not None:
            raise TooDifficult
        if path.capture.same or path.capture.bare or self.variant.has_own_reads(path):
            raise TooDifficult
        if path.derives_alone and self.code is leaf:
            raise TooDifficult  # until it is known whether backward follows
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
        if not tensors:
            return
        own = all(getattr(type(x), slot) is getattr(Tensor, slot) for x in tensors for slot in _SLOTS)
        inference = any(type(x.version) is Untracked for x in tensors)
        if (
            not own
            or inference
            or len({id(x) for x in tensors}) < len(tensors)
            or len(tensors) > MOST_TENSORS
        ):
            raise TooDifficult
        given = [name for name, x in zip(self.names, self.leaves, strict=True) if isinstance(x, Tensor)]
        match = self.constants["types"] = Match(tensors)  # which keeps them alive
        self.unless(f"{self.constant('match', match.matches)}({', '.join(given)})")

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
        shared = self.variant.shared
        if shared.reads:
            check = self.constant("check", shared.check)
            self.lines += ["try:", f"    if {check}() is not None: return MISSED"]
            self.lines += ["except Exception: return MISSED"]

    # What answers it.

    def _input(self, kind: str, reference: Any) -> str:
        if kind == "argument":
            return f"{self.names[reference]}.array"
        if kind == "constant":
            return self.constant("array", reference)
        if kind != "captured":
            raise TooDifficult
        return self.outside(reference)

    def _count(self, arrays: Sequence[str]) -> None:
        """Lines that count the call, if no op of it refuses its input."""
        for place in self.code.checks:
            self.lines.append(f"if not {self.seen(arrays, place)}.item(): return MISSED")
        self.lines += ["stats.calls += 1", "stats.compiled_calls += 1", "path.calls += 1"]

    def _node(self, path: Path, arrays: Sequence[str]) -> None:
        """Lines that give the results and put them on the graph."""
        results = [self.seen(arrays, place) for place in self.code.results]
        kept = ["None"] * self.variant.tree.environment
        joint = self.code if isinstance(self.code, Joint) else None
        gradients: list[str] = []
        if joint is not None:
            self.lines.append("usage.followed()")
            taken = {*range(len(joint.inputs)), *(index for index, _ in joint.results)}
            gradients = self.apart(arrays, joint.gradients, taken)
        else:
            for place, index in self.leaf.gives:
                kept[place] = arrays[index]
        items = NodeWriter(self, self.leaf, joint, self.names, self.leaves).write(results, kept, gradients)
        self._return(path, items)

    def _return(self, path: Path, items: Sequence[str]) -> None:
        """A line that gives `items` as the function does."""
        structure = path.capture.structure
        text = _put_together(structure.key, iter(items))
        if text is None:
            text = f"{self.constant('build', structure.build)}(iter(({', '.join(items)},)))"
        self.lines.append(f"return {text}")


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
