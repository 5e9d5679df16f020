"""Modules, optimizers, schedules and random numbers."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg


def network(namespace):
    nn = namespace.nn
    return nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 3))


def twins():
    ours, theirs = network(fg), network(torch)
    with torch.no_grad():
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            b.copy_(torch.tensor(a.detach().numpy()))
    return ours, theirs


OPTIMIZERS = [
    ("SGD", {"lr": 0.1}), ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}), ("Adam", {"lr": 0.01}),
    ("Adam", {"lr": 0.01, "weight_decay": 0.1, "amsgrad": True}), ("AdamW", {"lr": 0.01}),
    ("RMSprop", {"lr": 0.01}),
    ("RMSprop", {"lr": 0.01, "momentum": 0.9, "centered": True, "weight_decay": 0.1}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options"), OPTIMIZERS)
def test_training_steps_are_torchs(name, options):
    ours, theirs = twins()
    data = np.random.default_rng(0)
    x, labels = data.normal(size=(16, 4)).astype("float32"), data.integers(0, 3, 16)
    losses = []
    for namespace, model in ((fg, ours), (torch, theirs)):
        optimizer = getattr(namespace.optim, name)(model.parameters(), **options)
        schedule = namespace.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
        seen = []
        for _ in range(8):
            optimizer.zero_grad()
            loss = namespace.nn.functional.cross_entropy(model(namespace.tensor(x)), namespace.tensor(labels))
            loss.backward()
            namespace.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            schedule.step()
            seen.append(loss.item())
        losses.append(seen)
    np.testing.assert_allclose(losses[0], losses[1], rtol=2e-4)
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=2e-3, atol=2e-5)


@pytest.mark.parametrize("name", ["StepLR", "CosineAnnealingLR", "LambdaLR", "ExponentialLR"])
def test_schedules_are_torchs(name):
    options = {
        "StepLR": (2, 0.5),
        "CosineAnnealingLR": (5,),
        "LambdaLR": (lambda e: 0.9**e,),
        "ExponentialLR": (0.8,),
    }
    rates = []
    for namespace in (fg, torch):
        optimizer = namespace.optim.SGD([namespace.ones(1, requires_grad=True)], lr=0.1)
        schedule = getattr(namespace.optim.lr_scheduler, name)(optimizer, *options[name])
        seen = []
        for _ in range(6):
            optimizer.step()
            schedule.step()
            seen.append(optimizer.param_groups[0]["lr"])
        rates.append(seen)
    np.testing.assert_allclose(*rates, rtol=1e-6)


def test_state_dict():
    ours, theirs = network(fg), network(torch)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    other = network(fg)
    assert repr(other.load_state_dict(ours.state_dict())) == "<All keys matched successfully>"
    assert all(fg.equal(a, b) for a, b in zip(other.parameters(), ours.parameters(), strict=True))
    state = ours.state_dict()
    state["surplus"] = state.pop("0.weight")
    with pytest.raises(RuntimeError, match=r'(?s)Missing key.*"0.weight".*Unexpected key.*"surplus"'):
        other.load_state_dict(state)
    assert other.load_state_dict(state, strict=False).missing_keys == ["0.weight"]
    with pytest.raises(RuntimeError, match=r"size mismatch for 0\.weight"):
        network(fg).load_state_dict({**ours.state_dict(), "0.weight": fg.ones(1)})


def test_module_protocol():
    class Net(fg.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = fg.nn.Linear(2, 2)
            self.register_buffer("mean", fg.zeros(2))
            self.register_buffer("hidden", fg.zeros(2), persistent=False)
            self.scale = 2.0

        def forward(self, x):
            return self.layer(x) * self.scale

    net = Net()
    assert [n for n, _ in net.named_parameters()] == ["layer.weight", "layer.bias"]
    assert list(net.state_dict()) == ["mean", "layer.weight", "layer.bias"]
    net.scale = 3.0
    net(fg.ones(1, 2)).sum().backward()
    net.eval()
    assert not net.layer.training
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())
    assert net.double().layer.weight.dtype is fg.float64 and net.mean.dtype is fg.float64
    again = pickle.loads(pickle.dumps(network(fg)))
    assert isinstance(again[0].weight, fg.nn.Parameter)
    twin = copy.deepcopy(net)
    assert fg.equal(twin.layer.weight, net.layer.weight) and twin.layer.weight is not net.layer.weight
    calls = []
    handle = net.register_forward_hook(lambda m, a, r: calls.append(1))
    net(fg.ones(1, 2).double())
    handle.remove()
    net(fg.ones(1, 2).double())
    assert calls == [1]
    with pytest.raises(AttributeError, match="nothing"):
        _ = net.nothing
    with pytest.raises(TypeError, match="cannot assign"):
        net.layer = 3
    with pytest.raises(AttributeError, match="__init__"):
        Early()


class Early(fg.nn.Module):
    def __init__(self):
        self.layer = fg.nn.Linear(1, 1)


def test_optimizer_state_dict():
    x = fg.ones(3, requires_grad=True)
    optimizer = fg.optim.Adam([x], lr=0.1)
    for _ in range(3):
        (x * x).sum().backward()
        optimizer.step()
    y = x.detach().clone().requires_grad_()
    other = fg.optim.Adam([y], lr=0.5)
    other.load_state_dict(optimizer.state_dict())
    x.grad = None
    for p, o in ((x, optimizer), (y, other)):
        (p * p).sum().backward()
        o.step()
    assert fg.equal(x, y)
    assert set(optimizer.state_dict()["state"][0]) == {"step", "exp_avg", "exp_avg_sq"}


def test_initial_values():
    fg.manual_seed(0)
    layer = fg.nn.Linear(100, 200)
    assert abs(layer.weight.std().item() - 0.1 / 3**0.5) < 1e-3
    assert layer.weight.abs().max().item() <= 0.1 and layer.bias.abs().max().item() <= 0.1
    w = fg.empty(200, 100)
    for fill in (fg.nn.init.xavier_uniform_, fg.nn.init.xavier_normal_):
        assert abs(fill(w).std().item() - (2 / 300) ** 0.5) < 2e-3


# Random numbers.


def test_draws_depend_on_the_seed_alone():
    fg.manual_seed(5)
    first = [fg.rand(3), fg.randn(5), fg.randint(0, 9, (4,)), fg.randperm(6)]
    state = fg.get_rng_state()
    more = fg.rand(4)
    fg.set_rng_state(state)
    assert fg.equal(fg.rand(4), more)
    fg.manual_seed(5)
    assert all(
        fg.equal(a, b)
        for a, b in zip(first, [fg.rand(3), fg.randn(5), fg.randint(0, 9, (4,)), fg.randperm(6)], strict=True)
    )
    generator = fg.Generator().manual_seed(5)
    assert fg.equal(fg.rand(3, generator=generator), first[0])
    assert generator.initial_seed() == fg.initial_seed() == 5


def test_draws_are_philox_words():
    generator = fg.Generator().manual_seed(9)
    fg.rand(5, generator=generator)  # two blocks of four words
    words = np.random.Philox(key=9, counter=2).random_raw(3)
    expected = (words >> np.uint64(40)).astype(np.float32) / np.float32(1 << 24)
    assert fg.rand(3, generator=generator).tolist() == expected.tolist()


def test_statistics():
    fg.manual_seed(1)
    u, n = fg.rand(100_000), fg.randn(100_001)
    assert u.min().item() >= 0 and u.max().item() < 1 and abs(u.mean().item() - 0.5) < 0.01
    assert abs(n.mean().item()) < 0.02 and abs(n.std().item() - 1) < 0.02
    assert sorted(fg.randperm(50).tolist()) == list(range(50))
    assert set(fg.randint(2, 5, (1000,)).tolist()) == {2, 3, 4}
    assert abs(fg.bernoulli(fg.full((10_000,), 0.3)).mean().item() - 0.3) < 0.02
    drawn = fg.multinomial(fg.tensor([0.0, 1.0, 3.0]), 10_000, replacement=True)
    assert 0 not in drawn.tolist() and abs((drawn == 2).float().mean().item() - 0.75) < 0.02
    assert sorted(fg.multinomial(fg.tensor([1.0, 0.0, 3.0]), 2).tolist()) == [0, 2]
    dropped = fg.nn.functional.dropout(fg.ones(10_000), 0.25)
    assert abs((dropped == 0).float().mean().item() - 0.25) < 0.02
    assert abs(dropped.max().item() - 1 / 0.75) < 1e-6
    x = fg.empty(10_000).normal_(3, 0.5)
    assert abs(x.mean().item() - 3) < 0.05 and abs(x.std().item() - 0.5) < 0.02


@pytest.mark.parametrize("name", ["kaiming_uniform_", "kaiming_normal_"])
def test_there_is_nothing_to_draw_for_a_tensor_without_elements(name):
    for lib in (fg, torch):
        with pytest.warns(UserWarning, match="Initializing zero-element tensors is a no-op"):
            getattr(lib.nn.init, name)(lib.empty(0, 1))
