"""What the benchmarks share: their options, and writing their figures down with the machine."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fusegrad
from fusegrad.tracer.export.files import check_target, write_whole


def options(description: str) -> argparse.Namespace:
    """The command line of a benchmark: `--json FILE`, `--repeat N`, `--quick`."""
    return parsed(parser(description))


def parser(description: str) -> argparse.ArgumentParser:
    """The options that all benchmarks have, for those that add their own."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--json", metavar="FILE", help="write the figures there")
    made.add_argument("--repeat", type=int, metavar="N", help="samples of each call")
    made.add_argument("--quick", action="store_true", help="few samples of small sizes: does it run?")
    return made


def parsed(made: argparse.ArgumentParser, arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says; a file that cannot be written is refused before anything is timed. From now
    on calls wait for the compiler as long as it takes.
    """
    fusegrad.set_compile_budget(None)
    found = made.parse_args(arguments)
    if found.quick and found.repeat is None:
        found.repeat = 2
    if found.json is not None:
        Path(found.json).parent.mkdir(parents=True, exist_ok=True)
        check_target(found.json, "benchmark")
    return found


def save(path: str | None, figures: dict[str, Any]) -> None:
    """Write `figures`, the machine and the time to `path`, whole; nothing where there is no path."""
    if path is None:
        return
    record = {"machine": machine(), "time": datetime.datetime.now(datetime.UTC).isoformat(), **figures}
    write_whole(path, (json.dumps(record, indent=2, ensure_ascii=False) + "\n").encode(), "benchmark")
    print(f"wrote {path}")


def environment(**settings: str) -> dict[str, str]:
    """What a process in which imports or first calls are timed gets to see.

    Python may keep bytecode: packages that are installed have theirs, and only a checkout would be
    compiled anew by every process. JAX keeps nothing on disk, as it does unless it is asked to, nor does
    fusegrad, unless a setting names a folder.
    """
    unwanted = ("PYTHONDONTWRITEBYTECODE", "JAX_COMPILATION_CACHE_DIR")
    return {name: value for name, value in os.environ.items() if name not in unwanted} | {
        "FUSEGRAD_CACHE": "0",
        **settings,
    }


def machine() -> dict[str, Any]:
    """What the figures depend on: the processor, its cores, the bits of its vectors, the versions, and the
    commit, if there is one.
    """
    from fusegrad.compiler.llvm.target import host  # which imports Numba

    versions = {"python": platform.python_version(), "fusegrad": fusegrad.__version__}
    for package in ("numpy", "scipy-openblas32", "numba", "llvmlite", "torch", "jax"):
        version = _version(package)
        if version:
            versions[package] = version
    bits = 8 * host().vector_bytes
    cores = len(os.sched_getaffinity(0))
    found = {"processor": _processor(), "cores": cores, "vector_bits": bits, "versions": versions}
    commit = _commit()
    return {**found, "commit": commit} if commit else found


def _commit() -> str:
    """The commit of the checkout that is measured; nothing where git does not know."""
    try:
        command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
        return subprocess.run(command, capture_output=True, text=True, timeout=10).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def machine_text(found: dict[str, Any]) -> str:
    """A machine in a few words; records before November 2026 do not tell the vectors."""
    bits = f", vectors of {found['vector_bits']} bits" if "vector_bits" in found else ""
    return f"{found['processor']}, {found['cores']} cores{bits}"


class Quiet:
    """How much of the processors' time other programs take from now on, where Linux tells it."""

    def __init__(self) -> None:
        self._before = self._seconds()

    def taken_by_others(self) -> float | None:
        """Their share of all the time that the processors had since then."""
        if self._before is None:
            return None
        now = self._seconds()
        assert now is not None
        everybody, busy, ours = (after - before for after, before in zip(now, self._before, strict=True))
        return max(0.0, (busy - ours) / max(everybody, 1e-9))

    def _seconds(self) -> tuple[float, float, float] | None:
        """Seconds of all processors, of those the busy ones, and our own with our children's."""
        try:
            fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
        except OSError:
            return None
        ticks = [int(field) / os.sysconf("SC_CLK_TCK") for field in fields]
        idle = ticks[3] + ticks[4]  # and waiting for a disk
        return sum(ticks), sum(ticks) - idle, sum(os.times()[:4])


def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _processor() -> str:
    """The processor's name, where Linux tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
