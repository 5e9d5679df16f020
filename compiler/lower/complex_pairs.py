"""Complex numbers apart: a graph goes in; one whose kernels compute both parts of each comes out.

Kernels know real numbers. What is computed of complex ones is two values then, of which other kernels' rules
hold: they share loops, are reduced, kept in registers, taken apart along short axes. Inputs are read as they
lie, each second number; what NumPy needs as a whole, and results, are stored so by the kernel of the parts.

    v0: c64[9] = fft_c2c(x)        v0: c64[9] = fft_c2c(x)
    v1: c64[9] = mul(v0, w)        l0: f32[9, 2] = pairs(v0)
    v2: f32[9] = abs(v1)           l1: f32[9] = getitem(l0, index=(..., 0))
                                   ...
                                   l5: f32[9] = mul.real(l1, l2, l3, l4)

A product of matrices is one of real ones: rows of pairs with a matrix in which each number w is the 2 x 2 of
its own, [[re, im], [-im, re]].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fusegrad.compiler.base.assemble_op import ASSEMBLE
from fusegrad.compiler.base.complex_ops import AS_COMPLEX, PAIRS, is_complex, part_dtype
from fusegrad.compiler.kernel.dtypes import has_kernels
from fusegrad.compiler.lower.complex_scalars import is_known, of_pairs
from fusegrad.compiler.lower.rewriter import CLONE, Rewriter
from fusegrad.eager.core.families import Pointwise, Reduction, View
from fusegrad.eager.core.op import REGISTRY
from fusegrad.eager.core.sizes import has_symbols
from fusegrad.eager.ops.shape.slicing import Slice
from fusegrad.tracer.ir import passes
from fusegrad.tracer.ir.graph import Equation, Graph, Operand, Value

Pair = tuple[Value, Value]

_GETITEM = REGISTRY["getitem"]

# What only moves numbers, adds them up, or does to both parts the same.
_MOVED = frozenset(
    "cat embed assign diagonal_scatter take select_at gather put scatter flip roll cumsum detach "
    "nan_to_num".split()
)


def with_complex_as_pairs(graph: Graph) -> Graph:
    """The graph with what is computed of complex numbers computed of their parts."""
    if not any(is_complex(v) for e in graph.equations for v in (*e.values(), *e.outputs)):
        return graph
    rewriter = _Parts(graph)
    for equation in graph.equations:
        rewriter.put(equation)
    outputs = tuple(rewriter.now(v) for v in graph.outputs)
    return passes.dead_code(Graph(graph.inputs, tuple(rewriter.equations), outputs))


class _Parts(Rewriter):
    """The graph as far as it is rewritten. Of complex values that are computed here there are the parts, and
    the whole where it was asked for; of others the whole.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph, {})
        self._apart: dict[Value, Pair] = {}
        self._parts: dict[Value, Pair] = {}

    def put(self, original: Equation) -> None:
        """Add an equation, or what stands for it."""
        self.original, self.source = original, original.source
        rule = self._rule(original)
        if rule is None or not rule(self, original):
            self._keep(original)

    def _rule(self, equation: Equation) -> Callable[[_Parts, Equation], bool] | None:
        values = (*equation.values(), *equation.outputs)
        if len(equation.outputs) != 1 or not any(map(is_complex, (*equation.inputs, equation.output))):
            return None
        if not all(has_kernels(part_dtype(v.dtype)) for v in values):
            return None
        op = equation.op
        own = _RULES.get(op.name)
        if own is not None:
            return own
        if isinstance(op, View):
            return _view
        if isinstance(op, Reduction):
            return _moved if op.combine == "add" else None
        return _moved if op.name in _MOVED else _pointwise if isinstance(op, Pointwise) else None

    def _keep(self, original: Equation) -> None:
        """The equation as it is, of wholes."""
        inputs = tuple(self.whole(v) if isinstance(v, Value) else v for v in original.inputs)
        self._append(Equation(original.op, inputs, original.params, original.outputs, original.source))

    def is_returned(self, value: Value) -> bool:
        """Whether a value is a result, which lies in memory as eager's does."""
        return value in self._returned

    def is_apart(self, value: Value) -> bool:
        """Whether kernels have computed the parts of a value."""
        return value in self._apart

    # Parts and wholes.

    def define(self, value: Value, parts: Pair) -> None:
        """These are the parts of a value of the original graph."""
        self._apart[value] = self._parts[value] = parts
        if self.is_returned(value):
            self.whole(value)

    def stands_for(self, value: Value, now: Value) -> None:
        """A real value of the original graph is another one now; a result gets memory of its own."""
        if self.is_returned(value):
            self._append(Equation(CLONE, (now,), {}, (value,), self.source))
        else:
            self.same[value] = now

    def parts(self, operand: Operand) -> tuple[Operand, Operand]:
        """The real and the imaginary part of an operand; of a real one itself and 0."""
        if not isinstance(operand, Value):
            number = complex(operand)
            return number.real, number.imag
        if operand not in self._parts:
            value = self.now(operand)
            assert isinstance(value, Value)
            if not is_complex(value):
                zero = self.full((), 0, part_dtype(self._complex_dtype()))
                return self.cast(value, zero.dtype), self.expand(zero, value.shape)
            pairs = self.equation(PAIRS, (value,), {})
            self._parts[operand] = self.one_of(pairs, 0), self.one_of(pairs, 1)
        return self._parts[operand]

    def _complex_dtype(self) -> Any:
        found = [v.dtype for v in (*self.original.outputs, *self.original.values()) if is_complex(v)]
        return found[0]

    def one_of(self, pairs: Value, number: int) -> Value:
        """The first or second one of what lies along the last dimension."""
        whole = [Slice(0, n, 1) for n in pairs.shape[:-1]]
        return self.op("getitem", pairs, index=(*whole, number))

    def whole(self, value: Value) -> Value:
        """A value in memory."""
        if value in self._apart:
            self._joined(self._apart.pop(value), value)
        now = self.now(value)
        assert isinstance(now, Value)
        return now

    def _joined(self, parts: Pair, made: Value) -> None:
        """Parts next to each other, which are the value `made`."""
        shape = made.shape
        pieces = [self.reshape(p, (*shape, 1)) for p in parts]
        pairs = self.equation(ASSEMBLE, pieces, {"shape": (*shape, 2), "dims": (len(shape),)})
        self._append(Equation(AS_COMPLEX, (pairs,), {}, (made,), self.source))

    def pairs(self, value: Value) -> Value:
        """A complex value as pairs along one dimension more, in memory."""
        if value not in self._apart:
            return self.equation(PAIRS, (self.whole(value),), {})
        shape = (*value.shape, 2)
        pieces = [self.reshape(p, (*value.shape, 1)) for p in self._apart[value]]
        return self.equation(ASSEMBLE, pieces, {"shape": shape, "dims": (len(shape) - 1,)})


