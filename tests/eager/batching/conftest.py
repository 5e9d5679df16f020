"""Batched programs find and add their calls natively, as long ones do after a while, but for some tests."""

from __future__ import annotations

import zlib

import pytest

from fusegrad.compiler.native import waiting
from fusegrad.eager.batching.natively import natively


@pytest.fixture(autouse=True)
def native_or_plain(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting.install()
    monkeypatch.setattr(natively, "load", None)
    if zlib.crc32(request.node.name.encode()) % 4 == 0:
        monkeypatch.setattr(natively, "make", None)
