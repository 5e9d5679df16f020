"""What tests of compiled functions share."""

from __future__ import annotations

import pytest

from fusegrad.compiler import entries


@pytest.fixture(params=["the long way", "by shortcuts"])
def answered(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How compiled calls are answered: as the first ones are, or as those that come often."""
    if request.param == "by shortcuts":
        monkeypatch.setattr(entries, "SHORTCUT_AFTER", 0)
    else:
        monkeypatch.setattr(entries, "SHORTCUT_AFTER", 1 << 60)
    name: str = request.param
    return name
