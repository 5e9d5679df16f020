"""Running numbered tasks on Numba's OpenMP pool, or here, from LLVM IR.

Each thread has a range of the tasks, so that it comes back to the same part of the data with each kernel. One
that is done takes tasks from the ends of the next threads' ranges: those may have been asleep, and wake up
late.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from fusegrad.compiler.writer import Val, Writer

# What threads read lies side by side: for the pool where to start, how many ranges there are, and the step;
# slots and block, how many tasks there are, and how many of each range are taken; who started them on which
# core, and who of them found itself there.
_PLACES = 10
_START, _RANGES, _STEP, _SLOTS, _BLOCK, _TASKS, _TAKEN, _STARTER, _CORE, _FOUND = range(_PLACES)
# Of each range two numbers, on lines of their own: of all tasks taken, and of those taken from its end.
_RANGE_WORDS = 16
# How many other threads' ranges a thread helps with.
_HELPED = 3

_PARALLEL_FOR = "declare void @numba_parallel_for(ptr, ptr, ptr, ptr, ptr, i64, i64, i32)"

# Whether threads can say on which core they are, and be kept from one.
_CORES_ARE_KNOWN = sys.platform == "linux"


def _one_line(text: str) -> str:
    """A function in one line, so that modules that are joined have it once."""
    return " ".join(text.split())


def _field(name: str, place: int, type_: str) -> str:
    """Reads what threads read into `%NAME`."""
    return f"""
  %{name}.at = getelementptr i64, ptr %data, i64 {place - _SLOTS}
  %{name} = load {type_}, ptr %{name}.at"""


# A thread of the pool that finds itself on the core of the one that started the loop says so, and is kept
# from there before the next loop. Linux wakes it there while it takes all other cores for busy, and in a
# virtual machine it takes cores that sleep for such. Where threads sleep between loops they would meet again
# every time: on two cores each loop then takes three to four times as long, for seconds.
_LOOK = f"""{_field("core", _CORE, "i32")}
  %here = call i32 @sched_getcpu()
  %same = icmp eq i32 %here, %core
  br i1 %same, label %who, label %ranges
who: {_field("starter", _STARTER, "i64")}
  %self = call i64 @pthread_self()
  %other = icmp ne i64 %self, %starter
  br i1 %other, label %found, label %ranges
