"""Users' own ops: what they give and how they are derived is PyTorch's; `jit` calls them between kernels."""

from __future__ import annotations

import types
from typing import Any

import numba
import numpy as np
import pytest
import scipy.special

import fusegrad as fg

torch = pytest.importorskip("torch")
CALLS: list[str] = []


@numba.njit
def _scaled(x, y, k):
    out = np.empty_like(x)
    for i in range(x.size):
        out.flat[i] = x.flat[i] * y.flat[i] * k
    return out


def defined(library: types.ModuleType, name: str) -> dict[str, Any]:
    """The same ops with PyTorch and with fusegrad."""

    @library.library.custom_op(
        f"{name}::scaled", mutates_args=(), schema="(Tensor x, Tensor y, float k=2.0) -> Tensor"
    )
    def scaled(x: Any, y: Any, k: float = 2.0) -> Any:
        CALLS.append("scaled")
        return library.from_numpy(_scaled(x.detach().numpy(), y.detach().numpy(), k))

    scaled.register_fake(lambda x, y, k=2.0: library.empty_like(x))

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0], inputs[1])
        ctx.k = inputs[2]

    def backward(ctx: Any, g: Any) -> Any:
        x, y = ctx.saved_tensors
        return scaled(g, y, ctx.k), scaled(g, x, ctx.k), None

    scaled.register_autograd(backward, setup_context=setup)

    @library.library.custom_op(
        f"{name}::parts", mutates_args=(), schema="(Tensor x, SymInt at) -> (Tensor, Tensor)"
    )
    def parts(x: Any, at: int) -> Any:
        return x[:at].clone(), x[at:].clone()

    parts.register_fake(lambda x, at: (x.new_empty(at), x.new_empty(x.shape[0] - at)))
    parts.register_autograd(lambda ctx, g, h: (library.cat([g, h]), None))

    @library.library.custom_op(f"{name}::total", mutates_args=(), schema="(Tensor[] xs, str kind) -> Tensor")
    def total(xs: Any, kind: str) -> Any:
        return sum(xs[1:], xs[0].clone()) if kind == "sum" else xs[0].clone()

    total.register_autograd(
        lambda ctx, g: ([g] * ctx.count, None),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "count", len(inputs[0])),
    )

    @library.library.custom_op(f"{name}::bessel", mutates_args=(), schema="(Tensor x) -> Tensor")
    def bessel(x: Any) -> Any:
        return library.from_numpy(np.asarray(scipy.special.jv(2.5, x.detach().numpy()), np.float32))

    bessel.register_fake(lambda x: library.empty_like(x))
    return {"scaled": scaled, "parts": parts, "total": total, "bessel": bessel}


OURS, TORCHS = defined(fg, "ours"), defined(torch, "fusegrad_tests")
EXPRESSIONS = {
    "a Numba function": lambda o, x, y: o["scaled"](x.sin(), y * 2).tanh(),
    "with a keyword": lambda o, x, y: o["scaled"](x, y=y, k=0.5) + x,
    "twice": lambda o, x, y: o["scaled"](o["scaled"](x, y), x),
    "two results": lambda o, x, y: o["parts"](x * y, 3)[0] * o["parts"](y, 1)[1].sum(),
    "one of two results": lambda o, x, y: o["parts"](x * y, 3)[0] * y[0],
    "a list": lambda o, x, y: o["total"]([x, y, x * y], "sum"),
}


@pytest.mark.parametrize("way", ["eager", "jit", "jit of a step"])
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_values_and_gradients_are_torchs(name: str, way: str):
    expression = EXPRESSIONS[name]
    numbers = [np.linspace(0.5, 2, 6, dtype=np.float32), np.linspace(1, -1, 6, dtype=np.float32)]
    x, y = (torch.tensor(n, requires_grad=True) for n in numbers)
    right = expression(TORCHS, x, y)
    right.pow(2).sum().backward()

    def value(x: fg.Tensor, y: fg.Tensor) -> fg.Tensor:
        return expression(OURS, x, y)

    def step(x: fg.Tensor, y: fg.Tensor) -> fg.Tensor:
        x, y = x.detach().requires_grad_(), y.detach().requires_grad_()
        made = value(x, y)
        made.pow(2).sum().backward()
        return made.detach(), x.grad, y.grad

    run = fg.jit(value if way == "jit" else step)
    for _ in range(4):
        ours = [fg.tensor(n, requires_grad=True) for n in numbers]
        if way == "jit of a step":
            found = run(*ours)
        else:
            made = run(*ours) if way == "jit" else value(*ours)
            made.pow(2).sum().backward()
            found = (made.detach(), *(t.grad for t in ours))
        for one, other in zip(found, (right, x.grad, y.grad), strict=True):
            np.testing.assert_allclose(one.numpy(), other.detach().numpy(), rtol=1e-5, atol=1e-6)
    if way != "eager":
        assert run.stats.compiled_calls >= 2, run.explain()


