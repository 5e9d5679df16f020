"""uint16, uint32 and uint64 against PyTorch, wherever that has them; what they mix with, and `jit`."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg

NAMES = ["uint16", "uint32", "uint64"]
OTHERS = [
    "bool", "uint8", "int8", "int16", "int32", "int64", *NAMES, "float16", "bfloat16", "float32", "float64",
    "complex64",
]  # fmt: skip
CASES = {
    "zeros": lambda lib, t, x: lib.zeros(2, 3, dtype=t),
    "full": lambda lib, t, x: lib.full((2,), 65535, dtype=t),
    "tensor": lambda lib, t, x: lib.tensor([0, 65535], dtype=t),
    "of floats": lambda lib, t, x: lib.tensor([3.9, 70000.0, 0.0]).to(t),
    "of negatives": lambda lib, t, x: lib.tensor([-1, -70000]).to(t),
    "of negative floats": lambda lib, t, x: lib.tensor([-1.5, -3.0]).to(t),
    "of bools": lambda lib, t, x: lib.tensor([True, False]).to(t),
    "to float32": lambda lib, t, x: x.to(lib.float32),
    "to int8": lambda lib, t, x: x.to(lib.int8),
    "to bool": lambda lib, t, x: x.bool(),
    "mul": lambda lib, t, x: x * 2,
    "wraps": lambda lib, t, x: x * 60000,
    "div": lambda lib, t, x: x / 2,
    "add float": lambda lib, t, x: x + 1.5,
    "with floats": lambda lib, t, x: x * lib.ones(3),
    "eq": lambda lib, t, x: x == x,
    "ne": lambda lib, t, x: x != 2,
    "and": lambda lib, t, x: x & 3,
    "or": lambda lib, t, x: x | 3,
    "sum": lambda lib, t, x: x.sum(),
    "prod": lambda lib, t, x: x.prod(),
    "cumsum": lambda lib, t, x: x.cumsum(0),
    "any": lambda lib, t, x: x.any(),
    "cat": lambda lib, t, x: lib.cat([x, x]),
    "sort": lambda lib, t, x: x.sort()[0],
    "unique": lambda lib, t, x: x.unique(),
    "index": lambda lib, t, x: x[1:],
    "reshape": lambda lib, t, x: x.reshape(3, 1).t().contiguous(),
    "exp": lambda lib, t, x: (x / 100).exp(),
    "stack": lambda lib, t, x: lib.stack([x, x]),
    "where": lambda lib, t, x: lib.where(x == 2, x, x * 2),
    "clone": lambda lib, t, x: x.clone(),
}


def operand(lib, name):
    return lib.tensor([1, 2, 300], dtype=getattr(lib, name))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", CASES)
def test_what_torch_has_is_the_same(name, case):
    theirs = CASES[case](torch, getattr(torch, name), operand(torch, name))
    ours = CASES[case](fg, getattr(fg, name), operand(fg, name))
    assert str(ours.dtype) == str(theirs.dtype) and repr(ours) == repr(theirs)
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-6)
    compiled = fg.jit(lambda x: CASES[case](fg, getattr(fg, name), x))
    for _ in range(3):
        again = compiled(operand(fg, name))
        assert again.dtype is ours.dtype
        np.testing.assert_allclose(again.numpy(), ours.numpy(), rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("other", OTHERS)
def test_promotion(name, other):
    mine, theirs = (getattr(lib, name) for lib in (fg, torch))
    try:
        expected = torch.promote_types(theirs, getattr(torch, other))
    except RuntimeError as error:
        words = str(error).partition(", attempted")[0]
        with pytest.raises(RuntimeError, match=words):
            fg.promote_types(mine, getattr(fg, other))
        with pytest.raises(RuntimeError, match=f"{words}.*convert one"):
            fg.ones(2, dtype=mine) + fg.ones(2, dtype=getattr(fg, other))
        return
    assert str(fg.promote_types(mine, getattr(fg, other))) == str(expected)


@pytest.mark.parametrize("name", NAMES)
def test_limits_and_doors(name):
    dtype, theirs = getattr(fg, name), getattr(torch, name)
    assert repr(fg.iinfo(dtype)) == repr(torch.iinfo(theirs))
    assert (dtype.is_signed, dtype.itemsize) == (theirs.is_signed, theirs.itemsize)
    x = operand(fg, name)
    assert x[2].item() == 300 and x.numpy().dtype == name and fg.from_numpy(x.numpy()).dtype is dtype
    assert x.type() == operand(torch, name).type()
    with pytest.raises(RuntimeError, match="floating point"):
        x.requires_grad_()


def test_large_floats_as_uint64():
    numbers = [2.0**63, 1e19, 2.0**64 - 4096, 12345.0, 0.0]
    assert fg.tensor(numbers, dtype=fg.float64).to(fg.uint64).tolist() == [int(n) for n in numbers]
    assert fg.tensor([2**64 - 1], dtype=fg.uint64).tolist() == [2**64 - 1]
