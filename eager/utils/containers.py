"""Containers of tensors (lists, tuples, dicts, named tuples, registered classes), leaf by leaf.

A class is a container by its node in `SUPPORTED_NODES`: how its objects come apart into children and a
context, and are made of them again. All others are leaves. Source: `torch.utils._pytree`.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.sizes import Size

__all__ = [
    "SUPPORTED_NODES",
    "GetAttrKey",
    "LeafSpec",
    "MappingKey",
    "NodeDef",
    "SequenceKey",
    "TreeSpec",
    "keystr",
    "register_dataclass",
    "register_pytree_node",
    "tree_all",
    "tree_any",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_leaves",
    "tree_map",
    "tree_map_only",
    "tree_map_with_path",
    "tree_structure",
    "tree_unflatten",
]
Leaf = Callable[[Any], bool] | None
Path = tuple[Any, ...]
K = TypeVar("K", bound=type)

# ---------------------------------------------------------------------------------- places


class SequenceKey(NamedTuple):
    """A place in a list, tuple or deque."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """What lies there."""
        return sequence[self.idx]


class MappingKey(NamedTuple):
    """A place in a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """What lies there."""
        return mapping[self.key]


class GetAttrKey(NamedTuple):
    """A field of an object."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """What lies there."""
        return getattr(obj, self.name)


def keystr(kp: Path) -> str:
    """The places on the way to a leaf, in one text."""
    return "".join(map(str, kp))


# ---------------------------------------------------------------------------------- kinds of containers


class NodeDef(NamedTuple):
    """How objects of a class come apart, and are made again; the last gives children with their places."""

    type: Any
    flatten_fn: Callable[[Any], tuple[list[Any], Any]]
    unflatten_fn: Callable[[Iterable[Any], Any], Any]
    flatten_with_keys_fn: Callable[[Any], tuple[list[tuple[Any, Any]], Any]] | None


SUPPORTED_NODES: dict[Any, NodeDef] = {}


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], tuple[list[Any], Any]],
    unflatten_fn: Callable[[Iterable[Any], Any], Any],
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Any = None,
    from_dumpable_context: Any = None,
    flatten_with_keys_fn: Any = None,
) -> None:
    """Have the functions of this module take objects of a class apart. Raises ValueError for a known one.

    flatten_fn: gives children and a context. unflatten_fn: makes an object of children and a context. Names
    and contexts for files are taken, and not used. Source: `torch.utils._pytree.register_pytree_node`.

    >>> class Pair:
    ...     def __init__(self, first, second):
    ...         self.both = [first, second]
    >>> register_pytree_node(Pair, lambda pair: (pair.both, None), lambda both, _: Pair(*both))
    >>> tree_map(lambda x: x + 1, [Pair(1, 2)])[0].both
    [2, 3]
    """
    if cls in SUPPORTED_NODES:
        raise failure(ValueError, f"{cls} is already registered as pytree node.")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)


def register_dataclass(
    cls: K, *, field_names: list[str] | None = None, drop_field_names: list[str] | None = None, **_: Any
) -> K:
    """Have objects of a dataclass come apart into fields: `torch.utils._pytree.register_dataclass`."""
    dropped = set(drop_field_names or ())
    found = field_names or [f.name for f in dataclasses.fields(cls) if f.init]
    names = [name for name in found if name not in dropped]

    def flattened(value: Any) -> tuple[list[Any], Any]:
        return [getattr(value, name) for name in names], names

    def made(children: Iterable[Any], context: Any) -> Any:
        return cls(**dict(zip(context, children, strict=True)))

    def with_keys(value: Any) -> tuple[list[tuple[Any, Any]], Any]:
        return [(GetAttrKey(name), getattr(value, name)) for name in names], names

    register_pytree_node(cls, flattened, made, flatten_with_keys_fn=with_keys)
    return cls


def _row(value: Any) -> tuple[list[Any], Any]:
    return list(value), None


def _mapping(value: Any) -> tuple[list[Any], Any]:
    return list(value.values()), list(value)


for _kind, _make in ((list, list), (tuple, tuple), (Size, tuple)):
    register_pytree_node(_kind, _row, lambda children, _, make=_make: make(children))  # type: ignore[misc]
for _mapping_kind in (dict, OrderedDict):
    register_pytree_node(
        _mapping_kind,
        _mapping,
        lambda c, keys, kind=_mapping_kind: kind(zip(keys, c, strict=True)),  # type: ignore[misc]
    )
register_pytree_node(
    defaultdict,
    lambda value: (list(value.values()), [value.default_factory, list(value)]),
    lambda children, context: defaultdict(context[0], zip(context[1], children, strict=True)),
)
register_pytree_node(
    deque,
    lambda value: (list(value), value.maxlen),
    lambda children, context: deque(children, maxlen=context),
)
# All named tuples go by the function that makes their classes.
_NAMED = NodeDef(
    namedtuple, lambda value: (list(value), type(value)), lambda children, kind: kind(*children), None
)
SUPPORTED_NODES[namedtuple] = _NAMED


def _node(tree: Any, is_leaf: Leaf = None) -> NodeDef | None:
    """How a container comes apart; None for a leaf."""
    if is_leaf is not None and is_leaf(tree):
        return None
    kind = type(tree)
    found = SUPPORTED_NODES.get(kind)
    return _NAMED if found is None and issubclass(kind, tuple) and hasattr(kind, "_fields") else found


def _with_keys(node: NodeDef, tree: Any) -> list[tuple[Any, Any]]:
    """The children of a container, each with its place."""
    if node.flatten_with_keys_fn is not None:
        return list(node.flatten_with_keys_fn(tree)[0])
    if isinstance(tree, dict):
        return [(MappingKey(key), value) for key, value in tree.items()]
    if node is _NAMED:
        return [(GetAttrKey(name), value) for name, value in zip(tree._fields, tree, strict=True)]
    if isinstance(tree, (list, tuple, deque)):
        return [(SequenceKey(place), value) for place, value in enumerate(tree)]
    raise failure(ValueError, f"{type(tree)} has no flatten_with_keys_fn: register it with one")


# ---------------------------------------------------------------------------------- structures


class TreeSpec:
    """The structure of a container with its leaves taken out. Source: `torch.utils._pytree.TreeSpec`.

    type, context: of the outermost container; None for a leaf.
    """

    def __init__(self, type: Any, context: Any = None, children_specs: Iterable[TreeSpec] = ()) -> None:
        self.type, self.context, self.children_specs = type, context, list(children_specs)
        self.num_children = len(self.children_specs)
        self.num_leaves: int = 1 if type is None else sum(c.num_leaves for c in self.children_specs)
        self.num_nodes: int = 1 + sum(c.num_nodes for c in self.children_specs)

    def is_leaf(self) -> bool:
        """Whether it is no container at all."""
        return self.type is None

    def children(self) -> list[TreeSpec]:
        """The structures of what lies in it."""
        return list(self.children_specs)

    def child(self, index: int) -> TreeSpec:
        """The structure of one thing that lies in it."""
        return self.children_specs[index]

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """A container of this structure with these leaves."""
        return tree_unflatten(leaves, self)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """What a container has in the places of the leaves. Raises ValueError for another structure."""
        if self.is_leaf():
            return [tree]
        node = _node(tree)
        if node is None or node.type is not self.type:
            raise failure(ValueError, f"Node type mismatch; expected {self.type!r}, but got {type(tree)!r}.")
        children, context = node.flatten_fn(tree)
        if isinstance(tree, dict) and set(tree) == set(self._keys()):  # in whatever order
            children = [tree[key] for key in self._keys()]
        elif context != self.context or len(children) != self.num_children:
            raise failure(
                ValueError,
                f"Node context mismatch for node type {self.type!r}: {context!r}, {self.context!r}",
            )
        return [leaf for spec, child in zip(self.children_specs, children, strict=True)
                for leaf in spec.flatten_up_to(child)]  # fmt: skip

    def _keys(self) -> list[Any]:
        return list(self.context[1] if self.type is defaultdict else self.context)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeSpec):
            return NotImplemented
        mine, theirs = (self.type, self.context), (other.type, other.context)
        return mine == theirs and self.children_specs == other.children_specs

    def __hash__(self) -> int:
        context = self.context
        frozen = (repr(context) if isinstance(context, list) else context,)
        return hash((self.type, frozen, tuple(self.children_specs)))

    def __repr__(self, indent: int = 0) -> str:
        if self.is_leaf():
            return "*"
        inner = ""
        if self.children_specs:
            inner = self.children_specs[0].__repr__(indent + 2)
            rest = [child.__repr__(indent + 2) for child in self.children_specs[1:]]
            inner += "".join(f",\n{' ' * (indent + 2)}{text}" for text in rest)
        return f"TreeSpec({self.type.__name__}, {self.context}, [{inner}])"


class LeafSpec(TreeSpec):
    """The structure of a leaf. Source: `torch.utils._pytree.LeafSpec`."""

    def __init__(self) -> None:
        super().__init__(None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TreeSpec) and other.is_leaf()

    def __hash__(self) -> int:
        return hash(None)


_LEAF = LeafSpec()


def _taken_apart(tree: Any, leaves: list[Any], is_leaf: Leaf) -> TreeSpec:
    node = _node(tree, is_leaf)
    if node is None:
        leaves.append(tree)
        return _LEAF
    children, context = node.flatten_fn(tree)
    return TreeSpec(node.type, context, [_taken_apart(child, leaves, is_leaf) for child in children])


def tree_flatten(tree: Any, is_leaf: Leaf = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of a container, and its structure. Source: `torch.utils._pytree.tree_flatten`.

    is_leaf: says of a container that it shall not be taken apart.
    """
    leaves: list[Any] = []
    return leaves, _taken_apart(tree, leaves, is_leaf)