def test_a_whole_training_step_replays_with_an_op_of_scipys_between_kernels():
    weight = fg.ones(40, requires_grad=True)
    optimizer = fg.optim.SGD([weight], lr=0.1)

    @fg.jit
    def step(x: fg.Tensor) -> fg.Tensor:
        optimizer.zero_grad()
        loss = ((weight * OURS["bessel"](x.exp())).sin() - 1).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    x = fg.linspace(0, 2, 40)
    losses = [step(x).item() for _ in range(8)]
    assert step.stats.compiled_calls >= 6 and losses == sorted(losses, reverse=True)
    explained = str(step.explain())
    assert "ours__bessel" in explained and explained.count("fused kernel") <= 3


def test_what_has_no_formula_says_so():
    x = fg.ones(3, requires_grad=True)
    for run in (OURS["bessel"], fg.jit(lambda x: OURS["bessel"](x) * 2)):
        made = run(x)
        assert made.requires_grad
        with pytest.raises(RuntimeError, match="backward through ours::bessel but no autograd formula"):
            made.sum().backward()


def test_an_op_that_raises_raises_its_error():
    @fg.library.custom_op("ours::raises", mutates_args=())
    def raises(x: fg.Tensor) -> fg.Tensor:
        if x.sum().item() > 5:
            raise KeyError("too much")
        return x.clone()

    run = fg.jit(lambda x: raises(x * 2) + 1)
    for _ in range(3):
        assert run(fg.ones(2)).tolist() == [3, 3]
    with pytest.raises(KeyError, match="too much"):
        run(fg.ones(3))
    assert run(fg.ones(2)).tolist() == [3, 3]


@pytest.mark.parametrize("kind", [ValueError, TypeError, RuntimeError, ZeroDivisionError, KeyError, OSError])
def test_errors_are_the_users_own(kind: type[Exception]):
    error = kind("mine")

    @fg.library.custom_op("ours::fails", mutates_args=())
    def fails(x: fg.Tensor) -> fg.Tensor:
        raise error

    for run in (fails, fg.jit(lambda x: fails(x * 2))):
        with pytest.raises(kind) as found:
            run(fg.ones(2))
        assert found.value is error


@pytest.mark.parametrize("is_deferred", [False, True])
@pytest.mark.parametrize("fake", [False, True])
def test_types_that_values_decide_are_those_of_each_call(is_deferred: bool, fake: bool):
    """Kernels behind it are compiled for a shape and a dtype: another one is not read as if it were that."""

    @fg.library.custom_op("ours::positive", mutates_args=())
    def positive(x: fg.Tensor) -> fg.Tensor:
        found = x[x > 0].clone()
        return found.double() if len(found) == 6 else found

    if fake:  # a rule that is wrong
        positive.register_fake(lambda x: x.new_empty(5))
    texts: list[str] = []

    def function(x: fg.Tensor) -> fg.Tensor:
        if is_deferred:
            texts.append("called")
        return (positive(x * 1.0) * 2 + 1).tanh() * 3

    run = fg.jit(function)
    for count in (5, 5, 5, 5, 3, 0, 5, 6, 8, 1, 5):
        x = fg.where(fg.arange(8) < count, 1.0, -1.0)
        found, right = run(x), function(x)
        assert found.dtype is right.dtype and found.shape == (count,)
        fg.testing.assert_close(found, right)
    assert run.stats.compiled_calls >= 3


def test_memory_that_it_keeps_is_not_written():
    kept = fg.ones(100_000)

    @fg.library.custom_op("ours::kept", mutates_args=())
    def constant(x: fg.Tensor) -> fg.Tensor:
        return kept

    run = fg.jit(lambda x: (constant(x + 1) * 2 + 1).tanh() + x)
    for _ in range(4):
        run(fg.ones(100_000))
    assert run.stats.compiled_calls >= 2 and kept.sum().item() == 100_000


