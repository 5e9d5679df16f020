"""Steps that run custom Functions are replayed: their forward, and the backward that they say is theirs."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jit_checks
import numpy as np
import pytest
from oracle import torch

import fusegrad as fg
from fusegrad.tracer.capture.callbacks import Callbacks
from fusegrad.tracer.record.graph_changes import GraphChanges

Case = Callable[[Any, Any, Any], Any]


def functions(lib: Any) -> SimpleNamespace:
    """Custom Functions; the gradient of none is that of its forward's ops."""
    Function, once = lib.autograd.Function, lib.autograd.function.once_differentiable

    class StraightThrough(Function):
        @staticmethod
        def forward(ctx, x):
            return x.round()

        @staticmethod
        def backward(ctx, g):
            return g

    class Reversed(Function):
        @staticmethod
        def forward(ctx, x, strength):
            ctx.strength = strength
            return x.view_as(x)

        @staticmethod
        def backward(ctx, g):
            return g.neg() * ctx.strength, None

    class Surrogate(Function):
        width = 3.0

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return (x > 0).float()

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g / (Surrogate.width * x.abs() + 1.0) ** 2

    class Several(Function):
        @staticmethod
        def forward(ctx, x, y):
            a, b = x * y, x.exp()
            ctx.save_for_backward(x, y, b)
            return a, b, "plain", x.argmax()

        @staticmethod
        def backward(ctx, ga, gb, _, __):
            x, y, b = ctx.saved_tensors
            gx = ga * y * 2 + gb * b if ctx.needs_input_grad[0] else None
            return gx, ga * x * 3 if ctx.needs_input_grad[1] else None

    class Unmaterialized(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, first, second):
            return (0 if first is None else first * 5) + (0 if second is None else second * 7)

    class Marked(Function):
        @staticmethod
        def forward(ctx, x):
            values, order = x.sort()
            ctx.mark_non_differentiable(order)
            ctx.order = order
            ctx.size = x.shape[0]
            return values, order

        @staticmethod
        def backward(ctx, g, _):
            return lib.zeros(ctx.size).scatter(0, ctx.order, g * 2)

    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        @once
        def backward(ctx, g):
            return ctx.saved_tensors[0] * g

    class Apart(Function):
        @staticmethod
        def forward(x, factor=2.0):
            return x * factor, factor

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.x, ctx.factor = inputs
            ctx.save_for_backward(inputs[0], output[0])

        @staticmethod
        def backward(ctx, g, _):
            x, y = ctx.saved_tensors
            return g * x * ctx.factor + y, None

    class Inherits(Surrogate):
        @staticmethod
        def forward(ctx, x):
            return 2 * Surrogate.forward(ctx, x)

    class Derives(Function):
        @staticmethod
        def forward(ctx, call, x, *weights):
            with lib.enable_grad():
                inner = x.detach().requires_grad_()
                ctx.inner, ctx.result = inner, call(inner, *weights)
            ctx.weights = weights
            return ctx.result.detach()

        @staticmethod
        def backward(ctx, g):
            gx, *gw = lib.autograd.grad(ctx.result, (ctx.inner, *ctx.weights), g)
            return None, gx * 2, *gw

    return SimpleNamespace(**{name: value for name, value in locals().items() if isinstance(value, type)})


def _several(lib: Any, f: Any, x: Any) -> Any:
    a, b, plain, place = f.Several.apply(x, x * 2)
    return (a + b).sum() + place if plain == "plain" else None


