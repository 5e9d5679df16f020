"""Ranks that train one model, beside PyTorch's with gloo: the checks are in `programs`."""

from __future__ import annotations

from collections.abc import Callable

from oracle import torch


def test_two_ranks_train(failures: Callable[..., str]) -> None:
    assert torch.distributed.is_gloo_available()
    assert failures("training.py") == ""


def test_steps_of_four_kinds(failures: Callable[..., str]) -> None:
    """A few of them; the program itself, started as it says, does any number with any number of ranks."""
    assert torch.distributed.is_gloo_available()
    assert failures("long_training.py", "30", "float32") == ""
