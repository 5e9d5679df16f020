"""Activations."""

from __future__ import annotations

from op_samples.table import add, f, functional, i

functional("silu mish elu celu hardtanh softplus hardshrink softshrink hardswish leaky_relu gelu")
functional("hardsigmoid", second=False, single=True)
add("softplus", lambda fg, x: fg.nn.functional.softplus(x, 2.0, 1.0), f(3, 4))
add("log_sigmoid", lambda fg, x: fg.nn.functional.logsigmoid(x), f(3, 4))
add("gelu_tanh", lambda fg, x: fg.nn.functional.gelu(x, approximate="tanh"), f(3, 4))
add("elu", lambda fg, x: fg.selu(x), f(3, 4))
add("hardtanh", lambda fg, x: fg.nn.functional.relu6(x * 5), f(3, 4))
add("tanh", lambda fg, x: fg.nn.functional.softsign(x), f(3, 4))
for _dim in (0, 1, -1):
    add("softmax", lambda fg, x, d=_dim: fg.softmax(x, d), f(3, 4))
    add("log_softmax", lambda fg, x, d=_dim: fg.log_softmax(x, d), f(3, 4))
add("softmax", lambda fg, x: fg.softmax(x, 0), f())
add("threshold", lambda fg, x: fg.nn.functional.threshold(x, 0.5, 2.0), f(3, 4))
add("threshold", lambda fg, x: fg.nn.functional.threshold(x, -1.5, 7.5), i(6, low=-3))
add("hardtanh", lambda fg, x: fg.nn.functional.hardtanh(x, -1, 1), i(6, low=-3))
add("relu", lambda fg, x: fg.relu(x), i(6, low=-3))
add("prelu", lambda fg, x, w: fg.nn.functional.prelu(x, w), f(2, 3, 4), f(3))
add("prelu", lambda fg, x, w: fg.prelu(x, w), f(3, 4), f(1))
add("leaky_relu", lambda fg, x: fg.nn.functional.rrelu(x), f(3, 4))
