"""Complex numbers as kernels see them: pairs of real numbers that lie next to each other.

Two views change what the same memory is taken for. Both count strides in elements of what they show, as all
layouts do, so that kernels read parts of complex arrays, and NumPy gets complex ones, without a copy. They
exist in the compiler only: eager's `view_as_real` and `view_as_complex` become these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core.families import Layout, View
from fusegrad.eager.core.op import Params, TensorType


def part_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of the parts of complex numbers; of others their own."""
    return np.empty((), dtype).real.dtype if dtype.kind == "c" else dtype


def is_complex(value: Any) -> bool:
    """Whether something with a dtype is complex, or a number is."""
    dtype = getattr(value, "dtype", None)
    return isinstance(value, complex) if dtype is None else dtype.kind == "c"


def _pairs_layout(layout: Layout) -> Layout:
    return Layout((*layout.shape, 2), (*(2 * s for s in layout.strides), 1), 2 * layout.offset)


def _complex_layout(layout: Layout) -> Layout | None:
    *strides, last = layout.strides
    if last != 1 or layout.offset % 2 or any(s % 2 for s in strides):
        return None
    return Layout(layout.shape[:-1], tuple([s // 2 for s in strides]), layout.offset // 2)


class _OtherDtype(View):
    """A view of the same memory as numbers of another dtype. Not in the registry of ops."""

    def __init__(self, name: str, numpy: Any, layout: Any, dtype: Any) -> None:
        self.name, self.arguments, self.variadic = name, ("x",), False
        self.rules, self.saves, self._grad_name = None, False, ""
        self.numpy, self.layout, self.put, self.part = numpy, layout, None, False
        self.dtype = dtype

    def infer(self, types: Sequence[Any], params: Params) -> TensorType:
        shape, dtype = types[0]
        shape = (*shape, 2) if self is PAIRS else shape[:-1]
        return TensorType(shape, self.dtype(dtype))


# Complex numbers as pairs along one dimension more, and pairs that lie next to each other as complex numbers.
PAIRS = _OtherDtype("pairs", lambda x: x[..., None].view(part_dtype(x.dtype)), _pairs_layout, part_dtype)
AS_COMPLEX = _OtherDtype(
    "as_complex",
    lambda x: x.view(np.result_type(x.dtype, np.complex64))[..., 0],
    _complex_layout,
    lambda dtype: np.result_type(dtype, np.complex64),
)
