"""Products in other words: tensor products, bilinear forms, and sums with products, all of `matmul`."""

from __future__ import annotations

import math
from typing import Any

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.sizes import size_of
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.linalg.contraction import check_ranks, combined
from fusegrad.eager.ops.precision import in_half
from fusegrad.eager.ops.shape import shape


@public(aliases=("ger",), method=True)
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """All products of the elements of two vectors. Source: `torch.outer`."""
    check_ranks((1, 1), input, vec2)
    return ops.unsqueeze(input, 1) * vec2


@public(method=True)
def vdot(input: Tensor, other: Tensor) -> Tensor:
    """The inner product of two vectors, the first conjugated. Source: `torch.vdot`."""
    return ops.dot(ops.conj(input), other)


@public(method=True)
def inner(input: Tensor, other: Tensor) -> Tensor:
    """Products summed over the last dimension of both; a number scales. Source: `torch.inner`."""
    if not input.array.ndim or not other.array.ndim:
        return input * other
    if input.array.shape[-1] != other.array.shape[-1]:
        raise failure(
            RuntimeError,
            f"inner() the last dimension must match on both input tensors but got shapes "
            f"{list(input.array.shape)} and {list(other.array.shape)}",
        )
    return tensordot(input, other, ([-1], [-1]))


@public(method=True, inplace=True)
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * (mat @ vec). Source: `torch.addmv`."""
    return combined("addmv", input, ops.mv, (mat, vec), beta, alpha)


@public(method=True, inplace=True)
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * outer(vec1, vec2). Source: `torch.addr`."""
    check_ranks((1, 1), vec1, vec2)
    input = ops.expand(input, (vec1.array.shape[0], vec2.array.shape[0]))
    product = outer(vec1, vec2)
    bools = input.array.dtype.kind == "b" and product.array.dtype.kind == "b"
    for name, factor in (("beta", beta), ("alpha", alpha)):
        if isinstance(factor, bool) and not bools:
            raise failure(RuntimeError, f"Boolean {name} only supported for Boolean results.")
        if product.array.dtype.kind in "biu" and isinstance(factor, (float, complex)):
            raise failure(
                RuntimeError,
                f"addr: for integral input tensors, argument {name} must not be a floating point number. "
                f"Got {factor}",
            )
        dtypes.held(factor, dtypes.opmath(product.array.dtype))
    if bools:
        return (product & bool(alpha)) | (input & bool(beta))
    product = product if alpha == 1 else product * alpha
    return product if beta == 0 else product + (input if beta == 1 else input * beta)


@public(method=True, inplace=True)
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * (batch1 @ batch2), for stacks of matrices. Source: `torch.baddbmm`."""
    input, batch1, batch2 = in_half(input, batch1, batch2)
    return combined("baddbmm", input, ops.bmm, (batch1, batch2), beta, alpha)


@public(method=True, inplace=True)
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * (the sum of the products of two stacks of matrices). Source: `torch.addbmm`."""
    input, batch1, batch2 = in_half(input, batch1, batch2)

    def summed(one: Tensor, other: Tensor) -> Tensor:
        return ops.sum(ops.bmm(one, other), 0)

    return combined("addbmm", input, summed, (batch1, batch2), beta, alpha)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input1^T weight[o] input2 + bias for every output o. Source: `torch.nn.functional.bilinear`.

    input1: [..., in1]; input2: [..., in2]; weight: [out, in1, in2]; bias: [out].
    """
    first, second, size = input1.array.shape, input2.array.shape, weight.array.shape
    if first[:-1] != second[:-1] or len(size) != 3 or first[-1:] + second[-1:] != size[1:]:
        raise failure(
            RuntimeError,
            f"bilinear: inputs [..., in1] and [..., in2] and a weight [out, in1, in2] are needed, got shapes "
            f"{list(first)}, {list(second)} and {list(size)}",
        )
    if bias is not None and bias.array.shape != size[:1]:
        raise failure(
            RuntimeError,
            f"bilinear: bias size does not match weight size: got {list(bias.array.shape)} but expected "
            f"{list(size[:1])}",
        )
    result = ops.einsum("...i,oij,...j->...o", input1, weight, input2)
    return result if bias is None else result + bias


@public
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Summed over the last `dims` dimensions of `a` and the first of `b`, or over two lists.

    A dimension of size 1 meets any size. Raises RuntimeError where sizes differ. Source: `torch.tensordot`.
    """
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if not isinstance(dims, (list, tuple)):
        dims = size_of(dims)
        if not 0 <= dims <= min(a.array.ndim, b.array.ndim):
            raise failure(
                RuntimeError,
                f"tensordot expects dims >= 0 and at most the number of dimensions, got {dims} for shapes "
                f"{list(a.array.shape)} and {list(b.array.shape)}",
            )
        dims = (range(a.array.ndim - dims, a.array.ndim), range(dims))
    if len(dims[0]) != len(dims[1]):
        raise failure(
            RuntimeError,
            f"both dimension lists should have same length, got {list(dims[0])} and {list(dims[1])}",
        )
    first = [shape.normal_dim(d, a.array.ndim) for d in dims[0]]
    second = [shape.normal_dim(d, b.array.ndim) for d in dims[1]]
    for i, j in zip(first, second, strict=True):
        n, m = a.array.shape[i], b.array.shape[j]
        if n == 1 and m != 1:
            b = ops.sum(b, j, keepdim=True, dtype=b.dtype)
        elif m == 1 and n != 1:
            a = ops.sum(a, i, keepdim=True, dtype=a.dtype)
        elif n != m:
            raise failure(
                RuntimeError,
                f"contracted dimensions need to match, but first has size {n} in dim {i} and second has "
                f"size {m} in dim {j}",
            )
    kept = [d for d in range(a.array.ndim) if d not in first]
    other = [d for d in range(b.array.ndim) if d not in second]
    inner_size = math.prod(a.array.shape[d] for d in first)
    size = [a.array.shape[d] for d in kept], [b.array.shape[d] for d in other]
    left = ops.reshape(ops.permute(a, kept + first), (math.prod(size[0]), inner_size))
    right = ops.reshape(ops.permute(b, second + other), (inner_size, math.prod(size[1])))
    return ops.reshape(ops.matmul(left, right), size[0] + size[1])
