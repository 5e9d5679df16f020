"""What a shortcut leaves in the world: the lines that write memory and set `.grad`.

They do what `Commit` does, of which the tensors are known when a shortcut is written: that they are writeable
and lie apart is asked natively.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fusegrad.compiler.fastpath import native_node
from fusegrad.compiler.fastpath.python_writer import Place, Source
from fusegrad.compiler.native.apart import Apart
from fusegrad.compiler.paths.commit import Commit, own
from fusegrad.eager.autograd import views
from fusegrad.eager.core.errors import user_spot
from fusegrad.eager.core.tensor import Tensor


class CommitWriter:
    """Writes into the function `source`, which has found all tensors that the call reads.

    staying, others: these, by their names: those from outside, and those that are likely to lie elsewhere in
    each call. named: gives the name of a tensor that is written, or gets a gradient.
    """

    def __init__(
        self,
        source: Source,
        commit: Commit,
        staying: Mapping[str, Tensor],
        others: Mapping[str, Tensor],
        named: Callable[[Any], str],
    ) -> None:
        self.source, self.commit = source, commit
        self.staying, self.others = staying, others
        self.written = [named(target) for target in commit.targets]
        self.left = commit.path.capture.left
        self.owners = [named(place) for place, _ in self.left.gradients]
        source.constants |= {"count_writes": views.count_writes, "user_spot": user_spot, "own": own}

    def ask(self) -> None:
        """Lines that leave where what is written is not writeable, or overlaps with anything."""
        if not self.written:
            return
        tensors = {**self.staying, **self.others}
        written = {id(tensors[name]) for name in self.written}
        apart = Apart([*self.staying.values()], [*self.others.values()], written)
        commit = self.commit

        def moved(staying: Sequence[Tensor], leaves: Sequence[Any]) -> bool:
            """Whether all is apart nevertheless: something lies elsewhere than before."""
            found = commit.tensors(leaves) is not None
            if found:
                apart.seen(staying)
            return found

        holds, otherwise = self.source.constant("apart", apart.holds), self.source.constant("moved", moved)
        self.source.unless(f"{holds}({', '.join(tensors)}) or {otherwise}(({_row(self.staying)}), leaves)")

    def begin(self) -> list[str]:
        """Lines that count the writes."""
        if not self.written:
            return []
        count = self.source.constant("count", native_node.count_writes())
        left = f"if not {count}(spot, {', '.join(self.written)}): count_writes(({_row(self.written)}), spot)"
        return ["spot = user_spot()", left]

    def leave(self, arrays: Sequence[str], places: Sequence[Place]) -> None:
        """Lines that write what the program has not, and set gradients. places: of `Segment.left`."""
        source, commit = self.source, self.commit
        finals = [source.seen(arrays, place) for place in places]
        if not commit.begins:
            source.lines += self.begin()
        if commit.program is not None:
            rest = ", ".join(finals[i] for i in commit.rest)
            targets = ", ".join(f"{self.written[i]}.array" for i in commit.rest)
            source.lines.append(f"{source.constant('copy', commit.copy)}([{rest}], [{targets}])")
        made = iter([*zip(finals, places, strict=True)][len(self.written) :])
        for owner, (_, value) in zip(self.owners, self.left.gradients, strict=True):
            gradient = "None"
            if value is not None:
                final, (_, chain) = next(made)
                gradient = f"wrap(own({final}))" if chain else source.tensor(final)
            source.lines.append(f"{owner}.grad = {gradient}")
        if self.left.after:
            source.lines.append(f"{source.constant('after', commit.call_after)}()")


def _row(names: Any) -> str:
    return "".join(f"{name}, " for name in names)
