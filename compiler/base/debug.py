"""`FUSEGRAD_DEBUG`: one level that shows more and more of what happens, on standard error.

1 captures and guard failures; 2 also graphs and the checks of reads; 3 also kernels; 4 also LLVM IR; 5 also
assembly.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable


def level() -> int:
    """The level asked for; 0 shows nothing."""
    value = os.environ.get("FUSEGRAD_DEBUG", "0")
    return int(value) if value.isdigit() else 0


def show(least: int, title: str, text: Callable[[], str]) -> None:
    """Print `text()` under `title` where the level is at least `least`."""
    if level() >= least:
        print(f"[fusegrad] {title}\n{text()}", file=sys.stderr)
