"""The families of ops: what all elementwise ops, all reductions, all views share, written once.

A family prepares the arrays, knows the shape rule, and fits gradients to operands. How its
members become loops is written once per family too, in `compiler/`, from the declaration's
scalar expression, layout rule, combiner or decomposition.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fusegrad.eager.core import abstract, dtypes
from fusegrad.eager.core.large import SOME, least
from fusegrad.eager.core.memory_order import Order, Orders, as_operands, cast_as_it_lies, in_order, rows
from fusegrad.eager.core.op import Op, Params, TensorType
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.sizes import broadcast_shapes
from fusegrad.eager.core.tensor import Tensor

_BOOL, _WIDE, _INT64 = np.dtype(bool), np.dtype(complex), np.dtype(np.int64)

# What may stand next to float arrays as it is: NumPy treats Python's numbers as weak, like PyTorch.
WEAK = (float, int)


@functools.lru_cache(maxsize=4096, typed=True)
def same_number(number: float, dtype: np.dtype) -> Any:
    """A number other than 0 as NumPy has it next to arrays of a float dtype, which is faster.

    Itself where NumPy has something to say about it. Zeros would be found for each other, whatever the sign.
    """
    dtypes.held(number, _WIDE)
    with np.errstate(all="ignore"):
        array = np.array(number, dtype)
    array.flags.writeable = False
    return array if np.isfinite(array) else number


class DTypeRule(NamedTuple):
    """How an elementwise op's dtype comes from its promoted operands."""

    kinds: str  # kinds computed as they are
    floating: bool  # other kinds are computed in the default float, else refused
    result: np.dtype | None  # the dtype of the result; None: the computed one


ANY = DTypeRule("buifc", False, None)
NUMBER = DTypeRule("uifc", False, None)
REAL = DTypeRule("buif", False, None)
REAL_NUMBER = DTypeRule("uif", False, None)
FLOAT = DTypeRule("fc", True, None)
REAL_FLOAT = DTypeRule("f", True, None)
ONLY_FLOAT = DTypeRule("fc", False, None)
ONLY_REAL_FLOAT = DTypeRule("f", False, None)
TEST = DTypeRule("buifc", False, _BOOL)
ORDER = DTypeRule("buif", False, _BOOL)
BITS = DTypeRule("bui", False, None)


class Analytic(Op):
    """Ops whose rules multiply the gradient by a derivative; by its conjugate, for complex numbers.

    The rules need not know of it: conj(conj(g) * d) is g * conj(d), which is PyTorch's gradient.
    """

    def gradient(
        self,
        index: int,
        g: Any,
        inputs: Sequence[Any],
        outputs: Sequence[Tensor],
        types: Sequence[Any],
        params: Params,
    ) -> Tensor | None:
        if g.array.dtype.kind != "c":
            return Op.gradient(self, index, g, inputs, outputs, types, params)
        conj = ops.conj
        return conj(Op.gradient(self, index, conj(g), inputs, outputs, types, params))


