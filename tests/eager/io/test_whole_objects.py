"""Modules, optimizers, schedules and whole programs' objects in files, loaded by the other library."""

from __future__ import annotations

import io
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg

LAYERS: dict[str, Any] = {
    "linear": (lambda nn: nn.Linear(3, 2), (4, 3)),
    "bilinear": (lambda nn: nn.Sequential(nn.Flatten(), nn.Linear(6, 2, bias=False)), (4, 2, 3)),
    "convolution": (lambda nn: nn.Conv2d(2, 4, 3, padding=(1, 2), groups=2), (1, 2, 5, 5)),
    "same": (lambda nn: nn.Conv1d(2, 3, 4, padding="same", padding_mode="circular", dilation=2), (1, 2, 9)),
    "reflect": (lambda nn: nn.Conv2d(2, 3, 3, padding=(1, 2), padding_mode="reflect"), (1, 2, 5, 6)),
    "transposed": (lambda nn: nn.ConvTranspose2d(2, 3, 3, stride=2, output_padding=1), (1, 2, 4, 4)),
    "norms": (lambda nn: nn.Sequential(nn.BatchNorm1d(3), nn.LayerNorm(3), nn.GroupNorm(1, 3)), (4, 3)),
    "pools": (
        lambda nn: nn.Sequential(nn.MaxPool2d(2), nn.AvgPool2d(2, 1), nn.AdaptiveAvgPool2d(1)),
        (1, 2, 6, 6),
    ),
    "embedding": (lambda nn: nn.Embedding(7, 3, padding_idx=1), None),
    "rnn": (lambda nn: nn.RNN(3, 2, 2, bias=False, batch_first=True), (2, 4, 3)),
    "lstm": (lambda nn: nn.LSTM(3, 4, 2, bidirectional=True, proj_size=2), (4, 2, 3)),
    "gru": (lambda nn: nn.GRU(3, 4, bidirectional=True), (4, 2, 3)),
    "cells": (lambda nn: nn.GRUCell(3, 2), (4, 3)),
    "encoder": (
        lambda nn: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, 0.0, activation="gelu"), 2),
        (5, 2, 4),
    ),
    "activations": (
        lambda nn: nn.Sequential(nn.GELU("tanh"), nn.PReLU(), nn.Softmax(-1), nn.Hardtanh()),
        (4, 3),
    ),
    "resampling": (lambda nn: nn.Sequential(nn.Upsample(scale_factor=2), nn.PixelUnshuffle(2)), (1, 2, 4, 4)),
    "containers": (lambda nn: nn.Sequential(nn.ModuleList([nn.Linear(3, 3)])[0], nn.Identity()), (4, 3)),
}


def through(save: Any, load: Any, value: Any, **options: Any) -> Any:
    file = io.BytesIO()
    save(value, file, **options)
    assert load is not torch.load or b"fusegrad" not in file.getvalue()
    file.seek(0)
    return load(file, weights_only=False)


