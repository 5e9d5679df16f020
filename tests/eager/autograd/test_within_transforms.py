"""Functions that functional transforms call, beside PyTorch: what it refuses there is refused here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from oracle import torch

import fusegrad as fg
from fusegrad.eager.core.state import state


def function_of(t: Any, sets_up: bool) -> Any:
    """A custom Function of one of both kinds, which doubles, or multiplies by another number."""

    class WithContext(t.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, by: float = 2.0) -> Any:
            ctx.by = by
            return x * by

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.by, None

    class Apart(t.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any, by: float = 2.0) -> Any:
            return x * by

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            _, ctx.by = inputs

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.by, None

        @staticmethod
        def jvp(ctx: Any, g: Any, _: Any) -> Any:
            return g * ctx.by

    return Apart if sets_up else WithContext


def functional(name: str) -> Callable[[Any, Any], Any]:
    def call(t: Any, x: Any) -> Any:
        given = (x,) if name in ("jacobian", "hessian") else (x, t.ones_like(x))
        getattr(t.autograd.functional, name)(lambda y: (y * y).sum(), *given)
        return x * 3

    return call


def sets(t: Any, x: Any) -> Any:
    y = x * 1.0
    y.requires_grad = True
    return y * y


def gradient_within(t: Any, x: Any) -> Any:
    y = t.ones(3)
    y.requires_grad = True
    (found,) = t.autograd.grad((y * y * x.detach()).sum(), y)
    return found * x


def retains(t: Any, x: Any) -> Any:
    y = x * x
    y.retain_grad()
    return y


def goes_backward(t: Any, x: Any) -> Any:
    weight = t.ones(3, requires_grad=True)
    (x * weight).sum().backward()
    return x * 3


# What a function does with a tensor, which has the shape of a row of three.
BODIES: dict[str, Callable[[Any, Any], Any]] = {
    "nothing": lambda t, x: x * x,
    "requires_grad_": lambda t, x: (x * 1.0).requires_grad_() * x,
    "requires_grad_ of another": lambda t, x: t.ones(3).requires_grad_() * x,
    "requires_grad_ of a layer": lambda t, x: t.nn.Linear(3, 3).requires_grad_(False)(x) * 0 + x,
    "retain_grad": retains,
    "sets requires_grad": sets,
    "a gradient within": gradient_within,
    "backward": goes_backward,
    "makes a leaf": lambda t, x: x * x * t.full((3,), 2.0, requires_grad=True).detach(),
    "makes a parameter": lambda t, x: x * x * t.nn.Parameter(t.full((3,), 2.0)).detach(),
    "makes layers": lambda t, x: x * x + t.nn.Embedding(2, 3, _weight=t.ones(2, 3)).weight[0].detach(),
    "a Function": lambda t, x: function_of(t, True).apply(x * x),
    "a Function by name": lambda t, x: function_of(t, True).apply(by=5.0, x=x * x),
    "a Function of a context": lambda t, x: function_of(t, False).apply(x * x),
    **{name: functional(name) for name in ("jacobian", "hessian", "vjp", "jvp", "hvp", "vhp")},
}
TRANSFORMS: dict[str, Callable[[Any, Any], Any]] = {
    "grad": lambda t, f: t.func.grad(lambda x: f(x).sum()),
    "grad_and_value": lambda t, f: t.func.grad_and_value(lambda x: f(x).sum()),
    "vjp": lambda t, f: lambda x: t.func.vjp(f, x)[1](t.ones_like(x)),
    "jacrev": lambda t, f: t.func.jacrev(f),
    "grad of grad": lambda t, f: t.func.grad(lambda x: t.func.grad(lambda y: f(y).sum())(x).sum()),
    "vmap": lambda t, f: lambda x: t.func.vmap(f)(t.stack([x, x * 2])),
    "vmap of grad": lambda t, f: lambda x: t.func.vmap(t.func.grad(lambda y: f(y).sum()))(t.stack([x, x])),
}


def outcome(t: Any, body: str, transform: str) -> Any:
    """The numbers of a transform of a function, or the first words of the error."""
    transformed = TRANSFORMS[transform](t, lambda x: BODIES[body](t, x))
    try:
        found = transformed(t.tensor([1.0, 2.0, 3.0]))
    except RuntimeError as error:
        words = str(error).split("\n")[0]
        return next((part for part in REFUSED if part in words), words)
    return [value.tolist() for value in (found if isinstance(found, tuple) else (found,))]


REFUSED = (
    "You are attempting to call Tensor.requires_grad_() (or perhaps using torch.autograd.functional.* APIs)",
    "You are attempting to call Tensor.retain_grad()",
    "can't retain_grad on Tensor that has requires_grad=False",
    "backward() called inside a functorch transform",
    "it must override the setup_context staticmethod",
    "you can only change requires_grad flags of leaf variables.",
    "called random operation while in randomness error mode",
    "element 0 of tensors does not require grad and does not have a grad_fn",
)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("body", BODIES)
def test_transforms_refuse_what_pytorch_refuses(body: str, transform: str) -> None:
    ours, theirs = outcome(fg, body, transform), outcome(torch, body, transform)
    if (body, transform) == ("a gradient within", "vmap of grad"):
        assert isinstance(ours, str)  # what an example's tensors are on is another graph: an error, no number
    else:
        assert ours == theirs
    assert state.transforms == 0


@pytest.mark.parametrize("sets_up", [True, False])
def test_arguments_of_functions_have_names(sets_up: bool) -> None:
    def run(t: Any, call: Callable[[Any, Any], Any]) -> Any:
        x = t.ones(3, requires_grad=True)
        try:
            y = call(function_of(t, sets_up).apply, x)
            y.sum().backward()
        except TypeError:
            return "refused"
        return y.tolist(), x.grad.tolist()

    calls: list[Callable[[Any, Any], Any]] = [
        lambda apply, x: apply(x, by=3.0),
        lambda apply, x: apply(by=3.0, x=x),
        lambda apply, x: apply(x=x),
        lambda apply, x: apply(x, wrong=3.0),
        lambda apply, x: apply(x, x=x),
    ]
    for number, call in enumerate(calls):
        assert run(fg, call) == run(torch, call), number
    jitted = fg.jit(lambda x: function_of(fg, sets_up).apply(by=4.0, x=x))
    for _ in range(3):
        assert jitted(fg.ones(2)).tolist() == [4.0, 4.0]


@pytest.mark.parametrize("in_dims", [0, 1, -1, (1,), (0, None), (1, 0), (-1, 1)])
def test_the_vmap_of_a_function_is_told_where_the_caller_has_the_examples(in_dims: Any) -> None:
    def run(t: Any) -> Any:
        seen = []

        class Told(function_of(t, True)):  # type: ignore[misc]
            generate_vmap_rule = False

            @staticmethod
            def vmap(info: Any, in_dims: Any, x: Any, by: Any) -> Any:
                seen.append((in_dims, tuple(x.shape)))
                first = x.movedim(in_dims[0], 0)
                return first * (by if in_dims[1] is None else by.movedim(in_dims[1], 0)), 0

        x = t.arange(12.0).reshape(3, 4) if in_dims not in (0, (0, None)) else t.arange(12.0).reshape(4, 3)
        by = (t.arange(12.0).reshape(4, 3) if in_dims == (1, 0) else t.arange(12.0).reshape(3, 4),)
        by = () if isinstance(in_dims, int) or len(in_dims) == 1 else (2.0,) if in_dims[1] is None else by
        return t.func.vmap(Told.apply, in_dims)(x, *by).tolist(), seen

    assert run(fg) == run(torch)
