"""Collectives, messages, objects and groups between two ranks: the checks are in `programs`."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.mark.parametrize("program", ["collectives.py", "replays.py"])
def test_between_two_ranks(failures: Callable[[str], str], program: str) -> None:
    assert failures(program) == ""
