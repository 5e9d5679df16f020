"""Sizes as expressions: what is planned with them holds for all sizes that would be planned alike.

A `Dim` stands for a size. It has a hint, the size in the call that is being compiled, and an expression in
the sizes of that call. Arithmetic gives further expressions; a comparison gives what is true of the
hint, and notes it as a guard; whatever needs the number itself (a range, an array, an index) gets the hint,
and the guard is that the number is this one. So a plan made with such sizes is right for all sizes that
pass the guards, and where the planner looks at sizes in an unforeseen way, it is for fewer of them.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.sizes import OpenShape, Symbol
from fusegrad.eager.ops.pointwise.declare_pointwise import OPERANDS

# A polynomial with integer coefficients: for each product of atoms (the sizes, and what is no
# polynomial, as Python expressions) its coefficient.
Terms = dict[tuple[str, ...], int]

_counter = itertools.count()
OPEN_TEXT = "<("  # how an open size begins where it is printed


class Fixed(Exception):
    """A size was asked for when the guards had been compiled: nobody may rely on the answer."""


class Sizes:
    """The sizes that are left open in one form of a stretch, and what must be true of them.

    hints: their values in the call that it is made for, each at least 2.
    """

    def __init__(self, hints: Sequence[int]) -> None:
        number = next(_counter)
        self.names = [f"n{number}_{i}" for i in range(len(hints))]
        self.hints = dict(zip(self.names, hints, strict=True))
        self.dims = [Dim(self, {(name,): 1}, hint) for name, hint in self.hints.items()]
        self._codes: dict[str, Any] = {}
        self._all: tuple[tuple[str, ...], Callable[..., tuple[Any, ...]]] = ((), lambda *_: ())
        self.begin()

    def begin(self) -> None:
        """From now on sizes may be compared."""
        self.guards: dict[str, None] | None = {}

    def guard(self, code: str) -> None:
        """Note what must be true."""
        if self.guards is None:
            raise Fixed(code)
        self.guards[code] = None

    def close(self) -> Callable[..., bool]:
        """What was made since `begin` is made: whether it is right for other sizes (at least 2 each)."""
        condition = " and ".join(self.guards or ("True",))
        self.guards = None
        holds: Callable[..., bool] = eval(f"lambda {', '.join(self.names)}: {condition}")
        return holds

    def values(self, given: Sequence[int]) -> Values:
        """What expressions come to for these values."""
        codes, function = self._all
        if len(codes) != len(self._codes):
            # Expressions are known from the first time that somebody asked for them; then all come at once.
            codes = tuple(self._codes)
            listed = "".join(f"{code}, " for code in codes)
            function = eval(f"lambda {', '.join(self.names)}: ({listed})")
            self._all = codes, function
        try:
            found = Values(zip(codes, function(*given), strict=True))
        except ZeroDivisionError:
            # In an expression of a program whose guards do not hold.
            found = Values()
        found.sizes, found.given = self, dict(zip(self.names, given, strict=True))
        return found


class Values(dict[str, Any]):
    """The values of expressions, by their code; computed when they are first asked for."""

    sizes: Sizes
    given: dict[str, int]

    def __missing__(self, code: str) -> Any:
        compiled = self.sizes._codes.get(code)
        if compiled is None:
            compiled = self.sizes._codes[code] = compile(code, "<size>", "eval")
        value = eval(compiled, {}, self.given)
        self[code] = value
        return value

    def of(self, value: Any) -> Any:
        """`value` with numbers for the sizes in it: a size, or tuples of some."""
        kind = type(value)
        if kind is int:
            return value
        if kind is Dim or kind is Quotient:
            return self[value.code]
        if isinstance(value, tuple):
            if kind is tuple or kind is OpenShape:
                return tuple([n if type(n) is int else self.of(n) for n in value])
            items = [self.of(n) for n in value]
            # A named tuple, or another kind of tuple whose type means something.
            return kind(*items) if hasattr(kind, "_fields") else kind(items)
        return value


def _code(terms: Terms) -> str:
    """The polynomial as a Python expression: equal ones give equal text."""
    parts = []
    for atoms, factor in sorted(terms.items()):
        parts.append("*".join([*atoms] if factor == 1 and atoms else [str(factor), *atoms]))
    return f"({'+'.join(parts)})" if parts else "0"


class Dim(Symbol):
    """A size that is left open; see above. Constants are plain ints, never one of these."""

    __slots__ = ("_terms", "code", "hint", "sizes")

    def __init__(self, sizes: Sizes, terms: Terms, hint: int) -> None:
        self.sizes, self._terms, self.hint = sizes, terms, hint
        self.code = _code(terms)

    def _made(self, terms: Terms, hint: int) -> Any:
        terms = {atoms: factor for atoms, factor in terms.items() if factor}
        if not terms:
            return 0
        return terms[()] if [*terms] == [()] else Dim(self.sizes, terms, hint)

    def _terms_of(self, other: Any) -> Terms | None:
        """The other operand as a polynomial; None if it is none."""
        if type(other) is Dim:
            if other.sizes is not self.sizes:
                raise Fixed("sizes of two plans meet")
            return other._terms
        return {(): int(other)} if isinstance(other, int) else None

    # Arithmetic.

    def __add__(self, other: Any) -> Any:
        terms = self._terms_of(other)
        if terms is None:
            return float(self) + other if isinstance(other, float) else NotImplemented
        total = dict(self._terms)
        for atoms, factor in terms.items():
            total[atoms] = total.get(atoms, 0) + factor
        return self._made(total, self.hint + _hint(other))

    __radd__ = __add__

    def __mul__(self, other: Any) -> Any:
        terms = self._terms_of(other)
        if terms is None:
            return float(self) * other if isinstance(other, float) else NotImplemented
        total: Terms = {}
        for a, x in self._terms.items():
            for b, y in terms.items():
                atoms = tuple(sorted(a + b))
                total[atoms] = total.get(atoms, 0) + x * y
        return self._made(total, self.hint * _hint(other))

    __rmul__ = __mul__

    def __neg__(self) -> Any:
        return self * -1

    def __pos__(self) -> Any:
        return self

    def __sub__(self, other: Any) -> Any:
        return self + -other if isinstance(other, (int, float, Dim)) else NotImplemented

    def __rsub__(self, other: Any) -> Any:
        return -self + other if isinstance(other, (int, float)) else NotImplemented

    def __pow__(self, other: Any) -> Any:
        if type(other) is not int or other < 1:
            return int(self) ** other
        result: Any = self
        for _ in range(other - 1):
            result = result * self
        return result

    def __rpow__(self, other: Any) -> Any:
        return other ** int(self)

    def __floordiv__(self, other: Any) -> Any:
        return self._divided("//", other, reflected=False)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._divided("//", other, reflected=True)

    def __mod__(self, other: Any) -> Any:
        return self._divided("%", other, reflected=False)

    def __rmod__(self, other: Any) -> Any:
        return self._divided("%", other, reflected=True)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def _divided(self, sign: str, other: Any, reflected: bool) -> Any:
        """A quotient or remainder: of polynomials, where it comes out even, else an atom of its own."""
        if self._terms_of(other) is None:
            return NotImplemented
        x, y = (other, self) if reflected else (self, other)
        if y == 0:
            raise ZeroDivisionError("division by a size of 0")
        if type(x) is int and x >= 0 and type(y) is Dim and x < y._least():
            return 0 if sign == "//" else x
        even = self._even(x, y)
        if even is not None:
            return even if sign == "//" else 0
        number = (operator.floordiv if sign == "//" else operator.mod)(_hint(x), _hint(y))
        return Dim(self.sizes, {(f"({_text(x)}{sign}{_text(y)})",): 1}, number)

    def _even(self, x: Any, y: Any) -> Any:
        """x / y where each term of x is a multiple of the only term of y; else None."""
        divisor = self._terms_of(y)
        assert divisor is not None
        if len(divisor) != 1:
            return 1 if _text(x) == _text(y) else None
        ((below, factor),) = divisor.items()
        quotient: Terms = {}
        for atoms, number in (self._terms_of(x) or {}).items():
            rest = list(atoms)
            for atom in below:
                if atom not in rest:
                    return None
                rest.remove(atom)
            if number % factor:
                return None
            quotient[tuple(rest)] = number // factor
        return self._made(quotient, _hint(x) // _hint(y))

    # Questions.

    def _asked(self, sign: str, other: Any, answer: Callable[[Any, Any], bool]) -> Any:
        """The answer for the hints, which is a guard unless it is the same for all sizes."""
        terms = self._terms_of(other)
        if terms is None:
            return answer(int(self), other) if isinstance(other, float) else NotImplemented
        difference = self - other
        if type(difference) is int:
            return answer(difference, 0)
        answered = answer(difference.hint, 0)
        if not difference._decides(sign):
            code = f"{difference.code} {sign} 0"
            self.sizes.guard(code if answered else f"not {code}")
        return answered

    def _decides(self, sign: str) -> bool:
        """Whether the answer to `self sign 0` is the same for all sizes."""
        least, most = self._least(), -(-self)._least()
        return (
            least > 0
            or most < 0
            or (sign in ("<", ">=") and least == 0)
            or (sign in (">", "<=") and most == 0)
        )

    def _least(self) -> float:
        """A number that the polynomial is never below; maybe minus infinity.

        With each size written as 2 and what it has more, a polynomial without negative coefficients is
        never below its constant.
        """
        more: Terms = {}
        for atoms, factor in self._terms.items():
            if not all(atom in self.sizes.hints for atom in atoms):
                return -math.inf
            for chosen in itertools.product((False, True), repeat=len(atoms)):
                rest = tuple([atom for atom, keep in zip(atoms, chosen, strict=True) if keep])
                more[rest] = more.get(rest, 0) + factor * 2 ** (len(atoms) - len(rest))
        constant = more.pop((), 0)
        return constant if all(factor >= 0 for factor in more.values()) else -math.inf

    def __eq__(self, other: object) -> Any:
        return self._asked("==", other, operator.eq)

    def __ne__(self, other: object) -> Any:
        return not self == other

    def __lt__(self, other: Any) -> Any:
        return self._asked("<", other, operator.lt)

    def __le__(self, other: Any) -> Any:
        return self._asked("<=", other, operator.le)

    def __gt__(self, other: Any) -> Any:
        return self._asked(">", other, operator.gt)

    def __ge__(self, other: Any) -> Any:
        return self._asked(">=", other, operator.ge)

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __hash__(self) -> int:
        # Of the expression: sizes that happen to be equal now are not found for each other.
        return hash(self.code)

    # The number itself.

    def likely(self) -> int:
        """See the function of this name."""
        return self.hint

    def __index__(self) -> int:
        self.sizes.guard(f"{self.code} == {self.hint}")
        return self.hint

    __int__ = __trunc__ = number = __index__

    def __float__(self) -> float:
        return float(self.__index__())

    def __truediv__(self, other: Any) -> Any:
        return _quotient(self.sizes, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _quotient(self.sizes, other, self)

    def __repr__(self) -> str:
        return f"<{self.code}>"

    def __reduce__(self) -> Any:
        raise TypeError("an open size belongs to one plan")


class Quotient(Symbol):
    """A fraction of sizes, as it stands beside tensors; asked for more, it is the number itself."""

    __slots__ = ("code", "hint", "sizes")

    def __init__(self, sizes: Sizes, code: str, hint: float) -> None:
        self.sizes, self.code, self.hint = sizes, code, hint

    def __float__(self) -> float:
        self.sizes.guard(f"{self.code} == {self.hint!r}")
        return self.hint

    number = __float__

    def __neg__(self) -> Quotient:
        return Quotient(self.sizes, f"(-{self.code})", -self.hint)

    def __repr__(self) -> str:
        return f"<{self.code}>"


def _float_method(name: str) -> Callable[..., Any]:
    def method(self: Quotient, *others: Any) -> Any:
        return getattr(float(self), name)(*[float(o) if isinstance(o, Quotient) else o for o in others])

    return method


for _name in "add radd sub rsub mul rmul truediv rtruediv pow rpow abs bool eq ne lt le gt ge hash".split():
    setattr(Quotient, f"__{_name}__", _float_method(f"__{_name}__"))


def _quotient(sizes: Sizes, x: Any, y: Any) -> Any:
    """x / y, as Python divides them."""
    if not all(isinstance(v, (Dim, int, float)) for v in (x, y)):
        return NotImplemented
    if y == 0:
        raise ZeroDivisionError("division by a size of 0")
    numbers = [v.hint if type(v) is Dim else v for v in (x, y)]
    if dtypes.default_float() is not dtypes.float32:
        return (int(x) if type(x) is Dim else x) / (int(y) if type(y) is Dim else y)
    code = "/".join(v.code if type(v) is Dim else repr(v) for v in (x, y))
    return Quotient(sizes, f"({code})", numbers[0] / numbers[1])


# A size may stand beside tensors, as in a sum divided by a count; it counts as an int there, a quotient
# as a float.
OPERANDS |= {Dim, Quotient}
dtypes.PYTHON_TYPES.update({Dim: dtypes.int64, Quotient: dtypes.float32})


def smallest(*sizes: Any) -> Any:
    """The smallest of some sizes, of which no guard says which one it is."""
    return _extreme("min", min, sizes)


def largest(*sizes: Any) -> Any:
    """The largest of some sizes."""
    return _extreme("max", max, sizes)


def _extreme(name: str, of: Callable[..., Any], sizes: Sequence[Any]) -> Any:
    owner = next((size.sizes for size in sizes if type(size) is Dim), None)
    if owner is None:
        return of(sizes)
    code = f"{name}({','.join(map(_text, sizes))})"
    return Dim(owner, {(code,): 1}, of(map(_hint, sizes)))


def likely(size: Any) -> int:
    """The size in the call that is compiled: for choices that are right either way, which are no guards."""
    return size.likely() if type(size) is Dim else size


def _hint(value: Any) -> int:
    return value.hint if type(value) is Dim else int(value)


def _text(value: Any) -> str:
    return value.code if type(value) is Dim else str(int(value))
