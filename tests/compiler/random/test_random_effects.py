"""Loops with effects put together at random, of the table of effects: the world is as eager leaves it.

What the generator finds becomes a line of the table. More of them:
`PYTHONPATH=tests/helpers python tests/compiler/random/test_random_effects.py COUNT SEED`.
"""

from __future__ import annotations

import random

import pytest
import random_functions
from effects.programs import WAYS, difference, source_of
from effects.table import EFFECTS

from fusegrad.tracer.ir import rolled
from fusegrad.tracer.loops import alike, rolling

OPS = [
    "h = fg.tanh(h)", "h = h * 0.9 + h.mean() * 0.1", "h = fg.where(h > 0, h, h * 0.5)", "k = h * 2",
    "h = h + own.n * 0.001", "h = h * (1 + Stats.n * 0.0001)", "h = h + slots.n * 0.001",
    "if h.sum() > 0: h = h * 0.5", "h = h if own.last is None else h * 0.7 + own.last * 0.1",
    "h = h if slots.last is None else h * 0.9", "h = h + kept.detach() * 0.01",
]  # fmt: skip


def program(seed: int) -> tuple[str, bool]:
    """The source of a program, and whether it is derived."""
    draw = random.Random(seed)
    names = [*EFFECTS]
    # Kinds alike in number: of stores there are many forms.
    lines = [EFFECTS[draw.choice(names)] for _ in range(draw.choice([1, 1, 2, 3]))]
    lines += draw.sample(OPS, draw.randint(0, 3))
    draw.shuffle(lines)
    rounds = draw.choice([8, 16])
    return source_of("\n".join(lines), draw.choice([*WAYS]), rounds), draw.random() < 0.3


def check(seed: int) -> None:
    """Compare one program."""
    source, derived = program(seed)
    found, _ = difference(source, f"<random effects {seed}>", derived)
    assert not found, f"{source[source.index('def function') :]}\n{found}"


@pytest.fixture(autouse=True)
def few_rounds_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolling, "FEWEST_SMALL", 6)
    monkeypatch.setattr(rolled, "MANY", 100)


@pytest.mark.parametrize("seed", range(5))
def test_random_effects_are_as_eager_leaves_them(seed: int) -> None:
    check(seed)


def test_a_planted_fault_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is counted of what rounds do."""
    monkeypatch.setattr(alike.Done, "is_like", lambda self, other: True)
    assert random_functions.differing(check, range(5, 6))


if __name__ == "__main__":
    rolling.FEWEST_SMALL, rolled.MANY = 6, 100
    random_functions.run(check)