class Pointwise(Analytic):
    """One function of numbers applied to broadcast operands, as NumPy runs it.

    Compiled code calls it as an opaque stage; `Elementwise` ops can also be put in a kernel.
    numpy: the function that evaluates it.
    data: how many leading operands do not take part in promotion (`where`'s condition).
    alone: whether it takes Python numbers alone, without any tensor.
    """

    family = "opaque"

    def __init__(
        self,
        name: str,
        arguments: str,
        numpy: Callable[..., Any],
        rule: DTypeRule,
        vjp: dict[str, Callable[..., Any] | None] | None,
        grad_name: str | None = None,
        data: int = 0,
        alone: bool = False,
        order: Orders | None = None,
    ) -> None:
        super().__init__(name, arguments, vjp, grad_name)
        self.order = order
        self.ordered = in_order(numpy) if order is None else numpy
        # What a ufunc makes of one array lies as that does; of two, if the first is in row-major order.
        self.numpy, self.keeps_order = numpy, isinstance(numpy, np.ufunc)
        self.rule_of_dtype, self.kinds, self.data, self.alone = rule, rule.kinds, data, alone
        # Whether it computes two floats in the dtype of both.
        is_of_two = isinstance(numpy, np.ufunc) and numpy.nin == 2
        self.one_dtype = is_of_two and any("ff->" in t for t in numpy.types)  # type: ignore[attr-defined]
        self.takes_int64 = self.keeps_order and "i" in rule.kinds

    def evaluate(self, args: Sequence[Any], params: Params) -> Any:
        # The short ways: tensors of one dtype that the op takes, and plain numbers with floats.
        if len(args) == 1:
            x = args[0]
            if isinstance(x, Tensor) and x.array.dtype.kind in self.kinds:
                x = x.array
                plain = self.keeps_order or x.flags.c_contiguous
                return (self.numpy if plain else self.ordered)(x, **params)
        elif len(args) == 2:
            x, y = args
            if isinstance(x, Tensor):
                x = x.array
                dtype = x.dtype
                if isinstance(y, Tensor):
                    y = y.array
                    if y.dtype is dtype and dtype.kind in self.kinds:
                        plain = x.flags.c_contiguous and (self.keeps_order or y.flags.c_contiguous)
                        return (self.numpy if plain else self.ordered)(x, y, **params)
                elif dtype.kind == "f" and "f" in self.kinds and type(y) in WEAK:
                    if y and self.one_dtype:
                        y = same_number(y, dtype)
                    plain = self.keeps_order or x.flags.c_contiguous
                    return (self.numpy if plain else self.ordered)(x, y, **params)
                elif dtype is _INT64 and type(y) is int and self.takes_int64 and -(2**63) <= y < 2**63:
                    return self.numpy(x, y, **params)
            elif isinstance(y, Tensor) and type(x) in WEAK:
                y = y.array
                dtype = y.dtype
                if dtype.kind == "f" and "f" in self.kinds:
                    if x and self.one_dtype:
                        x = same_number(x, dtype)
                    plain = self.keeps_order or y.flags.c_contiguous
                    return (self.numpy if plain else self.ordered)(x, y, **params)
                if dtype is _INT64 and type(x) is int and self.takes_int64 and -(2**63) <= x < 2**63:
                    return self.numpy(x, y, **params)
        return self._evaluate_mixed(args, params)

    def _evaluate_mixed(self, args: Sequence[Any], params: Params) -> Any:
        if not self.alone and not any(isinstance(a, Tensor) for a in args):
            raise TypeError(f"expected a Tensor, got {', '.join(type(a).__name__ for a in args)}")
        compute = self.compute_dtype([a.array if isinstance(a, Tensor) else a for a in args])
        arrays = [a.array if isinstance(a, Tensor) else np.asarray(dtypes.held(a, _WIDE)) for a in args]
        arrays[self.data :] = [cast_as_it_lies(array, compute) for array in arrays[self.data :]]
        return self.ordered(*arrays, **params)

    def compute_dtype(self, operands: Sequence[Any]) -> np.dtype:
        """The dtype that the operands (with .dtype and .ndim, or numbers) are computed in.

        Raises RuntimeError for a dtype that the op does not take.
        """
        promoted = dtypes.result_type(operands[self.data :])
        rule = self.rule_of_dtype
        if ("f" if promoted.kind == "V" else promoted.kind) in rule.kinds:
            return promoted
        if rule.floating and promoted.kind in "bui":
            return dtypes.default_float().numpy
        raise RuntimeError(f'"{self.name}" not implemented for {promoted.name}')

    def infer(self, types: Sequence[Any], params: Params) -> TensorType:
        shape = broadcast_shapes(*(t.shape for t in types if isinstance(t, TensorType)))
        return TensorType(shape, self.rule_of_dtype.result or self.compute_dtype(types))

    def orders(self, shapes: Sequence[tuple[int, ...]], args: Sequence[Any], params: Params) -> list[Order]:
        if self.order is not None:
            return super().orders(shapes, args, params)
        return [as_operands(shape, [a.array for a in args if isinstance(a, Tensor)]) for shape in shapes]

    def fit(self, gradient: Tensor, shape: tuple[int, ...], dtype: np.dtype) -> Tensor:
        return fit(gradient, shape, dtype)


