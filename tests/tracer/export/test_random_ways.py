"""Random functions with branches and loops: the file of each goes as eager goes, whatever the data.

Libraries have gradients, too, of every second function. `PYTHONPATH=tests/helpers:tests python
tests/tracer/export/test_random_ways.py .so 1000` tries so many (`.onnx`); a second number is the first seed.
"""

from __future__ import annotations

import collections
import importlib.util
import itertools
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exporting import can_link, run_library, run_onnx

import fusegrad as fg
from fusegrad.tracer.export import ExportError
from fusegrad.tracer.export.program import difference
from fusegrad.utils._pytree import tree_leaves

pytest.importorskip("onnx")

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


def differentiated(function: Callable[..., Any]) -> Callable[..., Any]:
    """The sum of a function's results, and its gradient."""

    def value_and_gradient(x: fg.Tensor) -> tuple[fg.Tensor, fg.Tensor]:
        x = x.detach().requires_grad_()
        loss = sum(made.sum() for made in tree_leaves(function(x)))
        (gradient,) = fg.autograd.grad(loss, [x])
        return loss.detach(), gradient

    return value_and_gradient


def outcome(suffix: str, seed: int, folder: str) -> str:
    """What became of a function. Raises AssertionError where its file differs from eager."""
    function = function_of(seed, folder)
    if suffix == ".so" and seed % 2:
        function = differentiated(function)
    path = Path(folder) / f"file_{seed}{suffix}"
    try:
        fg.export(function, (DATA[seed % len(DATA)],), path)
    except ExportError as error:
        assert "another result" not in str(error) and "something else than eager" not in str(error), error
        return "refused: " + str(error).splitlines()[0].partition(" ")[2][:60]
    for x in DATA:
        expected = [made.detach().numpy() for made in tree_leaves(function(x))]
        found = RUNS[suffix](path, [x.numpy()], expected)
        for one, other in zip(found, expected, strict=True):
            assert difference(one, other) is None, difference(one, other)
    return "written"


def run_onnx_file(path: Path, given: list[np.ndarray], expected: list[np.ndarray]) -> list[np.ndarray]:
    return run_onnx(path.read_bytes(), *given)


RUNS = {".onnx": run_onnx_file, ".so": run_library}


@pytest.mark.one_in(6)
@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("suffix", [".onnx", ".so"])
def test_files_of_random_functions_go_every_way(suffix: str, seed: int, tmp_path: Path):
    if suffix == ".so" and not can_link():
        pytest.skip("nothing links libraries here")
    assert outcome(suffix, seed, str(tmp_path))


def main(suffix: str, number: int, first: int) -> None:
    found: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, first + number):
            try:
                found[outcome(suffix, seed, folder)] += 1
            except AssertionError as error:
                print(f"seed {seed} differs:\n{Writer(seed).text()}\n{error}", flush=True)
                found["DIFFERS"] += 1
    print(dict(found))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0)
