"""bfloat16 under `jit`: ops are left to NumPy, and give what eager gives."""

from __future__ import annotations

import numpy as np
import pytest

import fusegrad as fg

F = fg.nn.functional


def leaf(*shape, seed=0):
    drawn = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return fg.tensor(drawn).bfloat16().requires_grad_()


def network(x, w):
    h = F.gelu(x @ w)
    h = F.layer_norm(h, h.shape[-1:])
    return (h.softmax(-1) * h.float()).sum() + F.cross_entropy(h, fg.zeros(h.shape[0], dtype=fg.int64))


def branching(x, w):
    if x.sum() > 0:
        x = x * 0.5
    return (x @ w).tanh().mean()


def writing(x, w):
    y = (x @ w).clone()
    y[0] = 0.1
    return (y.mul_(1.1) ** 2).sum()


def casting(x, w):
    return (x.float() @ w.float()).bfloat16().cumsum(0).std()


@pytest.mark.parametrize("function", [network, branching, writing, casting])
@pytest.mark.parametrize("rows", [3, 300])
def test_replays_give_what_eager_gives(function, rows):
    compiled = fg.jit(function)
    for seed in range(4):
        x, w = leaf(rows, 150, seed=seed), leaf(150, 130, seed=seed + 9)
        a, b = leaf(rows, 150, seed=seed), leaf(150, 130, seed=seed + 9)
        ours, expected = compiled(x, w), function(a, b)
        ours.backward()
        expected.backward()
        assert ours.dtype is expected.dtype
        fg.testing.assert_close(ours, expected, rtol=1e-2, atol=1e-2)
        for mine, known in ((x.grad, a.grad), (w.grad, b.grad)):
            assert mine.dtype is fg.bfloat16
            # The sums of float32 kernels end with other bits, and so may what is rounded.
            fg.testing.assert_close(mine, known, rtol=2e-2, atol=2e-2 * known.float().abs().max().item())
    assert compiled.stats.compiled_calls > 0


def test_functions_with_effects_and_dtypes_that_change():
    seen = []

    @fg.jit
    def loss(x):
        seen.insert(99, 1)
        return (x * 1.1 + 0.3).exp().sum()

    for _ in range(4):
        for dtype in (fg.bfloat16, fg.float32, fg.float16):
            x = fg.linspace(-1, 1, 50).to(dtype)
            y = loss(x)
            assert y.dtype is dtype and y.item() == (x * 1.1 + 0.3).exp().sum().item()
    assert len(seen) == 12


def test_eager_kernels_leave_it_alone():
    x = leaf(300, 300)
    expected = (x.detach() * 1.7).exp()
    for _ in range(8):
        again = (x.detach() * 1.7).exp()
    fg.wait_for_eager_kernels()
    again = (x.detach() * 1.7).exp()
    assert again.dtype is fg.bfloat16 and fg.equal(again, expected)
    (x * x).sum().backward()
    assert fg.equal(x.grad, 2 * x.detach())


def test_a_step_of_training():
    weight, other = leaf(20, 20), leaf(20, 20)
    steps = []
    for parameter, wrap in ((weight, fg.jit), (other, lambda f: f)):
        optimizer = fg.optim.SGD([parameter], lr=0.1, momentum=0.9)

        @wrap
        def step(optimizer=optimizer, parameter=parameter):
            optimizer.zero_grad()
            loss = (parameter * parameter).mean()
            loss.backward()
            optimizer.step()
            return loss

        steps.append([step().item() for _ in range(5)])
    assert steps[0] == steps[1] and fg.equal(weight, other)
