"""Compiling without the garbage collector."""

from __future__ import annotations

import gc

import pytest

from fusegrad.eager.garbage import uncollected


def test_the_collector_waits_for_the_compiler_and_is_left_as_it_was():
    seen: list[bool] = []

    @uncollected
    def work(fails: bool) -> None:
        seen.append(gc.isenabled())
        if fails:
            raise ValueError

    work(False)
    assert gc.isenabled()
    with pytest.raises(ValueError):
        work(True)
    assert gc.isenabled()
    gc.disable()
    try:
        work(False)
        assert not gc.isenabled()
    finally:
        gc.enable()
    assert seen == [False, False, False]
