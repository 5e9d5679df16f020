"""Creation and random numbers."""

from __future__ import annotations

import numpy as np

from op_samples.table import add, f

add("full", lambda fg: fg.full((2, 3), 1.5) + fg.zeros(3) + fg.ones(2, 1))
add("full", lambda fg: fg.full((2,), 1j) + fg.scalar_tensor(2))
add("arange", lambda fg: fg.arange(2, 11, 3))
add("arange", lambda fg: fg.arange(0, 1, 0.25))
add("arange", lambda fg: fg.eye(3, 2))
add("arange", lambda fg: fg.arange(-0.9, 2.1, 2.0, dtype=fg.int64))
add("linspace", lambda fg: fg.linspace(0, 1, 7))
add("linspace", lambda fg: fg.linspace(4.3, -3, 50, dtype=fg.int64))
add("linspace", lambda fg: fg.linspace(2, 5, 1))
add("linspace", lambda fg: fg.logspace(0, 2, 5))
for _name in ("rand", "randn"):
    add(_name, lambda fg, n=_name: getattr(fg, n)(3, 4), random=True)
add("randint", lambda fg: fg.randint(3, 9, (3, 4)), random=True)
for _name in ("exponential_", "cauchy_", "log_normal_", "uniform_", "random_", "bernoulli_"):
    _call = lambda fg, n=_name: getattr(fg.zeros(5), n)()  # noqa: E731
    add({"log_normal_": "randn", "random_": "randint"}.get(_name, "rand"), _call, random=True)
add("rand", lambda fg: fg.zeros(5, dtype=fg.int64).geometric_(0.5), random=True)
add("randn", lambda fg: fg.normal(1.0, 2.0, (2, 3)), random=True)
add("randperm", lambda fg: fg.randperm(7), random=True)
add("poisson", lambda fg, x: fg.poisson(x), f(2, 3, low=0.5), random=True, gradients=False)
add(
    "binomial",
    lambda fg, n, p: fg.binomial(n, p),
    f(3, low=1.0, high=1.0),
    f(3, low=0.1, high=0.9),
    random=True,
    gradients=False,
)
add(
    "class_draw",
    lambda fg, x: fg.distributions.Categorical(x).sample(),
    np.arange(1.0, 11.0).reshape(2, 5),
    random=True,
    gradients=False,
)
add("multinomial", lambda fg, x: fg.multinomial(x, 3), f(2, 5, low=0.1), random=True, gradients=False)
add(
    "log_gamma_draw",
    lambda fg, x: fg.distributions.Gamma(x, 1.0).rsample(),
    f(2, 3, low=0.5),
    random=True,
    gradients=False,
)


def _slopes_of_draws(fg, x):
    x = x.detach().clone().requires_grad_()
    return fg.autograd.grad(fg.distributions.Gamma(x, 1.0).rsample().sum(), x)[0]


add("log_gamma_draw_gradient", _slopes_of_draws, f(2, 3, low=0.5), random=True, gradients=False)
