"""What the benchmarks share: their options, and writing their figures down with the machine."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
from pathlib import Path
from typing import Any

import fusegrad
from fusegrad.tracer.export.files import check_target, write_whole


def options(description: str) -> argparse.Namespace:
    """The command line of a benchmark: `--json FILE`, `--repeat N`, `--quick`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    parser.add_argument("--repeat", type=int, metavar="N", help="samples of each call")
    parser.add_argument("--quick", action="store_true", help="few samples of small sizes: does it run?")
    found = parser.parse_args()
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


def machine() -> dict[str, Any]:
    """What the figures depend on: the processor, its cores, and the versions."""
    versions = {"python": platform.python_version(), "fusegrad": fusegrad.__version__}
    for package in ("numpy", "numba", "llvmlite", "torch", "jax"):
        version = _version(package)
        if version:
            versions[package] = version
    return {"processor": _processor(), "cores": len(os.sched_getaffinity(0)), "versions": versions}


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
