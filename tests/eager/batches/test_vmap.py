"""`vmap` beside PyTorch's: derivatives in all orders, writes, custom Functions, dimensions, and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg
from fusegrad.eager.ops.batches import functions
from fusegrad.eager.ops.batches.batching import Batching

Library = Any


class World:
    """Tensors and functions of a library."""

    def __init__(self, library: Library) -> None:
        self.lib, self.func, self.vmap, self.grad = (
            library,
            library.func,
            library.func.vmap,
            library.func.grad,
        )
        self.row = library.tensor(np.linspace(0.1, 0.9, 4))
        self.rows = library.tensor(np.linspace(0.1, 1.0, 12).reshape(3, 4))
        self.leaf = library.tensor(np.linspace(-1, 2, 4), requires_grad=True)

    def many(self, x: Any) -> Any:
        return (x.sin() * self.lib.roll(x, 1, 0)).cumsum(0)

    def one(self, x: Any) -> Any:
        return (self.many(x) ** 2).sum()

    def of_two(self, w: Any, x: Any) -> Any:
        return (w * x).sin().sum() ** 2

    def written(self, x: Any) -> Any:
        copy = x.clone()
        copy[0] = x[1] * 2
        copy.mul_(x)
        copy[1:].add_(1)
        return copy

    def square(self) -> Any:
        world = self

        class Square(self.lib.autograd.Function):  # type: ignore[name-defined, misc]
            """Its gradient is none of the function's, so that it is seen whether it is asked."""

            generate_vmap_rule = True

            @staticmethod
            def forward(x: Any, w: Any, k: float) -> Any:
                return x * x * w, x * k

            @staticmethod
            def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
                x, w, ctx.k = inputs
                ctx.save_for_backward(x, w, output[0])

            @staticmethod
            def backward(ctx: Any, g: Any, h: Any) -> Any:
                x, _, out = ctx.saved_tensors
                return 3 * g * out + h * ctx.k, g * x.exp(), None

        return lambda x: world.lib.mul(*Square.apply(x, world.row, 2.0)).sum()

    def cube(self) -> Any:
        class Cube(self.lib.autograd.Function):  # type: ignore[name-defined, misc]
            @staticmethod
            def forward(x: Any) -> Any:
                return x**3

            @staticmethod
            def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
                ctx.save_for_backward(inputs[0])

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return 5 * g * ctx.saved_tensors[0]

            @staticmethod
            def vmap(info: Any, in_dims: Any, x: Any) -> Any:
                return Cube.apply(x.movedim(in_dims[0], 0)), 0

        return lambda x: Cube.apply(x).sum()


