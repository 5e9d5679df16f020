"""Views made without grad mode of what requires gradients: what they say of themselves, as in PyTorch."""

from __future__ import annotations

import pytest
from oracle import torch

import fusegrad as fg

VIEWS = {
    "a part": lambda T, x: x[:2],
    "a view of a view": lambda T, x: x[:2][:1],
    "the same": lambda T, x: x.view_as(x),
    "expanded": lambda T, x: x.expand(2, 3),
    "one of several": lambda T, x: x.unbind()[0],
    "transposed": lambda T, x: x.view(3, 1).T,
    "other bytes": lambda T, x: x.view(T.int32),
    "detached": lambda T, x: x.detach(),
    "data": lambda T, x: x.data,
    "a copy": lambda T, x: x.clone(),
}
SOURCES = {
    "a leaf": lambda T: T.ones(3, requires_grad=True),
    "of an op": lambda T: T.ones(3, requires_grad=True) * 1,
    "on no graph": lambda T: T.ones(3),
}
MODES = {"no_grad": lambda T: T.no_grad(), "inference_mode": lambda T: T.inference_mode()}


def kind(call):
    try:
        return repr(call())
    except Exception as error:
        return type(error).__name__


def said(T, view, source, mode, before=lambda view: None):
    x = SOURCES[source](T)
    with MODES[mode](T):
        v = VIEWS[view](T, x)
        before(v)
    return [
        v.requires_grad,
        v.is_leaf,
        kind(lambda: v.grad_fn),
        kind(lambda: v.numpy().shape),
        kind(lambda: v.add_(1).shape),
        repr(v) if v.dtype is T.float32 and "Grad" not in repr(v) else "",
    ]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("view", VIEWS)
def test_views_say_what_those_of_torch_say(view, source, mode):
    if mode == "inference_mode" and view in ("detached", "a copy"):
        pytest.skip("inference tensors, which tests of their own ask")
    assert said(fg, view, source, mode) == said(torch, view, source, mode)


def test_a_view_says_what_its_base_says_now():
    for T in (fg, torch):
        x = T.ones(3)
        v = x[:2]
        x.requires_grad_()
        assert v.requires_grad and v.is_leaf
        x.requires_grad_(False)
        assert not v.requires_grad


def test_no_gradient_comes_to_it():
    for T in (fg, torch):
        x = T.ones(3, requires_grad=True)
        with T.no_grad():
            v = x[:2]
        (v * x[1:]).sum().backward()
        assert x.grad.tolist() == [0, 1, 1] and v.grad is None


def function(x):
    y = x * 3
    with fg.no_grad():
        view, of_argument = y[:2], x[1:]
    return view * (2 if view.requires_grad else 1), view, of_argument


def test_a_jitted_function_gives_such_views():
    jitted, x = fg.jit(function), fg.ones(3, requires_grad=True)
    for _ in range(4):
        for found, wanted in zip(jitted(x), function(x), strict=True):
            assert found.requires_grad == wanted.requires_grad and found.tolist() == wanted.tolist()
