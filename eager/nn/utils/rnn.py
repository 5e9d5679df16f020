"""Sequences of different lengths: padded to one length, or packed without the padding.

A packed sequence holds the elements of all sequences step by step: first the first elements of all,
longest sequence first, then the second ones of those that have one, and so on.
Source: `torch.nn.utils.rnn`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.nn.utils.packing import packed_places, padded_places
from fusegrad.eager.ops.reduce import selection
from fusegrad.eager.ops.shape import padding, shape

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


class _Fields(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Fields):
    """Sequences without padding, step by step. Made by `pack_padded_sequence` and `pack_sequence`.

    data: [sum of lengths, ...]; batch_sizes: how many sequences each step has; sorted_indices: the
    order that made them descend in length, unsorted_indices: its inverse.
    Source: `torch.nn.utils.rnn.PackedSequence`.
    """

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> Self:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """With the data converted as by `Tensor.to`."""
        data = self.data.to(*args, **kwargs)
        return self if data is self.data else type(self)(data, *self[1:])

    def cpu(self) -> Self:
        """Itself: there is no other device."""
        return self

    def cuda(self, *_: Any, **__: Any) -> Self:
        """Raises RuntimeError: there is no other device than the CPU."""
        return self.to("cuda")

    @property
    def is_cuda(self) -> bool:
        """False: the data is on the CPU."""
        return False

    def double(self) -> Self:
        """The data as float64."""
        return self.to(dtypes.float64)

    def float(self) -> Self:
        """The data as float32."""
        return self.to(dtypes.float32)

    def half(self) -> Self:
        """The data as float16."""
        return self.to(dtypes.float16)

    def long(self) -> Self:
        """The data as int64."""
        return self.to(dtypes.int64)

    def int(self) -> Self:
        """The data as int32."""
        return self.to(dtypes.int32)

    def short(self) -> Self:
        """The data as int16."""
        return self.to(dtypes.int16)

    def char(self) -> Self:
        """The data as int8."""
        return self.to(dtypes.int8)

    def byte(self) -> Self:
        """The data as uint8."""
        return self.to(dtypes.uint8)


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes one (None for None)."""
    return None if permutation is None else selection.argsort(permutation)


def _row_lengths(lengths: Any, rows: int) -> list[int]:
    """The lengths as numbers, checked: one for each row, above 0."""
    found = lengths.tolist() if isinstance(lengths, Tensor) else [int(n) for n in lengths]
    if len(found) != rows:
        raise failure(RuntimeError, f"expected `lengths` for a batch of {rows}, but got {len(found)}")
    if not found or min(found) <= 0:
        raise failure(
            RuntimeError,
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0",
        )
    return found


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Padded sequences [T, N, ...] (or [N, T, ...]) without their padding.

    Raises RuntimeError for lengths that do not descend, unless `enforce_sorted` is false: then they are
    sorted here. Source: `torch.nn.utils.rnn.pack_padded_sequence`.
    """
    if batch_first:
        input = ops.transpose(input, 0, 1)
    steps, rows = input.shape[:2]
    if not input.numel():
        raise failure(RuntimeError, "Cannot pack empty tensors.")
    places, sizes, order = packed_places(_row_lengths(lengths, rows), steps, enforce_sorted)
    flat = shape.reshape(input, (steps * rows, *input.shape[2:]))
    return PackedSequence(ops.index_select(flat, 0, places), sizes, order)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The sequences padded to one length, [T, N, ...] (or [N, T, ...]), in their first order; their lengths.

    Raises ValueError for a `total_length` below the longest.
    Source: `torch.nn.utils.rnn.pad_packed_sequence`.
    """
    sizes = sequence.batch_sizes.tolist()
    steps = len(sizes)
    if total_length is not None and total_length < steps:
        raise failure(
            ValueError,
            "Expected total_length to be at least the length of the longest sequence in input, but got "
            f"total_length={total_length} and max sequence length being {steps}",
        )
    order = None if sequence.unsorted_indices is None else sequence.unsorted_indices.tolist()
    places, padded, held, lengths = padded_places(sizes, total_length or steps, order, batch_first)
    data = sequence.data
    values = shape.reshape(ops.index_select(data, 0, places), (*padded, *data.shape[1:]))
    mask = shape.reshape(held, (*padded, *[1] * (data.ndim - 1)))
    return ops.where(mask, values, ops.full((), padding_value, dtype=data.dtype)), lengths


def pad_sequence(
    sequences: Iterable[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Sequences [L, ...] of different lengths side by side, [T, N, ...] (or [N, T, ...]).

    Source: `torch.nn.utils.rnn.pad_sequence`.
    """
    if not isinstance(sequences, Iterable):
        raise failure(
            RuntimeError, f"Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    if padding_side not in ("left", "right"):
        raise failure(RuntimeError, f"Expected padding_side left or right, but got {padding_side}")
    kept = list(sequences)
    kept = [ops.cast(x, kept[0].dtype) for x in kept]
    longest = max((x.shape[0] for x in kept), default=0)
    padded = []
    for x in kept:
        missing = longest - x.shape[0]
        widths = (0, missing) if padding_side == "right" else (missing, 0)
        padded.append(padding.padded(x, [widths] + [(0, 0)] * (x.ndim - 1), padding_value))
    return ops.stack(padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Any, batch_first: bool = False) -> list[Tensor]:
    """The sequences that `pad_sequence` put side by side. Source: `torch.nn.utils.rnn.unpad_sequence`."""
    found = lengths.tolist() if isinstance(lengths, Tensor) else lengths
    rows = padded_sequences if batch_first else ops.transpose(padded_sequences, 0, 1)
    return [row[:length] for row, length in zip(rows, found, strict=True)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Sequences [L, ...] of different lengths, packed. Source: `torch.nn.utils.rnn.pack_sequence`."""
    lengths = [x.shape[0] for x in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences that were packed. Source: `torch.nn.utils.rnn.unpack_sequence`."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


locate("fusegrad.nn.utils.rnn", globals(), __all__)
