"""Random functions with branches and loops: the ONNX file of each goes as eager goes, whatever the data.

`PYTHONPATH=tests/helpers:tests python tests/tracer/export/test_random_ways.py 1000` tries so many; a second
number is the first seed.
"""

from __future__ import annotations

import collections
import importlib.util
import io
import itertools
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fusegrad as fg
from fusegrad.tracer.export import ExportError

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

VARIABLES = ("x", "y", "z")
DATA = [fg.tensor(list(each)) for each in itertools.product((-2.0, -0.4, 0.0, 0.5, 3.0), repeat=2)]


class Writer:
    """The text of a function of one vector, from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.left = 6  # statements

    def text(self) -> str:
        lines = ["import fusegrad as fg", "", "W = fg.tensor([0.5, -1.5])", "", "def function(x):"]
        lines += ["    y, z = x + 1, x * 0.5", *self.block(1, 3)]
        result = self.random.choice(["x + y * z", "(x, y, z)", "(y, z.sum())"])
        return "\n".join([*lines, f"    return {result}", ""])

    def block(self, depth: int, least: int = 1) -> list[str]:
        lines = []
        for _ in range(self.random.randint(least, least + 1)):
            lines += self.statement(depth)
        return lines

    def statement(self, depth: int) -> list[str]:
        indent, self.left = "    " * depth, self.left - 1
        kind = self.random.choice(["if", "if", "for", "while", "assign", "assign"])
        if depth > 3 or self.left < 0 or kind == "assign":
            return [f"{indent}{self.random.choice(VARIABLES)} = {self.value()}"]
        if kind == "for":
            rounds = self.random.choice([2, 30])
            return [f"{indent}for _ in range({rounds}):", *self.assignments(depth + 1)]
        if kind == "while":
            name = self.random.choice(VARIABLES)
            halved = f"    {indent}{name} = {name} * 0.5"
            return [f"{indent}while {name}.abs().max() > 0.3:", halved, *self.inside(depth + 1, name)]
        lines = [f"{indent}if {self.test()}:", *self.block(depth + 1)]
        if self.random.random() < 0.6:
            lines += [f"{indent}else:", *self.block(depth + 1)]
        return lines

    def inside(self, depth: int, kept: str) -> list[str]:
        """What a loop does besides that it comes to its end."""
        other = self.random.choice([name for name in VARIABLES if name != kept])
        line = f"{other} = {other} * 0.5 + {kept}"
        if self.random.random() < 0.5:
            return ["    " * depth + line]
        return ["    " * depth + f"if {kept}.sum() > 0:", "    " * (depth + 1) + line]

    def assignments(self, depth: int) -> list[str]:
        name = self.random.choice(VARIABLES)
        return ["    " * depth + f"{name} = fg.tanh({name} + {self.random.choice(VARIABLES)} * W)"]

    def value(self) -> str:
        one, other = self.random.choice(VARIABLES), self.random.choice(VARIABLES)
        return self.random.choice(
            [f"{one} + {other}", f"{one} * W", f"fg.tanh({one})", f"{one} - {other} * 0.5", f"fg.relu({one})"]
        )

    def test(self) -> str:
        one, number = self.random.choice(VARIABLES), self.random.choice([-0.5, 0.0, 0.7])
        asked = self.random.choice([f"{one}.sum()", f"{one}.max()", f"{one}[0]", f"{one}.sum().item()"])
        simple = f"{asked} > {number}"
        joined = [simple, f"not {simple}", f"{simple} and {one}.min() < 1", f"{simple} or {one}[1] > 1"]
        return self.random.choice(joined)


def function_of(seed: int, folder: str) -> Callable[..., Any]:
    path = Path(folder) / f"ways_{seed}.py"
    path.write_text(Writer(seed).text())
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[..., Any] = module.function
    return function


def outcome(seed: int, folder: str) -> str:
    """What became of a function. Raises AssertionError where its file differs from eager."""
    from onnx_models.check import agree

    function, file = function_of(seed, folder), io.BytesIO()
    try:
        fg.onnx.export(function, (DATA[seed % len(DATA)],), file)
    except ExportError as error:
        assert "another result" not in str(error), error
        return "refused: " + str(error).splitlines()[0].partition(" ")[2][:60]
    session = onnxruntime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])
    for x in DATA:
        agree(session, function, (x,))
    return "written"


@pytest.mark.one_in(6)
@pytest.mark.parametrize("seed", range(60))
def test_files_of_random_functions_go_every_way(seed: int, tmp_path: Path):
    assert outcome(seed, str(tmp_path))


def main(number: int, first: int) -> None:
    found: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, first + number):
            try:
                found[outcome(seed, folder)] += 1
            except AssertionError as error:
                print(f"seed {seed} differs:\n{Writer(seed).text()}\n{error}", flush=True)
                found["DIFFERS"] += 1
    print(dict(found))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
