"""Writes down what the compiler makes of every workload of the benchmark, to compare two revisions.

python tools/kernel_texts.py FOLDER             write graphs and kernels there, a file per workload
python tools/kernel_texts.py FOLDER --against OTHER   write, then list the files that differ (exits 1)

A change that only moves code leaves every graph and every kernel the same. Write the texts of the revision
before it (in a checkout of its own), then those of the one after it, and compare. Lines that say where in
fusegrad's own source an op was run (backward rules) are left out: they move with the code.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

# So many calls are recorded, compiled apart, and compiled at once; the ways are the same for both revisions.
CALLS = 8
CONTENDERS = ("fusegrad", "fusegrad-backward")
COMMENT = re.compile(r"\s+# .*$", re.MULTILINE)


def texts(key: str) -> Iterator[str]:
    """Graphs and kernels of one workload, each as it prints."""
    from contenders import available, contender
    from workloads import BY_KEY

    for name in CONTENDERS:
        if not available(BY_KEY[key], name):
            continue
        made = contender(BY_KEY[key], name)
        for _ in range(CALLS):
            made.call()
        for number, function in enumerate(made.jitted):
            yield f"=== {name}, function {number}"
            for segment in function.segments():
                yield from _segment(segment)


def _segment(segment: Any) -> Iterator[str]:
    """One stretch of a path: what runs forward, what backward, and both as one program."""
    codes = {"forward": segment.code, "backward": segment.backward, "joint": segment.joint}
    for role, code in codes.items():
        if code is None:
            continue
        for part in (code.program, *code.program.bodies):
            yield f"--- {role}: graph"
            yield COMMENT.sub("", str(part.graph))
            for bound in part.kernels:
                yield f"--- {role}: kernel"
                yield bound.kernel.text


def write(folder: Path, keys: list[str]) -> None:
    """The texts of these workloads, each in a process of its own, so that nothing was compiled before."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = os.environ | {"PYTHONHASHSEED": "0"}
    for key in keys:
        command = [sys.executable, __file__, "--print", key]
        found = subprocess.run(command, env=settings, capture_output=True, text=True, check=True)
        (folder / f"{key}.txt").write_text(found.stdout)


def differing(one: Path, other: Path) -> list[str]:
    """The files that are not the same in both folders."""
    names = {p.name for folder in (one, other) for p in folder.glob("*.txt")}
    different = []
    for name in sorted(names):
        with contextlib.suppress(FileNotFoundError):
            if (one / name).read_text() == (other / name).read_text():
                continue
        different.append(name)
    return different


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--against", type=Path, help="a folder with the texts of another revision")
    parser.add_argument("--only", nargs="+", metavar="KEY", help="these workloads only")
    parser.add_argument("--print", metavar="KEY", help="print the texts of one workload")
    given = parser.parse_args()
    if given.print:
        for text in texts(given.print):
            print(text)
        return 0
    if given.folder is None:
        parser.error("where to?")
    from workloads import BY_KEY

    keys = given.only or list(BY_KEY)
    write(given.folder, keys)
    different = differing(given.folder, given.against) if given.against else []
    for name in different:
        print(f"differs: {name}")
    compared = f"; {len(different)} files differ from those in {given.against}" if given.against else ""
    print(f"{len(keys)} workloads written{compared}")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
