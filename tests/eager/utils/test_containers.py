"""Containers come apart, and are made again, as in PyTorch."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from oracle import torch

import fusegrad as fg
from fusegrad.utils import _pytree

Pair = collections.namedtuple("Pair", "first second")


@dataclasses.dataclass
class Options:
    number: int
    other: int = 2


TREES: list[Any] = [
    3, None, [], {}, [1, (2, 3)], {"a": [1, (2, 3)], "b": None}, Pair(1, [2]), Options(1), ((), [[]]),
    collections.OrderedDict(b=1, a=2), collections.defaultdict(list, {"x": [1]}),
    collections.deque([1, 2], maxlen=4),
]  # fmt: skip


def told(pytree: Any, tree: Any) -> list[Any]:
    """What functions say of a container."""
    leaves, spec = pytree.tree_flatten(tree)
    found = pytree.tree_flatten_with_path(tree)[0]
    counts = spec.num_leaves, spec.num_nodes, spec.num_children, spec.is_leaf(), spec.type, spec.context
    made = pytree.tree_unflatten([10 * place for place in range(spec.num_leaves)], spec)
    paths = [(pytree.keystr(path), leaf) for path, leaf in found]
    equal = [spec == pytree.tree_structure(other) for other in TREES]
    return [leaves, repr(spec), counts, type(made), made, paths, equal]


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_containers_are_what_they_are_in_pytorch(tree: Any) -> None:
    ours, theirs = (told(pytree, tree) for pytree in (_pytree, torch.utils._pytree))
    assert ours == theirs


CALLS: dict[str, Callable[[Any], Any]] = {
    "dicts in another order": lambda p: p.tree_map(lambda a, b: a + b, {"a": 1, "b": 2}, {"b": 3, "a": 4}),
    "larger containers": lambda p: p.tree_map(lambda a, b: (a, b), [1, 2], [[3], (4, 5)]),
    "named tuples": lambda p: p.tree_map(lambda a, b: (a, b), Pair(1, 2), Pair(3, 4)),
    "another kind": lambda p: p.tree_map(lambda a, b: a, [1], (1,)),
    "another length": lambda p: p.tree_map(lambda a, b: a, [1], [1, 2]),
    "other keys": lambda p: p.tree_map(lambda a, b: a, {"a": 1}, {"b": 1}),
    "a tuple for a named one": lambda p: p.tree_map(lambda a, b: a, Pair(1, 2), (3, 4)),
    "leaves that are tuples": lambda p: p.tree_map(len, [(1,), (2, 3)], is_leaf=lambda t: type(t) is tuple),
    "too few leaves": lambda p: p.tree_unflatten([1], p.tree_structure([1, 2])),
    "no structure": lambda p: p.tree_unflatten([1], 3),
    "of a type": lambda p: p.tree_map_only(int, lambda a: a + 1, [1, "a"]),
    "with paths": lambda p: p.tree_map_with_path(lambda path, a: (p.keystr(path), a), {"a": [1]}),
    "any": lambda p: (p.tree_any(bool, [0, (1,)]), p.tree_all(bool, [0, (1,)])),
}


@pytest.mark.parametrize("name", CALLS)
def test_functions_of_leaves_are_pytorchs(name: str) -> None:
    found = []
    for pytree in (_pytree, torch.utils._pytree):
        try:
            found.append(CALLS[name](pytree))
        except Exception as error:
            found.append(type(error))
    assert found[0] == found[1]


def test_registered_classes_are_containers() -> None:
    class Box:
        def __init__(self, held: Any) -> None:
            self.held = held

    @dataclasses.dataclass
    class Fields:
        first: Any
        second: Any

    _pytree.register_pytree_node(Box, lambda box: ([box.held], None), lambda held, _: Box(*held))
    _pytree.register_dataclass(Fields)
    assert _pytree.tree_map(lambda x: x + 1, [Box(1)])[0].held == 2
    assert _pytree.tree_map(lambda x: x + 1, Fields(1, (2,))) == Fields(2, (3,))
    with pytest.raises(ValueError, match="already registered"):
        _pytree.register_pytree_node(Box, lambda box: ([], None), lambda held, _: None)
    with pytest.raises(ValueError, match="no flatten_with_keys_fn"):
        _pytree.tree_flatten_with_path(Box(1))


def test_named_results_are_containers() -> None:
    found = _pytree.tree_map(lambda x: x + 1, fg.max(fg.ones(2, 3), 0))
    assert type(found) is type(fg.max(fg.ones(2, 3), 0)) and found.values.tolist() == [2.0] * 3
