"""The corpus of programs that a tracing JIT must not get wrong: none may differ from eager."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


@pytest.mark.parametrize("warm", [1, 3])
def test_no_program_differs_from_eager(warm: int, tmp_path: Path):
    report = tmp_path / "report.json"
    command = [sys.executable, "soundness_cases.py", "run", "mod:adapter", "--ref", "eager"]
    command += ["--warm", str(warm), "--json", str(report)]
    done = subprocess.run(
        command, cwd=FOLDER, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(FOLDER)}
    )
    assert "{'pass': 323} of 323 cases" in done.stdout, done.stdout[-4000:] + done.stderr[-2000:]
    assert json.loads(report.read_text())
