"""Starting ranks through MPI's launcher, and saying which of them failed, how, and in what.

In: how many ranks, and what they run. Out: the exit status. What a rank did last, and how it ended, it
leaves in a folder of the run (`last_call.py`, `supervised.py`).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fusegrad.eager.core.errors import failure
from fusegrad.eager.ranks.last_call import shown
from fusegrad.eager.ranks.places import Place, is_there, place, threads_each
from fusegrad.eager.ranks.supervised import FOLDER

_BEGINS = "fusegrad.eager.ranks.beginning"
_SUPERVISED = str(Path(__file__).with_name("supervised.py"))
# What launchers of other MPIs need to run as root, and more ranks than there are cores; each knows its own.
_ALLOWED = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": "slot:oversubscribe",
}


class End(NamedTuple):
    """How a rank ended that failed before the others, and what it last did with them.

    how: in words. status: its exit status, or minus the signal that killed it. trace: of an error.
    """

    rank: int
    process: int
    how: str
    status: int
    trace: str
    last: str

    def __str__(self) -> str:
        return f"rank {self.rank} {self.how}; its last collective: {self.last}"


def can_launch() -> bool:
    """Whether this process may start ranks: there is MPI, and it is no rank itself."""
    try:
        return is_there() and place() is None and bool(launcher())
    except RuntimeError:
        return False


def launcher() -> str:
    """MPI's launcher: FUSEGRAD_MPIEXEC, that beside this Python, or the first on the PATH.

    Raises RuntimeError where there is none.
    """
    asked = os.environ.get("FUSEGRAD_MPIEXEC")
    beside = Path(sys.executable).parent / "mpiexec"
    found = asked or (str(beside) if beside.exists() else shutil.which("mpiexec"))
    if found is None:
        raise failure(
            RuntimeError,
            "there is no mpiexec: pip install 'fusegrad[mpi]', or load the site's MPI, or name one in "
            "FUSEGRAD_MPIEXEC",
        )
    return found


def run(
    command: Sequence[str], local: int, machines: int = 1, options: Sequence[str] = ()
) -> tuple[int, End | None]:
    """Run a script, `-m module` or `--function file`: the exit status, and who failed first.

    local: how many ranks a machine has. options: for mpiexec, as on which machines.
    """
    # Other machines see the folder of the program, if any.
    with tempfile.TemporaryDirectory(prefix=".fusegrad-run-", dir="." if machines > 1 else None) as made:
        folder = str(Path(made).absolute())
        each = str(threads_each(Place(0, local * machines, 0, local)))
        environment: Mapping[str, str] = {
            **_ALLOWED,
            "OMP_NUM_THREADS": each,
            "OPENBLAS_NUM_THREADS": each,
            **os.environ,
            FOLDER: folder,
        }
        whole = [
            launcher(),
            *options,
            "-n",
            str(local * machines),
            sys.executable,
            _SUPERVISED,
            _BEGINS,
            *command,
        ]
        status = subprocess.run(whole, env=environment, check=False).returncode
        ends = [(json.loads(path.read_text()), path.name) for path in Path(folder).glob("end-*")]
        if not ends:
            return status, None
        told, name = min(ends, key=lambda end: end[0]["time"])
        rank = int(name.removeprefix("end-"))
        last = shown(folder, rank)
        end = End(rank, told["process"], told["how"], told["status"], told["trace"], last)
        return (end.status if end.status > 0 else 128 - end.status), end
