"""Matrix products. NumPy evaluates them, or the product routine that the compiler installs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import Composite, Contraction, fit
from fusegrad.eager.core.op import TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.sizes import broadcast_shapes
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.pointwise.declare_pointwise import declare_operator
from fusegrad.eager.ops.precision import in_half, rounded_once, uncast

# Once compiled loops run on a thread pool of their own, products must share that pool: two pools
# that spin starve each other (DESIGN.md, "One thread pool"). The compiler then puts its own
# routine here, with the signature of `numpy.matmul`.
_product: Callable[[np.ndarray, np.ndarray], np.ndarray] = np.matmul
_BOOL = np.dtype(bool)


def set_product(routine: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> None:
    """Evaluate matrix products with `routine` from now on."""
    global _product
    _product = routine


def _matmul_shape(x: tuple[int, ...], y: tuple[int, ...]) -> tuple[int, ...]:
    if not x or not y:
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D, but they are {len(x)}D and {len(y)}D"
        )
    inner = y[-2] if len(y) > 1 else y[0]
    if x[-1] != inner:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({_by(x)} and {_by(y)}): the last size of the first, "
            f"{x[-1]}, must be the {'second last' if len(y) > 1 else 'only'} of the second, {inner}"
        )
    batch = broadcast_shapes(x[:-2], y[:-2])
    return batch + (x[-2:-1] if len(x) > 1 else ()) + (y[-1:] if len(y) > 1 else ())


def _by(size: tuple[int, ...]) -> str:
    return "x".join(map(str, size))


def _x_gradient(g: Tensor, y: Tensor, x_type: Any) -> Tensor:
    """g @ y^H, with vectors as matrices of one row or column."""
    if y.array.ndim == 1:
        g, y = ops.unsqueeze(g, -1), ops.unsqueeze(y, -1)
    if len(x_type.shape) == 1:
        g = ops.unsqueeze(g, -2)
    gradient = matmul(g, ops.adjoint(y))
    return ops.squeeze(gradient, -2) if len(x_type.shape) == 1 else gradient


def _y_gradient(g: Tensor, x: Tensor, y_type: Any) -> Tensor:
    """x^H @ g, with vectors as matrices of one row or column.

    Where a batch was multiplied with one matrix, its rows are those of one product, as in PyTorch.
    """
    if len(y_type.shape) == 1:
        g = ops.unsqueeze(g, -1)
    if x.array.ndim == 1:
        g, x = ops.unsqueeze(g, -2), ops.unsqueeze(x, -2)
    if len(y_type.shape) <= 2 < x.array.ndim:
        g, x = ops.flatten(g, 0, -2), ops.flatten(x, 0, -2)
    gradient = matmul(ops.adjoint(x), g)
    return ops.squeeze(gradient, -1) if len(y_type.shape) == 1 else gradient


# PyTorch multiplies by rank, and its nodes tell.
_NODE_NAMES = {
    (1, 1): "DotBackward0",
    (2, 1): "MvBackward0",
    (1, 2): "SqueezeBackward4",
    (2, 2): "MmBackward0",
}


def _evaluate(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return _product(x, y)


class _Matmul(Contraction):
    def evaluate(self, args: Sequence[Any], params: Any) -> Any:
        x, y = args[0].array, args[1].array
        # Two matrices that fit need no look at the rules.
        if x.ndim == 2 == y.ndim and x.shape[1] == y.shape[0] and x.dtype is y.dtype and x.dtype.char in "fd":
            return _product(x, y)
        return super().evaluate(args, params)

    def infer(self, types: Sequence[Any], params: Any) -> TensorType:
        if types[0].dtype == _BOOL and types[1].dtype == _BOOL:
            raise NotImplementedError("not implemented for bool; convert with .to(dtype)")
        return super().infer(types, params)

    def node_name(self, params: Any, types: Any) -> str:
        return _NODE_NAMES.get((len(types[0][0]), len(types[1][0])), "UnsafeViewBackward0")

    def fit(self, gradient: Tensor, size: tuple[int, ...], dtype: np.dtype) -> Tensor:
        return fit(gradient, size, dtype)


_matmul = _Matmul(
    "matmul",
    "x y",
    _evaluate,
    _matmul_shape,
    {"x": _x_gradient, "y": _y_gradient},
    "MmBackward0",
)


@public(method=True)
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """The matrix product; vectors, and stacks of matrices with broadcasting. Source: `torch.matmul`.

    Raises RuntimeError when the inner sizes or the dtypes differ.

    >>> import fusegrad as fg
    >>> fg.matmul(fg.tensor([[1.0, 2.0]]), fg.tensor([[3.0], [4.0]]))
    tensor([[11.]])
    """
    if not isinstance(other, Tensor) or not isinstance(input, Tensor):
        return ops.sparse_matmul(input, other)
    return bind(_matmul, (input, other))


def check_ranks(ranks: Sequence[int], *tensors: Tensor) -> None:
    """Refuse tensors of other ranks."""
    found = [t.array.ndim for t in tensors]
    if found != list(ranks):
        expected = f"expected tensors of {' and '.join(map(str, ranks))} dimensions, got"
        if set(ranks) == {1}:
            expected = f"1D tensors expected, but got {' and '.join(f'{n}D' for n in found)} tensors, of"
        shapes = " and ".join(str(list(t.array.shape)) for t in tensors)
        raise failure(RuntimeError, f"{expected} shapes {shapes}")


@public(method=True, aliases=("spmm", "dsmm"))
def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """The product of two matrices, of which one may be sparse. Source: `torch.mm`."""
    if isinstance(input, Tensor) and isinstance(mat2, Tensor):
        check_ranks((2, 2), input, mat2)
    return matmul(input, mat2)


@public(method=True)
def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """The products of two stacks of as many matrices. Source: `torch.bmm`."""
    check_ranks((3, 3), input, mat2)
    if input.array.shape[0] != mat2.array.shape[0]:
        raise failure(
            RuntimeError,
            f"expected as many matrices in both, got shapes {list(input.array.shape)} and "
            f"{list(mat2.array.shape)}; `@` broadcasts",
        )
    return matmul(input, mat2)


@public(method=True)
def mv(input: Tensor, vec: Tensor) -> Tensor:
    """A matrix times a vector. Source: `torch.mv`."""
    check_ranks((2, 1), input, vec)
    return uncast(matmul)(input, vec)


@public(method=True)
def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """The inner product of two vectors. Source: `torch.dot`."""
    check_ranks((1, 1), input, tensor)
    if input.array.dtype != tensor.array.dtype:
        raise failure(
            RuntimeError,
            f"dot : expected both vectors to have same dtype, but found {input.dtype.scalar} and "
            f"{tensor.dtype.scalar}",
        )
    sizes = input.array.size, tensor.array.size
    if sizes[0] != sizes[1]:
        raise failure(
            RuntimeError,
            f"inconsistent tensor size, expected tensor [{sizes[0]}] and src [{sizes[1]}] to have the same "
            f"number of elements, but got {sizes[0]} and {sizes[1]} elements respectively",
        )
    return uncast(matmul)(input, tensor)


def _addmm_decomposed(bias: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return _kept_shape(matmul(x, y) + bias, x.array.shape[0], y.array.shape[1])


def _addmm_numpy(bias: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return _kept_shape(_evaluate(x, y) + bias, x.shape[0], y.shape[1])


def _kept_shape(total: Any, rows: int, columns: int) -> Any:
    """`total`, unless the bias has made it larger than the product."""
    if total.shape != (rows, columns):
        raise RuntimeError(f"the first operand does not expand to the product's shape {[rows, columns]}")
    return total


_addmm = Composite(
    "addmm",
    "bias x y",
    _addmm_decomposed,
    _addmm_numpy,
    {
        "bias": lambda g: g,
        "x": lambda g, y: matmul(g, ops.adjoint(y)),
        "y": lambda g, x: matmul(ops.adjoint(x), g),
    },
)


@public(method=True, inplace=True)
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2). Source: `torch.addmm`."""
    input, mat1, mat2 = in_half(input, mat1, mat2)
    x, y = mat1.array, mat2.array
    plain = beta == 1 and alpha == 1 and x.dtype == y.dtype == input.array.dtype != _BOOL
    if plain and x.ndim == 2 == y.ndim and x.shape[1] == y.shape[0]:
        return bind(_addmm, (input, mat1, mat2))
    return combined("addmm", input, mm, (mat1, mat2), beta, alpha)


