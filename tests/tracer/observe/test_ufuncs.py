"""NumPy's functions of plain numbers in recorded runs: followed like those of `math`; of arrays, not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jit_checks import sealed

import fusegrad as fg

SETTINGS = {"scale": 16.0}
PURE: dict[str, Callable[[Any], Any]] = {
    "attention": lambda x: (x @ x.t() / np.sqrt(x.shape[-1])).softmax(-1),
    "of a setting": lambda x: x * np.exp(-SETTINGS["scale"] / 10),
    "of two": lambda x: x * np.maximum(2, SETTINGS["scale"]),
    "of its own results": lambda x: x * np.log(np.float32(3)) + np.floor(np.sqrt(7)),
    "with two results": lambda x: x * np.modf(2.5)[0],
}
OTHER: dict[str, Callable[[Any], Any]] = {
    "of an array": lambda x: x * float(np.sqrt(x.detach().numpy()).sum()),
    "that warns": lambda x: x + np.log(SETTINGS["scale"] * 0),
    "with keywords": lambda x: x * np.sqrt(4.0, dtype="f4"),
}


@pytest.mark.parametrize("name", PURE)
def test_numbers_of_ufuncs_are_replayed(name: str):
    jitted = fg.jit(PURE[name])
    for seed in range(6):
        fg.manual_seed(seed)
        x = fg.rand(4, 9, requires_grad=True)
        if seed == 3:
            sealed(jitted)
        assert fg.allclose(jitted(x), PURE[name](x), rtol=1e-5)


def test_a_setting_that_a_ufunc_reads_is_guarded():
    jitted, x = fg.jit(PURE["of a setting"]), fg.ones(3)
    try:
        for scale in (16.0, 16.0, 16.0, 3.0, 16.0):
            SETTINGS["scale"] = scale
            assert fg.allclose(jitted(x), PURE["of a setting"](x))
    finally:
        SETTINGS["scale"] = 16.0


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("name", OTHER)
def test_other_uses_are_not(name: str):
    jitted = fg.jit(OTHER[name])
    for seed in range(5):
        fg.manual_seed(seed)
        x = fg.rand(3)
        assert fg.allclose(jitted(x), OTHER[name](x), rtol=1e-5)


def test_a_warning_that_is_an_error_comes_at_every_call():
    jitted = fg.jit(OTHER["that warns"])
    with np.errstate(divide="raise"):
        for _ in range(5):
            with pytest.raises(FloatingPointError):
                jitted(fg.ones(3))
