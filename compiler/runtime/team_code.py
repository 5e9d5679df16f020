"""The native functions of the team: how its threads wait, take tasks and sleep (see `thread_pool`).

They are POSIX's and LLVM's atomic instructions alone; nothing here knows Python.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Mapping, Sequence

from fusegrad.compiler.llvm.function_writer import FunctionWriter, Variable, Word, module_text
from fusegrad.compiler.llvm.tasks import GIVE, PLAINLY, THREADS, sequence

# What the team has in common, in words of 8 bytes, on lines of their own where several threads write: what
# kernels read, and on which core the leader is; its state; the job, which is a function of so many tasks with
# its arguments; how many calls have begun and ended (odd: one runs), and whether the pool ends; how many
# threads sleep; whether it is taken; who found itself on the leader's core; what sleepers wait with; for each
# thread's range how many of its tasks are taken, and how many of these from its end.
LINE = 16
_CORE = max(THREADS, GIVE) + 1
_STATE, _JOB, CALLS, ASLEEP, _TAKEN, _FOUND, _MUTEX, _CONDITION, RANGES = (LINE * n for n in range(1, 10))
_TASK, _TASKS, _SLOTS, _BLOCK = range(_JOB, _JOB + 4)
ENDING = CALLS + 1

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
_MOST_CORES = 1024


class _Function(FunctionWriter):
    """A function of the team; what the team has in common is found by its places."""

    def __init__(
        self, name: str, takes: Mapping[str, str], gives: str = "void", private: bool = True
    ) -> None:
        super().__init__(f"fusegrad_{name}", takes, gives, PLAINLY, private)

    @property
    def team(self) -> Word:
        """What the team has in common."""
        return self.symbol("fusegrad_common", "i64")

    def at(self, place: int) -> Word:
        """The address of a word of it."""
        return self.team.at(place)

    def clock(self) -> Word:
        """Nanoseconds."""
        return self.call("fusegrad_clock", gives="i64")

    def spin(self, machine: str) -> None:
        """Wait a little with the core to oneself, by what the machine has for it."""
        if machine in ("x86_64", "x86-64"):
            self.call("llvm.x86.sse2.pause")
        elif machine in ("aarch64", "arm64"):
            self.call("llvm.aarch64.hint", self.number(1, "i32"))

    def offer(self) -> None:
        """Offer the core to others."""
        self.call("sched_yield", gives="i32")


def _pause(machine: str) -> FunctionWriter:
    """`fusegrad_pause(turn)`: waits a little, with what the machine and the system have for it."""
    f = _Function("pause", {"turn": "i64"})
    (turn,) = f.given
    with f.if_(turn <= _TURNS):
        f.spin(machine)
        f.return_()
    with f.if_(turn <= _TURNS + _YIELDS):
        f.offer()
        f.return_()
    f.call("usleep", f.number(_SLEEP, "i32"), gives="i32")
    return f


def _clock() -> FunctionWriter:
    f = _Function("clock", {}, "i64")
    now = f.room("i64", 2)
    f.call("clock_gettime", f.number(getattr(time, "CLOCK_MONOTONIC", 1), "i32"), now, gives="i32")
    f.return_(now.load() * 1_000_000_000 + now.load("i64", 1))
    return f


def _tasks() -> FunctionWriter:
    """`fusegrad_tasks(mine)`: the tasks of a range, and what is left of others. The own range is gone through
    from the start, others from the end, so that none is done twice.
    """
    f = _Function("tasks", {"mine": "i64"})
    (mine,) = f.given
    task, tasks = f.at(_TASK).load("ptr"), f.at(_TASKS).load()
    slots, block, threads = f.at(_SLOTS).load("ptr"), f.at(_BLOCK).load("ptr"), f.at(THREADS).load()
    with f.loop(threads) as turn:
        number = (mine + turn) % threads
        start, end = number * tasks // threads, (number + 1) * tasks // threads
        taken = f.at(RANGES).at(number * LINE)
        done = f.variable(0)
        with f.repeat() as taking:
            # Who only looks leaves the line to others.
            with f.if_(~taken.load_shared("monotonic").below(end - start)):
                taking.leave()
            before = taken.change_shared("add", 1, "monotonic")
            with f.if_(~before.below(end - start)):
                taking.leave()
            which = f.variable(start + done.value)
            with f.if_(turn != 0):
                from_end = taken.at(1).change_shared("add", 1, "monotonic")
                which.set(end - 1 - from_end)
            f.call_address(task, which.value, slots, block)
            done.set(done.value + 1)
    return f


def _give() -> FunctionWriter:
    """`fusegrad_give(team, task, tasks, slots, block)`: does the tasks with a team. Before it goes on, the
    threads that took tasks have left; who comes later finds the job closed.
    """
    takes = {"team": "ptr", "task": "ptr", "tasks": "i64", "slots": "ptr", "block": "ptr"}
    f = _Function("give", takes)
    for place, value in zip((_TASK, _TASKS, _SLOTS, _BLOCK), f.given[1:], strict=True):
        f.at(place).store(value)
    with f.loop(f.at(THREADS).load()) as number:
        taken = f.at(RANGES).at(number * LINE)
        taken.store(0)
        taken.store(0, 1)
    state = f.at(_STATE)
    state.store_shared(state.load_shared("monotonic") + ((1 << _NUMBER_BITS) + _OPEN))
    f.call("fusegrad_tasks", 0)
    state.change_shared("and", ~_OPEN, "acq_rel")
    turn = f.variable(0)
    with f.repeat() as waiting:
        with f.if_(state.load_shared() & _ALL_INSIDE == 0):
            waiting.leave()
        _wait_a_turn(f, turn)
    return f


def _wait_a_turn(f: _Function, turn: Variable) -> None:
    f.call("fusegrad_pause", turn.value)
    turn.set(turn.value + 1)


# Between calls.


def _sleep() -> FunctionWriter:
    """`fusegrad_sleep(seen)`: until there were more calls than those seen."""
    f = _Function("sleep", {"seen": "i64"})
    (seen,) = f.given
    mutex, condition = f.at(_MUTEX), f.at(_CONDITION)
    f.at(ASLEEP).change_shared("add", 1, "seq_cst")
    f.call("pthread_mutex_lock", mutex, gives="i32")
    with f.repeat() as sleeping:
        with f.if_(f.at(CALLS).load_shared("seq_cst") != seen):
            sleeping.leave()
        f.call("pthread_cond_wait", condition, mutex, gives="i32")
    f.call("pthread_mutex_unlock", mutex, gives="i32")
    f.at(ASLEEP).change_shared("sub", 1, "seq_cst")
    return f


def _wake() -> FunctionWriter:
    """`fusegrad_wake()`: all that sleep."""
    f = _Function("wake", {})
    with f.if_(f.at(ASLEEP).load_shared("seq_cst") > 0):
        mutex = f.at(_MUTEX)
        f.call("pthread_mutex_lock", mutex, gives="i32")
        f.call("pthread_mutex_unlock", mutex, gives="i32")
        f.call("pthread_cond_broadcast", f.at(_CONDITION), gives="i32")
    return f


def _await(machine: str) -> FunctionWriter:
    """`fusegrad_await(seen, habit)`: waits until there were more calls than those seen. The habit is for how
    long the thread waits awake, and for how many calls only briefly.
    """
    f = _Function("await", {"seen": "i64", "habit": "ptr"})
    seen, habit = f.given
    distrust, patience, start = habit.at(1), habit.load(), f.clock()
    last = f.variable(start)
    with f.repeat() as waiting:
        with f.if_(f.at(CALLS).load_shared() != seen):
            waiting.leave()
        waited = last.value - start
        brief = waited < _BRIEF
        with f.if_(brief):
            f.spin(machine)
        with f.if_(~brief):
            with f.if_(waited >= patience):
                f.call("fusegrad_sleep", seen)
                waiting.leave()
            f.offer()
        now = f.clock()
        with f.if_(now - last.value > _DISTURBED):
            distrust.store(_DISTRUST)
            f.call("fusegrad_sleep", seen)
            waiting.leave()
        last.set(now)
    soon = f.clock() - start < _LONG
    left = distrust.load()
    trusted = left == 0
    distrust.store(f.select(trusted, f.number(0), left - 1))
    habit.store(f.select(soon & trusted, f.number(_LONG), f.number(_BRIEF)))
    return f


# A thread of the pool.


def _worker() -> FunctionWriter:
    """`fusegrad_worker(number)`: what a thread of the pool does all its life. How many threads a call has is
    asked where it cannot end meanwhile.
    """
    f = _Function("worker", {"argument": "ptr"}, "ptr", private=False)
    mine = f.given[0].to("i64")
    habit, known = f.room("i64", 2), f.variable(0)
    habit.store(_BRIEF)
    habit.store(0, 1)
    with f.repeat() as living:
        calls = f.at(CALLS).load_shared()
        with f.if_(calls & 1 == 0):  # none runs
            with f.if_(f.at(ENDING).load_shared() != 0):
                living.leave()
            f.call("fusegrad_await", calls, habit)
            living.again()
        if _CORES_ARE_KNOWN:
            _look_where(f)
        turn = f.variable(0)
        with f.repeat() as helping:
            state = f.at(_STATE).load_shared()
            number = state >> _NUMBER_BITS
            with f.if_((state & _OPEN != 0) & (number != known.value)):
                entered = f.at(_STATE).swap_shared(state, state + _INSIDE)
                with f.if_(entered):
                    known.set(number)
                    with f.if_(mine < f.at(THREADS).load()):
                        f.call("fusegrad_tasks", mine)
                    f.at(_STATE).change_shared("sub", _INSIDE, "release")
                    turn.set(0)
                    helping.again()
            _wait_a_turn(f, turn)
            with f.if_(f.at(CALLS).load_shared() != calls):
                helping.leave()
    f.return_(f.null)
    return f


def _look_where(f: _Function) -> None:
    """A thread of the pool that finds itself on the leader's core says so, and is kept from there when the
    call ends. Linux wakes it there while it takes all other cores for busy, and in a virtual machine it takes
    cores that sleep for such. Where threads sleep between calls they would meet again every time: on two
    cores each call then takes three to four times as long, for seconds.
    """
    here = f.call("sched_getcpu", gives="i32").to("i64")
    with f.if_(here == f.at(_CORE).load()):
        f.at(_FOUND).store_shared(f.call("pthread_self", gives="i64"), "monotonic")


def _apart() -> FunctionWriter:
    """`fusegrad_apart(thread)`: from now on a thread uses the cores that this one may use, less the one where
    this is. Where no core is left, the last call does nothing.
    """
    f = _Function("apart", {"thread": "i64"})
    (thread,) = f.given
    cores, size = f.room("i64", _MOST_CORES // 64), _MOST_CORES // 8
    found = f.call("sched_getaffinity", f.number(0, "i32"), size, cores, gives="i32")
    core = f.call("sched_getcpu", gives="i32")
    with f.if_((found >= 0) & core.below(_MOST_CORES)):
        number = core.to("i64")
        bits = cores.at(number // 64)
        bits.store(bits.load() & ~(f.number(1) << number % 64))
        f.call("pthread_setaffinity_np", thread, size, cores, gives="i32")
    return f


# A call.


def _team() -> FunctionWriter:
    """`fusegrad_team(table, last, slots, threads)`: calls the first `last` functions of a table, whose tasks
    so many threads share.
    """
    takes = {"table": "ptr", "last": "i64", "slots": "ptr", "threads": "i64"}
    f = _Function("team", takes, private=False)
    table, last, slots, threads = f.given
    with f.if_(~f.at(_TAKEN).swap_shared(0, 1)):
        f.call("fusegrad_sequence", table, 0, last, slots)
        f.return_()
    f.at(THREADS).store(threads)
    f.at(GIVE).store(f.address_of("fusegrad_give"))
    if _CORES_ARE_KNOWN:
        f.at(_CORE).store(f.call("sched_getcpu", gives="i32").to("i64"))
        f.at(_FOUND).store(0)
    slots.store(f.team)
    f.at(CALLS).change_shared("add", 1, "seq_cst")
    f.call("fusegrad_wake")
    f.call("fusegrad_sequence", table, 0, last, slots)
    f.at(CALLS).change_shared("add", 1, "release")
    slots.store(f.null)
    if _CORES_ARE_KNOWN:
        found = f.at(_FOUND).load_shared("monotonic")
        with f.if_(found != 0):
            f.call("fusegrad_apart", found)
    f.at(_TAKEN).store_shared(0)
    return f


def _start() -> FunctionWriter:
    """`fusegrad_start(ids, count)` so many threads besides those that make calls; ids: where the system's
    names of the threads are kept. Gives how many were started.
    """
    f = _Function("start", {"ids": "ptr", "count": "i64"}, "i64", private=False)
    ids, count = f.given
    f.call("pthread_mutex_init", f.at(_MUTEX), f.null, gives="i32")
    f.call("pthread_cond_init", f.at(_CONDITION), f.null, gives="i32")
    worker = f.address_of("fusegrad_worker")
    with f.loop(count) as started:
        argument = (started + 1).to("ptr")
        failed = f.call("pthread_create", ids.at(started), f.null, worker, argument, gives="i32")
        with f.if_(failed != 0):
            f.return_(started)
    f.return_(count)
    return f


def _stop() -> FunctionWriter:
    """`fusegrad_stop(ids, count)`: has so many threads end, and waits for them."""
    f = _Function("stop", {"ids": "ptr", "count": "i64"}, private=False)
    ids, count = f.given
    f.at(ENDING).store(1)
    f.at(CALLS).change_shared("add", 2, "seq_cst")
    f.call("fusegrad_wake")
    with f.loop(count) as number:
        f.call("pthread_join", ids.load("i64", number), f.null, gives="i32")
    return f


def team_module(machine: str = platform.machine(), others: Sequence[FunctionWriter] = ()) -> str:
    """LLVM IR of the functions of a team and its threads, and of others, for a kind of machine."""
    waiting = [_pause(machine), _clock(), _sleep(), _wake(), _await(machine)]
    apart = [_apart()] if _CORES_ARE_KNOWN else []
    working = [_tasks(), _give(), sequence(), _worker(), *apart, _team(), _start(), _stop()]
    return module_text([*waiting, *working, *others])
