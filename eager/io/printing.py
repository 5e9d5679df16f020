"""How tensors print: PyTorch's text, to the letter. Source: `torch/_tensor_str.py`'s rules."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.names import attach, publish
from fusegrad.eager.core.public import home
from fusegrad.eager.core.stand_in import stands_for_batch
from fusegrad.eager.core.state import tell
from fusegrad.eager.core.tensor import Tensor


@dataclass
class _Options:
    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


options = _Options()
_PROFILES = {
    "default": _Options(),
    "short": _Options(precision=2, edgeitems=2),
    "full": _Options(threshold=math.inf),
}


@publish
def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors print. Source: `torch.set_printoptions`.

    precision: digits after the point. threshold: tensors with more elements are summarised, with
    `edgeitems` at each end of every dimension. linewidth: where lines are broken. profile: "default",
    "short" or "full" (never summarised), for what is not given. sci_mode: with exponents or without;
    None, the default at every call, lets each tensor choose.

    >>> import fusegrad as fg
    >>> fg.set_printoptions(precision=2)
    >>> fg.tensor([1.12345])
    tensor([1.12])
    >>> fg.set_printoptions(profile="default")
    """
    if profile is not None and profile not in _PROFILES:
        raise failure(ValueError, f"profile must be one of {', '.join(_PROFILES)}, got {profile!r}")
    tell("sets how tensors print")
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    for name, value in given.items():
        if value is None and profile is not None:
            value = getattr(_PROFILES[profile], name)
        if value is not None:
            setattr(options, name, value)
    options.sci_mode = sci_mode


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
        if options.sci_mode is None:
            self.scientific = bool(largest / smallest > 1000.0 or largest > 1.0e8 or smallest < 1.0e-4)
        else:
            self.scientific = options.sci_mode
        self.width = max(1, *(len(self._number(v)) for v in finite.tolist()))

    def _number(self, value: float) -> str:
        if self.scientific:
            return f"{value:.{options.precision}e}"
        if self.integral:
            return f"{value:.0f}" + ("." if math.isfinite(value) else "")
        return f"{value:.{options.precision}f}"

    def __call__(self, value: Any) -> str:
        return (self._number(value) if self.floating else str(value)).rjust(self.width)


class _Complex:
    """Pairs of real formatters for complex tensors."""

    def __init__(self, values: np.ndarray) -> None:
        self.real, self.imaginary = _Formatter(values.real), _Formatter(values.imag)
        self.width = self.real.width + self.imaginary.width + 1

    def __call__(self, value: complex) -> str:
        imaginary = self.imaginary(value.imag).lstrip()
        sign = "" if imaginary[0] in "+-" else "+"
        return f"{self.real(value.real)}{sign}{imaginary}j"


def _rows(array: np.ndarray, indent: int, summarize: bool, formatter: Any) -> str:
    """The bracketed text of `array`, broken into lines as PyTorch breaks them."""
    if array.ndim == 0:
        return formatter(array.item())
    edge, length = options.edgeitems, array.shape[0]
    shortened = summarize and length > 2 * edge
    shown = [*range(edge), *range(length - edge, length)] if shortened else range(length)
    if array.ndim == 1:
        items = [formatter(array[i].item()) for i in shown]
        if shortened:
            items.insert(edge, " ..." if edge else "...")
        per_line = max(1, (options.linewidth - indent) // (formatter.width + 2))
        lines = [", ".join(items[i : i + per_line]) for i in range(0, len(items), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    parts = [_rows(array[i], indent + 1, summarize, formatter) for i in shown]
    if shortened:
        parts.insert(edge, "...")
    return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(parts) + "]"


def _edges(array: np.ndarray) -> np.ndarray:
    """The elements that a summary shows."""
    edge = options.edgeitems
    for axis, length in enumerate(array.shape):
        if length > 2 * edge:
            array = array.take([*range(edge), *range(length - edge, length)], axis)
    return array


def values_text(array: np.ndarray, indent: int) -> str:
    """The values alone, as they stand between `tensor(` and `)`."""
    summarize = array.size > options.threshold
    shown = _edges(array) if summarize else array
    if array.dtype.kind == "V":  # bfloat16
        array, shown = array.astype(np.float32), shown.astype(np.float32)
    formatter = _Complex(shown) if array.dtype.kind == "c" else _Formatter(shown)
    return _rows(array, indent, summarize, formatter)


def tensor_text(tensor: Tensor) -> str:
    """`repr(tensor)`; subclasses of the user's print under their names."""
    kind = type(tensor)
    name = kind.__name__ if home(kind) is None else "tensor"
    array = tensor.array
    default = dtypes.default_float().numpy
    suffixes = []
    usual: tuple[np.dtype, ...] = (default,)
    if tensor.is_meta:
        values, usual = "...", (default, np.dtype(bool)) if tensor.array.dtype.kind == "b" else (default,)
        suffixes += ["device='meta'", f"size={tuple(array.shape)}"]
    elif array.size == 0:
        values = "[]"
        if array.ndim != 1:
            suffixes.append(f"size={tuple(array.shape)}")
    else:
        values = values_text(array, len(name) + 1)
        usual = (default, np.result_type(default, np.complex64), np.dtype(np.int64), np.dtype(bool))
        if not options.edgeitems:
            suffixes.append(f"size={tuple(array.shape)}")
    if array.dtype not in usual:
        suffixes.append(f"dtype={tensor.dtype!r}")
    node = tensor.grad_fn
    if node is not None:
        suffixes.append(f"grad_fn=<{'Invalid' if node.refused else node.name()}>")
    elif tensor.requires_grad:
        suffixes.append("requires_grad=True")
    return _with_suffixes(f"{name}({values}", suffixes, len(name) + 1)


def _with_suffixes(text: str, suffixes: list[str], indent: int) -> str:
    """`text` with its suffixes, wrapped where a line would pass the width."""
    length = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if length + len(suffix) + 2 > options.linewidth:
            text += ",\n" + " " * indent + suffix
            length = indent + len(suffix)
        else:
            text += ", " + suffix
            length += len(suffix) + 2
    return text + ")"


@attach
def __repr__(self: Tensor) -> str:
    array: Any = self.array
    if stands_for_batch(array):
        return f"BatchedTensor(shape={tuple(array.shape)}, value={array.physical!r})"
    return tensor_text(self) if self.is_meta else self._leave("repr", lambda: tensor_text(self))
