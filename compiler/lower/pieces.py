"""Pieces: of each op, what the elements of its result along short dimensions are computed of.

A rule has two sides. `links` says which dimensions of its operands and result are one, and along which
elements move; `piece` gives one index of the result along the dimensions that are apart, of such pieces of
the operands. The rules stand in `piece_rules.py`.

    v0: f32[9, 3] = cat(x, y, dim=1)        links: x's and y's dimension 0 with the result's, and 1 with 1
                                            piece 2, with x of shape [9, 1]: piece 1 of y
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from fusegrad.compiler.base.assemble_op import ASSEMBLE, places
from fusegrad.eager.core.dtypes import FROM_NUMPY
from fusegrad.eager.core.families import Layout, View, contiguous_layout
from fusegrad.eager.core.op import REGISTRY, Op, TensorType
from fusegrad.eager.ops.shape.slicing import Slice
from fusegrad.tracer.ir.graph import Equation, Graph, Operand, Source, Value, identifier

# So many pieces a value is taken apart into at most: those of matrices of 4 x 4.
MOST = 16

# For each dimension the one index that is meant, or None for all of them.
Where = tuple[int | None, ...]
_NAMES = (
    "cat embed getitem assign reshape permute expand detach full arange diagonal diagonal_scatter cast clone"
)
OPS = {name: REGISTRY[name] for name in (*_NAMES.split(), "add", "mul", "maximum", "minimum", "matmul")}


class Links(NamedTuple):
    """What an equation does along dimensions.

    pairs: (operand, its dimension, the result's) that are one. consumed: the other dimensions of operands (by
    number) along which it finds single elements; met: pairs of these that are one. moved: (operand, whether
    of the result, dimension) along which an operand is read in parts, or is a part.
    """

    pairs: Sequence[tuple[int, int, int]]
    consumed: Sequence[tuple[int, int]] = ()
    moved: Sequence[tuple[int, bool, int]] = ()
    met: Sequence[tuple[tuple[int, int], tuple[int, int]]] = ()


def is_eligible(value: Value, dim: int) -> bool:
    """Whether a dimension is short enough to be taken apart."""
    size = value.shape[dim]
    return type(size) is int and 2 <= size <= MOST


class Rule(NamedTuple):
    """What an op says of pieces; see above. links: None where it computes the whole."""

    links: Callable[[Equation], Links | None]
    piece: Callable[[Pieces, Equation, Where], Value]


class Pieces:
    """The graph as far as it is rewritten. axes: the dimensions along which values are apart."""

    def __init__(self, graph: Graph, axes: dict[Value, tuple[int, ...]]) -> None:
        self.axes = axes
        self._returned = {v for v in graph.outputs if isinstance(v, Value)}
        self.equations: list[Equation] = []
        self.source: Source | None = None
        self.made: dict[Value, Equation] = {}
        self._pieces: dict[Value, dict[tuple[int, ...], Value]] = {}
        self._whole: set[Value] = set()
        self._never_negative_zero: set[Value] = set()
        self._known: dict[Any, Value] = {}
        self._names = graph.names()

    def put(self, equation: Equation, rule: Rule | None) -> None:
        """Add an equation, or what stands for it by the rule of its op, if that has one here."""
        self.source = equation.source
        made = equation.output if equation.outputs else None
        if made is not None and made in self.axes:
            assert rule is not None
            shape, dims = made.shape, self.axes[made]
            self._pieces[made] = {
                index: rule.piece(self, equation, _where(len(shape), dims, index))
                for index in places(shape, dims)
            }
            if made in self._returned:
                self.whole(made)
        elif rule is not None and any(v in self.axes for v in equation.values()):
            piece = rule.piece(self, equation, (None,) * len(equation.output.shape))
            self._add(
                Equation(
                    OPS["reshape"], (piece,), {"shape": equation.output.shape}, equation.outputs, self.source
                )
            )
        else:
            for value in equation.values():
                self.whole(value)
            self._add(equation)

    def whole(self, value: Value) -> Value:
        """All of a value, put together if it is not yet."""
        if value in self._pieces and value not in self._whole:
            self._whole.add(value)
            params = {"shape": value.shape, "dims": self.axes[value]}
            pieces = tuple(self._pieces[value].values())
            self._add(Equation(ASSEMBLE, pieces, params, (value,), self.source))
        return value

    def _add(self, equation: Equation) -> None:
        self.equations.append(equation)
        self.made.update(dict.fromkeys(equation.outputs, equation))
        given = [equation.params["value"]] if equation.op is OPS["full"] else equation.inputs
        if equation.op in (OPS["add"], OPS["full"], OPS["reshape"]) and any(
            v in self._never_negative_zero if isinstance(v, Value) else str(float(v)) != "-0.0" for v in given
        ):
            self._never_negative_zero.add(equation.output)

    # What rules are written with.

    def of(self, value: Value, where: Where) -> Value:
        """A value at one index along some dimensions, which it keeps."""
        if value in self._pieces and all(where[d] is not None for d in self.axes[value]):
            index = tuple(where[d] or 0 for d in self.axes[value])
            value = self._pieces[value][index]
        else:
            value = self.whole(value)
        return self.part(value, where)

    def part(self, value: Value, where: Where) -> Value:
        """The same of a value that is there as a whole, or along those dimensions."""
        if all(at is None or n == 1 for at, n in zip(where, value.shape, strict=True)):
            return value
        constant = self._constant(value, where)
        if constant is not None:
            return constant
        entries = [
            Slice(0, n, 1) if at is None or n == 1 else Slice(at, at + 1, 1)
            for at, n in zip(where, value.shape, strict=True)
        ]
        return self.op("getitem", value, index=tuple(entries))

    def _constant(self, value: Value, where: Where) -> Value | None:
        """The same of what is made of nothing: a constant, if it is one number."""
        chain, origin = [], self.made.get(value)
        while origin is not None and isinstance(origin.op, View):
            chain.append(origin)
            origin = self.made.get(origin.inputs[0])
        if origin is None or origin.op.name not in ("full", "arange") or "order" in origin.params:
            return None
        params, shape = origin.params, piece_shape(value.shape, where)
        if origin.op.name == "full":
            return self.op("full", shape=shape, value=params["value"], dtype=params["dtype"])
        layout: Layout | None = contiguous_layout(origin.output.shape)
        for view in reversed(chain):
            assert isinstance(view.op, View)
            layout = None if layout is None else view.op.layout(layout, **view.params)
        if layout is None:
            return None
        steps = [
            (s, at) for n, s, at in zip(layout.shape, layout.strides, where, strict=True) if s and n != 1
        ]
        start, step = params["start"], params["step"]
        if not (type(start) is type(step) is int) or any(at is None for _, at in steps):
            return None
        number = layout.offset + sum(s * (at or 0) for s, at in steps)
        return self.op("full", shape=shape, value=start + step * number, dtype=params["dtype"])

    def op(self, name: str, *operands: Operand, **params: Any) -> Value:
        """The result of an op: of a new equation, or of an equal one."""
        return self.equation(OPS.get(name) or REGISTRY[name], operands, params)

    def equation(self, op: Op, operands: Sequence[Operand], params: Any) -> Value:
        """`op` for an op that is at hand."""
        made = op.infer([v.type if isinstance(v, Value) else v for v in operands], params)
        assert isinstance(made, TensorType)
        value = Value("", made)
        key = Equation(op, tuple(operands), params, (value,)).key()
        if key not in self._known:
            name = identifier(f"piece{len(self._known)}", self._names)
            self._names.add(name)
            value = self._known[key] = Value(name, made)
            self._add(Equation(op, tuple(operands), params, (value,), self.source))
        return self._known[key]

    def reshape(self, x: Value, shape: Sequence[Any]) -> Value:
        """`x` under another shape."""
        return x if x.shape == tuple(shape) else self.op("reshape", x, shape=tuple(shape))

    def cast(self, x: Value, dtype: Any) -> Value:
        """`x` as another dtype."""
        return x if x.dtype == dtype else self.op("cast", x, dtype=FROM_NUMPY[dtype])

    def sum_with_zero(self, operands: Sequence[Operand], dtype: Any) -> Value | None:
        """Which of two operands their sum is, where the other one is 0, as around gradients of slices; None
        where it may be something else: what -0 and 0 come to is 0.
        """
        for one, other in (operands, operands[::-1]):
            zero = self.made.get(other) if isinstance(other, Value) else None
            if not isinstance(one, Value) or one.dtype != dtype or zero is None or zero.op is not OPS["full"]:
                continue
            if zero.params["value"] == 0 and (one.dtype.kind != "f" or one in self._never_negative_zero):
                return one
        return None

    def folded(self, name: str, pieces: Iterable[Value]) -> Value:
        """The pieces, combined from the first to the last."""
        first, *others = pieces
        for other in others:
            first = self.op(name, first, other)
        return first


def _where(rank: int, dims: Sequence[int], index: Sequence[int]) -> Where:
    found: list[int | None] = [None] * rank
    for dim, number in zip(dims, index, strict=True):
        found[dim] = number
    return tuple(found)


def piece_shape(shape: Sequence[Any], where: Where) -> tuple[Any, ...]:
    """The shape of a piece."""
    return tuple(n if at is None else 1 for n, at in zip(shape, where, strict=True))


def broadcast(b: Pieces, operand: Value, where: Where) -> Value:
    """A piece of what broadcasts to the result, of which `where` is said."""
    own = where[len(where) - len(operand.shape) :]
    return b.of(operand, tuple(None if n == 1 else at for n, at in zip(operand.shape, own, strict=True)))


def is_apart(b: Pieces, value: Value, dim: int) -> bool:
    """Whether a dimension of a value is taken apart."""
    return dim % len(value.shape) in b.axes.get(value, ())
