"""How tensors print: PyTorch's text, to the letter. Source: `torch/_tensor_str.py`'s rules."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fusegrad.eager import dtypes

if TYPE_CHECKING:
    from fusegrad.eager.tensor import Tensor

PRECISION = 4
THRESHOLD = 1000
EDGE_ITEMS = 3
LINE_WIDTH = 80


class _Formatter:
    """Gives every element of one tensor the same width and notation."""

    def __init__(self, values: np.ndarray) -> None:
        self.floating = values.dtype.kind == "f"
        self.scientific, self.integral, self.width = False, True, 1
        if not self.floating:
            self.width = max((len(str(v)) for v in values.ravel().tolist()), default=1)
            return
        finite = values[np.isfinite(values) & (values != 0)].astype(np.float64)
        if not finite.size:
            return
        magnitude = np.abs(finite)
        largest, smallest = magnitude.max(), magnitude.min()
        self.integral = bool((finite == np.ceil(finite)).all())
        self.scientific = bool(largest / smallest > 1000.0 or largest > 1.0e8 or smallest < 1.0e-4)
        self.width = max(1, *(len(self._number(v)) for v in finite.tolist()))

    def _number(self, value: float) -> str:
        if self.scientific:
            return f"{value:.{PRECISION}e}"
        if self.integral:
            return f"{value:.0f}" + ("." if math.isfinite(value) else "")
        return f"{value:.{PRECISION}f}"

    def __call__(self, value: Any) -> str:
        return (self._number(value) if self.floating else str(value)).rjust(self.width)


def _rows(array: np.ndarray, indent: int, summarize: bool, formatter: Any) -> str:
    """The bracketed text of `array`, broken into lines as PyTorch breaks them."""
    if array.ndim == 0:
        return formatter(array.item())
    edge = summarize and array.shape[0] > 2 * EDGE_ITEMS
    if array.ndim == 1:
        per_line = max(1, (LINE_WIDTH - indent) // (formatter.width + 2))
        items = [formatter(v) for v in (array[:EDGE_ITEMS] if edge else array).tolist()]
        if edge:
            items += [" ..."] + [formatter(v) for v in array[-EDGE_ITEMS:].tolist()]
        lines = [", ".join(items[i : i + per_line]) for i in range(0, len(items), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    index: list[int] = list(range(array.shape[0]))
    if edge:
        index = [*index[:EDGE_ITEMS], -1, *index[-EDGE_ITEMS:]]
    parts = [
        "..." if edge and place == EDGE_ITEMS else _rows(array[i], indent + 1, summarize, formatter)
        for place, i in enumerate(index)
    ]
    return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(parts) + "]"


def _edges(array: np.ndarray) -> np.ndarray:
    """The elements that a summary shows."""
    for axis in range(array.ndim):
        if array.shape[axis] > 2 * EDGE_ITEMS:
            keep = np.r_[0:EDGE_ITEMS, array.shape[axis] - EDGE_ITEMS : array.shape[axis]]
            array = array.take(keep, axis)
    return array


class _Complex:
    """Pairs of real formatters for complex tensors."""

    def __init__(self, values: np.ndarray) -> None:
        self.real, self.imaginary = _Formatter(values.real), _Formatter(values.imag)
        self.width = self.real.width + self.imaginary.width + 1

    def __call__(self, value: complex) -> str:
        imaginary = self.imaginary(value.imag).lstrip()
        sign = "" if imaginary[0] in "+-" else "+"
        return f"{self.real(value.real)}{sign}{imaginary}j"


def values_text(array: np.ndarray, indent: int) -> str:
    """The values alone, as they stand between `tensor(` and `)`."""
    summarize = array.size > THRESHOLD
    shown = _edges(array) if summarize else array
    formatter = _Complex(shown) if array.dtype.kind == "c" else _Formatter(shown)
    return _rows(array, indent, summarize, formatter)


def tensor_text(tensor: Tensor, name: str = "tensor") -> str:
    """`repr(tensor)`."""
    array = tensor.array
    default = dtypes.default_float().numpy
    suffixes = []
    usual: tuple[np.dtype, ...] = (default,)
    if array.size == 0:
        values = "[]"
        if array.ndim != 1:
            suffixes.append(f"size={tuple(array.shape)}")
    else:
        values = values_text(array, len(name) + 1)
        usual = (default, np.result_type(default, np.complex64), np.dtype(np.int64), np.dtype(bool))
    if array.dtype not in usual:
        suffixes.append(f"dtype={tensor.dtype!r}")
    if tensor.grad_fn is not None:
        suffixes.append(f"grad_fn=<{tensor.grad_fn.name()}>")
    elif tensor.needs_grad:
        suffixes.append("requires_grad=True")
    return _with_suffixes(f"{name}({values}", suffixes, len(name) + 1)


def _with_suffixes(text: str, suffixes: list[str], indent: int) -> str:
    """`text` with its suffixes, wrapped where a line would pass the width."""
    length = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if length + len(suffix) + 2 > LINE_WIDTH:
            text += ",\n" + " " * indent + suffix
            length = indent + len(suffix)
        else:
            text += ", " + suffix
            length += len(suffix) + 2
    return text + ")"
