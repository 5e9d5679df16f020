"""The kernel IR's scalar primitives in LLVM IR, on one value or on vectors."""

from __future__ import annotations

from fusegrad.compiler.codegen import vector_math
from fusegrad.compiler.codegen.mathematics.arithmetic import Math
from fusegrad.compiler.kernel.dtypes import is_float
from fusegrad.compiler.llvm.ir_writer import Val, Writer

_BINARY = {"add": ("fadd", "add"), "sub": ("fsub", "sub"), "mul": ("fmul", "mul"), "div": ("fdiv", "sdiv")}
_LOGIC = {"and_": "and", "or_": "or", "xor": "xor"}


def apply(w: Writer, op: str, operands: list[Val], dtype: str) -> Val:
    """A primitive on values of one width."""
    first = operands[0]
    floating = is_float(first.dtype)
    if first.dtype == "bool" and op in ("add", "mul", "maximum", "minimum"):
        op = "or_" if op in ("add", "maximum") else "and_"
    if op in _BINARY:
        name = _BINARY[op][0 if floating else 1]
        return w.binary(f"{name} contract" if floating and w.contracts else name, *operands)
    if op in _LOGIC:
        return w.binary(_LOGIC[op], *operands)
    if op in ("eq", "ne", "lt", "le", "gt", "ge"):
        return w.compare(op, *operands)
    if op == "select":
        return w.select(*operands)
    if op == "cast":
        return w.convert(first, dtype)
    if op in ("maximum", "minimum"):
        return extreme(w, op, *operands)
    if op == "not_":
        ones = w.constant(True if first.dtype == "bool" else -1, first.dtype, first.lanes)
        return w.binary("xor", first, ones)
    zero = w.constant(0, first.dtype, first.lanes)
    if op == "neg":
        return w.emit(f"fneg {first}", dtype, first.lanes) if floating else w.binary("sub", zero, first)
    if op == "sign":
        return _sign(w, first, zero)
    if op == "signbit":
        return Math(w, first).negative(first)
    if not floating:
        if op == "abs":
            return w.select(w.compare("lt", first, zero), w.binary("sub", zero, first), first)
        return first  # rounding a whole number
    return vector_math.call(w, op, operands)


def extreme(w: Writer, op: str, x: Val, y: Val) -> Val:
    """The larger or smaller; NaN if either is, and `y` if both are zero, as NumPy has it."""
    wins = w.compare("gt" if op == "maximum" else "lt", x, y)
    if not is_float(x.dtype):
        return w.select(wins, x, y)
    unordered = w.emit(f"fcmp uno {x}, {x.text}", "bool", x.lanes)
    return w.select(w.binary("or", wins, unordered), x, y)


def _sign(w: Writer, x: Val, zero: Val) -> Val:
    one, minus = (w.constant(v, x.dtype, x.lanes) for v in (1, -1 if x.dtype != "u8" else 1))
    # NaN is neither above nor below zero, and gives 0 as in PyTorch.
    return w.select(w.compare("gt", x, zero), one, w.select(w.compare("lt", x, zero), minus, zero))