def combined(
    name: str,
    input: Tensor,
    multiply: Callable[..., Tensor],
    factors: tuple[Tensor, ...],
    beta: Any,
    alpha: Any,
) -> Tensor:
    """beta * input + alpha * multiply(*factors), in the shape and dtype of the product; beta 0 leaves the
    input out. Of one half type, nothing is rounded but the result.

    Raises RuntimeError where the input does not expand to that shape or has another dtype.
    """

    def combine(input: Tensor, *factors: Tensor) -> Tensor:
        return _combined(name, input, multiply(*factors), beta, alpha)

    is_one_kind = all(x.array.dtype == input.array.dtype for x in factors)
    return rounded_once(combine, input, *factors) if is_one_kind else combine(input, *factors)


def _combined(name: str, input: Tensor, product: Tensor, beta: Any, alpha: Any) -> Tensor:
    dtype = product.array.dtype
    if input.array.dtype != dtype:
        raise failure(
            RuntimeError,
            f"{name}: Input dtypes must be the same, got {input.array.dtype.name} and "
            f"{dtype.name}; convert one with .to(dtype)",
        )
    for factor in (beta, alpha):
        dtypes.held(factor, dtypes.opmath(dtype))
    if dtype.kind in "iu":  # PyTorch cuts the factors off
        beta, alpha = int(beta), int(alpha)
    input = ops.expand(input, product.array.shape)
    if alpha != 1:
        product = product * alpha
    if beta == 0:
        return product
    return product + (input if beta == 1 else input * beta)


declare_operator("matmul", matmul)