class Elementwise(Pointwise):
    """A pointwise op that kernels compute, by its scalar expression.

    scalar: the name of a scalar primitive of the kernel IR, or a function of a builder and the
    operands that combines them (`lambda b, x: b.mul(x, b.sigmoid(x))`).
    """

    family = "elementwise"

    def __init__(
        self,
        name: str,
        arguments: str,
        numpy: Callable[..., Any],
        rule: DTypeRule,
        scalar: str | Callable[..., Any],
        vjp: dict[str, Callable[..., Any] | None] | None,
        grad_name: str | None = None,
        data: int = 0,
        alone: bool = False,
        refuses: str = "",
        order: Orders | None = None,
    ) -> None:
        super().__init__(name, arguments, numpy, rule, vjp, grad_name, data, alone, order)
        self.scalar, self.refuses = scalar, refuses
        self.large = least(numpy)


def fit(gradient: Tensor, shape: tuple[int, ...], dtype: np.dtype) -> Tensor:
    """Undo broadcasting and promotion: sum `gradient` down to `shape` and cast it to `dtype`."""
    given = gradient.array.shape
    if given != shape:
        extra = len(given) - len(shape)
        dims = tuple(i for i, n in enumerate(given) if i < extra or (shape[i - extra] == 1 and n != 1))
        if dims:
            gradient = ops.sum(gradient, dims, keepdim=False)
        if gradient.array.shape != shape:
            gradient = ops.reshape(gradient, shape)
    return gradient if gradient.array.dtype == dtype else ops.cast(gradient, dtype)


class Reduction(Op):
    """Elements combined along dimensions. Params: `dim` (a sorted tuple, or None for all), `keepdim`.

    numpy: called with `axis` and `keepdims`.
    combine: the kernel IR's combiner ("add", "mul", "max", "min", "or", "and").
    rule: gives the result dtype for the operand's.
    """

    family = "reduction"
    order = staticmethod(rows)
    large = SOME

    def __init__(
        self,
        name: str,
        numpy: Callable[..., Any],
        combine: str | None,
        result: Callable[[np.dtype], np.dtype],
        vjp: dict[str, Callable[..., Any] | None] | None,
        grad_name: str | Callable[[Params], str] | None = None,
        empty: bool = True,
    ) -> None:
        super().__init__(name, "x", vjp, grad_name)
        self.numpy, self.combine, self.result, self.empty = numpy, combine, result, empty

    def evaluate(self, args: Sequence[Any], params: Params) -> Any:
        return self.reduced(args[0].array, params["dim"], params["keepdim"])

    def reduced(self, array: np.ndarray, dim: tuple[int, ...] | None, keepdim: bool) -> Any:
        """What it makes of an array."""
        self._check_empty(array.shape, dim)
        dtype = self.result(array.dtype)
        if array.dtype != dtype and dtype != _BOOL:
            array = array.astype(dtype)
        if array.flags.c_contiguous:
            return self.numpy(array, axis=dim, keepdims=keepdim)
        # NumPy leaves odd strides along dimensions of one element.
        shape = reduced_shape(array.shape, dim, keepdim)
        return np.array(self.numpy(array, axis=dim, keepdims=False), order="C").reshape(shape)

    def _check_empty(self, shape: tuple[int, ...], dim: tuple[int, ...] | None) -> None:
        if not self.empty and not math.prod(shape if dim is None else (shape[d] for d in dim)):
            raise IndexError(f"cannot reduce over no elements (shape {list(shape)}); it has no identity")

    def infer(self, types: Sequence[Any], params: Params) -> TensorType:
        shape, dtype = types[0]
        self._check_empty(shape, params["dim"])
        return TensorType(reduced_shape(shape, params["dim"], params["keepdim"]), self.result(dtype))