CASES: dict[str, Callable[[World], Any]] = {
    "jacrev": lambda w: w.func.jacrev(w.many)(w.row),
    "jacfwd": lambda w: w.func.jacfwd(w.many)(w.row),
    "jacrev in chunks": lambda w: w.func.jacrev(w.many, chunk_size=3)(w.row),
    "jacrev of a leaf": lambda w: w.func.jacrev(w.many)(w.leaf),
    "jacfwd of a leaf": lambda w: w.func.jacfwd(w.many)(w.leaf),
    "jacrev with aux": lambda w: w.func.jacrev(lambda x: (w.many(x), x * 2), has_aux=True)(w.row),
    "jacfwd with aux": lambda w: w.func.jacfwd(lambda x: (w.many(x), x * 2), has_aux=True)(w.row),
    "jacfwd of two": lambda w: w.func.jacfwd(lambda x, y: w.many(x * y), argnums=(0, 1))(w.row, w.row * 3),
    "hessian": lambda w: w.func.hessian(w.one)(w.row),
    "jacrev of jacrev": lambda w: w.func.jacrev(w.func.jacrev(w.one))(w.row),
    "vmap of hessian": lambda w: w.vmap(w.func.hessian(w.one))(w.rows),
    "vmap of jacfwd": lambda w: w.vmap(w.func.jacfwd(w.many))(w.rows),
    "vmap of jvp": lambda w: w.vmap(lambda x, t: w.func.jvp(w.many, (x,), (t,)))(w.rows, w.rows * 2),
    "vmap of vjp": lambda w: w.vmap(lambda x, t: w.func.vjp(w.many, x)[1](t))(w.rows, w.rows * 2),
    "vmap of a pull": lambda w: w.vmap(w.func.vjp(w.many, w.row)[1])(w.lib.eye(4, dtype=w.lib.float64)),
    "jacrev of vmap": lambda w: w.func.jacrev(w.vmap(w.one))(w.rows),
    "jacrev of vmap of grad": lambda w: w.func.jacrev(w.vmap(w.grad(w.one)))(w.rows),
    "jacfwd of vmap of grad": lambda w: w.func.jacfwd(w.vmap(w.grad(w.one)))(w.rows),
    "gradients of examples": lambda w: w.vmap(w.grad(w.of_two), (None, 0))(w.leaf, w.rows),
    "of plain weights": lambda w: w.vmap(w.grad(w.of_two), (None, 0))(w.row, w.rows),
    "their gradient": lambda w: w.lib.autograd.grad(
        w.vmap(w.grad(w.of_two), (None, 0))(w.leaf, w.rows).pow(2).sum(), w.leaf
    ),
    "nested": lambda w: w.vmap(w.vmap(w.grad(lambda x, y: (x * y).sin()), (None, 0)), (0, None))(
        w.row, w.row
    ),
    "autograd.grad": lambda w: _rows_of_a_graph(w, create_graph=False),
    "autograd.grad, derivable": lambda w: _rows_of_a_graph(w, create_graph=True),
    "is_grads_batched": lambda w: w.lib.autograd.grad(
        w.many(w.leaf), w.leaf, w.lib.eye(4, dtype=w.lib.float64), is_grads_batched=True
    ),
    "functional.jacobian": lambda w: w.lib.autograd.functional.jacobian(w.many, w.row, vectorize=True),
    "functional.hessian": lambda w: w.lib.autograd.functional.hessian(
        w.of_two, (w.row, w.row * 2), vectorize=True
    ),
    "no_grad within": lambda w: w.grad(lambda x: w.vmap(lambda r: _half_constant(w, r))(x).sum())(w.rows),
    "no_grad within grad": lambda w: w.vmap(w.grad(lambda r: _half_constant(w, r)))(w.rows),
    "detached": lambda w: w.grad(lambda x: w.vmap(lambda r: (w.row * r * r.detach()).sum())(x).sum())(w.rows),
    "writes": lambda w: w.vmap(w.written)(w.rows),
    "grad of writes": lambda w: w.grad(lambda x: w.vmap(w.written)(x).sum())(w.rows),
    "writes within grad": lambda w: w.vmap(w.grad(lambda r: w.written(r).sum()))(w.rows),
    "a write into an argument": lambda w: (w.vmap(lambda r: r.mul_(2))(w.rows), w.rows),
    "zeros_like": lambda w: w.vmap(lambda r: w.lib.zeros_like(r).add_(r))(w.rows),
    "rule of a Function": lambda w: w.vmap(w.square())(w.rows),
    "rule of a Function, grad within": lambda w: w.vmap(w.grad(w.square()))(w.rows),
    "rule of a Function, grad": lambda w: w.grad(lambda x: w.vmap(w.square())(x).sum())(w.rows),
    "rule of a Function, twice": lambda w: w.grad(
        lambda x: w.grad(lambda y: w.vmap(w.square())(y).sum())(x).sin().sum()
    )(w.rows),
    "vmap of a Function": lambda w: w.vmap(w.cube())(w.rows),
    "vmap of a Function, grad within": lambda w: w.vmap(w.grad(w.cube()))(w.rows),
    "vmap of a Function, grad": lambda w: w.grad(lambda x: w.vmap(w.cube())(x).sum())(w.rows),
    "constant": lambda w: w.vmap(lambda r: w.lib.ones(2))(w.rows),
    "dimensions": lambda w: w.vmap(lambda r: r * r, 1, 1)(w.rows),
    "structures": lambda w: w.vmap(
        lambda d: (d["x"].sum(), d["y"][0] * d["x"][0]), ({"x": 1, "y": (None,)},), (0, 1)
    )({"x": w.rows, "y": (w.row,)}),
    "in chunks": lambda w: w.vmap(lambda r: (r, r.sum()), chunk_size=2)(w.rows),
    "numbers of no dimension": lambda w: w.vmap(lambda a, b: a * b)(w.row.float(), w.lib.arange(4)),
    "a dtype of numbers": lambda w: w.vmap(lambda a, b: a + b, (0, None))(w.row.float(), w.row[:1]),
    "weights of convolutions": lambda w: w.vmap(
        w.grad(lambda c, i: (w.lib.nn.functional.conv2d(i, c, padding=1).tanh() ** 2).sum()), (None, 0)
    )(w.rows.reshape(1, 1, 3, 4), w.lib.stack([w.rows, w.rows * 2, w.rows - 1])[:, None, None]),
}


def _rows_of_a_graph(w: World, create_graph: bool) -> Any:
    y = w.many(w.leaf)
    return w.vmap(
        lambda v: w.lib.autograd.grad(y, w.leaf, v, retain_graph=True, create_graph=create_graph)[0]
    )(w.lib.eye(4, dtype=w.lib.float64))


def _half_constant(w: World, x: Any) -> Any:
    with w.lib.no_grad():
        tripled = x * 3
    return (x * tripled).sum()


def _leaves(value: Any) -> list[Any]:
    return [value] if hasattr(value, "shape") else [leaf for part in value for leaf in _leaves(part)]


