"""Functions on containers of tensors (lists, tuples, dicts, named tuples), leaf by leaf."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.pytree import Structure, flatten

__all__ = [
    "tree_all",
    "tree_any",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_map_only",
    "tree_unflatten",
]


def tree_flatten(tree: Any) -> tuple[list[Any], Structure]:
    """The leaves of a container, and its structure. Source: `torch.utils._pytree.tree_flatten`."""
    leaves: list[Any] = []
    return leaves, flatten(tree, leaves, ours=False)


def tree_leaves(tree: Any) -> list[Any]:
    """The leaves of a container, in order. Source: `torch.utils._pytree.tree_leaves`."""
    return tree_flatten(tree)[0]


def tree_unflatten(leaves: Iterable[Any], treespec: Structure) -> Any:
    """A container of a structure, with these leaves. Source: `torch.utils._pytree.tree_unflatten`.

    Raises ValueError for another number of leaves.
    """
    given = list(leaves)
    if len(given) != treespec.leaves:
        raise failure(ValueError, f"the structure has {treespec.leaves} leaves, {len(given)} were given")
    return treespec.build(iter(given))


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any) -> Any:
    """The container with `func` of each leaf (and of those in its place in `rests`) in place of it.

    Raises ValueError where the containers differ. Source: `torch.utils._pytree.tree_map`.

    >>> from fusegrad.utils._pytree import tree_map
    >>> tree_map(lambda x: x * 2, {"a": [1, 2], "b": (3,)})
    {'a': [2, 4], 'b': (6,)}
    """
    leaves, structure = tree_flatten(tree)
    others = [tree_flatten(rest) for rest in rests]
    for _, other in others:
        if other != structure:
            raise failure(ValueError, "the containers differ in their structure")
    made = [func(*values) for values in zip(leaves, *(found for found, _ in others), strict=True)]
    return tree_unflatten(made, structure)


def tree_map_only(type_: Any, func: Callable[[Any], Any], tree: Any) -> Any:
    """`tree_map` of the leaves of a type; the others stay. Source: `torch.utils._pytree.tree_map_only`."""
    return tree_map(lambda leaf: func(leaf) if isinstance(leaf, type_) else leaf, tree)


def tree_all(pred: Callable[[Any], bool], tree: Any) -> bool:
    """Whether `pred` holds of all leaves. Source: `torch.utils._pytree.tree_all`."""
    return all(map(pred, tree_leaves(tree)))


def tree_any(pred: Callable[[Any], bool], tree: Any) -> bool:
    """Whether `pred` holds of any leaf. Source: `torch.utils._pytree.tree_any`."""
    return any(map(pred, tree_leaves(tree)))


locate("fusegrad.utils._pytree", globals(), __all__)
