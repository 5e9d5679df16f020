"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.eager.utils.containers import (
    tree_all as tree_all,
    tree_any as tree_any,
    tree_flatten as tree_flatten,
    tree_leaves as tree_leaves,
    tree_map as tree_map,
    tree_map_only as tree_map_only,
    tree_unflatten as tree_unflatten,
)
