"""A layer of fusegrad and its twin of torch, with the same weights: results, gradients, buffers and text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from oracle import torch

import fusegrad as fg


def flat(value: Any) -> list[Any]:
    """The tensors in nested tuples and lists (None and numbers are left out)."""
    if isinstance(value, (fg.Tensor, torch.Tensor)):
        return [value]
    return [t for v in value for t in flat(v)] if isinstance(value, (tuple, list)) else []


def array(tensor: Any) -> np.ndarray:
    return tensor.detach().numpy(force=True)


def twins(make: Callable[[Any], Any], train: bool = True) -> tuple[Any, Any]:
    """The layer that `make` gives for either library, in float64 and with torch's weights."""
    torch.manual_seed(0)
    theirs, ours = make(torch).double().train(train), make(fg).double().train(train)
    assert repr(ours) == repr(theirs)
    state = {name: array(value) for name, value in theirs.state_dict().items()}
    own = {name: array(value) for name, value in ours.state_dict().items()}
    assert [(k, v.shape, v.dtype) for k, v in own.items()] == [
        (k, v.shape, v.dtype) for k, v in state.items()
    ]
    ours.load_state_dict({name: fg.tensor(value) for name, value in state.items()})
    return ours, theirs


def same(ours: Any, theirs: Any, what: str) -> None:
    a, b = flat(ours), flat(theirs)
    assert len(a) == len(b), what
    for x, y in zip(a, b, strict=True):
        assert array(x).dtype == array(y).dtype, what
        np.testing.assert_allclose(array(x), array(y), rtol=1e-7, atol=1e-9, err_msg=what)


def leaf(namespace: Any, value: Any) -> Any:
    """A sample's array as a tensor that asks for gradients if it can; other values as they are."""
    if not isinstance(value, np.ndarray):
        return tuple(leaf(namespace, v) for v in value) if isinstance(value, tuple) else value
    tensor = namespace.tensor(value)
    return tensor.requires_grad_() if value.dtype.kind == "f" else tensor


def loss_of(namespace: Any, result: Any) -> Any:
    """A scalar of all parts of a result, each under other weights."""
    parts = [p for p in flat(result) if p.requires_grad]
    terms = [
        (p * namespace.tensor(np.linspace(0.5, 1.5, p.numel()).reshape(tuple(p.shape)))).sum() for p in parts
    ]
    return sum(terms[1:], terms[0])


def compare(
    make: Callable[[Any], Any], *inputs: Any, train: bool = True, runs: int = 1, **named: Any
) -> None:
    """Outputs, gradients of inputs and parameters, and buffers of both after `runs` calls."""
    ours, theirs = twins(make, train)
    mine = [leaf(fg, x) for x in inputs]
    other = [leaf(torch, x) for x in inputs]
    options = [{k: leaf(n, v) for k, v in named.items()} for n in (fg, torch)]
    for _ in range(runs):
        results = ours(*mine, **options[0]), theirs(*other, **options[1])
        same(*results, "output")
        if any(p.requires_grad for p in flat(results[1])):
            for namespace, result in zip((fg, torch), results, strict=True):
                loss_of(namespace, result).backward()
    for a, b in zip(flat(mine), flat(other), strict=True):
        assert (a.grad is None) == (b.grad is None)
        if a.grad is not None:
            same(a.grad, b.grad, "gradient of an input")
    for (name, a), (_, b) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None), name
        if a.grad is not None:
            same(a.grad, b.grad, name)
    for (name, a), (_, b) in zip(ours.named_buffers(), theirs.named_buffers(), strict=True):
        same(a, b, name)
