"""Elementwise ops."""

from __future__ import annotations

import numpy as np

from op_samples.table import add, b, binary, f, i, unary

unary(
    "neg abs square exp exp2 expm1 sin cos tan sinh cosh tanh sigmoid erf erfc asinh atan relu frac sinc sign"
)
unary("floor ceil trunc round", second=False)
unary("log log2 log10 log1p sqrt rsqrt reciprocal", low=0.5, high=3.0)
unary("asin acos atanh erfinv", low=-0.9, high=0.9)
unary("acosh", low=1.2, high=3.0)
unary("logit", low=0.1, high=0.9)
unary("isnan isinf isfinite logical_not", gradients=False)
add("isnan", lambda fg, x: fg.isnan(x / x), np.array([0.0, 1.0, 0.0]), gradients=False)
add("isinf", lambda fg, x: fg.isinf(1 / x), np.array([0.0, 1.0, -0.0]), gradients=False)
binary("add sub mul atan2 maximum minimum hypot logaddexp logaddexp2 fmax fmin")
binary("copysign", second=False)
binary("heaviside nextafter", gradients=False)
unary("lgamma", low=0.3, high=4.0)
unary("digamma", low=0.3, high=4.0, single=True)
unary("signbit", gradients=False)
binary("div", low=0.5, high=2.0)
binary("xlogy", low=0.3, high=2.0)
binary("eq ne lt le gt ge logical_and logical_or logical_xor", gradients=False)
binary("remainder fmod", low=0.4, high=3.0)
binary("floor_divide", low=0.4, high=3.0, gradients=False)
add("add", lambda fg, x, y: fg.add(x, y, alpha=2), f(3), f(3))
add("div", lambda fg, x, y: fg.div(x, y, rounding_mode="trunc"), f(5), f(5, low=0.5), second=False)
add("remainder", lambda fg, x, y: x % y, np.array([5, -5, 5, -5]), np.array([3, 3, -3, -3]))
add("fmod", lambda fg, x, y: fg.fmod(x, y), np.array([5, -5, 5, -5]), np.array([3, 3, -3, -3]))
add(
    "maximum",
    lambda fg, x, y: fg.maximum(x, y),
    np.array([1.0, 2.0, 2.0]),
    np.array([2.0, 2.0, 1.0]),
    second=False,
)
for _name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    add(_name, lambda fg, x, y, name=_name: getattr(fg, name)(x, y), i(3, 4), i(4))
    add(_name, lambda fg, x, y, name=_name: getattr(fg, name)(x, y), b(3, 4), b(4))
add("bitwise_not", lambda fg, x: ~x, i(3, 4))
add("bitwise_not", lambda fg, x: ~x, b(3, 4))
for _exponent in (0, 1, 2, 3, 4, 5, 0.5, -1, -2.5):
    add("pow_number", lambda fg, x, e=_exponent: x**e, f(3, 4, low=0.5, high=2.0))
add("pow_number", lambda fg, x: x**2, i(5, low=-3))
add("pow", lambda fg, x, y: fg.pow(x, y), f(3, 4, low=0.5, high=2.0), f(4))
add("pow", lambda fg, x: 2**x, f(3, 4))
add("where", lambda fg, c, x, y: fg.where(c, x, y), b(3, 4), f(3, 4), f(4))
add("where", lambda fg, c, x: fg.where(c, x, 0.0), b(3, 4), f(3, 1))
add("where", lambda fg, x: fg.masked_fill(x, x > 0, 5.0), f(3, 4))
add("where", lambda fg, x: fg.tril(x, 1) + fg.triu(x), f(4, 3))
add("nan_to_num", lambda fg, x: fg.nan_to_num(x / x), np.array([0.0, 1.0]), gradients=False)
add("nan_to_num", lambda fg, x: fg.nan_to_num(1 / x, 1.0, 2.0), np.array([0.0, -0.0, 4.0]), gradients=False)
add("nan_to_num", lambda fg, x: fg.nan_to_num(x, 1.0, 2.0), f(3, 4))
add("cast", lambda fg, x: x.to(fg.float64), f(3, 4))
add("cast", lambda fg, x: x.to(fg.int64), f(3, 4), gradients=False)
add("cast", lambda fg, x: x.to(fg.bool), i(3, 4))
add("clone", lambda fg, x: x.clone(), f(3, 4))
add("clamp", lambda fg, x: fg.clamp(x, -0.5, 1), f(3, 4))
add("clamp", lambda fg, x: fg.clamp(x, min=0.25), f(3, 4))
add("clamp", lambda fg, x: fg.clamp(x, max=0.25), f(3, 4))
add("clamp", lambda fg, x: fg.clamp(x, 1, 3), i(6))
add("addcmul", lambda fg, x, y, z: fg.addcmul(x, y, z, value=0.5), f(3, 4), f(4), f(3, 1))
add("addcmul", lambda fg, x, y, z: fg.addcmul(x, y, z, value=2.5), i(3, 4), i(4), i(3, 1))
add("addcdiv", lambda fg, x, y, z: fg.addcdiv(x, y, z, value=0.5), f(3, 4), f(4), f(3, 1, low=0.5))
add("lerp", lambda fg, x, y: fg.lerp(x, y, 0.3), f(3, 4), f(4))
add("lerp", lambda fg, x, y, w: fg.lerp(x, y, w), f(3, 4), f(3, 4), f(3, 4, low=0, high=1))
for _name in ("gcd", "lcm", "bitwise_left_shift", "bitwise_right_shift"):
    add(_name, lambda fg, x, y, name=_name: getattr(fg, name)(x, y), i(3, 4), i(4))
add("bitwise_left_shift", lambda fg, x: (x << 2) + (1 << x), i(5, low=-3, high=70))
add("bitwise_right_shift", lambda fg, x: (x >> 1) + (40 >> x), i(5, low=-3, high=70))
_EDGES = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.5, -2.5])
for _name in ("fmax", "fmin", "copysign", "heaviside", "nextafter", "logaddexp2"):
    add(
        _name,
        lambda fg, x, y, name=_name: getattr(fg, name)(x, y),
        _EDGES.reshape(-1, 1),
        _EDGES,
        gradients=False,
    )
add("signbit", lambda fg, x: fg.signbit(x), i(5, low=-3))
add("frexp", lambda fg, x: fg.frexp(x)[0], f(3, 4))
add("frexp", lambda fg, x: tuple(fg.frexp(x)), f(3, 4), gradients=False)
add("pow_number", lambda fg, x: x**-0.5, f(3, 4, low=0.5))
