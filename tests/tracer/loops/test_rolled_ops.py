"""Rounds may have any op that does not refuse input because of values: sorts, scans, places, convolutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rolled_loops import walk

import fusegrad as fg
from fusegrad.nn import functional as F
from fusegrad.tracer.record import later

ROUNDS = 150
Round = Callable[[fg.Tensor, fg.Tensor], fg.Tensor]


def viterbi(h: fg.Tensor, row: fg.Tensor) -> fg.Tensor:
    best, _ = (h[:, None] + row).max(1)
    return best * 0.5 + row


def k_largest(h: fg.Tensor, row: fg.Tensor) -> fg.Tensor:
    values, _ = h.topk(2)
    return fg.cat([values, row[2:]]) * 0.9 + row * 0.1


ROUND: dict[str, Round] = {
    "sort": lambda h, row: h.sort().values * 0.5 + row,
    "max of a dimension": viterbi,
    "topk": k_largest,
    "median": lambda h, row: h * 0.5 + row * h.median(0).values,
    "kthvalue": lambda h, row: h * 0.5 + row.kthvalue(2).values,
    "argmax": lambda h, row: h * 0.5 + row * (h.argmax() > 1),
    "cumsum": lambda h, row: (h.cumsum(0) * 0.1 + row).tanh(),
    "cumprod": lambda h, row: (h + row).tanh().cumprod(0),
    "cummax": lambda h, row: (h * 0.9 + row).cummax(0).values,
    "logcumsumexp": lambda h, row: fg.logcumsumexp(h * 0.5 + row, 0) * 0.5,
    "qr": lambda h, row: fg.linalg.qr((h + row).reshape(2, 2))[0].reshape(4),
    "det": lambda h, row: (h * 0.5 + row) / (1 + fg.linalg.det(h.reshape(2, 2)).abs()),
    "slogdet": lambda h, row: h * 0.5 + row * fg.linalg.slogdet(row.reshape(2, 2))[1],
    "convolution": lambda h, row: F.conv1d(h[None, None], row[None, None, :3], padding=1)[0, 0].tanh(),
    "max_pool": lambda h, row: F.max_pool1d((h + row)[None], 3, 1, 1)[0].tanh(),
    "avg_pool": lambda h, row: F.avg_pool1d((h + row)[None], 3, 1, 1)[0],
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", ROUND)
@pytest.mark.parametrize("derived", [False, True])
def test_they_are_rolled(name: str, derived: bool) -> None:
    function = walk(ROUND[name])
    called: Any = fg.value_and_grad(function, (0, 1)) if derived else function
    jitted = fg.jit(called)
    for _ in range(3):
        x = fg.randn(ROUNDS, 4, dtype=fg.float64), fg.randn(4, dtype=fg.float64)
        expected, found = called(*x), jitted(*x)
        pairs = zip((expected[0], *expected[1]), (found[0], *found[1]), strict=True) if derived else ()
        for a, b in pairs or [(expected, found)]:
            np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-9, atol=1e-12)
    assert "was not rolled" not in str(jitted.explain())
    assert jitted.stats.compiled_calls >= 2


def test_a_long_loop_that_sorts_is_not_written_out() -> None:
    jitted = fg.jit(walk(ROUND["sort"]))
    jitted(fg.randn(ROUNDS, 4), fg.randn(4))
    assert "rounds of a loop" in str(jitted.explain())


REFUSED: dict[str, Callable[[fg.Tensor], Any]] = {
    "argmax": lambda x: x[:0].argmax(0),
    "argmax of all": lambda x: x[:0].argmax(),
    "max": lambda x: x[:, :0].max(1),
    "median": lambda x: x[:0].median(0),
    "mode": lambda x: x[:0].mode(0),
    "kthvalue": lambda x: x.kthvalue(99),
    "topk": lambda x: x.topk(99),
    "cumsum": lambda x: x.cumsum(9),
    "conv2d": lambda x: F.conv2d(x, fg.ones(2, 7, 3, 3)),
    "max_pool2d": lambda x: F.max_pool2d(x, 40),
    "fold": lambda x: F.fold(x.reshape(2, 3, 36), (9, 9), (2, 2)),
    "det": lambda x: fg.linalg.det(x[:, :, :2]),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused_at_its_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though ops wait."""
    monkeypatch.setattr(later, "LARGE", 1)

    def function(x: fg.Tensor) -> str:
        y = x * 2
        try:
            REFUSED[name](y)
        except (RuntimeError, IndexError, ValueError) as error:
            return str(error).splitlines()[0]
        return ""

    x, jitted = fg.ones(2, 3, 6, 6), fg.jit(function)
    expected = function(x)
    assert expected
    assert [jitted(x) for _ in range(3)] == [expected] * 3
