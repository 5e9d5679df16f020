"""What the ops of linear algebra share: checks of matrices, the walk over a batch, LAPACK's complaints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import Opaque
from fusegrad.eager.core.memory_order import Orders, rows
from fusegrad.eager.core.op import TensorType
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor

INT32 = np.dtype(np.int32)


class LinAlgError(RuntimeError):
    """A matrix that an op of linear algebra cannot take (a singular one). As `torch.linalg.LinAlgError`."""


def scipy_linalg() -> ModuleType:
    """`scipy.linalg`, loaded when it is first needed: programs without decompositions start faster."""
    import scipy.linalg

    return scipy.linalg


def lapack(name: str, array: np.ndarray) -> Callable[..., Any]:
    """SciPy's wrapper of a LAPACK routine for the dtype of `array`: "getrf" is `dgetrf` for float64."""
    routine: Callable[..., Any] = scipy_linalg().get_lapack_funcs(name, (array,))
    return routine


# Matrices of no more rows than this are small; a batch of so many to a row is large.
SMALL, MANY = 16, 4


def _are_many_and_small(matrices: np.ndarray) -> bool:
    rows = matrices.shape[-1]
    return 0 < rows <= SMALL and matrices.size >= MANY * rows**3


class PerMatrix(Opaque):
    """An op whose `numpy` function takes one matrix (of each input): it is called for every one of a batch.

    All inputs have the same batch dimensions; `ranks` are the ranks of what one call gets.
    complaint: for ops whose last output is LAPACK's info and that have a parameter `check`: what
    to say of a matrix that failed (see `raise_where`). of_many: gives the result for all of a batch at once,
    sooner where it is of many small ones.
    """

    def __init__(
        self,
        name: str,
        arguments: str,
        numpy: Callable[..., Any],
        infer: Callable[..., Any],
        vjp: dict[str, Callable[..., Any] | None] | None,
        ranks: Sequence[int] = (2, 2),
        complaint: str = "",
        of_many: Callable[..., Any] | None = None,
        order: Orders = rows,
    ) -> None:
        super().__init__(name, arguments, numpy, infer, vjp, order=order)
        self.ranks, self.complaint, self.of_many = ranks, complaint, of_many

    def evaluate(self, args: Sequence[Any], params: Any) -> Any:
        arrays = [a.array for a in args]
        types = self.infer([TensorType(a.shape, a.dtype) for a in arrays], params)
        if self.of_many is not None and _are_many_and_small(arrays[0]):
            return self.of_many(*arrays, **params)
        single = isinstance(types, TensorType)
        outputs = [np.zeros(t.shape, t.dtype) for t in ((types,) if single else types)]
        options = {k: v for k, v in params.items() if k != "check"}
        if all(a.size for a in arrays):
            for place in np.ndindex(arrays[0].shape[: arrays[0].ndim - self.ranks[0]]):
                results = self.numpy(*(a[place] for a in arrays), **options)
                for output, result in zip(outputs, (results,) if single else results, strict=True):
                    output[place] = result
        if params.get("check"):
            raise_where(outputs[-1], *self.complaint.split(": ", 1))
        return outputs[0] if single else tuple(outputs)


def identity(n: int, like: Tensor) -> Tensor:
    """The n x n identity in the dtype of `like`."""
    return ops.eye(n, dtype=like.dtype)


def skew(x: Tensor) -> Tensor:
    """The difference of each matrix and its transpose."""
    return x - ops.adjoint(x)


def scaled_diagonal(values: Tensor) -> Tensor:
    """Diagonal matrices of `values`."""
    return values[..., None] * identity(values.array.shape[-1], values)


def imaginary_diagonal(x: Tensor) -> Tensor:
    """Diagonal matrices of the imaginary parts of the diagonals, each times i."""
    diagonal = ops.diagonal(x, 0, -2, -1)
    return scaled_diagonal(diagonal - ops.real(diagonal))


