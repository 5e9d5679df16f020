"""bfloat16 against PyTorch: every op of the table, casts and promotion, writes, optimizers."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
from op_samples import SAMPLES
from oracle import torch

import fusegrad as fg

# Draws are the engine's own; of equal numbers PyTorch's topk picks any, and its NaN has another sign.
NOT_COMPARED = {
    "poisson",
    "multinomial",
    "class_draw",
    "binomial",
    "log_gamma_draw",
    "log_gamma_draw_gradient",
    "topk",
    "copysign",
}
LOW_PRECISION = "Low precision dtypes not supported"  # of matrices: PyTorch takes some in bfloat16
CASES = [
    pytest.param(sample, id=f"{name}-{number}")
    for name, samples in SAMPLES.items()
    for number, sample in enumerate(samples)
    if name not in NOT_COMPARED and any(a.dtype == np.float64 for a in sample.inputs)
]


def operands(lib, sample):
    """The sample's numbers as bfloat16 leaves."""
    made = []
    for array in sample.inputs:
        floats = array.dtype == np.float64
        tensor = lib.tensor(array.astype("float32") if floats else array)
        made.append(tensor.to(lib.bfloat16).requires_grad_() if floats else tensor)
    return made


def tensors(result):
    return [t for t in (result if isinstance(result, (tuple, list)) else [result]) if hasattr(t, "dtype")]


