"""Ops on large arrays outside of jitted functions: native kernels answer them once they are there."""

from __future__ import annotations

import dis
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg
from fusegrad.compiler import eager_kernels
from fusegrad.eager.core.op import REGISTRY

F = fg.nn.functional


@pytest.fixture
def forbid(monkeypatch):
    """Gives a function after which NumPy answers no more."""

    def evaluate(self, args, params):
        raise AssertionError(f"NumPy is asked for {self.name}")

    def forbid_all():
        for kind in {type(op) for op in REGISTRY.values() if op.family not in ("view", "creation", "random")}:
            monkeypatch.setattr(kind, "evaluate", evaluate)

    return forbid_all


def tensor(*shape, dtype="f4", seed=0):
    return fg.from_numpy(np.random.default_rng(seed).normal(size=shape).astype(dtype))


FUNCTIONS = {
    "exp": lambda x: fg.exp(x),
    "plus a number": lambda x: x + 2.5,
    "a number less": lambda x: 1 - x * x,
    "row": lambda x: x * x[0],
    "two dtypes": lambda x: x + x.double(),
    "test": lambda x: x > 0.5,
    "where": lambda x: fg.where(x > 0, x, -1.0),
    "gelu": lambda x: F.gelu(x),
    "softmax": lambda x: fg.softmax(x, -1),
    "softmax, first": lambda x: fg.softmax(x, 0),
    "logsumexp": lambda x: fg.logsumexp(x, 1),
    "sum": lambda x: x.sum(),
    "sum, first": lambda x: x.sum(0),
    "amax": lambda x: x.amax(1, True),
    "var": lambda x: x.var(1),
    "cumsum": lambda x: fg.cumsum(x, 1),
    "cummax": lambda x: fg.cummax(x, 0),
    "max": lambda x: fg.max(x, 1),
    "argmin": lambda x: x.argmin(0),
    "layer norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "cat": lambda x: fg.cat([x, x * 2]),
    "transposed": lambda x: fg.tanh(x.T),
    "every other": lambda x: fg.tanh(x[:, ::2]),
    "reversed": lambda x: fg.flip(x, (0,)) * 2,
    "pool": lambda x: F.max_pool2d(x[None, None], 2),
    "convolution": lambda x: F.conv2d(x[None, None], fg.ones(2, 1, 3, 3, dtype=x.dtype)),
}


def flat(result):
    return [t for r in (result if isinstance(result, (tuple, list)) else (result,)) for t in [r]]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_kernels_answer_as_numpy_does(name, dtype, kernels, forbid):
    function, x = FUNCTIONS[name], tensor(250, 300, dtype=dtype)
    expected = flat(function(x))
    for _ in range(4):
        function(x)
    kernels.wait()
    forbid()
    for ours, theirs in zip(flat(function(x)), expected, strict=True):
        assert (ours.shape, ours.dtype, ours.stride()) == (theirs.shape, theirs.dtype, theirs.stride())
        tolerance = 2e-6 if ours.dtype is fg.float32 else 1e-13
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), tolerance, 10 * tolerance)


@pytest.mark.parametrize("name", ["gelu", "softmax", "sum, first", "var", "cumsum", "layer norm", "pool"])
def test_smaller_arrays_get_kernels_once_they_came_often(name, kernels, forbid):
    function, x = FUNCTIONS[name], tensor(16, 80)
    for _ in range(eager_kernels.ELEMENTS // x.numel()):
        expected = function(x)
    kernels.wait()
    forbid()
    np.testing.assert_allclose(function(x).numpy(), expected.numpy(), 2e-6, 2e-5)


def test_what_numpy_does_in_one_pass_is_left_to_it_below_large_sizes(kernels):
    x, few = tensor(16, 80), tensor(3, 3)
    x + x, fg.exp(x), x > 0.5, F.softmax(few, 1), few.sum()
    assert not kernels._known


@pytest.mark.parametrize("name", ["gelu", "softmax", "layer norm", "logsumexp", "where", "var"])
def test_gradients_come_from_kernels_as_well(name, kernels):
    values = np.random.default_rng(0).normal(size=(250, 300)).astype("f4")
    x, reference = fg.tensor(values, requires_grad=True), torch.tensor(values, requires_grad=True)
    for _ in range(5):
        x.grad = None
        (FUNCTIONS[name](x) * 3).sum().backward()
        kernels.wait()
    wanted = {
        "gelu": torch.nn.functional.gelu,
        "softmax": lambda x: torch.softmax(x, -1),
        "layer norm": lambda x: torch.nn.functional.layer_norm(x, (300,)),
        "logsumexp": lambda x: torch.logsumexp(x, 1),
        "where": lambda x: torch.where(x > 0, x, -1.0),
        "var": lambda x: x.var(1),
    }
    (wanted[name](reference) * 3).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), reference.grad.numpy(), 1e-4, 1e-5)


