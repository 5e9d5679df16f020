"""Who finds and adds calls of batched programs natively, once there are many (`native/waiting.py`)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

# After so many calls native code is worth having; after so many where what compiles it has to be loaded.
FEWEST, WORTH_LOADING = 1 << 12, 1 << 16


class _Natively:
    """load: begins to compile it, beside the program, once. make: makes of a table what finds the kinds and
    the operands of calls in it, what adds calls, and what has ops wait; None where these cannot be had.
    order: finds the order of calls (`agenda.py`).
    """

    load: Callable[[], object] | None = None
    make: Callable[[Any], tuple[Callable[..., Any], ...] | None] | None = None
    order: Callable[..., int] | None = None
    calls = 0

    def noted(self, calls: int) -> None:
        """So many calls more have waited."""
        self.calls += calls
        is_loaded = "fusegrad.compiler.llvm.llvm_jit" in sys.modules
        if self.load is not None and self.calls >= (FEWEST if is_loaded else WORTH_LOADING):
            load, self.load = self.load, None
            load()

    def ways(self, table: Any) -> tuple[Any, ...]:
        """What finds calls in a table, if anything does so natively, what adds to it, and what has ops wait
        in it, if anything does so natively.
        """
        native = None if self.make is None else self.make(table)
        return native or (None, table.add, None)


natively = _Natively()
