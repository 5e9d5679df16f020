"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.eager.ops.linalg.sparse_tensor import SparseTensor as SparseTensor
from fusegrad.eager.sparse import (
    DoubleTensor as DoubleTensor,
    FloatTensor as FloatTensor,
    addmm as addmm,
    mm as mm,
    sum as sum,
)
