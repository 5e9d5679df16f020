"""Programs as people publish them: torch's losses, eagerly and jitted, and most steps replayed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg
from fusegrad.compiler.base import background
from programs import runs

STEPS, WARM = 8, 12
OURS = sorted({*runs.NAMES} - {*runs.STRANGERS})
# The programs whose steps are not replayed, with words of what `explain()` says.
_NUMBER = "value at"  # `return loss.item()`: each number that is looked at is a path
_SIZE = "value ("  # of what a mask chooses: each is a path
_OTHERS = "what was other than before again and again"  # within twenty steps
NOT_REPLAYED = {
    "lbfgs_fit": "LBFGS.step() cannot be recorded",
    "min_char_rnn": _NUMBER,
    # The strangers' steps (`strangers.toml`).
    "gigagan": "apply_gradient_penalty_every",
    "block_sparse_adaptive": _SIZE,
    "earthnet_workflow": "changes an item of a dict that is part of the arguments",
    "equiformer_denoise": "advances an iterator that gives a Batch object",
    "equiformer_reversible": "reads the random generator's state",
    "fots_trainer": "indexes with a slice object",
    "ghm_loss": _OTHERS,
    "image_classification": "`__dict__` of a SGD cannot be guarded",
    "magvit_trainer": "attribute `lrs` of a LinearWarmup",
    "mask_gan_loss": "sets `criterion` of a TBCELoss object",
    "roi_temporal_pool": _NUMBER,
    "style_gan": _OTHERS,
    "triangulation_train": "sets anomaly mode",
    "yolo_solver": _SIZE,
}


def losses_of(step: Any, batch: Any, steps: int = STEPS) -> list[np.ndarray]:
    return [runs.losses(step(*batch(i))) for i in range(steps)]


def agree(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for i, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4, err_msg=f"step {i}")


def test_there_are_many() -> None:
    assert len(runs.NAMES) >= 60
    assert set(NOT_REPLAYED) < set(runs.NAMES)


@pytest.mark.parametrize("name", OURS)
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


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", OURS)
def test_jitted_steps_have_eagers_losses_and_are_replayed(name: str, warm: int = WARM) -> None:
    words = NOT_REPLAYED.get(name)
    fg.manual_seed(0)
    expected = losses_of(*runs.loaded(name, "fusegrad").steps(), steps=warm)
    fg.manual_seed(0)
    step, batch = runs.loaded(name, "fusegrad").steps()
    jitted = fg.jit(step)
    agree(losses_of(jitted, batch, warm), expected)
    assert runs.is_replayed(jitted, batch, warm) == (words is None), jitted.explain()
    if words is not None:
        assert words in str(jitted.explain())


@pytest.mark.one_in(12)
@pytest.mark.parametrize("name", runs.STRANGERS)
def test_steps_of_strangers(name: str) -> None:
    test_eager_has_torchs_losses(name)
    before = background.bound()
    fg.set_compile_budget(None)  # some are long, and a machine may be busy
    try:
        # Some do something else every few steps.
        test_jitted_steps_have_eagers_losses_and_are_replayed(name, 20)
    finally:
        fg.set_compile_budget(before)
