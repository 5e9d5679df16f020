"""Deterministic algorithms by a number or a name, and what settings refuse: as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from oracle import torch

import fusegrad as fg

MODES = [0, 1, 2, True, "default", "warn", "error"]


@pytest.mark.parametrize("mode", MODES)
def test_deterministic_debug_mode(mode: Any):
    def run(t: Any) -> Any:
        try:
            t.set_deterministic_debug_mode(mode)
            return (
                t.get_deterministic_debug_mode(),
                t.are_deterministic_algorithms_enabled(),
                t.is_deterministic_algorithms_warn_only_enabled(),
            )
        finally:
            t.use_deterministic_algorithms(False)

    assert run(fg) == run(torch)


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.set_deterministic_debug_mode(3),
        lambda t: t.set_deterministic_debug_mode("all"),
        lambda t: t.use_deterministic_algorithms(1),
        lambda t: t.use_deterministic_algorithms(True, warn_only=1),
        lambda t: t.ones(2).dim_order(ambiguity_check="x"),
    ],
)
def test_what_settings_refuse(call: Callable[[Any], Any]):
    kinds = []
    for t in (fg, torch):
        with pytest.raises((RuntimeError, TypeError)) as error:
            call(t)
        kinds.append(type(error.value))
    assert kinds[0] is kinds[1]
