"""All ops, and their attachment to `Tensor` as methods and operators."""

from __future__ import annotations

from typing import Any

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.tensor import Tensor, device as device_class
from fusegrad.eager.io import interop
from fusegrad.eager.ops.create import (
    creation,
)
from fusegrad.eager.ops.index import (
    indexing,
    inplace,
)
from fusegrad.eager.ops.linalg import (
    contraction,
    decomposition,
    least_squares,
    lu,
    matrix_functions,
    orthogonal,
    products,
    solving,
)
from fusegrad.eager.ops.loss import (
    loss,
    pairwise,
)
from fusegrad.eager.ops.nn import (
    activation,
    convolution,
    grid,
    irregular_pooling,
    normalization,
    pooling,
    rearranging,
    resampling,
)
from fusegrad.eager.ops.pointwise import (
    complex_numbers,
    elementwise,
    numbers,
    polynomials,
    special,
    special_functions,
)
from fusegrad.eager.ops.reduce import (
    counting,
    differences,
    reduction,
    selection,
    statistics,
)
from fusegrad.eager.ops.shape import (
    shape,
)
from fusegrad.eager.random import random

__all__ = [
    "activation",
    "convolution",
    "counting",
    "differences",
    "grid",
    "irregular_pooling",
    "loss",
    "normalization",
    "numbers",
    "pairwise",
    "polynomials",
    "pooling",
    "rearranging",
    "resampling",
    "selection",
    "special",
    "special_functions",
    "statistics",
]

_ALIASES = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "divide": "div",
    "fix": "trunc",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "moveaxis": "movedim",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "subtract": "sub",
    "true_divide": "div",
}


def to(
    self: Tensor, *args: Any, dtype: Any = None, device: Any = None, copy: bool = False, **ignored: Any
) -> Tensor:
    """With another dtype (or a tensor's); devices are all the CPU. Source: `torch.Tensor.to`."""
    for value in args:
        if isinstance(value, Tensor):
            dtype = value.dtype
        elif isinstance(value, (dtypes.DType, type)):
            dtype = value
        elif isinstance(value, str):
            device_class(value)
    kind = self.dtype if dtype is None else dtypes.as_dtype(dtype)
    if kind.numpy == self.array.dtype:
        return elementwise.clone(self) if copy else self
    return elementwise.cast(self, kind)


_CASTS = {
    "float": dtypes.float32,
    "double": dtypes.float64,
    "half": dtypes.float16,
    "long": dtypes.int64,
    "int": dtypes.int32,
    "short": dtypes.int16,
    "char": dtypes.int8,
    "byte": dtypes.uint8,
    "bool": dtypes.bool_,
    "cfloat": dtypes.complex64,
    "cdouble": dtypes.complex128,
}


def _casting(name: str, dtype: dtypes.DType) -> Any:
    def method(self: Tensor) -> Tensor:
        return elementwise.cast(self, dtype)

    method.__doc__ = f"Converted to {dtype.name}. Source: `torch.Tensor.{name}`."
    return elementwise.renamed(method, name)


def attach() -> None:
    """Give `Tensor` its methods and operators."""
    for family in (
        elementwise,
        reduction,
        shape,
        contraction,
        products,
        solving,
        lu,
        orthogonal,
        decomposition,
        least_squares,
        matrix_functions,
        indexing,
        creation,
        inplace,
        random,
        interop,
    ):
        for name, function in family.METHODS.items():
            setattr(Tensor, name, function)
    for name, function in elementwise.OPERATORS.items():
        setattr(Tensor, name, function)
    for alias, name in _ALIASES.items():
        setattr(Tensor, alias, getattr(Tensor, name))
        if hasattr(Tensor, f"{name}_"):
            setattr(Tensor, f"{alias}_", getattr(Tensor, f"{name}_"))
    for name, dtype in _CASTS.items():
        setattr(Tensor, name, _casting(name, dtype))
    for name, value in {
        "__getitem__": indexing.getitem,
        "to": to,
        "type_as": lambda self, other: to(self, other),
        "cpu": lambda self: self,
        "real": property(complex_numbers.real),
        "imag": property(complex_numbers.imag),
        "T": property(lambda self: shape.permute(self, *reversed(range(self.array.ndim)))),
        "mH": property(shape.adjoint),
        "H": property(shape.conjugate_transpose),
        "mT": property(shape.matrix_transpose),
    }.items():
        setattr(Tensor, name, value)


attach()
