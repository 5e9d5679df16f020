"""The command line: what it finds, prints and refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fusegrad
from fusegrad.cli import main

PROGRAM = """
import fusegrad as fg

@fg.jit
def square(x):
    return (x * x).sum()

def square_torch(x):
    return (x * x).sum()

def product(x, w):
    return (x @ w).sum()

def product_args():
    return fg.ones(2, 3), fg.ones(3, 2, requires_grad=True)

def needs_shapes(x):
    return x * 2

class Model:
    scale = 3
    def __call__(self, x):
        return x * self.scale

model = Model()
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "program_of_the_cli_test.py"
    path.write_text(PROGRAM)
    return str(path)


@pytest.fixture
def with_example(program: str) -> str:
    with open(program, "a") as file:
        file.write("\nexample_args = (fg.ones(4, requires_grad=True),)\n")
    return program


def test_version_also_as_a_module() -> None:
    command = [sys.executable, "-m", "fusegrad", "version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"fusegrad {fusegrad.__version__}\n"


def test_compare_with_example_args_and_a_peer(with_example: str, tmp_path: Path, capsys: Any) -> None:
    pytest.importorskip("torch")
    figures = tmp_path / "figures.json"
    assert main(["compare", f"{with_example}:square", "--repeat", "2", "--json", str(figures)]) == 0
    out = capsys.readouterr().out
    assert "square(float32[4])" in out
    assert f"wrote {figures}" in out
    assert set(json.loads(figures.read_text())["columns"]) == {"eager", "compiled", "torch"}


def test_compare_without_peers(with_example: str, capsys: Any) -> None:
    assert main(["compare", f"{with_example}:square", "--repeat", "2", "--no-peers"]) == 0
    assert "torch" not in capsys.readouterr().out


def test_explain_with_arguments_of_the_function(program: str, capsys: Any) -> None:
    assert main(["explain", f"{program}:product", "--kernels"]) == 0
    out = capsys.readouterr().out
    assert "2 compiled" in out
    assert "def kernel" in out


def test_explain_with_shapes(program: str, capsys: Any) -> None:
    assert main(["explain", f"{program}:product", "--shapes", "4x5,5x6", "--dtype", "float64"]) == 0
    assert "float64[4, 5]" in capsys.readouterr().out


def test_a_callable_object(program: str, capsys: Any) -> None:
    assert main(["explain", f"{program}:model", "--shapes", "3"]) == 0
    assert "float32[3]" in capsys.readouterr().out


def test_export(with_example: str, tmp_path: Path, capsys: Any) -> None:
    target = tmp_path / "square.py"
    assert main(["export", f"{with_example}:square", str(target)]) == 0
    assert f"wrote {target}" in capsys.readouterr().out
    assert "def " in target.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare", "no_such_file.py:f"], "there is no file no_such_file.py"),
        (["compare", "just_a_name"], "'just_a_name' is not of the form path.py:function"),
        (["explain", "PROGRAM:cube"], "has no function 'cube'; it has: square, square_torch, product"),
        (["explain", "PROGRAM:needs_shapes"], "define needs_shapes_args or example_args"),
        (["explain", "PROGRAM:square", "--shapes", "3xy"], "'3xy' is no shape"),
        (["explain", "PROGRAM:square", "--shapes", "3", "--dtype", "float7"], "there is no dtype 'float7'"),
        (["compare", "PROGRAM:square", "--shapes", "3", "--repeat", "0"], "--repeat must be at least 1"),
    ],
)
def test_wrong_usage_is_one_line_and_2(arguments: list[str], message: str, program: str, capsys: Any) -> None:
    arguments = [a.replace("PROGRAM", program) for a in arguments]
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("option", ["--json", "--plot"])
def test_a_path_that_cannot_be_written_is_1(option: str, program: str, capsys: Any) -> None:
    assert main(["compare", f"{program}:square", "--shapes", "3", option, "/no/such/place/x.png"]) == 1
    error = capsys.readouterr().err
    assert "cannot write /no/such/place/x.png" in error
    assert error.count("\n") == 1


def test_an_unsupported_export_is_1(program: str, capsys: Any) -> None:
    assert main(["export", f"{program}:square", "x.docx", "--shapes", "3"]) == 1
    assert "'.docx'" in capsys.readouterr().err


def test_no_command_shows_the_usage(capsys: Any) -> None:
    with pytest.raises(SystemExit) as stop:
        main([])
    assert stop.value.code == 2
    assert "usage: fusegrad" in capsys.readouterr().err
