"""Complex numbers: their parts, their angle and size, and how they are made of real ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import FLOAT, NUMBER, Opaque, Pointwise
from fusegrad.eager.core.memory_order import as_operands
from fusegrad.eager.core.names import attach
from fusegrad.eager.core.op import Op, TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.pointwise.declare_pointwise import opaque_unary, tensor_operand


def _part_type(dtype: np.dtype) -> np.dtype:
    """The dtype of the parts of complex numbers of `dtype`."""
    return np.empty((), dtype).real.dtype


class _View(Opaque):
    """The same memory seen as other numbers."""

    view = True


# Parts.

_real = _View(
    "real",
    "x",
    lambda x: x.real,
    lambda types: TensorType(types[0].shape, _part_type(types[0].dtype)),
    {"x": lambda g, x_type: ops.cast(g, x_type.dtype)},
)
_imag = _View(
    "imag",
    "x",
    lambda x: x.imag,
    lambda types: TensorType(types[0].shape, _part_type(types[0].dtype)),
    {"x": lambda g: g * 1j},
)
_conj = opaque_unary(
    "conj", np.conjugate, NUMBER, lambda g: ops.conj(g), "x with the other sign of imag.", None
)


@public
def real(input: Tensor) -> Tensor:
    """The real part, in the memory of `input` (`input` itself where it is real). Source: `torch.real`."""
    return bind(_real, (input,)) if is_complex(input) else input


@public
def imag(input: Tensor) -> Tensor:
    """The imaginary part, in the memory of `input`. Source: `torch.imag`.

    Raises RuntimeError for a real tensor.
    """
    if not is_complex(input):
        raise failure(RuntimeError, f"only complex tensors have one, this is {input.array.dtype.name}")
    return bind(_imag, (input,))


@public(method=True)
def conj(input: Tensor) -> Tensor:
    """With the other sign of the imaginary part; a real tensor itself. Source: `torch.conj`.

    Unlike PyTorch's, the result has memory of its own.
    """
    return _conj(input) if is_complex(input) else input


@public(method=True, inplace=True)
def conj_physical(input: Tensor) -> Tensor:
    """`conj`; a real tensor itself. Source: `torch.conj_physical`."""
    return conj(input)


@public(method=True)
def resolve_conj(input: Tensor) -> Tensor:
    """The tensor itself: nothing is conjugated lazily here. Source: `torch.resolve_conj`."""
    return input


@public(method=True)
def resolve_neg(input: Tensor) -> Tensor:
    """The tensor itself: nothing is negated lazily here. Source: `torch.resolve_neg`."""
    return input


@public(method=True)
def is_conj(input: Tensor) -> bool:
    """False: nothing is conjugated lazily here. Source: `torch.is_conj`."""
    return False


@public(method=True)
def is_neg(input: Tensor) -> bool:
    """False: nothing is negated lazily here. Source: `torch.is_neg`."""
    return False


@public
def is_complex(input: Tensor) -> bool:
    """Whether of a complex dtype. Source: `torch.is_complex`."""
    return tensor_operand(input).is_complex()


@public
def is_floating_point(input: Tensor) -> bool:
    """Whether of a floating-point dtype. Source: `torch.is_floating_point`."""
    return tensor_operand(input).is_floating_point()


@public(method=True)
def isreal(input: Tensor) -> Tensor:
    """Whether each element has no imaginary part. Source: `torch.isreal`."""
    return ops.eq(imag(input), 0) if is_complex(input) else ops.ones_like(input, dtype=dtypes.bool_)


# Angle and direction.


class _AngleOp(Pointwise):
    """The angle is real, also that of complex numbers."""

    def infer(self, types: Any, params: Any) -> TensorType:
        return TensorType(types[0].shape, _part_type(self.compute_dtype(types)))


def _angle_gradient(g: Tensor, x: Tensor) -> Tensor:
    if not is_complex(x):
        return ops.zeros_like(g)
    size = ops.abs(x)
    return ops.where(ops.eq(size, 0), 0.0, g * x / (size * size) * 1j)


def _angle_of_real(x: np.ndarray) -> np.ndarray:
    return np.where(x < 0, x.dtype.type(math.pi), np.where(np.isnan(x), x, x.dtype.type(0)))


_angle = _AngleOp(
    "angle",
    "x",
    lambda x: np.angle(x) if x.dtype.kind == "c" else _angle_of_real(x),
    FLOAT,
    {"x": _angle_gradient},
)


@public(method=True)
def angle(input: Tensor) -> Tensor:
    """The angle of each number in radians; of real ones 0, pi or NaN. Source: `torch.angle`."""
    return bind(_angle, (tensor_operand(input),))


def _sgn_gradient(g: Tensor, x: Tensor, out: Tensor) -> Tensor:
    """Only what turns x changes its direction."""
    along = ops.cast(real(g * conj(out)), g.dtype)
    return ops.where(ops.eq(x, 0), 0.0, (g - along * out) / ops.abs(x))


class _SgnOp(Pointwise):
    """The direction has no derivative in the sense of complex numbers; the rule says all of it."""

    gradient = Op.gradient


_sgn = _SgnOp("sgn", "x", np.sign, NUMBER, {"x": _sgn_gradient})


@public(method=True, inplace=True)
def sgn(input: Tensor) -> Tensor:
    """`sign`; of complex numbers, those of size 1 in the same direction. Source: `torch.sgn`."""
    return bind(_sgn, (input,)) if is_complex(input) else ops.sign(input)


# Made of real numbers.


def _complex_type(types: Any) -> TensorType:
    x, y = types
    if x.dtype != y.dtype or x.dtype.kind != "f":
        raise RuntimeError(f"expected two float tensors of one dtype, got {x.dtype.name} and {y.dtype.name}")
    return TensorType(np.broadcast_shapes(x.shape, y.shape), np.result_type(x.dtype, np.complex64))


def _check_parts(x: Tensor, y: Tensor) -> None:
    """Refuse two parts of a complex number of other dtypes than it has."""
    if x.array.dtype.kind not in "f" or y.array.dtype.kind not in "f":
        raise failure(
            RuntimeError,
            f"Expected both inputs to be Half, Float or Double tensors but got {x.dtype.scalar} and "
            f"{y.dtype.scalar}",
        )
    if x.dtype is not y.dtype:
        raise failure(
            RuntimeError,
            f"Expected object of scalar type {x.dtype.scalar} but got scalar type {y.dtype.scalar} for "
            "second argument",
        )


def _complex_numpy(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    shape, dtype = _complex_type((x, y))
    result = np.empty(shape, dtype)
    result.real, result.imag = x, y
    return result


_complex = Opaque(
    "complex_of",  # programs are printed as Python, where complex() is Python's
    "x y",
    _complex_numpy,
    _complex_type,
    {"x": lambda g: real(g), "y": lambda g: imag(g)},
    "ComplexBackward0",
    order=as_operands,
)


@public
def complex(real: Tensor, imag: Tensor) -> Tensor:
    """real + 1j * imag. Source: `torch.complex`.

    Raises RuntimeError unless both are floating point of one dtype.

    >>> import fusegrad as fg
    >>> fg.complex(fg.tensor([1.0]), fg.tensor([2.0]))
    tensor([1.+2.j])
    """
    parts = (tensor_operand(real), tensor_operand(imag))
    _check_parts(*parts)
    return bind(_complex, parts)


@public
def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """The complex numbers of sizes `abs` at `angle` (in radians). Source: `torch.polar`.

    Raises RuntimeError unless both are floating point of one dtype.
    """
    _check_parts(tensor_operand(abs), tensor_operand(angle))
    return complex(abs * ops.cos(angle), abs * ops.sin(angle))


# Pairs of real numbers.


def _pairs_as_complex_type(types: Any) -> TensorType:
    shape, dtype = types[0]
    if dtype.kind not in "fV":
        raise RuntimeError(f"only floating-point tensors can be seen as complex, this is {dtype.name}")
    if not shape:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if shape[-1] != 2:
        raise RuntimeError(f"Tensor must have a last dimension of size 2, but got shape {list(shape)}")
    return TensorType(shape[:-1], np.result_type(dtype, np.complex64))


def _pairs_as_complex(x: np.ndarray) -> np.ndarray:
    kind = _pairs_as_complex_type((TensorType(x.shape, x.dtype),))
    if x.strides[-1] != x.itemsize:
        raise RuntimeError("Tensor must have a last dimension with stride 1; use contiguous() first")
    if any(s % kind.dtype.itemsize for s in x.strides[:-1]):
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    return x.view(kind.dtype)[..., 0]


def _as_pairs(x: np.ndarray) -> np.ndarray:
    return x[..., None].view(_part_type(x.dtype))


_view_as_complex = _View(
    "view_as_complex", "x", _pairs_as_complex, _pairs_as_complex_type, {"x": lambda g: ops.view_as_real(g)}
)
_view_as_real = _View(
    "view_as_real",
    "x",
    _as_pairs,
    lambda types: TensorType((*types[0].shape, 2), _part_type(types[0].dtype)),
    {"x": lambda g: ops.view_as_complex(g.contiguous())},
)


@public
def view_as_complex(input: Tensor) -> Tensor:
    """Pairs along the last dimension as complex numbers, in the same memory.

    Raises RuntimeError for other than pairs that lie next to each other. Source: `torch.view_as_complex`.
    """
    return bind(_view_as_complex, (tensor_operand(input),))


@public
def view_as_real(input: Tensor) -> Tensor:
    """Complex numbers as pairs along a new last dimension, in the same memory.

    Raises RuntimeError for real tensors. Source: `torch.view_as_real`.
    """
    if not is_complex(input):
        raise failure(RuntimeError, f"only complex tensors have parts, this is {input.array.dtype.name}")
    return bind(_view_as_real, (input,))


def _assignable(part: Callable[[Tensor], Tensor]) -> property:
    """A part of complex numbers as an attribute, which is written by assigning to it."""

    def write(self: Tensor, value: Any) -> None:
        part(self).copy_(value)

    return property(part, write)


attach(_assignable(real), "real")
attach(_assignable(imag), "imag")
