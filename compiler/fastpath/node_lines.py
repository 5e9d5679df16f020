"""The node of a shortcut: the lines that make it.

What `node.finish` and `CompiledNode` find out at every call is known when a shortcut is written: which
inputs get gradients, which counters say that memory was written, where backward takes what it reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fusegrad.compiler.fastpath.backward_lines import written_derivative
from fusegrad.compiler.fastpath.native_accumulation import Adding
from fusegrad.compiler.fastpath.native_node import Linking
from fusegrad.compiler.fastpath.python_writer import Source
from fusegrad.compiler.paths.autograd_node import (
    AGAIN,
    NOTHING_FREED,
    NOTHING_PRESERVED,
    CompiledNode,
    FreedNode,
    facts_of,
)
from fusegrad.compiler.paths.path import Captured, Path
from fusegrad.compiler.paths.segments import Joint, Segment
from fusegrad.eager.autograd.node import next_sequence, place
from fusegrad.eager.autograd.views import ask_before_write
from fusegrad.eager.core.errors import user_spot
from fusegrad.tracer.capture.api import Output


class NodeWriter:
    """Writes into a function whose arguments have the names `names`, and whose path is that of `leaf`.

    leaves: the arguments of a call that it will answer. outside: the names of the tensors from outside that
    the call read, if it has a node.
    """

    def __init__(
        self,
        source: Source,
        leaf: Segment,
        joint: Joint | None,
        names: Sequence[str],
        leaves: Sequence[Any],
        outside: Sequence[str],
    ) -> None:
        assert leaf.path is not None
        self.source, self.leaf, self.joint, self.names, self.leaves = source, leaf, joint, names, leaves
        self.path: Path = leaf.path
        self.outside: dict[Captured, str] = dict(
            zip(self.path.captured.values(), outside, strict=bool(outside))
        )
        self.known: dict[Any, str] = {}  # the results, by value
        source.constants |= {
            "next_sequence": next_sequence,
            "user_spot": user_spot,
            "ask_before_write": ask_before_write,
            "FreedNode": FreedNode,
            "place": place,
        }

    def write(self, results: Sequence[str], kept: Sequence[str], gradients: Sequence[str]) -> list[str]:
        """Lines that make the node, if there is one, and put the results on the graph; the expressions of
        what is returned.

        results: expressions of arrays. kept: of what the forward kept for backward; gradients: of those that
        came along.
        """
        if not self.path.wanted:
            return self._tensors(results)
        self._node(kept, gradients)
        items = self._tensors(results)
        self._link()
        return items

    def _node(self, kept: Sequence[str], gradients: Sequence[str]) -> None:
        source, filled = self.source, self.joint is None
        source.object("node", self._like(filled))
        source.lines.append(f"node.environment = [{', '.join(kept)}]")
        # There are the user's frame, `JitFunction.__call__`, and this function.
        source.lines.append("node.sequence, node.spot = next_sequence(), user_spot(3)")
        if not filled:
            source.lines.append(f"node.ready = [{', '.join(gradients)}]")
        if self.outside:
            source.lines.append(f"node.captured = ({self._row(self.outside.values())})")

    def _like(self, filled: bool) -> CompiledNode:
        """A node with what is the same for all calls."""
        node, path = CompiledNode.__new__(CompiledNode), self.path
        node.leaf, node.filled, node.facts = self.leaf, filled, facts_of(self.leaf, filled)
        node.derived, node.adding = written_derivative(self.leaf, self.joint), None
        node.ready = node.extra = node.outputs = None
        node.names, node.output_types = path.grad_names, path.output_types
        node.freed = node.freeing = NOTHING_FREED
        node.preserved = NOTHING_PRESERVED
        node.captured, node.inputs, node.versions = (), (), []
        return node

    @staticmethod
    def _row(names: Any) -> str:
        return "".join(f"{name}, " for name in names)

    def _tensors(self, results: Sequence[str]) -> list[str]:
        """Lines that make the results tensors; what each item of the structure is."""
        path, lines, freed = self.path, self.source.lines, self._freed()
        for number, value in path.own_results.items():
            name = self.known[value] = f"result{number}"
            lines.append(f"{name} = {self.source.tensor(results[number])}")
            if freed.get(value):
                lines.append(f"place({name}, FreedNode({freed[value]!r}, {name}), 0)")
        return [self._item(output) for output in path.capture.outputs]

    def _freed(self) -> dict[Any, str]:
        """The names of nodes that a backward inside the call has freed, by the results that they made."""
        outputs = [o for o in self.path.capture.outputs if o.value is not None]
        return {o.value: o.grad_name if o.freed else "" for o in reversed(outputs)}

    def _item(self, output: Output) -> str:
        if output.value is not None:
            return self.known[output.value]
        if output.kind == "argument":
            return self.names[output.item]
        if output.kind == "object":
            return self.source.constant("item", output.item)
        return f"{self.source.constant('item', output.item)}()"

    def _link(self) -> None:
        """Lines that put the node on the graph, and note how often the memory was written that the call read,
        and the results' that are kept: see `CompiledNode.facts`.
        """
        path, own = self.path, [*self.path.own_results.items()]
        inputs, results = [*self.names, *self.outside.values()], [self.known[value] for _, value in own]
        places = {name: place for place, name in enumerate(dict.fromkeys([*inputs, *results]))}
        counted = [self.names[i] for i in path.argument_leaves.values()]
        counted += [self.outside[c] for c in path.captured.values()]
        counted += [self.known[v] for number, v in own if v in path.kept_by_eager or number in path.saved]
        freed, seeded = self._freed(), path.seeded
        placed = [(self.known[v], seeded.index(n)) for n, v in own if n in seeded and not freed.get(v)]
        sources = path.wanted_from
        linking = Linking(
            [places[name] for name in self.names],
            [places[self.names[s] if isinstance(s, int) else self.outside[s]] for s in sources],
            [places[name] for name in counted],
            [(places[name], index) for name, index in placed],
            *self._adding(),
        )
        self.source.constant("linking", linking)  # which keeps its objects alive
        link = self.source.constant("link", linking.link)
        self.source.unless(f"{link}(node, {', '.join(places)})")
        for fact, name in zip(facts_of(self.leaf, self.joint is None), counted, strict=True):
            if fact.how == AGAIN:
                self.source.lines.append(f"ask_before_write({name}.version, node)")

    def _adding(self) -> tuple[Adding | None, Sequence[int]]:
        """What adds for the node, and which edges must end at leaves for that: those that do now."""
        leaves, sources = self.leaves, self.path.wanted_from
        tensors = [leaves[s] if isinstance(s, int) else s.reference() for s in sources]
        ends = [i for i, tensor in enumerate(tensors) if tensor is not None and tensor.grad_fn is None]
        return (Adding(self.leaf, ends) if ends and self.joint is None else None), ends
