"""Orthogonal weights, weight_norm of before, and states of before: as in PyTorch."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg

MAPS = ["matrix_exp", "cayley", "householder", None]
SHAPES = [(4, 4), (5, 3), (3, 5), (2, 4, 3)]


def layer(t: Any, shape: tuple[int, ...], dtype: str = "float64") -> Any:
    """A module with a weight of this shape, of the same numbers in both libraries."""
    data = np.random.default_rng(len(shape) + shape[0]).normal(size=shape)
    if dtype == "complex128":
        data = data + 1j * np.random.default_rng(1).normal(size=shape)
    module = t.nn.Module()
    module.weight = t.nn.Parameter(t.tensor(data))
    return module


@pytest.mark.parametrize(
    ("shape", "how", "dtype"), itertools.product(SHAPES, MAPS, ["float64", "complex128"])
)
def test_weights_and_gradients_without_a_base_are_torchs(shape: tuple[int, ...], how: str | None, dtype: str):
    if dtype == "complex128" and how == "householder":
        with pytest.raises(ValueError, match="does not support complex"):
            fg.nn.utils.parametrizations.orthogonal(layer(fg, shape, dtype), orthogonal_map=how)
        return
    found = []
    for t in (fg, torch):
        module = layer(t, shape, dtype)
        orthogonal = t.nn.utils.parametrizations.orthogonal
        orthogonal(module, "weight", how, use_trivialization=False)
        weight = module.weight
        values = t.tensor(np.arange(weight.numel()).reshape(shape) / 10.0, dtype=weight.dtype)
        (weight * values).abs().sum().backward()
        found.append((weight.detach().numpy(), module.parametrizations.weight.original.grad.numpy()))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-10)


@pytest.mark.parametrize(("shape", "how"), itertools.product([(4, 4), (5, 3), (3, 5)], MAPS))
def test_a_weight_with_a_base_starts_from_any_and_takes_any(shape: tuple[int, int], how: str | None):
    module = layer(fg, shape)
    first = module.weight.detach().clone()
    fg.nn.utils.parametrizations.orthogonal(module, "weight", how)
    wide = shape[0] < shape[1]

    def nearest(matrix: Any) -> Any:
        q, r = np.linalg.qr(matrix.numpy().T if wide else matrix.numpy())
        q = q * np.sign(np.diagonal(r))
        return q.T if wide else q

    np.testing.assert_allclose(module.weight.detach().numpy(), nearest(first), atol=1e-10)
    module.weight = other = fg.randn(*shape, dtype=fg.float64)
    np.testing.assert_allclose(module.weight.detach().numpy(), nearest(other), atol=1e-10)
    optimizer = fg.optim.SGD(module.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        (module.weight * fg.tensor(np.arange(first.numel()).reshape(shape))).sum().backward()
        optimizer.step()
    product = module.weight @ module.weight.T if wide else module.weight.T @ module.weight
    np.testing.assert_allclose(product.detach().numpy(), np.eye(min(shape)), atol=1e-10)


def test_what_orthogonal_refuses():
    for t in (fg, torch):
        orthogonal = t.nn.utils.parametrizations.orthogonal
        with pytest.raises(ValueError, match="has to be one of"):
            orthogonal(t.nn.Linear(3, 4), "weight", "other")
        with pytest.raises(ValueError, match="Expected a matrix"):
            orthogonal(t.nn.Linear(3, 4), "bias")
        with pytest.raises(ValueError, match="no parameter or buffer"):
            orthogonal(t.nn.Linear(3, 4), "more")
        module = orthogonal(t.nn.Linear(3, 4))
        with pytest.raises(ValueError, match="matrices of shape"):
            module.weight = t.randn(5, 5)
        module = orthogonal(t.nn.Linear(3, 4), orthogonal_map="cayley", use_trivialization=False)
        with pytest.raises(NotImplementedError, match="not possible to assign"):
            module.weight = t.randn(4, 3)


@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm_of_before_and_its_state_in_todays(dim: int | None):
    found = []
    for t in (fg, torch):
        module = t.nn.Linear(3, 2)
        with t.no_grad():
            module.weight.copy_(t.tensor([[1.0, 2.0, 2.0], [0.0, 3.0, 4.0]]))
            module.bias.fill_(1.0)
        with pytest.warns(FutureWarning, match="weight_norm. is deprecated"):
            t.nn.utils.weight_norm(module, dim=dim)
        with t.no_grad():
            module.weight_g.mul_(2)
        result = module(t.ones(4, 3))
        result.sum().backward()
        today = t.nn.utils.parametrizations.weight_norm(t.nn.Linear(3, 2), dim=dim)
        today.load_state_dict(module.state_dict())
        names = [name for name, _ in module.named_parameters()]
        t.nn.utils.remove_weight_norm(module)
        with pytest.raises(ValueError, match="not found"):
            t.nn.utils.remove_weight_norm(module)
        found.append(
            (
                names,
                result.tolist(),
                today(t.ones(4, 3)).tolist(),
                module.weight.tolist(),
                sorted(module.state_dict()),
            )
        )
    assert str(found[0]) == str(found[1])


@pytest.mark.parametrize("version", [None, 1, 2])
def test_states_from_before_batches_were_counted(version: int | None):
    for t in (fg, torch):
        module = t.nn.BatchNorm1d(2)
        module.num_batches_tracked.fill_(3)
        state = module.state_dict()
        assert state._metadata[""]["version"] == 2
        del state["num_batches_tracked"]
        if version is None:
            del state._metadata[""]["version"]
        else:
            state._metadata[""]["version"] = version
        if version == 2:
            with pytest.raises(RuntimeError, match="num_batches_tracked"):
                module.load_state_dict(state)
        else:
            module.load_state_dict(state)
        assert module.num_batches_tracked.item() == 3


def test_initialisers_under_their_old_names_warn():
    for t in (fg, torch):
        with pytest.warns(FutureWarning, match="`nn.init.constant` is now deprecated"):
            assert t.nn.init.constant(t.empty(2), 3.0).tolist() == [3.0, 3.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fg.nn.init.constant_(fg.empty(2), 3.0)


def test_masks_and_added_keys_that_attention_refuses():
    for t in (fg, torch):
        attention = t.nn.MultiheadAttention(4, 2)
        q, k = t.ones(3, 4), t.ones(5, 4)
        with pytest.raises(AssertionError, match=r"Expected `attn_mask` shape to be \(2, 3, 5\)"):
            attention(q, k, k, attn_mask=t.zeros(3, 3, 5))
        with pytest.raises(AssertionError, match="bias cannot be added to static key"):
            t.nn.functional.multi_head_attention_forward(
                t.ones(3, 1, 4),
                t.ones(5, 1, 4),
                t.ones(5, 1, 4),
                4,
                2,
                attention.in_proj_weight,
                attention.in_proj_bias,
                t.ones(1, 1, 4),
                t.ones(1, 1, 4),
                False,
                0.0,
                attention.out_proj.weight,
                attention.out_proj.bias,
                static_k=t.ones(2, 5, 2),
                static_v=t.ones(2, 5, 2),
            )
