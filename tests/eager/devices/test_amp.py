"""Mixed precision: what programs that ask for it on absent devices get, and scaling, beside PyTorch."""

from __future__ import annotations

import pytest
from oracle import torch

import fusegrad as fg


def trained(lib, factors, **options):
    """Steps with scaled gradients, one of which is infinite where the factor is."""
    weight = lib.ones(3, requires_grad=True)
    optimizer = lib.optim.SGD([weight], lr=0.1)
    scaler = lib.amp.GradScaler("cpu", **options)
    found = []
    for factor in factors:
        optimizer.zero_grad()
        scaler.scale((weight * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        found.append((weight.tolist(), scaler.get_scale(), scaler.state_dict()["_growth_tracker"]))
    return found


@pytest.mark.parametrize("options", [{}, {"init_scale": 4.0, "growth_interval": 2, "backoff_factor": 0.25}])
def test_steps_that_overflow_are_left_out(options):
    factors = [1.0, 2.0, float("inf"), 1.0, 3e38, 0.5, 0.25]
    assert trained(fg, factors, **options) == trained(torch, factors, **options)


def test_unscaling_by_hand():
    for lib in (fg, torch):
        weight = lib.ones(2, requires_grad=True)
        optimizer = lib.optim.SGD([weight], lr=0.1)
        scaler = lib.amp.GradScaler("cpu", init_scale=8.0)
        scaler.scale(weight.sum()).backward()
        assert weight.grad.tolist() == [8.0, 8.0]
        scaler.unscale_(optimizer)
        assert weight.grad.tolist() == [1.0, 1.0]
        with pytest.raises(RuntimeError, match="already been called"):
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        with pytest.raises(RuntimeError, match="already been called"):
            scaler.step(optimizer)
        with pytest.raises(RuntimeError, match="called after step"):
            scaler.unscale_(optimizer)
        scaler.update(16.0)
        assert scaler.get_scale() == 16.0
        with pytest.raises(AssertionError, match="No inf checks"):
            scaler.update()
        other = lib.amp.GradScaler("cpu")
        other.load_state_dict(scaler.state_dict())
        assert other.get_scale() == 16.0
        with pytest.raises(RuntimeError, match="state dict is empty"):
            other.load_state_dict({})
        optimizer.zero_grad()
        with pytest.raises(AssertionError, match="No inf checks"):
            scaler.step(optimizer)
        many = scaler.scale([lib.ones(1), (lib.ones(1),)])
        assert many[0].item() == 16.0 and many[1][0].item() == 16.0


@pytest.mark.parametrize("make", ["amp.GradScaler()", "cuda.amp.GradScaler()", "amp.GradScaler('cuda')"])
def test_a_scaler_of_an_absent_device_does_nothing(make):
    for lib in (fg, torch):
        with pytest.warns(UserWarning, match="is enabled, but CUDA is not available"):
            scaler = eval(f"lib.{make}", {"lib": lib})
        weight = lib.ones(2, requires_grad=True)
        optimizer = lib.optim.SGD([weight], lr=0.5)
        scaler.scale(weight.sum()).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        assert weight.tolist() == [0.5, 0.5] and scaler.state_dict() == {} and not scaler.is_enabled()


@pytest.mark.parametrize("make", ["amp.autocast('cuda')", "cuda.amp.autocast()", "autocast('cuda')"])
def test_autocast_of_an_absent_device_does_nothing(make):
    for lib in (fg, torch):
        with pytest.warns(UserWarning, match="CUDA is not available"):
            context = eval(f"lib.{make}", {"lib": lib})
        with context:
            assert (lib.ones(2, 2) @ lib.ones(2, 2)).dtype == lib.float32
        assert context(lambda x: x + 1)(1) == 2


def test_autocast_of_the_cpu():
    for lib in (fg, torch):
        with lib.autocast("cpu", enabled=False):
            assert (lib.ones(2, 2) @ lib.ones(2, 2)).dtype == lib.float32
        with pytest.warns(UserWarning, match="target dtype is not supported"):
            lib.autocast("cpu", dtype=lib.float32)
        with pytest.raises(RuntimeError, match="Expected one of cpu, cuda"):
            lib.autocast("nonsense")
        with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
            lib.autocast(1)


def test_functions_of_autograd_keep_their_methods():
    class Double(fg.autograd.Function):
        @staticmethod
        @fg.amp.custom_fwd(device_type="cuda")
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @fg.amp.custom_bwd(device_type="cuda")
        def backward(ctx, g):
            return g * 2

    x = fg.ones(1, requires_grad=True)
    Double.apply(x).backward()
    assert x.grad.item() == 2
