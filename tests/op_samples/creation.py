"""Creation and random numbers."""

from __future__ import annotations

from op_samples.table import add, f

add("full", lambda fg: fg.full((2, 3), 1.5) + fg.zeros(3) + fg.ones(2, 1))
add("arange", lambda fg: fg.arange(2, 11, 3))
add("arange", lambda fg: fg.arange(0, 1, 0.25))
add("arange", lambda fg: fg.eye(3, 2))
add("linspace", lambda fg: fg.linspace(0, 1, 7))
add("linspace", lambda fg: fg.logspace(0, 2, 5))
for _name in ("rand", "randn"):
    add(_name, lambda fg, n=_name: getattr(fg, n)(3, 4), random=True)
add("randint", lambda fg: fg.randint(3, 9, (3, 4)), random=True)
add("randperm", lambda fg: fg.randperm(7), random=True)
add("multinomial", lambda fg, x: fg.multinomial(x, 3), f(2, 5, low=0.1), random=True, gradients=False)
