"""Libraries as C, C++ and ctypes see them."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exporting import run_library

import fusegrad as fg
from fusegrad.cli import main
from fusegrad.compiler.library import driver, files
from fusegrad.compiler.library.api import ExportError
from fusegrad.compiler.library.pool import MOST_THREADS
from fusegrad.nn import functional as F
from fusegrad.utils._pytree import tree_leaves

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or files._linker() is None, reason="nothing links libraries here"
)


class Network(fg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = fg.nn.Linear(64, 48), fg.nn.Linear(48, 10)

    def forward(self, x: fg.Tensor) -> fg.Tensor:
        return fg.softmax(self.second(F.relu(self.first(x))), 1)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> tuple[Network, Path]:
    fg.manual_seed(0)
    made, path = Network(), tmp_path_factory.mktemp("network") / "digits.so"
    fg.export(made, (fg.randn(32, 64),), path)
    return made, path


def loaded(path: Path) -> Any:
    """The library's function, of arrays."""
    function = getattr(ctypes.CDLL(str(path)), path.stem)

    def call(*arrays: np.ndarray) -> int:
        return int(function(*(ctypes.c_void_p(a.ctypes.data) for a in arrays)))

    return call


def test_ctypes_and_numpy_are_enough(network: tuple[Network, Path]) -> None:
    made, path = network
    x, result = fg.randn(32, 64), np.zeros((32, 10), np.float32)
    assert loaded(path)(x.numpy(), result) == 0
    np.testing.assert_allclose(result, made(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    compiled = fg.jit(made)
    for _ in range(2):
        replayed = compiled(x)
    assert compiled.stats.compiled_calls and result.tobytes() == replayed.detach().numpy().tobytes()


C_PROGRAM = """
#include "digits.h"
#include <stdio.h>
#include <string.h>
static float x[32 * 64], y[32 * 10];
int main(void) {
    for (int i = 0; i < 32 * 64; ++i) x[i] = (float)(i % 7) - 3.0f;
    if (digits(x, y) != DIGITS_OK || DIGITS_ABI != 1) return 1;
    for (int i = 0; i < 10; ++i) printf("%.6f ", y[i]);
    for (int i = 0; i < 64 * 48; ++i) digits_FIRST[i] = 0;
    for (int i = 0; i < 48; ++i) digits_BIAS[i] = 0;
    if (digits(x, y)) return 2;
    for (int i = 0; i < 10; ++i) printf("%.6f ", y[i]);
    if (digits(0, y) != DIGITS_NO_ADDRESS || digits(x, 0) != DIGITS_NO_ADDRESS) return 3;
    return 0;
}
"""


@pytest.mark.parametrize("language", ["c", "c++"])
@pytest.mark.parametrize("kind", ["so", "o"])
def test_a_program_in_c_has_the_results_and_replaces_weights_by_name(
    network: tuple[Network, Path], tmp_path: Path, language: str, kind: str
) -> None:
    made, path = network
    header = path.with_suffix(".h").read_text()
    names = [
        line.split("[")[0].split()[-1] for line in header.splitlines() if line.startswith("extern float")
    ]
    sizes = [int(line.split("[")[1].split("]")[0]) for line in header.splitlines() if "extern float" in line]
    by_size = dict(zip(sizes, names, strict=True))
    program = C_PROGRAM.replace("digits_FIRST", by_size[64 * 48]).replace("digits_BIAS", by_size[48])
    source, target = tmp_path / "main.c", tmp_path / "main"
    source.write_text(program)
    linked = path
    if kind == "o":
        linked = tmp_path / "digits.o"
        fg.export(made, (fg.randn(32, 64),), linked)
        assert (tmp_path / "digits.h").read_text() == header
    linker = files._linker()
    assert linker is not None
    command = [*linker, "-x", language, "-Wall", "-Werror", f"-I{path.parent}", str(source), "-x", "none"]
    done = subprocess.run([*command, str(linked), "-lm", "-o", str(target)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    printed = subprocess.run([str(target)], capture_output=True, text=True, check=True).stdout
    x = fg.tensor((np.arange(32 * 64) % 7 - 3).astype(np.float32).reshape(32, 64))
    zeros = fg.softmax(made.second(fg.zeros(32, 48)), 1)
    expected = [*made(x)[0].tolist(), *zeros[0].tolist()]
    np.testing.assert_allclose([float(n) for n in printed.split()], expected, atol=2e-6)


class Reader(fg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = fg.nn.LSTM(6, 16), fg.nn.Linear(16, 3)

    def forward(self, x: fg.Tensor) -> tuple[fg.Tensor, fg.Tensor]:
        rows, (_, cells) = self.lstm(x)
        return self.head(rows[-1]), cells


def momentum_step(w: fg.Tensor, speed: fg.Tensor, x: fg.Tensor, labels: fg.Tensor) -> tuple[fg.Tensor, ...]:
    w = w.detach().requires_grad_()
    loss = F.cross_entropy(x @ w, labels)
    (gradient,) = fg.autograd.grad(loss, [w])
    speed = 0.9 * speed + gradient
    return (w - 0.5 * speed).detach(), speed, loss.detach()


IN_C: dict[str, tuple[Callable[[], Callable[..., Any]], Callable[[], tuple[fg.Tensor, ...]]]] = {
    "digits": (Network, lambda: (fg.randn(32, 64),)),
    "lstm": (Reader, lambda: (fg.randn(7, 4, 6),)),
    "step": (
        lambda: momentum_step,
        lambda: (fg.randn(8, 3), fg.randn(8, 3), fg.randn(30, 8), fg.randint(0, 3, (30,))),
    ),
}


def program_in_c(name: str, given: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> str:
    """One that reads all arguments, calls the function, and writes the results."""
    sizes = [array.nbytes for array in (*given, *results)]
    memory = "\n".join(f"static int64_t memory{i}[{-(-size // 8)}];" for i, size in enumerate(sizes))
    function = (
        f"static int32_t (*function)({', '.join(['void *'] * len(sizes))}) = "
        f"(int32_t (*)({', '.join(['void *'] * len(sizes))})){name};"
    )
    reads = [
        f"if (fread(memory{i}, 1, {sizes[i]}, stdin) != {sizes[i]}) return 9;" for i in range(len(given))
    ]
    writes = [f"fwrite(memory{i}, 1, {sizes[i]}, stdout);" for i in range(len(given), len(sizes))]
    call = f"int32_t code = function({', '.join(f'memory{i}' for i in range(len(sizes)))});"
    body = "\n    ".join([*reads, call, *writes, "return code;"])
    return (
        f'#include "{name}.h"\n#include <stdio.h>\n{memory}\n{function}\nint main(void) {{\n    {body}\n}}\n'
    )


@pytest.mark.parametrize("language", ["c", "c++"])
@pytest.mark.parametrize("name", IN_C)
def test_programs_in_c_have_the_bits_of_the_process(name: str, language: str, tmp_path: Path) -> None:
    make, draw = IN_C[name]
    fg.manual_seed(0)
    function, examples, given = make(), draw(), draw()
    path = tmp_path / f"{name}.so"
    fg.export(function, examples, path)
    compiled = fg.jit(function)
    for _ in range(3):
        expected = [made.detach().numpy() for made in tree_leaves(compiled(*given))]
    assert compiled.stats.compiled_calls
    arrays = [tensor.numpy() for tensor in given]
    (tmp_path / "main.c").write_text(program_in_c(name, arrays, expected))
    linker = files._linker()
    assert linker is not None
    command = [*linker, "-x", language, f"-I{tmp_path}", str(tmp_path / "main.c"), "-x", "none", str(path)]
    done = subprocess.run([*command, "-o", str(tmp_path / "main")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    given_bytes = b"".join(array.tobytes() for array in arrays)
    ran = subprocess.run([str(tmp_path / "main")], input=given_bytes, capture_output=True)
    assert ran.returncode == 0
    assert ran.stdout == b"".join(array.tobytes() for array in expected)


def test_a_library_needs_libc_and_libm_alone_and_is_small(network: tuple[Network, Path]) -> None:
    _, path = network
    needed = subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=True).stdout
    found = {line.split()[0].split("/")[-1].split(".")[0] for line in needed.splitlines()}
    assert found <= {"linux-vdso", "libc", "libm", "libpthread", "ld-linux-x86-64"}
    weights = 4 * (64 * 48 + 48 + 48 * 10 + 10)
    assert path.stat().st_size - weights < 100_000


def test_several_threads_may_call(network: tuple[Network, Path]) -> None:
    made, path = network
    call, given = loaded(path), [fg.randn(32, 64) for _ in range(4)]
    expected = [made(x).detach().numpy() for x in given]
    wrong: list[int] = []

    def calls(number: int) -> None:
        x, result = given[number].numpy(), np.zeros((32, 10), np.float32)
        for _ in range(200):
            result[:] = 0
            if call(x, result) or not np.allclose(result, expected[number], atol=1e-5):
                wrong.append(number)

    workers = [threading.Thread(target=calls, args=(n,)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_threads_share_calls_and_change_no_bit(tmp_path: Path) -> None:
    fg.manual_seed(0)
    layers = fg.nn.Sequential(fg.nn.Linear(256, 512), fg.nn.GELU(), fg.nn.Linear(512, 128)).eval()
    fg.export(lambda x: fg.softmax(layers(x), 1).sum(0), (fg.randn(300, 256),), tmp_path / "shared.so")
    library, call = ctypes.CDLL(str(tmp_path / "shared.so")), loaded(tmp_path / "shared.so")
    x, expected = fg.randn(300, 256).numpy(), np.zeros(128, np.float32)
    assert call(x, expected) == 0
    tasks, different = f"/proc/{os.getpid()}/task", list[int]()

    def calls() -> None:
        result = np.zeros_like(expected)
        for _ in range(10):
            result[:] = 0
            if call(x, result) or result.tobytes() != expected.tobytes():
                different.append(1)

    for count, are_there in [(3, 3), (1, 1), (2, 2), (-1, 1), (1 << 20, MOST_THREADS)]:
        before = {*os.listdir(tasks)}
        assert library.shared_threads(count) == are_there
        started = {*os.listdir(tasks)} - before
        assert len(started) >= are_there - 1
        # One call has the team, others are on their own.
        workers = [threading.Thread(target=calls) for _ in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert library.shared_threads(1) == 1
        assert len(started - {*os.listdir(tasks)}) >= are_there - 1
    assert not different


def test_value_and_gradients(tmp_path: Path) -> None:
    def value_and_gradients(w: fg.Tensor, x: fg.Tensor, labels: fg.Tensor) -> tuple[fg.Tensor, ...]:
        w = w.detach().requires_grad_()
        loss = F.cross_entropy(fg.tanh(x @ w), labels)
        loss.backward()
        return loss.detach(), w.grad  # type: ignore[return-value]

    args = fg.randn(8, 5), fg.randn(6, 8), fg.tensor([0, 1, 2, 3, 4, 0])
    fg.export(value_and_gradients, args, tmp_path / "loss.so")
    call = loaded(tmp_path / "loss.so")
    loss, gradient = np.zeros((), np.float32), np.zeros((8, 5), np.float32)
    others = fg.randn(8, 5), fg.randn(6, 8), fg.tensor([4, 4, 1, 0, 2, 2])
    assert call(*(a.numpy() for a in others), loss, gradient) == 0
    for result, expected in zip((loss, gradient), value_and_gradients(*others), strict=True):
        np.testing.assert_allclose(result, expected.numpy(), rtol=1e-5, atol=1e-6)


def test_a_training_step_whose_state_goes_through_arguments(tmp_path: Path) -> None:
    state, batch = [fg.randn(8, 3), fg.zeros(8, 3)], (fg.randn(30, 8), fg.arange(30) % 3)
    fg.export(momentum_step, (*state, *batch), tmp_path / "step.so")
    call = loaded(tmp_path / "step.so")
    now = [value.numpy().copy() for value in state]
    for _ in range(20):
        new, loss = [np.empty_like(value) for value in now], np.empty((), np.float32)
        assert call(*now, *(b.numpy() for b in batch), *new, loss) == 0
        now = new
        *state, expected = momentum_step(*state, *batch)
    np.testing.assert_allclose(loss, expected.numpy(), rtol=1e-4)
    for value, known in zip(now, state, strict=True):
        np.testing.assert_allclose(value, known.numpy(), rtol=1e-3, atol=1e-4)


def test_an_index_out_of_range_is_refused_by_a_code(tmp_path: Path) -> None:
    fg.export(lambda x, i: x[i] * 2, (fg.randn(9, 3), fg.tensor([1, 2])), tmp_path / "rows.so")
    call, result = loaded(tmp_path / "rows.so"), np.zeros((2, 3), np.float32)
    x = fg.randn(9, 3).numpy()
    assert call(x, np.array([8, -9]), result) == 0 and (result == 2 * x[[8, -9]]).all()
    for wrong in ([9, 0], [0, -10], [1 << 62, 0]):
        assert call(x, np.array(wrong), result) == 2


# A bit that is 0 on every machine: "not used, always 0".
ABSENT = (1, 0, 2, 1 << 16)


def test_each_question_that_is_asked_of_the_processor_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one answer that must be no, and no other level to take, the function says so."""
    fg.export(lambda x: x + 1, (fg.ones(3),), tmp_path / "library.so")
    levels = driver._PRESENT.keys() & {*header_levels(tmp_path / "library.h")}
    assert levels
    for level in levels:
        asked = driver._PRESENT[level]
        for number in range(len(asked)):
            planted = [*asked[:number], ABSENT, *asked[number + 1 :]]
            with monkeypatch.context() as patch:
                for other in levels:
                    patch.setitem(driver._PRESENT, other, planted if other == level else [ABSENT])
                with pytest.raises(ExportError, match="the code 4"):
                    fg.export(lambda x: x + 1, (fg.ones(3),), tmp_path / "other.so")


def header_levels(header: Path) -> list[str]:
    return header.read_text().split(" for ")[1].splitlines()[0].rstrip(".").split(" and ")


def test_a_machine_with_fewer_instructions_takes_what_it_can(
    network: tuple[Network, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, path = network
    levels = header_levels(path.with_suffix(".h"))
    if len(levels) < 2:
        pytest.skip("the machine has one level")
    monkeypatch.setitem(driver._PRESENT, levels[0], [ABSENT])
    fg.export(made, (fg.randn(32, 64),), tmp_path / "fewer.so")
    x, result = fg.randn(32, 64), np.zeros((32, 10), np.float32)
    assert loaded(tmp_path / "fewer.so")(x.numpy(), result) == 0
    np.testing.assert_allclose(result, made(x).detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(shutil.which("objdump") is None, reason="nothing shows instructions here")
def test_the_lower_level_has_no_instructions_of_the_higher(network: tuple[Network, Path]) -> None:
    _, path = network
    shown = subprocess.run(["objdump", "-d", str(path)], capture_output=True, text=True, check=True).stdout
    functions = dict(re.findall(r"<([\w.]+)>:\n((?:.+\n)+)", shown))
    registers = re.compile(r"%zmm|%k[1-7]|%[xy]mm(1[6-9]|2\d|3[01])")
    wide = {name for name, code in functions.items() if registers.search(code)}
    assert not [name for name in wide if "v4" not in name], "what others run is not for AVX-512"
    if "x86-64-v4" in header_levels(path.with_suffix(".h")):
        assert any("v4" in name for name in wide), "this table sees such instructions"


def branching(x: fg.Tensor) -> fg.Tensor:
    return x + 1 if x.sum() > 0 else x


def halves(x: fg.Tensor) -> fg.Tensor:
    while x.abs().max() > 0.25:
        x = x / 2 if x.sum() > 0 else x / 3
    return x


def in_rounds(x: fg.Tensor) -> tuple[fg.Tensor, fg.Tensor]:
    h, rows = x[0], []
    for place in range(11, -1, -1):
        h = fg.tanh(x[place] + h)
        rows.append(h)
    if h.sum() > 0:
        return fg.stack(rows), h
    return fg.stack(rows) * 2, h


def value_and_gradient(x: fg.Tensor) -> tuple[fg.Tensor, fg.Tensor]:
    x = x.detach().requires_grad_()
    loss = (x * x).sum() if x.max() > 0.5 else x.exp().sum()
    loss.backward()
    return loss.detach(), x.grad  # type: ignore[return-value]


@pytest.mark.parametrize("function", [branching, halves, in_rounds, value_and_gradient])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_a_library_goes_every_way_whatever_the_examples_were(
    function: Callable[[fg.Tensor], Any], sign: float, tmp_path: Path
) -> None:
    fg.export(function, (fg.full((12,), sign),), tmp_path / "ways.so")
    fg.manual_seed(0)
    for center in (-1.0, -0.1, 0.1, 1.0):
        x = fg.randn(12) + center
        expected = [made.detach().numpy() for made in tree_leaves(function(x))]
        for result, known in zip(
            run_library(tmp_path / "ways.so", [x.numpy()], expected), expected, strict=True
        ):
            np.testing.assert_allclose(result, known, rtol=1e-5, atol=1e-6)


def test_what_eager_refuses_on_one_way_is_a_code(tmp_path: Path) -> None:
    def looked_up(x: fg.Tensor, place: fg.Tensor) -> fg.Tensor:
        if x.sum() > 9:
            raise ValueError("too large")
        return x[place] if x.sum() > 0 else x[:1]

    fg.export(looked_up, (fg.ones(3), fg.tensor([1])), tmp_path / "way.so")
    call, result = loaded(tmp_path / "way.so"), np.zeros(1, np.float32)
    one, wrong = np.ones(3, np.float32), np.array([7])
    assert call(one, np.array([2]), result) == 0 and result == 1
    assert call(one, wrong, result) == 2, "the index is out of range"
    assert call(-one, wrong, result) == 0 and result == -1, "nobody looks it up"
    assert call(9 * one, np.array([2]), result) == 2, "eager raises an error"


REFUSED = {
    "an op of NumPy's": (lambda x: fg.sort(x).values, "sort has no native code.*test_library.py"),
    "LAPACK": (lambda x: fg.linalg.solve(x.reshape(20, 50)[:, :20], x[:20]), "LAPACK"),
    "a dtype": (lambda x: x.to(fg.bfloat16), "C has no type for bfloat16"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_library_cannot_compute_is_refused_with_its_line(case: str, tmp_path: Path) -> None:
    function, words = REFUSED[case]
    with pytest.raises(ExportError, match=f"(?s){words}"):
        fg.export(function, (fg.randn(1000),), tmp_path / "library.so")
    assert not [*tmp_path.iterdir()]


def test_without_a_linker_there_are_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_linker", lambda *_: None)
    with pytest.raises(ExportError, match="install one"):
        fg.export(lambda x: x + 1, (fg.ones(3),), tmp_path / "library.so")
    fg.export(lambda x: x + 1, (fg.ones(3),), tmp_path / "library.o")
    assert {p.suffix for p in tmp_path.iterdir()} == {".o", ".h"}


def test_names_that_c_has_taken(tmp_path: Path) -> None:
    int_, result0 = fg.ones(3), fg.ones(3)
    fg.export(
        lambda double, result0_: double * int_ + result0 + result0_,
        (fg.ones(3),) * 0 + (fg.ones(3), fg.zeros(3)),
        tmp_path / "9 for.so",
    )
    header = (tmp_path / "9 for.h").read_text()
    assert "int32_t _9_for(const float *double_, const float *result0_, float *result0);" in header
    source = tmp_path / "main.c"
    source.write_text('#include "9 for.h"\nint main(void) { return 0; }')
    linker = files._linker()
    assert linker is not None
    subprocess.run([*linker, "-Wall", "-Werror", "-fsyntax-only", str(source)], check=True)


def test_inspect_tells_what_a_library_is(
    network: tuple[Network, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    _, path = network
    assert main(["inspect", str(path)]) == 0
    told = capsys.readouterr().out
    assert (
        "kind     library" in told and "captured Network" in told and "f32[32, 64]" in told and "relu" in told
    )
