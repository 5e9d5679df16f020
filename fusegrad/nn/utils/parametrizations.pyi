"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.eager.nn.utils.parametrizations import (
    orthogonal as orthogonal,
    spectral_norm as spectral_norm,
    weight_norm as weight_norm,
)
