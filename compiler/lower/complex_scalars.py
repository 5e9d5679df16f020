"""Complex scalars: an op's scalar expression, of pairs of scalars; the formulas are those of NumPy and C.

`ComplexBuilder` has the primitives of `kernel/scalar.py` for pairs, so that whatever is declared for real
numbers through them (`b.div(1.0, x)`) is known of complex ones. `OfPairs` is one part of the result of an op
as an elementwise op of real numbers, which kernels compute like any other.

    v: c64[9] = mul(z, w)        re: f32[9] = mul.real(z_re, z_im, w_re, w_im)     z_re * w_re - z_im * w_im
                                 im: f32[9] = mul.imag(z_re, z_im, w_re, w_im)     z_re * w_im + z_im * w_re

NumPy may round a product and the sum that it goes into once, where the processor does: these round twice,
like other kernels.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fusegrad.compiler.base.complex_ops import part_dtype
from fusegrad.compiler.kernel.scalar import NotLowered, ScalarBuilder
from fusegrad.eager.core.dtypes import FROM_SHORT
from fusegrad.eager.core.families import Elementwise, Pointwise
from fusegrad.eager.core.op import Params, TensorType

Pair = tuple[Any, Any]

# From where exp overflows though its product with a small sine might not, and by how much it is less then.
_FAR = {"f32": 85.0, "f64": 700.0}
# Whole powers below this are repeated squares, as NumPy has them.
_WHOLE_POWERS = 100


class ComplexBuilder:
    """The primitives that scalar expressions are written with, of pairs (real part, imaginary part)."""

    def __init__(self, b: ScalarBuilder, dtype: str) -> None:
        self.b, self.dtype = b, dtype

    def __getattr__(self, name: str) -> Any:
        raise NotLowered(f"{name} of complex numbers")

    def number(self, value: float) -> str:
        """A number as a scalar."""
        return self.b.constant(value, FROM_SHORT[self.dtype])

    def pair(self, x: Any) -> Pair:
        """An operand, which may be a Python number, or a real scalar."""
        if isinstance(x, tuple):
            return x
        if isinstance(x, str):
            return x, self.number(0.0)
        return self.number(complex(x).real), self.number(complex(x).imag)

    def _where(self, condition: str, x: Pair, y: Pair) -> Pair:
        return self.b.select(condition, x[0], y[0]), self.b.select(condition, x[1], y[1])

    # Arithmetic.

    def add(self, x: Any, y: Any) -> Pair:
        (a, b), (c, d) = self.pair(x), self.pair(y)
        return self.b.add(a, c), self.b.add(b, d)

    def sub(self, x: Any, y: Any) -> Pair:
        (a, b), (c, d) = self.pair(x), self.pair(y)
        return self.b.sub(a, c), self.b.sub(b, d)

    def neg(self, x: Any) -> Pair:
        re, im = self.pair(x)
        return self.b.neg(re), self.b.neg(im)

    def mul(self, x: Any, y: Any) -> Pair:
        b, (xr, xi), (yr, yi) = self.b, self.pair(x), self.pair(y)
        return b.sub(b.mul(xr, yr), b.mul(xi, yi)), b.add(b.mul(xr, yi), b.mul(xi, yr))

    def div(self, x: Any, y: Any) -> Pair:
        """Smith's algorithm: by the larger part first."""
        b, (xr, xi), (yr, yi) = self.b, self.pair(x), self.pair(y)
        by_real = b.ge(b.abs(yr), b.abs(yi))
        large, small = b.select(by_real, yr, yi), b.select(by_real, yi, yr)
        rate = b.div(small, large)
        scale = b.div(1.0, b.add(large, b.mul(small, rate)))
        same, other = b.select(by_real, xr, xi), b.select(by_real, xi, xr)
        turned = b.mul(b.select(by_real, xr, xi), rate)
        re = b.mul(b.add(same, b.mul(other, rate)), scale)
        im = b.mul(b.select(by_real, b.sub(xi, turned), b.sub(turned, xr)), scale)
        by_zero = b.and_(by_real, b.eq(large, 0.0))
        return self._where(by_zero, (b.mul(xr, math.inf), b.mul(xi, math.inf)), (re, im))

    def pow(self, x: Any, exponent: Any) -> Pair:
        """Whole powers, by squares."""
        if isinstance(exponent, (str, tuple)) or complex(exponent).imag:
            raise NotLowered("a power of complex numbers")
        count = complex(exponent).real
        if not count.is_integer() or not 1 <= abs(count) < _WHOLE_POWERS:
            raise NotLowered(f"{exponent} as a power of complex numbers")
        square, left, found = self.pair(x), abs(int(count)), self.pair(1)
        if count == 1:
            return square
        while left:
            found = self.mul(found, square) if left % 2 else found
            left //= 2
            square = self.mul(square, square) if left else square
        if count > 0:
            return found
        nothing = self.b.and_(*(self.b.eq(part, 0.0) for part in self.pair(x)))
        return self._where(nothing, self.pair(complex(math.nan, math.nan)), self.div(1.0, found))

    # Comparison and choice.

    def eq(self, x: Any, y: Any) -> str:
        (a, b), (c, d) = self.pair(x), self.pair(y)
        return str(self.b.and_(self.b.eq(a, c), self.b.eq(b, d)))

    def ne(self, x: Any, y: Any) -> str:
        (a, b), (c, d) = self.pair(x), self.pair(y)
        return str(self.b.or_(self.b.ne(a, c), self.b.ne(b, d)))

    def truth(self, x: Any) -> str:
        return x if isinstance(x, str) else self.ne(x, 0)

    def select(self, condition: str, x: Any, y: Any) -> Pair:
        return self._where(condition, self.pair(x), self.pair(y))

    def and_(self, *operands: Any) -> str:
        return str(self.b.and_(*map(self.truth, operands)))

    def or_(self, *operands: Any) -> str:
        return str(self.b.or_(*map(self.truth, operands)))

    def xor(self, *operands: Any) -> str:
        return str(self.b.xor(*map(self.truth, operands)))

    def not_(self, x: Any) -> str:
        return str(self.b.not_(self.truth(x)))

    def isinf(self, x: Any) -> str:
        """Not of the size, which may overflow."""
        return str(self.b.or_(*(self.b.eq(self.b.abs(part), math.inf) for part in self.pair(x))))

    def isfinite(self, x: Any) -> str:
        return str(self.b.and_(*(self.b.lt(self.b.abs(part), math.inf) for part in self.pair(x))))

    # Parts, size and direction.

    def conj(self, x: Any) -> Pair:
        re, im = self.pair(x)
        return re, self.b.neg(im)

    def abs(self, x: Any) -> str:
        return str(self.b.hypot(*self.pair(x)))

    def angle(self, x: Any) -> str:
        re, im = self.pair(x)
        return str(self.b.atan2(im, re))

    def sgn(self, x: Any) -> Pair:
        """x / |x|; of infinite parts the finite ones are nothing."""
        b, (re, im) = self.b, self.pair(x)
        size = self.abs(x)
        infinite = b.eq(size, math.inf)
        ends = [b.select(b.eq(b.abs(p), math.inf), b.sign(p), self.number(0.0)) for p in (re, im)]
        none, both = b.eq(size, 0.0), b.eq(b.abs(re), b.abs(im))
        nan = b.and_(infinite, both)
        found = []
        for part, end in zip((re, im), ends, strict=True):
            finite = b.select(none, self.number(0.0), b.div(part, size))
            found.append(b.select(nan, math.nan, b.select(infinite, end, finite)))
        return found[0], found[1]

    # Elementary functions.

    def exp(self, x: Any) -> Pair:
        """exp(re) cis(im), also where exp alone overflows, and with the infinities of C's `cexp`."""
        b, (re, im) = self.b, self.pair(x)
        far = b.gt(re, _FAR[self.dtype])
        size = b.exp(b.sub(re, b.select(far, _FAR[self.dtype], self.number(0.0))))
        scale = b.select(far, math.exp(_FAR[self.dtype]), self.number(1.0))
        cos, sin = (b.mul(b.mul(size, f(im)), scale) for f in (b.cos, b.sin))
        # Of an infinite size at no angle the real part is known; 0 has the sign of what there is.
        nowhere = b.and_(b.eq(b.abs(re), math.inf), b.not_(b.lt(b.abs(im), math.inf)))
        nothing = b.select(b.signbit(im), -0.0, self.number(0.0))
        lost = b.select(b.lt(re, 0.0), nothing, sin)
        real = b.eq(im, 0.0)
        return b.select(nowhere, size, b.select(real, b.mul(size, scale), cos)), b.select(
            nowhere, lost, b.select(real, im, sin)
        )

    def log(self, x: Any) -> Pair:
        b, (re, im) = self.b, self.pair(x)
        size, width = self.abs(x), [b.abs(re), b.abs(im)]
        more, less = b.maximum(*width), b.minimum(*width)
        near = b.mul(b.log1p(b.add(b.mul(b.sub(more, 1.0), b.add(more, 1.0)), b.mul(less, less))), 0.5)
        is_near = b.lt(b.abs(b.sub(size, 1.0)), 0.5)
        return b.select(is_near, near, b.log(size)), b.atan2(im, re)

    def sqrt(self, x: Any) -> Pair:
        """The larger part first, of halves, which do not overflow."""
        b, (re, im) = self.b, self.pair(x)
        u, v = b.mul(re, 0.5), b.abs(b.mul(im, 0.5))
        large = b.sqrt(b.add(b.hypot(u, v), b.abs(u)))
        small = b.select(b.eq(large, 0.0), 0.0, b.div(v, large))
        large, small = (b.select(b.eq(v, math.inf), v, part) for part in (large, small))
        left = b.lt(re, 0.0)
        first, second = b.select(left, small, large), b.select(left, large, small)
        return first, b.select(b.signbit(im), b.neg(second), second)

    def exp2(self, x: Any) -> Pair:
        return self.exp(tuple(self.b.mul(part, math.log(2)) for part in self.pair(x)))

    def log2(self, x: Any) -> Pair:
        re, im = self.log(x)
        return self.b.mul(re, math.log2(math.e)), self.b.mul(im, math.log2(math.e))

    def log10(self, x: Any) -> Pair:
        re, im = self.log(x)
        return self.b.mul(re, math.log10(math.e)), self.b.mul(im, math.log10(math.e))

    def log1p(self, x: Any) -> Pair:
        re, im = self.pair(x)
        more = self.b.add(re, 1.0)
        return self.b.log(self.b.hypot(more, im)), self.b.atan2(im, more)

    def expm1(self, x: Any) -> Pair:
        b, (re, im) = self.b, self.pair(x)
        half = b.sin(b.mul(im, 0.5))
        real = b.sub(b.mul(b.expm1(re), b.cos(im)), b.mul(2.0, b.mul(half, half)))
        return real, b.mul(b.exp(re), b.sin(im))

    def sinh(self, x: Any) -> Pair:
        b, (re, im) = self.b, self.pair(x)
        known = b.and_(b.or_(b.eq(re, 0.0), b.eq(b.abs(re), math.inf)), b.not_(b.lt(b.abs(im), math.inf)))
        real = b.select(known, re, b.mul(b.sinh(re), b.cos(im)))
        return real, b.select(b.eq(im, 0.0), im, b.mul(b.cosh(re), b.sin(im)))

    def cosh(self, x: Any) -> Pair:
        b, (re, im) = self.b, self.pair(x)
        turned = b.not_(b.lt(b.abs(im), math.inf))
        real = b.select(b.and_(b.eq(b.abs(re), math.inf), turned), b.abs(re), b.mul(b.cosh(re), b.cos(im)))
        zero = b.select(b.xor(b.signbit(re), b.signbit(im)), -0.0, self.number(0.0))
        nothing = b.or_(b.eq(im, 0.0), b.and_(b.eq(re, 0.0), turned))
        return real, b.select(nothing, zero, b.mul(b.sinh(re), b.sin(im)))

    def sin(self, x: Any) -> Pair:
        re, im = self.pair(x)
        along, across = self.sinh((self.b.neg(im), re))
        return across, self.b.neg(along)

    def cos(self, x: Any) -> Pair:
        re, im = self.pair(x)
        return self.cosh((self.b.neg(im), re))

    def sigmoid(self, x: Any) -> Pair:
        return self.div(1.0, self.add(self.exp(self.neg(x)), 1.0))

    def silu(self, x: Any) -> Pair:
        return self.div(x, self.add(self.exp(self.neg(x)), 1.0))


