"""Where the time of eager ops goes, as `torch.profiler`: what ran, how often, how long, in which stretch.

In: a `with` block. Out: events, their sums by name as a table, and a file that Chrome's tracing page shows.
An interpreter times each op of the thread that opened the block. A jitted call that replays is no op; its ops
are in `explain()`.
"""

from __future__ import annotations

import enum
import functools
import json
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.op import Op, Params, evaluate
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.state import Interpreter, state
from fusegrad.eager.core.tensor import Tensor

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


class ProfilerActivity(enum.Enum):
    """What is watched: there is the CPU alone. Source: `torch.profiler.ProfilerActivity`."""

    CPU = 0
    XPU = 1
    CUDA = 2


class ProfilerAction(enum.Enum):
    """What a profiler does in a step. Source: `torch.profiler.ProfilerAction`."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def supported_activities() -> set[ProfilerActivity]:
    """What can be watched. Source: `torch.profiler.supported_activities`."""
    return {ProfilerActivity.CPU}


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0
) -> Callable[[int], ProfilerAction]:
    """From the number of a step to what is done in it: wait, warm up, record, and again (`repeat` times).

    Source: `torch.profiler.schedule`.

    >>> import fusegrad as fg
    >>> plan = fg.profiler.schedule(wait=1, warmup=0, active=2, repeat=1)
    >>> [plan(step).name for step in range(4)]
    ['NONE', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise failure(AssertionError, "Invalid profiler schedule arguments")
    cycle = wait + warmup + active

    def plan(step: int) -> ProfilerAction:
        step -= skip_first
        if step < 0 or (repeat and step // cycle >= repeat):
            return ProfilerAction.NONE
        place = step % cycle
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if place == cycle - 1 else ProfilerAction.RECORD

    return plan


class FunctionEvent:
    """One op, or one stretch of a program: when it ran (in microseconds), and what of it was its own."""

    def __init__(self, name: str, shapes: Any) -> None:
        self.name = self.key = name
        self.input_shapes = shapes
        self.start = self.cpu_time_total = self._inner = 0.0
        self.thread = threading.get_ident()

    @property
    def self_cpu_time_total(self) -> float:
        """The time that no event within it took."""
        return self.cpu_time_total - self._inner


class FunctionEventAvg:
    """The events of one name together."""

    def __init__(self, key: str, shapes: Any, events: list[FunctionEvent]) -> None:
        self.key, self.input_shapes, self.count = key, shapes, len(events)
        self.cpu_time_total = sum(event.cpu_time_total for event in events)
        self.self_cpu_time_total = sum(event.self_cpu_time_total for event in events)

    @property
    def cpu_time(self) -> float:
        """The mean time."""
        return self.cpu_time_total / self.count


# The ways to sort a table that other devices have are those of the CPU.
_ORDERS = ("cpu_time", "cpu_time_total", "self_cpu_time_total", "count")
_COLUMNS = ("Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls")


class EventList(list[Any]):
    """Events, or sums of them; `table` writes them out."""

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all."""
        return sum(event.self_cpu_time_total for event in self)

    def table(self, sort_by: str | None = None, row_limit: int = 100, **options: Any) -> str:
        """A table of the events, the largest first by the attribute `sort_by`.

        Raises AttributeError for an attribute that they do not have.
        """
        rows = list(self)
        if sort_by is not None:
            order = sort_by.replace("cuda", "cpu").replace("device", "cpu")
            if order not in _ORDERS:
                raise failure(
                    AttributeError, f"events cannot be sorted by {sort_by!r}; by {', '.join(_ORDERS)}"
                )
            rows.sort(key=lambda event: getattr(event, order), reverse=True)
        total = self.self_cpu_time_total
        cells = [_cells(event, total) for event in rows[:row_limit]]
        names = ["Name", *(event.key for event in rows[:row_limit])]
        width = max(map(len, names))
        lines = [f"{'Name':>{width}}  " + "  ".join(f"{c:>12}" for c in _COLUMNS)]
        for name, row in zip(names[1:], cells, strict=True):
            lines.append(f"{name:>{width}}  " + "  ".join(f"{c:>12}" for c in row))
        rule = "-" * len(lines[0])
        body = "\n".join([rule, lines[0], rule, *lines[1:], rule])
        return f"{body}\nSelf CPU time total: {_time(total)}\n"


def _cells(event: Any, total: float) -> list[str]:
    share = 100 / total if total else 0.0
    return [
        f"{event.self_cpu_time_total * share:.2f}%",
        _time(event.self_cpu_time_total),
        f"{event.cpu_time_total * share:.2f}%",
        _time(event.cpu_time_total),
        _time(event.cpu_time),
        str(event.count),
    ]


def _time(microseconds: float) -> str:
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= size:
            return f"{microseconds / size:.3f}{unit}"
    return f"{microseconds:.3f}us"


class _Timing(Interpreter):
    """Runs ops as eager does, and notes when."""

    def __init__(self, record_shapes: bool) -> None:
        self.record_shapes = record_shapes
        self.events: list[FunctionEvent] = []
        self.open: list[FunctionEvent] = []

    def begin(self, name: str, shapes: Any = None) -> FunctionEvent:
        """An event begins within the one that is open."""
        event = FunctionEvent(name, shapes)
        self.open.append(event)
        event.start = time.perf_counter_ns() / 1000
        return event

    def end(self, event: FunctionEvent) -> None:
        """An event, and what is still open within it, is over."""
        event.cpu_time_total = time.perf_counter_ns() / 1000 - event.start
        while self.open and self.open.pop() is not event:
            pass
        if self.open:
            self.open[-1]._inner += event.cpu_time_total
        self.events.append(event)

    def evaluating(self, plain: Interpreter) -> Interpreter:
        return self

    def bind(self, op: Op, args: tuple[Any, ...], params: Params) -> Any:
        shapes = (
            [list(a.shape) if isinstance(a, Tensor) else [] for a in args] if self.record_shapes else None
        )
        event = self.begin(op.name, shapes)
        try:
            return evaluate(op, args, params)
        finally:
            self.end(event)


class record_function:
    """A `with` block, or decorator, that is an event of its own in a profile; nothing besides.

    Source: `torch.profiler.record_function`.
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self._event: FunctionEvent | None = None

    def __enter__(self) -> record_function:
        if isinstance(state.interpreter, _Timing):
            self._event = state.interpreter.begin(self.name)
        return self

    def __exit__(self, *_: Any) -> None:
        if self._event is not None and isinstance(state.interpreter, _Timing):
            state.interpreter.end(self._event)
        self._event = None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name):
                return function(*args, **kwargs)

        return wrapped


class profile:
    """A `with` block whose eager ops are timed. Source: `torch.profiler.profile`.

    activities: what is watched; there is the CPU alone. schedule: what is done in which step; `step` says
    that one is over. on_trace_ready: called with the profiler when steps have been recorded. Inside a jitted
    function nothing is timed.

    >>> import fusegrad as fg
    >>> with fg.profiler.profile() as profiler:
    ...     _ = fg.ones(3) + 1
    >>> [event.key for event in profiler.key_averages()]
    ['full', 'add']
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[Any], Any] | None = None,
        record_shapes: bool = False,
        **options: Any,
    ) -> None:
        self.activities = set(activities or supported_activities())
        self.schedule = schedule or (lambda step: ProfilerAction.RECORD)
        self.on_trace_ready, self.record_shapes = on_trace_ready, record_shapes
        self.step_num = 0
        self._timing: _Timing | None = None
        self._done: list[FunctionEvent] = []

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()

    @property
    def current_action(self) -> ProfilerAction:
        """What is done in this step."""
        return self.schedule(self.step_num)

    def start(self) -> None:
        """Begin."""
        if state.interpreter is not None and self._timing is None:
            state.interpreter.effect("starts a profiler")
        if self.current_action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE):
            self._open()

    def _open(self) -> None:
        if self._timing is None and state.interpreter is None:
            self._timing = state.interpreter = _Timing(self.record_shapes)

    def _close(self) -> None:
        if self._timing is not None:
            state.interpreter = None
            self._done, self._timing = self._timing.events, None
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)

    def stop(self) -> None:
        """End, and hand the trace on."""
        self._close()

    def step(self) -> None:
        """A step of the program is over."""
        before = self.current_action
        self.step_num += 1
        if before is ProfilerAction.RECORD_AND_SAVE:
            self._close()
        self.start()

    def events(self) -> EventList:
        """All that was timed, in the order in which it ended."""
        return EventList(self._done if self._timing is None else self._timing.events)

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """The events of one name (and of inputs of the same shapes) summed up."""
        groups = defaultdict(list)
        for event in self.events():
            shapes = event.input_shapes if group_by_input_shape else None
            groups[event.key, str(shapes)].append(event)
        return EventList(
            FunctionEventAvg(key, members[0].input_shapes if group_by_input_shape else [], members)
            for (key, _), members in groups.items()
        )

    def export_chrome_trace(self, path: str) -> None:
        """Write a file for chrome://tracing."""
        events = [
            {
                "name": event.name,
                "ph": "X",
                "ts": event.start,
                "dur": event.cpu_time_total,
                "pid": os.getpid(),
                "tid": event.thread,
            }
            for event in self.events()
        ]
        with open(path, "w") as file:
            json.dump({"traceEvents": events}, file)


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[Any], None]:
    """For `on_trace_ready`: writes each trace into a file of a folder.

    Source: `torch.profiler.tensorboard_trace_handler`.
    """

    def handle(profiler: Any) -> None:
        os.makedirs(dir_name, exist_ok=True)
        name = f"{worker_name or os.getpid()}.{time.time_ns() // 1_000_000}.pt.trace.json"
        profiler.export_chrome_trace(os.path.join(dir_name, name))

    return handle


locate("fusegrad.profiler", globals(), __all__)
