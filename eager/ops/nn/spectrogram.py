"""Fourier transforms of short stretches of a signal, and back: `stft` and `istft`."""

from __future__ import annotations

from fusegrad.eager.core.errors import failure, warn
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.linalg import fourier
from fusegrad.eager.ops.nn.rearranging import fold
from fusegrad.eager.ops.shape.padding import pad


def _lengths(
    name: str, n_fft: int, hop_length: int | None, win_length: int | None, window: Tensor | None, like: Tensor
) -> tuple[int, Tensor]:
    """The step from stretch to stretch, and the window with zeros around it: `n_fft` numbers."""
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    if hop <= 0:
        raise failure(RuntimeError, f"{name}: expected hop_length > 0, but got hop_length={hop}")
    if not 0 < width <= n_fft:
        raise failure(RuntimeError, f"{name}: expected 0 < win_length <= n_fft, but got win_length={width}")
    if window is None:
        window = ops.ones(width, dtype=ops.real(like).dtype if like.is_complex() else like.dtype)
    if tuple(window.shape) != (width,):
        raise failure(
            RuntimeError,
            f"{name}: expected a 1D window tensor of size equal to win_length={width}, but got window with "
            f"size {list(window.shape)}",
        )
    left = (n_fft - width) // 2
    return hop, pad(window, (left, n_fft - width - left))


@public(method=True)
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """The spectra of stretches of a signal [T] or [B, T]: [B, frequencies, stretches].

    center: pad the signal, so that a stretch has its place in the middle. onesided: half of the spectrum, as
    a real signal has no other half. return_complex: False gives real and imaginary parts apart; it must be
    said for a real signal. Raises RuntimeError for sizes that do not fit. Source: `torch.stft`.

    >>> import fusegrad as fg
    >>> fg.stft(fg.ones(16), 8, return_complex=True).shape
    torch.Size([5, 9])
    """
    if input.dim() not in (1, 2) or not (input.is_floating_point() or input.is_complex()):
        raise failure(
            RuntimeError,
            f"stft: expected a 1D or 2D tensor of floating point or complex values, got {input.dtype.name}"
            f"{list(input.shape)}",
        )
    is_complex = input.is_complex() or (window is not None and window.is_complex())
    if return_complex is None:
        if not is_complex:
            raise failure(
                RuntimeError,
                "stft requires the return_complex parameter be given for real inputs, and will further "
                "require that return_complex=True in a future PyTorch release.",
            )
        return_complex = True
    if align_to_window is not None and center:
        raise failure(RuntimeError, "stft: align_to_window should only be set when center = false.")
    hop, full = _lengths("stft", n_fft, hop_length, win_length, window, input)
    signal = input if input.dim() == 2 else input.unsqueeze(0)
    if center:
        signal = pad(signal.unsqueeze(1), (n_fft // 2, n_fft // 2), mode=pad_mode).squeeze(1)
    if not 0 < n_fft <= signal.shape[-1]:
        raise failure(RuntimeError, f"stft: expected 0 < n_fft <= {signal.shape[-1]}, but got n_fft={n_fft}")
    if onesided and is_complex:
        raise failure(RuntimeError, "Cannot have onesided output if window or input is complex")
    stretches = signal.unfold(-1, n_fft, hop) * full
    half = not is_complex if onesided is None else onesided
    spectrum = (fourier.rfft if half else fourier.fft)(stretches, norm="ortho" if normalized else None).mT
    spectrum = spectrum if input.dim() == 2 else spectrum.squeeze(0)
    return spectrum if return_complex else ops.view_as_real(spectrum)


def _added(stretches: Tensor, hop: int) -> Tensor:
    """Stretches [B, stretches, n] added up where they lie in a signal: [B, T]."""
    n, count = stretches.shape[-1], stretches.shape[-2]
    size = (1, n + hop * (count - 1))
    return fold(stretches.mT, size, (1, n), stride=(1, hop)).flatten(1)


@public(method=True)
def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signal whose stretches have spectra [frequencies, stretches] or [B, frequencies, stretches].

    length: how long it is, if that is known. Raises RuntimeError for sizes that do not fit, and where the
    windows leave out a part of the signal. Source: `torch.istft`.

    >>> import fusegrad as fg
    >>> x, window = fg.rand(32), fg.hann_window(8)
    >>> spectra = fg.stft(x, 8, window=window, return_complex=True)
    >>> fg.allclose(fg.istft(spectra, 8, window=window), x, atol=1e-6)
    True
    """
    if not input.is_complex():
        raise failure(
            RuntimeError,
            "istft requires a complex-valued input tensor matching the output from stft with "
            "return_complex=True.",
        )
    if input.dim() not in (2, 3) or 0 in input.shape:
        raise failure(
            RuntimeError,
            f"istft: expected a non-empty tensor with 2 or 3 dimensions, got {list(input.shape)}",
        )
    half = (input.shape[-2] != n_fft) if onesided is None else onesided
    expected = n_fft // 2 + 1 if half else n_fft
    if input.shape[-2] != expected:
        raise failure(
            RuntimeError,
            "istft: expected the frequency dimension (3rd to the last) of the input tensor to match n_fft / "
            f"2 + 1 when onesided=True, or n_fft: {expected}, but got {input.shape[-2]}",
        )
    if return_complex and half:
        raise failure(RuntimeError, "Cannot have onesided output if window or input is complex")
    hop, full = _lengths("istft", n_fft, hop_length, win_length, window, input)
    spectra = (input if input.dim() == 3 else input.unsqueeze(0)).mT
    norm = "ortho" if normalized else None
    if return_complex:
        stretches = fourier.ifft(spectra, norm=norm)
    else:  # of a real signal the other half says nothing
        stretches = fourier.irfft(spectra[..., : n_fft // 2 + 1], n_fft, norm=norm)
    count = spectra.shape[-2]
    stretches = stretches * full
    if return_complex:
        parts = [_added(part(stretches), hop) for part in (ops.real, ops.imag)]
        signal = ops.complex(*parts)
    else:
        signal = _added(stretches, hop)
    weight = _added(full.square().expand(1, count, n_fft), hop)
    start = n_fft // 2 if center else 0
    whole = signal.shape[-1]
    end = whole - start if length is None else min(start + length, whole)
    signal, weight = signal[:, start:end], weight[:, start:end]
    if not bool((weight.abs() > 1e-11).all()):
        raise failure(RuntimeError, f"istft: window overlap add min: {weight.abs().min().item()}")
    signal = signal / weight
    if length is not None and end < start + length:
        warn(
            "The length of signal is shorter than the length parameter. Result is being padded with zeros in "
            "the tail. Please check your center and hop_length settings."
        )
        signal = pad(signal, (0, start + length - end))
    return signal if input.dim() == 3 else signal.squeeze(0)
