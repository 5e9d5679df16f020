"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.eager.autograd.functional_call import functional_call as functional_call
