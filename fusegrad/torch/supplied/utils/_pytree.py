"""`torch.utils._pytree`: what containers of one kind come apart into, by names that libraries pass on."""

from collections import namedtuple
from typing import Any

from fusegrad.eager.utils.containers import SUPPORTED_NODES, MappingKey

__all__ = ["_dict_flatten", "_dict_flatten_with_keys", "is_namedtuple_class", "is_namedtuple_instance"]


def is_namedtuple_class(cls: type) -> bool:
    """Whether a class is one that `namedtuple` made, or is derived from one."""
    return issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def is_namedtuple_instance(obj: object) -> bool:
    """Whether an object is a named tuple."""
    return is_namedtuple_class(type(obj))


def _get_node_type(tree: Any) -> Any:
    """By what a container is found among the registered classes: named tuples all by one function."""
    kind = type(tree)
    return namedtuple if kind not in SUPPORTED_NODES and is_namedtuple_class(kind) else kind


def _is_leaf(tree: Any, is_leaf: Any = None) -> bool:
    """Whether something is no container, or is said to be none."""
    return (is_leaf is not None and is_leaf(tree)) or _get_node_type(tree) not in SUPPORTED_NODES


def _dict_flatten(d: dict[Any, Any]) -> tuple[list[Any], list[Any]]:
    """The values and the keys of a dict."""
    return list(d.values()), list(d)


def _dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[list[tuple[MappingKey, Any]], list[Any]]:
    """The values of a dict with their places, and its keys."""
    return [(MappingKey(key), value) for key, value in d.items()], list(d)
