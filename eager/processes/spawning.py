"""A function in several processes, and what becomes of their errors. As `torch.multiprocessing.spawn`."""

from __future__ import annotations

import multiprocessing
import signal
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from typing import Any

from fusegrad.eager.core.public import locate
from fusegrad.eager.ranks.functions import pack, run_packed
from fusegrad.eager.ranks.launch import can_launch

__all__ = [
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]


class ProcessException(Exception):
    """A process that failed: its number among those that were started, and its id."""

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, error_pid


class ProcessRaisedException(ProcessException):
    """A process whose function raised; the text has its traceback."""


class ProcessExitedException(ProcessException):
    """A process that ended by a signal or with an exit code."""

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name


def _run(function: Callable[..., Any], index: int, args: Sequence[Any], errors: Any) -> None:
    try:
        function(index, *args)
    except KeyboardInterrupt:
        pass  # the parent has it, too
    except Exception:
        errors.put(traceback.format_exc())
        raise SystemExit(1) from None


class ProcessContext:
    """Processes that run one function; `join` waits for them."""

    def __init__(self, processes: Sequence[Any], error_queues: Sequence[Any]) -> None:
        self.processes, self.error_queues = list(processes), list(error_queues)
        self._running = {process.sentinel: i for i, process in enumerate(self.processes)}

    def pids(self) -> list[int]:
        """The ids of the processes."""
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for a process to end, or `timeout` seconds; whether all have.

        Where one failed, the others are ended, and its error is raised: `ProcessRaisedException` with its
        traceback, or `ProcessExitedException`.
        """
        if not self._running:
            return True
        failed = None
        for sentinel in wait(list(self._running), timeout):
            index = self._running.pop(sentinel)
            self.processes[index].join()
            if self.processes[index].exitcode != 0 and failed is None:
                failed = index
        if failed is None:
            return not self._running
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        for process in self.processes:
            process.join(grace_period)
            if process.is_alive():
                process.kill()
                process.join()
        raise self._error(failed)

    def _error(self, index: int) -> ProcessException:
        process, errors = self.processes[index], self.error_queues[index]
        return _failed(index, process.pid, process.exitcode, "" if errors.empty() else errors.get())


def _failed(index: int, process: int, status: int, trace: str) -> ProcessException:
    """The error that says how a process has ended. trace: of what it raised, if it did."""
    if trace:
        text = f"\n\n-- Process {index} terminated with the following error:\n{trace}"
        return ProcessRaisedException(text, index, process)
    if status < 0:
        name = signal.Signals(-status).name
        text = f"process {index} terminated with signal {name}"
        return ProcessExitedException(text, index, process, status, name)
    return ProcessExitedException(
        f"process {index} terminated with exit code {status}", index, process, status
    )


def start_processes(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run `fn(i, *args)` in `nprocs` processes; gives their context if it is not to wait for them.

    Source: `torch.multiprocessing.start_processes`.
    """
    packed = None
    if join and nprocs > 1 and start_method == "spawn" and not daemon and can_launch():
        packed = pack(fn, args)
    if packed is not None:
        _through_mpi(packed, nprocs)
        return None
    kind: Any = multiprocessing.get_context(start_method)
    queues = [kind.SimpleQueue() for _ in range(nprocs)]
    processes = [
        kind.Process(target=_run, args=(fn, i, args, queue), daemon=daemon) for i, queue in enumerate(queues)
    ]
    for process in processes:
        process.start()
    context = ProcessContext(processes, queues)
    if not join:
        return context
    while not context.join():
        pass
    return None


def _through_mpi(packed: bytes, nprocs: int) -> None:
    """Run a function in processes that MPI connects. Raises the error of the first that fails."""
    _, end = run_packed(packed, nprocs)
    if end is not None:
        raise _failed(end.rank, end.process, end.status, end.trace)


def spawn(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run `fn(i, *args)` in `nprocs` new processes. Source: `torch.multiprocessing.spawn`.

    join: wait for them; the error of one that fails is raised, and the others are ended. Gives a
    `ProcessContext` otherwise. Where they are waited for and there is MPI, its launcher starts them, so that
    they can make a process group (`fusegrad.distributed`).
    """
    return start_processes(fn, args, nprocs, join, daemon, start_method)


def get_all_sharing_strategies() -> set[str]:
    """The ways in which memory is shared: one. Source: `torch.multiprocessing.get_all_sharing_strategies`."""
    return {"file_system"}


def get_sharing_strategy() -> str:
    """The way in which memory is shared. Source: `torch.multiprocessing.get_sharing_strategy`."""
    return "file_system"


def set_sharing_strategy(new_strategy: str) -> None:
    """Takes the names that PyTorch has; files it is. Source: `torch.multiprocessing.set_sharing_strategy`."""
    if new_strategy not in ("file_system", "file_descriptor"):
        raise ValueError(f"{new_strategy!r} is not a way to share memory")


locate("fusegrad.multiprocessing", globals(), __all__)
