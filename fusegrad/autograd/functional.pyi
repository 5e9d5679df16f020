"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.eager.autograd.functional import (
    hessian as hessian,
    hvp as hvp,
    jacobian as jacobian,
    jvp as jvp,
    vhp as vhp,
    vjp as vjp,
)
