"""`Tensor`: a NumPy array with a place on the autograd graph.

Declarations of ops attach methods and operators (see `names.py`), and so do autograd, views and printing.
What stands here is what a tensor *is*, and the doors through which its values reach Python.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from fusegrad.eager.core import shared
from fusegrad.eager.core.dtypes import FROM_NUMPY, DType
from fusegrad.eager.core.errors import failure, type_name
from fusegrad.eager.core.memory_order import LAST, contiguous_format, memory_format, strided
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.places.device import CPU, META, device, on_cpu
from fusegrad.eager.core.places.meta import MetaArray, leave as leave_meta
from fusegrad.eager.core.shared import Untracked
from fusegrad.eager.core.sizes import Size, asks_sizes, new_size as _size, one_of, watching_sizes
from fusegrad.eager.core.stand_in import give_values, putting_off
from fusegrad.eager.core.state import REQUIRES_GRAD, refuse_transforms, state

if TYPE_CHECKING:
    from fusegrad.eager.core.tensor_methods import Methods  # a stub: what the declarations of ops attach
else:
    Methods = object

_T = TypeVar("_T", bound="Tensor")


class Tensor(Methods):
    """A multi-dimensional array that remembers how it was made.

    array: the NumPy array with the values (shared with NumPy, not copied).
    needs_grad: the slot behind `requires_grad`.
    gradient: the slot behind `grad`: the accumulated gradient of a leaf, or None.
    maker, output_index: the node that made it, or what `grad_fn` makes one of, and which of its outputs.
    version: `[writes, last]`, shared by all views of a memory: how often it was written in place, and
    where the last write was, with its number (see `views.wrote`).
    alias: what a view is a view of, and what views a tensor has (see `views`).

    Make tensors with `fusegrad.tensor`, `zeros`, `from_numpy` and the like.
    """

    __slots__ = (
        "__dict__",
        "__weakref__",
        "alias",
        "array",
        "gradient",
        "maker",
        "needs_grad",
        "output_index",
        "version",
    )

    array: np.ndarray
    needs_grad: bool
    gradient: Tensor | None
    grad: Tensor | None  # see `autograd/accumulation.py`
    grad_fn: Any  # see `autograd/writes/lagging.py`
    maker: Any
    output_index: int
    version: list[Any]
    alias: Any

    __array_priority__ = 1000  # NumPy must let Tensor's reflected operators answer

    __hash__ = object.__hash__

    def __new__(cls, *data: Any, device: Any = None) -> Any:
        """`Tensor(2, 3)` has these sizes, `Tensor([1.0])` these values, in the default float."""
        return ops.constructed(cls, data, device)

    # What it is.

    @property
    def shape(self) -> Size:
        return _size(Size, asks_sizes(self) if watching_sizes else self.array.shape)

    def size(self, dim: int | None = None, axis: int | None = None) -> Any:
        """The shape, or its extent along `dim`, which NumPy calls `axis`."""
        dim = dim if axis is None else one_of(dim, axis)
        shape = asks_sizes(self) if watching_sizes else self.array.shape
        return _size(Size, shape) if dim is None else shape[dim]

    @property
    def dtype(self) -> DType:
        return FROM_NUMPY[self.array.dtype]

    @property
    def ndim(self) -> int:
        return self.array.ndim

    def dim(self) -> int:
        """The number of dimensions."""
        return self.array.ndim

    def numel(self) -> int:
        """The number of elements."""
        return asks_sizes(self, flat=True)[0] if watching_sizes else self.array.size

    nelement = numel

    ndimension = dim

    def element_size(self) -> int:
        """Bytes of one element."""
        return self.array.itemsize

    @property
    def itemsize(self) -> int:
        return self.array.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        if watching_sizes:
            asks_sizes(self)
        return self.array.nbytes

    def is_nonzero(self) -> bool:
        """Whether the one element is not zero. Raises RuntimeError for more than one, or none."""
        return bool(self)

    def is_signed(self) -> bool:
        """Whether the dtype has negative numbers."""
        return self.array.dtype.kind in "ifcV"

    def stride(self, dim: int | None = None, axis: int | None = None) -> Any:
        """Steps in elements (not bytes) along each dimension, or along `dim`, which NumPy calls `axis`."""
        dim = dim if axis is None else one_of(dim, axis)
        if watching_sizes:
            asks_sizes(self)
        array = self.array
        if array.flags.c_contiguous and (
            type(self.alias) is not tuple or not (array.size or any(array.strides))
        ):
            # NumPy's are anything along dimensions of 1 element, and where there are no elements.
            strides = tuple(math.prod(max(n, 1) for n in array.shape[i:]) for i in range(1, array.ndim + 1))
        else:
            strides = tuple(s // array.itemsize for s in array.strides)
        return strides if dim is None else strides[dim]

    def dim_order(self, *, ambiguity_check: Any = False) -> tuple[int, ...]:
        """The dimensions as they lie in memory, the outermost first. Source: `torch.Tensor.dim_order`.

        ambiguity_check: raise RuntimeError where strides do not tell; or, of memory formats, where the tensor
        has not just one of these.

        >>> import fusegrad as fg
        >>> fg.empty(2, 3, 4).transpose(0, 1).dim_order()
        (1, 0, 2)
        """
        strides = self.stride()
        order = tuple(sorted(range(len(strides)), key=lambda d: -strides[d]))
        if ambiguity_check is True and (len({*strides}) < len(strides) or 1 in self.array.shape):
            raise failure(
                RuntimeError, "The tensor does not have unique dim order, or cannot map to exact one."
            )
        if not isinstance(ambiguity_check, bool):
            if not isinstance(ambiguity_check, (list, tuple)) or not all(
                isinstance(x, memory_format) for x in ambiguity_check
            ):
                raise failure(
                    TypeError, "The ambiguity_check argument must be a bool or a list of memory formats."
                )
            fitting = [x for x in ambiguity_check if self.is_contiguous(memory_format=x)]
            if len(fitting) != 1:
                raise failure(
                    RuntimeError,
                    "The tensor does not have unique dim order, or cannot map to exact one of the given "
                    "memory formats.",
                )
            last = fitting[0] is not contiguous_format
            return (0, *range(2, len(strides)), 1) if last else tuple(range(len(strides)))
        return order

    def is_contiguous(self, memory_format: memory_format = contiguous_format) -> bool:
        """Whether the elements lie in row-major order, or with their channels last, without gaps."""
        array = self.array
        if memory_format in LAST:
            if array.ndim != LAST[memory_format]:
                return False
            array = array.transpose(0, *range(2, array.ndim), 1)
        return bool(array.flags.c_contiguous)

    def is_floating_point(self) -> bool:
        return self.array.dtype.kind in "fV"

    def is_complex(self) -> bool:
        return self.array.dtype.kind == "c"

    @property
    def device(self) -> device:
        return META if self.is_meta else CPU

    @property
    def is_meta(self) -> bool:
        """Whether it has no values, but a shape and a dtype."""
        return type(self.array) is MetaArray

    @property
    def is_cpu(self) -> bool:
        return type(self.array) is not MetaArray

    is_cuda = is_mps = is_xpu = False

    layout = strided
    is_mkldnn = is_nested = is_quantized = is_sparse = is_sparse_csr = False

    def to_dense(self, *_: Any, **__: Any) -> Tensor:
        """The tensor itself: none is sparse."""
        return self

    def dense_dim(self) -> int:
        """All dimensions are dense ones."""
        return self.array.ndim

    def sparse_dim(self) -> int:
        """0: no dimension is sparse."""
        return 0

    def get_device(self) -> int:
        """-1: the CPU."""
        return -1

    def cuda(self, *_: Any, **__: Any) -> Tensor:
        """Raises RuntimeError: there is no other device than the CPU."""
        on_cpu("cuda")
        return self

    # Its place on the autograd graph.

    def _views_what_requires_grad(self) -> bool:
        base = self
        while type(base.alias) is tuple:
            base = base.alias[0]
        return base.needs_grad and self.array.dtype.kind in "fcV"

    @property
    def requires_grad(self) -> bool:
        """Whether it is on the graph, or a view of what is: also one made under `no_grad`, as in PyTorch,
        though no gradient comes through that one.
        """
        return self.needs_grad or self._views_what_requires_grad()

    @requires_grad.setter
    def requires_grad(self, value: bool | None) -> None:
        if not isinstance(value, bool):
            raise failure(RuntimeError, "requires_grad must be a bool")
        if value and self.grad_fn is not None:
            raise failure(RuntimeError, "you can only change requires_grad flags of leaf variables.")
        require_grad(self, value)

    @requires_grad.deleter
    def requires_grad(self) -> None:
        raise failure(RuntimeError, "requires_grad must be a bool")

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Set whether backward computes this leaf's gradient; gives the tensor itself.

        Raises RuntimeError for integer tensors, for False on a tensor that an op made, and within functions
        that a functional transform calls.
        """
        refuse_transforms(REQUIRES_GRAD)
        return require_grad(self, requires_grad)

    @property
    def is_leaf(self) -> bool:
        return self.grad_fn is None

    @property
    def output_nr(self) -> int:
        return self.output_index

    def is_inference(self) -> bool:
        """Whether it was made in `inference_mode`."""
        return type(self.version) is Untracked

    @property
    def _version(self) -> int:
        if self.is_inference():
            raise failure(RuntimeError, "Inference tensors do not track version counter.")
        return self.version[0]

    def detach(self) -> Tensor:
        """The same memory as a tensor off the graph."""
        return ops.detach(self)

    @property
    def data(self) -> Tensor:
        """The same memory off the graph; writes through it are not noticed by autograd."""
        if state.interpreter is not None:
            state.interpreter.reach(self)  # with its values it gets what counts its writes
        tensor = ops.detach(self)
        tensor.version = shared.another(self.version)
        return tensor

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            kind = type_name(value)
            if getattr(value, "is_sparse", False):
                raise failure(RuntimeError, f"the tensor, and a {kind}, have incompatible tensor type")
            raise failure(TypeError, f"Variable data has to be a tensor, but got {kind}")
        if self.needs_grad and value.array.dtype.kind not in "fcV":
            raise failure(
                RuntimeError,
                "data set to a tensor that requires gradients must be floating point or complex dtype, not "
                f"{value.array.dtype.name}",
            )
        if putting_off:
            give_values((self, value))
        if shared.is_same(self.array, value.array):
            return  # `x.data -= y` has written there already
        if state.interpreter is not None:
            state.interpreter.replaces_data(self, value)
        shared.shares(self, value)
        self.array = value.array

    @data.deleter
    def data(self) -> None:
        raise failure(RuntimeError, "Deleting tensor data is not allowed. Delete tensor instead!")

    # Its memory.

    def data_ptr(self) -> int:
        """The address of the first element; 0 of a meta tensor."""
        if self.is_meta:
            return 0
        return self._leave(
            "data_ptr", lambda: self._lent().__array_interface__["data"][0] if self.array.size else 0
        )

    # The doors through which values reach Python. A recorder is told of each.

    def _leave(self, door: str, read: Callable[[], Any]) -> Any:
        """What `read` gives; an interpreter is told before and after."""
        if putting_off:
            give_values((self,))
            if type(self.array) is MetaArray:
                return leave_meta(door, read)
        interpreter = state.interpreter
        if interpreter is None:
            return read()
        interpreter.reach(self)
        value = read()
        other = interpreter.leave(self, door, value)
        return value if other is None else other

    def _lent(self) -> np.ndarray:
        """The memory for NumPy code, which may write there, or make other tensors of it."""
        return shared.lend(self.array, self.version)

    def _scalar(self, kind: type[Exception] = ValueError) -> Any:
        if self.array.size != 1:
            wrong = (
                f"a Tensor with {self.array.size} elements cannot be converted to Scalar: only one element"
            )
            raise failure(kind, f"{wrong} tensors can be converted to Python scalars")
        return self.array.item()

    def _real_scalar(self) -> Any:
        value = self._scalar()
        if type(value) is not complex:
            return value
        if value.imag:
            raise failure(
                RuntimeError, f"value cannot be converted to a real number without overflow: {value}"
            )
        return value.real

    def item(self) -> Any:
        """The one element as a Python number."""
        return self._leave("item", lambda: self._scalar(RuntimeError))

    def __bool__(self) -> bool:
        if self.array.size != 1:
            raise failure(
                RuntimeError,
                "Boolean value of Tensor with "
                f"{'more than one value' if self.array.size else 'no values'} is ambiguous "
                f"(shape {list(self.array.shape)}); use .any() or .all()",
            )
        return self._leave("bool", lambda: bool(self.array.item()))

    def __int__(self) -> int:
        return self._leave("int", lambda: int(self._real_scalar()))

    def __float__(self) -> float:
        return self._leave("float", lambda: float(self._real_scalar()))

    def __complex__(self) -> complex:
        return self._leave("complex", lambda: complex(self._scalar()))

    def __index__(self) -> int:
        if self.array.dtype.kind not in "biu":
            raise failure(TypeError, f"only integer tensors can be an index, this is {self.array.dtype.name}")
        return self._leave("index", lambda: int(self._scalar()))

    def tolist(self) -> Any:
        """The values as nested Python lists (a number for a 0-d tensor)."""
        return self._leave("tolist", lambda: self.array.tolist())

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """The values as a NumPy array that shares memory.

        Raises RuntimeError for a tensor that needs gradients, unless `force`; TypeError for bfloat16, which
        NumPy has not.
        """
        if self.array.dtype.kind == "V":
            raise failure(TypeError, "Got unsupported ScalarType BFloat16; convert with .float()")
        if self.requires_grad and state.grad_enabled and not force:
            wrong = "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
            raise failure(RuntimeError, wrong)
        return self._leave("numpy", self._lent)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if self.requires_grad or self.array.dtype.kind == "V":
            self.numpy()
        array = self._leave("__array__", self._lent)
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise failure(ValueError, f"a {array.dtype} tensor is no {np.dtype(dtype)} array as it is")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __len__(self) -> int:
        if not self.array.ndim:
            raise failure(TypeError, "len() of a 0-d tensor")
        return asks_sizes(self)[0] if watching_sizes else self.array.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self.array.ndim:
            raise failure(TypeError, "iteration over a 0-d tensor")
        return iter(ops.unbind(self))

    def __delitem__(self, index: Any) -> None:
        raise failure(TypeError, "Tensor does not support deleting items")

    def __contains__(self, value: Any) -> bool:
        if not isinstance(value, (Tensor, bool, int, float, complex, np.generic)):
            wrong = f"only supports Tensor or scalar, but you passed in a {type(value)}."
            raise failure(RuntimeError, f"Tensor.__contains__ {wrong}")
        return bool((self == value).any())

    def __reversed__(self) -> Any:
        return ops.flip(self, (0,)) if self.array.ndim else self

    def __format__(self, spec: str) -> str:
        if self.array.ndim == 0 and type(self) is Tensor and not self.is_meta:
            return self._leave("format", lambda: format(self.array.item(), spec))
        return object.__format__(self, spec)


def require_grad(tensor: _T, requires_grad: bool = True) -> _T:
    """`Tensor.requires_grad_` for what makes tensors, within functional transforms, too."""
    if tensor.grad_fn is not None and not requires_grad:
        raise failure(
            RuntimeError,
            "you can only change requires_grad flags of leaf variables. If you want to use a computed "
            "variable in a subgraph that doesn't require differentiation use var_no_grad = var.detach().",
        )
    if requires_grad and tensor.array.dtype.kind not in "fcV":
        raise failure(
            RuntimeError,
            "Only Tensors of floating point and complex dtype can require gradients, "
            f"this one is {tensor.array.dtype.name}",
        )
    if requires_grad and tensor.is_inference() and not state.inference:
        raise failure(
            RuntimeError,
            "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.",
        )
    if state.interpreter is not None and tensor.needs_grad != requires_grad:
        state.interpreter.requires_grad_changes(tensor)
    tensor.needs_grad = bool(requires_grad)
    return tensor


def mark_inference(tensors: Sequence[Tensor]) -> None:
    """Make new tensors (not views of ordinary ones) inference tensors."""
    for tensor in tensors:
        if tensor.version == [0, 0] and type(tensor.alias) is not tuple:
            tensor.version = Untracked((0, 0))
