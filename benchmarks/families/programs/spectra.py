"""Complex numbers, written with and without their names, and spectra."""

from __future__ import annotations

from typing import Any

from families.declare import FORWARD, programs


@programs("spectra", "batch width length", "8 16 64 float32", "32 32 256 float32", "4 8 64 float64")
def fourier_layer(ops: Any, draw: Any, batch: Any, width: Any, length: Any) -> Any:
    """A layer of a Fourier neural operator: some modes of a spectrum times complex weights."""
    rfft, irfft, einsum, gelu = ops.rfft, ops.irfft, ops.einsum, ops.gelu
    modes = length // 4

    def loss(x, real, imaginary, mixing):
        spectrum = rfft(x)[..., :modes]
        mixed = einsum("bim,iom->bom", spectrum, ops.complex(real, imaginary))
        rest = ops.zeros((batch, width, length // 2 + 1 - modes), dtype=mixed.dtype)
        back = irfft(ops.cat([mixed, rest], -1))
        return (gelu(back + einsum("bil,io->bol", x, mixing)) ** 2).mean()

    weights = [draw.normal(width, width, modes, scale=0.2) for _ in range(2)]
    return loss, [draw.normal(batch, width, length), *weights, draw.normal(width, width, scale=0.2)]


@programs("spectra", "count", "100000 float64", "100000 float32", "1000 float32")
def impedances(ops: Any, draw: Any, count: Any) -> Any:
    """Three resonators in parallel and in series: complex arithmetic, absolute values and angles."""
    absolute, angle = ops.abs, ops.angle

    def loss(resistance, coil, capacity, frequency):
        total = ops.complex(resistance, frequency * coil)
        for number in range(1, 4):
            other = ops.complex(resistance * number, frequency * coil - 1 / (frequency * capacity))
            total = total * other / (total + other) + 0.1 * number
        return (absolute(total) + 0.1 * angle(total)).mean()

    return loss, [draw.positive(count) for _ in range(4)]


@programs("spectra", "shape iterations", "200x200 20 float64", "500x500 10 float32", kind=FORWARD)
def newton_fractal(ops: Any, draw: Any, shape: Any, iterations: Any) -> Any:
    """Newton's iteration for the roots of z**3 - 1 from every point of a plane. Forward only."""

    def found(x, y):
        z = ops.complex(x, y)
        for _ in range(iterations):
            square = z * z
            z = z - (z * square - 1) / (3 * square)
        return ops.real(z), ops.imag(z)

    return found, [draw.uniform(*shape, low=0.5, high=2.0), draw.uniform(*shape, low=-2.0, high=2.0)]


@programs("spectra", "count", "30000 float32", "2000 float64")
def rotary(ops: Any, draw: Any, count: Any) -> Any:
    """Pairs of features turned by angles, as complex numbers: the scores of neighbours."""

    def loss(keys, queries, angles):
        turn = ops.complex(ops.cos(angles), ops.sin(angles))
        k = ops.complex(keys[..., 0], keys[..., 1]) * turn
        q = ops.complex(queries[..., 0], queries[..., 1]) * ops.conj(turn)
        return ops.real(q * ops.conj(k)).sum(1).mean()

    return loss, [draw.normal(count, 8, 2), draw.normal(count, 8, 2), draw.normal(count, 8)]


@programs("spectra", "shape", "16x4096 float32", "4x1000 float64")
def matched_filter(ops: Any, draw: Any, shape: Any) -> Any:
    """Signals held against a template in their spectra, divided by the noise there."""
    rfft, irfft, absolute = ops.rfft, ops.irfft, ops.abs

    def loss(signals, template, noise):
        spectrum = rfft(signals) * ops.conj(rfft(template)) / noise
        found = irfft(spectrum)
        return (found * found).mean() + 0.01 * (absolute(spectrum) ** 2).mean()

    return loss, [draw.normal(*shape), draw.normal(shape[1]), draw.positive(shape[1] // 2 + 1)]
