"""NumPy's arrays in files of PyTorch's: what their pickles may say, which is numbers and no objects."""

from __future__ import annotations

import math
import pickle
import re
from typing import Any

import numpy as np

from fusegrad.eager.io.pickle_machine import BUILDERS, Damaged, Maker

# The kinds of dtypes that are plain numbers: truth values, integers, floats and complex numbers.
ARRAY_KINDS = "biufc"
_LAYOUT: tuple[Any, ...] = (None, None, None, -1, -1, 0)


class Kind:
    """`numpy.ndarray`, as a name that `_reconstruct` is given."""


class Dtype:
    """A dtype of numbers, whose order of bytes is told after it is made. Other dtypes are refused."""

    def __init__(self, code: Any = None, align: Any = False, copy: Any = False) -> None:
        if type(code) is not str or not re.fullmatch(f"[{ARRAY_KINDS}](1|2|4|8|16)", code):
            raise pickle.UnpicklingError(
                f"it holds an array of a kind that cannot be loaded: of dtype {code!r}, not of numbers"
            )
        try:
            self.dtype = np.dtype(code)
        except TypeError:
            raise Damaged(f"{code!r} is no dtype of numbers") from None

    def build(self, state: Any) -> None:
        fits = type(state) is tuple and len(state) == 8 and state[0] == 3 and state[2:] == _LAYOUT
        if not fits or state[1] not in ("<", ">", "|"):
            raise Damaged("a dtype is more than one of numbers")
        self.dtype = self.dtype.newbyteorder(state[1])


def build_array(array: np.ndarray, state: Any) -> None:
    """Give an empty array its shape and content. Raises Damaged."""
    if type(state) is not tuple or len(state) != 5:
        raise Damaged("an array has no content")
    _, shape, kind, by_columns, content = state
    if type(shape) is not tuple or any(type(n) is not int or n < 0 for n in shape) or type(kind) is not Dtype:
        raise Damaged("an array has no shape or no dtype")
    if type(content) is not bytes or len(content) != math.prod(shape) * kind.dtype.itemsize:
        raise Damaged(f"an array of shape {shape} has not so many bytes")
    array.__setstate__((1, shape, kind.dtype, bool(by_columns), content))  # type: ignore[arg-type]


def _reconstruct(kind: Any = None, shape: Any = (), code: Any = b"") -> np.ndarray:
    if kind is not Kind or shape != (0,):
        raise Damaged("an array is made of what is none")
    return np.empty(0, np.int8)


def _scalar(kind: Any, content: Any) -> np.generic:
    """One number, as NumPy has it."""
    if type(kind) is not Dtype or type(content) is not bytes or len(content) != kind.dtype.itemsize:
        raise Damaged("a number has not so many bytes")
    return np.frombuffer(content, kind.dtype)[0]


def _no_bytes() -> bytes:
    """Protocol 2 writes empty bytes so."""
    return b""


NAMES: dict[tuple[str, str], Any] = {
    **{(f"numpy.{core}.multiarray", "_reconstruct"): Maker(_reconstruct) for core in ("core", "_core")},
    **{(f"numpy.{core}.multiarray", "scalar"): Maker(_scalar) for core in ("core", "_core")},
    ("numpy", "ndarray"): Kind,
    ("numpy", "dtype"): Maker(Dtype),
    ("builtins", "bytes"): Maker(_no_bytes),
}
BUILDERS.update({np.ndarray: build_array, Dtype: Dtype.build})
