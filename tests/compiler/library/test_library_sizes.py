"""Libraries with open sizes: one file gives what eager gives, at all sizes.

`PYTHONPATH=tests/helpers:tests python tests/compiler/library/test_library_sizes.py` takes all ops, with
their first axes open.
"""

from __future__ import annotations

import collections
import ctypes
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exporting import OPEN_PROGRAMS, can_link, drawn
from op_samples import SAMPLES, Sample

import fusegrad as fg
from fusegrad.compiler.library import size_code
from fusegrad.compiler.llvm.llvm_jit import Module
from fusegrad.eager.core.op import wrap
from fusegrad.nn import functional as F
from fusegrad.tracer.export import ExportError
from fusegrad.tracer.export.program import difference
from fusegrad.tracer.ir.symbolic_sizes import Sizes, largest, smallest
from fusegrad.utils._pytree import tree_leaves

pytestmark = pytest.mark.skipif(not can_link(), reason="nothing links libraries here")
SIZES = (1, 2, 5, 17, 40, 200)
OTHER_SIZES = 5


def call(path: Path, sizes: Sequence[int], given: Sequence[fg.Tensor], expected: Sequence[Any]) -> str | None:
    """How what a library gives differs from these arrays; None if it does not."""
    function = getattr(ctypes.CDLL(str(path)), path.stem)
    results = [np.full(array.shape, 7, array.dtype) for array in expected]
    arrays = [*(np.ascontiguousarray(t.detach().numpy()) for t in given), *results]
    code = function(*map(ctypes.c_int64, sizes), *(ctypes.c_void_p(a.ctypes.data) for a in arrays))
    return f"the code {code}" if code else next(filter(None, map(difference, results, expected)), None)


def arrays_of(result: Any) -> list[np.ndarray]:
    return [made.detach().numpy() for made in tree_leaves(result) if isinstance(made, fg.Tensor)]


# What libraries refuse of these: a step that NumPy alone does, and images cut by strides, in which each size
# is another form.
REFUSED = {"spaced": "linspace has no native code", "images of all sizes": "so for batch"}


@pytest.mark.parametrize("name", OPEN_PROGRAMS)
def test_programs_at_sizes_that_nobody_tried(name: str, tmp_path: Path) -> None:
    make, examples, axes = OPEN_PROGRAMS[name]
    fg.manual_seed(0)
    function, path = make(), tmp_path / "library.so"
    if isinstance(function, fg.nn.Module):
        function.eval()
    given = [drawn(example, {}) for example in examples]
    if name in REFUSED:
        with pytest.raises(ExportError, match=REFUSED[name]):
            fg.export(function, tuple(given), path, dynamic_shapes=axes)
        return
    fg.export(function, tuple(given), path, dynamic_shapes=axes)
    names = [*dict.fromkeys(name for each in axes for name in each.values())]
    ran = 0
    for size in SIZES:
        for other in (size + 1, 3):
            sizes = {name: size if place == 0 else other for place, name in enumerate(names)}
            pairs = zip(examples, axes, strict=True)
            given = [drawn(e, {axis: sizes[name] for axis, name in each.items()}) for e, each in pairs]
            try:
                expected = arrays_of(function(*given))
            except (RuntimeError, ValueError):
                continue  # images smaller than a kernel
            assert call(path, [*sizes.values()], given, expected) is None, sizes
            ran += 1
    assert ran > 6


def test_a_training_step(tmp_path: Path) -> None:
    def step(w: fg.Tensor, x: fg.Tensor, labels: fg.Tensor) -> tuple[fg.Tensor, fg.Tensor]:
        w = w.detach().requires_grad_()
        loss = F.cross_entropy(fg.tanh(x) @ w, labels)
        (gradient,) = fg.autograd.grad(loss, [w])
        return (w - 0.5 * gradient / len(x)).detach(), loss.detach()

    args = fg.randn(8, 3), fg.randn(30, 8), fg.arange(30) % 3
    fg.export(step, args, tmp_path / "step.so", dynamic_shapes={"x": {0: "batch"}, "labels": {0: "batch"}})
    for size in SIZES:
        args = fg.randn(8, 3), fg.randn(size, 8), fg.randint(0, 3, (size,))
        assert call(tmp_path / "step.so", [size], args, arrays_of(step(*args))) is None, size
    args = fg.randn(8, 3), fg.randn(4, 8), fg.tensor([0, 1, 3, 0])
    assert call(tmp_path / "step.so", [4], args, [np.zeros((8, 3), "f"), np.zeros((), "f")]) == "the code 2"


def one_of_two(x: fg.Tensor) -> fg.Tensor:
    return x.cumsum(0) / x.shape[0] if x.sum() > 0 else x.flip(0) * 2


def until_small(x: fg.Tensor) -> fg.Tensor:
    while x.abs().max() > 0.5:
        x = x / 2 + 0.1 * x.mean()
    return x


@pytest.mark.parametrize("function", [one_of_two, until_small])
def test_branches_and_loops_of_any_size(function: Callable[..., Any], tmp_path: Path) -> None:
    fg.export(function, (fg.randn(6),), tmp_path / "library.so", dynamic_shapes={"x": {0: "n"}})
    for size in SIZES:
        for center in (-1, 1):
            x = fg.randn(size) + center
            assert call(tmp_path / "library.so", [size], [x], arrays_of(function(x))) is None, size


