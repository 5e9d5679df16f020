"""Running numbered tasks on Numba's OpenMP pool, or here, from LLVM IR.

A native call whose kernels have work to share brings a team together once (`fusegrad_team`): one thread
leads and calls the kernels in turn, the others wait for what these share. Of each job every thread has a
range of the tasks, so that it comes back to the same part of the data with each kernel. One that is done
takes tasks from the ends of the others' ranges: those may have been asleep, and come late or not at all.
Nobody waits for a thread that has taken no task.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence

from fusegrad.compiler.writer import Writer

# What a team has in common, in words of 8 bytes, on lines of their own where several threads write: its
# state; the job, which is a function of so many tasks with its arguments; how many threads there are, the
# function that gives them a job, what the leader runs, who brought the team together on which core, and what
# the pool wants to be told; who found itself on that core, and the leader's number; for each thread's range
# how many of its tasks are taken, and how many of these from its end.
_LINE = 16
_STATE = 0
_TASK, _TASKS, _SLOTS, _BLOCK = range(_LINE, _LINE + 4)
_THREADS, _GIVE, _TABLE, _LAST, _ROOM, _STARTER, _CORE = range(2 * _LINE, 2 * _LINE + 7)
_ARGUMENT, _COUNT, _STEP = range(_CORE + 1, _CORE + 4)
_FOUND, _LEADER = 3 * _LINE, 3 * _LINE + 1
_RANGES = 4 * _LINE

# The state: whether there are tasks to take, whether all is done, how many threads (but for the leader) are
# at the job, and the job's number.
_OPEN, _DONE, _INSIDE, _NUMBER_BITS = 1, 2, 1 << 8, 32
_ALL_INSIDE = (1 << _NUMBER_BITS) - _INSIDE

_NOBODY = -1

# How many turns a thread waits with its core to itself, longer than what is serial between parallel kernels
# mostly takes; in how many more it offers the core to others; and for how many microseconds it sleeps in each
# turn after that.
_TURNS, _YIELDS, _SLEEP = 2000, 500, 50

# Whether threads can say on which core they are, and be kept from one.
_CORES_ARE_KNOWN = sys.platform == "linux"


def _field(name: str, place: int, type_: str = "i64") -> str:
    """Reads what the team has in common into `%NAME`."""
    return f"""
  %{name}.at = getelementptr i64, ptr %team, i64 {place}
  %{name} = load {type_}, ptr %{name}.at"""


def _given(place: int, value: str) -> str:
    """Writes what the team has in common."""
    return f"""
  %place{place} = getelementptr i64, ptr %team, i64 {place}
  store {value}, ptr %place{place}"""


# The functions are not optimised, which would take longer than most kernels' compilation.
_PLAINLY = "noinline optnone nounwind"

# `fusegrad_pause(turn)`: waits a little, with what the machine and the system have for it.
_X86 = "declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"
_ARM = "declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"
_PAUSES = {"x86_64": _X86, "AMD64": _X86, "aarch64": _ARM, "arm64": _ARM}
_INSTRUCTION, _SPIN = _PAUSES.get(platform.machine(), ("", ""))
_SYSTEM = hasattr(os, "sched_yield")
_PAUSING = {_INSTRUCTION, *(("declare i32 @sched_yield()", "declare i32 @usleep(i32)") if _SYSTEM else ())}
_PAUSE = f"""
define private void @fusegrad_pause(i64 %turn) {_PLAINLY} {{
entry:
  %short = icmp ule i64 %turn, {_TURNS}
  br i1 %short, label %pause, label %others
pause:
  {_SPIN}
  ret void
others:
  %long = icmp ugt i64 %turn, {_TURNS + _YIELDS}
  br i1 %long, label %sleep, label %yield
yield:
  {"%yielded = call i32 @sched_yield()" if _SYSTEM else _SPIN}
  ret void
sleep:
  {f"%slept = call i32 @usleep(i32 {_SLEEP})" if _SYSTEM else _SPIN}
  ret void
}}"""

# `fusegrad_pauses(count)`: turns of a loop that only pauses, as OpenMP's threads wait for their next call.
PAUSES = f"""
{_INSTRUCTION}
define void @fusegrad_pauses(i64 %count) {_PLAINLY} {{
entry:
  br label %turn
turn:
  %number = phi i64 [ 0, %entry ], [ %next, %turn ]
  {_SPIN}
  %next = add i64 %number, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %turn, label %done
done:
  ret void
}}"""

# `fusegrad_tasks(team, mine)`: the tasks of a range, and what is left of others. The own range is gone
# through from the start, others from the end, so that none is done twice.
_TASKS_OF = f"""
define private void @fusegrad_tasks(ptr %team, i64 %mine) {_PLAINLY} {{
entry:
  {_field("task", _TASK, "ptr")} {_field("tasks", _TASKS)} {_field("slots", _SLOTS, "ptr")}
  {_field("block", _BLOCK, "ptr")} {_field("threads", _THREADS)}
  br label %range
range:
  %turn = phi i64 [ 0, %entry ], [ %turn.next, %next ]
  %from.mine = add i64 %mine, %turn
  %number = urem i64 %from.mine, %threads
  %behind = add i64 %number, 1
  %start.part = mul i64 %number, %tasks
  %end.part = mul i64 %behind, %tasks
  %start = udiv i64 %start.part, %threads
  %end = udiv i64 %end.part, %threads
  %length = sub i64 %end, %start
  %line = mul i64 %number, {_LINE}
  %place = add i64 %line, {_RANGES}
  %all.at = getelementptr i64, ptr %team, i64 %place
  %back.at = getelementptr i64, ptr %all.at, i64 1
  %own = icmp eq i64 %turn, 0
  br label %look
look:
  %done = phi i64 [ 0, %range ], [ %done.next, %one ]
  %known = load atomic i64, ptr %all.at monotonic, align 8
  %some = icmp ult i64 %known, %length
  br i1 %some, label %take, label %next
take:
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
  br label %look
next:
  %turn.next = add i64 %turn, 1
  %others = icmp ult i64 %turn.next, %threads
  br i1 %others, label %range, label %all
all:
  ret void
}}"""

# `fusegrad_give(team, task, tasks, slots, block)`: does the tasks with a team. Before it goes on, the threads
# that took tasks have left; who comes later finds the job closed.
_GIVE_JOB = f"""
define private void @fusegrad_give(ptr %team, ptr %task, i64 %tasks, ptr %slots, ptr %block) {_PLAINLY} {{
entry:
  {_given(_TASK, "ptr %task")} {_given(_TASKS, "i64 %tasks")}
  {_given(_SLOTS, "ptr %slots")} {_given(_BLOCK, "ptr %block")} {_field("threads", _THREADS)}
  br label %clear
clear:
  %range = phi i64 [ 0, %entry ], [ %range.next, %clear ]
  %line = mul i64 %range, {_LINE}
  %words = add i64 %line, {_RANGES}
  %words.at = getelementptr i64, ptr %team, i64 %words
  store <2 x i64> zeroinitializer, ptr %words.at
  %range.next = add i64 %range, 1
  %unclear = icmp slt i64 %range.next, %threads
  br i1 %unclear, label %clear, label %start
start:
  %state = load atomic i64, ptr %team monotonic, align 8
  %opened = add i64 %state, {(1 << _NUMBER_BITS) + _OPEN}
  store atomic i64 %opened, ptr %team release, align 8
  {_field("leader", _LEADER)}
  call void @fusegrad_tasks(ptr %team, i64 %leader)
  %closed = atomicrmw and ptr %team, i64 {~_OPEN} acq_rel
  br label %wait
wait:
  %turn = phi i64 [ 0, %start ], [ %turn.next, %again ]
  %now = load atomic i64, ptr %team acquire, align 8
  %inside = and i64 %now, {_ALL_INSIDE}
  %busy = icmp ne i64 %inside, 0
  br i1 %busy, label %again, label %done
again:
  call void @fusegrad_pause(i64 %turn)
  %turn.next = add i64 %turn, 1
  br label %wait
done:
  ret void
}}"""

# `fusegrad_sequence(table, first, last, slots)`: calls the functions of a table, each with its block.
SEQUENCE = """
define private void @fusegrad_sequence(ptr %table, i64 %first, i64 %last, ptr %slots) nounwind {
entry:
  br label %next
next:
  %number = phi i64 [ %first, %entry ], [ %number.next, %call ]
  %left = icmp slt i64 %number, %last
  br i1 %left, label %call, label %done
call:
  %place = shl i64 %number, 1
  %function.at = getelementptr ptr, ptr %table, i64 %place
  %function = load ptr, ptr %function.at
  %block.at = getelementptr ptr, ptr %function.at, i64 1
  %block = load ptr, ptr %block.at
  call void %function(ptr %slots, ptr %block)
  %number.next = add i64 %number, 1
  br label %next
done:
  ret void
}"""

# A thread of the pool that finds itself on the core of the one that brought the team together says so, and is
# kept from there before the next call. Linux wakes it there while it takes all other cores for busy, and in a
# virtual machine it takes cores that sleep for such. Where threads sleep between calls they would meet again
# every time: on two cores each call then takes three to four times as long, for seconds.
_LOOK = f"""{_field("core", _CORE, "i32")}
  %here = call i32 @sched_getcpu()
  %same = icmp eq i32 %here, %core
  br i1 %same, label %who, label %role