def results(layer: Any, shape: Any, lib: Any) -> list[Any]:
    """Outputs, gradients and the next outputs, with a hook that is put on what was loaded."""
    seen: list[Any] = []
    layer.register_forward_hook(lambda module, given, result: seen.append(type(module).__name__))
    random = np.random.default_rng(0)
    x = lib.tensor(random.integers(0, 7, (3, 2)) if shape is None else random.normal(size=shape).astype("f4"))
    y = layer(x)
    y = y[0] if isinstance(y, tuple) else y
    if y.requires_grad:
        (y * y).sum().backward()
    grads = [p.grad.numpy() for p in layer.parameters() if p.grad is not None]
    state = [value.detach().numpy() for value in layer.state_dict().values()]
    return [y.detach().numpy(), *grads, *state, seen]


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("zipped", [True, False])
def test_layers_go_both_ways(name: str, zipped: bool) -> None:
    make, shape = LAYERS[name]
    torch.manual_seed(0)
    theirs = make(torch.nn)
    ours = through(torch.save, fg.load, theirs, _use_new_zipfile_serialization=zipped)
    back = through(fg.save, torch.load, ours, _use_new_zipfile_serialization=zipped)
    own = through(fg.save, fg.load, make(fg.nn))
    assert type(own) is type(ours) is getattr(fg.nn, type(theirs).__name__) and type(back) is type(theirs)
    assert repr(ours) == repr(theirs) == repr(back) == repr(own)
    expected, *rest = results(theirs, shape, torch), results(ours, shape, fg), results(back, shape, torch)
    for found in rest:
        assert found.pop() == expected[-1] and len(found) == len(expected) - 1
        for a, b in zip(found, expected, strict=False):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def layer_of(lib: Any, name: str) -> Any:
    """A layer of a class, with the first arguments that it takes."""
    kind = getattr(lib.nn, name)
    whole = {
        "TransformerEncoder": lambda: kind(lib.nn.TransformerEncoderLayer(4, 2), 1),
        "TransformerDecoder": lambda: kind(lib.nn.TransformerDecoderLayer(4, 2), 1),
        "AdaptiveLogSoftmaxWithLoss": lambda: kind(4, 10, [2, 5]),
        "Unflatten": lambda: kind(1, (2, 2)),
    }
    for make in (
        whole.get(name, kind),
        *(lambda a=a: kind(*a) for a in ((4,), (4, 2), (4, 4, 3), (4, 2, 2, 2))),
    ):
        try:
            return make()
        except (TypeError, ValueError, AssertionError):
            pass
    return None


def test_states_of_all_layers_have_what_pytorch_has() -> None:
    """What PyTorch's classes look for in objects that were loaded is there."""
    names = [n for n, k in vars(torch.nn).items() if isinstance(k, type) and issubclass(k, torch.nn.Module)]
    without = {"Container", "CrossMapLRN2d", "NLLLoss2d", "DataParallel", "Module"}
    without |= {name for name in names if name.startswith("Lazy")}  # whose hooks are of other kinds
    looked_at = 0
    for name in names:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if name in without or (theirs := layer_of(torch, name)) is None:
                continue
            loaded = through(fg.save, torch.load, layer_of(fg, name))
        lacking = set(vars(theirs)) - set(vars(loaded)) - set(loaded._parameters)
        assert type(loaded) is type(theirs) and not lacking, (name, lacking)
        looked_at += 1
    assert looked_at > 110


def trained(lib: Any, name: str) -> tuple[Any, Any]:
    lib.manual_seed(0)
    model = lib.nn.Linear(3, 2)
    with lib.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(lib.arange(p.numel()).reshape(p.shape) / 10 - i)
    optimizer = getattr(lib.optim, name)(model.parameters(), lr=0.05)
    step(model, optimizer, lib)
    return model, optimizer


def step(model: Any, optimizer: Any, lib: Any) -> None:
    def closure() -> Any:
        optimizer.zero_grad()
        loss = model(lib.arange(12.0).reshape(4, 3) / 12).pow(2).sum()
        loss.backward()
        return loss

    optimizer.step(closure)


OPTIMIZERS = "ASGD Adadelta Adagrad Adam AdamW Adamax LBFGS NAdam RAdam RMSprop Rprop SGD".split()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_go_both_ways_with_their_models(name: str) -> None:
    ways = [(torch.save, fg.load, torch, fg), (fg.save, fg.load, fg, fg), (fg.save, torch.load, fg, torch)]
    # PyTorch's own files of LBFGS lack what its steps need, and are not loaded by PyTorch either.
    for save, load, lib, other in ways[: 2 if name == "LBFGS" else 3]:
        parts = trained(lib, name)
        loaded = through(save, load, parts)
        assert type(loaded[1]) is getattr(other.optim, name)
        assert loaded[1].param_groups[0]["params"][0] is loaded[0].weight
        for _ in range(2):
            step(*parts, lib)
            step(*loaded, other)
        for a, b in zip(parts[0].parameters(), loaded[0].parameters(), strict=True):
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-5)


