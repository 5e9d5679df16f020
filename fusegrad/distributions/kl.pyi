"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.eager.distributions.kl import kl_divergence as kl_divergence, register_kl as register_kl