who: {_field("starter", _STARTER)}
  %self = call i64 @pthread_self()
  %other = icmp ne i64 %self, %starter
  br i1 %other, label %found, label %role
found:
  %found.at = getelementptr i64, ptr %team, i64 {_FOUND}
  store atomic i64 %self, ptr %found.at monotonic, align 8
  br label %role"""

# `fusegrad_work`, as Numba's pool calls it; `args` says for which thread of the team. Who comes first leads,
# so that a thread that the pool gives several numbers finds all done when it comes to the next.
_WORK = f"""
define private void @fusegrad_work(ptr %args, ptr %sizes, ptr %steps, ptr %team) {_PLAINLY} {{
entry:
  %mine = load i64, ptr %args
  {_LOOK if _CORES_ARE_KNOWN else "br label %role"}
role:
  %leader.at = getelementptr i64, ptr %team, i64 {_LEADER}
  %claim = cmpxchg ptr %leader.at, i64 {_NOBODY}, i64 %mine monotonic monotonic
  %leads = extractvalue {{ i64, i1 }} %claim, 1
  br i1 %leads, label %lead, label %wait
lead:
  {_field("table", _TABLE, "ptr")} {_field("last", _LAST)} {_field("slots", _ROOM, "ptr")}
  call void @fusegrad_sequence(ptr %table, i64 0, i64 %last, ptr %slots)
  store atomic i64 {_DONE}, ptr %team release, align 8
  ret void
wait:
  %known = phi i64 [ 0, %role ], [ %known, %again ], [ %number, %job ]
  %turn = phi i64 [ 0, %role ], [ %turn.next, %again ], [ 0, %job ]
  %now = load atomic i64, ptr %team acquire, align 8
  %done.bit = and i64 %now, {_DONE}
  %done = icmp ne i64 %done.bit, 0
  br i1 %done, label %end, label %look
look:
  %open.bit = and i64 %now, {_OPEN}
  %open = icmp ne i64 %open.bit, 0
  %number = lshr i64 %now, {_NUMBER_BITS}
  %new = icmp ne i64 %number, %known
  %enters = and i1 %open, %new
  br i1 %enters, label %enter, label %again
enter:
  %with.me = add i64 %now, {_INSIDE}
  %pair = cmpxchg ptr %team, i64 %now, i64 %with.me acquire monotonic
  %entered = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %entered, label %job, label %again
job:
  call void @fusegrad_tasks(ptr %team, i64 %mine)
  %without.me = atomicrmw sub ptr %team, i64 {_INSIDE} release
  br label %wait
again:
  call void @fusegrad_pause(i64 %turn)
  %turn.next = add i64 %turn, 1
  br label %wait
end:
  ret void
}}"""

# `fusegrad_apart(thread)`: from now on a thread uses the cores that this one may use, less the one where
# this is. Where no core is left, the last call does nothing.
_APART = f"""
define private void @fusegrad_apart(i64 %thread) {_PLAINLY} {{
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
}}"""
_KEEPING_APART = {
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

# `fusegrad_team(table, last, slots, threads)`: calls the first `last` functions of a table, whose tasks so
# many threads of the pool share. The pool takes arrays of addresses to step through; the one given here steps
# from 0 by 1, so that the "address" a thread sees is its number.
_TEAM = f"""
define void @fusegrad_team(ptr %table, i64 %last, ptr %slots, i64 %threads) {_PLAINLY} {{
entry:
  %lines = mul i64 %threads, {_LINE}
  %words = add i64 %lines, {_RANGES}
  %team = alloca i64, i64 %words, align {8 * _LINE}
  {_given(_STATE, "i64 0")} {_given(_LEADER, f"i64 {_NOBODY}")} {_given(_THREADS, "i64 %threads")}
  {_given(_GIVE, "ptr @fusegrad_give")}
  {_given(_TABLE, "ptr %table")}
  {_given(_LAST, "i64 %last")} {_given(_ROOM, "ptr %slots")} {_given(_ARGUMENT, "i64 0")}
  {_given(_COUNT, "i64 %threads")} {_given(_STEP, "i64 1")} {_STARTED_HERE if _CORES_ARE_KNOWN else ""}
  store ptr %team, ptr %slots
  %workers = trunc i64 %threads to i32
  call void @numba_parallel_for(ptr @fusegrad_work, ptr %place{_ARGUMENT}, ptr %place{_COUNT},
    ptr %place{_STEP}, ptr %team, i64 0, i64 1, i32 %workers)
  store ptr null, ptr %slots
  {_KEEP_APART if _CORES_ARE_KNOWN else ""}
  br label %done
done:
  ret void
}}"""


def team_module() -> str:
    """LLVM IR of `fusegrad_team(table, last, slots, threads)`."""
    declared = {
        "declare void @numba_parallel_for(ptr, ptr, ptr, ptr, ptr, i64, i64, i32)",
        *_PAUSING,
        *(_KEEPING_APART if _CORES_ARE_KNOWN else ()),
    }
    apart = [_APART] if _CORES_ARE_KNOWN else []
    return module(declared, [_PAUSE, _TASKS_OF, _GIVE_JOB, SEQUENCE, _WORK, *apart, _TEAM])


# In the modules of kernels, `fusegrad_share(task, tasks, slots, block)`: does the tasks, with the team that
# slot 0 names if there is one and several tasks. In one line, so that modules that are joined have it once.
_SHARE = " ".join(
    f"""
