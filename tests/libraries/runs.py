"""Runs the programs, each way in a process of its own, and compares what came of them."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from libraries import venvs

WAYS = "torch", "fusegrad", "compiled"
WORKER = Path(__file__).with_name("worker.py")
SECONDS = 400
# How far losses, values, weights and the first step's gradients may be from PyTorch's, as twenty steps of
# float32 go. Cases by which rounding grows beyond that, in PyTorch's own numbers, are not fit.
CLOSE = 1e-3
SMALL = 0.01  # smaller sums of magnitudes of a weight or a statistic are compared as if they were this
TESTS = Path(__file__).parents[1]


def run(name: str, ways: tuple[str, ...] = WAYS) -> dict[str, Any]:
    """What the worker writes down of a library's program in each way."""
    with tempfile.TemporaryDirectory() as states:
        return {way: _run(name, way, states) for way in ways}


def command(name: str, way: str, script: Path, *words: str) -> list[str]:
    """What runs a script in the venv of a library, in one of the ways."""
    place = [] if way == "torch" else ["-m", "fusegrad.torch"]
    return [str(venvs.python_of(name)), *place, str(script), *words]


def environment(way: str) -> dict[str, str]:
    path = [str(TESTS), *([str(venvs.torch_alone())] if way == "torch" else [])]
    quiet = {"HF_HUB_OFFLINE": "1", "MPLBACKEND": "Agg", "PYTHONPATH": os.pathsep.join(path)}
    return {**os.environ, **quiet}


def _run(name: str, way: str, states: str) -> dict[str, Any]:
    result = Path(states) / f"{way}.json"
    with (venvs.FOLDER / f"{name}.{way}.log").open("w") as log:
        try:
            ended = subprocess.run(
                command(name, way, WORKER, name, way, states, str(result)),
                cwd=states,
                env={**environment(way), "OMP_NUM_THREADS": "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                timeout=SECONDS,
            ).returncode
        except subprocess.TimeoutExpired:
            ended = None
    told = (
        json.loads(result.read_text()) if result.exists() else {"imported": False, "error": "", "cases": {}}
    )
    if ended != 0 and not told["error"]:
        told["error"] = f"longer than {SECONDS} s" if ended is None else f"the process ended with {ended}"
    return told


@dataclass(frozen=True)
class Row:
    """How one case of a library went. told: what the worker wrote down of it, by way."""

    library: str
    case: str
    told: dict[str, dict[str, Any]]

    @property
    def is_fair(self) -> bool:
        """Whether PyTorch itself does it."""
        return not self.told["torch"]["error"]

    def error(self, way: str) -> str:
        """Why it does not run; empty where it does."""
        return str(self.told[way]["error"])

    def difference(self, way: str) -> tuple[float, str]:
        """The largest difference from PyTorch's numbers, relative to their size, and of what it is."""
        found = [(0.0, "")]
        ours, theirs = _numbers(self.told[way]), _numbers(self.told["torch"])
        steepest = max((np.abs(v).max() for k, v in theirs.items() if k[0] == "gradients"), default=0.0)
        for key in [k for k in theirs if k[0] != "values"] if way == "compiled" else theirs:
            right, got = theirs[key], ours.get(key)
            same = got is not None and got.shape == right.shape
            # What is nothing but rounding stands beside the other gradients, and is a small part of a state.
            least = {"gradients": steepest, "state": SMALL}.get(key[0], 1e-6)
            found.append((_apart(got, right, least) if same else np.inf, " ".join(key)))  # type: ignore[arg-type]
        return max(found)

    @property
    def trains(self) -> bool:
        return "losses" in self.told["torch"]

    def is_equal(self, way: str = "fusegrad") -> bool:
        return not self.error(way) and self.difference(way)[0] <= CLOSE

    def replays(self) -> bool:
        """Whether late steps enter no Python, and still come to what PyTorch's do."""
        asked = self.trains and "compiled" in self.told
        return asked and self.is_equal("compiled") and self.told["compiled"]["entered"] == 0


def _numbers(told: dict[str, Any]) -> dict[tuple[str, ...], np.ndarray]:
    flat = {("losses",): told.get("losses", [])}
    for group in ("values", "gradients", "state"):
        flat |= {(group, key): value for key, value in told.get(group, {}).items()}
    return {key: np.atleast_1d(np.asarray(value, np.float64)) for key, value in flat.items()}


def _apart(got: np.ndarray, right: np.ndarray, least: float) -> float:
    """NaN is where NaN is; else the difference, relative to the largest number, or to `least`."""
    if not np.array_equal(np.isfinite(got), np.isfinite(right)):
        return float("inf")
    finite = np.isfinite(right)
    if not finite.any():
        return 0.0
    return float(np.max(np.abs(got - right)[finite]) / max(np.max(np.abs(right[finite])), least))


def rows(name: str, found: dict[str, Any]) -> Iterator[Row]:
    """A library's cases; one of the import alone where PyTorch has none to compare with."""
    for case in found["torch"]["cases"] or {"import": {}}:
        told = {}
        for way, whole in found.items():
            told[way] = whole["cases"].get(case, {"error": whole["error"] or "was not reached"})
        yield Row(name, case, told)
