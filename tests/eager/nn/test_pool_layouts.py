"""How the results of pools lie, and what pools refuse, beside PyTorch."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from oracle import torch

import fusegrad as fg
from fusegrad.torch.supplied.nn import functional as supplied


def lying(lib: Any, shape: tuple[int, ...], order: tuple[int, ...]) -> Any:
    """A tensor whose dimensions lie in this order, the outermost first."""
    base = lib.arange(float(torch.Size(shape).numel())).reshape([shape[d] for d in order])
    return base.permute([order.index(d) for d in range(len(shape))])


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("batch", [True, False])
def test_results_and_positions_of_max_pools_lie_as_pytorchs(rank: int, batch: bool) -> None:
    shape = ((2,) if batch else ()) + (3, 5, 6, 4)[: rank + 1]
    compared = 0
    for order in itertools.permutations(range(len(shape))):
        found = []
        for lib in (torch, fg):
            x = lying(lib, shape, order).requires_grad_()
            try:
                y, at = getattr(lib.nn.functional, f"max_pool{rank}d")(x, 2, return_indices=True)
            except RuntimeError as error:
                assert "Unsupported memory format" in str(error)  # PyTorch takes volumes for images
                break
            (grad,) = lib.autograd.grad(y.sum(), x)
            found.append((y.tolist(), y.stride(), at.tolist(), at.stride(), grad.tolist()))
        else:
            compared += 1
            assert found[0] == found[1], order
    assert compared >= 6


@pytest.mark.parametrize("window", [(2,), (3, 2, 1), (3, 1)])
@pytest.mark.parametrize("kind", ["avg_pool2d", "max_pool2d", "lp_pool2d"])
def test_gradients_of_pools_have_channels_last(kind: str, window: tuple[int, ...]) -> None:
    found = []
    for lib in (torch, fg):
        x = lying(lib, (2, 3, 6, 6), (0, 2, 3, 1)).requires_grad_()
        given = (2, *window[:2]) if kind == "lp_pool2d" else window
        y = getattr(lib.nn.functional, kind)(x, *given)
        (grad,) = lib.autograd.grad(y, x, lib.ones_like(y))
        found.append((y.stride(), grad.stride()))
    assert found[0] == found[1]


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("kind", ["adaptive_avg_pool", "adaptive_max_pool"])
def test_pools_to_nothing_have_no_gradients(rank: int, kind: str) -> None:
    for lib in (fg, torch):
        x = lib.ones((2, 3, 5, 6, 4)[: rank + 2], requires_grad=True)
        y = getattr(lib.nn.functional, f"{kind}{rank}d")(x, 0)
        assert y.shape == (2, 3, *(0,) * rank) and y.requires_grad
        with pytest.raises(RuntimeError, match="Expected grad_output to have non-zero size"):
            y.sum().backward()


def test_max_pools_have_names_that_give_positions() -> None:
    names = [name for name in vars(torch.nn.functional) if name.endswith("pool2d_with_indices")]
    assert len(names) == 3
    for name in ("max_pool2d_with_indices", "adaptive_max_pool2d_with_indices"):
        for lib, functions in ((fg, supplied), (torch, torch.nn.functional)):
            values, at = getattr(functions, name)(lib.arange(16.0).reshape(1, 4, 4), 2)
            assert values.tolist() == [[[5, 7], [13, 15]]] == at.tolist()


def test_what_no_memory_holds_is_a_runtime_error_too() -> None:
    for lib in (fg, torch):
        with pytest.raises(RuntimeError):
            lib.nn.functional.adaptive_max_pool1d(lib.zeros(2, 2, 2), 0x3FFFFFFFFFFFFFFF)
    with pytest.raises(MemoryError):
        fg.nn.functional.adaptive_max_pool1d(fg.zeros(2, 2, 2), 0x3FFFFFFFFFFFFFFF)


EXPANDED = [
    ((5,), (1, 1, 5)),
    ((5,), (2, 1, 5)),
    ((5,), (1, 2, 5)),
    ((), (1, 1)),
    ((3, 1), (1, 3, 1)),
    ((3, 1), (3, 1)),
    ((3, 1), (2, 3, 4)),
    ((1, 1), (1, 1, 1)),
]


@pytest.mark.parametrize(("shape", "wanted"), EXPANDED)
def test_strides_of_what_is_expanded(shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    steps = [lib.zeros(shape).expand(wanted).stride() for lib in (fg, torch)]
    assert steps[0] == steps[1]
    turned = [lib.zeros(2, 3, 4).permute(2, 0, 1)[:, :1].expand(1, 4, 1, 3) for lib in (fg, torch)]
    assert turned[0].stride() == turned[1].stride()
    turned[0].add_(1)  # nothing is repeated
    assert fg.zeros(0, 5, 64).view(fg.int32).stride() == torch.zeros(0, 5, 64).view(torch.int32).stride()
