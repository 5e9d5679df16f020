"""Elementary functions in kernels: which primitive is computed how.

They are vector code of our own, at most 2 ulp from the true value, since Numba's LLVM has no
vector mathematics library here. `compiler/codegen/mathematics/` has the functions, docs/vector_math.md the
measured errors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from fusegrad.compiler.codegen.mathematics import (
    error_function,
    exponential,
    gamma,
    inverse_trigonometry,
    logarithm,
    power,
    trigonometry,
)
from fusegrad.compiler.codegen.mathematics.arithmetic import Math
from fusegrad.compiler.kernel.dtypes import DTYPES
from fusegrad.compiler.llvm.ir_writer import Val, Writer
from fusegrad.compiler.llvm.target import Target

FUNCTIONS: dict[str, Callable[..., Val]] = {
    "exp": exponential.exp,
    "exp2": exponential.exp2,
    "expm1": exponential.expm1,
    "sigmoid": exponential.sigmoid,
    "sinh": exponential.sinh,
    "cosh": exponential.cosh,
    "tanh": exponential.tanh,
    "log": logarithm.log,
    "log2": logarithm.log2,
    "log10": logarithm.log10,
    "log1p": logarithm.log1p,
    "pow": power.pow,
    "hypot": power.hypot,
    "sin": trigonometry.sin,
    "cos": trigonometry.cos,
    "tan": trigonometry.tan,
    "asin": inverse_trigonometry.asin,
    "acos": inverse_trigonometry.acos,
    "atan": inverse_trigonometry.atan,
    "atan2": inverse_trigonometry.atan2,
    "erf": error_function.erf,
    "erfc": error_function.erfc,
    "erfinv": error_function.erfinv,
    "lgamma": gamma.lgamma,
    "digamma": gamma.digamma,
}
# Of operands that are certainly not above 0 (NaN may be among them): the same bits in fewer instructions.
_OF_NONPOSITIVE = {"exp_nonpositive": functools.partial(exponential.exp, below_zero=True)}
# What takes fewer instructions in double precision, with short polynomials, than it would take
# to be right in float32.
IN_DOUBLE = frozenset({"tan", "pow", "hypot", "erfc", "erfinv", "lgamma", "digamma"})
ROUNDING = {
    "sqrt": "llvm.sqrt", "floor": "llvm.floor", "ceil": "llvm.ceil",
    "trunc": "llvm.trunc", "round": "llvm.roundeven", "abs": "llvm.fabs",
}  # fmt: skip


def call(writer: Writer, name: str, operands: list[Val]) -> Val:
    """The function `name` of float operands."""
    if name in ROUNDING:
        return writer.call(ROUNDING[name], operands)
    if not writer.calls_functions:
        return _written(name, writer, *operands)
    first = operands[0]
    symbol = f"fusegrad_{name}_{first.dtype}_{first.lanes}"
    writer.declared |= _declared(name, symbol, tuple([(o.dtype, o.lanes) for o in operands]), writer.target)
    return writer.emit(
        f"call {first.type} @{symbol}({', '.join(map(str, operands))})", first.dtype, first.lanes
    )


@functools.cache
def _declared(
    name: str, symbol: str, operands: tuple[tuple[str, int], ...], target: Target | None
) -> frozenset[str]:
    """The function `name` of operands of these dtypes and lanes, and what it calls: written once."""
    writer = Writer(set(), target)
    attributes = "" if target is None else target.function_attributes
    given = [Val("", dtype, lanes) for dtype, lanes in operands]
    writer.function(symbol, given, functools.partial(_written, name), attributes)
    return frozenset(writer.declared)


def _written(name: str, writer: Writer, *operands: Val) -> Val:
    """The instructions of a function."""
    dtype = operands[0].dtype
    wider = DTYPES[dtype].wider
    if name in IN_DOUBLE and wider != dtype:
        doubles = [writer.convert(operand, wider) for operand in operands]
        result = FUNCTIONS[name](Math(writer, doubles[0], short=True), *doubles)
        return writer.convert(result, dtype)
    function = _OF_NONPOSITIVE.get(name) or FUNCTIONS[name]
    return function(Math(writer, operands[0]), *operands)
