"""Matrix products. NumPy evaluates them, or the product routine that the compiler installs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fusegrad.eager.families import Contraction, fit
from fusegrad.eager.op import bind
from fusegrad.eager.ops import shape
from fusegrad.eager.tensor import Tensor

METHODS: dict[str, Callable[..., Any]] = {}

# Once compiled loops run on a thread pool of their own, products must share that pool: two pools
# that spin starve each other (DESIGN.md, "One thread pool"). The compiler then puts its own
# routine here, with the signature of `numpy.matmul`.
_product: Callable[[np.ndarray, np.ndarray], np.ndarray] = np.matmul


def set_product(routine: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> None:
    """Evaluate matrix products with `routine` from now on."""
    global _product
    _product = routine


def _matmul_shape(x: tuple[int, ...], y: tuple[int, ...]) -> tuple[int, ...]:
    if not x or not y:
        raise RuntimeError("both arguments to matmul need to be at least 1D, but they are "
                           f"{len(x)}D and {len(y)}D")
    inner = y[-2] if len(y) > 1 else y[0]
    if x[-1] != inner:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({_by(x)} and {_by(y)}): the last size of the first, "
            f"{x[-1]}, must be the {'second last' if len(y) > 1 else 'only'} of the second, {inner}"
        )
    batch = np.broadcast_shapes(x[:-2], y[:-2])
    return batch + (x[-2:-1] if len(x) > 1 else ()) + (y[-1:] if len(y) > 1 else ())


def _by(size: tuple[int, ...]) -> str:
    return "x".join(map(str, size))


def _x_gradient(g: Tensor, y: Tensor, x_type: Any) -> Tensor:
    """g @ y.T, with vectors as matrices of one row or column."""
    if y.array.ndim == 1:
        g, y = shape.unsqueeze(g, -1), shape.unsqueeze(y, -1)
    if len(x_type.shape) == 1:
        g = shape.unsqueeze(g, -2)
    gradient = matmul(g, shape.transpose(y, -1, -2))
    return shape.squeeze(gradient, -2) if len(x_type.shape) == 1 else gradient


def _y_gradient(g: Tensor, x: Tensor, y_type: Any) -> Tensor:
    """x.T @ g, with vectors as matrices of one row or column."""
    if len(y_type.shape) == 1:
        g = shape.unsqueeze(g, -1)
    if x.array.ndim == 1:
        g, x = shape.unsqueeze(g, -2), shape.unsqueeze(x, -2)
    gradient = matmul(shape.transpose(x, -1, -2), g)
    return shape.squeeze(gradient, -1) if len(y_type.shape) == 1 else gradient


class _Matmul(Contraction):
    def fit(self, gradient: Tensor, size: tuple[int, ...], dtype: np.dtype) -> Tensor:
        return fit(gradient, size, dtype)


_matmul = _Matmul(
    "matmul",
    "x y",
    lambda x, y: _product(x, y),
    _matmul_shape,
    {"x": _x_gradient, "y": _y_gradient},
    "MmBackward0",
)


def matmul(input: Tensor, other: Tensor) -> Tensor:
    """The matrix product; vectors, and stacks of matrices with broadcasting. Source: `torch.matmul`.

    Raises RuntimeError when the inner sizes or the dtypes differ.

    >>> import fusegrad as fg
    >>> fg.matmul(fg.tensor([[1.0, 2.0]]), fg.tensor([[3.0], [4.0]]))
    tensor([[11.]])
    """
    return bind(_matmul, (input, other))


def _ranked(name: str, ranks: tuple[int, int], doc: str) -> Callable[[Tensor, Tensor], Tensor]:
    """`matmul` that takes operands of given ranks only."""

    def function(input: Tensor, other: Tensor) -> Tensor:
        if (input.array.ndim, other.array.ndim) != ranks:
            raise RuntimeError(
                f"{name}: expected tensors of {ranks[0]} and {ranks[1]} dimensions, got shapes "
                f"{list(input.array.shape)} and {list(other.array.shape)}"
            )
        return matmul(input, other)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{doc} Source: `torch.{name}`."
    return function


mm = _ranked("mm", (2, 2), "The product of two matrices.")
bmm = _ranked("bmm", (3, 3), "The products of two stacks of matrices.")
mv = _ranked("mv", (2, 1), "A matrix times a vector.")
dot = _ranked("dot", (1, 1), "The inner product of two vectors.")


def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """All products of the elements of two vectors. Source: `torch.outer`."""
    return shape.unsqueeze(input, 1) * vec2


METHODS |= {"matmul": matmul, "mm": mm, "bmm": bmm, "mv": mv, "dot": dot, "outer": outer}
