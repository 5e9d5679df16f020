"""A rank under `fusegrad run`, as a script of its own: `python supervised.py module arguments`.

The process that the launcher has started only waits. Its child is the rank; when that ends, what became of
it is written into the folder of the run, whatever it died of. Nothing of the engine is imported before.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
import traceback

FOLDER = "FUSEGRAD_RUN_FOLDER"
_OWN = (os.path.dirname(os.path.abspath(__file__)), "<frozen runpy>")
# The variables of launchers for rank and size, and for both among the processes of the machine: MPICH and
# Intel MPI, Open MPI, and Slurm's steps.
LAUNCHERS = (
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    (
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"),
)


def main() -> None:
    """Run the script as this rank, and leave word of its end."""
    del sys.path[0]  # the folder of this file, whose modules nobody may find by their bare names
    rank = next((os.environ[name] for name, *_ in LAUNCHERS if name in os.environ), "0")
    place = os.path.join(os.environ[FOLDER], f"end-{rank}")
    if not hasattr(os, "fork"):
        _run(place)
    child = os.fork()
    if child == 0:
        _die_with_parent()
        _run(place)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, frame: os.kill(child, received))
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        killed = f"was killed by {signal.Signals(-status).name}" if status < 0 else ""
        _leave(place, killed or f"ended with exit status {status}", status, child)
    sys.stdout.flush()
    os._exit(status if status >= 0 else 128 - status)


def _leave(place: str, how: str, status: int, process: int, trace: str = "") -> None:
    """Say when and how this rank has ended, unless it has said so itself."""
    told = {"time": time.time(), "process": process, "how": how, "status": status, "trace": trace}
    try:
        with open(place, "x") as file:
            json.dump(told, file)
    except OSError:
        pass  # it has; or the machine has no such folder


def _run(place: str) -> None:
    """Run the script, in this process, and end it."""
    code = 0
    try:
        importlib.import_module(sys.argv[1]).begin(sys.argv[2:])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        if code:
            _leave(place, f"ended with exit status {code}", code, os.getpid())
    except BaseException as error:
        code = 1
        below = error.__traceback__  # of what runs the script, which is nobody's interest
        while below is not None and below.tb_frame.f_code.co_filename.startswith(_OWN):
            below = below.tb_next
        trace = "".join(traceback.format_exception(type(error), error, below))
        text = (str(error).splitlines() or [""])[0]
        _leave(place, f"raised {type(error).__name__}: {text}", code, os.getpid(), trace)
        print(trace, end="", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    if code:
        os._exit(code)  # MPI's own end would wait for the others
    sys.exit(0)


def _die_with_parent() -> None:
    """Have the rank end with the process that waits for it, where the launcher kills that one (Linux)."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


if __name__ == "__main__":
    main()