def reduced_shape(shape: tuple[int, ...], dim: tuple[int, ...] | None, keepdim: bool) -> tuple[int, ...]:
    """`shape` after a reduction over `dim` (None: all)."""
    dims = range(len(shape)) if dim is None else dim
    if keepdim:
        return tuple(1 if i in dims else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in dims)


class Layout(NamedTuple):
    """Where the elements of a view lie: steps and start counted in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0


def contiguous_layout(shape: Sequence[int]) -> Layout:
    """The row-major layout of `shape`."""
    strides = []
    step = 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return Layout(tuple(shape), tuple(reversed(strides)))


def layout_of(array: np.ndarray) -> Layout:
    """Where the elements of an array lie, counted from the first."""
    return Layout(array.shape, tuple([s // array.itemsize for s in array.strides]))


def is_dense(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether the strides are those of a row-major array with its dimensions in another order."""
    step = 1
    for stride, n in sorted((s, n) for s, n in zip(strides, shape, strict=True) if n != 1):
        if stride != step:
            return False
        step *= n
    return True


def lies_apart(shape: tuple[int, ...], strides: tuple[int, ...], step: int = 1) -> bool:
    """Whether no two elements, `step` large, lie in one place; what interleaves counts as if it did."""
    for stride, n in sorted((abs(s), n) for s, n in zip(strides, shape, strict=True) if n != 1):
        if stride < step:
            return 0 in shape
        step = stride * n
    return True


class View(Op):
    """The same elements under another shape. `layout(layout, **params)` says where they lie.

    The rule gives None where no strides can say it (a reshape of a transposed tensor), and then
    the elements are copied. On a contiguous layout it always succeeds: it is the shape rule too.

    `put(x_type, **params)` says how x is made anew when values were written into the view: the op,
    whether it takes x as it was before the values, and its params. part: see `Op`.
    """

    family = "view"
    view = True

    def __init__(
        self,
        name: str,
        numpy: Callable[..., Any],
        layout: Callable[..., Layout | None],
        vjp: dict[str, Callable[..., Any] | None] | None,
        grad_name: str | Callable[[Params], str] | None = None,
        put: Callable[..., tuple[Op, bool, Params]] | None = None,
        part: bool = False,
    ) -> None:
        super().__init__(name, "x", vjp, grad_name)
        self.numpy, self.layout, self.put, self.part = numpy, layout, put, part

    def evaluate(self, args: Sequence[Any], params: Params) -> Any:
        return self.numpy(args[0].array, **params)

    def infer(self, types: Sequence[Any], params: Params) -> TensorType:
        shape, dtype = types[0]
        layout = self.layout(contiguous_layout(shape), **params)
        assert layout is not None
        return TensorType(layout.shape, dtype)

    def fit(self, gradient: Tensor, shape: tuple[int, ...], dtype: np.dtype) -> Tensor:
        return fit(gradient, shape, dtype)