def test_what_is_no_number_and_both_zeros(kernels):
    x = tensor(200, 300).numpy()
    x[3, 4], x[5, 6], x[7], x[8] = np.nan, -np.inf, -0.0, 0.0
    for function in (fg.relu, fg.abs, fg.sign, lambda x: x.amax(1), lambda x: fg.maximum(x, -x), fg.neg):
        results = []
        for _ in range(5):
            results.append(function(fg.from_numpy(x)).numpy())
            kernels.wait()
        np.testing.assert_array_equal(results[-1], results[0])
        np.testing.assert_array_equal(np.signbit(results[-1]), np.signbit(results[0]))


def test_numbers_that_are_equal_and_not_the_same_are_told_apart(kernels):
    x = fg.zeros(200, 300)
    for number in (0.0, -0.0, 0, 1, True, 1.0) * 6:
        result = fg.maximum(x * number, x * number) + number
        assert result.dtype is fg.float32
        kernels.wait()
    assert np.signbit((-x * -0.0).numpy()).sum() == 0
    assert np.signbit((x * -0.0).numpy()).all()


def test_the_inputs_of_a_kernel_may_be_written_and_its_results_as_well(kernels):
    x = tensor(200, 300)
    kept = []
    for number in range(8):
        y = fg.tanh(x)
        kept.append((y, np.tanh(x.numpy())))
        y2 = y.clone()
        y.add_(1)
        kept[-1] = (y2, kept[-1][1])
        x.mul_(0.5 + number)
        kernels.wait()
    for ours, theirs in kept:
        np.testing.assert_allclose(ours.numpy(), theirs, 1e-6, 1e-6)


def test_eagers_own_error_is_raised(kernels):
    x = tensor(300, 200)
    index = fg.zeros(300, 200, dtype=fg.int64)
    for _ in range(5):
        fg.gather(x, 1, index)
        kernels.wait()
    index[5, 5] = 200
    with pytest.raises(RuntimeError, match="index 200 is out of bounds"):
        fg.gather(x, 1, index)


def test_nothing_is_asked_where_bits_must_not_change(kernels):
    x = tensor(300, 300)
    fg.use_deterministic_algorithms(True)
    try:
        results = [fg.exp(x).numpy() for _ in range(6)]
    finally:
        fg.use_deterministic_algorithms(False)
    fg.set_eager_kernels(False)
    try:
        results += [fg.exp(x).numpy() for _ in range(6)]
    finally:
        fg.set_eager_kernels(True)
    kernels.wait()
    assert not kernels._known
    assert all((r == results[0]).all() for r in results)


def test_small_arrays_stay_with_numpy(kernels):
    for _ in range(6):
        fg.exp(tensor(100, 100))
    assert not kernels._known


def test_what_is_known_is_bounded(kernels, monkeypatch):
    monkeypatch.setattr(eager_kernels, "MOST_KNOWN", 4)
    x = tensor(200, 200)
    for number in range(12):
        fg.exp(x * float(number))
    assert len(kernels._known) <= 4


def test_a_fault_in_compiling_surfaces_where_faults_are_raised(kernels, monkeypatch, faults_are_covered):
    def broken(question):
        raise KeyError("planted")

    monkeypatch.setattr(eager_kernels, "_program", broken)
    x = tensor(200, 200)
    results = [fg.exp(x) for _ in range(6)]
    kernels.wait()
    assert fg.equal(results[0], fg.exp(x))  # NumPy goes on
    monkeypatch.setenv("FUSEGRAD_FAULTS", "raise")
    for _ in range(4):
        fg.sin(x)
    with pytest.raises(KeyError, match="planted"):
        kernels.wait()
    kernels._work = None


def test_threads_share_kernels(kernels):
    x = tensor(300, 300)
    expected, wrong = np.exp(x.numpy()), []

    def work():
        for _ in range(30):
            if not np.allclose(fg.exp(x).numpy(), expected, 1e-5):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


