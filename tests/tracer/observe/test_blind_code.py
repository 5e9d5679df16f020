"""Code that cannot look at the world: generators that only hand on what lists hold, functions of numbers; and
such as look like them and do look. Beside eager: what calls give, what they leave, which items come.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.tracer.observe.world import blind

WORLD = SimpleNamespace(scale=1.0, kept=None)
WEIGHT = fg.ones(3)
NUMBER = 0.5
schedules = fg.optim.lr_scheduler

# ---------------------------------------------------------------------------------- iterators


def cycle(data: Any) -> Iterator[Any]:
    while True:
        for batch in data:  # noqa: UP028
            yield batch


def pairs(data: Any, label: str = "a") -> Iterator[Any]:
    """With a word of what it does."""
    while True:
        for batch in data:
            yield batch, label


def hands_on(data: Any) -> Iterator[Any]:
    while 1:
        yield from data


def nested(data: Any) -> Iterator[Any]:
    return cycle(cycle(data))


def reads_attribute(data: Any) -> Iterator[Any]:
    for batch in itertools.cycle(data):
        yield batch * WORLD.scale


def reads_tensor(data: Any) -> Iterator[Any]:
    while True:
        for batch in data:
            yield batch * WEIGHT


def reads_global(data: Any) -> Iterator[Any]:
    while True:
        for batch in data:
            yield batch + NUMBER


def draws(data: Any) -> Iterator[Any]:
    while True:
        for batch in data:
            yield batch + fg.rand(1)


def chooses(data: Any) -> Iterator[Any]:
    while True:
        for batch in data:
            if WORLD.scale < 3:
                yield batch
            else:
                yield -batch


def changes(data: Any) -> Iterator[Any]:
    while True:
        for batch in data:
            WORLD.scale += 10
            yield batch


def over_a_looking_one(data: Any) -> Iterator[Any]:
    return cycle(reads_attribute(data))


BLIND = {f.__name__: f for f in (cycle, pairs, hands_on, nested)}
LOOKING = {
    f.__name__: f
    for f in (reads_attribute, reads_tensor, reads_global, draws, chooses, changes, over_a_looking_one)
}


def _sets(i: int) -> None:
    WORLD.scale = float(i % 5)


def _writes(i: int) -> None:
    WEIGHT.mul_(1.5)


def _draws(i: int) -> None:
    WORLD.kept = fg.rand(2)


def _rebinds(i: int) -> None:
    global NUMBER
    NUMBER = i * 0.25


def _prints(i: int) -> None:
    print("step", i)


CHANGES: dict[str, Callable[[int], None]] = {
    "attribute": _sets, "tensor": _writes, "draw": _draws, "global": _rebinds, "print": _prints,
}  # fmt: skip


def outcomes(iterator: str, change: str, jitted: bool, calls: int = 9) -> tuple[list[Any], Any]:
    """What calls give that change something and then ask, and what is left."""
    global NUMBER
    fg.manual_seed(0)
    WORLD.scale, WORLD.kept, NUMBER = 1.0, None, 0.5
    WEIGHT.fill_(1.0)
    data = [fg.full((3,), float(i)) for i in range(4)]
    given = {**BLIND, **LOOKING}[iterator](data)
    changed = CHANGES[change]

    def step(i: int) -> Any:
        changed(i)
        item = next(given)
        batch = item[0] if type(item) is tuple else item
        return (batch * WORLD.scale + NUMBER).sum() + WEIGHT.sum()

    run = fg.jit(step) if jitted else step
    found = [run(i).item() for i in range(calls)]
    kept = [] if WORLD.kept is None else WORLD.kept.tolist()
    return [*found, WORLD.scale, *kept, NUMBER, *WEIGHT.tolist(), fg.rand(1).item()], run


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("iterator", [*BLIND, *LOOKING])
def test_items_are_those_of_eager(iterator: str, change: str) -> None:
    expected, _ = outcomes(iterator, change, False)
    found, run = outcomes(iterator, change, True)
    assert found == pytest.approx(expected, rel=1e-5)
    if iterator in BLIND:
        assert run.stats.compiled_calls >= 3, run.explain()


def test_lists_that_the_function_changes_are_seen() -> None:
    def made() -> Callable[[int], Any]:
        data = [fg.full((2,), float(i)) for i in range(3)]
        given = cycle(data)

        def step(i: int) -> Any:
            data[i % 3] = fg.full((2,), 10.0 + i)
            return next(given).sum()

        return step

    eager, jitted = made(), fg.jit(made())
    assert [jitted(i).item() for i in range(8)] == [eager(i).item() for i in range(8)]


def test_an_iterator_taken_for_blind_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blind, "_only_hands_on", lambda iterator: True)
    differ = [
        (iterator, change)
        for iterator, change in [
            ("reads_attribute", "attribute"),
            ("reads_tensor", "tensor"),
            ("draws", "draw"),
        ]
        if outcomes(iterator, change, True)[0]
        != pytest.approx(outcomes(iterator, change, False)[0], rel=1e-5)
    ]
    assert differ


# ---------------------------------------------------------------------------------- answers and numbers


def test_numbers_become_inputs_where_items_wait_as_well() -> None:
    """A call that misses when it has asked already is recorded at once, and its numbers are counted, too."""
    given = cycle([fg.full((2,), float(i)) for i in range(3)])
    owner = SimpleNamespace(steps=0)

    @fg.jit
    def step() -> Any:
        batch = next(given)
        scaled = batch * owner.steps
        owner.steps = owner.steps + 1
        if batch.sum() > 1:
            scaled = scaled + 1
        return scaled.sum()

    found = [step().item() for _ in range(14)]
    assert found == [2.0 * (i % 3) * i + 2 * (i % 3 > 0) for i in range(14)]
    assert step.stats.compiled_calls >= 6, step.explain()


# ---------------------------------------------------------------------------------- functions of schedules

BURN = 8.0


def _ramp(epoch: int) -> float:
    factor = 1 - math.exp(-(epoch + 1) / BURN)
    if factor < 0.2:
        factor = 0.2
    return factor


def _looks(epoch: int) -> float:
    return 1.0 / (1.0 + abs(float(WEIGHT.sum())))


def _looks_at_attributes(epoch: int) -> float:
    return 1.0 / (1.0 + WORLD.scale)


FUNCTIONS: dict[str, Callable[[int], float]] = {
    "power": lambda epoch: 0.9**epoch, "ramp": _ramp, "numpy": lambda epoch: 1 - np.exp(-(epoch + 1) / BURN),
    "chosen": lambda epoch: 1.0 if epoch < 3 else max(0.1, 2.0 / (epoch + 1)),
    "tensor": _looks, "attribute": _looks_at_attributes,
}  # fmt: skip
COMPUTE = {"power", "ramp", "numpy", "chosen"}


def trained(name: str, jitted: bool) -> tuple[list[Any], Any]:
    """What steps leave that step their schedule before they do other things."""
    WORLD.scale = 1.0
    WEIGHT.fill_(1.0)
    w = fg.ones(3, requires_grad=True)
    optimizer = fg.optim.SGD([w], lr=0.1, momentum=0.5)
    schedule = schedules.LambdaLR(optimizer, FUNCTIONS[name])

    def step(x: fg.Tensor) -> Any:
        optimizer.zero_grad()
        loss = ((w - x) ** 2).sum()
        loss.backward()
        optimizer.step()
        schedule.step()
        WEIGHT.add_(x)
        WORLD.scale = WORLD.scale + 1.0
        return loss

    run = fg.jit(step) if jitted else step
    found = [run(fg.full((3,), 0.5 * i)).item() for i in range(9)]
    return [*found, *w.tolist(), float(optimizer.param_groups[0]["lr"])], run


@pytest.mark.parametrize("name", FUNCTIONS)
def test_schedules_may_be_stepped_before_other_things(name: str) -> None:
    expected, _ = trained(name, False)
    found, run = trained(name, True)
    assert found == pytest.approx(expected, rel=1e-5)
    assert blind.only_computes(FUNCTIONS[name]) == (name in COMPUTE)
    if name in COMPUTE:
        assert run.stats.compiled_calls >= 5, run.explain()


def test_what_is_done_between_two_schedules_is_seen_by_the_first() -> None:
    def made() -> Callable[[], Any]:
        w, weight = fg.ones(3, requires_grad=True), fg.ones(3)
        first, second = fg.optim.SGD([w], lr=0.1), fg.optim.SGD([w], lr=0.1)
        looks = schedules.LambdaLR(first, lambda epoch: 1.0 / (1.0 + float(weight.sum())))
        also_looks = schedules.LambdaLR(second, lambda epoch: 0.5 + 0.0 * WORLD.scale)

        def step() -> Any:
            first.zero_grad()
            loss = (w * w).sum()
            loss.backward()
            first.step()
            looks.step()
            weight.add_(1.0)
            also_looks.step()
            return loss

        return step

    eager, jitted = made(), fg.jit(made())
    assert [jitted().item() for _ in range(8)] == pytest.approx([eager().item() for _ in range(8)], rel=1e-5)


def test_a_function_taken_for_one_of_numbers_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    expected, _ = trained("attribute", False)
    monkeypatch.setattr(blind, "only_computes", lambda function: True)
    found, _ = trained("attribute", True)
    assert found != pytest.approx(expected, rel=1e-5)


def _not_of_numbers(value: float) -> list[Any]:
    other = [value]
    return [
        lambda x: other[0], lambda x: x.real, lambda x: [x], lambda x: open(x), lambda x, y=other: x,
        lambda *x: 1,
        lambda x: (lambda: x)(), lambda x: x(1), lambda x: WORLD.scale, lambda x: sum(i for i in range(x)),
        lambda x: np.random.rand(), lambda x: f"{x}", lambda x: print(x), lambda x: round(x, ndigits=2),
    ]  # fmt: skip


@pytest.mark.parametrize("number", range(14))
def test_what_does_more_than_to_compute(number: int) -> None:
    assert not blind.only_computes(_not_of_numbers(1.0)[number])