def values(tensor):
    tensor = tensor.detach()
    return (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()


def close(ours, theirs, bits=1):
    """Within some of the last bits, of the largest number where numbers cancel out."""
    assert str(ours.dtype) == str(theirs.dtype)
    a, b = values(ours), values(theirs)
    finite = np.abs(b[np.isfinite(b)]).max(initial=0) if b.dtype.kind in "fc" else 0
    assert a.shape == b.shape
    np.testing.assert_allclose(a, b, rtol=2e-2 * bits, atol=1e-2 * bits * max(1.0, float(finite)))


def grads(lib, results, leaves):
    """The gradients of weighted sums of results; nothing where there are none.

    Not of their squares: of what was normalised those are 0, but for rounding.
    """
    weights = [np.cos(np.arange(r.numel(), dtype=np.float32)).reshape(tuple(r.shape)) for r in results]
    pairs = [(r, lib.tensor(w)) for r, w in zip(results, weights, strict=True) if r.requires_grad]
    losses = [(r.float() * w).sum() for r, w in pairs]
    if losses:
        sum(losses).backward()
    return [leaf.grad for leaf in leaves]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("sample", CASES)
def test_every_op_is_as_in_torch(sample):
    theirs_in = operands(torch, sample)
    try:
        theirs = tensors(sample.call(torch, *theirs_in))
    except (RuntimeError, TypeError, NotImplementedError):
        return  # PyTorch has it not for bfloat16; we may
    ours_in = operands(fg, sample)
    try:
        ours = tensors(sample.call(fg, *ours_in))
    except RuntimeError as error:
        if LOW_PRECISION in str(error):
            return
        raise
    for a, b in zip(ours, theirs, strict=True):
        close(a, b)
    if not sample.gradients:
        return
    try:
        expected = grads(torch, theirs, theirs_in)
    except (RuntimeError, NotImplementedError):
        return
    for a, b in zip(grads(fg, ours, ours_in), expected, strict=True):
        assert (a is None) == (b is None)
        if b is not None:
            close(a, b, bits=4)


DTYPES = [
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
    "complex64", "complex128",
]  # fmt: skip


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.filterwarnings("ignore:Casting complex values")
def test_casts_and_promotion(name):
    ours, theirs = getattr(fg, name), getattr(torch, name)
    numbers = [1.7, 2.3, 100.7, 0.0, 1.0039, 1.00391]
    for lib_cast in (
        lambda lib, dtype: lib.tensor(numbers).to(dtype).bfloat16(),
        lambda lib, dtype: lib.tensor(numbers).bfloat16().to(dtype),
        lambda lib, dtype: lib.tensor(numbers).bfloat16() * lib.ones(6).to(dtype),
        lambda lib, dtype: lib.tensor(numbers).bfloat16() * lib.ones(()).to(dtype),
        lambda lib, dtype: lib.tensor(2.5).bfloat16() * lib.ones(3).to(dtype),
    ):
        a, b = lib_cast(fg, ours), lib_cast(torch, theirs)
        assert str(a.dtype) == str(b.dtype) and a.tolist() == b.tolist()
    assert str(fg.promote_types(fg.bfloat16, ours)) == str(torch.promote_types(torch.bfloat16, theirs))
    assert fg.can_cast(fg.bfloat16, ours) == torch.can_cast(torch.bfloat16, theirs)


def test_extremes_are_rounded_to_nearest_even():
    random = np.random.default_rng(0)
    bits = random.integers(0, 2**32, 20_000, dtype=np.uint32)
    floats = bits.view(np.float32)
    floats = np.concatenate([floats[~np.isnan(floats)], np.array([np.inf, -np.inf, 0, -0.0], np.float32)])
    a, b = fg.tensor(floats).bfloat16(), torch.tensor(floats).bfloat16()
    np.testing.assert_array_equal(values(a).view(np.uint32), values(b).view(np.uint32))
    assert fg.tensor(float("nan")).bfloat16().isnan().item()
    assert [fg.tensor(v).bfloat16().item() for v in (2**40 + 1, True)] == [2.0**40, 1.0]


@pytest.mark.parametrize(
    "make",
    [
        lambda lib, dtype: lib.zeros(2, 3, dtype=dtype),
        lambda lib, dtype: lib.full((2,), 3.14159, dtype=dtype),
        lambda lib, dtype: lib.arange(0, 2, 0.3, dtype=dtype),
        lambda lib, dtype: lib.arange(300, dtype=dtype),
        lambda lib, dtype: lib.tensor([[1.5, 2], [3, 1e30]], dtype=dtype),
        lambda lib, dtype: lib.tensor([], dtype=dtype),
        lambda lib, dtype: lib.eye(3, dtype=dtype),
        lambda lib, dtype: lib.ones(3).to(dtype).new_full((2,), 0.1),
        lambda lib, dtype: lib.zeros_like(lib.ones(2, dtype=dtype)),
        lambda lib, dtype: lib.ones(2, 2, dtype=dtype).triu(),
        lambda lib, dtype: lib.linspace(0, 1, 5, dtype=dtype),
        lambda lib, dtype: lib.BFloat16Tensor([1.5, 2.5]),
        lambda lib, dtype: lib.nn.Linear(2, 2).bfloat16().weight.detach().abs() * 0,
        lambda lib, dtype: lib.tensor([1.0, -2.0], dtype=dtype).view(lib.int16),
        lambda lib, dtype: lib.tensor([[1e-4, 1000.0]] * 600, dtype=dtype),
        lambda lib, dtype: lib.tensor([1.0, float("nan"), -float("inf")], dtype=dtype),
    ],
)
def test_creation_and_printing(make):
    ours, theirs = make(fg, fg.bfloat16), make(torch, torch.bfloat16)
    assert repr(ours) == repr(theirs) and ours.type() == theirs.type()
    np.testing.assert_array_equal(values(ours), values(theirs))


@pytest.mark.parametrize("name", ["rand", "randn"])
def test_draws(name):
    fg.manual_seed(0)
    drawn = getattr(fg, name)(2000, dtype=fg.bfloat16)
    assert drawn.dtype is fg.bfloat16 and abs(drawn.float().mean().item() - (name == "rand") / 2) < 0.1
    fg.nn.init.xavier_uniform_(fg.ones(3, 3, dtype=fg.bfloat16))
    assert fg.nn.functional.dropout(fg.ones(100).bfloat16()).unique().tolist() == [0.0, 2.0]


def test_writes_in_place():
    for lib in (fg, torch):
        x = lib.zeros(3, 4, dtype=lib.bfloat16)
        x[1] = 0.1
        x[:, 2] += lib.tensor([1.001, 2.002, 3.003])
        x.mul_(1.1).add_(x, alpha=0.5)
        x[x > 3] = -1
        x.clamp_(min=-0.5)
        with pytest.raises((RuntimeError, TypeError)):
            x += 1j
        if lib is fg:
            ours = x.tolist()
    assert ours == x.tolist()


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
@pytest.mark.parametrize("shape", [(3, 4), (100, 100)])
def test_optimizers_keep_the_dtype(name, shape):
    start = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    kept = []
    for lib in (fg, torch):
        weight = lib.tensor(start).bfloat16().requires_grad_()
        optimizer = getattr(lib.optim, name)([weight], lr=0.1)
        for _ in range(4):
            optimizer.zero_grad()
            (weight**2).sum().backward()
            optimizer.step()
        assert weight.dtype is lib.bfloat16 and weight.grad.dtype is lib.bfloat16
        kept.append(weight)
    np.testing.assert_allclose(values(kept[0]), values(kept[1]), rtol=5e-2, atol=3e-2)


def test_training_of_a_network():
    losses = []
    torch.manual_seed(0)  # others end, once in a while, where rounding decides
    start = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4)
    )
    state = {k: v.detach().numpy().copy() for k, v in start.state_dict().items()}
    data = np.random.default_rng(1).normal(size=(32, 8)).astype(np.float32)
    labels = np.arange(32) % 4
    for lib in (fg, torch):
        nn = lib.nn
        model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))
        model.load_state_dict({k: lib.tensor(v) for k, v in state.items()})
        model = model.to(lib.bfloat16)
        optimizer = lib.optim.SGD(model.parameters(), lr=0.5)
        for _ in range(20):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(lib.tensor(data).bfloat16()), lib.tensor(labels))
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=0.1)


