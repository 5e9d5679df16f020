"""What all tests share: a fault of the compiler fails the test that meets it.

To a user's program such a fault only means that a slower way is taken, so tests of results would not see it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from fusegrad.compiler.base import background
from fusegrad.eager.core import large, settings


def pytest_configure() -> None:
    # Through the environment, since it holds for the processes that tests start, too.
    os.environ["FUSEGRAD_FAULTS"] = "raise"


@pytest.fixture(autouse=True)
def eager_is_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eager is what tests compare with: native kernels that answer for it have tests of their own."""
    monkeypatch.setattr(large.answers, "enabled", False)


@pytest.fixture(autouse=True)
def calls_wait(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Calls wait for the compiler however slow the machine is; what some have compiled beside the program has
    gone well.
    """
    monkeypatch.setattr(settings.budget, "seconds", None)
    yield
    background.worker.wait()


@pytest.fixture
def faults_are_covered(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that plant faults: they are dealt with as in a user's program."""
    monkeypatch.delenv("FUSEGRAD_FAULTS")
