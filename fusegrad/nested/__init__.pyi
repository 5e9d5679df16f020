"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.eager.nested.api import (
    as_nested_tensor as as_nested_tensor,
    masked_select as masked_select,
    narrow as narrow,
    nested_tensor as nested_tensor,
    nested_tensor_from_jagged as nested_tensor_from_jagged,
    nested_tensor_from_packed as nested_tensor_from_packed,
    to_packed_sequence as to_packed_sequence,
    to_padded_tensor as to_padded_tensor,
)
