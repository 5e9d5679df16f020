"""Measures the vector functions and writes the table of docs/vector_math.md.

python tools/measure_vector_math.py [FUNCTION ...] [--count N] [--stride N] [--write]

For each function and dtype: the largest error in ulp beside mpmath on N dense and adversarial
arguments, and for float32 functions of one argument also on every STRIDE-th of all 2^32 floats beside
double precision (--stride 1: all of them); and the instructions for one vector of this machine.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests/helpers"))

from vector_functions import OF_TWO, Compiled, arguments, compiled, errors, full_lanes  # noqa: E402

from fusegrad.compiler.codegen.vector_math import FUNCTIONS, IN_DOUBLE  # noqa: E402

DOCUMENT = ROOT / "docs" / "vector_math.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
BLOCK = 1 << 22
# Below 0 their roots lie between all whole numbers, and errors there are absolute.
POSITIVE = ("lgamma", "digamma")


def sampled(name: str, dtype: str, count: int) -> tuple[float, float]:
    """The largest and the mean error on about `count` samples."""
    given = arguments(name, dtype, count)
    error = errors(name, dtype, given, compiled(name, dtype, full_lanes(dtype))(*given))
    return float(error.max()), float(error.mean())


def of_all_floats(name: str, stride: int) -> float:
    """The largest error on every `stride`-th float, by the same function in double precision."""
    single, double = (compiled(name, dtype, full_lanes(dtype)) for dtype in ("float32", "float64"))
    worst = 0.0
    for start in range(0, 2**32, BLOCK * stride):
        bits = np.arange(start, min(start + BLOCK * stride, 2**32), stride, np.uint64).astype(np.uint32)
        values = bits.view(np.float32)
        if name in POSITIVE:
            values = values[values >= 0]
        with np.errstate(all="ignore"):
            truth = double(values.astype(np.float64))
            result = single(values)
            rounded = truth.astype(np.float32)
            error = np.abs(result - truth) / np.spacing(np.abs(rounded)).astype(np.float64)
        finite = np.isfinite(rounded) & np.isfinite(result)
        same = (result == rounded) | (np.isnan(result) & np.isnan(rounded))
        if not np.all(same | finite):
            return float("inf")
        worst = max(worst, float(np.max(error, where=finite, initial=0.0)))
    return worst


def instructions(function: Compiled) -> int:
    """How many instructions the loop takes for one vector; rare branches stand behind it."""
    lines = function.assembly.splitlines()
    lines = lines[lines.index(f"{function.symbol}:") :]
    labels = {line.rstrip(":"): i for i, line in enumerate(lines) if re.match(r"\.LBB\w+:", line)}
    for i, line in enumerate(lines):
        jump = re.match(r"\s+j\w+\s+(\.LBB\w+)", line)
        if jump and labels.get(jump[1], i) < i:
            return sum(bool(re.match(r"\t[a-z]", text)) for text in lines[labels[jump[1]] : i + 1])
    return 0


def row(name: str, count: int, stride: int) -> str:
    cells = [f"`{name}`"]
    for dtype in ("float32", "float64"):
        worst, mean = sampled(name, dtype, count)
        cells.append(f"{worst:.2f}")
        if dtype == "float32":
            cells.append("–" if name in OF_TWO else f"{of_all_floats(name, stride):.2f}")
        cells.append(f"{mean:.2f}")
        cells.append(str(instructions(compiled(name, dtype, full_lanes(dtype)))))
    if name in IN_DOUBLE:
        cells[0] += " (in double)"
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("functions", nargs="*", metavar="FUNCTION", help="(default: all)")
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--stride", type=int, default=1009)
    parser.add_argument("--write", action="store_true", help="put the table into docs/vector_math.md")
    given = parser.parse_args()
    lanes = {dtype: full_lanes(dtype) for dtype in ("float32", "float64")}
    table = [
        f"| function | float32, {given.count:,} samples | every {given.stride}. float | mean | instructions "
        f"for {lanes['float32']} | float64, {given.count:,} samples | mean | instructions for "
        f"{lanes['float64']} |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for line in table:
        print(line)
    for name in given.functions or FUNCTIONS:
        table.append(row(name, given.count, given.stride))
        print(table[-1], flush=True)
    if given.write:
        text = DOCUMENT.read_text()
        before, after = text.split(BEGIN)[0], text.split(END)[1]
        DOCUMENT.write_text("\n".join([before + BEGIN, *table, END]) + after)


if __name__ == "__main__":
    main()
