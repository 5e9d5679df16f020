"""`nn.utils` of before, and modules for several devices, beside PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg

MAKE = {
    "linear": lambda nn: nn.Linear(3, 4),
    "convolution": lambda nn: nn.Conv2d(2, 3, 2),
    "transposed": lambda nn: nn.ConvTranspose2d(2, 3, 2),
}
SIZES = {"linear": (5, 3), "convolution": (2, 2, 4, 4), "transposed": (2, 2, 4, 4)}


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("count", [1, 3])
def test_spectral_norm(kind, count):
    mine, other = (lib.nn.utils.spectral_norm(MAKE[kind](lib.nn), "weight", count) for lib in (fg, torch))
    state = other.state_dict()
    assert set(mine.state_dict()) == set(state)
    mine.load_state_dict({k: fg.tensor(v.numpy()) for k, v in state.items()})
    x = np.random.default_rng(0).normal(size=SIZES[kind]).astype("f4")
    for training in (True, True, False, True):
        found = []
        for lib, module in ((fg, mine), (torch, other)):
            module.train(training)
            module.zero_grad()
            result = module(lib.tensor(x))
            result.square().sum().backward()
            found.append([result.detach().numpy(), module.weight_orig.grad.numpy(), module.weight_u.numpy()])
        for one, two in zip(*found, strict=True):
            np.testing.assert_allclose(one, two, rtol=2e-4, atol=2e-5)
    for lib, module in ((fg, mine), (torch, other)):
        with pytest.raises(RuntimeError, match="Cannot register two spectral_norm hooks"):
            lib.nn.utils.spectral_norm(module)
        lib.nn.utils.remove_spectral_norm(module)
        with pytest.raises(ValueError, match="spectral_norm of 'weight' not found"):
            lib.nn.utils.remove_spectral_norm(module)
    assert list(mine.state_dict()) == list(other.state_dict()) or set(mine.state_dict()) == {"weight", "bias"}
    np.testing.assert_allclose(
        mine.weight.detach().numpy(), other.weight.detach().numpy(), rtol=2e-4, atol=1e-5
    )


def test_spectral_norm_replays():
    layer = fg.nn.utils.spectral_norm(fg.nn.Linear(3, 2))
    layer.eval()
    jitted = fg.jit(lambda x: layer(x).sum())
    x = fg.ones(4, 3)
    assert [fg.allclose(jitted(x), layer(x).sum()) for _ in range(4)] == [True] * 4


def test_clip_grad_norm_warns():
    for lib in (fg, torch):
        x = lib.zeros(2, requires_grad=True)
        x.grad = lib.tensor([3.0, 4.0])
        with pytest.warns(FutureWarning, match="clip_grad_norm. is now deprecated"):
            assert lib.nn.utils.clip_grad_norm([x], 1.0).item() == 5.0
        assert abs(x.grad[0].item() - 0.6) < 1e-5


def test_data_parallel_calls_the_module():
    for lib in (fg, torch):
        inner = lib.nn.Linear(2, 1)
        outer = lib.nn.DataParallel(inner)
        assert outer.module is inner and list(outer.state_dict()) == ["module.weight", "module.bias"]
        assert lib.equal(outer(lib.ones(3, 2)), inner(lib.ones(3, 2)))
        assert lib.nn.parallel.DataParallel is lib.nn.DataParallel
    with pytest.raises(RuntimeError, match="no other device than the CPU"):
        fg.nn.DataParallel(fg.nn.Linear(1, 1), device_ids=[0, 1])


def test_numbers_for_each_dimension():
    for lib in (fg, torch):
        utils = lib.nn.modules.utils
        assert [utils._single(2), utils._pair(2), utils._triple(2), utils._quadruple(2)] == [
            (2,), (2, 2), (2, 2, 2), (2, 2, 2, 2)
        ]  # fmt: skip
        assert utils._pair([1, 3]) == (1, 3) and utils._ntuple(5)("a") == tuple("a")


def test_modules_without_their_first_values():
    made = fg.nn.utils.skip_init(fg.nn.Linear, 5, 1)
    assert type(made) is fg.nn.Linear and made.weight.device.type == "cpu" and made.weight.requires_grad
    made.load_state_dict(fg.nn.Linear(5, 1).state_dict())
    assert made(fg.ones(5)).isfinite().all()
    for wrong, words in ((int, "Expected a Module"), (fg.nn.Sequential, "must support a 'device'")):
        with pytest.raises(RuntimeError, match=words):
            fg.nn.utils.skip_init(wrong)


def test_modules_are_called_with_other_tensors():
    module = fg.nn.Linear(2, 1, bias=False)
    made = fg.nn.utils.stateless.functional_call(module, {"weight": fg.tensor([[1.0, 2.0]])}, fg.ones(2))
    assert made.tolist() == [3.0]
