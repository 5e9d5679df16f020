"""Nested tensors, as PyTorch's with `layout=torch.jagged`: the examples of a batch on end.

In: values [..., sum of lengths, ...] and offsets [examples + 1], where each example begins. A nested tensor
of shape (examples, ..., ragged, ...) has, like `SparseTensor`, two tensors and is none: functions and methods
of tensors ask it (`__torch_function__`), and `functions.py` answers by ops on the values, so that gradients
go there and recorded runs know it. Its dimension d is dimension d - 1 of the values.

>>> import fusegrad as fg
>>> words = fg.nested.nested_tensor([fg.ones(2, 3), fg.ones(4, 3)], layout=fg.jagged)
>>> words.sum(1)
tensor([[2., 2., 2.],
        [4., 4., 4.]])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fusegrad.eager.core.dtypes import DType
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.memory_order import jagged
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.pytree import hold_tensors
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.overrides.asking import begin

# By the name of a function: what answers it for nested tensors, and what answers the others.
RULES: dict[str, Callable[..., Any]] = {}
_OTHERS: list[Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]] = []
_OPERATORS = """
    abs add and eq floordiv ge getitem gt invert le lt matmul mod mul ne neg or pow radd rand rfloordiv rmod
    rmul ror rpow rsub rtruediv rxor sub truediv xor
""".split()


class RaggedSize:
    """The size of a ragged dimension, which is no number. Those of the same offsets are equal."""

    __slots__ = ("_offsets",)

    def __init__(self, offsets: Tensor) -> None:
        self._offsets = offsets

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RaggedSize) and self._offsets is other._offsets

    def __hash__(self) -> int:
        return id(self._offsets)

    def __repr__(self) -> str:
        return "j"

    def __index__(self) -> int:
        raise failure(
            TypeError,
            "the size of a ragged dimension is no number: offsets().diff() has the length of each example, "
            "and to_padded_tensor(0.0) gives all examples the length of the longest",
        )


def answer(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a function or a method of tensors gives for nested ones among its arguments."""
    name = getattr(function, "__name__", "")
    rule = RULES.get(name if name.endswith("_") and not name.startswith("_") else name.strip("_"))
    if rule is not None:
        return rule(function, *args, **kwargs)
    return _OTHERS[0](function, args, kwargs)


def answer_others(rule: Any) -> Any:
    """Have functions without a rule answered by `rule`."""
    _OTHERS[:] = [rule]
    return rule


class NestedTensor:
    """A batch of examples of different lengths; made by `nested_tensor` and its kin. No `Tensor`.

    requires_grad, grad: those of the values; the gradient is nested.
    """

    layout = jagged
    is_nested = is_cpu = True
    is_cuda = is_sparse = is_quantized = False

    def __init__(self, values: Tensor, offsets: Tensor, ragged: int = 1) -> None:
        """ragged: which dimension it is that has another size for each example."""
        begin()
        self._values, self._offsets, self._ragged = values, offsets, ragged

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return answer(func, args, kwargs or {})

    def __getattr__(self, name: str) -> Any:
        method = None if name.startswith("_") else getattr(Tensor, name, None)
        if not callable(method):
            raise AttributeError(f"NestedTensor has no attribute {name!r}; values() is a tensor")
        return lambda *args, **kwargs: answer(method, (self, *args), kwargs)

    # What it is.

    @property
    def shape(self) -> tuple[Any, ...]:
        """The shape, with a `RaggedSize` in the ragged dimension."""
        sizes: list[Any] = [len(self), *self._values.shape]
        sizes[self._ragged] = RaggedSize(self._offsets)
        return tuple(sizes)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or its extent along `dim`."""
        return self.shape if dim is None else self.shape[dim]

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._values.ndim + 1

    def dim(self) -> int:
        """The number of dimensions."""
        return self.ndim

    def numel(self) -> int:
        """The number of elements of all examples."""
        return self._values.numel()

    def __len__(self) -> int:
        return int(self._offsets.shape[0]) - 1

    @property
    def dtype(self) -> DType:
        """The dtype of the values."""
        return self._values.dtype

    @property
    def device(self) -> Any:
        """The CPU."""
        return self._values.device

    def values(self) -> Tensor:
        """All examples on end, along the ragged dimension."""
        return self._values

    def offsets(self) -> Tensor:
        """Where each example begins in the values, and where the last ends."""
        return self._offsets

    def lengths(self) -> None:
        """None: there are no gaps between examples. Their lengths are `offsets().diff()`."""
        return None

    def to_padded_tensor(self, padding: float, output_size: Any = None) -> Tensor:
        """All examples as one tensor, with a number behind those that are shorter."""
        made: Tensor = RULES["to_padded_tensor"](NestedTensor.to_padded_tensor, self, padding, output_size)
        return made

    def __repr__(self) -> str:
        sizes = ", ".join(map(repr, self.shape))
        needs = ", requires_grad=True" if self.requires_grad else ""
        return f"NestedTensor(size=({sizes}), offsets={self._offsets!r}{needs}, contiguous=True)"

    def __bool__(self) -> bool:
        raise failure(RuntimeError, "Boolean value of a nested tensor is ambiguous; use .any() or .all()")

    def __iter__(self) -> Iterator[Tensor]:
        examples: tuple[Tensor, ...] = answer(Tensor.unbind, (self,), {})
        return iter(examples)

    # Gradients.

    @property
    def requires_grad(self) -> bool:
        """Whether the values need gradients."""
        return self._values.requires_grad

    def requires_grad_(self, requires_grad: bool = True) -> NestedTensor:
        """Have the values need gradients."""
        self._values.requires_grad_(requires_grad)
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether the values were made by the user."""
        return self._values.is_leaf

    @property
    def grad_fn(self) -> Any:
        """What made the values."""
        return self._values.grad_fn

    @property
    def grad(self) -> NestedTensor | None:
        """The gradient, nested."""
        gradient = self._values.grad
        return None if gradient is None else self.like(gradient)

    # For `functions.py`.

    def like(self, values: Tensor, ragged: int | None = None) -> NestedTensor:
        """Other values for the same examples."""
        return NestedTensor(values, self._offsets, self._ragged if ragged is None else ragged)

    @property
    def ragged(self) -> int:
        """Which dimension is ragged."""
        return self._ragged

    def in_front(self) -> Tensor:
        """The values with the ragged dimension in front."""
        return self._values if self._ragged == 1 else self._values.movedim(self._ragged - 1, 0)

    def examples(self) -> Tensor:
        """For each place along the ragged dimension, which example it is of."""
        count = self._values.shape[self._ragged - 1]
        return ops.searchsorted(self._offsets[1:], ops.arange(count), right=True)


def _operator(name: str) -> Any:
    def operator(self: NestedTensor, *args: Any) -> Any:
        return answer(getattr(Tensor, name), (self, *args), {})

    return operator


for _name in _OPERATORS:
    setattr(NestedTensor, f"__{_name}__", _operator(f"__{_name}__"))
NestedTensor.__hash__ = object.__hash__  # type: ignore[method-assign]

hold_tensors(NestedTensor, "_values", "_offsets", "_ragged")
locate("fusegrad.nested", globals(), ["NestedTensor"])