# Rules: whether they know what stands for an equation, which they add then.


def _pointwise(b: _Parts, equation: Equation) -> bool:
    op, params = equation.op, equation.params
    kinds = "".join("c" if is_complex(v) else "r" for v in equation.inputs)
    made = equation.output
    assert isinstance(op, Pointwise)
    if not is_known(op, kinds, not is_complex(made), dict(params)):
        return False
    given: list[Operand] = []
    for operand, kind in zip(equation.inputs, kinds, strict=True):
        given += b.parts(operand) if kind == "c" else [b.now(operand)]
    if is_complex(made):
        real, imag = (b.equation(of_pairs(op, part, kinds), given, params) for part in (0, 1))
        b.define(made, (real, imag))
    else:
        b.stands_for(made, b.equation(of_pairs(op, None, kinds), given, params))
    return True


def _cast(b: _Parts, equation: Equation) -> bool:
    (x,), made = equation.inputs, equation.output
    real, imag = b.parts(x)
    assert isinstance(real, Value) and isinstance(imag, Value)
    if is_complex(made):
        dtype = part_dtype(made.dtype)
        b.define(made, (b.cast(real, dtype), b.cast(imag, dtype)))
    elif made.dtype.kind == "b":
        b.stands_for(made, b.op("logical_or", b.cast(real, made.dtype), b.cast(imag, made.dtype)))
    else:
        b.stands_for(made, b.cast(real, made.dtype))
    return True


