"""Comparing results in tests, as `torch.testing`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.create import creation

__all__ = ["assert_close"]

# The largest differences, relative and absolute, that count as rounding; of other dtypes, none do.
_TOLERANCES = {
    dtypes.float16: (1e-3, 1e-5),
    dtypes.bfloat16: (1.6e-2, 1e-5),
    dtypes.float32: (1.3e-6, 1e-5),
    dtypes.float64: (1e-7, 1e-7),
    dtypes.complex64: (1.3e-6, 1e-5),
    dtypes.complex128: (1e-7, 1e-7),
}


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise AssertionError unless both are equal but for rounding: tensors, arrays, numbers, containers.

    rtol, atol: the tolerances, both or none; by default those of the dtypes. msg: another message, or what
    makes one of the message. Source: `torch.testing.assert_close`.

    >>> import fusegrad as fg
    >>> fg.testing.assert_close(fg.tensor([1.0]), fg.tensor([1.0 + 1e-7]))
    """
    if (rtol is None) != (atol is None):
        raise ValueError("Both 'rtol' and 'atol' must be either specified or omitted")
    checks = (rtol, atol, equal_nan, check_dtype, check_stride, allow_subclasses)
    try:
        _compare(actual, expected, "", checks)
    except AssertionError as error:
        if msg is None:
            raise
        raise AssertionError(msg(str(error)) if callable(msg) else msg) from None


def _compare(actual: Any, expected: Any, where: str, checks: tuple[Any, ...]) -> None:
    text = isinstance(actual, str) or isinstance(expected, str)
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if set(actual) != set(expected):
            missing, more = (
                sorted(set(expected) - set(actual), key=str),
                sorted(set(actual) - set(expected), key=str),
            )
            raise AssertionError(
                f"The keys of the mappings do not match:\nMissing keys in the actual mapping: {missing}\n"
                f"Additional keys in the actual mapping: {more}{_place(where)}"
            )
        for key, value in actual.items():
            _compare(value, expected[key], f"{where}[{key!r}]", checks)
    elif isinstance(actual, Sequence) and isinstance(expected, Sequence) and not text:
        if len(actual) != len(expected):
            raise AssertionError(
                f"The length of the sequences mismatch: {len(actual)} != {len(expected)}{_place(where)}"
            )
        for i, (mine, other) in enumerate(zip(actual, expected, strict=True)):
            _compare(mine, other, f"{where}[{i}]", checks)
    elif actual is None or expected is None:
        if actual is not expected:
            raise AssertionError(f"None mismatch: {actual!r} is not {expected!r}{_place(where)}")
    else:
        _compare_numbers(actual, expected, where, checks)


def _compare_numbers(actual: Any, expected: Any, where: str, checks: tuple[Any, ...]) -> None:
    """Two tensors (or what becomes one), or two Python numbers."""
    rtol, atol, equal_nan, check_dtype, check_stride, subclasses = checks
    numbers = [
        isinstance(x, (bool, int, float, complex)) and not isinstance(x, np.generic)
        for x in (actual, expected)
    ]
    if numbers[0] != numbers[1] or not (subclasses or type(actual) is type(expected)):
        raise TypeError(
            f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}."
        )
    if all(numbers) and check_dtype and type(actual) is not type(expected):
        raise AssertionError(f"The (d)types do not match: {type(actual)} != {type(expected)}.{_place(where)}")
    mine, other = (_tensor(x, where) for x in (actual, expected))
    if mine.shape != other.shape:
        raise AssertionError(
            f"The values for attribute 'shape' do not match: {mine.shape} != {other.shape}.{_place(where)}"
        )
    if check_dtype and mine.dtype is not other.dtype and not all(numbers):
        raise AssertionError(
            f"The values for attribute 'dtype' do not match: {mine.dtype} != {other.dtype}.{_place(where)}"
        )
    if check_stride and mine.stride() != other.stride():
        raise AssertionError(
            f"The values for attribute 'stride()' do not match: {mine.stride()} != {other.stride()}."
            + _place(where)
        )
    if rtol is None:
        pairs = [_TOLERANCES.get(t.dtype, (0.0, 0.0)) for t in (mine, other)]
        rtol, atol = (max(p[i] for p in pairs) for i in (0, 1))
    _check_values(_numbers(mine), _numbers(other), (rtol, atol, equal_nan), where)


def _tensor(value: Any, where: str) -> Tensor:
    if isinstance(value, (bool, int, float, complex)) and not isinstance(value, np.generic):
        kind = {bool: dtypes.bool_, int: dtypes.int64, float: dtypes.float64}.get(
            type(value), dtypes.complex128
        )
        return creation.tensor(value, dtype=kind)
    try:
        return creation.as_tensor(value)
    except (TypeError, ValueError):
        raise TypeError(
            f"No comparison pair was able to handle an input of type {type(value)}.{_place(where)}"
        ) from None


def _numbers(tensor: Tensor) -> np.ndarray:
    """The values; those of bfloat16 as float32, which has them all."""
    known = tensor.detach()
    return (known.float() if known.dtype is dtypes.bfloat16 else known).numpy()


def _check_values(a: np.ndarray, b: np.ndarray, limits: tuple[float, float, bool], where: str) -> None:
    rtol, atol, equal_nan = limits
    wide = np.result_type(a, b, np.float64 if a.dtype.kind not in "c" else np.complex128)
    with np.errstate(all="ignore"):
        same = a == b
        if a.dtype.kind in "fc" or b.dtype.kind in "fc" or rtol or atol:
            x, y = a.astype(wide), b.astype(wide)
            distance = np.abs(x - y)
            same = same | ((distance <= atol + rtol * np.abs(y)) & np.isfinite(distance))
            if equal_nan:
                same = same | (np.isnan(x) & np.isnan(y))
        else:
            distance = np.abs(a.astype(object) - b.astype(object)).astype(
                np.float64
            )  # exact, of any integers
            y = b.astype(np.float64)
        if same.all():
            return
        relative = np.where(same, 0.0, distance / np.abs(y))
    distance = np.where(same, 0.0, distance)
    kind, allowed = ("close", " (up to {} allowed)") if rtol or atol else ("equal", "")
    if not a.ndim:
        raise AssertionError(
            f"Scalars are not {kind}!\n\nExpected {b.item()} but got {a.item()}.\n"
            f"Absolute difference: {distance.item()}{allowed.format(atol)}\n"
            f"Relative difference: {relative.item()}{allowed.format(rtol)}{_place(where)}"
        )
    wrong = int((~same).sum())
    lines = [
        f"Tensor-likes are not {kind}!",
        "",
        f"Mismatched elements: {wrong} / {a.size} ({wrong / a.size:.1%})",
    ]
    for name, values, limit in (("absolute", distance, atol), ("relative", relative, rtol)):
        index = np.unravel_index(np.argmax(np.nan_to_num(values, nan=math.inf)), values.shape)
        at = f" at index {tuple(map(int, index))}{allowed.format(limit)}"
        lines.append(f"Greatest {name} difference: {float(values[index])}{at}")
    raise AssertionError("\n".join(lines) + _place(where))


def _place(where: str) -> str:
    return f"\n\nThe failure occurred for item {where}" if where else ""


locate("fusegrad.testing", globals(), __all__)
