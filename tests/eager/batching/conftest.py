"""Batched programs find and add their calls natively, as long ones do after a while, but for some tests; and
however few examples there are, they are a batch.
"""

from __future__ import annotations

import zlib

import pytest

from fusegrad.compiler.native import waiting
from fusegrad.eager.batching.costs import Costs
from fusegrad.eager.batching.natively import natively


@pytest.fixture(autouse=True)
def native_or_plain(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting.install()
    monkeypatch.setattr(natively, "load", None)
    if "costs" not in request.node.path.name:
        monkeypatch.setattr(Costs, "loses", lambda self, examples: "")
    if zlib.crc32(request.node.name.encode()) % 4 == 0:
        monkeypatch.setattr(natively, "make", None)
        monkeypatch.setattr(natively, "order", None)