def _full(b: _Parts, equation: Equation) -> bool:
    made, value = equation.output, complex(equation.params["value"])
    if "order" in equation.params:
        return False
    real, imag = (b.full(made.shape, part, part_dtype(made.dtype)) for part in (value.real, value.imag))
    b.define(made, (real, imag))
    return True


def _view(b: _Parts, equation: Equation) -> bool:
    """Of parts, if they are computed; of what lies in memory the view is there."""
    (x,), made = equation.inputs, equation.output
    if not b.is_apart(x) or b.is_returned(made):
        return False
    _moved(b, equation)
    return True


def _moved(b: _Parts, equation: Equation) -> bool:
    """The same for both parts."""
    op, made = equation.op, equation.output
    takes_all = op.name in ("cat", "assign", "diagonal_scatter")
    given = [b.parts(v) if takes_all or is_complex(v) else (b.now(v),) * 2 for v in equation.inputs]
    real, imag = (b.equation(op, [pair[part] for pair in given], equation.params) for part in (0, 1))
    b.define(made, (real, imag))
    return True


def _part(number: int) -> Callable[[_Parts, Equation], bool]:
    def rule(b: _Parts, equation: Equation) -> bool:
        (x,), made = equation.inputs, equation.output
        if b.is_returned(made):
            # As eager's, a part of the whole.
            pairs = b.equation(PAIRS, (b.whole(x),), {})
            index = (*(Slice(0, n, 1) for n in made.shape), number)
            b._append(Equation(_GETITEM, (pairs,), {"index": index}, (made,), equation.source))
        else:
            now = b.parts(x)[number]
            assert isinstance(now, Value)
            b.same[made] = now
        return True

    return rule


def _view_as_real(b: _Parts, equation: Equation) -> bool:
    (x,), made = equation.inputs, equation.output
    if b.is_returned(made) or not b.is_apart(x):
        b._append(Equation(PAIRS, (b.whole(x),), {}, (made,), equation.source))
    else:
        parts = [b.reshape(p, (*x.shape, 1)) for p in b.parts(x)]
        b.same[made] = b.op("cat", *parts, dim=len(x.shape))
    return True


def _view_as_complex(b: _Parts, equation: Equation) -> bool:
    (x,), made = equation.inputs, equation.output
    now = b.now(x)
    assert isinstance(now, Value)
    if b.is_returned(made):
        b._append(Equation(AS_COMPLEX, (now,), {}, (made,), equation.source))
    else:
        b.define(made, (b.one_of(now, 0), b.one_of(now, 1)))
    return True


def _complex_of(b: _Parts, equation: Equation) -> bool:
    made = equation.output
    real, imag = (b.expand(b.now(x), made.shape) for x in equation.inputs)
    b.define(made, (real, imag))
    return True


def _matmul(b: _Parts, equation: Equation) -> bool:
    x, y = equation.values()
    made = equation.output
    *rows, inner = x.shape if len(x.shape) > 1 else (1, *x.shape)
    *batch, _, columns = y.shape if len(y.shape) > 1 else (*y.shape, 1)
    if has_symbols((inner, columns)):
        return False
    left = b.reshape(b.pairs(x), (*rows, 2 * inner))
    real, imag = (b.reshape(p, (*batch, inner, 1, columns, 1)) for p in b.parts(y))
    blocks = (real, imag, b.op("neg", imag), real)
    rank = len(batch) + 4
    shape = (*batch, inner, 2, columns, 2)
    right = b.equation(ASSEMBLE, blocks, {"shape": shape, "dims": (rank - 3, rank - 1)})
    product = b.op("matmul", left, b.reshape(right, (*batch, 2 * inner, 2 * columns)))
    pairs = b.reshape(product, (*made.shape, 2))
    b._append(Equation(AS_COMPLEX, (pairs,), {}, (made,), equation.source))
    return True


_RULES: dict[str, Callable[[_Parts, Equation], bool]] = {
    "cast": _cast,
    "full": _full,
    "real": _part(0),
    "imag": _part(1),
    "view_as_real": _view_as_real,
    "view_as_complex": _view_as_complex,
    "complex_of": _complex_of,
    "matmul": _matmul,
}
