"""Ops in place of what does not lie in rows: they give what they give of a copy in rows.

NumPy's loops are written by hand for vectors, in place and not, for each stride.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.eager.ops import inplace

ONE = sorted(one.op.name for one in inplace.ONE_OP.values() if len(one.op.arguments) == 1)
TWO = (
    "add",
    "sub",
    "mul",
    "div",
    "maximum",
    "minimum",
    "atan2",
    "pow",
    "fmod",
    "remainder",
    "copysign",
    "hypot",
)
STRIDES = (2, 3, 4, 5, 6, 7, 8, 16)
DTYPES = (fg.float16, fg.float32, fg.float64, fg.int32, fg.int64)


def _apply(name: str, tensor: Any, other: Any, in_place: bool) -> Any:
    method = getattr(tensor, f"{name}_" if in_place else name, None)
    if method is None:
        return None
    return method() if other is None else method(other)


def check(name: str, is_of_two: bool) -> None:
    draw = np.random.default_rng(0)
    for dtype in DTYPES:
        for stride in STRIDES:
            for count in (3, 17, 70):
                numbers = draw.integers(1, 9, (count, stride)) / (1 if dtype in (fg.int32, fg.int64) else 10)
                memory = fg.tensor(numbers).to(dtype)
                other = memory[:, 1].contiguous() if is_of_two else None
                part, rest = memory[:, 0], memory[:, 1:].clone()
                try:
                    right = _apply(name, part.contiguous(), other, False)
                    made = _apply(name, part, other, True)
                except (RuntimeError, TypeError):
                    continue
                if made is None or right.dtype != dtype:
                    continue
                where = f"{name}_ of every {stride}th {dtype}"
                np.testing.assert_allclose(part.numpy(), right.numpy(), 1e-3, 1e-5, err_msg=where)
                np.testing.assert_array_equal(memory[:, 1:].numpy(), rest.numpy(), err_msg=where)


@pytest.mark.parametrize("name", ONE)
def test_ops_of_one_operand(name: str) -> None:
    check(name, False)


@pytest.mark.parametrize("name", TWO)
def test_ops_of_two_operands(name: str) -> None:
    check(name, True)


def test_every_fourth_number_is_negated() -> None:
    x = fg.arange(12.0).reshape(3, 4)
    x[:, 0].neg_()
    assert x[:, 0].tolist() == [0.0, -4.0, -8.0]
