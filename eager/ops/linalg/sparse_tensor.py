"""Sparse tensors by coordinates: where elements are, and what they are; all others are 0.

In: indices [sparse dimensions, elements] and values [elements, *dense dimensions]. A sparse tensor is no
`Tensor`: it holds two, and what is computed with it is computed by ops on these, so gradients go to the
values, and recorded runs know it. The product with a dense matrix is an op of its own, which SciPy evaluates.

>>> import fusegrad as fg
>>> a = fg.sparse_coo_tensor([[0, 1], [1, 0]], [2.0, 3.0], (2, 2))
>>> a @ fg.tensor([[1.0], [10.0]])
tensor([[20.],
        [ 3.]])
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.dtypes import DType
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import Opaque
from fusegrad.eager.core.memory_order import sparse_coo
from fusegrad.eager.core.names import internal
from fusegrad.eager.core.op import TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.places.device import device, on_cpu
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.pytree import hold_tensors
from fusegrad.eager.core.state import is_grad_enabled
from fusegrad.eager.core.tensor import Size, Tensor
from fusegrad.eager.ops.declare import method, public

# The product of a sparse matrix, by its rows, columns and values, with a dense one.


def _product_numpy(
    rows: np.ndarray, columns: np.ndarray, values: np.ndarray, dense: np.ndarray, count: int
) -> np.ndarray:
    from scipy import sparse  # takes 0.1 s, and few programs have sparse matrices

    kind = values.dtype
    wide = np.float32 if kind == np.float16 else kind
    matrix = sparse.coo_array((values.astype(wide), (rows, columns)), shape=(count, dense.shape[0])).tocsr()
    return np.ascontiguousarray((matrix @ dense.astype(wide)).astype(kind))


def _product_type(types: Sequence[TensorType], count: int) -> TensorType:
    *_, values, dense = types
    return TensorType((count, dense.shape[1]), values.dtype)


_product: Opaque = Opaque(
    "coo_product",
    "rows columns values dense",
    _product_numpy,
    _product_type,
    {
        "rows": None,
        "columns": None,
        "values": lambda g, rows, columns, dense: ops.sum(
            ops.index_select(g, 0, rows) * ops.conj(ops.index_select(dense, 0, columns)), 1
        ),
        "dense": lambda g, rows, columns, values, dense_type: bind(
            _product, (columns, rows, ops.conj(values), g), {"count": dense_type.shape[0]}
        ),
    },
)


class SparseTensor:
    """A sparse tensor; made by `sparse_coo_tensor`. No `Tensor`: other ops want `to_dense()`.

    requires_grad, grad: those of the values; the gradient is sparse, with elements at the same places.
    """

    layout = sparse_coo
    is_sparse = is_cpu = True
    is_cuda = is_sparse_csr = is_quantized = False

    def __init__(self, indices: Tensor, values: Tensor, size: Sequence[int], coalesced: bool) -> None:
        self._places, self._elements = indices, values
        self._size, self._is_coalesced = tuple(size), coalesced

    # What it is.

    @property
    def shape(self) -> Size:
        """The shape of the dense tensor."""
        return Size(self._size)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or its extent along `dim`."""
        return self.shape if dim is None else self._size[dim]

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._size)

    def dim(self) -> int:
        """The number of dimensions."""
        return len(self._size)

    ndimension = dim

    def numel(self) -> int:
        """The number of elements, zeros included."""
        return math.prod(self._size)

    nelement = numel

    def is_floating_point(self) -> bool:
        """Whether the values are real numbers."""
        return self._elements.is_floating_point()

    def is_complex(self) -> bool:
        """Whether the values are complex."""
        return self._elements.is_complex()

    def element_size(self) -> int:
        """The number of bytes of a value."""
        return self._elements.element_size()

    @property
    def is_leaf(self) -> bool:
        """Whether the values were made by the user."""
        return self._elements.is_leaf

    def sparse_dim(self) -> int:
        """How many dimensions indices are given for."""
        return self._places.shape[0]

    def dense_dim(self) -> int:
        """How many dimensions each value has."""
        return self.ndim - self.sparse_dim()

    @property
    def dtype(self) -> DType:
        """The dtype of the values."""
        return self._elements.dtype

    @property
    def device(self) -> device:
        """The CPU."""
        return self._elements.device

    @property
    def requires_grad(self) -> bool:
        """Whether the values need gradients."""
        return self._elements.requires_grad

    def requires_grad_(self, requires_grad: bool = True) -> SparseTensor:
        """Have the values need gradients."""
        self._elements.requires_grad_(requires_grad)
        return self

    @property
    def grad(self) -> SparseTensor | None:
        """The gradient, sparse."""
        gradient = self._elements.grad
        return None if gradient is None else self._with(gradient)

    def is_coalesced(self) -> bool:
        """Whether each place comes once, in order."""
        return self._is_coalesced

    def _nnz(self) -> int:
        return self._elements.shape[0]

    def _indices(self) -> Tensor:
        return self._places

    def _values(self) -> Tensor:
        return self._elements

    def indices(self) -> Tensor:
        """Where the elements are, [sparse dimensions, elements]. RuntimeError unless coalesced."""
        self._check_coalesced("indices")
        return self._places

    def values(self) -> Tensor:
        """The elements. Raises RuntimeError for a tensor that is not coalesced."""
        self._check_coalesced("values")
        return self._elements

    def _check_coalesced(self, what: str) -> None:
        if not self._is_coalesced:
            raise failure(
                RuntimeError,
                f"Cannot get {what} on an uncoalesced tensor, please call .coalesce() first",
            )

    def __repr__(self) -> str:
        return (
            f"tensor(indices={self._places!r},\n       values={self._elements!r},\n"
            f"       size={self._size}, nnz={self._nnz()}, layout=torch.sparse_coo)"
        )

    def __bool__(self) -> bool:
        raise failure(RuntimeError, "Boolean value of a sparse tensor is ambiguous; use .to_dense()")

    # Other forms.

    def _with(self, values: Tensor) -> SparseTensor:
        """Other values at the same places."""
        return SparseTensor(self._places, values, self._size, self._is_coalesced)

    def _flat(self) -> Tensor:
        """The places as numbers, row by row."""
        flat = ops.zeros(self._nnz(), dtype=self._places.dtype)
        for place, n in zip(self._places.unbind(0), self._size, strict=False):
            flat = flat * n + place
        return flat

    def coalesce(self) -> SparseTensor:
        """The same with each place once, in order: what is at the same place is added up."""
        if self._is_coalesced:
            return self
        flat, back = ops.unique(self._flat(), return_inverse=True)
        values = ops.zeros((flat.shape[0], *self._elements.shape[1:]), dtype=self.dtype)
        values = values.index_add(0, back, self._elements)
        places, rest = [], flat
        for n in reversed(self._size[: self.sparse_dim()]):
            places.append(rest % n)
            rest = rest // n
        indices = ops.stack(places[::-1]) if places else self._places[:, : flat.shape[0]]
        return SparseTensor(indices, values, self._size, True)

    def to_dense(self, dtype: Any = None, *, masked_grad: bool = True) -> Tensor:
        """The dense tensor."""
        split = self.sparse_dim()
        rows = math.prod(self._size[:split])
        zeros = ops.zeros((rows, *self._size[split:]), dtype=self.dtype)
        dense = zeros.index_add(0, self._flat(), self._elements).reshape(self._size)
        return dense if dtype is None else dense.to(dtype)

    def to_sparse(self, *_: Any, **__: Any) -> SparseTensor:
        """The tensor itself."""
        return self

    def to(self, *args: Any, **kwargs: Any) -> SparseTensor:
        """The same with values of another dtype."""
        return self._with(self._elements.to(*args, **kwargs))

    def float(self) -> SparseTensor:
        """In single precision."""
        return self._with(self._elements.float())

    def double(self) -> SparseTensor:
        """In double precision."""
        return self._with(self._elements.double())

    def cpu(self) -> SparseTensor:
        """The tensor itself."""
        return self

    def cuda(self, *_: Any, **__: Any) -> SparseTensor:
        """Raises RuntimeError: there is no other device than the CPU."""
        on_cpu("cuda")
        return self

    def detach(self) -> SparseTensor:
        """The same, off the graph."""
        return self._with(self._elements.detach())

    def clone(self) -> SparseTensor:
        """A copy."""
        copied = self._places.clone()
        return SparseTensor(copied, self._elements.clone(), self._size, self._is_coalesced)

    def transpose(self, dim0: int, dim1: int) -> SparseTensor:
        """The same with two of its sparse dimensions exchanged."""
        order = list(range(self.ndim))
        order[dim0], order[dim1] = order[dim1], order[dim0]
        split = self.sparse_dim()
        if order[split:] != list(range(split, self.ndim)):
            raise failure(RuntimeError, "transpose of a sparse tensor: only of its sparse dimensions")
        places = self._places[ops.tensor(order[:split])]
        return SparseTensor(places, self._elements, [self._size[i] for i in order], False)

    def t(self) -> SparseTensor:
        """The transpose of a matrix."""
        if self.ndim != 2:
            raise failure(RuntimeError, f"t() expects a tensor with 2 dimensions, but self is {self.ndim}D")
        return self.transpose(0, 1)

    @property
    def mT(self) -> SparseTensor:
        """The last two dimensions exchanged."""
        return self.transpose(self.ndim - 2, self.ndim - 1)

    @property
    def T(self) -> SparseTensor:
        """The transpose of a matrix."""
        return self.t()

    # Arithmetic.

    def __neg__(self) -> SparseTensor:
        return self._with(-self._elements)

    def __mul__(self, other: Any) -> SparseTensor:
        if isinstance(other, SparseTensor):
            raise failure(NotImplementedError, "products of sparse elements: use .to_dense() of one")
        if isinstance(other, Tensor) and other.ndim:
            if tuple(other.shape) != self._size:
                shapes = f"{list(self._size)} and {list(other.shape)}"
                raise failure(
                    RuntimeError, f"sparse and dense elements are multiplied of one shape, got {shapes}"
                )
            return self._with(self._elements * other[tuple(self._places.unbind(0))])
        return self._with(self._elements * other)

    __rmul__ = mul = __mul__

    def __truediv__(self, other: Any) -> SparseTensor:
        if isinstance(other, SparseTensor) or (isinstance(other, Tensor) and other.ndim):
            raise failure(RuntimeError, "Sparse division requires a scalar or zero-dim dense tensor divisor")
        return self._with(self._elements / other)

    div = __truediv__

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Tensor):
            return other + self.to_dense()
        if not isinstance(other, SparseTensor):
            return NotImplemented
        if self._size != other._size or self.sparse_dim() != other.sparse_dim():
            shapes = f"{list(self._size)} and {list(other._size)}"
            raise failure(RuntimeError, f"sparse tensors are added of one shape, got {shapes}")
        places = ops.cat([self._places, other._places], 1)
        return SparseTensor(places, ops.cat([self._elements, other._elements]), self._size, False)

    __radd__ = add = __add__

    def __sub__(self, other: Any) -> Any:
        return self + -other

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def sum(self, dim: int | Sequence[int] | None = None) -> Any:
        """The sum, or over some dimensions: sparse where sparse ones are left."""
        if dim is None:
            return self._elements.sum()
        given = [dim] if isinstance(dim, int) else list(dim)
        gone = {d + self.ndim if d < 0 else d for d in given}
        split = self.sparse_dim()
        inner = [d - split + 1 for d in sorted(gone) if d >= split]
        values = self._elements.sum(inner) if inner else self._elements
        kept = [d for d in range(split) if d not in gone]
        if not kept:
            return values.sum(0)
        size = [n for d, n in enumerate(self._size) if d not in gone]
        summed = SparseTensor(self._places[ops.tensor(kept)], values, size, False)
        return summed.coalesce()

    def __matmul__(self, other: Any) -> Any:
        if not isinstance(other, Tensor):
            return NotImplemented
        vector = other.ndim == 1
        dense = other.unsqueeze(1) if vector else other
        if self.ndim != 2 or self.dense_dim() or dense.ndim != 2 or dense.shape[0] != self._size[1]:
            shapes = f"{list(self._size)} and {list(other.shape)}"
            raise failure(RuntimeError, f"mat1 and mat2 shapes cannot be multiplied ({shapes})")
        if self.dtype is not other.dtype:
            raise failure(
                RuntimeError,
                f"expected m1 and m2 to have the same dtype, but got: {self.dtype!r} != {other.dtype!r}",
            )
        rows, columns = self._places.unbind(0)
        found = bind(_product, (rows, columns, self._elements, dense), {"count": self._size[0]})
        return found.squeeze(1) if vector else found

    matmul = mm = mv = __matmul__

    def __rmatmul__(self, other: Any) -> Any:
        return self.t().__matmul__(other.t()).t() if isinstance(other, Tensor) else NotImplemented