CASES: dict[str, Case] = {
    "straight through": lambda lib, f, x: (f.StraightThrough.apply(x * 3) * x).sum(),
    "held apply": lambda lib, f, x: (f.held(x * 3) * x).sum(),
    "reversed": lambda lib, f, x: f.Reversed.apply(x, 0.5).square().sum(),
    "reversed by a number": lambda lib, f, x: f.Reversed.apply(x, 0.25).square().sum() + x.sum(),
    "surrogate": lambda lib, f, x: (f.Surrogate.apply(x - 0.1) * x).sum(),
    "several": _several,
    "one of several": lambda lib, f, x: f.Several.apply(x, x.detach())[1].sum(),
    "without a gradient for one": lambda lib, f, x: f.Several.apply(x.detach(), x)[0].sum(),
    "unmaterialized": lambda lib, f, x: f.Unmaterialized.apply(x)[1].sum(),
    "both unmaterialized": lambda lib, f, x: sum(y.sum() for y in f.Unmaterialized.apply(x)),
    "marked": lambda lib, f, x: (f.Marked.apply(x)[0] * f.Marked.apply(x)[1]).sum(),
    "once differentiable": lambda lib, f, x: f.Once.apply(x).sum(),
    "context set apart": lambda lib, f, x: f.Apart.apply(x)[0].sum(),
    "context set apart, all given": lambda lib, f, x: f.Apart.apply(x, 4.0)[0].sum(),
    "inherits": lambda lib, f, x: (f.Inherits.apply(x) * x).sum(),
    "derives inside": lambda lib, f, x: f.Derives.apply(lambda a, b: a * b, x, f.weight).sum(),
    "one in another": lambda lib, f, x: f.StraightThrough.apply(f.Reversed.apply(x, 2.0) * 3).sum(),
    "in a loop": lambda lib, f, x: sum(f.Surrogate.apply(x - i).sum() for i in range(3)),
    "without gradients": lambda lib, f, x: f.StraightThrough.apply(x.detach()).sum() + x.sum(),
    "derived twice": lambda lib, f, x: lib.autograd.grad(
        f.Reversed.apply(x**3, 0.5).sum(), x, create_graph=True
    )[0].sum(),
}


def world(lib: Any) -> SimpleNamespace:
    made = functions(lib)
    made.held = made.StraightThrough.apply
    made.weight = lib.tensor([0.3, 0.1, -0.2, 0.5], requires_grad=True)
    return made


def values(step: int) -> np.ndarray:
    return np.random.default_rng(step).normal(size=4).astype("f4")


def steps(lib: Any, case: Case, wrapped: Callable[[Any], Any], count: int = 6) -> tuple[list[Any], Any]:
    """The losses and gradients of some steps, and what ran them."""
    made, leaf = world(lib), lib.tensor(values(0), requires_grad=True)

    def train(data: Any) -> Any:
        leaf.grad = made.weight.grad = None
        loss = case(lib, made, leaf * data)
        loss.backward()
        return loss

    run = wrapped(train)
    found = []
    for step in range(count):
        if step == count - 2 and run is not train:
            jit_checks.sealed(run)
        loss = run(lib.tensor(values(step + 1)))
        parts = [loss.detach().numpy(), leaf.grad.numpy()]
        found.append(parts + ([made.weight.grad.numpy()] if made.weight.grad is not None else []))
    return found, run


