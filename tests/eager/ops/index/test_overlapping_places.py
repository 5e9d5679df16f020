"""Writes at places that tensors name, of memory that is read as well: refused where PyTorch refuses them."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from oracle import torch

import fusegrad as fg

WRITES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "index_add_": lambda x, index, source: x.index_add_(0, index, source),
    "index_copy_": lambda x, index, source: x.index_copy_(0, index, source),
    "index_fill_": lambda x, index, source: x.index_fill_(0, index, source[0]),
    "index_reduce_": lambda x, index, source: x.index_reduce_(0, index, source, "amax"),
    "put_": lambda x, index, source: x.put_(index, source),
    "put_, adding": lambda x, index, source: x.put_(index, source, True),
    "index_put_": lambda x, index, source: x.index_put_((index,), source),
    "index_put_, adding": lambda x, index, source: x.index_put_((index,), source, True),
    "__setitem__": lambda x, index, source: x.__setitem__(index, source),
    "scatter_": lambda x, index, source: x.scatter_(0, index, source),
    "scatter_add_": lambda x, index, source: x.scatter_add_(0, index, source),
    "scatter_reduce_": lambda x, index, source: x.scatter_reduce_(0, index, source, "sum"),
    "masked_fill_": lambda x, index, source: x.masked_fill_(x > 1, source[0]),
    "masked_fill_, of a mask": lambda x, index, source: x.bool().masked_fill_(x > 1, False),
    "masked_scatter_": lambda x, index, source: x.masked_scatter_(x > 1, source),
    "fill_": lambda x, index, source: x.fill_(source[0]),
}


def itself_as_index(t: Any) -> Any:
    x = t.tensor([2, 1, 0])
    return x, x, x.clone()


def itself_as_source(t: Any) -> Any:
    x = t.tensor([5, 7, 9])
    return x, t.tensor([2, 1, 0]), x


def part_as_source(t: Any) -> Any:
    x = t.tensor([5, 7, 9, 11, 12])
    return x, t.tensor([2, 1, 0]), x[:3]


def parts_that_overlap(t: Any) -> Any:
    x = t.tensor([5, 7, 9, 11, 12])
    return x[1:], t.tensor([2, 1, 0]), x[:3]


def part_as_index(t: Any) -> Any:
    x = t.tensor([2, 1, 0, 3, 4])
    return x, x[:3], t.tensor([5, 6, 7])


def expanded(t: Any) -> Any:
    return t.tensor([1]).expand(6), t.tensor([2, 1, 0]), t.tensor([5, 7, 9])


def apart(t: Any) -> Any:
    return t.arange(6), t.tensor([2, 1, 0]), t.tensor([5, 7, 9])


FORMS = [
    itself_as_index,
    itself_as_source,
    part_as_source,
    parts_that_overlap,
    part_as_index,
    expanded,
    apart,
]


def outcome(t: Any, name: str, form: Callable[[Any], Any]) -> Any:
    """What was written, whether a warning spoke of expanded tensors; or that it was refused."""
    x, index, source = form(t)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            WRITES[name](x, index, source)
        except (RuntimeError, IndexError):
            return "refused"
    return x.tolist(), any("on expanded tensors" in str(w.message) for w in seen)


@pytest.mark.parametrize(("name", "form"), list(itertools.product(WRITES, FORMS)))
def test_overlapping_places(name: str, form: Callable[[Any], Any]):
    assert outcome(fg, name, form) == outcome(torch, name, form)
