"""What tests of compiled functions share."""

from __future__ import annotations

import pytest

from fusegrad.compiler import entries
from fusegrad.compiler.deferred import op_trie
from fusegrad.compiler.llvm.target import Target
from fusegrad.compiler.program import pipeline


@pytest.fixture(params=["the long way", "by shortcuts"])
def answered(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How compiled calls are answered: as the first ones are, or as those that come often."""
    if request.param == "by shortcuts":
        monkeypatch.setattr(entries, "SHORTCUT_AFTER", 0)
    else:
        monkeypatch.setattr(entries, "SHORTCUT_AFTER", 1 << 60)
    name: str = request.param
    return name


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which way is faster must not decide what is tested."""
    monkeypatch.setattr(op_trie.Plan, "note", lambda *_: None)


@pytest.fixture
def always_deferred(unmeasured: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that can be deferred are."""
    monkeypatch.setattr(op_trie.Plan, "defers", lambda self: True)


@pytest.fixture
def axes_for_wide_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The axes of vectors are chosen as on a machine with AVX-512, whichever runs the kernels."""
    monkeypatch.setattr(pipeline, "host", lambda: Target(64, avx512=True))
