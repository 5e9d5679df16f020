"""Native kernels that answer for eager, which other tests have switched off."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fusegrad.compiler import eager_kernels
from fusegrad.eager.core import large


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[eager_kernels.EagerKernels]:
    """Kernels, and nobody else's."""
    made = eager_kernels.EagerKernels()
    monkeypatch.setattr(large.answers, "kernels", made)
    monkeypatch.setattr(large.answers, "enabled", True)
    yield made
    made.wait()
