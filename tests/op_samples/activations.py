"""Activations."""

from __future__ import annotations

from op_samples.table import add, f, functional

functional("silu elu celu hardtanh softplus hardshrink softshrink hardswish leaky_relu gelu")
functional("hardsigmoid", second=False, single=True)
add("softplus", lambda fg, x: fg.nn.functional.softplus(x, 2.0, 1.0), f(3, 4))
add("log_sigmoid", lambda fg, x: fg.nn.functional.logsigmoid(x), f(3, 4))
add("gelu_tanh", lambda fg, x: fg.nn.functional.gelu(x, approximate="tanh"), f(3, 4))
add("elu", lambda fg, x: fg.selu(x), f(3, 4))
add("hardtanh", lambda fg, x: fg.nn.functional.relu6(x * 5), f(3, 4))
add("tanh", lambda fg, x: fg.nn.functional.mish(x) + fg.nn.functional.softsign(x), f(3, 4))
for _dim in (0, 1, -1):
    add("softmax", lambda fg, x, d=_dim: fg.softmax(x, d), f(3, 4))
    add("log_softmax", lambda fg, x, d=_dim: fg.log_softmax(x, d), f(3, 4))
add("softmax", lambda fg, x: fg.softmax(x, 0), f())