PROGRAM = """
import os, sys
import numpy as np
import fusegrad as fg
x = fg.rand(1000, 1000)
for _ in range(60):
    y = fg.nn.functional.gelu(x)
if sys.argv[1] == "waits":
    fg.wait_for_eager_kernels()  # on a busy machine the loop may end before the compiler is there to be asked
    for _ in range(5):
        y = fg.nn.functional.gelu(x)
    fg.wait_for_eager_kernels()
    from fusegrad.eager.core import large
    assert any(known.program for known in large.answers.kernels._known.values())
if sys.argv[1] == "forks":
    pid = os.fork()
    for _ in range(10):
        z = fg.nn.functional.gelu(x) + fg.exp(x)
    if not pid:
        os._exit(0 if np.isfinite(z.numpy()).all() else 1)
    assert os.waitpid(pid, 0)[1] == 0
print("done")
"""


@pytest.mark.parametrize("way", ["ends", "waits", "forks"])
def test_a_program_that_is_long_at_large_arrays_loads_the_compiler_and_ends_well(way):
    if way == "forks" and not hasattr(os, "fork"):
        pytest.skip("no fork here")
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, way]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (ran.returncode, ran.stdout) == (0, "done\n"), ran.stderr


VIEWS = {
    "reshape": lambda x: x.reshape(-1),
    "reshape of a part": lambda x: x[1:].reshape(-1, 2),
    "flatten": lambda x: x.flatten(),
    "transpose": lambda x: x.T,
    "contiguous": lambda x: x.contiguous(),
    "the same dtype": lambda x: x.to(fg.float32),
    "expand": lambda x: x.expand(2, *x.shape),
    "broadcast": lambda x: fg.broadcast_tensors(x, fg.ones(1))[0],
    "detach": lambda x: x.detach(),
    "real": lambda x: fg.real(x),
}


@pytest.mark.parametrize("name", VIEWS)
def test_what_shares_memory_goes_on_doing_so(name, kernels):
    x = tensor(300, 300)
    for _ in range(6):
        seen = VIEWS[name](x)
        kernels.wait()
    x[1:] = 7
    assert seen.numpy().max() == 7


def test_a_result_in_the_memory_of_an_operand_is_noticed(kernels, monkeypatch):
    """A planted one: no op that is asked for gives its operand back today."""
    monkeypatch.setattr(REGISTRY["relu"], "numpy", lambda x: x)
    x = tensor(300, 300)
    for _ in range(6):
        same = fg.relu(x)
        kernels.wait()
    assert np.shares_memory(same.numpy(), x.numpy())


def test_no_op_that_gives_a_view_is_asked_for():
    views = [op for op in REGISTRY.values() if op.view]
    assert views
    assert all(map(eager_kernels.has_none, views))


# Writes in place.

WRITES = {
    "copy_": lambda x, y: x.copy_(y),
    "relu_": lambda x, y: F.relu_(x),
    "a part": lambda x, y: x[1:].copy_(y[1:]),
    "floor_": lambda x, y: x.floor_(),
    "another dtype": lambda x, y: x.copy_((y * 100).int()),
    "one row": lambda x, y: x.copy_(y[0]),
}
LEFT_TO_NUMPY = {
    "columns": lambda x, y: x[:, 1:].copy_(y[:, 1:]),
    "transposed": lambda x, y: x.copy_(y.t()),
}
# What NumPy computes where it is to be, without a result that is copied.
COMPUTED_THERE = {
    "add_": lambda x, y: x.add_(y, alpha=0.5),
    "augmented": lambda x, y: x.__imul__(y),
}


@pytest.fixture
def overwritten(kernels, monkeypatch):
    """What kernels said of each write in place: whether they have done it."""
    found = []
    overwrite = eager_kernels.EagerKernels.overwrite
    monkeypatch.setattr(
        eager_kernels.EagerKernels,
        "overwrite",
        lambda *args: found.append(overwrite(*args)) or found[-1],
    )
    return found


