"""Elementwise ops, each declared once: NumPy function, dtype rule, scalar expression, gradient.

Gradient rules are written with the public ops of this namespace, so they can be traced,
compiled and derived again.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fusegrad.eager import dtypes
from fusegrad.eager.errors import failure
from fusegrad.eager.families import (
    ANY,
    BITS,
    FLOAT,
    NUMBER,
    ORDER,
    REAL,
    REAL_FLOAT,
    TEST,
    DTypeRule,
    Elementwise,
)
from fusegrad.eager.op import TensorType, bind, wrap
from fusegrad.eager.tensor import Tensor

# Types that may stand in an equation as they are; others are converted by `operand`.
OPERANDS: set[type] = {Tensor, float, int, bool, complex}
Unary = Callable[[Any], Tensor]
# What comes with each declaration; eager/ops/__init__.py attaches it to Tensor.
METHODS: dict[str, Callable[..., Any]] = {}
OPERATORS: dict[str, Callable[..., Any]] = {}


def operand(value: Any) -> Any:
    """`value` as a tensor or Python number; raises TypeError for anything else."""
    converted = convertible(value)
    if converted is None:
        raise failure(TypeError, f"expected a Tensor or a number, got {type(value).__name__}")
    return converted


def convertible(value: Any) -> Any:
    """`value` as a tensor or Python number, or None where it is neither."""
    if isinstance(value, (Tensor, float, int, complex)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return wrap(value)
    return None


def unary(
    name: str,
    numpy: Callable[..., Any],
    rule: DTypeRule,
    scalar: str | Callable[..., Any],
    vjp: Callable[..., Any] | None,
    doc: str,
    grad_name: str | None = None,
    operator: str | None = None,
) -> Callable[[Any], Tensor]:
    """Declare a one-operand op and give its public function."""
    op = Elementwise(name, "x", numpy, rule, scalar, None if vjp is None else {"x": vjp}, grad_name)

    def function(input: Any) -> Tensor:
        return bind(op, (input if type(input) in OPERANDS else operand(input),))

    if operator is not None:
        OPERATORS[f"__{operator}__"] = function
    return named(function, name, doc)


def binary(
    name: str,
    numpy: Callable[..., Any],
    rule: DTypeRule,
    scalar: str | Callable[..., Any],
    vjp: tuple[Callable[..., Any] | None, Callable[..., Any] | None] | None,
    doc: str,
    grad_name: str | None = None,
    operator: str | None = None,
    reflected: bool = True,
) -> Callable[[Any, Any], Tensor]:
    """Declare a two-operand op and give its public function; `operator` is Python's, if it has one."""
    rules = None if vjp is None else {"x": vjp[0], "y": vjp[1]}
    op = Elementwise(name, "x y", numpy, rule, scalar, rules, grad_name)

    def function(input: Any, other: Any) -> Tensor:
        return bind(
            op,
            (
                input if type(input) in OPERANDS else operand(input),
                other if type(other) in OPERANDS else operand(other),
            ),
        )

    if operator is not None:
        declare_operator(operator, lambda x, y: bind(op, (x, y)), reflected)
    return named(function, name, doc)


def declare_operator(name: str, function: Callable[[Any, Any], Any], reflected: bool = True) -> None:
    """Python's binary operator `name` (and its reflected form), for what can be an operand."""

    def operator(self: Tensor, other: Any) -> Any:
        if type(other) not in OPERANDS:
            other = convertible(other)
            if other is None:
                return NotImplemented
        return function(self, other)

    def backwards(self: Tensor, other: Any) -> Any:
        if type(other) not in OPERANDS:
            other = convertible(other)
            if other is None:
                return NotImplemented
        return function(other, self)

    OPERATORS[f"__{name}__"] = renamed(operator, f"__{name}__")
    if reflected:
        OPERATORS[f"__r{name}__"] = renamed(backwards, f"__r{name}__")


