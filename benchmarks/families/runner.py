"""Processes for contenders and families, which take turns program by program.

Each contender has one process for each family; all of them are alive, and one works at a time. A program
is prepared by all (first calls, agreement), then timed by all in rounds, so that what disturbs one
disturbs all. A contender that takes too long or dies has that as its status, and a new process for the
next program.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from families.contenders import COMPILED, EAGER
from families.declare import Program
from families.trees import python_of

WORKER = Path(__file__).with_name("worker.py")
START_SECONDS = 120.0  # imports and a first compilation

UNWANTED = ("PYTHONDONTWRITEBYTECODE", "JAX_COMPILATION_CACHE_DIR")


class Gone(Exception):
    """A worker took too long, or died; says which."""


class Worker:
    """The process of one contender, started when it is needed."""

    def __init__(self, name: str, scratch: Path, tree: Path | None = None) -> None:
        self.name, self.scratch, self.tree = name, scratch, tree
        self.process: subprocess.Popen[bytes] | None = None
        self.rest = b""

    def ask(self, wait: float, **command: Any) -> dict[str, Any]:
        """What the process answers. Raises Gone, after which the next command gets a new process."""
        if self.process is None:
            self.start()
        assert self.process is not None and self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(command).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            raise self.gone("died") from None
        return self.answer(wait)

    def start(self) -> None:
        """A new process, with caches of its own that nobody filled."""
        caches = tempfile.mkdtemp(prefix="caches-", dir=self.scratch)
        wanted = {name: value for name, value in os.environ.items() if name not in UNWANTED}
        wanted |= {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1", "TORCHINDUCTOR_CACHE_DIR": caches}
        wanted |= {"NUMBA_CACHE_DIR": caches, "XDG_CACHE_HOME": caches, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        python = python_of(self.tree) if self.tree else sys.executable
        command = [python, str(WORKER), self.name, *(["--tree", str(self.tree)] if self.tree else [])]
        self.log = (self.scratch / f"{self.name}.log").open("ab")
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.log}
        self.process = subprocess.Popen(command, env=wanted, start_new_session=True, bufsize=0, **pipes)
        self.rest = b""
        try:
            self.answer(START_SECONDS)
        except Gone as error:
            raise Gone(f"{error} while it was started") from None

    def answer(self, seconds: float) -> dict[str, Any]:
        """The next line. Raises Gone."""
        assert self.process is not None and self.process.stdout is not None
        end = time.monotonic() + seconds
        while b"\n" not in self.rest:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise self.gone("time limit")
            block = os.read(self.process.stdout.fileno(), 1 << 16)
            if not block:
                raise self.gone("died")
            self.rest += block
        line, self.rest = self.rest.split(b"\n", 1)
        return json.loads(line)

    def gone(self, why: str) -> Gone:
        """The reason, once the process is stopped with all that it started."""
        code = self.process.poll() if self.process else None
        self.stop()
        return Gone(why if code is None else f"{why} with code {code}")

    def stop(self) -> None:
        """End the process."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            for pipe in (self.process.stdin, self.process.stdout):
                assert pipe is not None
                pipe.close()
            self.log.close()
            self.process = None


@dataclass
class Settings:
    """seconds: of samples for each contender and program, in so many rounds. bound: of the first calls."""

    seconds: float = 0.45
    bound: float = 60.0
    rounds: int = 3
    check: bool = False  # agreement only: nothing is timed


class Team:
    """The workers of a family, by a label, and one that computes what all must agree with."""

    def __init__(self, labels: dict[str, Worker], reference: Worker, settings: Settings) -> None:
        self.labels, self.reference, self.settings = labels, reference, settings
        self.scratch = reference.scratch

    def row(self, program: Program, compiled: bool) -> dict[str, Any]:
        """Everything about one program. compiled: whether torch.compile takes part."""
        row: dict[str, Any] = {"family": program.family, "dtype": program.dtype, "kind": program.kind}
        expected = self.expect(program, row)
        names = [label for label, worker in self.labels.items() if compiled or worker.name != COMPILED]
        found: dict[str, dict[str, Any]] = {}
        for label in names:
            command = {
                "do": "prepare",
                "program": program.name,
                "expected": expected,
                "save": None,
                "dtype": None,
            }
            found[label] = self.asked(label, self.settings.bound, **command)
        ran = [label for label in names if "calls" in found[label]]
        if not self.settings.check:
            self.time(ran, found)
        for label in ran:
            if found[label]["status"] in ("ok", "DIFFERS"):
                found[label] |= self.asked(label, 30, do="finish", expected=expected, program=program.name)
        return {**row, "contenders": found}

    def expect(self, program: Program, row: dict[str, Any]) -> str | None:
        """The file with the results of the reference; into the row go the bytes and operations of a call."""
        path = str(self.scratch / "expected.pickle")
        command = {"program": program.name, "expected": None, "save": path, "dtype": "float64"}
        try:
            found = self.reference.ask(self.settings.bound, do="prepare", **command)
            if found["status"] != "ok":
                raise Gone(found.get("note", ""))
            # The reference computes in float64; the program may move half of that.
            row["bytes"] = found["bytes"] // (2 if program.dtype == "float32" else 1)
            if self.reference.name == "torch":
                row["flops"] = self.reference.ask(self.settings.bound, do="count").get("flops", 0)
        except Gone as error:
            row["reference"] = str(error)
            return None
        return path

    def time(self, labels: list[str], found: dict[str, dict[str, Any]]) -> None:
        """Rounds of samples, in turn; the median of the rounds' medians counts."""
        rounds: dict[str, list[dict[str, Any]]] = {label: [] for label in labels}
        for turn in range(self.settings.rounds):
            # A round starts with another contender each time: nobody always follows the same one.
            for label in labels[turn % max(len(labels), 1) :] + labels[: turn % max(len(labels), 1)]:
                if found[label]["status"] not in ("ok", "DIFFERS"):
                    continue
                slow = found[label]["calls"][-1] > 1.0
                if (slow or self.labels[label].name == EAGER) and turn:
                    continue  # one sample of a slow program, and of what is only there to compare
                answer = self.asked(
                    label, 60, do="measure", seconds=self.settings.seconds / self.settings.rounds
                )
                if "median" in answer:
                    rounds[label].append(answer)
                else:
                    found[label] |= answer
        for label, each in rounds.items():
            if each:
                low, high = min(one["low"] for one in each), max(one["high"] for one in each)
                median = statistics.median(one["median"] for one in each)
                found[label]["timing"] = {
                    "median": median,
                    "low": low,
                    "high": high,
                    "rounds": [one["median"] for one in each],
                }

    def asked(self, label: str, wait: float, **command: Any) -> dict[str, Any]:
        """A worker's answer, or its end as a status."""
        try:
            return self.labels[label].ask(wait, **command)
        except Gone as error:
            return {"status": str(error), "note": f"stopped at {command['do']}"}

    def stop(self) -> None:
        """End all processes."""
        for worker in (*self.labels.values(), self.reference):
            worker.stop()