found:
  %found.at = getelementptr i64, ptr %data, i64 {_FOUND - _SLOTS}
  store atomic i64 %self, ptr %found.at monotonic, align 8
  br label %ranges"""

# `fusegrad_work(task, args, data)`: the tasks of a range, `args` says of which, and what is left of others.
# Its own range is gone through from the start, others from the end, so that no two threads do the same.
_WORK = _one_line(f"""
define private void @fusegrad_work(ptr %task, ptr %args, ptr %data) noinline nounwind {{
entry:
  %mine = load i64, ptr %args
  %slots = load ptr, ptr %data{_field("block", _BLOCK, "ptr")}{_field("tasks", _TASKS, "i64")}
  {_field("taken", _TAKEN, "ptr")}{_field("threads", _RANGES, "i64")}
  {_LOOK if _CORES_ARE_KNOWN else "br label %ranges"}
ranges:
  br label %range
range:
  %turn = phi i64 [ 0, %ranges ], [ %turn.next, %next ]
  %from.mine = add i64 %mine, %turn
  %number = urem i64 %from.mine, %threads
  %behind = add i64 %number, 1
  %start.part = mul i64 %number, %tasks
  %end.part = mul i64 %behind, %tasks
  %start = udiv i64 %start.part, %threads
  %end = udiv i64 %end.part, %threads
  %length = sub i64 %end, %start
  %place = mul i64 %number, {_RANGE_WORDS}
  %all.at = getelementptr i64, ptr %taken, i64 %place
  %back.at = getelementptr i64, ptr %all.at, i64 1
  %own = icmp eq i64 %turn, 0
  br label %take
take:
  %done = phi i64 [ 0, %range ], [ %done.next, %one ]
  %before = atomicrmw add ptr %all.at, i64 1 monotonic
  %more = icmp ult i64 %before, %length
  br i1 %more, label %which, label %next
which:
  br i1 %own, label %forward, label %backward
forward:
  %first = add i64 %start, %done
  br label %one
backward:
  %back = atomicrmw add ptr %back.at, i64 1 monotonic
  %back.next = add i64 %back, 1
  %last = sub i64 %end, %back.next
  br label %one
one:
  %which.task = phi i64 [ %first, %forward ], [ %last, %backward ]
  call void %task(i64 %which.task, ptr %slots, ptr %block)
  %done.next = add i64 %done, 1
  br label %take
next:
  %turn.next = add i64 %turn, 1
  %exists = icmp ult i64 %turn.next, %threads
  %helped = icmp ule i64 %turn.next, {_HELPED}
  %again = and i1 %exists, %helped
  br i1 %again, label %range, label %end.of.all
end.of.all:
  ret void
}}""")

# `fusegrad_apart(thread)`: from now on a thread uses the cores that this one may use, less the one where
# this is. Where no core is left, the last call does nothing.
_APART = _one_line("""
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
}""")
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
    threads, several, pool = w.load_index("%slots", 0), w.name(), w.name()
    w.line(f"{several} = icmp sgt i64 {count}, 1")
    w.line(f"{pool} = icmp sgt i64 {threads}, 1")
    spread, alone = w.name(), w.name()
    w.line(f"{spread} = and i1 {several}, {pool}")
    w.line(f"{alone} = xor i1 {spread}, true")
    with w.when(spread):
        _share_tasks(w, symbol, count, threads)
    with w.when(alone), w.loop("0", count) as index:
        w.line(f"call void @{task_name(symbol)}(i64 {index}, ptr %slots, ptr %block)")


def _share_tasks(w: Writer, symbol: str, count: str, threads: str) -> None:
    """Call the tasks on the pool's threads."""
    w.declared |= {_PARALLEL_FOR, _WORK, *(_KEEPING_APART if _CORES_ARE_KNOWN else ())}
    taken = w.name("p")
    w.line(f"{taken} = alloca [{_RANGE_WORDS} x i64], i64 {threads}, align {8 * _RANGE_WORDS}")
    with w.loop("0", threads) as number:
        words = w.offset(taken, w.index("mul", number, str(_RANGE_WORDS)), "i64")
        w.line(f"store <2 x i64> zeroinitializer, ptr {words}")
    room = w.stack(f"[{_PLACES} x i64]")
    places = [w.offset(room, str(place), "i64") for place in range(_PLACES)]
    # The pool takes arrays of addresses to step through; the one given here steps from 0 by 1, so that the
    # "address" a thread sees is the number of its range.
    given = ["i64 0", f"i64 {threads}", "i64 1", "ptr %slots", "ptr %block", f"i64 {count}", f"ptr {taken}"]
    if _CORES_ARE_KNOWN:
        starter, core = w.name(), w.name()
        w.line(f"{starter} = call i64 @pthread_self()")
        w.line(f"{core} = call i32 @sched_getcpu()")
        given += [f"i64 {starter}", f"i32 {core}", "i64 0"]
    for place, value in zip(places, given, strict=False):
        w.line(f"store {value}, ptr {place}")
    workers = w.name()
    w.line(f"{workers} = trunc i64 {threads} to i32")
    w.line(
        f"call void @numba_parallel_for(ptr @{symbol}.worker, ptr {places[_START]}, "
        f"ptr {places[_RANGES]}, ptr {places[_STEP]}, ptr {places[_SLOTS]}, i64 0, i64 1, i32 {workers})"
    )
    if _CORES_ARE_KNOWN:
        found = w.load_index(room, _FOUND)
        with w.when(w.compare("ne", Val(found, "i64"), w.constant(0, "i64")).text):
            w.line(f"call void @fusegrad_apart(i64 {found})")


def worker_function(symbol: str) -> str:
    """`SYMBOL.worker`: the form in which Numba's pool calls what does the tasks."""
    return f"""define internal void @{symbol}.worker(ptr %args, ptr %sizes, ptr %steps, ptr %data) {{
  call void @fusegrad_work(ptr @{task_name(symbol)}, ptr %args, ptr %data)
  ret void
}}"""


def function(signature: str, w: Writer, attributes: str = "nounwind") -> str:
    """The text of a function from what was written."""
    return "\n".join([f"define {signature} {attributes} {{", "entry:", *w.entry, *w.lines, "  ret void", "}"])


def module(declared: set[str], functions: Sequence[str]) -> str:
    """The text of a module: its declarations, then its functions."""
    return "\n\n".join(["\n".join(sorted(declared)), *functions])
