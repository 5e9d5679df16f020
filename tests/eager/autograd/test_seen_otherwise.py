"""transpose_, squeeze_ and kin, of tensors that are views or have views, against torch."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import pytest
from oracle import torch

import fusegrad as fg

CALLS = {
    "transpose_": lambda x: x.transpose_(0, 1),
    "swapaxes_": lambda x: x.swapaxes_(0, 1),
    "swapdims_": lambda x: x.swapdims_(0, 1),
    "t_": lambda x: x.t_(),
    "squeeze_": lambda x: x.squeeze_(),
    "squeeze_(0)": lambda x: x.squeeze_(0),
    "unsqueeze_(0)": lambda x: x.unsqueeze_(0),
    "unsqueeze_(-1)": lambda x: x.unsqueeze_(-1),
    "as_strided_": lambda x: x.as_strided_((2,), (1,)),
    "resize_": lambda x: x.resize_(x.shape),
}


def with_gradient(x):
    return x.requires_grad_() * 1


def viewed(x):
    return x[:], x


# The tensor that is changed, and another one with the same memory.
TENSORS = {
    "plain": lambda x: (x, None),
    "has a view": lambda x: (x, x[0:1]),
    "is a view": viewed,
    "on the graph": lambda x: (with_gradient(x), None),
    "on the graph, has a view": lambda x: (lambda y: (y, y[0:1]))(with_gradient(x)),
    "on the graph, is a view": lambda x: viewed(with_gradient(x)),
    "a leaf": lambda x: (x.requires_grad_(), None),
    "a leaf that has a view": lambda x: (x.requires_grad_(), x[0:1]),
}


def with_graph(x):
    """Multiplies it by something on the graph."""
    return x.mul_(x.detach().clone().requires_grad_() * 1)


WRITES = {
    "none": lambda x, view: None,
    "into it": lambda x, view: x.mul_(3),
    "into the other": lambda x, view: view is not None and view.mul_(5),
    "into both": lambda x, view: (x.mul_(3), view is not None and view.mul_(5)),
    "of the graph, into it": lambda x, view: with_graph(x),
    "of the graph, into the other": lambda x, view: view is not None and with_graph(view),
}


def outcome(T, name, tensor, write, recording=True, own=False):
    leaf = T.arange(3.0).reshape(1, 3) if name == "squeeze_(0)" else T.arange(6.0).reshape(2, 3)
    if own:  # which is no view
        leaf = leaf.clone()
    try:
        x, view = TENSORS[tensor](leaf)
        with T.set_grad_enabled(recording):
            CALLS[name](x)
        WRITES[write](x, view)
        found = [
            x.detach().tolist(),
            tuple(x.shape),
            x.stride(),
            leaf.detach().tolist(),
            x.requires_grad,
            x._version,
        ]
        found.append(None if view is None else view.detach().tolist())
        if x.requires_grad:
            total = (x * T.arange(float(x.numel())).reshape(x.shape)).sum()
            if view is not None and view.requires_grad:
                total = total + (view * 7).sum()
            total.backward()
            found.append(None if leaf.grad is None else leaf.grad.tolist())
    except RuntimeError:
        return "refused"
    return found


def torch_loses_gradients(name, tensor, write, recording, own):
    """Where PyTorch takes another gradient than that of the values, or a backward of its fails in the end."""
    if name == "as_strided_" and tensor == "on the graph, has a view":
        return True
    if name == "as_strided_" and own and (tensor, write) == ("has a view", "of the graph, into the other"):
        return True
    return not recording and tensor.startswith("on the graph")


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("recording", [True, False])
@pytest.mark.parametrize("tensor", TENSORS)
@pytest.mark.parametrize("name", CALLS)
def test_values_places_and_gradients(name, tensor, recording, own):
    for write in WRITES:
        found = outcome(fg, name, tensor, write, recording, own)
        if (
            tensor == "a leaf that has a view"
        ):  # which PyTorch allows under no_grad, and loses what it leads to
            assert found == "refused" or name == "resize_"
        elif not torch_loses_gradients(name, tensor, write, recording, own):
            assert found == outcome(torch, name, tensor, write, recording, own), write


@pytest.mark.parametrize("name", ["t_", "transpose_", "unsqueeze_(0)", "squeeze_", "swapaxes_"])
def test_what_a_backward_keeps_is_not_changed_unnoticed(name):
    x = fg.arange(4.0).reshape(2, 2).requires_grad_()
    y = x * 1
    z = (y * y * fg.tensor([[1.0, 2.0], [3.0, 4.0]])).sum()
    CALLS[name](y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_views_of_views_are_followed():
    def program(T, steps):
        x = T.arange(12.0).reshape(3, 4).requires_grad_()
        y = x * 1
        views = [y[0], y[:, 1:], y.view(-1)]
        for step in steps:
            (
                lambda: y.t_(),
                lambda: views[0].mul_(2),
                lambda: y.mul_(3),
                lambda: views[1].add_(y[-1:, :1].clone()),
            )[step]()
        total = sum((v * v).sum() for v in views) + (y * T.arange(12.0).reshape(y.shape)).sum()
        total.backward()
        return y.tolist(), [v.tolist() for v in views], x.grad.tolist()

    for steps in itertools.product(range(4), repeat=3):
        assert program(fg, steps) == program(torch, steps), steps


@pytest.mark.parametrize("again", ["movedim", "t", "reshape", "write"])
@pytest.mark.parametrize("first", ["under no_grad", "on the graph"])
def test_views_that_were_not_noted_follow_a_tensor_that_is_turned(first: str, again: str) -> None:
    """A view made where nothing is on a graph, and the tensor turned once it has other views."""

    def found(library: Any) -> list[Any]:
        a = library.arange(12.0).reshape(3, 4) * 1.0
        with library.no_grad() if first == "under no_grad" else contextlib.nullcontext():
            early = a.expand_as(a)
        late = a.t()
        a.transpose_(0, -1)
        scale = library.tensor(2.0, requires_grad=True)
        if again == "write":
            with library.no_grad():
                early[1:] *= 2
            out = early * scale
        else:
            view = {
                "movedim": lambda: early.movedim(0, -1),
                "t": early.t,
                "reshape": lambda: early.reshape(-1),
            }
            out = view[again]() * scale
        out.sum().backward()
        return [out.tolist(), a.tolist(), late.tolist(), scale.grad.item()]

    assert found(fg) == found(torch)


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize(
    "name, args", [("squeeze_", ()), ("squeeze_", (0,)), ("transpose_", (1, 1)), ("swapdims_", (0, 0))]
)
def test_what_changes_nothing_leaves_a_tensor_its_node_where_nothing_is_recorded(
    name: str, args: tuple[int, ...], recorded: bool
) -> None:
    def run(lib: Any) -> Any:
        a = lib.ones(3, 4, requires_grad=True)
        z = a * 1.0
        mean = z.mean(0)
        with lib.set_grad_enabled(recorded):
            getattr(z, name)(*args)
        z.register_hook(lambda g: g * 2)  # of the node that made z, also for what was computed of it before
        (mean * mean).sum().backward()
        return a.grad.tolist()

    assert run(fg) == run(torch)


def test_shapes_that_change_in_inference_mode_keep_the_graph() -> None:
    a = fg.ones(3, 1, requires_grad=True)
    z = a * 2.0
    with fg.inference_mode():
        z.squeeze_()
    (z * 3).sum().backward()
    assert a.grad is not None and a.grad.tolist() == [[6.0]] * 3 and not z.is_inference()
