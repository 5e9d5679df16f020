"""Running numbered tasks on Numba's OpenMP pool, or here, from LLVM IR.

Each thread has a range of the tasks, so that it comes back to the same part of the data with each kernel. One
that is done takes tasks from the ends of the next threads' ranges: those may have been asleep, and wake up
late.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from fusegrad.compiler.writer import Writer

# What threads read lies side by side: for the pool where to start, how many ranges there are, and the step;
# slots, block and the task, how many tasks there are, and how many of each range are taken; who started them
# on which core, and who of them found itself there.
_PLACES = 11
_START, _RANGES, _STEP, _SLOTS, _BLOCK, _TASK, _TASKS, _TAKEN, _STARTER, _CORE, _FOUND = range(_PLACES)
# Of each range two numbers, on lines of their own: of all tasks taken, and of those taken from its end.
_RANGE_WORDS = 16
# How many other threads' ranges a thread helps with.
_HELPED = 3

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


def _given(place: int, value: str) -> str:
    """Writes what threads read."""
    return f"""
  %place{place} = getelementptr i64, ptr %room, i64 {place}
  store {value}, ptr %place{place}"""


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

# The functions are not optimised, which would take longer than most kernels' compilation.
_PLAINLY = "noinline optnone nounwind"

# `fusegrad_work`, as Numba's pool calls it: the tasks of a range, `args` says of which, and what is left of
# others. The own range is gone through from the start, others from the end, so that none is done twice.
_WORK = _one_line(f"""
define private void @fusegrad_work(ptr %args, ptr %sizes, ptr %steps, ptr %data) {_PLAINLY} {{
entry:
  %mine = load i64, ptr %args
  %slots = load ptr, ptr %data {_field("block", _BLOCK, "ptr")} {_field("task", _TASK, "ptr")}
  {_field("tasks", _TASKS, "i64")} {_field("taken", _TAKEN, "ptr")} {_field("threads", _RANGES, "i64")}
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
define private void @fusegrad_apart(i64 %thread) noinline optnone nounwind {
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


_STARTED_HERE = f"""
  %starter = call i64 @pthread_self()
  %core = call i32 @sched_getcpu()
  {_given(_STARTER, "i64 %starter")} {_given(_CORE, "i32 %core")} {_given(_FOUND, "i64 0")}"""
_KEEP_APART = f"""
  %found = load i64, ptr %place{_FOUND}
  %some = icmp ne i64 %found, 0
  br i1 %some, label %apart, label %done
apart:
  call void @fusegrad_apart(i64 %found)"""

# `fusegrad_share(task, tasks, slots, block)`: does the tasks, on the pool if there are several tasks and
# threads; slot 0 says how many threads. The pool takes arrays of addresses to step through; the one given
# here steps from 0 by 1, so that the "address" a thread sees is the number of its range.
_SHARE = _one_line(f"""
define private void @fusegrad_share(ptr %task, i64 %tasks, ptr %slots, ptr %block) {_PLAINLY} {{
entry:
  %room = alloca [{_PLACES} x i64]
  %threads = load i64, ptr %slots
  %several = icmp sgt i64 %tasks, 1
  %pool = icmp sgt i64 %threads, 1
  %spread = and i1 %several, %pool
  br i1 %spread, label %ranges, label %here
ranges:
  %taken = alloca [{_RANGE_WORDS} x i64], i64 %threads, align {8 * _RANGE_WORDS}
  br label %clear
clear:
  %range = phi i64 [ 0, %ranges ], [ %range.next, %clear ]
  %words = getelementptr [{_RANGE_WORDS} x i64], ptr %taken, i64 %range
  store <2 x i64> zeroinitializer, ptr %words
  %range.next = add i64 %range, 1
  %unclear = icmp slt i64 %range.next, %threads
  br i1 %unclear, label %clear, label %start
start:
  {_given(_START, "i64 0")} {_given(_RANGES, "i64 %threads")} {_given(_STEP, "i64 1")}
  {_given(_SLOTS, "ptr %slots")} {_given(_BLOCK, "ptr %block")} {_given(_TASK, "ptr %task")}
  {_given(_TASKS, "i64 %tasks")} {_given(_TAKEN, "ptr %taken")} {_STARTED_HERE if _CORES_ARE_KNOWN else ""}
  %workers = trunc i64 %threads to i32
  call void @numba_parallel_for(ptr @fusegrad_work, ptr %place{_START}, ptr %place{_RANGES},
    ptr %place{_STEP}, ptr %place{_SLOTS}, i64 0, i64 1, i32 %workers)
  {_KEEP_APART if _CORES_ARE_KNOWN else ""}
  br label %done
here:
  %first = icmp sgt i64 %tasks, 0
  br i1 %first, label %one, label %done
one:
  %number = phi i64 [ 0, %here ], [ %number.next, %one ]
  call void %task(i64 %number, ptr %slots, ptr %block)
  %number.next = add i64 %number, 1
  %more = icmp slt i64 %number.next, %tasks
  br i1 %more, label %one, label %done
done:
  ret void
}}""")

_SHARING = {
    "declare void @numba_parallel_for(ptr, ptr, ptr, ptr, ptr, i64, i64, i32)",
    _WORK,
    _SHARE,
    *(_KEEPING_APART if _CORES_ARE_KNOWN else ()),
}


def task_name(symbol: str) -> str:
    """The function that does one task: `(number, slots, block)`."""
    return f"{symbol}.task"


def run_tasks(w: Writer, symbol: str, count: str) -> None:
    """Call `SYMBOL.task(i, slots, block)` for i below `count`."""
    w.declared |= _SHARING
    w.line(f"call void @fusegrad_share(ptr @{task_name(symbol)}, i64 {count}, ptr %slots, ptr %block)")


def function(signature: str, w: Writer, attributes: str = "nounwind") -> str:
    """The text of a function from what was written."""
    return "\n".join([f"define {signature} {attributes} {{", "entry:", *w.entry, *w.lines, "  ret void", "}"])


def module(declared: set[str], functions: Sequence[str]) -> str:
    """The text of a module: its declarations, then its functions."""
    return "\n\n".join(["\n".join(sorted(declared)), *functions])
