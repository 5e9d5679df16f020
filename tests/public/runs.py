"""Runs the scripts, each in processes of its own, and reads how that went."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from public import data

HERE = Path(__file__).parent
WAYS = "torch", "fusegrad", "compiled"
NOT_RUN = {"error": "not run", "seconds": [], "model_calls": []}
# So many steps; more until this many seconds have gone by since the first, half of them where they take so
# many; and the most that a script may take.
STEPS, SHORT, LONG, SECONDS = 40, 3, 15, 120
# What is within this factor of PyTorch's time is run so many times in all.
CLOSE, TIMES = 1.25, 3


@dataclass(frozen=True)
class Script:
    """One script. source: its repository; folder: where that lies. stand_ins: others than all have."""

    source: str
    path: str
    arguments: tuple[str, ...]
    folder: Path
    stand_ins: str = ""

    def run(
        self, way: str, steps: int = STEPS, seconds: float = SECONDS, short: float = SHORT
    ) -> dict[str, Any]:
        """What `one_script.py` writes down of it; an `error` alone where it does not come to that."""
        with tempfile.TemporaryDirectory() as place:
            result, work = Path(place) / "result.json", Path(place) / "work"
            work.mkdir()
            data.prepare(work)
            script = self.folder / self.path
            command = [HERE / "one_script.py", way, steps, short, LONG, result, script, *self.arguments]
            places = [self.folder, *([HERE / self.stand_ins] if self.stand_ins else [])]
            path = os.pathsep.join([*map(str, places), os.environ.get("PYTHONPATH", "")])
            try:
                ran = subprocess.run(
                    [sys.executable, *map(str, command)],
                    cwd=work,
                    env={**os.environ, "PYTHONPATH": path},
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=seconds,
                )
            except subprocess.TimeoutExpired:
                return {"error": f"made no {steps // 2} steps in {seconds:.0f} s"}
            if not result.exists():
                return {"error": f"ended with {ran.returncode}: {ran.stderr.strip()[-200:]}"}
            return json.loads(result.read_text())


@dataclass
class Outcome:
    """How a script went. found: by way, what was written down."""

    source: str
    path: str
    found: Mapping[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.found = dict.fromkeys(WAYS, NOT_RUN) | {**self.found}

    def runs(self, way: str) -> bool:
        """Whether it made its steps: without an error, or before one that it ends with under PyTorch, too."""
        told, torch = self.found[way], self.found["torch"]
        if not told["error"]:
            return bool(told["seconds"])
        return bool(torch["error"]) and min(len(t["seconds"]) for t in (told, torch)) >= STEPS

    def replays(self) -> bool:
        """Whether nine of ten late calls of what was compiled entered no Python."""
        told = self.found["compiled"]
        return self.runs("compiled") and told["calls"] > 0 and told["entered"] <= told["calls"] / 10

    def milliseconds(self, way: str) -> float:
        """What a round of all optimizers took, the median of the last third."""
        return 1000 * statistics.median(seconds for seconds, _ in self._late_rounds(way))

    def speed(self, way: str) -> float:
        """How many times as fast as PyTorch a way is: by the time of a round for each of its calls of
        modules, of which the rounds of two ways may have different numbers.
        """
        return self.pace("torch") / self.pace(way)

    def pace(self, way: str) -> float:
        """The seconds of a round for each of its calls of modules."""
        return statistics.median(seconds / max(calls, 1) for seconds, calls in self._late_rounds(way))

    def is_close(self) -> bool:
        """Whether it is about as fast as PyTorch: one run does not tell which is faster."""
        runs = self.runs("torch") and self.runs("compiled")
        return runs and 1 / CLOSE < self.speed("compiled") < CLOSE

    def middle_of(self, others: Sequence[Outcome]) -> Outcome:
        """For each way the middle one of these runs, of which there is an odd number, by their pace."""
        found = {}
        for way in WAYS:
            runs = [o for o in (self, *others) if o.runs(way)]
            runs.sort(key=lambda outcome, way=way: outcome.pace(way))  # type: ignore[misc]
            found[way] = (runs[len(runs) // 2] if runs else self).found[way]
        return Outcome(self.source, self.path, found)

    def _late_rounds(self, way: str) -> list[tuple[float, int]]:
        """The seconds of each round of all optimizers in the last third, and its calls of modules."""
        told = self.found[way]
        ends, several = told["seconds"], max(told["optimizers"], 1)
        late = slice(min(len(ends) * 2 // 3, len(ends) - several - 1), None)
        pairs = [*zip(ends, told["model_calls"], strict=True)][late]
        return [(b - a, n - m) for (a, m), (b, n) in zip(pairs, pairs[several:], strict=False)]


def scripts(folder: Path, only: str = "") -> Iterator[Script]:
    """The scripts of the list with this in their names."""
    for repository in tomllib.loads((HERE / "scripts.toml").read_text())["repository"]:
        source = repository["source"]
        arguments = repository.get("arguments", {})
        for path in repository["scripts"]:
            if only in f"{source}/{path}":
                place = folder / source.replace("/", "+")
                others = repository.get("stand_ins", "")
                yield Script(source, path, tuple(arguments.get(path, ())), place, others)
