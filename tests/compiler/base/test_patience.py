"""What takes long to compile is told, once, with the line that most of it comes from."""

from __future__ import annotations

import re

import pytest

import fusegrad as fg
from fusegrad.compiler.base import patience

NUMBERS = [*range(300)]


def long_loop(x: fg.Tensor) -> fg.Tensor:
    for number in NUMBERS:  # a loop over a list, of which every round is recorded
        x = x * 0.5 + number
    return x


def test_a_line_says_what_takes_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(patience, "PATIENCE", 0.0)
    fg.jit(long_loop)(fg.ones(3))
    said = capsys.readouterr().err
    assert re.search(r"still compiling <jit long_loop>: .* 600 ops, 600 of them from test_patience", said)
    assert said.count("still compiling") == 1


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_nothing_is_said_of_what_is_short_or_fast(
    seconds: float, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(patience, "PATIENCE", seconds)
    function = long_loop if seconds else fg.sin
    fg.jit(function)(fg.ones(3))
    assert "still compiling" not in capsys.readouterr().err