def test_the_header_says_which_sizes_there_are(tmp_path: Path) -> None:
    sizes = {"x": {0: fg.export.Dim("batch", min=2, max=100), 1: "time"}}
    fg.export(lambda x: x.sum(1), (fg.randn(4, 5),), tmp_path / "sums.so", dynamic_shapes=sizes)
    header = (tmp_path / "sums.h").read_text()
    assert "int32_t sums(int64_t batch, int64_t time, const float *x, float *result0);" in header
    assert "/* x: f32[batch, time] */" in header and "/* batch: from 2 to 100 */" in header
    for batch in (-5, 0, 1, 101):
        said = call(tmp_path / "sums.so", [batch, 3], [fg.randn(1, 3)], [np.zeros(1, "f")])
        assert said == f"the code {OTHER_SIZES}"
    x = fg.randn(100, 3)
    assert call(tmp_path / "sums.so", [100, 3], [x], arrays_of(x.sum(1))) is None


# Numbers that sizes come to.


def test_sizes_are_computed_as_python_does() -> None:
    """Expressions of all kinds, as the numbers of an array."""
    sizes = Sizes([7, 5])
    n, m = sizes.dims
    wanted = [
        n + m,
        n - 3 * m,
        n * m,
        n // m,
        (n - 20) // m,
        n % m,
        (n - 20) % m,
        smallest(n, m),
        largest(n, m, 9),
    ]
    code = size_code.SizeCode(sizes.names)
    stored = size_code.block_of(code, wanted, "%block", "@zeros")
    lines = [
        "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
        f"@zeros = private constant [{len(wanted)} x i64] zeroinitializer",
        "define void @numbers(i64 %s0, i64 %s1, ptr %to) {",
        "entry:",
        *code.lines,
        *stored,
        f"call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %block, i64 {8 * len(wanted)}, i1 false)",
        "ret void",
        "}",
    ]
    (address,) = Module("\n".join(lines), ["numbers"]).addresses().values()
    function = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(address)
    found = np.zeros(len(wanted), np.int64)
    for given in [(7, 5), (1, 1), (40, 3), (3, 40), (1 << 40, 17)]:
        function(*given, found.ctypes.data)
        values = sizes.values(given)
        assert found.tolist() == [values.of(each) for each in wanted]


# All ops, with their first axis open.


def resized(array: np.ndarray, size: int) -> fg.Tensor:
    return wrap(np.take(array, np.arange(size) % array.shape[0], 0))


def outcome(sample: Sample, path: Path) -> str:
    """What became of a library of an op: "equal", that it was refused, or what is wrong."""
    arrays = [a.astype("float32") if a.dtype.kind == "f" else a for a in sample.inputs]
    if not arrays or any(not a.ndim or a.shape[0] < 2 for a in arrays):
        return "no axis"
    open_ones = [a.shape[0] == arrays[0].shape[0] for a in arrays]

    def at(size: int) -> list[fg.Tensor]:
        return [
            resized(a, size) if is_open else wrap(a) for a, is_open in zip(arrays, open_ones, strict=True)
        ]

    def function(*given: Any) -> Any:
        return sample.call(fg, *given)

    axes = [{0: "n"} if is_open else None for is_open in open_ones]
    try:
        fg.export(function, tuple(at(arrays[0].shape[0])), path, dynamic_shapes=axes)
    except (AssertionError, ExportError, TypeError, ValueError, RuntimeError, IndexError) as error:
        return f"WRONG: {error}" if "something else than eager: by" in str(error) else "refused"
    for size in SIZES:
        given = at(size)
        try:
            expected = arrays_of(function(*given))
        except (AssertionError, TypeError, ValueError, RuntimeError, IndexError):
            continue
        wrong = call(path, [size], given, expected)
        if wrong and wrong != f"the code {OTHER_SIZES}":
            return f"WRONG at {size}: {wrong}"
        if wrong:
            return "equal at some sizes"
    return "equal"


def table(names: Sequence[str], folder: Path) -> collections.Counter[str]:
    found: collections.Counter[str] = collections.Counter()
    for number, name in enumerate(names):
        became = outcome(SAMPLES[name][0], folder / f"op{number}.so")
        if became.startswith("WRONG") or became == "equal at some sizes":
            print(name, became, flush=True)
        found[became if not became.startswith("WRONG") else "WRONG"] += 1
    return found


def test_ops_of_any_size(tmp_path: Path) -> None:
    found = table([*SAMPLES][::29], tmp_path)
    assert not found["WRONG"] and 3 * found["equal"] > found.total(), found


def test_a_wrong_number_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: products of sizes are sums."""
    monkeypatch.setitem(size_code._ARITHMETIC, size_code.ast.Mult, "add")
    with pytest.raises(ExportError, match="something else than eager"):
        fg.export(
            lambda x: (x @ x.T).sum(0), (fg.randn(8, 3),), tmp_path / "x.so", dynamic_shapes={"x": {0: "n"}}
        )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(table([*SAMPLES], Path(folder)))