@pytest.mark.parametrize("name", CASES)
def test_steps_with_custom_functions_are_replayed(name: str) -> None:
    expected, _ = steps(torch, CASES[name], lambda step: step)
    eager, _ = steps(fg, CASES[name], lambda step: step)
    found, run = steps(fg, CASES[name], fg.jit)
    assert run.stats.compiled_calls >= 4, run.explain()
    for ours, plain, theirs in zip(found, eager, expected, strict=True):
        for a, b, c in zip(ours, plain, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(a, c, rtol=1e-5, atol=1e-6)


def check_gradients_from_outside(case: Case) -> None:
    made = world(fg)
    run = fg.jit(lambda data, leaf: case(fg, made, leaf * data))
    for step in range(5):
        found = []
        for call in (run, run.__wrapped__):
            leaf = fg.tensor(values(0), requires_grad=True)
            made.weight.grad = None
            call(fg.tensor(values(step)), leaf).backward()
            found.append([leaf.grad, made.weight.grad])
        for a, b in zip(*found, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                jit_checks.same(a, b)


@pytest.mark.parametrize("name", [name for name in CASES if name != "derived twice"])
def test_gradients_asked_for_outside_are_those_of_the_functions(name: str) -> None:
    check_gradients_from_outside(CASES[name])


def test_the_gradients_of_the_forwards_ops_would_be_noticed(monkeypatch: Any) -> None:
    monkeypatch.setattr(GraphChanges, "problem_of", lambda self, nodes: "")
    with pytest.raises(AssertionError):
        check_gradients_from_outside(CASES["surrogate"])


def test_a_gradient_within_the_call_is_given() -> None:
    made = world(fg)

    @fg.jit
    def slope(x: Any) -> Any:
        x = x.detach().requires_grad_()
        return fg.autograd.grad(made.Surrogate.apply(x).sum(), x)[0]

    for step in range(5):
        x = fg.tensor(values(step))
        if step == 3:
            jit_checks.sealed(slope)
        jit_checks.same(slope(x), 1 / (3 * x.abs() + 1) ** 2)


def _other_backward(made: Any) -> None:
    made.StraightThrough.backward = staticmethod(lambda ctx, g: g * 10)


def _other_forward(made: Any) -> None:
    made.StraightThrough.forward = staticmethod(lambda ctx, x: x.floor())


def _other_code(made: Any) -> None:
    made.StraightThrough.backward.__code__ = (lambda ctx, g: g * 20).__code__


def _with_context(made: Any) -> None:
    made.StraightThrough.forward = staticmethod(lambda x: x.ceil())
    made.StraightThrough.setup_context = staticmethod(lambda ctx, inputs, output: None)


def _other_class(made: Any) -> None:
    made.StraightThrough = made.Once


def _other_number(made: Any) -> None:
    made.factor = 30.0


CHANGES = [_other_backward, _other_forward, _other_code, _with_context, _other_class, _other_number]


def check_guards(change: Callable[[Any], None]) -> None:
    results = []
    for wrapped in (fg.jit, lambda step: step):
        made = world(fg)
        made.factor = 1.0
        made.StraightThrough.backward = staticmethod(lambda ctx, g, made=made: g * made.factor)
        if change is _other_code:
            made.StraightThrough.backward = staticmethod(lambda ctx, g: g)
        leaf = fg.tensor(values(0), requires_grad=True)

        def train(data: Any, made: Any = made, leaf: Any = leaf) -> Any:
            leaf.grad = None
            loss = made.StraightThrough.apply(leaf * data).sum()
            loss.backward()
            return loss

        run, found = wrapped(train), []
        for step in range(10):
            if step == 5:
                change(made)
            loss = run(fg.tensor(values(step)))
            found.append([loss.detach().numpy(), leaf.grad.numpy()])
        results.append(found)
        assert run is train or run.stats.compiled_calls >= 5
    for ours, theirs in zip(*results, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)


@pytest.mark.parametrize("change", CHANGES)
def test_what_the_functions_are_is_guarded(change: Callable[[Any], None]) -> None:
    """The class, its methods, their code, and what these find outside."""
    check_guards(change)


def test_a_method_that_is_not_guarded_would_be_noticed(monkeypatch: Any) -> None:
    monkeypatch.setattr(Callbacks, "method", lambda self, kind, name, context: getattr(kind, name))
    with pytest.raises(AssertionError):
        check_guards(_other_backward)


def _prints(ctx: Any, g: Any) -> Any:
    print("backward")
    return g


def test_what_a_backward_does_to_the_world_is_done(capsys: Any) -> None:
    made = world(fg)
    made.StraightThrough.backward = staticmethod(_prints)
    run = fg.jit(lambda leaf: made.StraightThrough.apply(leaf).sum().backward())
    for _ in range(4):
        run(fg.ones(3, requires_grad=True))
    assert capsys.readouterr().out == "backward\n" * 4


@pytest.mark.parametrize("ends", ["raises", "fits badly"])
def test_errors_of_a_backward_are_raised_each_time(ends: str) -> None:
    made = world(fg)

    def backward(ctx: Any, g: Any) -> Any:
        if ends == "raises":
            raise KeyError("mine")
        return g, g

    made.StraightThrough.backward = staticmethod(backward)
    run = fg.jit(lambda leaf: made.StraightThrough.apply(leaf).sum().backward())
    for _ in range(4):
        with pytest.raises(KeyError if ends == "raises" else RuntimeError):
            run(fg.ones(3, requires_grad=True))


def test_a_function_that_writes_what_it_gets_is_left_to_eager() -> None:
    class Doubles(fg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 5

    leaf = fg.ones(3, requires_grad=True)

    @fg.jit
    def train(data: Any) -> Any:
        leaf.grad = None
        loss = Doubles.apply(leaf * data).sum()
        loss.backward()
        return loss

    for step in range(4):
        assert train(fg.full((3,), float(step))).item() == 6 * step
        assert leaf.grad is not None and leaf.grad.tolist() == [5.0 * step] * 3