@internal
def sparse_matmul(input: Any, other: Any) -> Any:
    """A product in which one is no `Tensor`."""
    if isinstance(input, SparseTensor) and isinstance(other, Tensor):
        return input @ other
    if isinstance(other, SparseTensor) and isinstance(input, Tensor):
        return other.__rmatmul__(input)
    raise failure(TypeError, f"expected two Tensors, got {type(input).__name__} and {type(other).__name__}")


@public
def sparse_coo_tensor(
    indices: Any,
    values: Any,
    size: Sequence[int] | None = None,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool = False,
) -> SparseTensor:
    """A sparse tensor with `values` at `indices`, [sparse dimensions, elements]; what comes twice is added.

    Values that are a tensor on the graph get gradients. size: as small as the indices allow, if not given.
    Raises RuntimeError for indices that are not in it.

    Source: `torch.sparse_coo_tensor`.

    >>> import fusegrad as fg
    >>> fg.sparse_coo_tensor([[0, 1], [1, 0]], [2.0, 3.0]).to_dense()
    tensor([[0., 2.],
            [3., 0.]])
    """
    on_cpu(device)
    places = ops.as_tensor(indices).to(dtypes.int64)
    elements = ops.as_tensor(values) if dtype is None else ops.as_tensor(values).to(dtype)
    if places.ndim != 2:
        raise failure(RuntimeError, f"indices must be sparse_dim x nnz, but got: {list(places.shape)}")
    if elements.ndim < 1 or elements.shape[0] != places.shape[1]:
        raise failure(
            RuntimeError,
            f"indices and values must have same nnz, but got nnz from indices: {places.shape[1]}, "
            f"nnz from values: {elements.shape[0] if elements.ndim else 1}",
        )
    if size is None:
        if not places.shape[1]:
            raise failure(RuntimeError, "found negative index or no index to take a size from; give size=")
        size = [*(n + 1 for n in places.amax(1).tolist()), *elements.shape[1:]]
    expected = tuple(elements.shape[1:])
    if len(size) != places.shape[0] + len(expected) or tuple(size[places.shape[0] :]) != expected:
        raise failure(
            RuntimeError,
            f"values has incorrect size, expected {list(size[places.shape[0] :])}, got {list(expected)}",
        )
    bounds = ops.tensor(list(size[: places.shape[0]])).unsqueeze(1)
    if not ((places >= 0) & (places < bounds)).all():
        raise failure(RuntimeError, f"size is inconsistent with indices: one is outside of {list(size)}")
    if requires_grad:
        elements = elements.detach().clone().requires_grad_()
    return SparseTensor(places, elements, size, is_coalesced)


