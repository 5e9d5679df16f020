"""The corpus of programs that a tracing JIT must not get wrong: none may differ from eager, and
eager may not differ from PyTorch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent


def run(tmp_path: Path, *options: str) -> list[dict[str, Any]]:
    """The rows of a run of all 323 programs, which must all pass."""
    report = tmp_path / "report.json"
    command = [sys.executable, "soundness_cases.py", "run", *options, "--json", str(report)]
    environment = {**os.environ, "PYTHONPATH": str(FOLDER)}
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, env=environment)
    assert "{'pass': 323} of 323 cases" in done.stdout, done.stdout[-4000:] + done.stderr[-2000:]
    rows: list[dict[str, Any]] = json.loads(report.read_text())["rows"]
    return rows


@pytest.mark.parametrize("warm", [1, 3])
def test_no_program_differs_from_eager(warm: int, tmp_path: Path):
    run(tmp_path, "mod:adapter", "--ref", "eager", "--warm", str(warm))


def test_no_program_differs_between_eager_and_pytorch(tmp_path: Path):
    run(tmp_path, "mod:eager_adapter")
