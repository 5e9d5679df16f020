"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.eager.nn.parameter import Buffer as Buffer, Parameter as Parameter
