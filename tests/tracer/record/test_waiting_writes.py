"""Programs put together at random that make views, write in place, and look at values now and then.

In a first call that puts off all it can their values must be eager's, whenever they are computed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.tracer.capture.api import capture
from fusegrad.tracer.record import later
from fusegrad.tracer.record.later import Later

Tensors = list[fg.Tensor]
Pick = Callable[[Any], Any]  # one of several
Statement = Callable[[Pick, Tensors, list[Any]], None]


def _view(pick: Pick, tensors: Tensors, seen: list[Any]) -> None:
    source = pick(tensors)
    ways = [lambda: source[1:], lambda: source.t(), lambda: source.detach(), lambda: source.flip(0)]
    if source.dim() == 2:
        ways += [lambda: source[:, 0], lambda: source[-1], lambda: source[:, ::2]]
    if source.is_contiguous():
        ways += [lambda: source.view(-1)]
    tensors.append(pick(ways)())


def _compute(pick: Pick, tensors: Tensors, seen: list[Any]) -> None:
    first = pick(tensors)
    others = [t for t in tensors if t.shape == first.shape]
    tensors.append(first * 0.5 + pick(others))


def _reduce(pick: Pick, tensors: Tensors, seen: list[Any]) -> None:
    source = pick(tensors)
    tensors.append(source - source.sum(0) * 0.25)


def _write(pick: Pick, tensors: Tensors, seen: list[Any]) -> None:
    target = pick(tensors)
    value = pick([t for t in tensors if t.shape == target.shape])
    ways: list[Callable[[], Any]] = [
        lambda: target.mul_(0.5),
        lambda: target.add_(value),
        lambda: target.copy_(value),
        lambda: target.__setitem__(..., value * 2),
        lambda: target.__setitem__(0, 3.0),
        lambda: target.__setitem__(slice(1, None), target[:-1] + 1),
        lambda: target.__setitem__(target > 1, 0.25),
        lambda: target.__setitem__(value > 1, (value + 1)[value > 1]),
        lambda: target.masked_fill_(value < 0, -0.5),
        lambda: target.zero_(),
    ]
    pick(ways)()


def _drop(pick: Pick, tensors: Tensors, seen: list[Any]) -> None:
    if len(tensors) > 2:
        tensors.pop(pick(range(len(tensors))))


def _look(pick: Pick, tensors: Tensors, seen: list[Any]) -> None:
    if pick(range(5)) == 0:
        seen.append(pick(tensors).sum().item())


STATEMENTS: list[Statement] = [_view, _compute, _reduce, _write, _write, _write, _drop, _look]


def program(seed: int) -> Callable[[fg.Tensor], Any]:
    """A function of a matrix: what it has in the end, what it saw, and the error that ended it."""
    generator = random.Random(seed)
    # To draw while it runs would be an effect.
    numbers = tuple(generator.randrange(1 << 30) for _ in range(200))

    def run(x: fg.Tensor) -> Any:
        drawn = iter(numbers)
        tensors, seen = [x * 2, x + 1], []

        def pick(options: Any) -> Any:
            return options[next(drawn) % len(options)]

        try:
            for _ in range(pick(range(4, 24))):
                pick(STATEMENTS)(pick, tensors, seen)
        except (RuntimeError, IndexError) as error:
            seen.append(str(error))
        return tensors, seen

    return run


@pytest.mark.one_in(2)
@pytest.mark.parametrize("block", range(4))
def test_writes_that_wait_leave_what_eager_leaves(block: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(later, "LARGE", 0)
    waited: list[bool] = []
    write = Later.write
    monkeypatch.setattr(Later, "write", lambda *given: waited.append(write(*given)) or waited[-1])
    for seed in range(200 * block, 200 * block + 200):
        x = fg.arange(20.0).reshape(4, 5) / 10 - 0.7
        made = capture(program(seed), (x,), puts_off=True)
        assert made.later is not None
        made.later.settle()
        (tensors, seen), (expected, saw) = made.result, program(seed)(x)
        assert seen == saw, seed
        for ours, theirs in zip(tensors, expected, strict=True):
            assert ours.stride() == theirs.stride(), seed
            np.testing.assert_array_equal(ours.numpy(), theirs.numpy(), str(seed))
    assert sum(waited) > 200
