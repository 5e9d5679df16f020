"""Gradients of calls that ran as one: the nodes between rows and the tensors that have them all.

A backward goes through the batch as through any other tensors: one product for the gradient of a shared
weight. But one by one, only those calls would be gone through that lead to what is derived. So each group
knows which of its rows a backward has come to: from the rows that were handed out, and from groups
that read them. Where these are all, the op's own nodes run. Where they are some, their gradients are those of
the op on these rows alone: zeros that are sent through the others could come out as NaN, and would make
gradients of zero where there are none.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fusegrad.eager.autograd.engine import run_backward
from fusegrad.eager.autograd.node import MODIFIED, Node, edge_of, filled, place, share
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.state import enable_grad, state
from fusegrad.eager.core.tensor import Tensor, require_grad


class _Reached:
    """Which of so many rows the backward at work has come to.

    sent: by the output, the gradient that was made for it, to which others may be added as long as nobody
    else has it.
    """

    __slots__ = ("_rows", "_walk", "sent", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self._walk: Any = None
        self._rows: Any = None
        self.sent: dict[int, Tensor] = {}

    def _follow(self) -> None:
        """Forget other walks than the one at work."""
        if self._walk is None or self._walk() is not state.walk:
            self._walk = weakref.ref(state.walk)
            self._rows = np.zeros(self.size, np.bool_)
            self.sent = {}

    def mark(self, rows: Any) -> None:
        """A gradient comes for these rows."""
        self._follow()
        self._rows[rows] = True

    def on_its_way(self, target: Any, output: int) -> Tensor | None:
        """The gradient that was made for an output of a node, if that is still all that has come there."""
        self._follow()
        known = self.sent.get(output)
        if known is None:
            return None
        pending = state.walk.pending.get(target.sequence)
        return known if pending is not None and pending[1][output] is known else None

    def rows(self) -> np.ndarray | None:
        """The rows; None for all."""
        known = self._walk is not None and self._walk() is state.walk
        return None if not known or self._rows.all() else np.flatnonzero(self._rows)


class Feed(NamedTuple):
    """What an operand of a group has of the rows of another, or of tensors that were put side by side:
    `rows` of them, for the calls `calls`. reached: those that a backward has come to.
    """

    reached: _Reached
    calls: np.ndarray
    rows: np.ndarray


class _Own(Node):
    """A node that keeps no values, and so can be walked again."""

    __slots__ = ()

    def _has(self, edges: Any, given: Sequence[Tensor], made: Sequence[tuple[Any, Any]]) -> None:
        self.begin(edges)
        self.types = [(t.array.shape, t.array.dtype) if isinstance(t, Tensor) else None for t in given]
        self.output_types = [*made]
        self.versions = []
        self.inputs = ()


class Stacked(_Own):
    """Sends the rows of a gradient to the tensors that were put side by side, for the calls come to."""

    __slots__ = ("reached",)

    def __init__(self, tensors: Sequence[Tensor], physical: Tensor) -> None:
        edges = [(i, *edge_of(t)) for i, t in enumerate(tensors) if t.needs_grad]
        self._has(edges, tensors, [(physical.array.shape, physical.array.dtype)])
        self.reached = _Reached(len(tensors))
        place(physical, self, 0)

    def name(self) -> str:
        return "StackBackward0"

    def apply(self, gradients: list[Tensor | None], edges: Any = None) -> list[Tensor | None]:
        (whole,), rows = gradients, self.reached.rows()
        known = None if rows is None else {*rows.tolist()}
        numbers = [i for i, _, _ in edges or self.edges]
        return [ops.select(whole, 0, i) if known is None or i in known else None for i in numbers]


class Piece(NamedTuple):
    """What an operand of a group has of one tensor: `rows` of it, for the calls `calls`. reached: which rows
    of it a backward has come to; output: which of a group's outputs it is.
    """

    whole: Tensor
    calls: np.ndarray
    rows: np.ndarray
    reached: _Reached | None
    output: int


class Joined(_Own):
    """Adds the rows of a gradient to those of the tensors that they were taken from."""

    __slots__ = ("_pieces",)

    def __init__(self, pieces: Sequence[Piece], physical: Tensor) -> None:
        edges = [(i, *edge_of(piece.whole)) for i, piece in enumerate(pieces) if piece.whole.needs_grad]
        wholes = [piece.whole for piece in pieces]
        self._has(edges, wholes, [(physical.array.shape, physical.array.dtype)])
        # Not their values.
        self._pieces = [piece._replace(whole=None) for piece in pieces]  # type: ignore[arg-type]
        place(physical, self, 0)

    def name(self) -> str:
        return "IndexSelectBackward0"

    def apply(self, gradients: list[Tensor | None], edges: Any = None) -> list[Tensor | None]:
        (gradient,) = gradients
        assert gradient is not None
        traced = state.grad_enabled or state.interpreter is not None
        part = self._part if traced else self._part_now
        return [part(gradient, i, target) for i, target, _ in edges or self.edges]

    def _part(self, gradient: Tensor, number: int, target: Any) -> Tensor:
        piece, (shape, _) = self._pieces[number], self.types[number]
        own = ops.index_select(gradient, 0, wrap(piece.calls))
        return _added(shape, wrap(piece.rows), own)

    def _part_now(self, gradient: Tensor, number: int, target: Any) -> Tensor | None:
        """The gradient of one tensor; None where it was added to what is on its way to there."""
        piece, (shape, dtype) = self._pieces[number], self.types[number]
        reached, rows = piece.reached, piece.rows
        own = gradient.array[piece.calls]
        known = None if reached is None else reached.on_its_way(target, piece.output)
        array = np.zeros(shape, dtype) if known is None else known.array
        if len(rows) < 2 or np.bincount(rows).max() == 1:
            array[rows] += own
        else:
            np.add.at(array, rows, own)
        if known is not None:
            return None
        made = wrap(array)
        if reached is not None:
            reached.sent[piece.output] = made
        return made


def joined(pieces: Sequence[Piece], size: int) -> Tensor:
    """Rows of several tensors as those of one."""
    if state.interpreter is not None:
        parts = [_rows(piece.whole, piece.rows) for piece in pieces]
        whole = parts[0] if len(parts) == 1 else ops.cat(parts, 0)
        order = np.argsort(np.concatenate([piece.calls for piece in pieces]))
        return _rows(whole, order)
    first = pieces[0]
    if len(pieces) == 1:
        array = first.whole.array[first.rows]  # of all calls, in their order
    else:
        array = np.empty((size, *first.whole.array.shape[1:]), first.whole.array.dtype)
        for piece in pieces:
            array[piece.calls] = piece.whole.array[piece.rows]
    physical = wrap(array)
    if state.grad_enabled and any(piece.whole.needs_grad for piece in pieces):
        Joined(pieces, physical)
    return physical


def _rows(physical: Tensor, rows: np.ndarray) -> Tensor:
    """These rows of a tensor."""
    first, size = int(rows[0]), len(rows)
    if (rows == np.arange(first, first + size)).all():
        return physical if size == len(physical.array) else ops.narrow(physical, 0, first, size)
    return ops.index_select(physical, 0, wrap(np.ascontiguousarray(rows)))


def _added(shape: tuple[int, ...], index: Tensor, rows: Tensor) -> Tensor:
    """Zeros of a shape to whose rows others were added."""
    return ops.index_add(ops.zeros(shape, dtype=rows.dtype), 0, index, rows)


class Operand(NamedTuple):
    """An operand of a group. many: whether it has a row for each call; then it is fed by rows."""

    value: Any
    many: bool
    feeds: Sequence[Feed]

    def mark(self, rows: np.ndarray | None) -> None:
        """Tell what feeds it that a gradient comes for these rows, or for all."""
        for feed in self.feeds:
            feed.reached.mark(feed.rows if rows is None else feed.rows[np.isin(feed.calls, rows)])


class _Marking(_Own):
    """Behind some rows of an operand that is derived again: tells what feeds them."""

    __slots__ = ("_operand", "_rows")

    def __init__(self, part: Tensor, operand: Operand, rows: np.ndarray) -> None:
        kind = (part.array.shape, part.array.dtype)
        self._has([(0, *edge_of(part))], [part], [kind])
        self._operand, self._rows = operand, rows

    def name(self) -> str:
        return "IndexSelectBackward0"

    def apply(self, gradients: list[Tensor | None], edges: Any = None) -> list[Tensor | None]:
        self._operand.mark(self._rows)
        return gradients


class Group(_Own):
    """Behind the results of a group, in front of the op's own nodes. Its outputs are all of each, and rows.

    compute: what the op gives for operands, for so many calls.
    """

    __slots__ = ("_compute", "_operands", "_outputs", "_saved", "reached")

    one_op = False

    def __init__(
        self,
        compute: Callable[[Sequence[Any], int], tuple[Tensor, ...] | None],
        operands: Sequence[Operand],
        saved: Sequence[int],
        outputs: Sequence[Tensor],
        size: int,
    ) -> None:
        """saved: the operands that the op's gradient rules read."""
        given = [o.value for o in operands]
        edges = [(i, *edge_of(o)) for i, o in enumerate(outputs) if o.needs_grad]
        begin = len(outputs)
        edges += [
            (begin + i, *edge_of(v)) for i, v in enumerate(given) if isinstance(v, Tensor) and v.needs_grad
        ]
        whole = [(o.array.shape, o.array.dtype) for o in outputs]
        rows = [type_ for shape, dtype in whole for type_ in [(shape[1:], dtype)] * size]
        self._has(edges, [*outputs, *given], [*whole, *rows])
        self.reached = _Reached(size)
        self._compute, self._operands, self._outputs = compute, operands, begin
        self._saved = [(i, given[i].version[0]) for i in saved if isinstance(given[i], Tensor)]

    def in_front_of(self, inner: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The results as this node gives them."""
        return tuple([place(share(o), self, i) if o.needs_grad else o for i, o in enumerate(inner)])

    def row_of(self, output: int, row: int) -> int:
        """The number of the output that a row of a result is."""
        return self._outputs + output * self.reached.size + row

    def name(self) -> str:
        return "BatchBackward0"

    def arrived(self, slots: list[Tensor | None]) -> list[Tensor | None]:
        """Give rows that hooks, or whoever wants their gradient, look at all of it: groups read them, too."""
        seen = [*self.extra.tensors, *self.extra.retained] if self.extra is not None else []
        seen += [output for sequence, output in state.walk.captured or () if sequence == self.sequence]
        known = self.reached.rows()
        for output in range(self._outputs):
            whole, begin = slots[output], self.row_of(output, 0)
            rows = sorted({o - begin for o in seen if 0 <= o - begin < self.reached.size})
            if whole is None or not rows:
                continue
            slots = list(slots)
            for row in rows if known is None else [r for r in rows if r in known]:
                part, own = ops.select(whole, 0, row), slots[begin + row]
                slots[begin + row] = part if own is None else own + part
            slots[output] = ops.index_fill(whole, 0, wrap(np.array(rows, np.int64)), 0)
        return slots

    def _joined(self, slots: Sequence[Tensor | None]) -> list[Tensor | None]:
        """The gradients of the results, of what came for all of each and of what came for rows."""
        found: list[Tensor | None] = []
        for output in range(self._outputs):
            whole, begin = slots[output], self.row_of(output, 0)
            rows = list(slots[begin : begin + self.reached.size])
            come = [row for row, g in enumerate(rows) if g is not None]
            if come:
                self.reached.mark(come)
                own = self._of_all(output, rows, come)
                whole = own if whole is None else whole + own
            found.append(whole)
        return found

    def _of_all(self, output: int, rows: Sequence[Any], come: Sequence[int]) -> Tensor:
        """The gradient of all of a result, of what has come for some of its rows."""
        if state.grad_enabled or state.interpreter is not None:
            begin = self.row_of(output, 0)
            made: Tensor = ops.stack(filled([*rows], self.output_types[begin : begin + self.reached.size]))
            return made
        shape, dtype = self.output_types[output]
        array = np.zeros(shape, dtype)
        for row in come:
            array[row] = rows[row].array
        return wrap(array)

    def apply(self, gradients: list[Tensor | None], edges: Any = None) -> list[Tensor | None]:
        edges, gradients = edges or self.edges, self._joined(gradients)
        rows = self.reached.rows()
        for operand in self._operands:
            operand.mark(rows)
        begin = self._outputs
        if rows is None:
            return [gradients[i] if i < begin else None for i, _, _ in edges]
        if not len(rows):
            return [None] * len(edges)
        wanted = [i - begin for i, _, _ in edges if i >= begin]
        found = dict(zip(wanted, self._of_rows(gradients, rows, wanted), strict=True))
        return [found.get(i - begin) for i, _, _ in edges]

    def _of_rows(
        self, gradients: Sequence[Tensor | None], rows: np.ndarray, wanted: Sequence[int]
    ) -> list[Tensor | None]:
        """The gradients of some operands where some rows have gradients."""
        for i, version in self._saved:
            self._check(i, version)
        index, again = wrap(rows.astype(np.int64)), state.grad_enabled
        given: list[Any] = []
        with enable_grad():
            for operand in self._operands:
                value = operand.value
                if isinstance(value, Tensor):
                    needs = value.needs_grad
                    value = value if again else share(value)
                    value = ops.index_select(value, 0, index) if operand.many else ops.clone(value)
                    if needs and not again:
                        require_grad(value)
                    elif needs and operand.many:
                        value = place(share(value), _Marking(value, operand, rows), 0)
                given.append(value)
            made = self._compute(given, len(rows))
        assert made is not None
        pairs = [
            (m, ops.index_select(g, 0, index))
            for m, g in zip(made, gradients, strict=True)
            if g is not None and m.needs_grad
        ]
        roots, seeds = [m for m, _ in pairs], [g for _, g in pairs]
        inputs = [given[i] for i in wanted]
        parts = run_backward(roots, seeds, again, again, inputs)
        return [self._spread(i, part, index) for i, part in zip(wanted, parts, strict=True)]

    def _spread(self, i: int, part: Tensor | None, index: Tensor) -> Tensor | None:
        """The gradient of an operand, from that of the rows."""
        operand = self._operands[i]
        return _added(operand.value.array.shape, index, part) if part is not None and operand.many else part

    def _check(self, i: int, version: int) -> None:
        value = self._operands[i].value
        now = value.version[0]
        if now != version:
            text = MODIFIED.format(
                name=self.name(),
                what=f"operand {i}",
                dtype=value.array.dtype.name,
                shape=list(value.array.shape),
                then=version,
                now=now,
            )
            raise failure(RuntimeError, text)