def test_what_it_reads_outside_is_read_at_each_call():
    """It should not, but then it is right, too: the function is called, and not what it did once."""
    factor = [1.0]

    @fg.library.custom_op("ours::outside", mutates_args=())
    def outside(x: fg.Tensor) -> fg.Tensor:
        return x * factor[0]

    run = fg.jit(lambda x: outside(x + 1))
    for factor[0] in (1.0, 2.0, 3.0, 4.0):
        assert run(fg.ones(2)).tolist() == [2 * factor[0]] * 2
    assert run.stats.compiled_calls >= 2


def test_results_have_memory_of_their_own_and_types_may_change():
    @fg.library.custom_op("ours::same", mutates_args=())
    def same(x: fg.Tensor) -> fg.Tensor:
        return x

    x = fg.ones(3)
    same(x).zero_()
    assert x.tolist() == [1, 1, 1]
    run = fg.jit(lambda x: same(x * 2))
    for size, dtype in ((3, fg.float32), (4, fg.float64), (3, fg.float32), (5, fg.float32), (3, fg.float64)):
        made = run(fg.ones(size, dtype=dtype))
        assert made.tolist() == [2.0] * size and made.dtype is dtype


def test_numpy_in_a_backward_is_never_a_wrong_gradient():
    """A backward in NumPy is no function of ops: compiled or not, its gradient is right."""

    @fg.library.custom_op("ours::squared", mutates_args=())
    def squared(x: fg.Tensor) -> fg.Tensor:
        return fg.from_numpy(x.numpy() ** 2)

    def backward(ctx: Any, g: fg.Tensor) -> fg.Tensor:
        return fg.from_numpy(2 * ctx.saved_tensors[0].detach().numpy() * g.numpy())

    squared.register_autograd(
        backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0])
    )
    run = fg.jit(lambda x: squared(x * 3).sin())
    for number in range(6):
        x = fg.full((4,), 0.1 * number, requires_grad=True)
        y = x.detach().requires_grad_()
        run(x).sum().backward()
        ((y * 3) ** 2).sin().sum().backward()
        fg.testing.assert_close(x.grad, y.grad, rtol=1e-5, atol=1e-6)


def test_defined_anew_and_by_name():
    for factor in (2, 3):

        @fg.library.custom_op("ours::anew", mutates_args=())
        def anew(x: fg.Tensor, factor: int = factor) -> fg.Tensor:
            return x * factor

        run = fg.jit(lambda x, anew=anew: anew(x) + 1)
        assert [run(fg.ones(1)).item() for _ in range(3)] == [factor + 1] * 3
    fg.library.register_autograd("ours::anew", lambda ctx, g: (g * 3, None))
    x = fg.ones(2, requires_grad=True)
    anew(x).sum().backward()
    assert x.grad.tolist() == [3, 3]
    with pytest.raises(TypeError, match="takes tensors, numbers, text"):
        anew(fg.ones(2), {})
    with pytest.raises(RuntimeError, match="no qualified name"):
        fg.library.custom_op("anew", mutates_args=())(lambda x: x)


def test_what_a_jitted_function_registers_is_registered_at_each_call():
    @fg.library.custom_op("ours::registered", mutates_args=())
    def registered(x: fg.Tensor) -> fg.Tensor:
        return x * 2

    @fg.jit
    def derived(x: fg.Tensor, factor: float) -> fg.Tensor:
        registered.register_autograd(lambda ctx, g: g * factor)
        return registered(x * 1.0)

    for factor in (2.0, 3.0, 4.0, 5.0, 6.0):
        x = fg.ones(2, requires_grad=True)
        derived(x, factor).sum().backward()
        assert x.grad.tolist() == [factor] * 2
        registered(x).sum().backward()
        assert x.grad.tolist() == [2 * factor] * 2


def test_an_op_that_writes_its_argument():
    @fg.library.custom_op("ours::filled", mutates_args={"x"})
    def filled(x: fg.Tensor, value: float) -> None:
        x.fill_(value)

    x = fg.ones(3)
    run = fg.jit(lambda x: filled(x, 2.0))
    for _ in range(3):
        run(x)
    assert x.tolist() == [2, 2, 2]


def test_batches():
    x, y = fg.randn(3, 4), fg.randn(3, 4)
    found = fg.vmap(OURS["scaled"])(x, y)
    fg.testing.assert_close(found, x * y * 2)
