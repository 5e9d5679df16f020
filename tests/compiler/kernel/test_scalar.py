"""Scalar expressions of ops, as kernels are built of them."""

from __future__ import annotations

from typing import Any

import pytest

import fusegrad as fg
from fusegrad.eager.core.op import REGISTRY


@pytest.mark.parametrize("scalar", ["sine", lambda b, x: b.square(b.sin(x))])
def test_a_name_that_is_no_primitive_is_a_fault(scalar: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(REGISTRY["sin"], "scalar", scalar)
    with pytest.raises(AttributeError, match=r"kernels have no primitive 's(ine|quare)'"):
        fg.jit(lambda x: x.sin() + 1)(fg.ones(3))
    monkeypatch.delenv("FUSEGRAD_FAULTS")
    function = fg.jit(lambda x: x.sin() + 1)
    assert all(fg.equal(function(fg.zeros(3)), fg.ones(3)) for _ in range(2))
    assert "kernels have no primitive" in str(function.explain())
