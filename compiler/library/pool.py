"""The threads of a library: those of a process's pool (`compiler/runtime/team_code.py`), begun and ended by
calls of `NAME_threads`.
"""

from __future__ import annotations

import re

from fusegrad.compiler.llvm.function_writer import FunctionWriter
from fusegrad.compiler.runtime import team_code

# The most threads that a call may have.
MOST_THREADS = 64


def running(name: str) -> str:
    """Where it stands how many threads a call has."""
    return f"@{name}.running"


def pool_text(name: str, architecture: str) -> str:
    """LLVM IR of the team, and of `int32_t NAME_threads(int32_t count)`, which ends the threads that there
    are, starts others, and says how many a call has from now on.
    """
    words = team_code.RANGES + team_code.LINE * MOST_THREADS
    memory = {
        "@fusegrad_common": f"[{words} x i64] zeroinitializer, align 128",
        f"@{name}.ids": f"[{MOST_THREADS} x i64] zeroinitializer",
        running(name): "i64 1",
    }
    text = team_code.team_module(architecture, [_threads(name)])
    for place, what in memory.items():
        text = text.replace(f"{place} = external global i64", f"{place} = internal global {what}")
    return re.sub(r"(?m)^define (?!private)(\S+ @fusegrad_)", r"define internal \1", text)


def _threads(name: str) -> FunctionWriter:
    f = FunctionWriter(f"{name}_threads", {"count": "i32"}, "i32", team_code.PLAINLY)
    (count,) = f.given
    wanted = count.to("i64")
    wanted = f.select(
        wanted < 1, f.number(1), f.select(wanted > MOST_THREADS, f.number(MOST_THREADS), wanted)
    )
    ids, there = f.symbol(f"{name}.ids", "i64"), f.symbol(f"{name}.running", "i64")
    with f.if_(there.load() > 1):
        f.call("fusegrad_stop", ids, there.load() - 1)
        f.symbol("fusegrad_common", "i64").at(team_code.ENDING).store(0)
    there.store(1)
    with f.if_(wanted > 1):
        there.store(f.call("fusegrad_start", ids, wanted - 1, gives="i64") + 1)
    f.return_(there.load().to("i32"))
    return f
