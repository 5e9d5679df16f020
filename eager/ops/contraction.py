"""Matrix products. NumPy evaluates them, or the product routine that the compiler installs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.errors import failure
from fusegrad.eager.families import Composite, Contraction, fit
from fusegrad.eager.op import bind
from fusegrad.eager.ops import reduction, shape
from fusegrad.eager.ops.elementwise import declare_operator
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
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D, but they are {len(x)}D and {len(y)}D"
        )
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


# PyTorch multiplies by rank, and its nodes tell.
_NODE_NAMES = {
    (1, 1): "DotBackward0",
    (2, 1): "MvBackward0",
    (1, 2): "SqueezeBackward4",
    (2, 2): "MmBackward0",
}


class _Matmul(Contraction):
    def node_name(self, params: Any, types: Any) -> str:
        return _NODE_NAMES.get((len(types[0][0]), len(types[1][0])), "UnsafeViewBackward0")

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
    if not isinstance(other, Tensor) or not isinstance(input, Tensor):
        raise failure(
            TypeError, f"expected two Tensors, got {type(input).__name__} and {type(other).__name__}"
        )
    return bind(_matmul, (input, other))


def _ranked(name: str, ranks: tuple[int, int], doc: str) -> Callable[[Tensor, Tensor], Tensor]:
    """`matmul` that takes operands of given ranks only."""

    def function(input: Tensor, other: Tensor) -> Tensor:
        if (input.array.ndim, other.array.ndim) != ranks:
            raise failure(
                RuntimeError,
                f"{name}: expected tensors of {ranks[0]} and {ranks[1]} dimensions, got shapes "
                f"{list(input.array.shape)} and {list(other.array.shape)}",
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


_addmm = Composite(
    "addmm",
    "bias x y",
    lambda bias, x, y: matmul(x, y) + bias,
    lambda bias, x, y: _product(x, y) + bias,
    {
        "bias": lambda g: g,
        "x": lambda g, y: matmul(g, shape.t(y)),
        "y": lambda g, x: matmul(shape.t(x), g),
    },
)


def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2). Source: `torch.addmm`."""
    sizes = [mat1.array.shape, mat2.array.shape]
    if [len(s) for s in sizes] != [2, 2]:
        raise failure(
            RuntimeError, f"expected two matrices, got shapes {list(sizes[0])} and {list(sizes[1])}"
        )
    kinds = {t.array.dtype for t in (input, mat1, mat2)}
    if len(kinds) > 1 or sizes[0][1] != sizes[1][0] or beta != 1 or alpha != 1:
        product = matmul(mat1, mat2)
        return (product if alpha == 1 else product * alpha) + (input if beta == 1 else input * beta)
    return bind(_addmm, (input, mat1, mat2))


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input @ weight.T + bias. Source: `torch.nn.functional.linear`.

    input: [..., in]; weight: [out, in]; bias: [out]. Raises RuntimeError when sizes or dtypes differ.
    """
    columns = shape.t(weight)
    if bias is None:
        return matmul(input, columns)
    if input.array.ndim == 2:
        return addmm(bias, input, columns)
    return matmul(input, columns) + bias


def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Summed over the last `dims` dimensions of `a` and the first of `b`, or over two lists.

    Source: `torch.tensordot`.
    """
    if isinstance(dims, int):
        dims = (list(range(a.array.ndim - dims, a.array.ndim)), list(range(dims)))
    first = [shape.normal_dim(d, a.array.ndim) for d in dims[0]]
    second = [shape.normal_dim(d, b.array.ndim) for d in dims[1]]
    kept = [d for d in range(a.array.ndim) if d not in first]
    other = [d for d in range(b.array.ndim) if d not in second]
    inner = math.prod(a.array.shape[d] for d in first)
    left = shape.reshape(shape.permute(a, kept + first), (-1, inner))
    right = shape.reshape(shape.permute(b, second + other), (inner, -1))
    size = [a.array.shape[d] for d in kept] + [b.array.shape[d] for d in other]
    return shape.reshape(matmul(left, right), size)


# Einstein's summation: operands two at a time, each pair as a batch of matrix products.


