"""The examples run as they stand, and leave what they say."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def run(program: str, folder: Path, *arguments: str) -> str:
    """What the program prints; one thread of BLAS, since other tests run beside it."""
    command = [sys.executable, str(ROOT / program), *arguments]
    alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=alone, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def figures_after(word: str, out: str) -> list[float]:
    """The numbers that follow `word` in the lines of `out`."""
    return [float(found) for found in re.findall(re.escape(word) + r" +([\d.]+\d)", out)]


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


def test_checkpointing(tmp_path: Path) -> None:
    out = run("examples/checkpointing.py", tmp_path)
    kept, again = figures_after("peak", out)
    assert again < kept / 2
    assert "the same to the last bit" in out


def test_tree_network(tmp_path: Path) -> None:
    out = run("examples/tree_network.py", tmp_path)
    losses = figures_after(": loss", out)
    assert losses[-1] < losses[0] / 4
    (held_out,) = figures_after("held-out expressions:", out)
    (deeper,) = figures_after("as deep:", out)
    assert held_out >= 0.95
    assert deeper >= 0.8


def test_char_lstm(tmp_path: Path) -> None:
    out = run("examples/char_lstm.py", tmp_path)
    losses = figures_after("loss", out)
    assert losses == sorted(losses, reverse=True)
    assert losses[0] > 3  # as good as drawing letters from a hat
    assert losses[-1] < 1.7
    assert re.search(r"new names: [a-z]+, [a-z]+", out)


def test_translate_attention(tmp_path: Path) -> None:
    out = run("examples/translate_attention.py", tmp_path)
    losses = figures_after("loss", out)
    assert losses[-1] < losses[0] / 20
    assert float(re.search(r"([\d.]+)% of the 200 held-out", out)[1]) >= 90
    looks = re.findall(r"^ +(\w+) looked at", out, re.MULTILINE)
    assert looks[:3] == ["8", "4", "2"]


def test_digits_conv(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    out = run("examples/digits_conv.py", tmp_path)
    losses = figures_after("loss", out)
    assert losses == sorted(losses, reverse=True)
    assert float(re.search(r"([\d.]+)% of the held-out", out)[1]) >= 96


def test_growing_model(tmp_path: Path) -> None:
    out = run("examples/growing_model.py", tmp_path)
    small, inserted, deep, widened, wide = figures_after(": loss", out)
    assert inserted == small
    assert widened == deep
    assert deep < small
    assert wide < small / 4


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