def tree_leaves(tree: Any, is_leaf: Leaf = None) -> list[Any]:
    """The leaves of a container, in order. Source: `torch.utils._pytree.tree_leaves`."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: Leaf = None) -> TreeSpec:
    """The structure of a container. Source: `torch.utils._pytree.tree_structure`."""
    return tree_flatten(tree, is_leaf)[1]


def tree_flatten_with_path(tree: Any, is_leaf: Leaf = None) -> tuple[list[tuple[Path, Any]], TreeSpec]:
    """The leaves of a container with the places that lead to them, and its structure.

    Source: `torch.utils._pytree.tree_flatten_with_path`.
    """

    def within(tree: Any, path: Path) -> Iterator[tuple[Path, Any]]:
        node = _node(tree, is_leaf)
        if node is None:
            yield path, tree
        else:
            for key, child in _with_keys(node, tree):
                yield from within(child, (*path, key))

    return list(within(tree, ())), tree_structure(tree, is_leaf)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """A container of a structure, with these leaves. Source: `torch.utils._pytree.tree_unflatten`.

    Raises ValueError for another number of leaves, TypeError for what is no structure.
    """
    if not isinstance(treespec, TreeSpec):
        kind = type(treespec)
        text = f"expected `treespec` to be an instance of TreeSpec but got item of type {kind}."
        raise failure(TypeError, f"tree_unflatten(leaves, treespec): {text}")
    given = list(leaves)
    if len(given) != treespec.num_leaves:
        text = f"the spec refers to a pytree that holds {treespec.num_leaves} items ({treespec})."
        told = f"tree_unflatten(leaves, treespec): `leaves` has length {len(given)} but {text}"
        raise failure(ValueError, told)
    return _made(iter(given), treespec)


def _made(leaves: Iterator[Any], spec: TreeSpec) -> Any:
    if spec.is_leaf():
        return next(leaves)
    children = [_made(leaves, child) for child in spec.children_specs]
    return SUPPORTED_NODES[spec.type].unflatten_fn(children, spec.context)


# ---------------------------------------------------------------------------------- functions of leaves


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Leaf = None) -> Any:
    """The container with `func` of each leaf (and of what is in its place in `rests`) in place of it.

    Raises ValueError where the containers differ. Source: `torch.utils._pytree.tree_map`.

    >>> from fusegrad.utils._pytree import tree_map
    >>> tree_map(lambda x: x * 2, {"a": [1, 2], "b": (3,)})
    {'a': [2, 4], 'b': (6,)}
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    return tree_unflatten(map(func, leaves, *map(spec.flatten_up_to, rests)), spec)


def tree_map_with_path(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Leaf = None) -> Any:
    """As `tree_map`; `func` gets the places that lead to a leaf before it."""
    found, spec = tree_flatten_with_path(tree, is_leaf)
    paths, leaves = [path for path, _ in found], [leaf for _, leaf in found]
    return tree_unflatten(map(func, paths, leaves, *map(spec.flatten_up_to, rests)), spec)


def tree_map_only(type_: Any, func: Callable[[Any], Any], tree: Any, is_leaf: Leaf = None) -> Any:
    """`tree_map` of the leaves of a type; the others stay. Source: `torch.utils._pytree.tree_map_only`."""
    return tree_map(lambda leaf: func(leaf) if isinstance(leaf, type_) else leaf, tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: Leaf = None) -> bool:
    """Whether `pred` holds of all leaves. Source: `torch.utils._pytree.tree_all`."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: Leaf = None) -> bool:
    """Whether `pred` holds of any leaf. Source: `torch.utils._pytree.tree_any`."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


locate("fusegrad.utils._pytree", globals(), [n for n in __all__ if n != "SUPPORTED_NODES"])
