"""Running numbered tasks on Numba's OpenMP pool, or here, from LLVM IR."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from fusegrad.compiler.writer import Val, Writer

# What a task is done with lies side by side: for the pool where to start, how many there are, and the step;
# for the workers slots and block, who started them on which core, and who of them found itself there.
_START, _COUNT, _STEP, _SLOTS, _BLOCK, _STARTER, _CORE, _FOUND = range(8)

_PARALLEL_FOR = "declare void @numba_parallel_for(ptr, ptr, ptr, ptr, ptr, i64, i64, i32)"

# Whether threads can say on which core they are, and be kept from one.
_CORES_ARE_KNOWN = sys.platform == "linux"

# `fusegrad_apart(thread)`: from now on a thread uses the cores that this one may use, less the one where
# this is. In one line, so that modules that are joined have it once. Where no core is left, the last call
# does nothing.
_APART = " ".join(
    """
define private void @fusegrad_apart(i64 %thread) noinline cold nounwind {
entry:
  %cores = alloca [16 x i64]
  %got = call i32 @sched_getaffinity(i32 0, i64 128, ptr %cores)
  %core = call i32 @sched_getcpu()
  %known = icmp sge i32 %got, 0
  %small = icmp ult i32 %core, 1024
  %both = and i1 %known, %small
  br i1 %both, label %set, label %done
set:
  %number = zext i32 %core to i64
  %place = lshr i64 %number, 6
  %word.at = getelementptr i64, ptr %cores, i64 %place
  %word = load i64, ptr %word.at
  %place.in.word = and i64 %number, 63
  %bit = shl i64 1, %place.in.word
  %mask = xor i64 %bit, -1
  %without = and i64 %word, %mask
  store i64 %without, ptr %word.at
  %kept = call i32 @pthread_setaffinity_np(i64 %thread, i64 128, ptr %cores)
  br label %done
done:
  ret void
}""".split()
)
_KEEPING_APART = {
    _APART,
    "declare i32 @sched_getcpu()",
    "declare i64 @pthread_self()",
    "declare i32 @sched_getaffinity(i32, i64, ptr)",
    "declare i32 @pthread_setaffinity_np(i64, i64, ptr)",
}


def task_name(symbol: str) -> str:
    """The function that does one task: `(number, slots, block)`."""
    return f"{symbol}.task"


def run_tasks(w: Writer, symbol: str, count: str) -> None:
    """Call `SYMBOL.task(i, slots, block)` for i below `count`.

    Slot 0 says how many threads there are; a single task, or a single thread, stays here.
    """
    w.declared.add(_PARALLEL_FOR)
    threads, several, pool = w.load_index("%slots", 0), w.name(), w.name()
    w.line(f"{several} = icmp sgt i64 {count}, 1")
    w.line(f"{pool} = icmp sgt i64 {threads}, 1")
    spread, alone = w.name(), w.name()
    w.line(f"{spread} = and i1 {several}, {pool}")
    w.line(f"{alone} = xor i1 {spread}, true")
    with w.when(spread):
        # The pool takes arrays of addresses to step through; the one given here steps from 0 by
        # 1, so that the "address" a worker sees is the number of its task.
        room = w.stack("[8 x i64]")
        places = [w.offset(room, str(place), "i64") for place in range(8)]
        given = ["i64 0", f"i64 {count}", "i64 1", "ptr %slots", "ptr %block"]
        if _CORES_ARE_KNOWN:
            w.declared |= _KEEPING_APART
            starter, core = w.name(), w.name()
            w.line(f"{starter} = call i64 @pthread_self()")
            w.line(f"{core} = call i32 @sched_getcpu()")
            given += [f"i64 {starter}", f"i32 {core}", "i64 0"]
        for place, value in zip(places, given, strict=False):
            w.line(f"store {value}, ptr {place}")
        workers = w.name()
        w.line(f"{workers} = trunc i64 {threads} to i32")
        w.line(
            f"call void @numba_parallel_for(ptr @{symbol}.worker, "
            f"ptr {places[_START]}, ptr {places[_COUNT]}, "
            f"ptr {places[_STEP]}, ptr {places[_SLOTS]}, i64 0, i64 1, i32 {workers})"
        )
        if _CORES_ARE_KNOWN:
            found = w.load_index(room, _FOUND)
            with w.when(w.compare("ne", Val(found, "i64"), w.constant(0, "i64")).text):
                w.line(f"call void @fusegrad_apart(i64 {found})")
    with w.when(alone), w.loop("0", count) as index:
        w.line(f"call void @{task_name(symbol)}(i64 {index}, ptr %slots, ptr %block)")


def worker_function(symbol: str) -> str:
    """`SYMBOL.worker`: the form in which Numba's pool calls a task."""
    return f"""define internal void @{symbol}.worker(ptr %args, ptr %sizes, ptr %steps, ptr %data) {{
  %number = load i64, ptr %args
  %slots = load ptr, ptr %data
  %second = getelementptr ptr, ptr %data, i64 {_BLOCK - _SLOTS}
  %block = load ptr, ptr %second{_looking() if _CORES_ARE_KNOWN else ""}
  call void @{task_name(symbol)}(i64 %number, ptr %slots, ptr %block)
  ret void
}}"""


def _looking() -> str:
    """What a thread of the pool does that finds itself on the core of the one that started the loop: it
    says so, and is kept from there before the next loop.

    Linux wakes it there while it takes all other cores for busy, and in a virtual machine it takes cores that
    sleep for such. Where threads sleep between loops they would meet again every time: on two cores each
    loop then takes three to four times as long, for seconds.
    """
    return f"""
  %core.at = getelementptr i64, ptr %data, i64 {_CORE - _SLOTS}
  %core = load i32, ptr %core.at
  %here = call i32 @sched_getcpu()
  %same = icmp eq i32 %here, %core
  br i1 %same, label %who, label %work
who:
  %starter.at = getelementptr i64, ptr %data, i64 {_STARTER - _SLOTS}
  %starter = load i64, ptr %starter.at
  %self = call i64 @pthread_self()
  %other = icmp ne i64 %self, %starter
  br i1 %other, label %found, label %work
found:
  %found.at = getelementptr i64, ptr %data, i64 {_FOUND - _SLOTS}
  store atomic i64 %self, ptr %found.at monotonic, align 8
  br label %work
work:"""


def function(signature: str, w: Writer, attributes: str = "nounwind") -> str:
    """The text of a function from what was written."""
    return "\n".join([f"define {signature} {attributes} {{", "entry:", *w.entry, *w.lines, "  ret void", "}"])


def module(declared: set[str], functions: Sequence[str]) -> str:
    """The text of a module: its declarations, then its functions."""
    return "\n\n".join(["\n".join(sorted(declared)), *functions])
