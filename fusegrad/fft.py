"""Fourier transforms, as `torch.fft`."""

from fusegrad.eager.fft import *
from fusegrad.eager.fft import __all__ as __all__
