"""The examples run as they stand, and leave what they say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def run(program: str, folder: Path, *arguments: str) -> str:
    command = [sys.executable, str(ROOT / program), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_digits(tmp_path: Path) -> None:
    for package in ("sklearn", "onnxruntime", "onnx", "matplotlib"):
        pytest.importorskip(package)
    out = run("examples/digits.py", tmp_path)
    assert "of the held-out digits" in out
    left = {p.name for p in (tmp_path / "out").iterdir()}
    expected = {"digits.html", "digits.json", "digits.onnx", "digits_compare.png", "digits_loss.png"}
    assert left == expected
    figures = json.loads((tmp_path / "out" / "digits.json").read_text())
    assert figures["accuracy"] >= 0.97
    assert figures["onnx_difference"] < 1e-3
    assert figures["compare"]["agree"]
    assert figures["compare"]["columns"]["compiled"]["ran_compiled"]
    assert figures["stats"]["eager_calls"] == 1
    assert figures["stats"]["compiled_calls"] > 500
    curves = figures["loss"]
    assert curves["compiled"] == pytest.approx(curves["eager"], rel=0.05)


def test_branches(tmp_path: Path) -> None:
    out = run("examples/branches.py", tmp_path)
    assert out.count("(eager, recorded)") == 2
    assert out.count("(compiled)") == 4
    assert "path 2" in out


def test_chain_is_one_kernel_each_way() -> None:
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        from gelu_chain import chain, chain_args, chain_torch
    finally:
        sys.path.pop(0)
    import fusegrad as fg

    pytest.importorskip("torch")
    peers = {"torch": chain_torch}
    found = fg.compare(chain, *chain_args(1000), peers=peers, repeat=2, show=False)
    assert found.agree
    assert found["compiled"].facts["forward_kernels"] == 1
    assert found["compiled"].facts["backward_kernels"] == 1


@pytest.mark.parametrize("name", ["chain", "digits_loss", "import_time"])
def test_benchmarks_run(name: str, tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    run(f"benchmarks/{name}.py", tmp_path, "--quick", "--json", str(tmp_path / "figures.json"))
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["benchmark"] == name
    assert figures["machine"]["cores"] >= 1
