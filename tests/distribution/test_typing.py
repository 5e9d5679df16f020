"""mypy and pyright read a user's program beside an installed fusegrad."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the environment is laid out for POSIX")
HERE = Path(__file__).resolve().parent
Errors = list[tuple[int, str]]


def mypy(program: Path, python: Path, folder: Path) -> Errors:
    """The errors that mypy reports, with their lines."""
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(python)]
    command += ["--cache-dir", str(folder / "cache"), "--config-file", "", str(program)]
    said = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    assert said.returncode in (0, 1) and not said.stderr, said.stdout + said.stderr
    found = re.findall(r"^.*?:(\d+): error: (.*)$", said.stdout, re.MULTILINE)
    return [(int(line), text) for line, text in found]


def pyright(program: Path, python: Path, folder: Path) -> Errors:
    """The errors that pyright reports, with their lines."""
    command = [sys.executable, "-m", "pyright", "--pythonpath", str(python), "--outputjson", str(program)]
    said = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    found: list[dict[str, Any]] = json.loads(said.stdout)["generalDiagnostics"]
    return [(d["range"]["start"]["line"] + 1, d["message"]) for d in found if d["severity"] == "error"]


CHECKERS = pytest.mark.parametrize("check", [mypy, pyright], ids=lambda c: c.__name__)
Check = Callable[[Path, Path, Path], Errors]


def copied(name: str, folder: Path) -> Path:
    """The program where nothing of the checkout lies about."""
    program = folder / name
    program.write_text((HERE / name).read_text())
    return program


@CHECKERS
def test_a_users_program_passes(check: Check, installed: Any, tmp_path: Path) -> None:
    assert check(copied("program.py", tmp_path), installed.python, tmp_path) == []


@CHECKERS
def test_each_wrong_line_is_reported(check: Check, installed: Any, tmp_path: Path) -> None:
    program = copied("wrong.py", tmp_path)
    wrong = {i for i, line in enumerate(program.read_text().splitlines(), 1) if line.endswith("# error")}
    assert wrong
    assert {line for line, _ in check(program, installed.python, tmp_path)} == wrong


def test_the_users_program_runs(installed: Any, tmp_path: Path) -> None:
    program = copied("program.py", tmp_path)
    done = subprocess.run(
        [installed.python, program], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "compiled" in done.stdout


def test_the_stubs_are_current() -> None:
    root = HERE.parent.parent
    command = [sys.executable, str(root / "tools" / "write_stubs.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"run tools/write_stubs.py: {done.stdout}{done.stderr}"
