"""Tensors beside NumPy, torch, JAX and SciPy: shared memory, NumPy's functions, copies and pickles."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest
import scipy.optimize
from oracle import torch

import fusegrad as fg

DTYPES = [
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64",
    "complex128",
]  # fmt: skip


# DLPack.


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (0, 2), (2, 3)])
def test_dlpack_shares_memory_with_torch_and_numpy(dtype, shape):
    mine = fg.ones(*shape, dtype=getattr(fg, dtype))
    other, array = torch.from_dlpack(mine), np.from_dlpack(mine)
    assert other.shape == mine.shape and repr(other.dtype) == repr(mine.dtype) and array.dtype == dtype
    if mine.numel():
        mine.fill_(0)
        assert not other.any() and not array.any()
        other.fill_(1)
        assert mine.all()
    back = fg.from_dlpack(other)
    assert back.dtype is mine.dtype and back.shape == mine.shape
    if mine.numel():
        back.fill_(0)
        assert not mine.any()


def test_dlpack_of_views():
    mine = fg.arange(12.0).reshape(3, 4)
    for view in (mine.t(), mine[:, ::2], mine[1], mine[2:, 3:]):
        other = torch.from_dlpack(view)
        assert other.stride() == view.stride()
        np.testing.assert_array_equal(other.numpy(), view.numpy())
        np.testing.assert_array_equal(fg.from_dlpack(other).numpy(), view.numpy())
    array = np.arange(6.0)[::-1]
    backwards = fg.from_dlpack(array)
    backwards[0] = 9
    assert array[0] == 9


def test_dlpack_options_and_refusals():
    mine = fg.ones(2)
    assert mine.__dlpack_device__() == (1, 0)
    own = fg.from_dlpack(torch.from_dlpack(mine), copy=True)
    own.fill_(5)
    assert mine.tolist() == [1.0, 1.0]
    taken = fg.from_dlpack(torch.utils.dlpack.to_dlpack(torch.from_dlpack(mine)))
    mine.fill_(2)
    assert taken.tolist() == [2.0, 2.0]
    assert np.from_dlpack(mine, copy=True).tolist() == [2.0, 2.0]
    for needing in (mine.requires_grad_(), mine * 2):
        for take in (torch.from_dlpack, np.from_dlpack, fg.from_dlpack):
            with pytest.raises(BufferError, match="require gradient, use tensor"):
                take(needing)
    with pytest.raises(TypeError, match="__dlpack__"):
        fg.from_dlpack([1.0])
    assert fg.from_dlpack(np.ones(2, np.uint16)).dtype is fg.uint16
    with pytest.raises(RuntimeError, match="CPU"):
        fg.from_dlpack(np.ones(2), device="cuda")
    fixed = np.ones(2)
    fixed.flags.writeable = False
    with pytest.raises(RuntimeError, match="read-only"):
        fg.from_dlpack(fixed).fill_(0)
    assert fixed.tolist() == [1.0, 1.0]


def test_dlpack_with_jax():
    jax = pytest.importorskip("jax")
    theirs = jax.numpy.arange(4.0)
    mine = fg.from_dlpack(theirs)
    assert mine.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert mine.numpy().ctypes.data == theirs.unsafe_buffer_pointer()
    with pytest.raises(RuntimeError, match="read-only"):
        mine.fill_(0)
    # JAX shares memory that is aligned as its own is.
    memory = np.zeros(80, np.uint8)
    start = -memory.ctypes.data % 64
    aligned = fg.from_numpy(memory[start : start + 16].view(np.float32))
    taken = jax.dlpack.from_dlpack(aligned)
    assert taken.unsafe_buffer_pointer() == aligned.numpy().ctypes.data
    aligned.fill_(3)
    assert taken.tolist() == [3.0] * 4


# NumPy.

NUMPY = {
    "sin": lambda t, n: np.sin(t),
    "add": lambda t, n: np.add(t, 1),
    "add array": lambda t, n: np.add(n, t),
    "isnan": lambda t, n: np.isnan(t),
    "modf": lambda t, n: np.modf(t),
    "0-d": lambda t, n: np.exp(t[0]),
    "reshape": lambda t, n: np.reshape(t, (2, 1)),
    "round": lambda t, n: np.round(t),
    "argmax": lambda t, n: np.argmax(t),
    "reduce": lambda t, n: np.add.reduce(t),
    "concatenate": lambda t, n: np.concatenate([t, t]),
    "stack": lambda t, n: np.stack([t, n]),
    "norm": lambda t, n: np.linalg.norm(t),
    "where": lambda t, n: np.where(t > 1, t, n),
    "asarray": lambda t, n: np.asarray(t),
    "asarray float64": lambda t, n: np.asarray(t, "float64"),
    "shape": lambda t, n: np.shape(t),
    "scalar times tensor": lambda t, n: np.float32(2) * t,
    "float64 scalar times tensor": lambda t, n: np.float64(2) * t,
    "tensor times scalar": lambda t, n: t * np.float32(2),
    "integers": lambda t, n: np.int64(3) + t.long(),
    "scalar compared": lambda t, n: np.float32(2) < t,
    "scalar power": lambda t, n: np.float32(2) ** t,
    "tensor plus array": lambda t, n: t + n,
    "equal": lambda t, n: n == t,
}


@pytest.mark.parametrize("name", NUMPY)
def test_numpys_functions_give_what_they_give_for_torch(name):
    n = np.array([1.5, 2.0], "float32")
    results = []
    for ns in (fg, torch):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # torch's __array_wrap__
            made = NUMPY[name](ns.tensor(n.copy()), n)
        parts = made if type(made) is tuple else (made,)
        results.append([(isinstance(p, ns.Tensor), str(getattr(p, "dtype", "")), str(p)) for p in parts])
    assert results[0] == results[1]


def test_arrays_mix_with_tensors_on_either_side():
    """Where PyTorch refuses an array on the left, the result is a tensor too, with its gradient."""
    n = np.array([1.0, 2.0], "float32")
    x = fg.tensor([3.0, 4.0], requires_grad=True)
    for made in (n * x, n + x, n - x, n / x, n**x, n @ x, np.array(2.0) * x):
        assert isinstance(made, fg.Tensor) and made.requires_grad
    (n * x).sum().backward()
    assert x.grad.tolist() == [1.0, 2.0]
    n += fg.ones(2)
    assert isinstance(n, (np.ndarray, fg.Tensor)) and np.asarray(n).tolist() == [2.0, 3.0]
    for function in (np.sin, np.asarray):
        with pytest.raises(
            RuntimeError, match=r"use tensor.detach\(\).numpy\(\)|Use tensor.detach\(\).numpy\(\)"
        ):
            function(x)


def test_memory_is_shared_with_numpy():
    array = np.arange(3.0)
    tensor = fg.from_numpy(array)
    array[0] = 7
    tensor[1] = 8
    assert tensor.tolist() == [7.0, 8.0, 2.0] == array.tolist()
    assert np.asarray(tensor) is not None and np.shares_memory(np.asarray(tensor), array)
    assert not np.shares_memory(np.array(tensor), array)
    assert np.shares_memory(np.transpose(tensor[None]).numpy(), array)
    assert np.array(fg.ones(2).int(), dtype="float64").dtype == np.float64


def test_a_recorded_run_notices_that_values_leave():
    calls = []

    @fg.jit
    def leaving(x):
        calls.append(1)
        return fg.from_dlpack(np.from_dlpack(x) * 2) + np.sin(x)

    for value in (1.0, 2.0, 3.0):
        assert leaving(fg.full((2,), value)).tolist() == pytest.approx([value * 2 + np.sin(value)] * 2)
    assert len(calls) == 3


# Copies and pickles.


def test_copies():
    for ns in (fg, torch):
        x = ns.tensor([1.0, 2.0], requires_grad=True)
        x.grad, x.note = ns.ones(2), ["mine"]
        deep, shallow, again = copy.deepcopy(x), copy.copy(x), pickle.loads(pickle.dumps(x))
        for twin in (deep, shallow, again):
            assert type(twin) is ns.Tensor and twin.requires_grad and twin.is_leaf and twin is not x
            assert twin.tolist() == [1.0, 2.0] and twin.note == ["mine"]
        assert deep.grad.tolist() == [1.0, 1.0] and deep.note is not x.note and shallow.note is x.note
        assert shallow.grad is None and again.grad is None
        with ns.no_grad():
            x.fill_(5)
        assert shallow.tolist() == [5.0, 5.0] and deep.tolist() == again.tolist() == [1.0, 2.0]
        made = x * 2
        with pytest.raises(RuntimeError, match="graph leaves"):
            copy.deepcopy(made)
        assert pickle.loads(pickle.dumps(made)).is_leaf and copy.copy(made).tolist() == [10.0, 10.0]
        pair = copy.deepcopy([x, x, {"again": x}])
        assert pair[0] is pair[1] is pair[2]["again"]
        parameter = ns.nn.Parameter(ns.ones(2), requires_grad=False)
        for twin in (copy.deepcopy(parameter), pickle.loads(pickle.dumps(parameter))):
            assert isinstance(twin, ns.nn.Parameter) and not twin.requires_grad


@pytest.mark.parametrize("dtype", DTYPES)
def test_pickles_of_every_dtype(dtype):
    for shape in ((), (0,), (2, 3)):
        x = fg.ones(*shape, dtype=getattr(fg, dtype)).t() if len(shape) == 2 else fg.ones(*shape).to(
            getattr(fg, dtype)
        )  # fmt: skip
        twin = pickle.loads(pickle.dumps(x))
        assert twin.dtype is x.dtype and twin.shape == x.shape and fg.equal(twin, x)


def test_copies_share_the_version_counter():
    x = fg.ones(2)
    shallow = copy.copy(x)
    x.add_(1)
    assert shallow._version == 1 and copy.deepcopy(x)._version == 0


# SciPy.


def test_scipys_optimisers_take_value_and_gradient():
    def rosenbrock(x):
        return ((1 - x[:-1]) ** 2).sum() + 100 * ((x[1:] - x[:-1] ** 2) ** 2).sum()

    both = fg.value_and_grad(rosenbrock)

    def value_and_gradient(array):
        value, gradient = both(fg.from_numpy(array))
        return value.item(), gradient.numpy()

    for method in ("BFGS", "L-BFGS-B", "CG"):
        found = scipy.optimize.minimize(value_and_gradient, np.zeros(4), jac=True, method=method)
        assert np.allclose(found.x, 1, atol=1e-3), method


def test_what_must_not_be_copied_is_refused_in_another_dtype():
    x = fg.ones(3)
    assert np.shares_memory(np.array(x, copy=False), x.numpy())
    assert not np.shares_memory(np.array(x, copy=True), x.numpy())
    with pytest.raises(ValueError, match="float32 tensor is no float64 array"):
        np.array(x, dtype=np.float64, copy=False)
