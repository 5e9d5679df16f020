"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.eager.autograd.gradcheck import (
    GradcheckError as GradcheckError,
    gradcheck as gradcheck,
    gradgradcheck as gradgradcheck,
)
