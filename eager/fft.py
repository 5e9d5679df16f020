"""Fourier transforms. Laid out as `torch.fft`."""

from __future__ import annotations

from fusegrad.eager.core.public import gather
from fusegrad.eager.ops.linalg.fourier import (
    fft,
    fft2,
    fftfreq,
    fftn,
    fftshift,
    hfft,
    hfft2,
    hfftn,
    ifft,
    ifft2,
    ifftn,
    ifftshift,
    ihfft,
    ihfft2,
    ihfftn,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftfreq,
    rfftn,
)
from fusegrad.eager.ops.shape.out import give_forms as _give_forms

_give_forms("fusegrad.fft", globals())
__all__ = gather("fusegrad.fft", globals())
