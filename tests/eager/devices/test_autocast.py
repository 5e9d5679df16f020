"""`autocast` of the CPU against PyTorch: which functions get which dtype, gradients, nesting, and `jit`."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg

NUMBERS = np.random.default_rng(0).normal(size=200).astype(np.float32)


def f(lib, *shape):
    """Numbers of float32."""
    return lib.tensor(NUMBERS[: int(np.prod(shape))].reshape(shape))


def h(lib, *shape):
    """Numbers of bfloat16."""
    return f(lib, *shape).bfloat16()


def F(lib):
    return lib.nn.functional


def seeded(lib, module):
    """A module with numbers that are the same in both libraries."""
    with lib.no_grad():
        for parameter in module.parameters():
            parameter.copy_(f(lib, *parameter.shape) * 0.3)
    return module


CASES = {
    "matmul": lambda lib: f(lib, 3, 4) @ f(lib, 4, 5),
    "mixed": lambda lib: h(lib, 3, 4) @ f(lib, 4, 5),
    "mm": lambda lib: lib.mm(f(lib, 3, 4), f(lib, 4, 5)),
    "bmm": lambda lib: lib.bmm(f(lib, 2, 3, 4), f(lib, 2, 4, 5)),
    "mv": lambda lib: lib.mv(f(lib, 3, 4), f(lib, 4)),
    "dot": lambda lib: lib.dot(f(lib, 4), f(lib, 4)),
    "addmv": lambda lib: lib.addmv(f(lib, 3), f(lib, 3, 4), f(lib, 4)),
    "vectors": lambda lib: f(lib, 4) @ f(lib, 4),
    "outer": lambda lib: lib.outer(f(lib, 3), f(lib, 4)),
    "float64": lambda lib: f(lib, 3, 4).double() @ f(lib, 4, 3).double(),
    "einsum": lambda lib: lib.einsum("ij,jk->ik", f(lib, 3, 4), f(lib, 4, 5)),
    "linear": lambda lib: F(lib).linear(f(lib, 3, 4), f(lib, 5, 4), f(lib, 5)),
    "addmm": lambda lib: lib.addmm(f(lib, 3, 5), f(lib, 3, 4), f(lib, 4, 5)),
    "baddbmm": lambda lib: lib.baddbmm(f(lib, 2, 3, 5), f(lib, 2, 3, 4), f(lib, 2, 4, 5)),
    "addbmm": lambda lib: lib.addbmm(f(lib, 3, 5), f(lib, 2, 3, 4), f(lib, 2, 4, 5)),
    "conv1d": lambda lib: F(lib).conv1d(f(lib, 2, 3, 6), f(lib, 4, 3, 3)),
    "conv2d": lambda lib: F(lib).conv2d(f(lib, 1, 3, 6, 6), f(lib, 4, 3, 3, 3), f(lib, 4)),
    "conv_transpose2d": lambda lib: F(lib).conv_transpose2d(
        f(lib, 1, 3, 6, 6), f(lib, 3, 4, 3, 3), f(lib, 4)
    ),
    "conv of both": lambda lib: F(lib).conv2d(h(lib, 1, 3, 6, 6), f(lib, 4, 3, 3, 3), f(lib, 4)),
    "conv_transpose of both": lambda lib: F(lib).conv_transpose1d(h(lib, 1, 3, 6), f(lib, 3, 4, 3)),
    "linear of both": lambda lib: F(lib).linear(h(lib, 3, 4), f(lib, 5, 4), f(lib, 5)),
    "linear of many": lambda lib: F(lib).linear(h(lib, 2, 3, 4), f(lib, 5, 4), f(lib, 5)),
    "addmm of both": lambda lib: lib.addmm(f(lib, 5), h(lib, 3, 4), f(lib, 4, 5), beta=2),
    "attention with a mask": lambda lib: F(lib).scaled_dot_product_attention(
        *(f(lib, 2, 3, 4) for _ in "qkv"), attn_mask=f(lib, 3, 3)
    ),
    "lstm": lambda lib: seeded(lib, lib.nn.LSTM(3, 4))(f(lib, 5, 2, 3))[0].float(),
    "gru cell": lambda lib: seeded(lib, lib.nn.GRUCell(3, 4))(f(lib, 2, 3), f(lib, 2, 4)).float(),
    "prelu of both": lambda lib: F(lib).prelu(h(lib, 3, 4), f(lib, 1)),
    "prelu": lambda lib: F(lib).prelu(f(lib, 3, 4), f(lib, 1)),
    "attention": lambda lib: F(lib).scaled_dot_product_attention(
        f(lib, 2, 3, 4), f(lib, 2, 3, 4), f(lib, 2, 3, 4)
    ),
    "cross_entropy": lambda lib: F(lib).cross_entropy(h(lib, 3, 4), lib.tensor([0, 1, 2])),
    "cross_entropy of chances": lambda lib: F(lib).cross_entropy(h(lib, 3, 4), lib.softmax(f(lib, 3, 4), 1)),
    "nll_loss": lambda lib: F(lib).nll_loss(h(lib, 3, 4), lib.tensor([0, 1, 2])),
    "mse_loss": lambda lib: F(lib).mse_loss(h(lib, 3, 4), f(lib, 3, 4) * 2),
    "l1_loss": lambda lib: F(lib).l1_loss(h(lib, 3, 4), f(lib, 3, 4) * 2),
    "huber_loss": lambda lib: F(lib).huber_loss(h(lib, 3, 4), f(lib, 3, 4) * 2),
    "smooth_l1_loss": lambda lib: F(lib).smooth_l1_loss(h(lib, 3, 4), f(lib, 3, 4) * 2),
    "binary_cross_entropy": lambda lib: F(lib).binary_cross_entropy(
        h(lib, 3, 4).sigmoid(), f(lib, 3, 4).sigmoid()
    ),
    "with_logits": lambda lib: F(lib).binary_cross_entropy_with_logits(h(lib, 3, 4), f(lib, 3, 4).sigmoid()),
    "kl_div": lambda lib: F(lib).kl_div(h(lib, 3, 4), f(lib, 3, 4).sigmoid(), reduction="sum"),
    "poisson_nll_loss": lambda lib: F(lib).poisson_nll_loss(h(lib, 3, 4), f(lib, 3, 4).abs()),
    "cosine": lambda lib: F(lib).cosine_embedding_loss(h(lib, 3, 4), f(lib, 3, 4) + 1, lib.ones(3)),
    "hinge": lambda lib: F(lib).hinge_embedding_loss(h(lib, 3, 4), lib.ones(3, 4)),
    "ranking": lambda lib: F(lib).margin_ranking_loss(h(lib, 3), f(lib, 3), lib.ones(3)),
    "triplet": lambda lib: F(lib).triplet_margin_loss(h(lib, 3, 4), f(lib, 3, 4) + 1, f(lib, 3, 4) - 1),
    "soft_margin": lambda lib: F(lib).soft_margin_loss(h(lib, 3, 4), lib.ones(3, 4)),
    "multi_margin": lambda lib: F(lib).multi_margin_loss(h(lib, 3, 4), lib.tensor([0, 1, 2])),
    "multilabel": lambda lib: F(lib).multilabel_margin_loss(h(lib, 3, 4), lib.tensor([[0, 1, -1, 0]] * 3)),
    "softmax": lambda lib: h(lib, 3, 4).softmax(1),
    "softmax of float32": lambda lib: f(lib, 3, 4).softmax(1),
    "add": lambda lib: h(lib, 3) + f(lib, 3),
    "cat": lambda lib: lib.cat([h(lib, 3), f(lib, 3)]),
    "stack": lambda lib: lib.stack([h(lib, 3), f(lib, 3)]),
    "layer_norm": lambda lib: F(lib).layer_norm(h(lib, 3, 4), (4,)),
    "gelu": lambda lib: F(lib).gelu(h(lib, 3, 4)),
    "prod": lambda lib: h(lib, 3, 4).prod(),
    "sum": lambda lib: h(lib, 3, 4).sum(),
    "pow": lambda lib: h(lib, 3, 4) ** 2,
    "cumsum": lambda lib: h(lib, 4).cumsum(0),
    "norm": lambda lib: h(lib, 3, 4).norm(),
    "cdist": lambda lib: lib.cdist(h(lib, 3, 4), h(lib, 3, 4) + 1),
    "fft": lambda lib: lib.fft.fft(h(lib, 4)).real,
    "quantile": lambda lib: lib.quantile(h(lib, 3, 4), 0.3),
    "trace": lambda lib: lib.trace(h(lib, 3, 3)),
    "grid_sample": lambda lib: F(lib).grid_sample(
        h(lib, 1, 1, 4, 4), f(lib, 1, 2, 2, 2), align_corners=False
    ),
    "avg_pool2d": lambda lib: F(lib).avg_pool2d(h(lib, 1, 1, 4, 4), 2),
    "integers": lambda lib: lib.arange(6).reshape(2, 3) @ lib.arange(6).reshape(3, 2),
}


@pytest.mark.parametrize("name", CASES)
def test_functions_compute_in_the_dtype_that_torch_takes(name):
    with torch.autocast("cpu"):
        try:
            theirs = CASES[name](torch)
        except RuntimeError as error:
            if "could not create a primitive" not in str(error):
                raise
            pytest.skip("torch has no code in half precision for this processor")
    with fg.autocast("cpu"):
        ours = CASES[name](fg)
    assert str(ours.dtype) == str(theirs.dtype)
    half = theirs.dtype is torch.bfloat16 or name in ("lstm", "gru cell")
    # Where the processor has no bfloat16, PyTorch rounds sums on the way, too.
    largest = max(1.0, float(theirs.detach().abs().max()))
    np.testing.assert_allclose(
        ours.detach().double().numpy(),
        theirs.detach().double().numpy(),
        rtol=1e-2 if half else 1e-5,
        atol=1e-2 * largest if half else 1e-6,
    )
    assert (f(fg, 2, 2) @ f(fg, 2, 2)).dtype is fg.float32  # outside


def trained(lib, steps, wrap=lambda step: step, dtype=None):
    nn = lib.nn
    model = nn.Sequential(nn.Conv1d(2, 4, 3), nn.BatchNorm1d(4), nn.ReLU(), nn.Flatten(), nn.Linear(24, 3))
    start = np.random.default_rng(1)
    with lib.no_grad():
        for parameter in model.parameters():
            drawn = start.normal(size=tuple(parameter.shape)).astype(np.float32)
            parameter.copy_(lib.tensor(drawn * 0.3))
    optimizer = lib.optim.SGD(model.parameters(), lr=0.1)
    scaler = lib.amp.GradScaler("cpu", init_scale=64.0)
    x, y = f(lib, 12, 2, 8), lib.arange(12) % 3

    def step():
        optimizer.zero_grad()
        with lib.autocast("cpu", dtype=dtype or lib.bfloat16):
            out = model(x)
            loss = nn.functional.cross_entropy(out, y)
        assert out.dtype == (dtype or lib.bfloat16) and loss.dtype == lib.float32
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.item()

    step = wrap(step)
    losses = [step() for _ in range(steps)]
    assert all(p.dtype == lib.float32 and p.grad.dtype == lib.float32 for p in model.parameters())
    return losses


def test_training_is_as_in_torch():
    assert trained(fg, 10) == pytest.approx(trained(torch, 10), rel=3e-2)
    assert trained(fg, 10, dtype=fg.float16) == pytest.approx(
        trained(torch, 10, dtype=torch.float16), rel=1e-2
    )


def test_a_jitted_step_is_right_and_says_why_it_is_not_replayed():
    seen = []

    def wrap(step):
        seen.append(fg.jit(step))
        return seen[0]

    assert trained(fg, 5, wrap) == pytest.approx(trained(fg, 5), rel=1e-6)
    assert "autocast" in str(seen[0].explain())


def test_jitted_functions_inside_run_op_by_op():
    product = fg.jit(lambda x, y: x @ y)
    x, y = fg.rand(8, 8), fg.rand(8, 8)
    for _ in range(3):
        assert product(x, y).dtype is fg.float32
        with fg.autocast("cpu"):
            assert product(x, y).dtype is fg.bfloat16
    with fg.autocast("cpu"):
        fresh = fg.jit(lambda x, y: x @ y)
        assert fresh(x, y).dtype is fresh(x, y).dtype is fg.bfloat16
    assert fresh(x, y).dtype is fg.float32


def test_nesting_decorators_threads_and_errors():
    for lib in (fg, torch):
        a = f(lib, 3, 3)
        context = lib.autocast("cpu")
        with context:
            assert lib.is_autocast_enabled("cpu") and (a @ a).dtype is lib.bfloat16
            with lib.autocast("cpu", enabled=False):
                assert (a @ a).dtype is lib.float32 and not lib.is_autocast_enabled("cpu")
                with context:
                    assert (a @ a).dtype is lib.bfloat16
            with lib.autocast("cpu", dtype=lib.float16):
                assert (a @ a).dtype is lib.float16
            other = []
            thread = threading.Thread(target=lambda a=a, other=other: other.append((a @ a).dtype))
            thread.start()
            thread.join()
            assert other == [lib.float32]
        with pytest.raises(ZeroDivisionError), context:
            raise ZeroDivisionError
        assert (a @ a).dtype is lib.float32 and not lib.is_autocast_enabled("cpu")
        decorated = lib.autocast("cpu")(lambda a: a @ a)
        assert decorated(a).dtype is lib.bfloat16
    assert fg.amp.is_autocast_available("cpu") and not fg.amp.is_autocast_available("cuda")


def test_gradients_inside_and_outside():
    found = []
    for lib in (fg, torch):
        weight = f(lib, 4, 4).requires_grad_()
        with lib.autocast("cpu"):
            out = (f(lib, 3, 4) @ weight).tanh() @ weight
            out.float().sum().backward()
        with lib.autocast("cpu"):
            again = lib.einsum("ij,jk->ik", weight, weight).float().sum()
        again.backward()
        assert weight.grad.dtype is lib.float32
        found.append(weight.grad.numpy())
    np.testing.assert_allclose(*found, rtol=3e-2, atol=3e-2)
