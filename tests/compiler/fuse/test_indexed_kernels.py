"""Reads and writes by index tensors and by slices: in the kernels, checked, and as eager has them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernel_checks import check, program_of, tensor

import fusegrad as fg
from fusegrad.compiler.codegen.functions import module_text
from fusegrad.compiler.llvm.target import Target
from fusegrad.compiler.runtime import threads

F = fg.nn.functional
Function = Callable[..., Any]


def numbers(low: int, high: int, *shape: int, dtype: str = "i8", seed: int = 0) -> fg.Tensor:
    """Random indices."""
    return fg.from_numpy(np.random.default_rng(seed).integers(low, high, shape).astype(dtype))


def kinds(program: Any) -> list[str]:
    return [step.kind for step in program.steps]


def compiled(function: Function, *args: Any, calls: int = 6) -> Any:
    """The function jitted, after calls with backward that compare it with itself undecorated."""
    jitted = fg.jit(function)
    for _ in range(calls):
        mine = [a.detach().clone().requires_grad_(a.requires_grad) for a in args]
        theirs = [a.detach().clone().requires_grad_(a.requires_grad) for a in args]
        ours, expected = jitted(*mine), function(*theirs)
        np.testing.assert_allclose(ours.detach().numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-6)
        if expected.requires_grad:
            weights = fg.from_numpy(np.linspace(0.5, 1.5, expected.numel()).astype("f4"))
            for result in (ours, expected):
                (result.reshape(-1) * weights).sum().backward() if result.ndim else result.backward()
            for a, b in zip(mine, theirs, strict=True):
                if b.grad is not None:
                    np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-5, atol=1e-6)
    assert jitted.stats.compiled_calls >= calls - 1, str(jitted.explain())
    return jitted


def programs(jitted: Any) -> list[Any]:
    """The programs of the one path: forward, backward, and both in one if there is such a one."""
    ((variant,),) = (entry.variants for entry in jitted.entries.values())
    (leaf,) = [s for s in variant.tree.root.walk() if s.path is not None]
    joint = [leaf.joint.program] if leaf.joint is not None else []
    return [leaf.code.program, *([leaf.backward.program] if leaf.backward else []), *joint]


READS: dict[str, tuple[Function, list[fg.Tensor]]] = {
    "gather": (lambda x, i: x.gather(1, i) * 2, [tensor(4, 9), numbers(0, 9, 4, 3)]),
    "gather of fewer rows": (lambda x, i: x.gather(0, i) + 1, [tensor(4, 9), numbers(0, 4, 3, 5)]),
    "gather, int32": (lambda x, i: x.gather(1, i), [tensor(4, 9), numbers(0, 9, 4, 20, dtype="i4")]),
    "gather of a transpose": (lambda x, i: x.T.gather(0, i), [tensor(4, 9), numbers(0, 9, 3, 4)]),
    "take_along_dim": (
        lambda x, i: fg.take_along_dim(x, i, 1),
        [tensor(4, 9), numbers(-9, 9, 1, 3)],
    ),
    "index": (lambda x, i: x[i].tanh(), [tensor(5, 7), numbers(-5, 5, 3, 2)]),
    "index of columns": (lambda x, i: x[:, i] * x[:, :1], [tensor(5, 7), numbers(-7, 7, 4)]),
    "two indices": (lambda x, i, j: x[i, j], [tensor(5, 7), numbers(-5, 5, 4, 1), numbers(-7, 7, 3)]),
    "indices apart": (
        lambda x, i, j: x[i, :, j] + 1,
        [tensor(5, 6, 7), numbers(0, 5, 4), numbers(-7, 7, 4)],
    ),
    "index_select": (lambda x, i: x.index_select(1, i).exp(), [tensor(5, 7), numbers(0, 7, 9)]),
    "take": (lambda x, i: fg.take(x, i), [tensor(5, 7), numbers(-35, 35, 2, 3)]),
    "embedding": (lambda i, w: F.embedding(i, w) + 1, [numbers(0, 6, 3, 4), tensor(6, 5)]),
    "bools": (lambda x, i: (x > 0).gather(1, i), [tensor(4, 9), numbers(0, 9, 4, 3)]),
    "doubles": (lambda x, i: x.gather(1, i).sum(), [tensor(4, 40, dtype="f8"), numbers(0, 40, 4, 33)]),
    "no indices": (lambda x, i: x[i] + 1, [tensor(4, 9), numbers(0, 1, 0)]),
    "nothing but rows": (lambda x, i: x[i] + 1, [tensor(4, 0), numbers(-4, 4, 3)]),
}


@pytest.mark.parametrize("name", READS)
def test_reads_by_index_are_in_the_kernel(name: str):
    function, args = READS[name]
    program = check(function, *args)
    assert set(kinds(program)) <= {"kernel"}


@pytest.mark.parametrize("offset", [1, 5])
def test_reads_of_strided_memory(offset: int):
    whole = tensor(12, 20)
    check(lambda x, i: x.gather(1, i) + 1, whole[::2, offset::3], numbers(0, 5, 6, 4))


@pytest.mark.parametrize(
    ("function", "bad"),
    [
        (lambda x, i: x.gather(1, i).sum(), [[0], [9], [1], [2]]),
        (lambda x, i: x.gather(1, i).sum(), [[0], [-1], [1], [2]]),
        (lambda x, i: x[i].sum(), [0, 4, 1, 2]),
        (lambda x, i: x[i].sum(), [0, 1, -5, 2]),
        (lambda x, i: x[i, i].sum(), [0, 1, -5, 2]),
        (lambda x, i: x.index_select(0, i).sum(), [-1, 0, 1, 2]),
        (lambda x, i: fg.zeros(4).index_add(0, i, x[:, 0]).sum(), [0, 1, 2, 4]),
        (lambda x, i: fg.zeros(4, 9).scatter_add(1, i, x[:, :1]).sum(), [[0], [1], [9], [3]]),
    ],
)
def test_indices_that_eager_refuses_are_refused(function: Function, bad: list[Any]):
    x, good = tensor(4, 9).requires_grad_(), fg.tensor(np.zeros_like(np.array(bad)))
    jitted = fg.jit(function)
    for _ in range(3):
        jitted(x, good).backward()
    with pytest.raises((IndexError, RuntimeError)) as expected:
        function(x, fg.tensor(bad))
    with pytest.raises(expected.type, match="out of") as ours:
        jitted(x, fg.tensor(bad))
    assert str(ours.value) == str(expected.value)
    before = jitted.stats.compiled_calls
    np.testing.assert_allclose(jitted(x, good).item(), function(x, good).item(), rtol=1e-6)
    assert jitted.stats.compiled_calls == before + 1


LOSSES: dict[str, Function] = {
    "cross_entropy": F.cross_entropy,
    "nll_loss": lambda x, t: F.nll_loss(x.log_softmax(1), t),
    "sum": lambda x, t: F.cross_entropy(x, t, reduction="sum"),
    "gather": lambda x, t: -x.log_softmax(1).gather(1, t.unsqueeze(1)).mean(),
    "two indices": lambda x, t: -x.log_softmax(1)[fg.arange(x.shape[0]), t].mean(),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_softmax_loss_and_its_gradient_take_one_kernel(name: str):
    x, targets = tensor(12, 40).requires_grad_(), numbers(0, 40, 12)
    forward, backward, joint = programs(compiled(LOSSES[name], x, targets))
    assert kinds(forward) == ["kernel"] and kinds(backward) == ["kernel"]
    # The mean over the rows that count has to know first how many there are.
    counts = ["kernel"] if name in ("cross_entropy", "nll_loss") else []
    assert kinds(joint) == [*counts, "kernel"]


def test_rows_that_are_ignored():
    targets = fg.tensor([1, -100, 0, 3, -100])
    compiled(F.cross_entropy, tensor(5, 4).requires_grad_(), targets)
    everything = fg.full((5,), -100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled(F.cross_entropy, tensor(5, 4).requires_grad_(), everything, calls=3)


def test_one_contribution_a_row_is_no_scatter():
    x, index = tensor(6, 9).requires_grad_(), numbers(0, 9, 6, 1)
    jitted = compiled(lambda x, i: (x.gather(1, i) * 3).tanh().sum(), x, index)
    assert all(kinds(p) == ["kernel"] for p in programs(jitted))


SCATTERS: dict[str, tuple[Function, list[fg.Tensor]]] = {
    "embedding": (
        lambda w, i: F.embedding(i, w).tanh().sum(),
        [tensor(7, 5).requires_grad_(), numbers(0, 7, 4, 6)],
    ),
    "gather with repeats": (
        lambda x, i: x.gather(1, i).exp().sum(),
        [tensor(4, 9).requires_grad_(), numbers(0, 9, 4, 20)],
    ),
    "gather along rows": (
        lambda x, i: (x.gather(0, i) ** 2).sum(),
        [tensor(6, 9).requires_grad_(), numbers(0, 6, 4, 5)],
    ),
    "index_add": (
        lambda x, i, y: x.index_add(1, i, y).tanh(),
        [tensor(4, 6).requires_grad_(), numbers(0, 6, 9), tensor(4, 9, seed=1).requires_grad_()],
    ),
    "scatter_add": (
        lambda x, i, y: x.scatter_add(0, i, y).tanh(),
        [tensor(5, 6).requires_grad_(), numbers(0, 5, 4, 6), tensor(4, 6, seed=1).requires_grad_()],
    ),
    "scatter_add, three dimensions": (
        lambda x, i, y: x.scatter_add(1, i, y).tanh(),
        [tensor(3, 5, 6).requires_grad_(), numbers(0, 5, 3, 8, 4), tensor(3, 8, 6).requires_grad_()],
    ),
    "index_put": (
        lambda x, i, j, y: x.index_put((i, j), y, accumulate=True),
        [tensor(4, 6), numbers(-4, 4, 9), numbers(-6, 6, 9), tensor(9, seed=1)],
    ),
    "index_copy": (
        lambda x, i, y: x.index_copy(0, i, y) * 2,
        [tensor(5, 6), numbers(0, 5, 9), tensor(9, 6, seed=1)],
    ),
    "scatter, the last stays": (
        lambda x, i, y: x.scatter(1, i, y),
        [tensor(5, 6), numbers(0, 6, 5, 9), tensor(5, 9, seed=1)],
    ),
    "whole numbers": (
        lambda x, i, y: x.scatter_add(1, i, y),
        [numbers(0, 99, 5, 6), numbers(0, 6, 5, 9), numbers(0, 99, 5, 9, seed=1)],
    ),
    "wide rows": (
        lambda w, i: (F.embedding(i, w) * 2).sum(),
        [tensor(50, 128).requires_grad_(), numbers(0, 50, 600)],
    ),
    **{
        f"{how}{'' if include else ' of what arrives'}": (
            lambda x, i, y, how=how, include=include: x.scatter_reduce(1, i, y, how, include_self=include),
            [tensor(4, 6), numbers(0, 6, 4, 9), tensor(4, 9, seed=1)],
        )
        for how in ("sum", "prod", "amax", "amin", "mean")
        for include in (True, False)
    },
}


@pytest.mark.parametrize("name", SCATTERS)
def test_scatters_are_native(name: str):
    function, args = SCATTERS[name]
    jitted = compiled(function, *args)
    for program in programs(jitted):
        assert set(kinds(program)) <= {"kernel", "loops"}, program.describe()


def test_scatters_print_as_python_that_runs():
    check(lambda x, i, y: x.index_add(0, i, y), tensor(4, 3), numbers(0, 4, 5), tensor(5, 3, seed=1))
    check(lambda x, i, y: x.scatter(0, i, y), tensor(4, 3), numbers(0, 4, 5, 3), tensor(5, 3, seed=1))


def test_a_scatter_does_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch):
    args = tensor(64, 256), numbers(0, 64, 4096), tensor(4096, 256, seed=1)
    program, inputs, _ = program_of(lambda x, i, y: x.index_add(0, i, y), *args)
    several = [a.tobytes() for a in program.run(inputs)]
    monkeypatch.setattr(threads, "threads", lambda: 1)
    assert [a.tobytes() for a in program.run(inputs)] == several


def test_one_nest_starts_with_zeros_and_adds():
    (nest,) = check(
        lambda i, y: fg.zeros(4, 3).index_add(0, i, y), numbers(0, 4, 5), tensor(5, 3, seed=1)
    ).kernels[-1:]
    assert (
        str(nest.kernel)
        == """def kernel(n0, n1, n2, k0: f32, k1: i64, x0: "f32[i1, i2:1]", x1: "i64[i1:1]", y0: "f32[_, i2:1]", y1: "f32[i0, i2:1]"):
    for i0 in serial(n0):
        for i2 in vector(n2):
            y1[i0, i2] = k0
    for i1 in serial(n1):
        t0 = x1[i1]
        t1 = t0 >= 0
        t2 = t0 < k1
        t3 = t1 & t2
        for i2 in vector(n2):
            t4 = x0[i1, i2]
            if t3: y0[t0, i2] = y0[t0, i2] + t4"""  # noqa: E501
    )


SCANS: dict[str, Function] = {
    "cumsum": lambda x, d: x.cumsum(d),
    "cumprod": lambda x, d: (x * 0.5 + 1).cumprod(d),
    "cummax": lambda x, d: x.cummax(d)[0] * 2,
    "indices of cummin": lambda x, d: x.cummin(d).indices,
    "logcumsumexp": lambda x, d: x.logcumsumexp(d),
    "cumsum of whole numbers": lambda x, d: (x * 10).int().cumsum(d),
}


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("name", SCANS)
def test_scans_are_native(name: str, dim: int):
    check(lambda x: SCANS[name](x, dim), tensor(3, 20, 4))
    jitted = compiled(lambda x: SCANS[name](x, dim), tensor(3, 20, 40).requires_grad_())
    for program in programs(jitted):
        assert set(kinds(program)) <= {"kernel", "loops"}, program.describe()


@pytest.mark.parametrize("shape", [(0,), (1,), (17,), (0, 3), (3, 0)])
def test_scans_of_few_elements(shape: tuple[int, ...]):
    check(lambda x: (x.cumsum(0), x.cummax(0).values), tensor(*shape))


def test_scans_of_special_values():
    nan, inf = float("nan"), float("inf")
    x = fg.tensor([[1.0, nan, 3.0, -0.0, 2.0], [-inf, -inf, inf, inf, 1.0], [2.0, 2.0, nan, nan, 5.0]])
    functions = lambda x: (*x.cummax(1), *x.cummin(1), x.logcumsumexp(1), x.cumsum(0))  # noqa: E731
    program, inputs, expected = program_of(functions, x)
    arrays = program.run(inputs)
    for value, theirs in zip(program.graph.outputs, expected, strict=True):
        np.testing.assert_allclose(arrays[program.locate(value)[0]], theirs.numpy(), rtol=1e-6)


@pytest.mark.parametrize("size", [5, 16, 37])
@pytest.mark.parametrize("swapped", [False, True])
def test_the_place_of_a_row_is_one_element_or_none(size: int, swapped: bool):
    """As in the gradient of cross-entropy: the index is compared with a label, which may be anything."""

    def function(x: fg.Tensor, label: fg.Tensor) -> fg.Tensor:
        index = fg.arange(size)
        return fg.where(label == index if swapped else index == label, x, -x)

    labels = [-(2**63), -1, 0, size // 2, size - 1, size, 2**32, 2**32 + 3, 2**63 - 1]
    check(function, tensor(len(labels), size), fg.tensor(labels).reshape(-1, 1))


@pytest.mark.parametrize("size", [3, 16, 37])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_condition_of_the_row_decides_between_its_numbers(size: int, swapped: bool):
    """Once a row, not in each vector: `(of each element and of the row)` selects one of two scalars."""

    def function(x: fg.Tensor, valid: fg.Tensor, high: fg.Tensor, low: fg.Tensor) -> fg.Tensor:
        above = x > 0
        return x * fg.where(valid & above if swapped else above & valid, high, low)

    rows = [tensor(6, 1, seed=seed) for seed in (1, 2)]
    valid = fg.tensor([True, False] * 3).reshape(-1, 1)
    program = check(function, tensor(6, size), valid, *rows)
    check(lambda x, valid: x * fg.where(valid & (x > 0), 3.0, -0.0), tensor(6, size), valid)
    (kernel,) = program.kernels
    assert re.search(r"select i1 \S+, float", module_text(kernel.kernel, "kernel", Target(32)))