define private void @fusegrad_share(ptr %task, i64 %tasks, ptr %slots, ptr %block) {_PLAINLY} {{
entry:
  %team = load ptr, ptr %slots
  %several = icmp sgt i64 %tasks, 1
  %others = icmp ne ptr %team, null
  %spread = and i1 %several, %others
  br i1 %spread, label %job, label %here
job:
  {_field("give", _GIVE, "ptr")}
  call void %give(ptr %team, ptr %task, i64 %tasks, ptr %slots, ptr %block)
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
}}""".split()
)
_ALONE = "@fusegrad_alone = private constant i64 1"


def task_name(symbol: str) -> str:
    """The function that does one task: `(number, slots, block)`."""
    return f"{symbol}.task"


def run_tasks(w: Writer, symbol: str, count: str) -> None:
    """Call `SYMBOL.task(i, slots, block)` for i below `count`."""
    w.declared.add(_SHARE)
    w.line(f"call void @fusegrad_share(ptr @{task_name(symbol)}, i64 {count}, ptr %slots, ptr %block)")


def threads_of_team(w: Writer) -> str:
    """How many threads share tasks here."""
    w.declared.add(_ALONE)
    team, alone, place = w.name("p"), w.name(), w.name("p")
    w.line(f"{team} = load ptr, ptr %slots")
    w.line(f"{alone} = icmp eq ptr {team}, null")
    known = w.offset(team, str(_THREADS), "i64")
    w.line(f"{place} = select i1 {alone}, ptr @fusegrad_alone, ptr {known}")
    return w.load_index(place, 0)


def function(signature: str, w: Writer, attributes: str = "nounwind") -> str:
    """The text of a function from what was written."""
    return "\n".join([f"define {signature} {attributes} {{", "entry:", *w.entry, *w.lines, "  ret void", "}"])


def module(declared: set[str], functions: Sequence[str]) -> str:
    """The text of a module: its declarations, then its functions."""
    return "\n\n".join(["\n".join(sorted(declared)), *functions])