def einsum(equation: str, *operands: Any) -> Tensor:
    """Products summed over repeated letters, as in "bij,bjk->bik". Source: `torch.einsum`.

    Raises RuntimeError for an equation that does not fit the operands; `...` stands for batch dimensions.

    >>> import fusegrad as fg
    >>> fg.einsum("ij,j->i", fg.ones(2, 3), fg.ones(3))
    tensor([3., 3.])
    """
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    inputs, output = _parsed(equation, operands)
    terms = [_single_letters(letters, x) for letters, x in zip(inputs, operands, strict=True)]
    while len(terms) > 1:
        (left, x), (right, y), rest = terms[0], terms[1], terms[2:]
        needed = set(output).union(*(letters for letters, _ in rest))
        terms = [_pair(left, x, right, y, needed), *rest]
    letters, result = terms[0]
    summed = [i for i, c in enumerate(letters) if c not in output]
    if summed:
        result = reduction.sum(result, summed)
        letters = [c for c in letters if c in output]
    return shape.permute(result, [letters.index(c) for c in output])


def _parsed(equation: str, operands: Sequence[Tensor]) -> tuple[list[list[str]], list[str]]:
    """The letters of each operand and of the result; `...` becomes letters of its own."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise failure(RuntimeError, f"{equation!r} has {len(terms)} operands, {len(operands)} were given")
    dots: list[str] = []
    inputs = []
    for term, x in zip(terms, operands, strict=True):
        before, ellipsis, after = term.partition("...")
        extra = x.array.ndim - len(before) - len(after)
        if extra < 0 or (extra and not ellipsis):
            raise failure(RuntimeError, f"{term!r} does not fit an operand of shape {list(x.array.shape)}")
        batch = [f".{i}" for i in range(extra, 0, -1)]
        dots = batch if len(batch) > len(dots) else dots
        inputs.append([*before, *batch, *after])
    if arrow:
        before, ellipsis, after = right.partition("...")
        output = [*before, *(dots if ellipsis else []), *after]
    else:
        seen = [c for letters in inputs for c in letters if not c.startswith(".")]
        output = dots + sorted(c for c in set(seen) if seen.count(c) == 1)
    known = {c for letters in inputs for c in letters}
    if not known.issuperset(output) or len(set(output)) != len(output):
        raise failure(RuntimeError, f"{equation!r}: the output {right!r} repeats or invents a letter")
    return inputs, output


def _single_letters(letters: list[str], x: Tensor) -> tuple[list[str], Tensor]:
    """Repeated letters of one operand as its diagonal."""
    for letter in dict.fromkeys(letters):
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            x = shape.diagonal(x, 0, first, second)
            letters = [c for i, c in enumerate(letters) if i not in (first, second)] + [letter]
    return letters, x


def _pair(
    left: list[str], x: Tensor, right: list[str], y: Tensor, needed: set[str]
) -> tuple[list[str], Tensor]:
    """Two operands as one: batch letters, summed letters, and the letters of either side alone."""
    sizes = dict(zip(right, y.array.shape, strict=True))
    for letter, n in zip(left, x.array.shape, strict=True):
        if sizes.get(letter, 1) == 1:
            sizes[letter] = n
        elif n not in (1, sizes[letter]):
            raise failure(RuntimeError, f"letter {letter!r} has the sizes {n} and {sizes[letter]}")
    both = [c for c in left if c in right]
    batch = [c for c in both if c in needed]
    inner = [c for c in both if c not in needed]
    left_only = [c for c in left if c not in right]
    right_only = [c for c in right if c not in left]

    def matrix(letters: list[str], t: Tensor, rows: list[str], columns: list[str]) -> Tensor:
        order = batch + rows + columns
        t = shape.permute(t, [letters.index(c) for c in order])
        t = shape.expand(
            t,
            [
                n if c in rows + columns and c not in both else sizes[c]
                for c, n in zip(order, t.array.shape, strict=True)
            ],
        )
        count = [math.prod(sizes[c] for c in group) for group in (batch, rows, columns)]
        return shape.reshape(t, count)

    product = matmul(matrix(left, x, left_only, inner), matrix(right, y, inner, right_only))
    letters = batch + left_only + right_only
    return letters, shape.reshape(product, [sizes[c] for c in letters])


declare_operator("matmul", matmul)
METHODS |= {"addmm": addmm}
METHODS |= {"matmul": matmul, "mm": mm, "bmm": bmm, "mv": mv, "dot": dot, "outer": outer}