@method
def to_sparse(self: Tensor, sparse_dim: int | None = None, *, layout: Any = None) -> SparseTensor:
    """The elements that are not 0. Source: `torch.Tensor.to_sparse`.

    Raises RuntimeError for a tensor that needs gradients: whether those of zeros are 0 depends, in PyTorch,
    on what is computed. Sparse tensors of values on the graph are made by `sparse_coo_tensor`.

    >>> import fusegrad as fg
    >>> fg.tensor([[0.0, 2.0], [0.0, 0.0]]).to_sparse().indices()
    tensor([[0],
            [1]])
    """
    if layout not in (None, sparse_coo):
        raise failure(
            NotImplementedError, "sparse tensors have coordinates: there is no layout but torch.sparse_coo"
        )
    if self.requires_grad and is_grad_enabled():
        raise failure(
            RuntimeError,
            "to_sparse of a tensor that needs gradients: detach() it, or give values to sparse_coo_tensor",
        )
    split = self.ndim if sparse_dim is None else sparse_dim
    if not 0 < split <= self.ndim:
        raise failure(RuntimeError, f"sparse_dim must be from 1 to {self.ndim}, not {split}")
    filled = self != 0
    if split < self.ndim:
        filled = filled.flatten(split).any(-1)
    places = filled.nonzero().t()
    return SparseTensor(places, self[tuple(places.unbind(0))], self.shape, True)


locate("fusegrad.sparse", globals(), ["SparseTensor"])
hold_tensors(SparseTensor, "_places", "_elements", "_size", "_is_coalesced")
