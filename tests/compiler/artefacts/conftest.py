"""Each test of artefacts has an empty cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusegrad.compiler.artefacts import folder
from fusegrad.compiler.llvm import llvm_jit


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the test's own."""
    path = tmp_path / "cache"
    monkeypatch.setenv(folder.SETTING, str(path))
    monkeypatch.setattr(folder, "_told", False)
    monkeypatch.setattr(llvm_jit, "_found", {})
    return path
