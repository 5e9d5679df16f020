"""The examples run as they stand, and leave what they say."""

from __future__ import annotations

import json
import os
import re
import shutil
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


def test_tree_lstm(tmp_path: Path) -> None:
    out = run("examples/tree_lstm.py", tmp_path)
    losses = figures_after(": loss", out)
    assert losses[-1] < losses[0] / 2
    assert figures_after("held-out formulas:", out)[0] >= 0.9
    joined, formulas, batches = map(int, re.search(r"(\d+) ops of (\d+) formulas .* as (\d+)", out).groups())
    assert joined > 20 * formulas
    assert batches < joined / 50


def test_ragged_tagger(tmp_path: Path) -> None:
    out = run("examples/ragged_tagger.py", tmp_path)
    assert figures_after("sentences", out)[-1] >= 0.95


def test_per_sample_gradients(tmp_path: Path) -> None:
    out = run("examples/per_sample_gradients.py", tmp_path)
    assert figures_after("ensemble: accuracy", out)[0] > 0.8
    assert figures_after("largest gradient of an example", out)[0] > 0.5


@pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None, reason="libraries are linked by cc"
)
def test_trained_by_c(tmp_path: Path) -> None:
    losses = figures_after("loss", run("examples/trained_by_c.py", tmp_path))
    assert losses[-1] < losses[0] / 20
    assert {p.name for p in tmp_path.iterdir()} == {"step.so", "step.h", "train.c", "train"}


def test_search_in_parallel(tmp_path: Path) -> None:
    pytest.importorskip("joblib")
    out = run("examples/search_in_parallel.py", tmp_path)
    assert out.count(" right\n") == 5 and figures_after("ensemble of 3:", out)[0] > 0.9


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


FED = """
import sys
sys.path.insert(0, "EXAMPLES")
import digits
import fusegrad as fg
from fusegrad.utils.data import DataLoader, TensorDataset

x, labels, x_test, labels_test = digits.data()


def trained(workers):
    parameters = digits.start()
    optimizer = fg.optim.Adam(parameters, lr=2e-3)
    shuffled = fg.Generator().manual_seed(1)
    loader = DataLoader(
        TensorDataset(x, labels), 64, shuffle=True, drop_last=True, num_workers=workers, generator=shuffled
    )
    for _ in range(6):
        for images, wanted in loader:
            value = digits.loss(images, wanted, *parameters)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
    scores = digits.classify(x_test, *[p.detach() for p in parameters])
    return value.item(), (scores.argmax(1) == labels_test).float().mean().item()


if __name__ == "__main__":
    (alone, right), (fed, also_right) = trained(0), trained(2)
    assert abs(alone - fed) < 1e-4 and abs(right - also_right) < 0.01, (alone, fed, right, also_right)
    assert right > 0.9, right
    assert digits.loss.stats.compiled_calls > 200, digits.loss.stats
    print("fed")
"""


def test_digits_fed_by_two_workers(tmp_path: Path) -> None:
    """The network of the example, on batches that two processes put together."""
    for package in ("sklearn", "onnxruntime"):
        pytest.importorskip(package)
    script = tmp_path / "fed.py"
    script.write_text(FED.replace("EXAMPLES", str(ROOT / "examples")))
    assert run(str(script), tmp_path) == "fed\n"


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
