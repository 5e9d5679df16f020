"""Functions of a program that run in ranks of their own: what `multiprocessing` does, through MPI's launcher.

In: a function and its arguments, pickled as `multiprocessing` pickles for new processes. Out: the function
called in each rank, with the rank's number before its arguments.
"""

from __future__ import annotations

import pickle
import sys
import tempfile
from collections.abc import Callable, Sequence
from multiprocessing import spawn
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

from fusegrad.eager.ranks.launch import End, run


def pack(function: Callable[..., Any], arguments: Sequence[Any]) -> bytes | None:
    """The function with its arguments; None where these cannot be pickled for processes that others start."""
    try:
        whole = bytes(ForkingPickler.dumps((function, tuple(arguments))))
    except Exception:  # as of locks and queues, which only processes of this one can have
        return None
    preparation = spawn.get_preparation_data("rank")
    del preparation["authkey"]  # for connections to this process, which ranks have none of
    return pickle.dumps((preparation, whole))


def call(path: str, rank: int) -> None:
    """Call a packed function as this rank, in a program prepared as the one that has packed it."""
    preparation, whole = pickle.loads(Path(path).read_bytes())
    spawn.prepare(preparation)
    function, arguments = pickle.loads(whole)
    sys.stdout.flush()
    function(rank, *arguments)


def run_packed(packed: bytes, ranks: int) -> tuple[int, End | None]:
    """Run a packed function in so many ranks of this machine: the exit status, and who failed first."""
    with tempfile.TemporaryDirectory(prefix="fusegrad-spawn-") as folder:
        path = Path(folder) / "function"
        path.write_bytes(packed)
        return run(["--function", str(path)], ranks)
