"""Layers that normalise, on batches of no rows and rows of no elements, against torch."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from oracle import torch

import fusegrad as fg

LAYERS = {
    "BatchNorm1d": (lambda nn: nn.BatchNorm1d(2), [(0, 2), (0, 2, 3), (3, 2, 0)]),
    "BatchNorm2d": (lambda nn: nn.BatchNorm2d(2), [(0, 2, 3, 3), (2, 2, 0, 3)]),
    "BatchNorm3d": (lambda nn: nn.BatchNorm3d(2), [(0, 2, 3, 3, 3)]),
    "BatchNorm1d, averaged": (lambda nn: nn.BatchNorm1d(2, momentum=None), [(0, 2)]),
    "BatchNorm1d, untracked": (lambda nn: nn.BatchNorm1d(2, track_running_stats=False), [(0, 2)]),
    "InstanceNorm1d": (lambda nn: nn.InstanceNorm1d(2), [(0, 2, 3)]),
    "InstanceNorm1d, tracked": (lambda nn: nn.InstanceNorm1d(2, track_running_stats=True), [(0, 2, 3)]),
    "InstanceNorm2d, tracked": (lambda nn: nn.InstanceNorm2d(2, track_running_stats=True), [(0, 2, 3, 3)]),
    "GroupNorm": (lambda nn: nn.GroupNorm(1, 2), [(0, 2, 3)]),
    "LayerNorm": (lambda nn: nn.LayerNorm(2), [(0, 2)]),
    "RMSNorm": (lambda nn: nn.RMSNorm(2), [(0, 2)]),
    "LocalResponseNorm": (lambda nn: nn.LocalResponseNorm(2), [(0, 2, 3)]),
}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", LAYERS)
def test_no_rows(name, training):
    make, shapes = LAYERS[name]

    def program(lib, shape):
        layer = make(lib.nn).train(training)
        x = lib.ones(*shape, requires_grad=True)
        try:
            layer(x).sum().backward()
        except Exception as error:
            return type(error).__name__
        gradients = [None if p.grad is None else p.grad.tolist() for p in layer.parameters()]
        return str([b.tolist() for b in layer.buffers()]), gradients, tuple(x.grad.shape)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for shape in shapes:
            assert program(fg, shape) == program(torch, shape), shape


PADDED = [(0, 3, 10), (3, 0, 10), (0, 10), (3, 4, 0), (0, 3, 5, 5), (2, 0, 5, 5), (0, 5, 5)]


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("shape", PADDED, ids=str)
def test_what_has_no_channels_is_padded_as_in_pytorch(mode: str, shape: tuple[int, ...]) -> None:
    def outcome(lib: Any) -> Any:
        widths = (1, 1, 1, 1) if shape[-1] == 5 else (1, 1)
        try:
            return tuple(lib.nn.functional.pad(lib.zeros(shape), widths, mode=mode).shape)
        except RuntimeError as error:
            return str(error).split("\n")[0].split("pad: ")[-1] if mode != "circular" else RuntimeError

    assert outcome(fg) == outcome(torch)
