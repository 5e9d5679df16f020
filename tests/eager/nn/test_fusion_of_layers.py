"""Layers with the batch norm behind them as one layer, beside PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracle import torch
from torch.nn.utils import fusion as torch_fusion

import fusegrad as fg
from fusegrad.nn.utils import fusion

LAYERS: dict[str, tuple[Any, Any, tuple[int, ...], bool]] = {
    "Conv1d": (lambda nn: nn.Conv1d(3, 4, 3), lambda nn: nn.BatchNorm1d(4), (2, 3, 8), False),
    "Conv2d without bias": (
        lambda nn: nn.Conv2d(3, 4, 3, bias=False),
        lambda nn: nn.BatchNorm2d(4),
        (2, 3, 8, 8),
        False,
    ),
    "Conv2d, plain norm": (
        lambda nn: nn.Conv2d(3, 4, 3),
        lambda nn: nn.BatchNorm2d(4, affine=False),
        (2, 3, 8, 8),
        False,
    ),
    "ConvTranspose2d": (
        lambda nn: nn.ConvTranspose2d(3, 4, 3),
        lambda nn: nn.BatchNorm2d(4),
        (2, 3, 8, 8),
        True,
    ),
    "Linear": (lambda nn: nn.Linear(3, 4), lambda nn: nn.BatchNorm1d(4), (2, 3), False),
}


def pair(lib: Any, name: str) -> tuple[Any, Any]:
    """A layer and a norm of either library, with the same numbers."""
    random = np.random.default_rng(0)
    layer, norm = LAYERS[name][0](lib.nn), LAYERS[name][1](lib.nn)
    with lib.no_grad():
        for module in (layer, norm):
            for _, value in sorted(module.state_dict().items()):
                if value.is_floating_point():
                    value.copy_(lib.tensor(random.uniform(0.5, 2, tuple(value.shape)).astype("f")))
    return layer.eval(), norm.eval()


@pytest.mark.parametrize("name", LAYERS)
def test_one_layer_gives_what_both_give(name: str) -> None:
    x = np.random.default_rng(1).normal(size=LAYERS[name][2]).astype("f")
    made = []
    for lib, of in ((fg, fusion), (torch, torch_fusion)):
        layer, norm = pair(lib, name)
        both = norm(layer(lib.tensor(x))).detach().numpy()
        if name == "Linear":
            one = of.fuse_linear_bn_eval(layer, norm)
        else:
            one = of.fuse_conv_bn_eval(layer, norm, LAYERS[name][3])
        np.testing.assert_allclose(one(lib.tensor(x)).detach().numpy(), both, rtol=1e-4, atol=1e-4)
        made += [[(k, v.requires_grad, v.detach().numpy()) for k, v in one.named_parameters()]]
    for (name_, needs, ours), (other, others_needs, theirs) in zip(*made, strict=True):
        assert (name_, needs) == (other, others_needs)
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_what_cannot_be_fused() -> None:
    layer, norm = pair(fg, "Linear")
    with pytest.raises(AssertionError, match="only for eval"):
        fusion.fuse_linear_bn_eval(layer.train(), norm)
    with pytest.raises(AssertionError, match=r"linear.out_features \(4\)"):
        fusion.fuse_linear_bn_eval(layer.eval(), fg.nn.BatchNorm1d(5).eval())
    with pytest.raises(AssertionError, match="without running statistics"):
        fusion.fuse_linear_bn_eval(layer, fg.nn.BatchNorm1d(4, track_running_stats=False).eval())