@pytest.mark.parametrize("name", CASES)
def test_as_in_pytorch(name: str) -> None:
    run = CASES[name]
    for a, b in zip(_leaves(run(World(fg))), _leaves(run(World(torch))), strict=True):
        assert str(a.dtype) == str(b.dtype) and a.requires_grad == b.requires_grad
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), atol=1e-8)


ERRORS: dict[str, Callable[[Library], Any]] = {
    "item": lambda T: T.func.vmap(lambda x: x.item())(T.ones(3)),
    "if": lambda T: T.func.vmap(lambda x: x if x > 0 else -x)(T.ones(3)),
    "into one": lambda T: T.func.vmap(lambda x: T.zeros(3).add_(x))(T.ones(3, 3)),
    "into a part": lambda T: T.func.vmap(lambda x: T.zeros(3).__setitem__(0, x))(T.ones(3)),
    "random": lambda T: T.func.vmap(lambda x: T.rand(2) + x)(T.ones(3, 2)),
    "dropout": lambda T: T.func.vmap(lambda x: T.nn.functional.dropout(x))(T.ones(3, 2)),
    "nonzero": lambda T: T.func.vmap(lambda x: x.nonzero())(T.ones(3, 2)),
    "mask": lambda T: T.func.vmap(lambda x: x[x > 0])(T.ones(3, 2)),
    "numpy": lambda T: T.func.vmap(lambda x: x.numpy())(T.ones(3, 2)),
    "requires_grad_": lambda T: T.func.vmap(lambda x: x.requires_grad_())(T.ones(3, 2)),
    "sizes": lambda T: T.func.vmap(lambda x, y: x)(T.ones(3, 2), T.ones(2, 2)),
    "no examples": lambda T: T.func.vmap(lambda x: x, (None,))(T.ones(3, 2)),
    "no such dimension": lambda T: T.func.vmap(lambda x: x, 2)(T.ones(3, 2)),
    "no tensor": lambda T: T.func.vmap(lambda x: x)(3),
    "gives no tensor": lambda T: T.func.vmap(lambda x: 3)(T.ones(3)),
    "gives a batch as one": lambda T: T.func.vmap(lambda x: x, out_dims=None)(T.ones(3)),
    "out_dims": lambda T: T.func.vmap(lambda x: x, out_dims=(0, 0))(T.ones(3)),
    **{
        f"{name}, {how}": lambda T, draw=draw, how=how: T.func.vmap(lambda x: draw(T, x), randomness=how)(
            T.full((3, 2), 0.5)
        )
        for how in ("same", "error")
        for name, draw in {
            "normal numbers of own means": lambda T, x: T.normal(x, 1.0),
            "of own deviations": lambda T, x: T.normal(0.0, x),
            "of both": lambda T, x: T.normal(x, x),
            "Bernoulli's": lambda T, x: T.bernoulli(x),
            "Bernoulli's in place": lambda T, x: T.zeros(2).bernoulli_(x),
            "binomial ones": lambda T, x: T.binomial(x, T.full((2,), 0.5)),
        }.items()
    },
    "an index too large": lambda T: T.func.vmap(lambda x, i: x[i])(T.ones(3, 2), T.tensor([0, 5, 1])),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_those_of_pytorch(name: str) -> None:
    with pytest.raises(Exception) as expected:
        ERRORS[name](torch)
    with pytest.raises(expected.type):
        ERRORS[name](fg)


def test_a_tensor_that_has_left_its_vmap_is_refused() -> None:
    kept: list[fg.Tensor] = []
    fg.vmap(lambda x: (kept.append(x), x)[1])(fg.ones(2, 3))
    with pytest.raises(RuntimeError, match="vmap that has ended"):
        kept[0].sum()


def test_randomness() -> None:
    x = fg.zeros(5, 100)

    def drawn(how: str, **options: Any) -> fg.Tensor:
        fg.manual_seed(1)
        return fg.vmap(lambda r: r + fg.rand(100), randomness=how, **options)(x)

    assert (drawn("same") == drawn("same")[0]).all() and len(drawn("same")[0].unique()) == 100
    assert (drawn("same", chunk_size=2) == drawn("same")).all()
    assert len(drawn("different")[:, 0].unique()) == 5
    with pytest.raises(RuntimeError, match="same randomness with a batched"):
        fg.vmap(lambda r: fg.multinomial(r, 2), randomness="same")(x + 1)


def test_rows_without_a_rule_are_named() -> None:
    with pytest.warns(UserWarning, match="rule for histc"):
        found = fg.vmap(lambda x: fg.histc(x, 2, 0, 1))(fg.tensor([[0.1, 0.9], [0.1, 0.2]]))
    assert found.tolist() == [[1, 1], [2, 0]]


def test_hessians_take_one_batched_backward() -> None:
    """A count of ops, not of time: it does not grow with the dimension."""

    def count(n: int) -> int:
        class Counting(Batching):
            ops = 0

            def bind(self, op: Any, args: Any, params: Any) -> Any:
                Counting.ops += 1
                return super().bind(op, args, params)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("fusegrad.eager.ops.batches.batching.Batching", Counting)
            fg.func.hessian(lambda x: (x.sin() * x).sum())(fg.linspace(0, 1, n))
        return Counting.ops

    assert count(3) == count(30) > 0


def test_a_backward_in_python_goes_row_by_row() -> None:
    class Doubled(fg.autograd.Function):
        @staticmethod
        def forward(x: fg.Tensor) -> fg.Tensor:
            return x * 2

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

        @staticmethod
        def backward(ctx: Any, g: fg.Tensor) -> fg.Tensor:
            return fg.tensor(g.numpy() * 2)

    assert fg.func.jacrev(Doubled.apply)(fg.ones(3)).tolist() == (fg.eye(3) * 2).tolist()


def test_checkpoints_within() -> None:
    """Which PyTorch refuses: it has no saved-tensor hooks there."""
    w = World(fg)
    run = w.grad(lambda r: fg.utils.checkpoint.checkpoint(w.one, r, use_reentrant=False))
    assert fg.allclose(w.vmap(run)(w.rows), w.vmap(w.grad(w.one))(w.rows))


def test_ensembles() -> None:
    models = [fg.nn.Linear(4, 2) for _ in range(3)]
    params, buffers = fg.func.stack_module_state(models)
    x = fg.randn(5, 4)
    found = fg.vmap(lambda p: fg.func.functional_call(models[0], (p, buffers), (x,)))(params)
    assert fg.allclose(found, fg.stack([m(x) for m in models]), atol=1e-6)
    assert buffers == {} and params["weight"].requires_grad and params["weight"].is_leaf
    with pytest.raises(RuntimeError, match="same class"):
        fg.func.stack_module_state([models[0], fg.nn.ReLU()])


# With `jit`, both ways.

SCALE = [2.0]
WEIGHTS = fg.linspace(-1, 1, 4, dtype=fg.float64)
JITTED: dict[str, Callable[[fg.Tensor], fg.Tensor]] = {
    "values": lambda x: fg.vmap(lambda r: fg.tanh(r * WEIGHTS) * SCALE[0])(x).sum(),
    "gradients": lambda x: fg.vmap(fg.func.grad(lambda r: (fg.tanh(r * WEIGHTS) ** 2).sum()))(x),
    "a Hessian": lambda x: fg.func.hessian(lambda r: (fg.tanh(r * WEIGHTS) ** 2).sum())(x[0]),
    "of weights": lambda x: fg.vmap(fg.func.grad(lambda w, r: (w * r).sin().sum()), (None, 0))(WEIGHTS, x),
    "writes": lambda x: fg.vmap(World(fg).written)(x),
    "random": lambda x: fg.vmap(lambda r: r * fg.rand(4), randomness="different")(x),
}


@pytest.mark.parametrize("name", JITTED)
def test_jitted(name: str) -> None:
    function = JITTED[name]
    jitted = fg.jit(function)
    for k in range(4):
        SCALE[0] = 2.0 + k // 2
        x = World(fg).rows + k
        a, b = (x.clone().requires_grad_() for _ in range(2))
        fg.manual_seed(k)
        expected = function(a)
        fg.manual_seed(k)
        found = jitted(b)
        assert fg.allclose(expected, found) and expected.requires_grad == found.requires_grad
        if expected.requires_grad:
            pair = [fg.autograd.grad(y.sin().sum(), z)[0] for y, z in ((expected, a), (found, b))]
            assert fg.allclose(*pair)
    assert jitted.stats.compiled_calls


def test_of_jitted_functions() -> None:
    jitted = fg.jit(lambda r: fg.tanh(r * WEIGHTS) * r.sum())
    rows = World(fg).rows
    plain = jitted.__wrapped__
    for _ in range(3):
        assert fg.allclose(fg.vmap(jitted)(rows), fg.vmap(plain)(rows))
        assert fg.allclose(fg.func.jacrev(jitted)(rows[0]), fg.func.jacrev(plain)(rows[0]))
        leaf = rows[0].clone().requires_grad_()
        out = jitted(leaf)
        found = fg.autograd.grad(out, leaf, fg.eye(4, dtype=fg.float64), is_grads_batched=True)[0]
        assert fg.allclose(found, fg.func.jacrev(plain)(rows[0]))


def test_a_planted_fault_in_the_rule_of_functions_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        functions, "_gradient", lambda inner, g, many: None if g is None else inner.with_batch(g) * 2
    )
    with pytest.raises(AssertionError):
        test_as_in_pytorch("rule of a Function, grad")