@pytest.mark.parametrize("name", [*WRITES, *LEFT_TO_NUMPY, *COMPUTED_THERE])
def test_large_writes_in_place_are_those_of_numpy(name, kernels, overwritten):
    write = {**WRITES, **LEFT_TO_NUMPY, **COMPUTED_THERE}[name]
    y = tensor(300, 300, seed=1)
    for number in range(2 * eager_kernels.FEW):
        x = tensor(300, 300, seed=number)
        whole, place = x.reshape(-1), x.data_ptr()
        fg.set_eager_kernels(False)
        expected = x.clone()
        write(expected, y)
        fg.set_eager_kernels(True)
        version = x._version
        write(x, y)
        fg.testing.assert_close(x, expected, rtol=0, atol=0)
        fg.testing.assert_close(whole, expected.reshape(-1), rtol=0, atol=0)
        assert x.data_ptr() == place and x._version > version
        kernels.wait()
    if name in COMPUTED_THERE:
        assert not overwritten
    else:
        assert overwritten[-1] == (name in WRITES), overwritten


def test_gradients_go_through_large_writes(kernels, overwritten):
    def run():
        x = tensor(300, 300).requires_grad_()
        y = x * 2
        y.mul_(x).add_(x)
        y.sum().backward()
        return x.grad

    expected = run()
    for _ in range(2 * eager_kernels.FEW):
        fg.testing.assert_close(run(), expected)
        kernels.wait()
    assert overwritten[-1]


# What ops refuse for the values of their operands: a function, what it takes, and what it refuses.
_SCORES, _WHOLE = (40, 50), np.arange(2000).reshape(40, 50) % 7 + 1
REFUSED: dict[str, tuple[Callable[..., Any], Any, Any]] = {
    "nll_loss": (lambda x, t: F.nll_loss(x, t), np.arange(40), 50),
    "weighted": (lambda x, t: F.nll_loss(x, t, fg.ones(50)), np.arange(40), -1),
    "cross_entropy": (lambda x, t: F.cross_entropy(x, t), np.arange(40), 50),
    "binary_cross_entropy": (lambda x, t: F.binary_cross_entropy(t, fg.sigmoid(x)), np.full(_SCORES, 0.5), 2),
    "floor_divide": (lambda x, t: fg.floor_divide(fg.ones_like(t), t), _WHOLE, 0),
    "remainder": (lambda x, t: fg.remainder(fg.ones_like(t), t), _WHOLE, 0),
    "fmod": (lambda x, t: fg.fmod(fg.ones_like(t), t), _WHOLE, 0),
    "gather": (lambda x, t: x.gather(1, t), _WHOLE, 50),
    "rows": (lambda x, t: x[t], np.arange(40), 40),
    "index_add": (lambda x, t: x.index_add(0, t, x), np.arange(40), 40),
}


@pytest.mark.parametrize("name", REFUSED)
def test_values_are_refused_by_kernels_too(name, kernels, monkeypatch):
    """Labels out of range gave a number, once the loss had a kernel."""
    monkeypatch.setattr(eager_kernels, "ELEMENTS", 4000)
    function, good, bad = REFUSED[name]
    x = tensor(*_SCORES)
    values = np.asarray(good, np.float32 if np.asarray(good).dtype.kind == "f" else np.int64)
    wrong = values.copy()
    wrong.reshape(-1)[3] = bad
    for _ in range(2):
        for _ in range(8):
            function(x, fg.tensor(values))
        kernels.wait()
    with pytest.raises((IndexError, RuntimeError)):
        function(x, fg.tensor(wrong))


def _called_by(function: Any, seen: set[FunctionType]) -> set[FunctionType]:
    """The functions of eager that a function calls by name, as far as code tells."""
    function = getattr(function, "__func__", function)
    if (
        not isinstance(function, FunctionType)
        or function in seen
        or "fusegrad.eager" not in function.__module__
    ):
        return seen
    seen.add(function)
    codes, names = [function.__code__], set()
    while codes:
        code = codes.pop()
        names.update(code.co_names)
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    for called in [function.__globals__.get(name) for name in names] + cells:
        _called_by(called, seen)
    return seen


def test_composites_that_may_refuse_values_have_no_kernels():
    """All that raise something in NumPy do it for values, but for the one whose shapes are looked at."""
    raising = set()
    for name, op in REGISTRY.items():
        if op.family == "composite":
            for function in _called_by(op.numpy, set()):
                if any(i.opname == "RAISE_VARARGS" for i in dis.get_instructions(function)):
                    raising.add(name)
    assert raising - {name for name, op in REGISTRY.items() if op.by_values} == {"addmm"}
