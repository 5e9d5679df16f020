"""The programs that describe fusegrad: they print what PyTorch prints, as they are and under `@jit`."""

from __future__ import annotations

import ast
import io
import runpy
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

import fusegrad as fg

PROGRAMS = sorted((Path(__file__).parent / "seeds").glob("*.py"))


def run(path: Path, decorate: bool, folder: Path) -> tuple[str, dict[str, Any]]:
    """What the program prints with its import line changed, and its names afterwards."""
    source = path.read_text().replace("import torch\n", "import fusegrad as torch\n", 1)
    if decorate:
        lines = source.splitlines()
        for node in reversed(ast.parse(source).body):
            if isinstance(node, ast.FunctionDef):
                lines.insert(node.lineno - 1, "@torch.jit")
        source = "\n".join(lines) + "\n"
    # jit reads the source of what it captures, so the changed program is a file of its own.
    program = folder / path.name
    program.write_text(source)
    printed = io.StringIO()
    with redirect_stdout(printed):
        names = runpy.run_path(str(program), run_name="__main__")
    return printed.getvalue(), names


@pytest.mark.parametrize("decorate", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
def test_prints_what_pytorch_prints(path: Path, decorate: bool, tmp_path: Path):
    printed, _ = run(path, decorate, tmp_path)
    assert printed == path.with_suffix(".expected").read_text()


def test_a_decorated_program_replays(tmp_path: Path):
    path = next(p for p in PROGRAMS if p.stem.startswith("04"))
    _, names = run(path, True, tmp_path)
    function = names["dynamic_graph_example"]
    before = function.stats.compiled_calls
    for values in ([1.0, 2.0, 3.0], [-1.0, -2.0, -3.0], [5.0, 0.0, 1.0]):
        x = fg.tensor(values, requires_grad=True)
        function(x)
    assert function.stats.compiled_calls == before + 3