SCHEDULES: dict[str, Any] = {
    "StepLR": lambda s, o: s.StepLR(o, 2),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [1, 3]),
    "ConstantLR": lambda s, o: s.ConstantLR(o),
    "LinearLR": lambda s, o: s.LinearLR(o),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.9),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 5),
    "CosineAnnealingWarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, 1.0, total_steps=9),
    **{
        f"CyclicLR {mode}": lambda s, o, mode=mode: s.CyclicLR(o, 0.1, 1.0, 3, mode=mode, gamma=0.9)
        for mode in ("triangular", "triangular2", "exp_range")
    },
    "ReduceLROnPlateau": lambda s, o: s.ReduceLROnPlateau(o, patience=0),
    "SequentialLR": lambda s, o: s.SequentialLR(o, [s.StepLR(o, 2), s.ExponentialLR(o, 0.5)], [2]),
    "ChainedScheduler": lambda s, o: s.ChainedScheduler([s.StepLR(o, 2), s.ExponentialLR(o, 0.5)]),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_go_both_ways(name: str) -> None:
    def rates(schedule: Any) -> list[float]:
        found = []
        for _ in range(4):
            schedule.optimizer.step()
            schedule.step(*([1.0] if name == "ReduceLROnPlateau" else []))
            found += [schedule.optimizer.param_groups[0][key] for key in ("lr", "momentum")]
        return [float(rate) for rate in found]

    for save, load, lib in ((torch.save, fg.load, torch), (fg.save, torch.load, fg), (fg.save, fg.load, fg)):
        optimizer = lib.optim.SGD([lib.nn.Parameter(lib.ones(2))], lr=0.1, momentum=0.9)
        schedule = SCHEDULES[name](lib.optim.lr_scheduler, optimizer)
        optimizer.step()
        schedule.step(*([1.0] if name == "ReduceLROnPlateau" else []))
        loaded = through(save, load, schedule)
        np.testing.assert_allclose(rates(loaded), rates(schedule), rtol=1e-6)


PROGRAM = """
import sys, torch
from torch import nn
from model_of_a_user import Net, Config

path, what = sys.argv[1:]
if what == "save":
    torch.manual_seed(0)
    model = Net(Config(3, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(torch.ones(4, 3)).sum().backward()
    optimizer.step()
    model.register_forward_hook(Net.count)
    data = torch.utils.data.Subset(torch.utils.data.TensorDataset(torch.arange(6.0).view(3, 2)), [2, 0])
    torch.save({"model": model, "optimizer": optimizer, "data": data, "kind": Net}, path)
loaded = torch.load(path, weights_only=False)
model, optimizer = loaded["model"], loaded["optimizer"]
assert type(model) is Net is loaded["kind"]
assert optimizer.param_groups[0]["params"][0] is model.layers[0].weight
with torch.serialization.safe_globals([Config]):
    torch.save({"config": model.config}, path + ".config")
    assert torch.load(path + ".config")["config"] == Config(3, 2)
y = model(torch.ones(4, 3)).sum()
y.backward()
optimizer.step()
weights = [round(w, 3) for p in model.parameters() for w in p.flatten().tolist()]
print(model, model.config, model.calls, weights, [row[0].tolist() for row in loaded["data"]])
"""
MODEL = """
import dataclasses, torch
from torch import nn

@dataclasses.dataclass
class Config:
    inside: int
    outside: int

class Net(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config, self.calls = config, 0
        self.layers = nn.Sequential(nn.Linear(config.inside, 4), nn.Tanh(), nn.Linear(4, config.outside))
        self.activation = nn.functional.gelu
        self.register_buffer("scale", torch.tensor([2.0]), persistent=False)

    def forward(self, x):
        return self.activation(self.layers(x)) * self.scale

    def count(self, given, result):
        self.calls += 1
"""


def test_models_of_a_program_go_from_one_library_to_the_other(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "model_of_a_user.py").write_text(MODEL)

    def run(in_place: bool, what: str, file: str) -> str:
        command = [sys.executable, *(["-m", "fusegrad.torch"] if in_place else []), "program.py", file, what]
        result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        return result.stdout

    for ours in (True, False):
        file = f"{ours}.pt"
        first = run(ours, "save", file)
        assert run(not ours, "load", file) == run(ours, "load", file) == first
