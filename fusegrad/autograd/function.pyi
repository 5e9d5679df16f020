"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.eager.autograd.function import Function as Function, InplaceFunction as InplaceFunction
from fusegrad.eager.autograd.once import once_differentiable as once_differentiable
