"""The pool: threads of our own, which help the one that makes a native call with its kernels' tasks.

OpenMP's threads have all to be awake before a call can end, and wait for the next one as long as an
environment variable said when their library was loaded. These help if they are there, and learn how soon
calls come: a thread waits awake while that pays, offers its core to others meanwhile, and sleeps when one of
them took it.

The thread that makes a call leads: it calls the kernels in turn. Of each job, which is the tasks of one
kernel, every thread has a range, so that it comes back to the same part of the data with each kernel. One
that is done takes tasks from the ends of the others' ranges. Nobody waits for a thread that has taken no
task. There is one team; a call that finds it taken by another Python thread's does its tasks alone.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import os
import platform
import sys
import time

import numpy as np

from fusegrad.compiler.base.lock import compiling
from fusegrad.compiler.llvm import llvm_jit
from fusegrad.compiler.llvm.tasks import GIVE, PLAINLY, SEQUENCE, THREADS, field, module
from fusegrad.compiler.runtime import threads
from fusegrad.compiler.runtime.allocator import aligned_bytes, data_address
from fusegrad.eager.core.loading import environment

# What the team has in common, in words of 8 bytes, on lines of their own where several threads write: what
# kernels read, and on which core the leader is; its state; the job, which is a function of so many tasks with
# its arguments; how many calls have begun and ended (odd: one runs), and whether the pool ends; how many
# threads sleep; whether it is taken; who found itself on the leader's core; what sleepers wait with; for each
# thread's range how many of its tasks are taken, and how many of these from its end.
_LINE = 16
_CORE = max(THREADS, GIVE) + 1
_STATE, _JOB, _CALLS, _ASLEEP, _TAKEN, _FOUND, _MUTEX, _CONDITION, _RANGES = (_LINE * n for n in range(1, 10))
_TASK, _TASKS, _SLOTS, _BLOCK = range(_JOB, _JOB + 4)
_ENDING = _CALLS + 1

# The state: whether there are tasks to take, how many threads (but for the leader) are at the job, and the
# job's number.
_OPEN, _INSIDE, _NUMBER_BITS = 1, 1 << 8, 32
_ALL_INSIDE = (1 << _NUMBER_BITS) - _INSIDE

# How many turns a thread waits within a call with its core to itself, longer than what is serial between
# parallel kernels mostly takes; in how many more it offers the core to others; and for how many microseconds
# it sleeps in each turn after that.
_TURNS, _YIELDS, _SLEEP = 2000, 500, 50

# How many nanoseconds a thread waits for the next call before it sleeps: with its core to itself; and, where
# the last call came within so many, while it offers the core to others. Waking it costs a call some 20 to 90
# microseconds. A turn that took as long as the third (timers take 20 to 80 microseconds) says that another
# thread had the core: NumPy's own, say, which find none where ours wait awake. Then it sleeps, and so many
# calls find it waiting briefly.
_BRIEF, _LONG, _DISTURBED, _DISTRUST = 2_000, 250_000, 100_000, 32

# Whether threads can say on which core they are, and be kept from one.
_CORES_ARE_KNOWN = sys.platform == "linux"


def _given(place: int, value: str) -> str:
    """Writes what the team has in common."""
    return f"""
  %place{place} = getelementptr i64, ptr %team, i64 {place}
  store {value}, ptr %place{place}"""


def _current(name: str, place: int, order: str = "acquire") -> str:
    """Reads what other threads write into `%NAME`."""
    return f"""
  %{name}.at = getelementptr i64, ptr %team, i64 {place}
  %{name} = load atomic i64, ptr %{name}.at {order}, align 8"""


# What the machine has for a thread that waits.
_X86 = "declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"
_ARM = "declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"
_PAUSES = {"x86_64": _X86, "aarch64": _ARM, "arm64": _ARM}
_INSTRUCTION, _SPIN = _PAUSES.get(platform.machine(), ("", ""))

# `fusegrad_pause(turn)`: waits a little, with what the machine and the system have for it.
_PAUSE = f"""
define private void @fusegrad_pause(i64 %turn) {PLAINLY} {{
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
  %yielded = call i32 @sched_yield()
  ret void
sleep:
  %slept = call i32 @usleep(i32 {_SLEEP})
  ret void
}}"""

# `fusegrad_clock()`: nanoseconds.
_CLOCK = f"""
define private i64 @fusegrad_clock() {PLAINLY} {{
entry:
  %time = alloca [2 x i64]
  %told = call i32 @clock_gettime(i32 {getattr(time, "CLOCK_MONOTONIC", 1)}, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  ret i64 %now
}}"""

# `fusegrad_tasks(team, mine)`: the tasks of a range, and what is left of others. The own range is gone
# through from the start, others from the end, so that none is done twice.
_TASKS_OF = f"""
define private void @fusegrad_tasks(ptr %team, i64 %mine) {PLAINLY} {{
entry:
  {field("task", _TASK, "ptr")} {field("tasks", _TASKS)} {field("slots", _SLOTS, "ptr")}
  {field("block", _BLOCK, "ptr")} {field("threads", THREADS)}
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
define private void @fusegrad_give(ptr %team, ptr %task, i64 %tasks, ptr %slots, ptr %block) {PLAINLY} {{
entry:
  {_given(_TASK, "ptr %task")} {_given(_TASKS, "i64 %tasks")}
  {_given(_SLOTS, "ptr %slots")} {_given(_BLOCK, "ptr %block")} {field("threads", THREADS)}
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
  {_current("state", _STATE, "monotonic")}
  %opened = add i64 %state, {(1 << _NUMBER_BITS) + _OPEN}
  store atomic i64 %opened, ptr %state.at release, align 8
  call void @fusegrad_tasks(ptr %team, i64 0)
  %closed = atomicrmw and ptr %state.at, i64 {~_OPEN} acq_rel
  br label %wait
wait:
  %turn = phi i64 [ 0, %start ], [ %turn.next, %again ]
  %now = load atomic i64, ptr %state.at acquire, align 8
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

# `fusegrad_sleep(team, seen)` until there were more calls than those seen, and `fusegrad_wake(team)`.
_SLEEPING = f"""
define private void @fusegrad_sleep(ptr %team, i64 %seen) {PLAINLY} {{
entry:
  %asleep.at = getelementptr i64, ptr %team, i64 {_ASLEEP}
  %mutex = getelementptr i64, ptr %team, i64 {_MUTEX}
  %condition = getelementptr i64, ptr %team, i64 {_CONDITION}
  %before = atomicrmw add ptr %asleep.at, i64 1 seq_cst
  %locked = call i32 @pthread_mutex_lock(ptr %mutex)
  br label %look
look:
  {_current("calls", _CALLS, "seq_cst")}
  %none = icmp eq i64 %calls, %seen
  br i1 %none, label %wait, label %awake
wait:
  %waited = call i32 @pthread_cond_wait(ptr %condition, ptr %mutex)
  br label %look
awake:
  %unlocked = call i32 @pthread_mutex_unlock(ptr %mutex)
  %after = atomicrmw sub ptr %asleep.at, i64 1 seq_cst
  ret void
}}

define private void @fusegrad_wake(ptr %team) {PLAINLY} {{
entry:
  {_current("asleep", _ASLEEP, "seq_cst")}
  %some = icmp sgt i64 %asleep, 0
  br i1 %some, label %wake, label %done
wake:
  %mutex = getelementptr i64, ptr %team, i64 {_MUTEX}
  %condition = getelementptr i64, ptr %team, i64 {_CONDITION}
  %locked = call i32 @pthread_mutex_lock(ptr %mutex)
  %unlocked = call i32 @pthread_mutex_unlock(ptr %mutex)
  %woken = call i32 @pthread_cond_broadcast(ptr %condition)
  br label %done
done:
  ret void
}}"""

# `fusegrad_await(team, seen, habit)`: waits until there were more calls than those seen. The habit is for how
# long the thread waits awake, and for how many calls only briefly.
_AWAIT = f"""
define private void @fusegrad_await(ptr %team, i64 %seen, ptr %habit) {PLAINLY} {{
entry:
  %distrust.at = getelementptr i64, ptr %habit, i64 1
  %patience = load i64, ptr %habit
  %start = call i64 @fusegrad_clock()
  br label %look
look:
  %last = phi i64 [ %start, %entry ], [ %time, %clock ]
  {_current("calls", _CALLS)}
  %new = icmp ne i64 %calls, %seen
  br i1 %new, label %found, label %turn
turn:
  %waited = sub i64 %last, %start
  %brief = icmp slt i64 %waited, {_BRIEF}
  br i1 %brief, label %pause, label %longer
longer:
  %patient = icmp slt i64 %waited, %patience
  br i1 %patient, label %offer, label %sleep
pause:
  {_SPIN}
  br label %clock
offer:
  %yielded = call i32 @sched_yield()
  br label %clock
clock:
  %time = call i64 @fusegrad_clock()
  %length = sub i64 %time, %last
  %disturbed = icmp sgt i64 %length, {_DISTURBED}
  br i1 %disturbed, label %crowded, label %look
crowded:
  store i64 {_DISTRUST}, ptr %distrust.at
  br label %sleep
sleep:
  call void @fusegrad_sleep(ptr %team, i64 %seen)
  br label %found
found:
  %end = call i64 @fusegrad_clock()
  %gap = sub i64 %end, %start
  %soon = icmp slt i64 %gap, {_LONG}
  %distrust = load i64, ptr %distrust.at
  %trusted = icmp eq i64 %distrust, 0
  %less = sub i64 %distrust, 1
  %left = select i1 %trusted, i64 0, i64 %less
  store i64 %left, ptr %distrust.at
  %pays = and i1 %soon, %trusted
  %next = select i1 %pays, i64 {_LONG}, i64 {_BRIEF}
  store i64 %next, ptr %habit
  ret void
}}"""

# A thread of the pool that finds itself on the leader's core says so, and is kept from there when the call
# ends. Linux wakes it there while it takes all other cores for busy, and in a virtual machine it takes cores
# that sleep for such. Where threads sleep between calls they would meet again every time: on two cores each
# call then takes three to four times as long, for seconds.
_LOOK = f"""{field("core", _CORE)}
  %here.short = call i32 @sched_getcpu()
  %here = sext i32 %here.short to i64
  %same = icmp eq i64 %here, %core
  br i1 %same, label %found, label %help
found:
  %self = call i64 @pthread_self()
  %found.at = getelementptr i64, ptr %team, i64 {_FOUND}
  store atomic i64 %self, ptr %found.at monotonic, align 8
  br label %help"""

# `fusegrad_worker(number)`: what a thread of the pool does all its life. How many threads a call has is asked
# where it cannot end meanwhile.
_WORKER = f"""
define ptr @fusegrad_worker(ptr %argument) {PLAINLY} {{
entry:
  %team = getelementptr i64, ptr @fusegrad_common, i64 0
  %mine = ptrtoint ptr %argument to i64
  %habit = alloca <2 x i64>
  store <2 x i64> <i64 {_BRIEF}, i64 0>, ptr %habit
  %known.at = alloca i64
  store i64 0, ptr %known.at
  br label %next
next:
  {_current("calls", _CALLS)}
  %odd = and i64 %calls, 1
  %runs = icmp ne i64 %odd, 0
  br i1 %runs, label %call, label %idle
idle:
  {_current("ending", _ENDING)}
  %ends = icmp ne i64 %ending, 0
  br i1 %ends, label %end, label %await
await:
  call void @fusegrad_await(ptr %team, i64 %calls, ptr %habit)
  br label %next
call:
  {_LOOK if _CORES_ARE_KNOWN else "br label %help"}
help:
  br label %round
round:
  %turn = phi i64 [ 0, %help ], [ %turn.next, %again ], [ 0, %left ]
  {_current("state", _STATE)}
  %open.bit = and i64 %state, {_OPEN}
  %open = icmp ne i64 %open.bit, 0
  %number = lshr i64 %state, {_NUMBER_BITS}
  %known = load i64, ptr %known.at
  %new = icmp ne i64 %number, %known
  %enters = and i1 %open, %new
  br i1 %enters, label %enter, label %again
enter:
  %with.me = add i64 %state, {_INSIDE}
  %pair = cmpxchg ptr %state.at, i64 %state, i64 %with.me acquire monotonic
  %entered = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %entered, label %inside, label %again
inside:
  store i64 %number, ptr %known.at
  {field("threads", THREADS)}
  %wanted = icmp slt i64 %mine, %threads
  br i1 %wanted, label %job, label %left
job:
  call void @fusegrad_tasks(ptr %team, i64 %mine)
  br label %left
left:
  %without.me = atomicrmw sub ptr %state.at, i64 {_INSIDE} release
  br label %round
again:
  call void @fusegrad_pause(i64 %turn)
  %turn.next = add i64 %turn, 1
  {_current("calls.now", _CALLS)}
  %same.calls = icmp eq i64 %calls.now, %calls
  br i1 %same.calls, label %round, label %next
end:
  ret ptr null
}}"""

# `fusegrad_apart(thread)`: from now on a thread uses the cores that this one may use, less the one where
# this is. Where no core is left, the last call does nothing.
_APART = f"""
define private void @fusegrad_apart(i64 %thread) {PLAINLY} {{
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
_LEADER_HERE = f"""
  %here = call i32 @sched_getcpu()
  %core = sext i32 %here to i64
  {_given(_CORE, "i64 %core")} {_given(_FOUND, "i64 0")}"""
_KEEP_APART = f"""
  {_current("found", _FOUND, "monotonic")}
  %some = icmp ne i64 %found, 0
  br i1 %some, label %apart, label %free
apart:
  call void @fusegrad_apart(i64 %found)
  br label %free"""

# `fusegrad_team(table, last, slots, threads)`: calls the first `last` functions of a table, whose tasks so
# many threads share.
_TEAM = f"""
define void @fusegrad_team(ptr %table, i64 %last, ptr %slots, i64 %threads) {PLAINLY} {{
entry:
  %team = getelementptr i64, ptr @fusegrad_common, i64 0
  %taken.at = getelementptr i64, ptr %team, i64 {_TAKEN}
  %pair = cmpxchg ptr %taken.at, i64 0, i64 1 acquire monotonic
  %mine = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %mine, label %begin, label %alone
alone:
  call void @fusegrad_sequence(ptr %table, i64 0, i64 %last, ptr %slots)
  ret void
begin:
  {_given(THREADS, "i64 %threads")} {_given(GIVE, "ptr @fusegrad_give")}
  {_LEADER_HERE if _CORES_ARE_KNOWN else ""}
  store ptr %team, ptr %slots
  %calls.at = getelementptr i64, ptr %team, i64 {_CALLS}
  %begun = atomicrmw add ptr %calls.at, i64 1 seq_cst
  call void @fusegrad_wake(ptr %team)
  call void @fusegrad_sequence(ptr %table, i64 0, i64 %last, ptr %slots)
  %ended = atomicrmw add ptr %calls.at, i64 1 release
  store ptr null, ptr %slots
  {_KEEP_APART if _CORES_ARE_KNOWN else "br label %free"}
free:
  store atomic i64 0, ptr %taken.at release, align 8
  ret void
}}"""

# `fusegrad_start(ids, count)` so many threads besides those that make calls, and `fusegrad_stop(ids, count)`;
# ids: where the system's names of the threads are kept. How many were started comes back.
_START = f"""
define i64 @fusegrad_start(ptr %ids, i64 %count) {PLAINLY} {{
entry:
  %team = getelementptr i64, ptr @fusegrad_common, i64 0
  %mutex = getelementptr i64, ptr %team, i64 {_MUTEX}
  %condition = getelementptr i64, ptr %team, i64 {_CONDITION}
  %mutex.made = call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  %condition.made = call i32 @pthread_cond_init(ptr %condition, ptr null)
  br label %next
next:
  %started = phi i64 [ 0, %entry ], [ %number, %start ]
  %more = icmp slt i64 %started, %count
  br i1 %more, label %start, label %done
start:
  %id = getelementptr i64, ptr %ids, i64 %started
  %number = add i64 %started, 1
  %argument = inttoptr i64 %number to ptr
  %failed = call i32 @pthread_create(ptr %id, ptr null, ptr @fusegrad_worker, ptr %argument)
  %fine = icmp eq i32 %failed, 0
  br i1 %fine, label %next, label %done
done:
  ret i64 %started
}}

define void @fusegrad_stop(ptr %ids, i64 %count) {PLAINLY} {{
entry:
  %team = getelementptr i64, ptr @fusegrad_common, i64 0
  {_given(_ENDING, "i64 1")}
  %calls.at = getelementptr i64, ptr %team, i64 {_CALLS}
  %before = atomicrmw add ptr %calls.at, i64 2 seq_cst
  call void @fusegrad_wake(ptr %team)
  br label %next
next:
  %number = phi i64 [ 0, %entry ], [ %number.next, %join ]
  %more = icmp slt i64 %number, %count
  br i1 %more, label %join, label %done
join:
  %id.at = getelementptr i64, ptr %ids, i64 %number
  %id = load i64, ptr %id.at
  %joined = call i32 @pthread_join(i64 %id, ptr null)
  %number.next = add i64 %number, 1
  br label %next
done:
  ret void
}}"""
_SYSTEM = {
    "declare i32 @sched_yield()",
    "declare i32 @usleep(i32)",
    "declare i32 @clock_gettime(i32, ptr)",
    "declare i32 @pthread_create(ptr, ptr, ptr, ptr)",
    "declare i32 @pthread_join(i64, ptr)",
    *(f"declare i32 @pthread_mutex_{name}" for name in ("init(ptr, ptr)", "lock(ptr)", "unlock(ptr)")),
    *(f"declare i32 @pthread_cond_{name}" for name in ("init(ptr, ptr)", "wait(ptr, ptr)", "broadcast(ptr)")),
}


def _team_module() -> str:
    """LLVM IR of the functions of a team and its threads."""
    declared = {"@fusegrad_common = external global i64", *_SYSTEM}
    if _INSTRUCTION:
        declared.add(_INSTRUCTION)
    apart = []
    if _CORES_ARE_KNOWN:
        declared |= _KEEPING_APART
        apart.append(_APART)
    waiting = [_PAUSE, _CLOCK, _SLEEPING, _AWAIT]
    return module(declared, [*waiting, _TASKS_OF, _GIVE_JOB, SEQUENCE, _WORKER, *apart, _TEAM, _START])


# In how many turns the threads of Numba's own pool wait, on which users' parallel functions run: some 10
# microseconds instead of milliseconds, in which ours would find no core.
_TURNS_OF_NUMBA = 1000


@functools.cache
def _common() -> np.ndarray:
    """What the team has in common."""
    common = aligned_bytes(8 * (_RANGES + _LINE * threads.pool_size())).view(np.int64)
    common[:] = 0
    return common


@llvm_jit.remembered
def code() -> llvm_jit.Module:
    """The functions of a team and its threads, which are being compiled from the first time that they are
    asked for.
    """
    llvm_jit.add_symbols({"fusegrad_common": data_address(_common())})
    return llvm_jit.Module(_team_module(), ["fusegrad_team", "fusegrad_start", "fusegrad_stop"])


class _Pool:
    """The team and its threads, as many as there may be.

    common: what they have in common; address: of the function that calls kernels with them.
    """

    def __init__(self) -> None:
        size, self.common = threads.pool_size(), _common()
        self.address, start, stop = code().addresses().values()
        number, place = ctypes.c_int64, ctypes.c_void_p
        self._ids = (number * size)()
        self._started = ctypes.CFUNCTYPE(number, place, number)(start)(self._ids, size - 1)
        self._stop = ctypes.CFUNCTYPE(None, place, number)(stop)
        self._process = os.getpid()
        atexit.register(self._end)

    def _end(self) -> None:
        # The code that the threads run is freed when the process ends. A forked child has none of them.
        if os.getpid() == self._process:
            threads.thread_count[0] = 1
            self._stop(self._ids, self._started)

    def calls(self) -> int:
        """How many calls had a team."""
        return int(self.common[_CALLS]) // 2

    def asleep(self) -> int:
        """How many threads sleep until a call wakes them."""
        return int(self.common[_ASLEEP])


@functools.cache
def _pool() -> _Pool:
    if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys():
        # The library of Numba's pool reads it when it is loaded.
        with environment(GOMP_SPINCOUNT=str(_TURNS_OF_NUMBA)), contextlib.suppress(ImportError):
            import numba.np.ufunc.omppool  # noqa: F401
    return _Pool()


def pool() -> _Pool:
    """The pool, whose threads start when it is first asked for."""
    with compiling:
        return _pool()
