"""Native kernels that answer for eager, which other tests have switched off."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fusegrad.compiler import eager_kernels
from fusegrad.eager.core import large
from fusegrad.eager.core.op import REGISTRY


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[eager_kernels.EagerKernels]:
    """Kernels, and nobody else's."""
    made = eager_kernels.EagerKernels()
    monkeypatch.setattr(large.answers, "kernels", made)
    monkeypatch.setattr(large.answers, "enabled", True)
    for op in REGISTRY.values():  # native code, which may be there, asks for itself: `native/test_ways.py`
        monkeypatch.setattr(op, "run", None)
        monkeypatch.setattr(op, "large", large.SOME if op.large == 1 else op.large)
    yield made
    made.wait()
