"""Orders of elements in memory: hints that are taken, and what `is_contiguous` says of strides."""

from __future__ import annotations

import pickle

import pytest
from oracle import torch

import fusegrad as fg

FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
CALLS = {
    "to": lambda x, m: x.to(memory_format=m),
    "to, with others": lambda x, m: x.to("cpu", dtype=x.dtype, non_blocking=True, copy=True, memory_format=m),
    "contiguous": lambda x, m: x.contiguous(memory_format=m),
    "clone": lambda x, m: x.clone(memory_format=m),
    "float": lambda x, m: x.float(memory_format=m),
    "double": lambda x, m: x.double(memory_format=m),
    "cpu": lambda x, m: x.cpu(memory_format=m),
}


@pytest.mark.parametrize("name", FORMATS)
def test_they_are_taken(name):
    shape = (2, 3, 4, 5, 6) if name.endswith("3d") else (2, 3, 4, 5)
    for label, call in CALLS.items():
        if label == "contiguous" and name == "preserve_format":
            continue  # PyTorch refuses it
        mine, other = (call(lib.ones(shape), getattr(lib, name)) for lib in (fg, torch))
        assert tuple(mine.shape) == tuple(other.shape) and mine.tolist() == other.tolist()
        assert str(mine.dtype) == str(other.dtype)
    assert repr(getattr(fg, name)) == repr(getattr(torch, name))
    assert pickle.loads(pickle.dumps(getattr(fg, name))) is getattr(fg, name)
    assert fg.zeros_like(fg.ones(shape), memory_format=getattr(fg, name)).shape == shape
    fg.nn.Conv2d(3, 2, 1).to(memory_format=getattr(fg, name))


def test_is_contiguous_goes_by_strides():
    for lib in (fg, torch):
        x = lib.ones(2, 3, 4, 5)
        last = x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
        found = [
            [
                t.is_contiguous(memory_format=getattr(lib, name))
                for name in ("contiguous_format", "channels_last")
            ]
            for t in (x, last, lib.ones(2), lib.ones(2, 1, 4, 5))
        ]
        assert found == [[True, False], [False, True], [True, False], [True, True]]


def test_to_takes_no_other_keywords():
    assert fg.ones(1).to(other=fg.ones(1, dtype=fg.int64)).dtype is fg.int64
    with pytest.raises(TypeError):
        fg.ones(1).to(dtpye=fg.int64)


def test_where_without_values_gives_places():
    for lib in (fg, torch):
        places = lib.where(lib.tensor([[True, False], [True, True]]))
        assert [p.tolist() for p in places] == [[0, 1, 1], [0, 0, 1]]
