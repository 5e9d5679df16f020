"""What must not pass: each line that is marked has an error that both checkers report."""

from __future__ import annotations

import fusegrad as fg
from fusegrad import nn, optim
from fusegrad.nn import functional as F


@fg.jit
def energy(x: fg.Tensor, power: int) -> fg.Tensor:
    return (x**power).sum()


x = fg.ones(3)
energy(x, "2")  # error
energy(x)  # error
energy(x, 2).no_such_method()  # error
x.no_such_method()  # error
fg.no_such_function(x)  # error
F.no_such_function(x)  # error
fg.tanh(x, 1)  # error
fg.sum(x, dimension=0)  # error
nn.functional.relu(x, "yes")  # error
optim.Adam([x], no_such_option=1)  # error
nn.Linear(3)  # error
nn.ReLU(no_such_option=1)  # error
text: str = fg.tanh(x)  # error
number: int = energy(x, 2)  # error
fg.jit(verify="often")  # error
fg.export(x)  # error