def renamed(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """`function` under `name` also in tracebacks, profiles and error messages.

    A code object of its own lets the interpreter specialise each op's calls, too.
    """
    function.__name__ = function.__qualname__ = name
    function.__code__ = function.__code__.replace(co_name=name, co_qualname=name)
    return function


def named(function: Callable[..., Any], name: str, doc: str, source: str | None = None) -> Callable[..., Any]:
    """A generated public function, with its name and docstring, made a method too."""
    renamed(function, name)
    function.__doc__ = f"{doc} Shapes broadcast. Source: `torch.{source or name}`."
    METHODS[name] = function
    return function


def method(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function a tensor method too."""
    METHODS[function.__name__] = function
    return function


# Arithmetic.

_add = binary("add", np.add, ANY, "add", (lambda g: g, lambda g: g), "x + y.", operator="add")
_sub = binary("sub", np.subtract, NUMBER, "sub", (lambda g: g, lambda g: neg(g)), "x - y.", operator="sub")
mul = binary(
    "mul", np.multiply, ANY, "mul", (lambda g, y: g * y, lambda g, x: g * x), "x * y.", operator="mul"
)
_div = binary(
    "div",
    np.true_divide,
    FLOAT,
    "div",
    (lambda g, y: g / y, lambda g, x, y: -g * ((x / y) / y)),
    "x / y; integers give floats.",
    operator="truediv",
)


@method
def add(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """input + alpha * other. Shapes broadcast. Source: `torch.add`."""
    return _add(input, other if alpha == 1 else mul(other, alpha))


@method
def sub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """input - alpha * other. Shapes broadcast. Source: `torch.sub`."""
    return _sub(input, other if alpha == 1 else mul(other, alpha))


@method
def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """input / other, rounded by `rounding_mode` (None, "floor", "trunc"). Source: `torch.div`."""
    if rounding_mode is None:
        return _div(input, other)
    if rounding_mode == "floor":
        return floor_divide(input, other)
    if rounding_mode != "trunc":
        raise failure(ValueError, f"rounding_mode is None, 'floor' or 'trunc', got {rounding_mode!r}")
    kind = dtypes.result_type([x.array if isinstance(x, Tensor) else x for x in (input, other)])
    return trunc(_div(input, other)) if kind.kind == "f" else _truncated_quotient(input, other)


def _truncated_quotient(x: Any, y: Any) -> Tensor:
    """Integer division toward 0."""
    quotient = floor_divide(x, y)
    inexact = logical_and(ne(mul(quotient, y), x), lt(quotient, 0))
    return where(inexact, quotient + 1, quotient)


neg: Unary = unary("neg", np.negative, NUMBER, "neg", lambda g: neg(g), "-x.", operator="neg")
reciprocal = unary(
    "reciprocal",
    lambda x: 1 / x,
    FLOAT,
    lambda b, x: b.div(1.0, x),
    lambda g, out: -g * (out * out),
    "1 / x.",
)
square = unary(
    "square", np.square, NUMBER, lambda b, x: b.mul(x, x), lambda g, x: g * (x * 2), "x * x.", "PowBackward0"
)
abs = unary("abs", np.abs, REAL, "abs", lambda g, x: g * sign(x), "The absolute value.", operator="abs")


def _sign(x: Any) -> Any:
    if x.dtype.kind == "b":
        return x.copy()
    return np.where(np.isnan(x), x.dtype.type(0), np.sign(x)) if x.dtype.kind == "f" else np.sign(x)


sign: Unary = unary(
    "sign",
    _sign,
    REAL,
    lambda b, x: b.select(b.eq(x, x), b.sign(x), 0),
    lambda g: g * 0.0,
    "-1, 0 or 1 by the sign of x; 0 for NaN.",
)


def _power(x: Any, exponent: Any) -> Any:
    """`x ** exponent` for a number; small whole powers as products (exact to a rounding each)."""
    count = small_power(exponent)
    if count is None:
        return np.power(x, exponent)
    result = x * x
    for _ in range(count - 2):
        result = result * x
    return result


def small_power(exponent: float) -> int | None:
    """`exponent` as a count where `x ** exponent` is computed as that many factors (2 to 4)."""
    return int(exponent) if exponent in (2, 3, 4) else None


def _power_scalar(b: Any, x: Any, exponent: float) -> Any:
    count = small_power(exponent)
    if count is None:
        return b.pow(x, exponent)
    result = x
    for _ in range(count - 1):
        result = b.mul(result, x)
    return result


def _power_gradient(g: Tensor, x: Tensor, exponent: float) -> Tensor:
    if exponent == 0:
        return g * 0.0
    return g * (pow(x, exponent - 1) * exponent)


class _PowerOp(Elementwise):
    """x ** number: the number is a parameter, so that whole powers become products."""

    def infer(self, types: Any, params: Any) -> TensorType:
        return TensorType(types[0].shape, self.compute_dtype([types[0], params["exponent"]]))

    def evaluate(self, args: Any, params: Any) -> Any:
        array, exponent = args[0].array, params["exponent"]
        compute = self.compute_dtype([array, exponent])
        if compute.kind in "iu" and exponent < 0:
            raise RuntimeError("Integers to negative integer powers are not allowed.")
        return self.numpy(array.astype(compute, copy=False), exponent)


_pow_number = _PowerOp(
    "pow_number", "x", _power, NUMBER, _power_scalar, {"x": _power_gradient}, "PowBackward0"
)
_pow_tensor = Elementwise(
    "pow",
    "x y",
    np.power,
    NUMBER,
    "pow",
    {
        "x": lambda g, x, y: g * where(y == 0, 0.0, y * pow(x, y - 1)),
        "y": lambda g, x, y, out: g * where((x == 0) & (y >= 0), 0.0, out * log_of(x)),
    },
    "PowBackward1",
)


def log_of(x: Any) -> Any:
    """log(x) for a gradient rule, where x may be a Python number: that keeps its full precision."""
    if isinstance(x, Tensor):
        return log(x)
    return math.log(x) if x > 0 else -math.inf if x == 0 else math.nan


def pow(input: Any, exponent: Any) -> Tensor:
    """`input ** exponent`, either a tensor. Source: `torch.pow`.

    Raises RuntimeError for integers to a negative integer power.

    >>> import fusegrad as fg
    >>> fg.pow(fg.tensor([1.0, 2.0, 3.0]), 2)
    tensor([1., 4., 9.])
    """
    input, exponent = operand(input), operand(exponent)
    if isinstance(exponent, Tensor):
        return bind(_pow_tensor, (input, exponent))
    return bind(_pow_number, (input,), {"exponent": exponent})


METHODS["pow"] = pow
declare_operator("pow", pow)


def _divisor(x: Any, y: Any) -> Any:
    """The divisor `y` of `x`, refused where integers would be divided by 0."""
    if np.result_type(x, y).kind in "iu" and not np.all(y):
        raise ZeroDivisionError("ZeroDivisionError: integer division by zero")
    return y


floor_divide = binary(
    "floor_divide",
    lambda x, y: np.floor_divide(x, _divisor(x, y)),
    REAL,
    lambda b, x, y: b.floor_div(x, y),
    (lambda g: g * 0.0, lambda g: g * 0.0),
    "Quotient rounded down.",
    operator="floordiv",
)
remainder = binary(
    "remainder",
    lambda x, y: np.remainder(x, _divisor(x, y)),
    REAL,
    lambda b, x, y: b.remainder(x, y),
    (lambda g: g, lambda g, x, y: -g * floor_divide(x, y)),
    "The remainder with the divisor's sign.",
    operator="mod",
)
fmod = binary(
    "fmod",
    lambda x, y: np.fmod(x, _divisor(x, y)),
    REAL,
    lambda b, x, y: b.mul(b.remainder(b.abs(x), b.abs(y)), b.sign(x)),
    (lambda g: g, lambda g, x, y: -g * trunc(x / y)),
    "The remainder with the dividend's sign.",
)

# Exponentials, roots, trigonometry.

exp: Unary = unary("exp", np.exp, FLOAT, "exp", lambda g, out: g * out, "e ** x.")
exp2 = unary("exp2", np.exp2, FLOAT, "exp2", lambda g, out: g * (out * math.log(2)), "2 ** x.")
expm1 = unary("expm1", np.expm1, FLOAT, "expm1", lambda g, out: g * (out + 1), "exp(x) - 1, exact near 0.")
log = unary("log", np.log, FLOAT, "log", lambda g, x: g / x, "The natural logarithm.")
log2 = unary("log2", np.log2, FLOAT, "log2", lambda g, x: g / (x * math.log(2)), "The logarithm to base 2.")
log10 = unary("log10", np.log10, FLOAT, "log10", lambda g, x: g / (x * math.log(10)), "To base 10.")
log1p = unary("log1p", np.log1p, FLOAT, "log1p", lambda g, x: g / (x + 1), "log(1 + x), exact near 0.")
sqrt = unary("sqrt", np.sqrt, FLOAT, "sqrt", lambda g, out: g / (out * 2), "The square root.")
rsqrt = unary(
    "rsqrt",
    lambda x: 1 / np.sqrt(x),
    FLOAT,
    lambda b, x: b.div(1.0, b.sqrt(x)),
    lambda g, out: g * (out * out * out * -0.5),
    "1 / sqrt(x).",
)
sin = unary("sin", np.sin, FLOAT, "sin", lambda g, x: g * cos(x), "The sine.")
cos: Unary = unary("cos", np.cos, FLOAT, "cos", lambda g, x: g * -sin(x), "The cosine.")
tan = unary("tan", np.tan, FLOAT, "tan", lambda g, out: g * (out * out + 1), "The tangent.")
asin = unary("asin", np.arcsin, FLOAT, "asin", lambda g, x: g * rsqrt(1 - x * x), "The inverse sine.")
acos = unary("acos", np.arccos, FLOAT, "acos", lambda g, x: -g * rsqrt(1 - x * x), "The inverse cosine.")
atan = unary("atan", np.arctan, FLOAT, "atan", lambda g, x: g / (x * x + 1), "The inverse tangent.")
atan2 = binary(
    "atan2",
    np.arctan2,
    REAL_FLOAT,
    "atan2",
    (lambda g, x, y: g * (y / (x * x + y * y)), lambda g, x, y: -g * (x / (x * x + y * y))),
    "The angle of the point (y, x): atan(x / y) in the right quadrant.",
)
sinh = unary("sinh", np.sinh, FLOAT, "sinh", lambda g, x: g * cosh(x), "The hyperbolic sine.")
cosh: Unary = unary("cosh", np.cosh, FLOAT, "cosh", lambda g, x: g * sinh(x), "The hyperbolic cosine.")
tanh = unary("tanh", np.tanh, FLOAT, "tanh", lambda g, out: g * (1 - out * out), "The hyperbolic tangent.")


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


sigmoid = unary(
    "sigmoid", _sigmoid, FLOAT, "sigmoid", lambda g, out: g * ((1 - out) * out), "1 / (1 + exp(-x))."
)


def _special(name: str) -> Callable[[Any], Any]:
    """A function of scipy.special, imported when it is first used."""

    def evaluate(x: Any) -> Any:
        from scipy import special

        return getattr(special, name)(x).astype(x.dtype, copy=False)

    return evaluate


_TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)
erf = unary(
    "erf",
    _special("erf"),
    REAL_FLOAT,
    "erf",
    lambda g, x: g * (exp(-x * x) * _TWO_OVER_ROOT_PI),
    "The error function.",
)

# Rounding: gradients are zero.

floor = unary("floor", np.floor, REAL, "floor", lambda g: g * 0.0, "Rounded down.")
ceil = unary("ceil", np.ceil, REAL, "ceil", lambda g: g * 0.0, "Rounded up.")
trunc: Unary = unary("trunc", np.trunc, REAL, "trunc", lambda g: g * 0.0, "Rounded toward 0.")


def _rint(x: Any) -> Any:
    return np.rint(x) if x.dtype.kind == "f" else x.copy()  # NumPy would make floats of integers


_round = unary("round", _rint, REAL, "round", lambda g: g * 0.0, "Rounded to nearest, halves to even.")


@method
def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """Rounded to `decimals` places, halves to even. Source: `torch.round`."""
    if not decimals:
        return _round(input)
    scale = 10.0 ** builtins.abs(decimals)
    return _round(input * scale) / scale if decimals > 0 else _round(input / scale) * scale


frac = unary(
    "frac", lambda x: x - np.trunc(x), FLOAT, lambda b, x: b.sub(x, b.trunc(x)), lambda g: g, "x - trunc(x)."
)

# Comparisons and logic.

eq = binary("eq", np.equal, TEST, "eq", None, "x == y.", operator="eq", reflected=False)
ne = binary("ne", np.not_equal, TEST, "ne", None, "x != y.", operator="ne", reflected=False)
lt = binary("lt", np.less, ORDER, "lt", None, "x < y.", operator="lt", reflected=False)
le = binary("le", np.less_equal, ORDER, "le", None, "x <= y.", operator="le", reflected=False)
gt = binary("gt", np.greater, ORDER, "gt", None, "x > y.", operator="gt", reflected=False)
ge = binary("ge", np.greater_equal, ORDER, "ge", None, "x >= y.", operator="ge", reflected=False)
logical_and = binary(
    "logical_and", np.logical_and, TEST, lambda b, x, y: b.and_(b.truth(x), b.truth(y)), None, "Both nonzero."
)
logical_or = binary(
    "logical_or", np.logical_or, TEST, lambda b, x, y: b.or_(b.truth(x), b.truth(y)), None, "Either nonzero."
)
logical_xor = binary(
    "logical_xor", np.logical_xor, TEST, lambda b, x, y: b.xor(b.truth(x), b.truth(y)), None, "One nonzero."
)
logical_not = unary("logical_not", np.logical_not, TEST, lambda b, x: b.not_(b.truth(x)), None, "Zero.")
bitwise_and = binary("bitwise_and", np.bitwise_and, BITS, "and_", None, "x & y.", operator="and")
bitwise_or = binary("bitwise_or", np.bitwise_or, BITS, "or_", None, "x | y.", operator="or")
bitwise_xor = binary("bitwise_xor", np.bitwise_xor, BITS, "xor", None, "x ^ y.", operator="xor")
bitwise_not = unary("bitwise_not", np.invert, BITS, "not_", None, "~x.", operator="invert")
isnan = unary("isnan", np.isnan, TEST, lambda b, x: b.ne(x, x), None, "Whether NaN.")
isinf = unary("isinf", np.isinf, TEST, lambda b, x: b.eq(b.abs(x), math.inf), None, "Whether ±infinity.")
isfinite = unary(
    "isfinite", np.isfinite, TEST, lambda b, x: b.lt(b.abs(x), math.inf), None, "Whether finite."
)

# Choosing.

maximum = binary(
    "maximum",
    np.maximum,
    REAL,
    "maximum",
    (lambda g, x, y: g * _share(x, y, gt), lambda g, x, y: g * _share(y, x, gt)),
    "The larger; NaN if either is.",
)
minimum = binary(
    "minimum",
    np.minimum,
    REAL,
    "minimum",
    (lambda g, x, y: g * _share(x, y, lt), lambda g, x, y: g * _share(y, x, lt)),
    "The smaller; NaN if either is.",
)


def _share(x: Any, y: Any, wins: Callable[..., Tensor]) -> Tensor:
    """The part of the gradient that goes to `x`: all where it wins, half where both are equal."""
    return where(eq(x, y), 0.5, where(wins(x, y), 1.0, 0.0))


_where = Elementwise(
    "where",
    "condition x y",
    np.where,
    ANY,
    "select",
    {
        "condition": None,
        "x": lambda g, condition: where(condition, g, 0.0),
        "y": lambda g, condition: where(condition, 0.0, g),
    },
    data=1,
)


def where(condition: Tensor, input: Any, other: Any) -> Tensor:
    """`input` where `condition` is true, else `other`. Source: `torch.where`.

    >>> import fusegrad as fg
    >>> x = fg.tensor([-1.0, 2.0])
    >>> fg.where(x > 0, x, 0.0)
    tensor([0., 2.])
    """
    return bind(_where, (operand(condition), operand(input), operand(other)))


METHODS["where"] = lambda self, condition, other: where(condition, self, other)


class _CastOp(Elementwise):
    """A change of dtype; the only elementwise op whose result dtype is a parameter."""

    def infer(self, types: Any, params: Any) -> TensorType:
        return TensorType(types[0].shape, dtypes.as_dtype(params["dtype"]).numpy)

    def evaluate(self, args: Any, params: Any) -> Any:
        return args[0].array.astype(params["dtype"].numpy)


_cast = _CastOp(
    "cast",
    "x",
    np.asarray,
    ANY,
    lambda b, x, dtype: b.cast(x, dtype),
    {"x": lambda g, x_type: cast(g, x_type.dtype)},
    "ToCopyBackward0",
)


def cast(input: Tensor, dtype: Any) -> Tensor:
    """`input` converted to `dtype` (itself where it has it already)."""
    target = dtypes.as_dtype(dtype)
    return input if input.array.dtype == target.numpy else bind(_cast, (input,), {"dtype": target})


_clone = Elementwise("clone", "x", lambda x: np.array(x, copy=True), ANY, lambda b, x: x, {"x": lambda g: g})


def clone(input: Tensor) -> Tensor:
    """A copy with memory of its own. Source: `torch.clone`."""
    return bind(_clone, (input,))


METHODS["clone"] = clone


def result_type(tensor1: Any, tensor2: Any) -> dtypes.DType:
    """The dtype that arithmetic on two tensors or numbers gives. Source: `torch.result_type`."""
    operands = [x.array if isinstance(x, Tensor) else x for x in (operand(tensor1), operand(tensor2))]
    return dtypes.FROM_NUMPY[dtypes.result_type(operands)]
