"""Libraries for 64-bit ARM, written here and run by QEMU."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler.library import files
from fusegrad.compiler.library.api import ExportError
from fusegrad.nn import functional as F

QEMU = shutil.which("qemu-aarch64")
runs = pytest.mark.skipif(
    QEMU is None or files._linker() is None or files._linker("aarch64") is None,
    reason="there is no QEMU for aarch64 here, or nothing that links for it",
)


def numbers(*shape: int, seed: int = 0, dtype: str = "f4") -> fg.Tensor:
    return fg.from_numpy(np.random.default_rng(seed).normal(size=shape).astype(dtype))


class Tagger(fg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows, self.cell, self.last = fg.nn.Embedding(20, 8), fg.nn.LSTM(8, 12), fg.nn.Linear(12, 5)

    def forward(self, words: fg.Tensor) -> fg.Tensor:
        return F.log_softmax(self.last(self.cell(self.rows(words))[0]), -1)


def step(x: fg.Tensor, w: fg.Tensor, velocity: fg.Tensor) -> tuple[fg.Tensor, ...]:
    """A step of training with momentum."""
    loss, gradient = fg.value_and_grad(lambda w: fg.tanh(x @ w).pow(2).mean())(w)
    velocity = 0.9 * velocity + gradient
    return loss, w - 0.1 * velocity, velocity


def special(x: fg.Tensor) -> fg.Tensor:
    return fg.exp(-x.abs()) + fg.log1p(x * x) + fg.erf(x) * fg.sin(30 * x) + fg.sqrt(x.abs()) + F.gelu(x)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[fg.Tensor, ...]]] = {
    "step": (step, (numbers(30, 17), numbers(17, 9, seed=1), numbers(17, 9, seed=2))),
    "special": (special, (numbers(1001),)),
    "special_double": (special, (numbers(777, dtype="f8"),)),
    "image": (
        lambda x, w: F.max_pool2d(F.relu(F.conv2d(x, w, padding=1)), 2).flatten(1).sum(1),
        (numbers(2, 3, 12, 12), numbers(4, 3, 3, 3, seed=1)),
    ),
    "sorted_out": (lambda x: (x.argmax(1), x.cumsum(0), (x > 0).sum()), (numbers(13, 11),)),
    "whole": (
        lambda a, b: (a * b + 7, a.clamp(-3, 9) ^ b, (a > b).sum()),
        (fg.arange(-50, 50), fg.arange(1, 101)),
    ),
}


def main(name: str, given: int, sizes: list[int]) -> str:
    """A program in C that reads arguments and writes results, by their bytes."""
    names = [f"given{i}" for i in range(given)] + [f"made{i}" for i in range(len(sizes) - given)]
    lines = ["#include <stdio.h>", f'#include "{name}.h"']
    lines += [f"static _Alignas(8) char {n}[{size}];" for n, size in zip(names, sizes, strict=True)]
    lines += ["int main(void) {"]
    lines += [
        f"    if (fread({n}, 1, {s}, stdin) != {s}) return 90;"
        for n, s in zip(names[:given], sizes, strict=False)
    ]
    lines += [
        f"    int code = {name}({', '.join(f'(void *){n}' for n in names)});",
        "    if (code) return code;",
    ]
    lines += [f"    fwrite({n}, 1, sizeof {n}, stdout);" for n in names[given:]]
    return "\n".join([*lines, "    return 0;", "}", ""])


@runs
@pytest.mark.parametrize("suffix", [".so", ".o"])
@pytest.mark.parametrize("name", [*PROGRAMS, "tagger"])
def test_results_are_eagers(name: str, suffix: str, tmp_path: Path) -> None:
    fg.manual_seed(0)
    function, args = (Tagger(), (fg.arange(14).reshape(7, 2),)) if name == "tagger" else PROGRAMS[name]
    path = tmp_path / f"{name}{suffix}"
    fg.export(function, args, path, architecture="aarch64")
    expected = function(*args)
    expected = [t.detach().numpy() for t in (expected if type(expected) is tuple else (expected,))]
    given = [np.ascontiguousarray(t.numpy()) for t in args]
    (tmp_path / "main.c").write_text(main(name, len(given), [a.nbytes for a in (*given, *expected)]))
    linker = files._linker("aarch64")
    assert linker is not None and QEMU is not None
    command = [*linker, "main.c", path.name, "-lm", "-Wl,-rpath,$ORIGIN", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    root = ["-L", f"/usr/{Path(linker[0]).name.removesuffix('-gcc')}"]
    command = [QEMU, *root, str(tmp_path / "main")]
    done = subprocess.run(command, input=b"".join(a.tobytes() for a in given), capture_output=True)
    assert done.returncode == 0, done.stderr
    bytes_, found = done.stdout, []
    for known in expected:
        found.append(np.frombuffer(bytes_[: known.nbytes], known.dtype).reshape(known.shape))
        bytes_ = bytes_[known.nbytes :]
    assert not bytes_
    for result, known in zip(found, expected, strict=True):
        np.testing.assert_allclose(result, known, rtol=2e-5, atol=2e-6)


def test_objects_are_of_the_architecture(tmp_path: Path) -> None:
    for architecture, machine in (("x86-64", 62), ("aarch64", 183)):  # EM_X86_64, EM_AARCH64
        path = tmp_path / "double.o"
        fg.export(lambda x: x * 2, (numbers(3),), path, architecture=architecture)
        assert int.from_bytes(path.read_bytes()[18:20], "little") == machine
        assert architecture in (tmp_path / "double.h").read_text()


def test_an_unknown_architecture_and_formats_without_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"for x86-64 or aarch64, and not for 'riscv64'"):
        fg.export(lambda x: x * 2, (numbers(3),), tmp_path / "double.so", architecture="riscv64")
    with pytest.raises(ExportError, match=r"no \.py for 'aarch64'"):
        fg.export(lambda x: x * 2, (numbers(3),), tmp_path / "double.py", architecture="aarch64")
    assert not list(tmp_path.iterdir())