# Ops that have no scalar expression, or one of real numbers alone.
_OWN = {name: name for name in ("conj", "angle", "sgn", "isinf", "isfinite", "silu")}


class OfPairs(Elementwise):
    """A part of what an op gives for complex numbers, of the parts of its operands.

    part: 0 and 1; None for a result that is real. kinds: for each operand of the op whether it is a "c"omplex
    one, of which both parts come, or a "r"eal one. Not in the registry of ops: eager does not know it.
    """

    def __init__(self, op: Pointwise, part: int | None, kinds: str) -> None:
        vars(self).update(vars(op))
        self.op, self.place, self.kinds_of_operands = op, part, kinds
        self.name = op.name if part is None else f"{op.name}.{'imag' if part else 'real'}"
        self.name = f"{self.name}[{kinds}]"
        self.arguments = tuple(
            n for k in range(len(kinds)) for n in (f"x{k}", f"y{k}")[: 1 + (kinds[k] == "c")]
        )
        self.rules, self.order, self.refuses, self.scalar = None, None, "", self._scalar
        self.numpy = self.ordered = self._numpy

    def _operands(self, given: Sequence[Any], joined: Any) -> list[Any]:
        parts = iter(given)
        return [joined(next(parts), next(parts)) if k == "c" else next(parts) for k in self.kinds_of_operands]

    def _types(self, types: Sequence[Any]) -> list[Any]:
        def both(x: Any, y: Any) -> Any:
            if not isinstance(x, TensorType):
                return complex(x, y)
            return TensorType(x.shape, np.result_type(x.dtype, np.complex64))

        return self._operands([_type_of(t) for t in types], both)

    def compute_dtype(self, operands: Sequence[Any]) -> np.dtype:
        return part_dtype(self.op.compute_dtype(self._types(operands)))

    def infer(self, types: Sequence[Any], params: Params) -> TensorType:
        made = self.op.infer(self._types(types), params)
        return TensorType(made.shape, part_dtype(made.dtype))

    def _numpy(self, *arrays: Any, **params: Any) -> Any:
        made = self.op.numpy(*self._operands(arrays, lambda x, y: x + 1j * y), **params)
        return made if self.place is None else made.imag if self.place else made.real

    def _scalar(self, b: ScalarBuilder, *names: str, **params: Any) -> str:
        dtype = next(b.dtypes[n] for n in reversed(names) if b.dtypes[n] in _FAR)
        builder = ComplexBuilder(b, dtype)
        operands = self._operands(names, lambda x, y: (x, y))
        for number, kind in enumerate(self.kinds_of_operands):
            if kind == "r" and number >= self.op.data:
                operands[number] = operands[number], builder.number(0.0)
        scalar: Any = _OWN.get(self.op.name) or self.op.scalar  # type: ignore[attr-defined]
        made = (
            getattr(builder, scalar)(*operands)
            if isinstance(scalar, str)
            else scalar(builder, *operands, **params)
        )
        if self.place is None:
            if isinstance(made, tuple):
                raise NotLowered(f"{self.op.name} of complex numbers")
            return str(made)
        return str(builder.pair(made)[self.place])


def _type_of(given: Any) -> Any:
    return TensorType(given.shape, given.dtype) if hasattr(given, "dtype") else given


@functools.cache
def of_pairs(op: Pointwise, part: int | None, kinds: str) -> OfPairs:
    """The op that computes a part; always the same one."""
    return OfPairs(op, part, kinds)


def is_known(op: Any, kinds: str, is_real: bool, params: Params) -> bool:
    """Whether an op of complex numbers is expressed through primitives that are known of them."""
    if not isinstance(op, Pointwise) or (op.name not in _OWN and not isinstance(op, Elementwise)):
        return False
    part = of_pairs(op, None if is_real else 0, kinds)
    b = ScalarBuilder()
    names = [b.fresh("bool" if n < op.data else "f64") for n in range(len(part.arguments))]
    try:
        part._scalar(b, *names, **params)
    except NotLowered:
        return False
    return True
