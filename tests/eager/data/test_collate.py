"""Collation against PyTorch's: a table of structures of samples, and what is refused in which words."""

from __future__ import annotations

from collections import OrderedDict, UserDict, UserList, defaultdict, namedtuple
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg
from fusegrad.eager.data.collate import collate
from fusegrad.utils import data

Point = namedtuple("Point", "x y")


class Named(dict):
    """A dict with an attribute."""

    name = "unset"


class Unbuildable(list):
    """A list that cannot be made of one, nor copied."""

    def __copy__(self) -> Any:
        raise TypeError("no copies")


def named(**values: Any) -> Named:
    made = Named(values)
    made.name = "set"
    return made


# Of each a batch, given the library.
BATCHES: dict[str, Any] = {
    "tensors": lambda T: [T.ones(2, 3), T.zeros(2, 3)],
    "scalars": lambda T: [T.tensor(1), T.tensor(2)],
    "bools": lambda T: [T.tensor([True]), T.tensor([False])],
    "float32 arrays": lambda T: [np.ones(3, np.float32), np.zeros(3, np.float32)],
    "int arrays": lambda T: [np.arange(3), np.arange(3)],
    "empty arrays": lambda T: [np.ones((0, 2)), np.ones((0, 2))],
    "float32 scalars": lambda T: [np.float32(1), np.float32(2)],
    "uint8 scalars": lambda T: [np.uint8(1), np.uint8(2)],
    "bool scalars": lambda T: [np.bool_(True), np.bool_(False)],
    "float64 scalars": lambda T: [np.float64(1.5), np.float64(2)],
    "ints": lambda T: [1, 2, 3],
    "bools of Python": lambda T: [True, False],
    "floats": lambda T: [1.5, 2.5],
    "int first": lambda T: [1, 2.5],
    "strings": lambda T: ["a", "bc"],
    "bytes": lambda T: [b"a", b"bc"],
    "strings of NumPy": lambda T: [np.str_("a"), np.str_("b")],
    "dicts": lambda T: [{"a": 1, "b": T.ones(2)}, {"a": 2, "b": T.ones(2)}],
    "more keys later": lambda T: [{"a": 1}, {"a": 2, "b": 3}],
    "ordered dicts": lambda T: [OrderedDict(b=1, a="x"), OrderedDict(b=2, a="y")],
    "default dicts": lambda T: [defaultdict(int, a=1), defaultdict(int, a=2)],
    "dicts with attributes": lambda T: [named(a=1), named(a=2)],
    "user dicts": lambda T: [UserDict(a=1), UserDict(a=2)],
    "read-only mappings": lambda T: [MappingProxyType({"a": 1}), MappingProxyType({"a": 2})],
    "tuples": lambda T: [(1, "a"), (2, "b")],
    "empty tuples": lambda T: [(), ()],
    "lists": lambda T: [[1, 2.0], [3, 4.0]],
    "namedtuples": lambda T: [Point(1, {"z": 2.0}), Point(3, {"z": 4.0})],
    "user lists": lambda T: [UserList([1, 2]), UserList([3, 4])],
    "ranges": lambda T: [range(2), range(2)],
    "lists without copies": lambda T: [Unbuildable([1, 2]), Unbuildable([3, 4])],
    "nested": lambda T: [{"a": [(1, T.ones(1)), np.ones(2)]}, {"a": [(2, T.ones(1)), np.ones(2)]}],
    "a tuple of samples": lambda T: (T.ones(2), T.ones(2)),
    "one sample": lambda T: [T.ones(2)],
    # Refused.
    "arrays of strings": lambda T: [np.array(["a"]), np.array(["b"])],
    "arrays of objects": lambda T: [np.array([None]), np.array([None])],
    "None": lambda T: [None, None],
    "sets": lambda T: [{1}, {2}],
    "complex numbers of Python": lambda T: [1j, 2j],
    "objects within": lambda T: [{"a": [object()]}, {"a": [object()]}],
    "lengths that differ": lambda T: [[1, 2], [3]],
    "keys that are missing": lambda T: [{"a": 1, "b": 2}, {"a": 3}],
    "shapes that differ": lambda T: [T.ones(2), T.ones(3)],
    "nothing": lambda T: [],
}


def described(value: Any) -> Any:
    """Types and values, alike for both libraries."""
    if isinstance(value, (fg.Tensor, torch.Tensor)):
        return "tensor", str(value.dtype).rpartition(".")[2], tuple(value.shape), value.tolist()
    if isinstance(value, np.ndarray):
        return "array", value.dtype.str, value.tolist()
    if hasattr(value, "items"):
        return type(value), [(k, described(v)) for k, v in value.items()], getattr(value, "name", None)
    if isinstance(value, (list, tuple, UserList)):
        return type(value), [described(v) for v in value]
    return type(value), value


def outcome(function: Any, *arguments: Any) -> Any:
    try:
        return described(function(*arguments))
    except Exception as error:
        return "error", type(error), str(error)


@pytest.mark.parametrize("name", BATCHES)
def test_collation_is_that_of_torch(name: str) -> None:
    ours = outcome(data.default_collate, BATCHES[name](fg))
    theirs = outcome(torch.utils.data.default_collate, BATCHES[name](torch))
    if theirs[0] == "error":
        assert ours[:2] == theirs[:2] and theirs[2] in ours[2]
    else:
        assert ours == theirs


@pytest.mark.parametrize("name", BATCHES)
def test_conversion_is_that_of_torch(name: str) -> None:
    if name != "objects within":  # which are equal to nothing else
        ours = outcome(data.default_convert, BATCHES[name](fg))
        assert ours == outcome(torch.utils.data.default_convert, BATCHES[name](torch))


def test_conversion_of_single_samples_is_that_of_torch() -> None:
    for sample in (np.float32(1.5), np.arange(3), np.str_("a"), 5, "text", b"bytes", None, {"a": np.ones(1)}):
        assert described(data.default_convert(sample)) == described(torch.utils.data.default_convert(sample))


def test_what_is_no_array_of_numpy_is_left_as_it_is() -> None:
    sample = object()
    assert data.default_convert(sample) is sample
    tensor = fg.ones(2)
    assert data.default_convert((tensor, sample))[0] is tensor


def test_gradients_go_through_collation() -> None:
    leaves = [fg.ones(2, requires_grad=True) for _ in range(3)]
    (data.default_collate(leaves) * fg.tensor([[1.0], [2.0], [3.0]])).sum().backward()
    assert [leaf.grad.tolist() for leaf in leaves] == [[1, 1], [2, 2], [3, 3]]


def test_collation_takes_functions_by_type() -> None:
    def total(batch: Any, *, collate_fn_map: Any) -> int:
        assert collate_fn_map is functions
        return sum(map(int, batch))

    functions: Any = {(int, str): total, object: lambda batch, **_: "any"}
    assert collate([True, True], collate_fn_map=functions) == 2
    assert collate([{1}, {2}], collate_fn_map=functions) == "any"
    functions = {(int, str): total}
    assert collate([{"a": 1, "b": "2"}, {"a": 3, "b": "4"}], collate_fn_map=functions) == {"a": 4, "b": 6}
