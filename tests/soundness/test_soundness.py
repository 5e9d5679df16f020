"""The corpus of programs that a tracing JIT must not get wrong: none may differ from eager, and
neither eager nor jitted from PyTorch; and all but a few must be answered by compiled code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent


def finished(*command: str) -> subprocess.CompletedProcess[str]:
    """A command of this folder that has run."""
    environment = {**os.environ, "PYTHONPATH": str(FOLDER)}
    return subprocess.run(
        [sys.executable, *command], cwd=FOLDER, capture_output=True, text=True, env=environment
    )


def run(tmp_path: Path, *options: str) -> list[dict[str, Any]]:
    """The rows of a run of all 323 programs, which must all pass; the corpus is made with torch at hand."""
    pytest.importorskip("torch")
    report = tmp_path / "report.json"
    done = finished("soundness_cases.py", "run", *options, "--json", str(report))
    assert "{'pass': 323} of 323 cases" in done.stdout, done.stdout[-4000:] + done.stderr[-2000:]
    rows: list[dict[str, Any]] = json.loads(report.read_text())["rows"]
    return rows


@pytest.mark.one_in(3)
@pytest.mark.parametrize("warm", [1, 3, 40])
def test_no_program_differs_from_eager_and_most_are_compiled(warm: int, tmp_path: Path):
    rows = run(tmp_path, "mod:adapter", "--ref", "eager", "--warm", str(warm))
    if warm > 1:
        without = [row["id"] for row in rows if not row["stats"]["compiled_calls"]]
        assert len(without) <= 0.08 * len(rows), without


@pytest.mark.parametrize("backend", ["mod:eager_adapter", "mod:random_adapter"])
def test_no_program_differs_from_pytorch(backend: str, tmp_path: Path):
    run(tmp_path, backend)


def test_programs_may_come_in_any_order():
    done = finished("shuffled.py", "1")
    assert done.stdout == "seed 1: 323 pass\n", done.stdout + done.stderr


def test_programs_without_a_compiled_call_are_listed_with_reasons():
    done = finished("uncompiled.py")
    programs = done.stdout.split("\n- **")[1:]
    assert programs and all("\n  - " in text for text in programs), done.stdout + done.stderr
