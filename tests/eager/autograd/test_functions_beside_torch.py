"""What is done with custom Functions and nodes beside what they are made for: the same as in PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
from oracle import torch

import fusegrad as fg


def both(run: Callable[[Any], Any]) -> None:
    assert run(fg) == run(torch)


def result(call: Callable[[], Any]) -> Any:
    """What a call gives, or its error's type."""
    try:
        found = call()
    except Exception as error:
        return type(error).__name__
    return found.tolist() if hasattr(found, "tolist") else found


def returning(t: Any, saves: Callable[[Any, Any, Any], None], marks: bool = False) -> Any:
    """A Function that gives its argument as it is."""

    class AsItIs(t.autograd.Function):
        @staticmethod
        def forward(x):
            return x

        @staticmethod
        def setup_context(ctx, inputs, output):
            if marks:
                ctx.mark_dirty(inputs[0])
            saves(ctx, inputs[0], output)

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 3

    return AsItIs


SAVES: dict[str, Callable[[Any, Any, Any], None]] = {
    "the input": lambda ctx, x, y: ctx.save_for_backward(x),
    "the output": lambda ctx, x, y: ctx.save_for_backward(y),
    "a view": lambda ctx, x, y: ctx.save_for_backward(x.view_as(x)),
    "nothing": lambda ctx, x, y: None,
}


@pytest.mark.parametrize("marks", [False, True])
@pytest.mark.parametrize("saved", SAVES)
@pytest.mark.parametrize("needs", [False, True])
def test_inputs_that_are_given_as_they_are(saved: str, marks: bool, needs: bool):
    def run(t: Any) -> Any:
        x = t.tensor([1.0, 2.0], requires_grad=needs) * 1
        return result(lambda: returning(t, SAVES[saved], marks).apply(x))

    both(run)


@pytest.mark.parametrize("needs", [False, True])
def test_a_class_of_users_stays_where_a_function_gives_its_argument(needs: bool):
    def run(t: Any) -> Any:
        class Wrapped(t.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                made = super().__torch_function__(func, types, args, kwargs or {})
                if isinstance(made, cls):
                    made.count = len(asked)
                asked.append(func.__name__)
                return made

        asked: list[str] = []
        x = t.ones(2).as_subclass(Wrapped)
        x.requires_grad_(needs)
        y = returning(t, SAVES["nothing"]).apply(x)
        return type(y).__name__, y is x, y.requires_grad

    both(run)


def test_nodes_can_be_called():
    def run(t: Any) -> Any:
        x, y = t.ones(2, requires_grad=True), t.full((2,), 3.0)
        gradient = t.tensor([1.0, 2.0])
        node = (x * x.clone()).grad_fn
        pair = [g.tolist() for g in node(gradient)]
        one, none = (x * y).grad_fn(gradient)
        power = (x**2).grad_fn
        return (
            pair,
            one.tolist(),
            none,
            result(lambda: power(gradient)),
            result(power),
            result(lambda: power(gradient, gradient)),
        )

    both(run)


def test_functions_are_not_made_objects_of():
    def run(t: Any) -> Any:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            made = returning(t, SAVES["nothing"])()
        return (
            [w.category.__name__ for w in seen],
            "not be instantiated" in str(seen[0].message),
            result(lambda: made(t.ones(1))),
        )

    both(run)


def test_conversions_of_gradients_warn_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = fg.tensor([1.0, 2.0], requires_grad=True)
        x.to(fg.complex128).sum().abs().backward()
        fg.empty(2, dtype=fg.complex128).copy_(x).sum().abs().backward()
    assert x.grad is not None and x.grad.tolist() == [2.0, 2.0]


def test_examples_of_batched_gradients_have_the_shape_of_the_output():
    def run(t: Any) -> Any:
        x = t.ones(2, 3, requires_grad=True)
        with pytest.raises(RuntimeError, match="If `is_grads_batched=True`, we interpret the first"):
            t.autograd.grad(x * 2, x, t.ones(2, 3), is_grads_batched=True)
        return t.autograd.grad(x * 2, x, t.ones(4, 2, 3), is_grads_batched=True)[0].shape

    both(run)


def test_classes_with_slots():
    def run(t: Any) -> Any:
        class First(t.Tensor):
            __slots__ = ("slot",)

        class Second(First):
            __slots__ = ("other",)

        leaf = t.tensor([1.0, 2.0], requires_grad=True)
        base = leaf * 1
        x = base.as_subclass(Second)
        x.slot, x.other = 1, 2
        base.mul_(3)
        made = Second(t.tensor([1.0]))
        made.slot = 5
        (x * x).sum().backward()
        return x.tolist(), x.slot, x.other, type(x + 1).__name__, leaf.grad.tolist(), made.slot

    both(run)


MODES = [(view, write) for view in (False, True) for write in (False, True)]


@pytest.mark.parametrize(
    "write", ["t_()", "transpose_(0, 1)", "unsqueeze_(0)", "squeeze_(0)", "swapdims_(0, 1)"]
)
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("needs", [False, True])
def test_views_that_become_others_where_writes_are_refused(write: str, several: bool, needs: bool):
    def run(t: Any) -> Any:
        found = []
        for view, seen in MODES:
            base = t.ones(2, 3, 4, requires_grad=needs).clone()
            with t.set_grad_enabled(view):
                x = base.unbind()[0] if several else base.view(6, 4)
            try:
                with t.set_grad_enabled(seen):
                    eval(f"x.{write}")
            except RuntimeError:
                found.append("not seen otherwise")
                continue
            found.append(result(lambda x=x: x.add_(1)))
        return found

    both(run)
