"""Numbers that a replay comes by anew: what they stand for in the graph, and what Python computes of them.

A number of Python does not tell an op's result type where it stands next to floats: a float32 tensor times a
float is float32. So compiled code takes it as a value of their dtype without dimensions; and whole numbers
next to int64.

Numbers may come out of tensors. `norm.item()` is a Python float, and Python's floats are what tensors of
float64 without dimensions are; whole numbers are, too, below 2 ** 53. So `scale = 1 / (norm.item() + 1e-6)`
is written down as equations of such tensors, and Python goes on with the number. Where it asks for no more
than an outcome, `norm.item() > 10`, that is guarded, and not the number. What Python raises for a number,
where tensors raise nothing, is guarded as well.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.families import Composite, Pointwise
from fusegrad.eager.core.op import REGISTRY, Op, Params, wrap
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.ir.graph import Value
from fusegrad.tracer.observe.lookup import MISSING
from fusegrad.tracer.observe.numbers import Taken, standing_for, stood_for
from fusegrad.tracer.observe.operations import COMPARE
from fusegrad.tracer.observe.symbols import NUMBERS, Scalar, Symbol, fresh
from fusegrad.tracer.observe.values import plain_key
from fusegrad.tracer.record.number_operands import by_operands

if TYPE_CHECKING:
    from fusegrad.tracer.record.recorder import Recorder

_FULL = REGISTRY["full"]
# Ops that compute with whole numbers in int64 what they compute with tensors of it.
_INT64 = np.dtype(np.int64)
_WHOLE = frozenset({"add", "sub", "mul", "eq", "ne", "lt", "le", "gt", "ge", "maximum", "minimum"})
# Up to where floats take an integer as it is, by their bytes.
_EXACT = {2: 2**11, 4: 2**24, 8: 2**53}


def dtype_of_numbers(op: Op, args: Sequence[Any]) -> np.dtype | None:
    """The dtype in which the op computes with Python numbers among its arguments; None where they may decide
    more than values.
    """
    if not isinstance(op, Pointwise) and not (isinstance(op, Composite) and op.numbers_vary):
        return None
    known = {a.array.dtype for a in args if isinstance(a, Tensor)}
    if known == {_INT64} and op.name in _WHOLE and all(type(a) in (Tensor, int) for a in args):
        return _INT64
    floats = {dtype for dtype in known if dtype.kind == "f"}
    if not floats and isinstance(op, Pointwise) and any(type(a) is float for a in args):
        promoted = op.compute_dtype([a.array if isinstance(a, Tensor) else a for a in args])
        return promoted if promoted.kind == "f" else None
    return floats.pop() if len(floats) == 1 else None


def bound_of(dtype: np.dtype) -> int:
    """Below which magnitude a number is the same in Python and in the dtype, but for rounding."""
    return _EXACT[dtype.itemsize]


def is_scalar(number: Any, dtype: np.dtype) -> bool:
    """Whether a Python number may be an input of that dtype."""
    return type(number) in NUMBERS and abs(number) < bound_of(dtype)


class Scalars:
    """The numbers that a recorded run has computed with, each as a tensor that stands for it in the graph.

    values: what stands for a number in the graph, and for no tensor: a node that keeps it keeps a number.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._tensors: dict[tuple[Symbol, np.dtype], Tensor] = {}
        self.values: set[Value] = set()

    def plain(self, args: tuple[Any, ...], params: Params) -> tuple[tuple[Any, ...], Params]:
        """What an op is given, with numbers for what stands for them in Python code of the engine."""
        if not self._recorder.numbers.any_followed:
            return args, params
        return stood_for(args), {name: stood_for(value) for name, value in params.items()}

    def in_rules(self, inputs: Sequence[Any], params: Params) -> tuple[Sequence[Any], Params]:
        """The other way round, for gradient rules: these compute with numbers, too."""
        numbers = self._recorder.numbers
        if not numbers.any_followed:
            return inputs, params
        standing = {name: standing_for(value, numbers) for name, value in params.items()}
        return [standing_for(x, numbers) for x in inputs], standing

    def operands(self, op: Op, args: Sequence[Any], params: Params) -> tuple[Op, Sequence[Any], Params]:
        """What an op does with tensors for the numbers that a replay comes by anew, among its arguments and
        parameters. Where it cannot be an input, a number must be what it is.
        """
        numbers = self._recorder.numbers
        if not numbers.any_followed:
            return op, args, params
        if op is _FULL:
            return self._filled(params)
        dtype = dtype_of_numbers(op, args)
        found = [a if isinstance(a, Tensor) else self._operand(a, dtype) for a in args]
        given = {name: value for name, value in params.items() if numbers.has(value)}
        if given:
            is_special = any(self._is_one_of(op.special, value) for value in given.values())
            dtype = dtype if op.numbers_vary and not is_special else None
            operands = {name: self._operand(value, dtype) for name, value in given.items()}
            operands = {name: x for name, x in operands.items() if isinstance(x, Tensor)}
            if operands:
                rest = {name: value for name, value in params.items() if name not in operands}
                other = op.numbers_vary if isinstance(op.numbers_vary, Op) else by_operands(op, (*operands,))
                return other, [*found, *operands.values()], rest
        return op, found, params

    def _is_one_of(self, special: Sequence[float], number: Any) -> bool:
        """Whether a number is one of some; that it is none of the others is so at replays, too."""
        standing = standing_for(number, self._recorder.numbers)
        return any(standing == other for other in special)

    def _filled(self, params: Params) -> tuple[Op, Sequence[Any], Params]:
        """As `operands`, for a tensor full of a number: that is so many ones, times the number."""
        dtype = params["dtype"].numpy
        given = self._operand(params["value"], dtype if dtype.kind == "f" else None)
        if not isinstance(given, Tensor):
            return _FULL, (), params
        ones = self._recorder.emit(_FULL, (), {**params, "value": 1})
        return REGISTRY["mul"], (ones, given), {}

    def _operand(self, value: Any, dtype: np.dtype | None) -> Any:
        """What stands for a plain value that an op of that dtype takes; itself if it must be what it is."""
        numbers = self._recorder.numbers
        given = None if dtype is None else self._given(value, dtype)
        if given is None:
            numbers.look(value)
            return value
        self.values.add(self._recorder.value_of(given))
        return given

    def _given(self, number: Any, dtype: np.dtype) -> Tensor | None:
        symbol = self._recorder.numbers.symbol_of(number)
        if symbol is None:
            return self._recorder.doubles.operand(number, dtype)
        return self.tensor(symbol, number, dtype) if is_scalar(number, dtype) else None

    def tensor(self, symbol: Symbol, number: Any, dtype: np.dtype) -> Tensor:
        """What stands for a number, of a dtype."""
        known = self._tensors.get((symbol, dtype))
        if known is None:
            known = self._tensors[symbol, dtype] = wrap(np.array(number, dtype))
            self._recorder.host(known, "number", lambda value: Scalar(value, symbol))
        return known


