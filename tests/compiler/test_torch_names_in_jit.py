"""What programs take from PyTorch's smaller modules, inside jitted functions: as it is without `jit`."""

from __future__ import annotations

import warnings

import pytest
from jit_checks import same

import fusegrad as fg
from fusegrad import nn


def stepped(run, calls):
    """A small training, of which `run(step)` is told what a step does; gives losses and the weight."""
    weight = fg.ones(3, requires_grad=True)
    optimizer = fg.optim.SGD([weight], lr=0.1)
    scaler = fg.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)

    def step(factor):
        optimizer.zero_grad()
        with fg.autocast("cpu", enabled=False):
            loss = (weight * factor).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    step = run(step)
    losses = [step(fg.full((3,), value)).item() for value in calls]
    return losses, weight.tolist(), scaler.state_dict()


def test_gradients_are_scaled_as_without():
    calls = [1.0, 2.0, 3.0, float("inf"), 1.0, 0.5, 3e38, 0.25, 0.5, 1.0, 2.0]
    losses, weight, state = stepped(lambda step: step, calls)
    assert stepped(fg.jit, calls) == (losses, weight, state)


def test_scalers_and_contexts_of_absent_devices():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scaler = fg.cuda.amp.GradScaler()
        context = fg.cuda.amp.autocast()
    weight = fg.ones(3, requires_grad=True)
    optimizer = fg.optim.SGD([weight], lr=0.1)

    @fg.jit
    def step(x):
        optimizer.zero_grad()
        with context:
            loss = (weight * x).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    found = [round(step(fg.ones(3)).item(), 5) for _ in range(5)]
    assert found == [3.0, 2.7, 2.4, 2.1, 1.8] and step.stats.compiled_calls >= 2


@pytest.mark.parametrize("wrap", [nn.DataParallel, fg.compile], ids=["DataParallel", "compile"])
def test_wrapped_modules_are_read_anew(wrap):
    inner = nn.Linear(2, 1)
    outer = wrap(inner)
    f = fg.jit(lambda x: outer(x).sum())
    x = fg.ones(4, 2)
    for _ in range(3):
        same(f(x), inner(x).sum())
    inner.weight = nn.Parameter(fg.full((1, 2), 3.0))
    same(f(x), inner(x).sum())
    inner.register_forward_hook(lambda module, args, result: result * 2)
    same(f(x), inner(x).sum())


def test_pruned_layers_replay():
    layer = nn.utils.prune.l1_unstructured(nn.Linear(4, 2), "weight", 3)
    f = fg.jit(lambda x: layer(x).sum())
    x = fg.ones(2, 4)
    for _ in range(3):
        same(f(x), layer(x).sum())
    layer.weight_mask.fill_(1)
    same(f(x), layer(x).sum())


def test_questions_of_devices():
    @fg.jit
    def f(x):
        device = "cuda" if fg.cuda.is_available() or fg.backends.mps.is_available() else "cpu"
        if fg.cuda.device_count() > 1:
            raise AssertionError
        return x.to(device, memory_format=fg.channels_last) * 2

    for _ in range(3):
        assert f(fg.ones(2, 1, 1, 1)).flatten().tolist() == [2.0, 2.0]
    assert f.stats.compiled_calls == 2
