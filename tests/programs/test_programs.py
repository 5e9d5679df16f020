"""Programs as people publish them: torch's losses, eagerly and jitted, and most steps replayed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg
from programs import runs

STEPS, WARM = 8, 12
# The programs whose steps are not replayed, with words of what `explain()` says.
_NUMBER = "value at"  # `return loss.item()`: each number that is looked at is a path
NOT_REPLAYED = {
    "lbfgs_fit": "LBFGS.step() cannot be recorded",
    "min_char_rnn": _NUMBER,
}


def losses_of(step: Any, batch: Any, steps: int = STEPS) -> list[np.ndarray]:
    return [runs.losses(step(*batch(i))) for i in range(steps)]


def agree(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for i, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4, err_msg=f"step {i}")


def test_there_are_many() -> None:
    assert len(runs.NAMES) >= 60
    assert set(NOT_REPLAYED) < set(runs.NAMES)


@pytest.mark.parametrize("name", runs.NAMES)
def test_eager_has_torchs_losses(name: str) -> None:
    pytest.importorskip("torch")
    program = runs.loaded(name, "torch")
    torch.manual_seed(0)
    expected = losses_of(*program.steps())
    fg.manual_seed(0)
    found = losses_of(*runs.loaded(name, "fusegrad").steps())
    if getattr(program, "DRAWS", False):  # other random numbers
        assert [f.shape for f in found] == [e.shape for e in expected] and np.isfinite(found).all()
    else:
        agree(found, expected)


@pytest.mark.parametrize("name", runs.NAMES)
def test_jitted_steps_have_eagers_losses_and_are_replayed(name: str) -> None:
    words = NOT_REPLAYED.get(name)
    fg.manual_seed(0)
    expected = losses_of(*runs.loaded(name, "fusegrad").steps(), steps=WARM)
    fg.manual_seed(0)
    step, batch = runs.loaded(name, "fusegrad").steps()
    jitted = fg.jit(step)
    agree(losses_of(jitted, batch, WARM), expected)
    assert runs.is_replayed(jitted, batch, WARM) == (words is None), jitted.explain()
    if words is not None:
        assert words in str(jitted.explain())
