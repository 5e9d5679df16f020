"""Making nested tensors, as `torch.nested` does, with its layout `jagged`; and packed sequences of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.dtypes import DType
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.memory_order import jagged, strided
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.places.device import on_cpu
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.nested import reductions  # noqa: F401 (its rules)
from fusegrad.eager.nested.functions import from_padded, padded, to_padded_tensor as _padded
from fusegrad.eager.nested.nested_tensor import NestedTensor
from fusegrad.eager.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from fusegrad.eager.ops.shape.padding import pad

__all__ = [
    "as_nested_tensor",
    "masked_select",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "nested_tensor_from_packed",
    "to_packed_sequence",
    "to_padded_tensor",
]


def _check_layout(layout: Any) -> None:
    if layout is not jagged:
        wanted = "strided" if layout in (None, strided) else layout
        raise failure(
            NotImplementedError,
            f"nested tensors are jagged here, not {wanted}: pass layout=torch.jagged, whose examples lie on "
            "end and differ in one dimension",
        )


def _offsets(lengths: Tensor) -> Tensor:
    return pad(lengths.to(dtypes.int64).cumsum(0), (1, 0))


def _joined(tensors: Sequence[Tensor]) -> NestedTensor:
    """Examples on end, along the dimension in which they differ; the first, if they do not."""
    if not tensors:
        raise failure(RuntimeError, "Cannot construct a nested tensor from an empty tensor list")
    first = tensors[0].shape
    if any(t.ndim == 0 for t in tensors):
        raise failure(RuntimeError, "Cannot construct a nested tensor from a list of zero-dim tensors")
    if any(t.ndim != len(first) for t in tensors):
        raise failure(
            RuntimeError,
            "all examples of a nested tensor have as many dimensions, got "
            f"{[list(t.shape) for t in tensors[:8]]}",
        )
    differ = [d for d, n in enumerate(first) if any(t.shape[d] != n for t in tensors)] or [0]
    if len(differ) > 1:
        raise failure(
            RuntimeError,
            "a jagged nested tensor has one dimension in which examples differ, got "
            f"{[list(t.shape) for t in tensors[:8]]}: pad them to one size in the others",
        )
    (dim,) = differ
    lengths = ops.tensor([t.shape[dim] for t in tensors])
    return NestedTensor(ops.cat([*tensors], dim), _offsets(lengths), dim + 1)


def nested_tensor(
    tensor_list: Sequence[Any],
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> NestedTensor:
    """A nested tensor with copies of examples, off the graph; `layout` must be `jagged`.

    Source: `torch.nested.nested_tensor`.

    >>> import fusegrad as fg
    >>> x = fg.nested.nested_tensor([[1.0, 2.0], [3.0]], layout=fg.jagged)
    >>> x.to_padded_tensor(0.0)
    tensor([[1., 2.],
            [3., 0.]])
    """
    on_cpu(device)
    _check_layout(layout)
    made = _joined([ops.as_tensor(t).detach() for t in tensor_list])
    values = made.values() if dtype is None else made.values().to(dtype)
    return made.like(values).requires_grad_(requires_grad)


def as_nested_tensor(
    ts: Any, dtype: DType | None = None, device: Any = None, layout: Any = None
) -> NestedTensor:
    """A nested tensor of examples on the graph, or of a tensor whose examples have one length.

    Source: `torch.nested.as_nested_tensor`.
    """
    on_cpu(device)
    if isinstance(ts, NestedTensor):
        return ts if dtype is None else ts.to(dtype)
    _check_layout(layout)
    made = _joined([*ts])
    return made if dtype is None else made.like(made.values().to(dtype))


def nested_tensor_from_jagged(
    values: Tensor,
    offsets: Tensor | None = None,
    lengths: Tensor | None = None,
    jagged_dim: int | None = None,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> NestedTensor:
    """A nested tensor of values on end, with gradients for them: example i is
    values[offsets[i] : offsets[i + 1]].

    lengths: in the place of offsets. jagged_dim: which dimension of the result is ragged, 1 if not given.
    Nested tensors meet that have one tensor of offsets: make the second with the `offsets()` of the first.
    Source: `torch.nested.nested_tensor_from_jagged`.

    >>> import fusegrad as fg
    >>> x = fg.nested.nested_tensor_from_jagged(fg.arange(5.0), lengths=fg.tensor([2, 3]))
    >>> fg.softmax(x, 1).sum(1).round(decimals=5)
    tensor([1., 1.])
    """
    if offsets is None and lengths is None:
        raise failure(
            RuntimeError, "nested_tensor_from_jagged(): at least one of offsets or lengths is required"
        )
    if offsets is not None and lengths is not None:
        raise failure(
            NotImplementedError,
            "offsets and lengths together leave gaps between examples, which are not there: give one of "
            "them, and values without gaps",
        )
    if offsets is None:
        assert lengths is not None
        offsets = _offsets(lengths)
    ragged = 1 if jagged_dim is None else jagged_dim % (values.ndim + 1)
    if offsets.ndim != 1 or offsets.dtype not in (dtypes.int64, dtypes.int32) or not offsets.shape[0]:
        raise failure(
            RuntimeError, f"offsets are whole numbers in a row, got {offsets.dtype} {list(offsets.shape)}"
        )
    if ragged == 0:
        raise failure(RuntimeError, "the ragged dimension is not 0, which are the examples")
    end = values.shape[ragged - 1]
    ends = (offsets[:1] == 0).all() & (offsets[-1:] == end).all() & (offsets.diff() >= 0).all()
    if not ends:
        raise failure(
            RuntimeError,
            f"offsets go from 0 to {end}, the size of the values, without going back; got {offsets}",
        )
    return NestedTensor(values, offsets, ragged)


def narrow(tensor: Tensor, dim: int, start: Any, length: Any, layout: Any = None) -> NestedTensor:
    """Of each row of a tensor so many elements of dimension 1, from one on. Source: `torch.nested.narrow`."""
    _check_layout(layout)
    if dim != 1:
        raise failure(RuntimeError, f"nested.narrow goes along dim=1, behind the examples, not {dim}")
    rows = ops.zeros(tensor.shape[0], dtype=dtypes.int64)
    begins, lengths = rows + start, rows + length
    if not ((begins >= 0) & (lengths >= 0) & (begins + lengths <= tensor.shape[1])).all():
        raise failure(RuntimeError, f"nested.narrow: elements outside of {list(tensor.shape)} are asked for")
    places = ops.arange(tensor.shape[1]) - begins.unsqueeze(1)
    return masked_select(tensor, (places >= 0) & (places < lengths.unsqueeze(1)))


def masked_select(tensor: Tensor, mask: Tensor) -> NestedTensor:
    """Of each row of a tensor what a mask of its first two dimensions keeps.

    Source: `torch.nested.masked_select`.
    """
    mask = mask.expand(tensor.shape[:2])
    return NestedTensor(tensor[mask], _offsets(mask.sum(1)))


def to_padded_tensor(input: NestedTensor, padding: float, output_size: Any = None) -> Tensor:
    """All examples as one tensor, with a number behind those that are shorter than the longest.

    Source: `torch.nested.to_padded_tensor`.
    """
    made: Tensor = _padded(to_padded_tensor, input, padding, output_size)
    return made


def to_packed_sequence(input: NestedTensor) -> PackedSequence:
    """The examples as `nn.LSTM` and its kin take them; `nested_tensor_from_packed` is the way back."""
    if input.ragged != 1:
        raise failure(RuntimeError, f"packed sequences are ragged in dimension 1, not {input.ragged}")
    return pack_padded_sequence(padded(input, 0), input.offsets().diff(), True, False)


def nested_tensor_from_packed(packed: PackedSequence, like: NestedTensor | None = None) -> NestedTensor:
    """The examples of a packed sequence; with the offsets of `like`, that it was made of.

    >>> import fusegrad as fg
    >>> x = fg.nested.nested_tensor([fg.ones(2, 3), fg.ones(4, 3)], layout=fg.jagged)
    >>> made, _ = fg.nn.LSTM(3, 5, batch_first=True)(fg.nested.to_packed_sequence(x))
    >>> fg.nested.nested_tensor_from_packed(made, x).shape
    (2, j, 5)
    """
    whole, lengths = pad_packed_sequence(packed, batch_first=True)
    if like is None:
        like = NestedTensor(whole.new_empty(int(lengths.sum())), _offsets(lengths))
    return from_padded(whole, NestedTensor(like.values(), like.offsets()))


locate("fusegrad.nested", globals(), __all__)
