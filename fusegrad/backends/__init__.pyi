"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.backends import (
    cuda as cuda,
    cudnn as cudnn,
    mkl as mkl,
    mkldnn as mkldnn,
    mps as mps,
    openmp as openmp,
)
