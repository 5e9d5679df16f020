"""Windows, `stft` and `istft` beside PyTorch."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg

WINDOWS = [
    "hann_window({n})", "hann_window({n}, False)", "hamming_window({n})",
    "hamming_window({n}, periodic=False)",
    "hamming_window({n}, True, 0.6, 0.3)", "blackman_window({n})", "blackman_window({n}, False)",
    "bartlett_window({n})", "bartlett_window({n}, False)", "kaiser_window({n})",
    "kaiser_window({n}, False, 5.0)",
]  # fmt: skip


@pytest.mark.parametrize("text", WINDOWS)
@pytest.mark.parametrize("n", [0, 1, 2, 7, 16])
def test_windows(text, n):
    mine, other = (eval(f"t.{text.format(n=n)}", {"t": lib}) for lib in (fg, torch))
    assert mine.dtype is fg.float32
    np.testing.assert_allclose(mine.numpy(), other.numpy(), rtol=1e-5, atol=1e-6)
    options = "dtype=t.float64, device='cpu', requires_grad=True)"
    wide = eval(f"t.{text.format(n=n)[:-1]}, {options}", {"t": fg})
    assert wide.dtype is fg.float64 and wide.requires_grad


SIGNAL = np.random.default_rng(0).normal(size=(2, 60))
FORMS = [
    {},
    {"hop_length": 3},
    {"win_length": 10, "window": True},
    {"window": True, "normalized": True},
    {"center": False},
    {"pad_mode": "constant"},
    {"onesided": False},
    {"return_complex": False},
]


def options_of(lib, form):
    options = {"return_complex": True, **form}
    if options.pop("window", False):
        options["window"] = lib.hann_window(options.get("win_length", 16), dtype=lib.float64)
    return options


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("rows", [1, 2])
def test_stft(form, rows):
    found = []
    for lib in (fg, torch):
        x = lib.tensor(SIGNAL[0] if rows == 1 else SIGNAL, requires_grad=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            spectra = lib.stft(x, 16, **options_of(lib, form))
        spectra.abs().square().sum().backward()
        found.append((spectra.detach().numpy(), x.grad.numpy()))
    for mine, other in zip(*found, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "form", [f for f in FORMS if "pad_mode" not in f and "return_complex" not in f], ids=str
)
@pytest.mark.parametrize("length", [None, 50, 64])
def test_istft(form, length):
    found = []
    for lib in (fg, torch):
        x = lib.tensor(SIGNAL)
        options = options_of(lib, form)
        spectra = lib.stft(x, 16, **options).requires_grad_()
        del options["return_complex"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            back = lib.istft(spectra, 16, length=length, **options)
        back.square().sum().backward()
        found.append((back.detach().numpy(), spectra.grad.numpy()))
    for mine, other in zip(*found, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-8, atol=1e-9)


def test_a_signal_that_is_too_short_is_padded():
    spectra = fg.stft(fg.ones(60), 16, return_complex=True)
    with pytest.warns(UserWarning, match="padded with zeros"):
        assert fg.istft(spectra, 16, length=90)[-1] == 0


def test_complex_signals():
    found = []
    for lib in (fg, torch):
        x = lib.complex(*map(lib.tensor, SIGNAL))
        spectra = lib.stft(x, 16)
        back = lib.istft(spectra, 16, return_complex=True, onesided=False)
        found.append((spectra.numpy(), back.numpy()))
    for mine, other in zip(*found, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-9)


REFUSED = [
    "stft(t.ones(30), 4)",
    "stft(t.ones(30), 4, hop_length=0, return_complex=True)",
    "stft(t.ones(30), 8, win_length=9, return_complex=True)",
    "stft(t.ones(2, 2, 30), 8, return_complex=True)",
    "stft(t.ones(30), 8, window=t.ones(7), return_complex=True)",
    "stft(t.ones(4), 10, return_complex=True, center=False)",
    "stft(t.ones(4), 10, return_complex=True)",
    "stft(t.ones(30) + 0j, 8, onesided=True)",
    "stft(t.ones(30, dtype=t.int64), 8, return_complex=True)",
    "istft(t.ones(5, 3), 8)",
    "istft(t.ones(4, 3) + 0j, 8)",
    "istft(t.ones(5, 3) + 0j, 8, window=t.zeros(8))",
    "hann_window(-1)",
    "hann_window(3, dtype=t.int64)",
]


@pytest.mark.parametrize("text", REFUSED)
def test_refused(text):
    for lib in (fg, torch):
        with warnings.catch_warnings(), pytest.raises(RuntimeError):
            warnings.simplefilter("ignore")
            eval(f"t.{text}", {"t": lib})


def test_unknown_keywords_are_refused():
    with pytest.raises(TypeError, match="unexpected keyword argument 'dtpye'"):
        fg.hann_window(3, dtpye=fg.float64)