def test_limits_and_doors():
    ours, theirs = fg.finfo(fg.bfloat16), torch.finfo(torch.bfloat16)
    assert repr(ours) == repr(theirs) and ours.max == theirs.max and ours.tiny == theirs.tiny
    x = fg.tensor([1.1, -2.7]).bfloat16()
    assert x.tolist() == torch.tensor([1.1, -2.7]).bfloat16().tolist() and f"{x[0]:.2f}" == "1.10"
    assert int(x[1]) == -2 and bool(x[0]) and type(x[0].item()) is float
    assert (x.element_size(), x.is_floating_point(), x.is_signed(), x.dtype.itemsize) == (2, True, True, 2)
    for call in (x.numpy, lambda: np.asarray(x)):
        with pytest.raises(TypeError, match="Got unsupported ScalarType BFloat16"):
            call()
    for again in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), x.clone().share_memory_()):
        assert again.dtype is fg.bfloat16 and again.tolist() == x.tolist()
    assert pickle.loads(pickle.dumps(fg.bfloat16)) is fg.bfloat16
    fg.testing.assert_close(x, x + 0.01)
    with pytest.raises(RuntimeError, match="Low precision dtypes not supported"):
        fg.linalg.inv(fg.eye(2).bfloat16())


def test_higher_derivatives_and_transforms():
    x = fg.tensor([0.5, -1.5]).bfloat16().requires_grad_()
    (slope,) = fg.autograd.grad((x**3).sum(), x, create_graph=True)
    (bend,) = fg.autograd.grad(slope.sum(), x)
    assert bend.dtype is fg.bfloat16 and bend.tolist() == [3.0, -9.0]
    assert fg.func.grad(lambda v: (v * v).sum())(x.detach()).tolist() == [1.0, -3.0]
    mixed = fg.ones(2, requires_grad=True)
    (mixed * x).sum().backward()
    assert mixed.grad.dtype is fg.float32 and mixed.grad.tolist() == x.tolist()


def run(*lines):
    return subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True)


def test_the_library_is_loaded_when_it_is_needed():
    found = run(
        "import sys, fusegrad as fg",
        "assert fg.bfloat16.itemsize == 2 and repr(fg.bfloat16) == 'torch.bfloat16'",
        "assert fg.ones(2).dtype != fg.bfloat16 and 'ml_dtypes' not in sys.modules",
        "fg.ones(2, dtype=fg.bfloat16)",
        "assert 'ml_dtypes' in sys.modules",
    )
    assert found.returncode == 0, found.stderr
