"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.eager.nn.saved_state import (
    consume_prefix_in_state_dict_if_present as consume_prefix_in_state_dict_if_present,
)
