"""Runs test files in processes of their own; a crash fails the test that was running, and the rest go on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from peers.worker import SECONDS

GRACE = 240  # what a file may take to be read, on a busy machine


def run_file(
    file: Path,
    results: Path,
    checkout: Path,
    only: str = "",
    with_torch: bool = False,
    seconds: int = SECONDS,
    these: set[str] | None = None,
    one_in: int = 1,
    draws: int = 0,
) -> None:
    """Run the tests of a file into `results`, anew; each for `seconds` at most.

    these: only tests with these names are run, and `results` keeps the others' lines.
    one_in: otherwise an n-th of the tests is. draws: what is added to the seeds that PyTorch itself is given.
    """
    results.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "peers.worker", str(file), str(results), "--checkout", str(checkout)]
    command += ["--only", only, "--seconds", str(seconds), "--one-in", str(one_in)]
    command += ["--draws", str(draws)]
    command += ["--with-torch"] * with_torch
    if these is None:
        results.unlink(missing_ok=True)
    else:
        if not these:
            return
        kept = [line for line in read(results) if line.get("outcome") and line["test"] not in {"", *these}]
        results.write_text("".join(json.dumps(line) + "\n" for line in kept))
        names = results.with_suffix(".these")
        names.write_text(json.dumps(sorted(these)))
        command += ["--these", str(names)]
    while True:
        with results.with_suffix(".log").open("a") as log:
            worker = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=Path(__file__).parent.parent, env=environment()
            )
            _wait(worker, results, seconds + GRACE)
        died = _unfinished(results)
        if died is None:
            return
        how = f"the process ended: {_how(worker.returncode)}"
        with results.open("a") as lines:
            lines.write(
                json.dumps({"test": died, "outcome": "failed", "type": "Crash", "message": how}) + "\n"
            )
        if not died:
            return


def environment() -> dict[str, str]:
    """That of the workers: one thread each, so that several files may run at once."""
    return os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": ""}


def _wait(worker: subprocess.Popen[bytes], results: Path, patience: int) -> None:
    """Until the worker ends, or is stuck where its own limit of time does not reach it: it is ended here."""
    started = time.time()
    while worker.poll() is None:
        time.sleep(0.2)
        last = max(results.stat().st_mtime if results.exists() else 0, started)
        if time.time() - last > patience:
            worker.kill()
            worker.wait()


def _unfinished(results: Path) -> str | None:
    """The test that had begun when the worker ended; "" where it had not even read the file."""
    lines = read(results)
    if not lines:
        return ""
    last = lines[-1]
    return None if "outcome" in last else last["test"]


def _how(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def read(results: Path) -> list[dict[str, Any]]:
    """The lines of a file of results."""
    if not results.exists():
        return []
    return [json.loads(line) for line in results.read_text().splitlines()]
