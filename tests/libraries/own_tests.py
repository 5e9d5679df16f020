"""The libraries' own tests, as they come with their sources: those that pass with PyTorch, with fusegrad.

At most 300 of a library, drawn by a seed, of those that take no longer than ten seconds of a processor. Where
what is published has no tests, a checkout goes where the source is looked for before it is downloaded:
build/libraries/sources/PACKAGE/PACKAGE-RELEASE.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from libraries import venvs

MOST, SEED = 300, 20261129
SECONDS = 10
SOURCES = venvs.FOLDER / "sources"
TESTS = Path(__file__).parents[1]
JUDGED: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_name("judged.toml").read_text())
WHOLE = 1500  # seconds for all of them, one way


def with_tests() -> dict[str, tuple[str, list[str]]]:
    """The packages whose sources have tests: by name, in which library's venv, and in which folders."""
    return {
        package: (name, folders)
        for name, told in venvs.LIBRARIES.items()
        for package, folders in told.get("tests", {}).items()
    }


def source(package: str) -> Path:
    """The folder of a package's source; it is downloaded if it is not there. Raises CalledProcessError."""
    name, _ = with_tests()[package]
    folder, stem = SOURCES / package, re.sub(r"[-_.]+", "[-_.]", package)
    if not folder.exists():
        release = venvs.version(name, package)
        download = [
            "download",
            "--no-binary",
            ":all:",
            "--no-deps",
            f"{package}=={release}",
            "-d",
            str(SOURCES),
        ]
        # By the Python of the tests: builds by that of a venv find the setuptools of all.
        subprocess.run([sys.executable, "-m", "pip", "-q", *download], check=True)
        archive = next(p for p in SOURCES.iterdir() if re.fullmatch(rf"{stem}-[\d.]+\.tar\.gz", p.name))
        with tarfile.open(archive) as file:
            file.extractall(folder, filter="data")
    return next(folder.iterdir())


def run(package: str, most: int = MOST, whole: int = WHOLE) -> dict[str, Any]:
    """How tests went with PyTorch, and those that passed, with fusegrad."""
    drawn = _run(package, "torch", {"draw": most, "seed": SEED, "seconds": SECONDS}, whole)
    passed = [told["test"] for told in drawn if told["outcome"] == "passed"]
    ours = _run(package, "fusegrad", {"tests": passed, "seconds": 6 * SECONDS}, whole)
    return {"torch": drawn, "fusegrad": ours, "passed": passed, "source": source(package).name}


def _run(package: str, way: str, asked: dict[str, Any], whole: int) -> list[dict[str, str]]:
    folder, (name, where) = source(package), with_tests()[package]
    if "tests" in asked:  # the others need not even be imported
        where = sorted({test.partition("::")[0] for test in asked["tests"]})
    with tempfile.TemporaryDirectory() as place:
        results = Path(place) / "results"
        (Path(place) / "asked.json").write_text(json.dumps({**asked, "results": str(results)}))
        path = [str(TESTS), *([str(venvs.torch_alone())] if way == "torch" else [])]
        by = [] if way == "torch" else ["-m", "fusegrad.torch"]
        options = "-q -x --maxfail=100000 -p libraries.recorded -p no:cacheprovider -W ignore -o addopts="
        command = [
            str(venvs.python_of(name)),
            *by,
            "-m",
            "pytest",
            *options.split(),
            "--rootdir",
            str(folder),
        ]
        quiet = {"HF_HUB_OFFLINE": "1", "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1", "CI": "1"}
        told = {"PYTHONPATH": os.pathsep.join(path), "RECORDED": str(Path(place) / "asked.json")}
        told |= venvs.LIBRARIES[name].get("environment", {})
        with (venvs.FOLDER / f"{package}.tests.{way}.log").open("w") as log:
            try:
                subprocess.run(
                    [*command, "--continue-on-collection-errors", *where],
                    cwd=folder,
                    env={**os.environ, **quiet, **told},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    timeout=whole,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                log.write(f"longer than {whole} s")
        return [*_results(results)]


def _results(file: Path) -> Iterator[dict[str, str]]:
    """The last outcome of each test: one may pass, and fail as it ends."""
    lines = file.read_text().splitlines() if file.exists() else []
    yield from {told["test"]: told for told in map(json.loads, lines)}.values()


def table(found: dict[str, dict[str, Any]]) -> Iterator[str]:
    """The lines of the page."""
    yield "| library | tests drawn | pass with PyTorch | of these with fusegrad | others, by first reasons |"
    yield "| --- | --- | --- | --- | --- |"
    for name, told in found.items():
        passed = set(told["passed"])
        good = [t for t in told["fusegrad"] if t["outcome"] == "passed" and t["test"] in passed]
        share = f"{len(good)} ({len(good) / max(len(passed), 1):.0%})"
        counts = f"{len(told['torch'])} | {len(passed)} | {share}"
        yield f"| {told.get('source', name)} | {counts} | {reasons(name, told)} |"


def reasons(package: str, told: dict[str, Any], most: int = 6) -> str:
    """What stood in the way most often, how often."""
    missing = len(told["passed"]) - len(told["fusegrad"])
    kinds = Counter(kind(package, t) for t in told["fusegrad"] if t["outcome"] != "passed")
    kinds.update({"was not reached": missing} if missing else {})
    return "; ".join(f"{count} {text}" for text, count in kinds.most_common(most))


def kind(package: str, told: dict[str, str]) -> str:
    """What somebody has found behind a failure; else the error without the numbers in it."""
    known = JUDGED.get(package, {})
    if judged := next((known[part] for part in known if part in told["test"]), ""):
        return judged
    text = re.sub(r"-?\d+(\.\d+)?(e[-+]\d+)?", "n", told["error"]).replace("|", "\\|").replace("<", "&lt;")
    return text[:90] or "skipped, or no error"


def summary(found: dict[str, dict[str, Any]]) -> str:
    """The sums."""
    passed = sum(len(told["passed"]) for told in found.values())
    good = sum(t["outcome"] == "passed" for told in found.values() for t in told["fusegrad"])
    drawn: Sequence[int] = [len(told["torch"]) for told in found.values()]
    return f"Of {sum(drawn)} tests {passed} pass with PyTorch, and of these {good} with fusegrad."