class Contraction(Op):
    """Matrix products: two operands summed over shared dimensions."""

    family = "contraction"
    order = staticmethod(rows)

    def __init__(
        self,
        name: str,
        arguments: str,
        numpy: Callable[..., Any],
        shape: Callable[..., tuple[int, ...]],
        vjp: dict[str, Callable[..., Any] | None] | None,
        grad_name: str | Callable[[Params], str] | None = None,
    ) -> None:
        super().__init__(name, arguments, vjp, grad_name)
        self.numpy, self.shape = numpy, shape

    def evaluate(self, args: Sequence[Any], params: Params) -> Any:
        x, y = args[0].array, args[1].array
        self.infer([TensorType(x.shape, x.dtype), TensorType(y.shape, y.dtype)], params)
        return self.numpy(x, y, **params)

    def infer(self, types: Sequence[Any], params: Params) -> TensorType:
        x, y = types
        if x.dtype != y.dtype:
            raise RuntimeError(
                "expected both operands (m1 and m2, both vectors) to have the same dtype, but got: "
                f"{x.dtype.name} != {y.dtype.name}; convert one with .to(dtype)"
            )
        return TensorType(self.shape(x.shape, y.shape, **params), x.dtype)


class _OfNumPy(Op):
    """An op on whole arrays that NumPy evaluates in one go, in several passes."""

    large = SOME
    numpy: Callable[..., Any]

    def evaluate(self, args: Sequence[Any], params: Params) -> Any:
        return self.numpy(*[a.array if isinstance(a, Tensor) else a for a in args], **params)

    def fit(self, gradient: Tensor, shape: tuple[int, ...], dtype: np.dtype) -> Tensor:
        return fit(gradient, shape, dtype)


class Composite(_OfNumPy):
    """An op that NumPy evaluates in one go and the compiler takes apart.

    decompose: the same result (or tuple of results) through public ops; called on abstract tensors at
    compile time, and what gives the shape and dtype rule.
    numpy: called with the argument arrays and params; raises for values that the op refuses.
    """

    family = "composite"

    def __init__(
        self,
        name: str,
        arguments: str,
        decompose: Callable[..., Tensor | tuple[Tensor, ...]],
        numpy: Callable[..., Any],
        vjp: dict[str, Callable[..., Any] | None] | None,
        grad_name: str | Callable[[Params], str] | None = None,
        order: Orders = rows,
    ) -> None:
        super().__init__(name, arguments, vjp, grad_name)
        self.decompose, self.numpy, self.order = decompose, numpy, order

    def infer(self, types: Sequence[Any], params: Params) -> Any:
        return abstract.infer_function(self.decompose, types, params)


class Opaque(_OfNumPy):
    """An op that compiled code calls as NumPy runs it (sorting, gathers, decompositions).

    infer: `infer(types, **params)` gives the result's `TensorType`, or a tuple of them.
    """

    family = "opaque"

    def __init__(
        self,
        name: str,
        arguments: str,
        numpy: Callable[..., Any],
        infer: Callable[..., Any],
        vjp: dict[str, Callable[..., Any] | None] | None,
        grad_name: str | Callable[[Params], str] | None = None,
        refuses: str = "buifc",
        order: Orders = rows,
    ) -> None:
        super().__init__(name, arguments, vjp, grad_name)
        self.numpy, self._infer, self.refuses = numpy, infer, refuses
        self.order = None if self.view else order

    def infer(self, types: Sequence[Any], params: Params) -> Any:
        return self._infer(types, **params)


class AnalyticOpaque(Analytic, Opaque):
    """An opaque op of one output whose complex gradient is conjugated as `Analytic` says."""


class AnalyticComposite(Analytic, Composite):
    """A composite of one output whose complex gradient is conjugated as `Analytic` says."""


class Random(_OfNumPy):
    """An op that draws from the generator; its numbers depend on the draws before it."""

    family = "random"
    by_ops: Callable[..., Any] | None = None  # the same as ops on uniform numbers, for recorders

    def __init__(
        self,
        name: str,
        arguments: str,
        numpy: Callable[..., Any],
        infer: Callable[..., Any],
        vjp: dict[str, Callable[..., Any] | None] | None,
        grad_name: str | None = None,
        order: Orders = rows,
    ) -> None:
        super().__init__(name, arguments, vjp, grad_name)
        self.numpy, self._infer, self.order = numpy, infer, order

    def infer(self, types: Sequence[Any], params: Params) -> Any:
        return self._infer(types, **params)
