"""Libraries that PyTorch is built with, as `torch.backends`: none of them is used here."""

from fusegrad.backends import (
    cuda as cuda,
    cudnn as cudnn,
    mkl as mkl,
    mkldnn as mkldnn,
    mps as mps,
    openmp as openmp,
)

__all__ = ["cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]
