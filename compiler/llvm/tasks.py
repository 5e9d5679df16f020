"""Tasks of kernels, which several threads share, in LLVM IR.

A loop that is worth it is cut into numbered tasks, so that what is computed does not depend on the number
of threads. `fusegrad_share` has them done: by the team of the call (`compiler/runtime/thread_pool.py`), or
here.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from fusegrad.compiler.llvm.function_writer import FunctionWriter, Word
from fusegrad.compiler.llvm.ir_writer import Writer

# Slot 0 of a native call names its team, or nobody. Of what a team has in common, in words of 8 bytes,
# kernels read how many threads it has, and the function that gives it a job.
THREADS, GIVE = 0, 1

# The functions are not optimised, which would take longer than most kernels' compilation.
PLAINLY = "noinline optnone nounwind"


def sequence() -> FunctionWriter:
    """`fusegrad_sequence(table, first, last, slots)`: calls the functions of a table, each with its block."""
    f = FunctionWriter(
        "fusegrad_sequence", {"table": "ptr", "first": "i64", "last": "i64", "slots": "ptr"}, private=True
    )
    table, first, last, slots = f.given
    begin = table.at(first * 2)
    with f.loop(last - first) as i:
        entry = begin.at(i * 2)
        f.call_address(entry.load("ptr"), slots, entry.load("ptr", 1))
    return f


def _share() -> FunctionWriter:
    """In the modules of kernels, `fusegrad_share(task, tasks, slots, block)`: does the tasks, with the team
    that slot 0 names if there is one and several tasks.
    """
    takes = {"task": "ptr", "tasks": "i64", "slots": "ptr", "block": "ptr"}
    f = FunctionWriter("fusegrad_share", takes, attributes=PLAINLY, private=True)
    task, tasks, slots, block = f.given
    team = slots.load("ptr")
    with f.if_((tasks > 1) & ~team.is_null):
        f.call_address(team.load("ptr", GIVE), team, task, tasks, slots, block)
        f.return_()
    with f.loop(tasks) as number:
        f.call_address(task, number, slots, block)
    return f


@functools.cache
def _share_text() -> str:
    """In one line, so that modules that are joined have it once."""
    return " ".join(_share().text().split())


_ALONE = "@fusegrad_alone = private constant i64 1"


def task_name(symbol: str) -> str:
    """The function that does one task: `(number, slots, block)`."""
    return f"{symbol}.task"


def run_tasks(w: Writer, symbol: str, count: str) -> None:
    """Call `SYMBOL.task(i, slots, block)` for i below `count`."""
    w.declared.add(_share_text())
    w.line(f"call void @fusegrad_share(ptr @{task_name(symbol)}, i64 {count}, ptr %slots, ptr %block)")


def share_tasks(f: FunctionWriter, symbol: str, count: Word) -> None:
    """The same in a function of words, of `slots` and a `block`."""
    f.declared.add(_share_text())
    f.line(f"call void @fusegrad_share(ptr @{task_name(symbol)}, {count}, ptr %slots, ptr %block)")


def threads_of_team(w: Writer) -> str:
    """How many threads share tasks here."""
    w.declared.add(_ALONE)
    team, alone, place = w.name("p"), w.name(), w.name("p")
    w.line(f"{team} = load ptr, ptr %slots")
    w.line(f"{alone} = icmp eq ptr {team}, null")
    known = w.offset(team, str(THREADS), "i64")
    w.line(f"{place} = select i1 {alone}, ptr @fusegrad_alone, ptr {known}")
    return w.load_index(place, 0)


def function(signature: str, w: Writer, attributes: str = "nounwind") -> str:
    """The text of a function from what was written."""
    return "\n".join([f"define {signature} {attributes} {{", "entry:", *w.entry, *w.lines, "  ret void", "}"])


def module(declared: set[str], functions: Sequence[str]) -> str:
    """The text of a module: its declarations, then its functions."""
    return "\n\n".join(["\n".join(sorted(declared)), *functions])
