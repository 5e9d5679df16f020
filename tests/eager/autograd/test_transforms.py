"""Functional transforms, gradcheck and the modes, against torch."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg


def plain(value):
    """Nested containers with lists in place of tensors."""
    if isinstance(value, (fg.Tensor, torch.Tensor)):
        return np.array((value.detach() + 0).tolist())  # torch has zeros without memory
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return tuple(plain(v) for v in value)
    return value


def agree(a, b):
    assert type(a) is type(b)
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        for k in a:
            agree(a[k], b[k])
    elif isinstance(a, tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            agree(x, y)
    elif isinstance(a, np.ndarray):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-9)
    else:
        assert a == b


def same(program):
    """Run `program(lib, lib.func, T)` in both libraries and compare the results; T makes a float64 tensor."""
    results = []
    for lib in (fg, torch):

        def make(values, lib=lib):
            return lib.tensor(values, dtype=lib.float64)

        results.append(plain(program(lib, lib.func, make)))
    agree(*results)
    return results[0]


SCALAR = {
    "cubes": lambda lib, x: (x**3).sum(),
    "mixed": lambda lib, x: (lib.sin(x) * x.exp()).sum() * x[0],
    "products": lambda lib, x: (x[:1] * x[1:]).sum() + lib.tanh(x).prod(),
    "constant": lambda lib, x: (x * 0 + 2).sum(),
}


@pytest.mark.parametrize("name", SCALAR)
def test_second_order_in_every_way(name):
    f = SCALAR[name]

    def program(lib, func, make):
        def g(x):
            return f(lib, x)

        x = make([0.3, 0.7, 1.2])
        v = make([1.0, -2.0, 0.5])
        hessian = func.hessian(g)(x)
        return (
            func.grad(g)(x),
            hessian,
            func.jacrev(func.jacrev(g))(x),
            func.jacfwd(func.jacfwd(g))(x),
            func.jacrev(func.grad(g))(x),
            func.jvp(func.grad(g), (x,), (v,)),  # forward over reverse
            func.grad(lambda x: func.jvp(g, (x,), (v,))[1])(x),  # reverse over forward
            func.grad(lambda x: (func.grad(g)(x) * v).sum())(x),
            func.vjp(func.grad(g), x)[1](v),
            func.jacrev(lambda x: func.vjp(g, x)[1](make(2.0))[0])(x),
            func.jvp(lambda x: func.jvp(g, (x,), (v,))[1], (x,), (v,)),
            func.grad(lambda x: func.grad(lambda y: (func.grad(g)(y) * v).sum())(x).sum())(x),
        )

    found = same(program)
    np.testing.assert_allclose(found[1], found[3], atol=1e-9)


def test_perturbations_are_not_confused():
    def program(lib, func, make):
        def outer(x):
            return x * func.grad(lambda y: x + y)(make(1.0))

        def nested(x):
            return func.grad(lambda y: x * y * y)(x) * x

        return (
            func.grad(outer)(make(5.0)),
            func.grad(nested)(make(3.0)),
            func.jvp(outer, (make(2.0),), (make(1.0),)),
            func.grad(lambda x: func.jvp(lambda y: x * y, (x,), (make(1.0),))[1])(make(4.0)),
        )

    same(program)


def test_containers_argnums_and_aux():
    def program(lib, func, make):
        def f(p, x, scale=1.0):
            hidden = lib.tanh(x @ p["w"] + p["b"])
            return (hidden**2).sum() * scale, {"hidden": hidden}

        p = {"w": make([[0.1, 0.2], [0.3, 0.4]]), "b": make([0.5, 0.6])}
        x = make([[1.0, 2.0]])
        single = lambda *a: f(*a)[0]  # noqa: E731
        return (
            func.grad(f, has_aux=True)(p, x),
            func.grad(single, argnums=(0, 1))(p, x),
            func.grad(single, argnums=1)(p, x),
            func.grad(f, has_aux=True)(p, x, scale=3.0),
            func.grad_and_value(single)(p, x),
            func.grad_and_value(f, argnums=(1,), has_aux=True)(p, x),
            func.vjp(lambda p: {"out": p["w"] * 2, "b": p["b"]}, p)[0],
            func.vjp(lambda p, x: (p["w"] @ x.T, x), p, x)[1]((make([[1.0], [2.0]]), x)),
            func.jacrev(lambda a, b: {"s": a * b, "t": (a.sum(), b)}, argnums=(0, 1))(x, x),
            func.jacfwd(lambda a, b: {"s": a * b, "t": (a.sum(), b)}, argnums=(0, 1))(x, x),
            func.jacrev(lambda a: (a * 2, a), has_aux=True)(x),
            func.jacfwd(lambda a: (a * 2, a), has_aux=True)(x),
            func.jvp(lambda p: {"y": p["w"].sin(), "c": make([1.0])}, (p,), (p,)),
            func.jvp(lambda x: (x * 2, x), (x,), (x,), has_aux=True),
            func.hessian(lambda a, b: (a * a * b).sum(), argnums=(0, 1))(x, x),
        )

    same(program)


def test_what_surrounds_a_transform():
    def program(lib, func, make):
        w = make(2.0).requires_grad_()
        g = func.grad(lambda a: a * a * w)(make(3.0))
        g.backward()
        x = make(3.0).requires_grad_()
        value, pull = func.vjp(lambda a: a**3, x)
        (first,) = pull(make(1.0))
        first.backward()
        inner, outer = w.grad, x.grad
        x.grad = None
        tangent = func.jvp(lambda a: a**3, (x,), (make(2.0),))[1]
        tangent.backward()
        with lib.no_grad():
            quiet = func.grad(lambda a: a * a * w)(x)
        return g, inner, outer, first, tangent, x.grad, value, quiet, quiet.requires_grad

    same(program)


def test_results_have_no_graph_where_nobody_asks():
    x = fg.tensor([1.0, 2.0])
    (value, aux), g = fg.value_and_grad(lambda x: ((x * x).sum(), x * 3), has_aux=True)(x)
    assert not (value.requires_grad or aux.requires_grad or g.requires_grad or x.requires_grad)
    # Leaves of an inner transform that has ended do not keep the outer one's results on a graph.
    c = fg.tensor(2.0)
    g = fg.grad(lambda x: fg.grad(lambda y: y * y * x)(c))(fg.tensor(3.0))
    assert g.item() == 4.0 and not g.requires_grad
    assert fg.hessian(lambda x: (x**3).sum())(x).requires_grad is False


def test_errors():
    x = fg.tensor([1.0, 2.0])
    with pytest.raises(RuntimeError, match="scalar"):
        fg.grad(lambda x: x)(x)
    with pytest.raises(RuntimeError, match="argnum"):
        fg.grad(lambda x: x.sum(), argnums=2)(x)
    with pytest.raises(RuntimeError, match="floating point"):
        fg.grad(lambda x: x.sum())(fg.tensor([1, 2]))
    with pytest.raises(RuntimeError, match="tuple of two"):
        fg.grad(lambda x: x.sum(), has_aux=True)(x)
    with pytest.raises(RuntimeError, match="structure"):
        fg.vjp(lambda x: (x, x), x)[1](x)
    with pytest.raises(RuntimeError, match="shape"):
        fg.jvp(lambda x: x, (x,), (fg.ones(3),))
    with pytest.raises(RuntimeError, match="independent"):
        fg.jvp(lambda x: fg.ones(2), (x,), (x,), strict=True)


def test_grad_of_tensors_and_of_functions():
    x = fg.tensor(3.0, requires_grad=True)
    assert fg.grad(x * x, x)[0].item() == 6.0
    assert fg.grad(lambda a, b: a * b, 1)(x.detach(), fg.tensor(2.0)).item() == 3.0
    assert fg.grad(lambda a, b: a * b, argnums=(0, 1))(x.detach(), fg.tensor(2.0))[0].item() == 2.0
    module = fg.nn.Linear(2, 1)
    assert fg.grad(lambda v: module(v).sum())(fg.ones(2)).tolist() == module.weight[0].tolist()


def test_jitted_functions():
    f = fg.jit(lambda x, w: (fg.tanh(x * w) * x).sum())
    derived = fg.value_and_grad(f, argnums=(0, 1))
    x, w = fg.tensor([0.5, 1.0]), fg.tensor([2.0, 3.0])
    expected = fg.value_and_grad(f.__wrapped__, argnums=(0, 1))(x, w)
    for _ in range(4):
        agree(plain(derived(x, w)), plain(expected))
    assert f.stats.compiled_calls == 3
    agree(plain(fg.hessian(f)(x, w)), plain(fg.hessian(f.__wrapped__)(x, w)))
    agree(plain(fg.jvp(f, (x, w), (w, x))), plain(fg.jvp(f.__wrapped__, (x, w), (w, x))))
    for transform in (fg.grad, fg.hessian):
        plainly = transform(lambda x: (fg.sin(x) * x).sum())
        compiled = fg.jit(transform(lambda x: (fg.sin(x) * x).sum()))
        for _ in range(3):
            agree(plain(compiled(x)), plain(plainly(x)))


def test_scipy_takes_a_value_and_grad():
    optimize = pytest.importorskip("scipy.optimize")
    rosenbrock = fg.value_and_grad(lambda x: (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum())

    def objective(x):
        value, gradient = rosenbrock(fg.tensor(x, dtype=fg.float64))
        return value.item(), gradient.numpy()

    found = optimize.minimize(objective, np.zeros(4), jac=True, method="L-BFGS-B")
    np.testing.assert_allclose(found.x, np.ones(4), atol=1e-4)


def test_functional_call():
    results = []
    for lib in (fg, torch):
        net = lib.nn.Sequential(lib.nn.Linear(2, 3), lib.nn.Tanh(), lib.nn.Linear(3, 1))
        weights = {n: lib.linspace(0.1, 0.9, p.numel()).reshape(p.shape) for n, p in net.named_parameters()}
        before = [p.tolist() for p in net.parameters()]

        def loss(weights, x, lib=lib, net=net):
            return (lib.func.functional_call(net, weights, (x,)) ** 2).mean()

        x = lib.tensor([[1.0, 2.0], [3.0, 4.0]])
        results.append(plain((lib.func.grad(loss)(weights, x), lib.func.functional_call(net, weights, x))))
        assert [p.tolist() for p in net.parameters()] == before
        with pytest.raises(RuntimeError):
            lib.func.functional_call(net, {"wrong": x}, x, strict=True)
    agree(*[plain(r) for r in results])


def test_autograd_functional():
    def program(lib, func, make):
        F = lib.autograd.functional
        x, y = make([0.5, 1.5]), make([2.0, 3.0])
        v = make([1.0, -1.0])

        def f(x, y):
            return x * y.exp(), (x * x).sum()

        def s(x, y):
            return (x**3 * y).sum()

        return (
            F.jacobian(f, (x, y)),
            F.jacobian(lambda x: x * 2, x),
            F.jacobian(lambda x: (x * 2,), (x,)),
            F.hessian(s, (x, y)),
            F.hessian(lambda x: (x**3).sum(), x),
            F.vjp(f, (x, y), (v, make(2.0))),
            F.vjp(s, (x, y)),
            F.jvp(f, (x, y), (v, v)),
            F.hvp(s, (x, y), (v, v)),
            F.vhp(s, (x, y), (v, v)),
            F.vhp(lambda x: (x**3).sum(), x, v),
        )

    same(program)
    x = fg.tensor([1.0, 2.0], requires_grad=True)
    g = fg.autograd.functional.jacobian(lambda x: x**2, x, create_graph=True)
    g.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    for call in (
        lambda F, x: F.vjp(lambda x: x, x),
        lambda F, x: F.hessian(lambda x: x, x),
        lambda F, x: F.jacobian(lambda x: fg.ones(2), x, strict=True),
    ):
        with pytest.raises(RuntimeError):
            call(fg.autograd.functional, x)


def test_gradcheck():
    x = fg.tensor([0.3, 0.7], dtype=fg.float64, requires_grad=True)
    z = fg.tensor([0.3 + 1j, 0.7 - 2j], dtype=fg.complex128, requires_grad=True)
    assert fg.autograd.gradcheck(lambda x: (x.sin() * x, x.exp()), x)
    assert fg.autograd.gradcheck(lambda x, w: (x * w).sum(), (x, 2.0))
    assert fg.autograd.gradcheck(lambda z: z * 2 + z, z)
    assert fg.autograd.gradgradcheck(lambda x: x**3 * x.tanh(), x)

    class Wrong(fg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 3

    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        fg.autograd.gradcheck(Wrong.apply, x)
    assert not fg.autograd.gradcheck(Wrong.apply, x, raise_exception=False)
    with pytest.raises(ValueError):
        fg.autograd.gradcheck(fg.sin, x.detach())


# Modes.


# The graph is freed as it is used.


REFUSED = {
    "argnums beyond": (lambda f, x: f.grad(lambda x: x.sum(), argnums=1)(x), "but only 1 positional"),
    "argnums of floats": (lambda f, x: f.jacrev(lambda x: x, argnums=0.0)(x), "must be int or Tuple"),
    "argnums, a list": (lambda f, x: f.jacfwd(lambda x: x, argnums=[0])(x), "must be int or Tuple"),
    "argnums, strings": (lambda f, x: f.grad(lambda x: x.sum(), argnums=("0",))(x), "must be int"),
    "argnums twice": (lambda f, x: f.jacrev(lambda x, y: x, argnums=(0, -2))(x, x), "must be unique"),
    "no argnums": (lambda f, x: f.jacrev(lambda x: x, argnums=())(x), "must be non-empty"),
    "no output": (lambda f, x: f.vjp(lambda x: None, x), "that has non-empty output"),
    "empty output": (
        lambda f, x: f.jacfwd(lambda x: ())(x),
        "that has non-empty output",
    ),
    "outputs that are no tensors": (lambda f, x: f.vjp(lambda x: 1, x), "to return only tensors"),
    "aux that is not there": (lambda f, x: f.grad(lambda x: [x, x], has_aux=True)(x), "output of function f"),
    "primals, no tuple": (lambda f, x: f.jvp(lambda x: x, x, (x,)), "Expected primals to be a tuple"),
    "other tangents": (lambda f, x: f.jvp(lambda x: x, (x,), (x, x)), "same python structure"),
    "primals of numbers": (lambda f, x: f.jvp(lambda x: x, (1.0,), (x,)), "only contain Tensors"),
    "no primals": (lambda f, x: f.jvp(lambda: 1, (), ()), "at least one Tensor"),
    "complex inputs": (lambda f, x: f.jacrev(lambda x: x.conj())(x + 0j), "Expected all inputs to be real"),
    "complex outputs": (lambda f, x: f.jacfwd(lambda x: x * 1j)(x), "Expected all outputs to be real"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_transforms_refuse_in_torchs_words(name):
    call, words = REFUSED[name]
    for lib in (torch, fg):
        with pytest.raises(RuntimeError, match=words):
            call(lib.func, lib.tensor([1.0, 2.0]))


STRICT = {
    "no gradient": (
        lambda f, x: f.vhp(lambda x: x.detach().sum(), x, x, strict=True),
        "Output 0 of the user-provided",
    ),
    "no tensor": (
        lambda f, x: f.jvp(lambda x: 1, x, x),
        "outputs of the user-provided function given to jvp must",
    ),
    "inputs of hvp": (
        lambda f, x: f.hvp(lambda x: x, (x, 2), x),
        "inputs given to hvp must be either a Tensor",
    ),
    "two outputs": (
        lambda f, x: f.vhp(lambda x: (x, x), x, x),
        "function given to vhp should return a single Tensor",
    ),
    "a vector": (
        lambda f, x: f.hvp(lambda x: x, x, x),
        "function given to hvp should contain a single element",
    ),
    "no v": (lambda f, x: f.vjp(lambda x: x, x), "if the user-provided function returns a single Tensor"),
    "no v of an input": (
        lambda f, x: f.jvp(lambda x: x, x),
        "if the input to the user-provided function is a single",
    ),
    "too many v": (lambda f, x: f.jvp(lambda x: x, x, (x, x)), "The given v should contain a single Tensor"),
    "another v": (lambda f, x: f.jvp(lambda x: x, x, x[:1]), "v has invalid size:"),
    "a constant jacobian": (
        lambda f, x: f.hvp(lambda x: (3 * x).sum(), x, x, strict=True),
        "jacobian of the user-provided function with respect to input 0 is",
    ),
}


@pytest.mark.parametrize("name", STRICT)
def test_what_functional_refuses_in_torchs_words(name):
    call, words = STRICT[name]
    for lib in (torch, fg):
        with pytest.raises((RuntimeError, TypeError), match=words):
            call(lib.autograd.functional, lib.tensor([1.0, 2.0]))
