"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.eager.utils.containers import (
    GetAttrKey as GetAttrKey,
    LeafSpec as LeafSpec,
    MappingKey as MappingKey,
    NodeDef as NodeDef,
    SequenceKey as SequenceKey,
    TreeSpec as TreeSpec,
    keystr as keystr,
    register_dataclass as register_dataclass,
    register_pytree_node as register_pytree_node,
    tree_all as tree_all,
    tree_any as tree_any,
    tree_flatten as tree_flatten,
    tree_flatten_with_path as tree_flatten_with_path,
    tree_leaves as tree_leaves,
    tree_map as tree_map,
    tree_map_only as tree_map_only,
    tree_map_with_path as tree_map_with_path,
    tree_structure as tree_structure,
    tree_unflatten as tree_unflatten,
)

SUPPORTED_NODES: dict