# Numbers that come out of tensors.

_DETACH, _RESHAPE, _CAST = (REGISTRY[name] for name in ("detach", "reshape", "cast"))
_FLOAT64 = np.dtype(np.float64)
# Up to here a whole number is the same float64.
_LARGEST = _EXACT[8]


def _least(a: Any, b: Any) -> Tensor:
    """The first of equal ones, and where one is not a number, as in Python."""
    found: Tensor = ops.where(b < a, b, a)
    return found


def _greatest(a: Any, b: Any) -> Tensor:
    found: Tensor = ops.where(b > a, b, a)
    return found


def _is_true(a: Any) -> Tensor:
    found: Tensor = ops.ne(a, 0.0)
    return found


def _is_zero(a: Any) -> Tensor:
    found: Tensor = ops.eq(a, 0.0)
    return found


def _rest(a: Any, b: Any) -> Tensor:
    """`a % b` of whole numbers."""
    found: Tensor = ops.remainder(a, b)
    return found


def _quotient(a: Any, b: Any) -> Tensor:
    """`a // b` of whole numbers: what is divided then is a multiple."""
    found: Tensor = (a - ops.remainder(a, b)) / b
    return found


# What does the same for tensors, to the bit, by the number of operands: the name of an op, or a function.
_NUMBERS: dict[tuple[Any, int], Any] = {
    (operator.add, 2): operator.add, (operator.iadd, 2): operator.add,
    (operator.sub, 2): operator.sub, (operator.isub, 2): operator.sub,
    (operator.mul, 2): operator.mul, (operator.imul, 2): operator.mul,
    (operator.truediv, 2): operator.truediv, (operator.itruediv, 2): operator.truediv,
    (operator.neg, 1): operator.neg, (abs, 1): abs, (math.fabs, 1): abs,
    (min, 2): _least, (max, 2): _greatest,
    (float, 1): operator.pos, (int, 1): "trunc", (math.trunc, 1): "trunc", (math.floor, 1): "floor",
    (math.ceil, 1): "ceil", (round, 1): "round",
    (operator.mod, 2): _rest, (operator.imod, 2): _rest,
    (operator.floordiv, 2): _quotient, (operator.ifloordiv, 2): _quotient,
}  # fmt: skip
_OUTCOMES: dict[tuple[Any, int], Any] = {
    **{(compare, 2): compare for compare in COMPARE.values()},
    (bool, 1): _is_true, (math.isnan, 1): "isnan", (math.isinf, 1): "isinf", (math.isfinite, 1): "isfinite",
}  # fmt: skip
_ALL = {**_NUMBERS, **_OUTCOMES}
_OF_WHOLE = (operator.mod, operator.imod, operator.floordiv, operator.ifloordiv)
_DIVISIONS = (operator.truediv, operator.itruediv, *_OF_WHOLE)
# Where functions that tensors do otherwise, to the bit, have no error, and give a float.
_DOMAINS: dict[Any, Callable[..., Any]] = {
    math.exp: lambda a: a < 709.0, math.sqrt: lambda a: a >= 0.0, math.log1p: lambda a: a > -1.0,
    **dict.fromkeys((math.log, math.log2, math.log10), lambda a: a > 0.0),
    **dict.fromkeys((operator.pow, pow, math.pow), lambda a, power: (a >= 0.0) & (a < _largest(power))),
}  # fmt: skip


