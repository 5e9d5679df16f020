"""Python's numbers, and nested lists of them, as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.dtypes import DType
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.tensor import Tensor


def check_fits(array: np.ndarray, kind: np.dtype) -> None:
    """Refuse Python's numbers that an integer dtype cannot hold; floats become infinite."""
    beside = kind.kind not in "iu" or array.dtype.kind not in "iuf" or not array.size
    if not beside and not dtypes.holds(kind, array.min(), array.max()):
        raise dtypes.overflow(kind)


def _beyond_int64(data: Any, array: np.ndarray) -> bool:
    """Whether NumPy has put integers into another dtype, since one of them is no int64."""
    if array.dtype.kind in "bic" or not array.size or (array.dtype.kind == "f" and array.max() < 2.0**63):
        return False
    return all(isinstance(v, int) for v in np.array(data, object).ravel().tolist())


def _large_integers(data: Any, dtype: Any) -> np.ndarray:
    """Python integers beyond int64 as floats, bools or uint64, where one of these is asked for."""
    kind = None if dtype is None else dtypes.as_dtype(dtype)
    if kind is None or (kind.numpy.kind in "iu" and kind is not dtypes.uint64):
        raise failure(ValueError, "Overflow when unpacking long long")
    whole = np.array(data, object)  # whose numbers have any size
    return whole.astype(kind.numpy if kind in (dtypes.uint64, dtypes.bool_) else np.float64)


def from_python(data: Any, dtype: Any) -> tuple[np.ndarray, DType | None]:
    """The values of `data`, and the dtype that they get unless one, `dtype`, is asked for."""
    plain = isinstance(data, (list, tuple))
    if plain:
        inner = first_array(data)
        data = without_tensors(data)
        plain = inner is None
    try:
        array = np.array(data)
    except ValueError as error:
        raise failure(ValueError, f"expected nested sequences of equal lengths: {error}") from None
    if (plain or isinstance(data, int)) and _beyond_int64(data, array):
        array = _large_integers(data, dtype)
    if array.dtype.kind not in "buifc" and array.dtype not in dtypes.FROM_NUMPY:
        raise failure(TypeError, f"cannot make a tensor of {type(data).__name__} ({array.dtype})")
    if array.size == 0 and plain:
        return array, dtypes.default_float()
    if not plain and isinstance(data, (np.ndarray, np.generic)):
        return array, None
    if not plain and not isinstance(data, (bool, int, float, complex)):
        return array, dtypes.FROM_NUMPY.get(inner.dtype) if isinstance(data, list) else None
    default = dtypes.default_float()
    wide = dtypes.complex128 if default is dtypes.float64 else dtypes.complex64
    return array, {"f": default, "c": wide}.get(array.dtype.kind)


def first_array(data: Any) -> Any:
    """The first array (or the array of the first tensor) in nested lists, None if there is none."""
    while isinstance(data, (list, tuple)) and len(data):
        data = data[0]
    if isinstance(data, Tensor):
        return data.array
    return data if isinstance(data, (np.ndarray, np.generic)) else None


def without_tensors(data: Any) -> Any:
    """`data` with tensors in it as numbers (through their door); of one element they are one, as in torch."""
    if isinstance(data, (list, tuple)):
        return [without_tensors(d) for d in data]
    if isinstance(data, Tensor):
        return data.item() if data.numel() == 1 else data.tolist()
    return data
