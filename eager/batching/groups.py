"""A group of calls of one kind, done as one: operands side by side, and what the kind does for a batch."""

from __future__ import annotations

import functools

import numpy as np

from fusegrad.eager.batching.backward import Group, Operand
from fusegrad.eager.batching.columns import Columns, parted
from fusegrad.eager.batching.kinds import Kind
from fusegrad.eager.batching.report import Report
from fusegrad.eager.batching.table import Rows, Table
from fusegrad.eager.core.op import EXPLAINED
from fusegrad.eager.core.state import state


class Groups:
    """Does groups of calls. report: told of each."""

    def __init__(self, table: Table, report: Report) -> None:
        self._table, self._report = table, report

    def run(self, kind: Kind, calls: np.ndarray) -> None:
        """Do calls of one kind, whose operands are there: as few ops as that takes."""
        before, state.grad_enabled = state.grad_enabled, kind.mode
        values = self._table.taken(calls)
        try:
            for group, taken in parted(self._table, calls, values) if kind.parts else [(calls, values)]:
                self._run(kind, group, taken)
        finally:
            state.grad_enabled = before

    def _run(self, kind: Kind, calls: np.ndarray, values: np.ndarray) -> None:
        size = len(calls)
        if size == 1:
            self._one_by_one(kind, calls, "no other call was of its kind, with its operands there")
            return
        columns = Columns(self._table, calls, values)
        if not any(columns.batched):
            needs_grad = any(result.needs_grad for result in kind.results)
            if kind.is_view and needs_grad and self._table.is_held(columns.calls):
                self._one_by_one(kind, columns.calls, "each of these views is derived to by itself")
                return
            if kind.is_view or not needs_grad:
                self._shared(kind, columns)
                return
            columns.repeat()  # each result has a place of its own on the graph
        why = columns.loses() or kind.cannot(columns.examples(), size)
        if why:
            self._one_by_one(kind, columns.calls, why)
            return
        operands = columns.gathered() + [Operand(tensor, False, ()) for tensor in kind.shared]
        batched = columns.batched + [False] * len(kind.shared)
        try:
            made = kind.as_one(batched, [o.value for o in operands], size)
        except EXPLAINED:  # the calls themselves say why, each by itself
            self._one_by_one(kind, columns.calls, "its op cannot be done for these as one")
            return
        group = None
        if state.interpreter is None and any(m.needs_grad for m in made):
            compute = functools.partial(kind.as_one, batched)
            group = Group(compute, operands, kind.saved(operands), made, size)
            made = group.in_front_of(made)
        shared = [o.value for o in operands if not o.many]
        self._report.costs.group(kind, size, columns.copied, shared, group is not None)
        self._table.hold(
            self._table.first_results(columns.calls), [Rows(m, group, k) for k, m in enumerate(made)]
        )
        self._report.batch(kind.name, size)

    def _shared(self, kind: Kind, columns: Columns) -> None:
        """Calls that take the same tensors are done once, where nobody can tell one result from another."""
        made = kind.alone([tensor for tensor, _ in columns.examples()])
        self._report.costs.group(kind, len(columns.calls), 0, (), False)
        self._table.share(self._table.first_results(columns.calls), made)
        self._report.batch(kind.name, len(columns.calls))

    def _one_by_one(self, kind: Kind, calls: np.ndarray, why: str) -> None:
        table = self._table
        for call in calls.tolist():
            made = kind.alone([table.value(value) for value in table.operands[call]])
            table.give(table.firsts[call], made)
        self._report.costs.alone(kind, len(calls), any(m.needs_grad for m in made))
        self._report.alone(kind.name, why, len(calls))