def _largest(power: Any) -> float:
    """Below which numbers have this power."""
    return float(2.0 ** (1000 / power)) if power > 1 else math.inf if power > 0 else 0.0


class Doubles:
    """The numbers of one run that come from tensors' values, as tensors of float64."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._tensors: dict[Value, Tensor] = {}
        recorder.numbers.in_graph, recorder.numbers.in_domain = self.compute, self.in_domain

    def compute(self, function: Any, operands: Sequence[Any]) -> Any:
        """What a function of Python gives for numbers of which some come from tensors; MISSING, with nothing
        done, where they are not such, or tensors do not do the same.
        """
        known = [self._recorder.numbers.of(x) for x in operands]
        if not any(t is not None and t.value is not None for t in known):
            return MISSING
        key = function, len(operands)
        if key not in _ALL or not all(_fits(x, t) for x, t in zip(operands, known, strict=True)):
            return MISSING
        if function in (min, max) and len({*map(type, operands)}) > 1:
            return MISSING  # which one it is decides the type
        if function in _OF_WHOLE and {*map(type, operands)} != {int}:
            return MISSING  # floats are rounded otherwise
        if function in (float, int) and type(operands[0]) is function:
            return operands[0]
        try:
            found = function(*operands)
        except ZeroDivisionError:
            self._recorder.doors.guard(self._made(_is_zero, self._operand(operands[1], known[1])))
            raise
        except (ValueError, OverflowError):
            return MISSING  # of this number
        if type(found) is int and abs(found) >= _LARGEST:
            return MISSING
        tensors = [self._operand(x, t) for x, t in zip(operands, known, strict=True)]
        made = self._made(_ALL[key], *tensors)
        seen = made.array.item()
        if plain_key(found) != plain_key(int(seen) if type(found) is int else seen):
            return MISSING
        if key in _OUTCOMES:
            return self._recorder.doors.answer(made)
        if function in _DIVISIONS and isinstance(tensors[1], Tensor):
            self._recorder.doors.guard(self._made(_is_true, tensors[1]))
        return self._follow(found, made)

    def in_domain(self, function: Any, operands: Sequence[Any]) -> bool:
        """Whether a function of one number out of a tensor, and others that stay the same, has no error for
        this one: then replays make sure of it.
        """
        domain, (number, *others) = _DOMAINS.get(function), operands
        known = self._recorder.numbers.of(number)
        fits = known is not None and known.value is not None and fits_float64(number)
        constant = all(self._recorder.numbers.of(x) is None and fits_float64(x) for x in others)
        if domain is None or not fits or not constant or not domain(number, *others):
            return False
        self._check(domain, self._operand(number, known), *others)
        return True

    def as_float(self, value: Value) -> Value:
        """What a value gives as a Python float."""
        if value.dtype.kind in "fV":
            return value
        return self._recorder.emit(_CAST, (value,), {"dtype": dtypes.float64})

    def counted(self, first: int, step: int, count: Tensor) -> int:
        """The number that one has grown to by so many equal steps."""
        found = self._made(
            operator.add, self._made(operator.mul, self._cast(count, _FLOAT64), float(step)), float(first)
        )
        number: int = self._follow(first + step * int(count.array), found)
        return number

    def begun_with(self, number: Any) -> Any:
        """The same number, which is computed with in tensors from now on."""
        return self._follow(number, self._made("full", (), float(number), dtype=dtypes.float64))

    def value_of(self, taken: Taken) -> Value | None:
        """The value that computing goes on with for a number, if it came out of a tensor."""
        if taken.value is None or taken.value not in self._tensors:
            return taken.value
        return self._recorder.value_of(self._tensors[taken.value])

    def holding(self, value: Value, number: Any) -> Tensor:
        """A tensor off the graph that holds the value which stands for a number."""
        found = wrap(np.full(value.shape, number, value.dtype))
        self._recorder.memory.define(found.array, value)
        return found

    def number_in(self, tensor: Tensor, kind: type) -> Any:
        """The number of this class that a tensor holds."""
        number = kind(tensor.array.item())
        if kind is int and tensor.array.dtype == _FLOAT64:
            return self._follow(number, tensor)
        return self._recorder.doors.follow(fresh(number), self._recorder.value_of(tensor))

    def operand(self, number: Any, dtype: np.dtype) -> Tensor | None:
        """What stands in an op that computes in that dtype for a number that comes from tensors; None for
        another one.
        """
        taken = self._recorder.numbers.of(number)
        if taken is None or taken.value is None:
            return None
        return self._cast(self._of(taken.value, number), dtype)

    def _follow(self, number: Any, double: Tensor) -> Any:
        """The number, which others may do without; the tensor that says the same."""
        made = double
        if type(number) is int:
            double = self._made(operator.add, double, 0.0)  # there is one zero among whole numbers
            self._check_size(double)
            made = self._cast(double, np.dtype(np.int64))
        value = self._recorder.value_of(made)
        self._tensors[value] = double
        return self._recorder.doors.follow(fresh(number), value)

    def _made(self, op: Any, *operands: Any, **options: Any) -> Tensor:
        function = getattr(ops, op) if type(op) is str else op
        recorder = self._recorder
        results, recorder.results = recorder.results, None  # nobody else has them
        try:
            made: Tensor = recorder.later.at_once(lambda: function(*operands, **options))
        finally:
            recorder.results = results
        return made

    def _cast(self, tensor: Tensor, dtype: np.dtype) -> Tensor:
        return self._made(lambda x: ops.cast(x, dtypes.FROM_NUMPY[dtype]), tensor)

    def _check(self, function: Any, *operands: Any) -> None:
        """Have replays make sure that something is true; where it is not, eager may raise an error."""
        self._recorder.doors.guard(self._made(function, *operands), "check")

    def _check_size(self, double: Tensor) -> None:
        """Whole numbers that are larger would not be exact."""
        self._check(operator.lt, self._made(abs, double), float(_LARGEST))

    def _operand(self, number: Any, taken: Taken | None) -> Any:
        if taken is None:
            return float(number)
        if taken.value is not None:
            return self._of(taken.value, number)
        symbol: Any = taken.symbol
        return self._recorder.scalars.tensor(symbol, number, _FLOAT64)

    def _of(self, value: Value, number: Any) -> Tensor:
        """The tensor of float64 for a number that a value holds, off the graph."""
        found = self._tensors.get(value)
        if found is None:
            emit, made = self._recorder.emit, value
            if made in self._recorder.tracked:
                made = emit(_DETACH, (made,), {})
            if made.shape:
                made = emit(_RESHAPE, (made,), {"shape": ()})
            if made.dtype != _FLOAT64:
                made = emit(_CAST, (made,), {"dtype": dtypes.float64})
            if made is value:  # which stands for a tensor, that nodes may keep as such
                made = emit(_DETACH, (made,), {})
            found = self._tensors[value] = wrap(np.array(number, _FLOAT64))
            self._recorder.memory.define(found.array, made)
            if value.dtype.kind in "iu":
                self._check_size(found)
        return found


def _fits(number: Any, taken: Taken | None) -> bool:
    """Whether tensors of float64 take an operand as it is."""
    return (taken is None or taken.value is not None or taken.symbol is not None) and fits_float64(number)


def fits_float64(number: Any) -> bool:
    """Whether a tensor of float64 holds a number as it is."""
    return type(number) is float or (type(number) in (int, bool) and abs(number) < _LARGEST)
