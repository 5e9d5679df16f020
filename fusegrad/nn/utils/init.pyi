"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.eager.nn.utils.init import skip_init as skip_init
