"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.eager.distributions.real_line import VonMises as VonMises
