"""Python's numbers, and nested sequences of them, as arrays: one rule for their dtype."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.dtypes import DType
from fusegrad.eager.core.errors import failure, type_name
from fusegrad.eager.core.settings import warn_once
from fusegrad.eager.core.tensor import Tensor

_NUMBERS = frozenset((bool, int, float, complex))


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
    """The values of `data`, and the dtype that they get unless one, `dtype`, is asked for; None: that of the
    array.
    """
    if not is_sequence(data) and hasattr(data, "__array__"):
        array = np.array(data)
        if array.dtype not in dtypes.FROM_NUMPY:
            raise failure(TypeError, f"cannot make a tensor of {type_name(data)} ({array.dtype})")
        return array, None
    wanted = None if dtype is None else dtypes.as_dtype(dtype)
    found: dict[np.dtype, None] = {}
    try:
        values = _plain(data, found, wanted)
    except RecursionError:
        raise failure(TypeError, "self-referential lists are incompatible") from None
    default = _promoted(found) if wanted is None else None
    try:
        array = np.array(values)
    except ValueError as error:
        raise failure(ValueError, f"expected nested sequences of equal lengths: {error}") from None
    if _beyond_int64(values, array):
        return _large_integers(values, dtype), default
    kind = (wanted or default or dtypes.default_float()).numpy
    if array.dtype.kind == "f" and kind.kind in "iu" and any(known.kind in "iu" for known in found):
        array = _cut_one_by_one(values, kind)
    return array, default


def is_sequence(data: Any) -> bool:
    """Whether it has elements by their places, as lists have; text and tensors count as single things."""
    if isinstance(data, (list, tuple)):
        return True
    if isinstance(data, (str, bytes, dict, Tensor, np.ndarray, np.generic)):
        return False
    # What has a metaclass, as enumerations have, does not have that one's methods.
    known = set().union(*map(vars, type(data).__mro__))
    return {"__getitem__", "__len__"} <= known and "__array__" not in known


def _elements(data: Any) -> list[Any]:
    """The elements of a sequence. Raises ValueError for one that fails to give them."""
    try:
        return list(data)
    except Exception:
        raise failure(
            ValueError, f"could not determine the shape of object type {type_name(data)!r}"
        ) from None


def _plain(data: Any, found: dict[np.dtype, None], wanted: DType | None) -> Any:
    """`data` as lists of Python's and NumPy's numbers and of arrays; `found` gets all their dtypes.

    Tensors become numbers (through their door): those of one element are one, as in torch.
    """
    if is_sequence(data):
        if isinstance(data, (list, tuple)):
            kinds = set(map(type, data))
            if kinds <= _NUMBERS:
                found.update((dtypes.number_dtype(kind()).numpy, None) for kind in kinds)
                return data
            if type(data) is list and data and type(data[0]) is np.ndarray:
                warn_once(
                    "Creating a tensor from a list of numpy.ndarrays is extremely slow. Please consider "
                    "converting the list to a single numpy.ndarray with numpy.array() before."
                )
        return [_plain(element, found, wanted) for element in _elements(data)]
    if isinstance(data, Tensor):
        found[data.dtype.numpy] = None
        return data.item() if data.array.size == 1 else data.tolist()
    if isinstance(data, (np.ndarray, np.generic)) or hasattr(data, "__array__"):
        array = np.asarray(data)
        if array.dtype not in dtypes.FROM_NUMPY:
            raise failure(TypeError, f"cannot make a tensor of {type_name(data)} ({array.dtype})")
        found[array.dtype] = None
        return array.astype(np.float32) if array.dtype.kind == "V" else data
    number = dtypes.plain_number(data)
    if type(number) not in _NUMBERS and wanted is not None:
        # Of what only can become a number nobody knows which dtype it has.
        convert = ("__index__", int) if wanted.category < 2 else ("__float__", float)
        if hasattr(data, convert[0]) or (wanted.category >= 2 and hasattr(data, "__index__")):
            number = convert[1](data)
    if type(number) not in _NUMBERS:
        raise failure(TypeError, f"invalid data type {type_name(data)!r}: a tensor is made of numbers")
    found[dtypes.number_dtype(number).numpy] = None
    return number


def _promoted(found: Iterable[np.dtype]) -> DType:
    """The dtype that numbers of all of these fit into; the default float, if there are none."""
    result = None
    if dtypes.complex128.numpy in found:
        return dtypes.complex128
    for dtype in found:
        result = dtype if result is None else dtypes.promote(result, dtype)
    return dtypes.default_float() if result is None else dtypes.FROM_NUMPY[result]


def _cut_one_by_one(values: Any, kind: np.dtype) -> np.ndarray:
    """Integers and floats in an integer dtype. (Next to floats NumPy rounds integers.)"""
    numbers = np.array(values, object)
    each = numbers.ravel().tolist()
    if not all(map(math.isfinite, each)) or not dtypes.holds(kind, min(each), max(each)):
        raise dtypes.overflow(kind)
    return np.array([int(n) % 2**64 for n in each], np.uint64).astype(kind).reshape(numbers.shape)