def real_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of the absolute values of `dtype`."""
    return np.empty(0, dtype).real.dtype


# Checks.


def check_matrix(name: str, x: Tensor, what: str = "A", half: bool = False) -> Tensor:
    """`x`, which must be one matrix or more of floating-point (or complex) numbers; else RuntimeError.

    half: also those of two bytes, which LAPACK does not have.
    """
    if not isinstance(x, Tensor):
        raise failure(TypeError, f"{name}: expected {what} to be a Tensor, got {type(x).__name__}")
    if x.array.ndim < 2:
        raise failure(
            RuntimeError,
            f"{name}: The input tensor {what} must have at least 2 dimensions, "
            f"got shape {list(x.array.shape)}: expected a tensor with 2 or more dimensions",
        )
    check_floating(name, x, what, half)
    return x


def check_floating(name: str, x: Tensor, what: str = "A", half: bool = False) -> None:
    """Refuse dtypes that LAPACK has no routines for."""
    dtype = x.array.dtype
    if dtype.kind not in "fcV":
        raise failure(
            RuntimeError,
            f"{name}: Expected a floating point or complex tensor as input. Got {what} of {dtype.name}; "
            "convert it with .to(fusegrad.float32)",
        )
    if dtype.itemsize == 2 and not half:
        raise failure(
            RuntimeError,
            f"{name}: Low precision dtypes not supported. Got {what} of {dtype.name}; use .float()",
        )


def check_square(name: str, x: Tensor, what: str = "A") -> Tensor:
    """`x`, which must be one square matrix or more of floating-point numbers; else RuntimeError."""
    check_matrix(name, x, what)
    if x.array.shape[-1] != x.array.shape[-2]:
        raise failure(
            RuntimeError,
            f"{name}: {what} must be batches of square matrices, but they are "
            f"{x.array.shape[-2]} by {x.array.shape[-1]} matrices (shape {list(x.array.shape)})",
        )
    return x


def check_same_dtype(name: str, a: Tensor, b: Tensor) -> None:
    """Refuse two operands of different dtypes."""
    if a.array.dtype != b.array.dtype:
        raise failure(
            RuntimeError,
            f"{name}: Expected both operands to have the same dtype, but found {a.array.dtype.name} and "
            f"{b.array.dtype.name}; convert one with .to(dtype)",
        )


def check_sides(name: str, a: Tensor, b: Tensor, left: bool) -> None:
    """Refuse a right-hand side whose size does not fit a square matrix."""
    check_matrix(name, b, "B")
    n, size = a.array.shape[-1], b.array.shape[-2 if left else -1]
    if n != size:
        raise failure(
            RuntimeError,
            f"{name}: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
            f"({list(a.array.shape)} and {list(b.array.shape)})",
        )


def same_batch(name: str, a: Tensor, b: Tensor, b_rank: int = 2) -> tuple[Tensor, Tensor]:
    """Both with the batch dimensions that theirs broadcast to; RuntimeError where they do not."""
    first, second = a.array.shape, b.array.shape
    left, right = first[: len(first) - 2], second[: len(second) - b_rank]
    if left == right:
        return a, b
    try:
        batch = np.broadcast_shapes(left, right)
    except ValueError:
        raise failure(
            RuntimeError,
            f"{name}: the batch dimensions {list(left)} and {list(right)} do not broadcast "
            f"(shapes {list(first)} and {list(second)})",
        ) from None
    return ops.expand(a, batch + first[-2:]), ops.expand(b, batch + second[len(second) - b_rank :])


def raise_where(info: np.ndarray, name: str, explain: str) -> None:
    """Raise LinAlgError if LAPACK's `info` is not 0 for a matrix.

    explain: says what failed, with `{}` for the info of the first such matrix.
    """
    if info.any():
        place = tuple(int(i) for i in np.argwhere(info)[0])
        which = ""
        if place:
            which = f"(Batch element {np.ravel_multi_index(place, info.shape)}): "
        raise failure(LinAlgError, f"{name}: {which}{explain.format(int(info[place]))}")
