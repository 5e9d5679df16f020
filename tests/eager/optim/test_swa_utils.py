"""Averages of weights, beside PyTorch's."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg


def network(lib: Any) -> Any:
    """The same weights in both."""
    layer = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.BatchNorm1d(4))
    with lib.no_grad():
        for i, tensor in enumerate([*layer.parameters(), *layer.buffers()]):
            values = np.arange(tensor.numel(), dtype=np.float32) / 7 + i
            tensor.copy_(lib.from_numpy(values).reshape(tensor.shape))
    return layer


AVERAGES = {
    "mean": lambda u: {},
    "mean, named": lambda u: {"multi_avg_fn": u.get_swa_multi_avg_fn()},
    "mean, one by one": lambda u: {"avg_fn": u.get_swa_avg_fn()},
    "exponential": lambda u: {"multi_avg_fn": u.get_ema_multi_avg_fn(0.9)},
    "exponential, one by one": lambda u: {"avg_fn": u.get_ema_avg_fn(0.9)},
    "of the user's": lambda u: {"avg_fn": lambda old, new, count: old + (new - old) / (count + 2)},
}


@pytest.mark.parametrize("name", AVERAGES)
@pytest.mark.parametrize("use_buffers", [False, True])
def test_averages_are_torchs(name: str, use_buffers: bool) -> None:
    def averaged(lib: Any) -> list[Any]:
        model = network(lib)
        model[1].num_batches_tracked = None  # PyTorch cannot average integers
        average = lib.optim.swa_utils.AveragedModel(
            model, use_buffers=use_buffers, **AVERAGES[name](lib.optim.swa_utils)
        )
        for step in range(4):
            with lib.no_grad():
                for tensor in [*model.parameters(), *model.buffers()]:
                    tensor.add_(step + 1)
            average.update_parameters(model)
        return [(key, value.tolist()) for key, value in average.state_dict().items()]

    for (key, ours), (their_key, theirs) in zip(averaged(fg), averaged(torch), strict=True):
        assert key == their_key
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, err_msg=key)


def test_an_average_can_be_pickled_and_called() -> None:
    average = fg.optim.swa_utils.AveragedModel(network(fg))
    again = pickle.loads(pickle.dumps(average))
    x = fg.ones(2, 3)
    assert again(x).tolist() == average(x).tolist()


@pytest.mark.parametrize("momentum", [None, 0.3])
def test_statistics_of_batch_norms_are_torchs(momentum: float | None) -> None:
    def found(lib: Any) -> list[Any]:
        model = network(lib)
        model[1].momentum = momentum
        model.eval()
        batches = [lib.arange(12.0).reshape(4, 3) * i for i in range(1, 4)]
        lib.optim.swa_utils.update_bn([(b, None) for b in batches], model)
        assert not model.training and model[1].momentum == momentum
        return [b.tolist() for b in model.buffers()]

    for ours, theirs in zip(found(fg), found(torch), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("epochs", [0, 1, 4])
@pytest.mark.parametrize("goal", [0.05, [0.05, 0.5]])
def test_rates_are_torchs(strategy: str, epochs: int, goal: Any) -> None:
    def rates(lib: Any) -> list[Any]:
        groups = [{"params": [lib.ones(1, requires_grad=True)], "lr": rate} for rate in (0.1, 0.2)]
        optimizer = lib.optim.SGD(groups, lr=0.1)
        schedule = lib.optim.swa_utils.SWALR(optimizer, goal, anneal_epochs=epochs, anneal_strategy=strategy)
        seen = []
        for _ in range(6):
            optimizer.step()
            schedule.step()
            seen.append(schedule.get_last_lr())
        return seen

    np.testing.assert_allclose(rates(fg), rates(torch), rtol=1e-12)


def test_wrong_arguments_are_refused() -> None:
    for lib in (fg, torch):
        utils = lib.optim.swa_utils
        optimizer = lib.optim.SGD([lib.ones(1, requires_grad=True)], lr=0.1)
        with pytest.raises(ValueError, match="anneal_strategy must"):
            utils.SWALR(optimizer, 0.1, anneal_strategy="exponential")
        with pytest.raises(ValueError, match="anneal_epochs must"):
            utils.SWALR(optimizer, 0.1, anneal_epochs=-1)
        with pytest.raises(ValueError, match="swa_lr must"):
            utils.SWALR(optimizer, [0.1, 0.2])
        with pytest.raises(ValueError, match="Invalid decay"):
            utils.get_ema_avg_fn(1.5)
        with pytest.raises(AssertionError, match="Only one of"):
            both = {"avg_fn": utils.get_swa_avg_fn(), "multi_avg_fn": utils.get_swa_multi_avg_fn()}
            utils.AveragedModel(lib.nn.Linear(1, 1), **both)
