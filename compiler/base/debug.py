"""What the environment asks of the compiler while somebody looks at it.

`FUSEGRAD_DEBUG` is one level that shows more and more of what happens, on standard error:
1 captures and guard failures; 2 also graphs and the checks of reads; 3 also kernels; 4 also LLVM IR; 5 also
assembly. From 1 on, and with `FUSEGRAD_FAULTS=raise`, the compiler's own faults are raised.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from fusegrad.eager.core.handlers import handler_raised


def level() -> int:
    """The level asked for; 0 shows nothing."""
    value = os.environ.get("FUSEGRAD_DEBUG", "0")
    return int(value) if value.isdigit() else 0


def faults_are_raised() -> bool:
    """Whether a fault of the compiler is raised. Else it must not become one of the user's program: whoever
    meets it takes the slower way. What a signal handler has raised meanwhile is no fault of ours.
    """
    return level() > 0 or os.environ.get("FUSEGRAD_FAULTS") == "raise" or handler_raised()


def show(least: int, title: str, text: Callable[[], str]) -> None:
    """Print `text()` under `title` where the level is at least `least`."""
    if level() >= least:
        print(f"[fusegrad] {title}\n{text()}", file=sys.stderr)
