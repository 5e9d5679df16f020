"""Programs that run as several ranks, each with checks of its own, or none."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fusegrad.eager.ranks.launch import can_launch

PROGRAMS = Path(__file__).parent / "programs"


def run_ranks(
    program: Path, *arguments: str, ranks: int = 2, timeout: float = 300, **environment: str
) -> subprocess.CompletedProcess[str]:
    """`fusegrad run` of a program, or a skip where there is no MPI."""
    if not can_launch():
        pytest.skip("needs MPI: pip install 'fusegrad[mpi]'")
    command = [sys.executable, "-m", "fusegrad", "run", f"--nproc-per-node={ranks}", str(program), *arguments]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, **environment},
        check=False,
    )


def checks_of(name: str) -> list[str]:
    """The names of a program's checks."""
    tree = ast.parse((PROGRAMS / name).read_text())
    return [n.name for n in tree.body if isinstance(n, ast.FunctionDef) and n.name.startswith("check_")]


def failures_of(name: str, *arguments: str, ranks: int = 2) -> str:
    """How checks of a program failed, by their names and ranks; empty if all have passed on all ranks."""
    with tempfile.TemporaryDirectory() as folder:
        done = run_ranks(PROGRAMS / name, folder, *arguments, ranks=ranks)
        found = {path.stem: json.loads(path.read_text()) for path in sorted(Path(folder).glob("*.json"))}
    failed = [
        f"{check} on rank {rank}: {one.get(check, 'not run')}"
        for check in checks_of(name)
        for rank, one in found.items()
        if one.get(check, "not run")
    ]
    if done.returncode or len(found) != ranks:
        failed.append(done.stdout + done.stderr)
    return "\n".join(failed)


@pytest.fixture
def failures():
    return failures_of


@pytest.fixture
def ranks_run():
    return run_ranks
