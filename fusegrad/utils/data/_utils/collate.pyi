"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.eager.data.collate import (
    collate as collate,
    collate_float_fn as collate_float_fn,
    collate_int_fn as collate_int_fn,
    collate_numpy_array_fn as collate_numpy_array_fn,
    collate_numpy_scalar_fn as collate_numpy_scalar_fn,
    collate_str_fn as collate_str_fn,
    collate_tensor_fn as collate_tensor_fn,
    default_collate as default_collate,
    default_convert as default_convert,
)

default_collate_fn_map: dict
