"""`fusegrad run`: what becomes of a job whose rank ends, and of its checkpoints."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fusegrad.eager.ranks.launch import can_launch
from fusegrad.eager.ranks.places import Place, place, publish, threads_each

PROGRAM = Path(__file__).parent / "programs" / "ending.py"
LR, STEPS = 0.1, 6
KILLED = "was killed by SIGKILL"
# Where a rank ends, how, what is said of it, the exit status, and whether steps are replayed.
ENDS = [
    ("forward", "is killed", f"rank 1 {KILLED}", 137, ""),
    ("backward", "is killed", f"rank 1 {KILLED}", 137, ""),
    ("all_reduce", "is killed", f"rank 1 {KILLED}", 137, ""),
    ("checkpoint", "is killed", f"rank 0 {KILLED}", 137, ""),
    ("forward of a replay", "is killed", f"rank 1 {KILLED}", 137, "jitted"),
    ("backward", "is killed", f"rank 1 {KILLED}", 137, "jitted"),
    ("all_reduce", "is killed", f"rank 1 {KILLED}", 137, "jitted"),
    ("backward", "raises", "rank 1 raised ValueError: planted", 1, ""),
    ("all_reduce", "raises", "rank 1 raised ValueError: planted", 1, ""),
    ("backward", "raises", "rank 1 raised ValueError: planted", 1, "jitted"),
    ("forward", "exits", "rank 1 ended with exit status 3", 3, ""),
]


def expected() -> float:
    """The weight after all steps, of two ranks that want other ones."""
    weight = 0.0
    for step in range(STEPS):
        weight -= LR * ((weight - step) + (weight - step - 1))
    return weight


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("where", "how", "said", "status", "jitted"), ENDS)
def test_a_rank_that_ends(
    ranks_run: Callable[..., subprocess.CompletedProcess[str]],
    tmp_path: Path,
    where: str,
    how: str,
    said: str,
    status: int,
    jitted: str,
) -> None:
    """The job ends, says who ended, and goes on from the last checkpoint, of which there is no half."""
    path = tmp_path / "checkpoint.pt"
    arguments = [jitted] * bool(jitted)
    done = ranks_run(PROGRAM, str(path), where, how, *arguments, timeout=120)
    text = done.stdout + done.stderr
    assert done.returncode == status and f"fusegrad run: {said}" in text, text
    assert "; its last collective: #" in text and "ending.py:" in text, text
    again = ranks_run(PROGRAM, str(path), "nowhere", "", *arguments, timeout=120)
    assert again.returncode == 0, again.stdout + again.stderr
    _, weight, _, start = next(x for x in again.stdout.splitlines() if x.startswith("weight")).split()
    assert float(weight) == pytest.approx(expected(), abs=1e-5) and start == "3"
    assert [file.name for file in tmp_path.iterdir() if file.name[0] != "."] == [path.name]


def test_wrong_usage() -> None:
    for arguments, words in (
        (["--nproc-per-node", "0", "x.py"], "must be at least 1"),
        (["nowhere.py"], "there is no file nowhere.py"),
    ):
        command = [sys.executable, "-m", "fusegrad", "run", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 2 and words in done.stderr


def test_a_launcher_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.delenv("FUSEGRAD_MPIEXEC", raising=False)
    assert not can_launch()


@pytest.mark.parametrize(
    ("environment", "there"),
    [
        (
            {"PMI_RANK": "1", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"},
            Place(1, 4, 1, 2),
        ),
        (
            {
                "OMPI_COMM_WORLD_RANK": "3",
                "OMPI_COMM_WORLD_SIZE": "4",
                "OMPI_COMM_WORLD_LOCAL_RANK": "1",
                "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
            },
            Place(3, 4, 1, 2),
        ),
        (
            {
                "SLURM_PROCID": "5",
                "SLURM_STEP_NUM_TASKS": "8",
                "SLURM_LOCALID": "1",
                "SLURM_STEP_TASKS_PER_NODE": "4(x2)",
            },
            Place(5, 8, 1, 4),
        ),
        ({"PMI_RANK": "0", "PMI_SIZE": "2"}, Place(0, 2, 0, 2)),
        ({"SLURM_PROCID": "0"}, None),
    ],
)
def test_places(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], there: Place | None) -> None:
    names = (
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "GROUP_RANK",
        "MASTER_ADDR",
        "MASTER_PORT",
    )
    for name in names:
        monkeypatch.setenv(name, "set before")  # so that it is put back
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert place() == there
    if there is not None:
        publish(there)
        assert threads_each(there) >= 1
