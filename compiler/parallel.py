"""Running numbered tasks on Numba's OpenMP pool, or here, from LLVM IR."""

from __future__ import annotations

from collections.abc import Sequence

from fusegrad.compiler.writer import Writer

PARALLEL_FOR = "declare void @numba_parallel_for(ptr, ptr, ptr, ptr, ptr, i64, i64, i32)"


def task_name(symbol: str) -> str:
    """The function that does one task: `(number, slots, block)`."""
    return f"{symbol}.task"


def run_tasks(w: Writer, symbol: str, count: str) -> None:
    """Call `SYMBOL.task(i, slots, block)` for i below `count`.

    Slot 0 says how many threads there are; a single task, or a single thread, stays here.
    """
    w.declared.add(PARALLEL_FOR)
    threads, several, pool = w.load_index("%slots", 0), w.name(), w.name()
    w.line(f"{several} = icmp sgt i64 {count}, 1")
    w.line(f"{pool} = icmp sgt i64 {threads}, 1")
    spread, alone = w.name(), w.name()
    w.line(f"{spread} = and i1 {several}, {pool}")
    w.line(f"{alone} = xor i1 {spread}, true")
    with w.when(spread):
        # The pool takes arrays of addresses to step through; the one given here steps from 0 by
        # 1, so that the "address" a worker sees is the number of its task.
        room = w.stack("[6 x i64]")
        for place, value in enumerate(("0", count, "1")):
            w.line(f"store i64 {value}, ptr {w.offset(room, str(place), 'i64')}")
        w.line(f"store ptr %slots, ptr {w.offset(room, '3', 'i64')}")
        w.line(f"store ptr %block, ptr {w.offset(room, '4', 'i64')}")
        workers = w.name()
        w.line(f"{workers} = trunc i64 {threads} to i32")
        sizes, steps, data = (w.offset(room, str(i), "i64") for i in (1, 2, 3))
        w.line(
            f"call void @numba_parallel_for(ptr @{symbol}.worker, ptr {room}, ptr {sizes}, ptr {steps}, "
            f"ptr {data}, i64 0, i64 1, i32 {workers})"
        )
    with w.when(alone), w.loop("0", count) as index:
        w.line(f"call void @{task_name(symbol)}(i64 {index}, ptr %slots, ptr %block)")


def worker_function(symbol: str) -> str:
    """`SYMBOL.worker`: the form in which Numba's pool calls a task."""
    return f"""define internal void @{symbol}.worker(ptr %args, ptr %sizes, ptr %steps, ptr %data) {{
  %number = load i64, ptr %args
  %slots = load ptr, ptr %data
  %second = getelementptr ptr, ptr %data, i64 1
  %block = load ptr, ptr %second
  call void @{task_name(symbol)}(i64 %number, ptr %slots, ptr %block)
  ret void
}}"""


def function(signature: str, w: Writer, attributes: str = "nounwind") -> str:
    """The text of a function from what was written."""
    return "\n".join([f"define {signature} {attributes} {{", "entry:", *w.entry, *w.lines, "  ret void", "}"])


def module(declared: set[str], functions: Sequence[str]) -> str:
    """The text of a module: its declarations, then its functions."""
    return "\n\n".join(["\n".join(sorted(declared)), *functions])
