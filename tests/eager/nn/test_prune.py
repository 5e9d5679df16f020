"""`nn.utils.prune` beside PyTorch: masks, what is kept, several methods, and taking it back."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg

WAYS = {
    "share": lambda p, m: p.l1_unstructured(m, "weight", 0.3),
    "number": lambda p, m: p.l1_unstructured(m, "weight", 5),
    "slices": lambda p, m: p.ln_structured(m, "weight", 0.5, 2, 0),
    "columns": lambda p, m: p.ln_structured(m, "weight", 2, 1, -1),
    "largest": lambda p, m: p.ln_structured(m, "weight", 1, float("inf"), 1),
    "nothing": lambda p, m: p.identity(m, "weight"),
    "bias": lambda p, m: p.l1_unstructured(m, "bias", 1),
}
AFTER = ["share", "number", "slices", "nothing"]


def layers(count=1):
    data = np.random.default_rng(count)
    values = [(data.normal(size=(4, 6)), data.normal(size=4)) for _ in range(count)]
    for lib in (fg, torch):
        made = []
        for weight, bias in values:
            layer = lib.nn.Linear(6, 4)
            layer.load_state_dict({"weight": lib.tensor(weight).float(), "bias": lib.tensor(bias).float()})
            made.append(layer)
        yield lib, importlib.import_module(f"{lib.__name__}.nn.utils.prune"), made


def state(module):
    found = {k: v.numpy() for k, v in module.state_dict().items()}
    return found | {"now": module.weight.detach().numpy()}


def assert_alike(sides):
    one, two = sides
    assert set(one) == set(two)
    for key in one:
        np.testing.assert_allclose(one[key], two[key], rtol=1e-6, err_msg=key)


@pytest.mark.parametrize("second", [None, *AFTER])
@pytest.mark.parametrize("first", WAYS)
def test_masks(first, second):
    sides, after = [], []
    for lib, prune, (layer,) in layers():
        assert WAYS[first](prune, layer) is layer and prune.is_pruned(layer)
        if second is not None:
            WAYS[second](prune, layer)
        layer(lib.ones(2, 6)).square().sum().backward()
        name = "bias" if first == "bias" else "weight"
        gradient = getattr(layer, f"{name}_orig").grad.numpy()
        sides.append(state(layer) | {"gradient": gradient})
        prune.remove(layer, name)
        after.append(state(layer))
        assert isinstance(getattr(layer, name), lib.nn.Parameter)
        with pytest.raises(ValueError, match="has to be pruned before"):
            prune.remove(layer, name)
    assert_alike(sides)
    assert_alike(after)


def test_masks_of_ones_own_and_scores():
    sides = []
    for lib, prune, (layer,) in layers():
        mask = (lib.arange(24).reshape(4, 6) % 3 != 0).float()
        prune.custom_from_mask(layer, "weight", mask)
        prune.l1_unstructured(layer, "weight", 3, importance_scores=lib.arange(24.0).reshape(4, 6))
        sides.append(state(layer))
    assert_alike(sides)


def test_several_parameters_as_one():
    sides = []
    for _, prune, (one, two) in layers(2):
        prune.global_unstructured(
            [(one, "weight"), (two, "weight"), (two, "bias")], prune.L1Unstructured, amount=0.4
        )
        sides.append(
            {f"0{k}": v for k, v in state(one).items()} | {f"1{k}": v for k, v in state(two).items()}
        )
        with pytest.raises(TypeError, match="unstructured"):
            prune.global_unstructured([(one, "bias")], prune.LnStructured, amount=1, n=2)
    assert_alike(sides)


def test_by_chance():
    for _, prune, (layer,) in layers():
        prune.random_unstructured(layer, "weight", 7)
        assert (layer.weight == 0).sum().item() == 7
        prune.random_unstructured(layer, "weight", 3)
        assert (layer.weight == 0).sum().item() == 10
        prune.random_structured(layer, "weight", 1, 0)
        assert (layer.weight_mask.sum(1) == 0).sum().item() >= 1


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (ValueError, "l1_unstructured(m, 'weight', 1.5)"),
        (ValueError, "l1_unstructured(m, 'weight', -1)"),
        (TypeError, "l1_unstructured(m, 'weight', 'all')"),
        (ValueError, "l1_unstructured(m, 'weight', 100)"),
        (ValueError, "ln_structured(m, 'bias', 1, 2, 0)"),
        (IndexError, "ln_structured(m, 'weight', 1, 2, 5)"),
        (AssertionError, "l1_unstructured(m, 'weight', 1, m.bias)"),
    ],
)
def test_refused(kind, text):
    for _, prune, (layer,) in layers():
        with pytest.raises(kind):
            eval(f"prune.{text}", {"prune": prune, "m": layer})
        assert not prune.is_pruned(layer) and "weight" in layer.state_dict()


def test_a_method_of_ones_own():
    for lib, prune, (layer,) in layers():

        class Alternate(prune.BasePruningMethod):
            PRUNING_TYPE = "unstructured"

            def compute_mask(self, t, default_mask):
                mask = default_mask.clone()
                mask.view(-1)[::2] = 0
                return mask

        Alternate.apply(layer, "weight")
        assert (layer.weight == 0).sum().item() == 12
        pruned = prune.L1Unstructured(2).prune(lib.tensor([1.0, -3.0, 0.5, 2.0]))
        assert pruned.tolist() == [0.0, -3.0, 0.0, 2.0]
