"""The operands of calls that are to be one: rows of what other groups gave, and tensors of their own."""

from __future__ import annotations

import numpy as np

from fusegrad.eager.batching.backward import Feed, Operand, Piece, Stacked, joined
from fusegrad.eager.batching.table import COMMON, OWN, Table
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor

# What an operand may have of elements, for an example, if it is to be copied: the op by itself takes as long.
MOST_COPIED = 1 << 15


class Columns:
    """The operands of calls that are to be one, place by place.

    calls: in the order in which most operands lie side by side already. batched: which places have others for
    each call. copied: how many operands were put side by side.
    """

    def __init__(self, table: Table, calls: np.ndarray, values: np.ndarray) -> None:
        """values: the numbers of what the calls take, a row for each."""
        self._table, self._repeated, self.copied = table, -1, 0
        holders, rows = table.holders[values], table.rows[values]
        differs = ((holders != holders[0]) | (rows != rows[0])).any(0)
        self.batched: list[bool] = (differs | (holders[0] >= 0)).tolist()
        in_rows = (holders >= 0).all(0)
        if in_rows.any():
            column = int(in_rows.argmax())
            order = np.lexsort((rows[:, column], holders[:, column]))
            if (order[1:] < order[:-1]).any():
                calls, holders, rows = calls[order], holders[order], rows[order]
        self.calls, self._holders, self._rows = calls, holders.T, rows.T

    def _first(self, column: int) -> Tensor:
        """An operand of the first call; for all of them, if that has them all."""
        holder = int(self._holders[column, 0])
        if holder >= 0:
            return self._table.results(holder).physical
        return self._table.single(holder, int(self._rows[column, 0]))

    def examples(self) -> list[tuple[Tensor, bool]]:
        """Of each operand a tensor, and whether it has several rows."""
        places = range(len(self.batched))
        return [(self._first(column), bool(self._holders[column, 0] >= 0)) for column in places]

    def loses(self) -> str:
        """Why the calls are faster one by one, if they are: the operands have to be copied."""
        for column, many in enumerate(self.batched):
            if many and not self._in_place(column):
                array = self._first(column).array
                size = array[0].size if self._holders[column, 0] >= 0 else array.size
                if size > MOST_COPIED:
                    return "its operands are large, and lie apart"
        return ""

    def repeat(self) -> None:
        """Take the first tensor, which all calls share, as one for each."""
        self._repeated = 0
        self.batched[0] = True

    def gathered(self) -> list[Operand]:
        """The operands, each with its examples along a first dimension where they are several."""
        return [self._operand(column, many) for column, many in enumerate(self.batched)]

    def _operand(self, column: int, many: bool) -> Operand:
        if not many:
            return Operand(self._first(column), False, ())
        if column == self._repeated:
            value = self._first(column)
            return Operand(ops.expand(value, (len(self.calls), *value.array.shape)), True, ())
        if self._in_place(column):
            rows = self._table.results(int(self._holders[column, 0]))
            every = self._rows[column]
            feeds = () if rows.group is None else (Feed(rows.group.reached, every, every),)
            return Operand(rows.physical, True, feeds)
        return self._side_by_side(self._holders[column], self._rows[column])

    def _in_place(self, column: int) -> bool:
        """Whether these are all rows of one tensor, in their order."""
        holders, rows = self._holders[column], self._rows[column]
        last = len(rows) - 1
        if holders[0] < 0 or rows[0] or rows[last] != last or (holders != holders[0]).any():
            return False
        whole = self._table.results(int(holders[0])).physical.array
        return len(whole) == len(rows) and bool((rows == np.arange(len(rows))).all())

    def _side_by_side(self, holders: np.ndarray, rows: np.ndarray) -> Operand:
        """Tensors, and rows of others, as the rows of one."""
        table = self._table
        self.copied += 1
        givers = np.where(holders < 0, OWN, holders)
        order = np.argsort(givers, kind="stable")
        givers = givers[order]
        pieces: list[Piece] = []
        begin = 0
        for end in [*(np.flatnonzero(givers[1:] != givers[:-1]) + 1).tolist(), len(order)]:
            calls, giver = order[begin:end], int(givers[begin])
            own = rows[calls]
            if giver == OWN:
                codes = _codes(holders[calls], own).tolist()
                places = {code: place for place, code in enumerate(dict.fromkeys(codes))}
                own = np.array([places[code] for code in codes])
                physical, node = _stacked([_of_code(table, code) for code in places])
                reached, output = None if node is None else node.reached, 0
            else:
                result = table.results(giver)
                physical, output = result.physical, result.output
                reached = None if result.group is None else result.group.reached
            pieces.append(Piece(physical, calls, own, reached, output))
            begin = end
        feeds = [Feed(p.reached, p.calls, p.rows) for p in pieces if p.reached is not None]
        return Operand(joined(pieces, len(rows)), True, feeds)


def _codes(holders: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Where values are that are no rows, each as one number."""
    return rows * 2 + (holders == COMMON)


def _of_code(table: Table, code: int) -> Tensor:
    return table.single(COMMON if code % 2 else OWN, code // 2)


def _stacked(tensors: list[Tensor]) -> tuple[Tensor, Stacked | None]:
    """Tensors as the rows of one, and its node, if it has one."""
    if state.interpreter is not None:
        return ops.stack(tensors), None
    whole = wrap(np.stack([t.array for t in tensors]))
    needs = state.grad_enabled and any(t.needs_grad for t in tensors)
    return whole, Stacked(tensors, whole) if needs else None


def parted(table: Table, calls: np.ndarray, values: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """The calls, and what they take, parted by what they share: weights, and what was made of nothing else.

    A tensor by itself is shared if it is a leaf to derive by, or if several calls have it.
    """
    groups = [(calls, values)]
    if len(calls) > 1:
        for column in range(values.shape[1]):
            groups = [part for group in groups for part in _parted(table, *group, column)]
    return groups


def _parted(
    table: Table, calls: np.ndarray, values: np.ndarray, column: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """The same by the operand in one column; those that share none are together."""
    holders, rows = table.holders[values[:, column]], table.rows[values[:, column]]
    if holders[0] >= 0 and (holders >= 0).all():
        return [(calls, values)]
    if (rows == rows[0]).all() and (holders == holders[0]).all():
        return [(calls, values)]
    single = np.flatnonzero(holders < 0)
    codes = _codes(holders[single], rows[single])
    keys, members, counts = np.unique(codes, return_inverse=True, return_counts=True)
    own = holders >= 0
    parts = []
    for place, (key, count) in enumerate(zip(keys.tolist(), counts.tolist(), strict=True)):
        chosen = single[members == place]
        tensor = _of_code(table, key)
        if count > 1 or (tensor.needs_grad and tensor.maker is None):
            parts.append((calls[chosen], values[chosen]))
        else:
            own[chosen] = True
    return [*parts, (calls[own], values[own])] if own.any() else parts
