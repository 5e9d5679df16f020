"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.eager.nn.lazy_layers import LazyModuleMixin as LazyModuleMixin
