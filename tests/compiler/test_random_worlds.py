"""Programs put together at random that read and change the world around them, jitted against eager.

A program is a list of choices, each a statement: an op, a branch or a loop on data, a write in place, a
read of outer state or a change of it, a value that leaves to a log. Between calls the world changes
too. Everything that a user could see is compared, event by event. What the generator finds becomes
a small test of its own. `python tests/compiler/test_random_worlds.py 20000 [SEED]` runs many.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg

SIZE = 4
CALLS = 7


class World:
    """What a program finds outside: tensors, numbers, a model, a log."""

    def __init__(self, seed: int) -> None:
        generator = np.random.default_rng(seed)
        self.log: list[Any] = []
        self.state = fg.tensor(generator.normal(size=SIZE).astype("f4"))
        self.weight = fg.tensor(generator.normal(size=SIZE).astype("f4"), requires_grad=True)
        self.number = 0.5
        self.count = 0
        self.table = {"scale": 2.0}
        self.layer = fg.nn.Linear(SIZE, SIZE)
        with fg.no_grad():
            for parameter in self.layer.parameters():
                parameter.copy_(fg.tensor(generator.normal(size=tuple(parameter.shape)).astype("f4") * 0.3))
        self.parts = [self.state]

    def note(self, *what: Any) -> None:
        self.log.append(what)


def write(values: list[fg.Tensor], a: fg.Tensor, amount: float) -> fg.Tensor:
    """A copy of `a`, partly written over."""
    made = a * 1
    made[1:3] = amount
    return made


def written_view(values: list[fg.Tensor], a: fg.Tensor, amount: float) -> fg.Tensor:
    """A copy of `a`, written through a view of it."""
    made = a + 0
    view = made[:2]
    view.mul_(amount)
    return made


def count_up(a: fg.Tensor, w: World) -> fg.Tensor:
    """A loop whose length depends on data."""
    steps = 0
    while a.abs().sum() < 20.0137 and steps < 3:
        a = a * 1.5 + 0.1
        steps += 1
    return a


def guarded(a: fg.Tensor, w: World) -> fg.Tensor:
    """An exception on data, caught."""
    try:
        if a.sum().item() > 1.037:  # a softmax sums to 1 within rounding
            raise ValueError("large")
        return a - 1
    except ValueError as error:
        w.note(str(error))
        return a * 0.5


def kept(a: fg.Tensor, w: World) -> fg.Tensor:
    """State that is replaced by a computed tensor."""
    w.state = (a * 0.5).detach()
    return a + w.state


def accumulated(a: fg.Tensor, w: World) -> fg.Tensor:
    """State that is written in place."""
    w.state.add_(a.detach().clamp(-1, 1))
    return a * w.state


def counted(a: fg.Tensor, w: World) -> fg.Tensor:
    """A counter outside, used in arithmetic."""
    w.count += 1
    return a + w.count * 0.01


def stepped(a: fg.Tensor, w: World) -> fg.Tensor:
    """A backward and an update inside."""
    loss = ((a.detach() * w.weight) ** 2).mean()
    w.weight.grad = None
    loss.backward()
    with fg.no_grad():
        w.weight -= 0.1 * w.weight.grad
    return a + loss.detach()


STATEMENTS: list[Callable[[fg.Tensor, fg.Tensor, World], fg.Tensor]] = [
    lambda a, b, w: a + b,
    lambda a, b, w: a * b,
    lambda a, b, w: (a * 0.3).tanh(),
    lambda a, b, w: a.sigmoid() - b,
    lambda a, b, w: a / (b.abs() + 1),
    lambda a, b, w: fg.where(a > b, a, b * 2),
    lambda a, b, w: a.softmax(0),
    lambda a, b, w: a - a.mean(),
    lambda a, b, w: a.sum() * b,
    lambda a, b, w: w.layer(a),
    lambda a, b, w: a.reshape(2, 2).T.reshape(SIZE) + b,
    lambda a, b, w: fg.cat([a[:2], b[2:]]),
    lambda a, b, w: a * w.weight,
    lambda a, b, w: a + w.state,
    lambda a, b, w: a * w.number,
    lambda a, b, w: a * w.table["scale"],
    lambda a, b, w: a * w.table.get("offset", 1.0),
    lambda a, b, w: a + sum(p.mean() for p in w.parts),
    # Not `a.sum() > b.sum()`: sums that ought to be equal differ by rounding, and not in both alike.
    lambda a, b, w: a if a.sum() > b.sum() + 0.0137 else b * 0.7,
    lambda a, b, w: a * float(b.max()) * 0.1,
    lambda a, b, w: a + int(b.sum().clamp(-2, 2) * 1.37),
    lambda a, b, w: a.detach() + b,
    lambda a, b, w: write([], a, 0.25),
    lambda a, b, w: written_view([], a, 0.5),
    lambda a, b, w: count_up(a, w),
    lambda a, b, w: guarded(a, w),
    lambda a, b, w: kept(a, w),
    lambda a, b, w: accumulated(a, w),
    lambda a, b, w: counted(a, w),
    lambda a, b, w: stepped(a, w),
    lambda a, b, w: (w.note("saw", round(a.sum().item(), 1)), a)[1],
    lambda a, b, w: (w.note("text", a.shape, str(a.dtype)), b + a)[1],
    lambda a, b, w: (w.log.append(a), a * 2)[1],
    lambda a, b, w: a + fg.rand(SIZE),
    lambda a, b, w: fg.nn.functional.dropout(a, 0.5, w.count % 2 == 0) + b,
    lambda a, b, w: a.add_(1) if not a.requires_grad else a + 1,
    lambda a, b, w: a * fg.tensor(w.number),
    lambda a, b, w: fg.stack([a, b]).amax(0),
    lambda a, b, w: a @ b * 0.1 + a,
    lambda a, b, w: a.clone().exp().clamp(max=5),
]

CHANGES: list[Callable[[World], None]] = [
    lambda w: None,
    lambda w: setattr(w, "number", w.number + 0.25),
    lambda w: setattr(w, "number", 1),
    lambda w: w.table.update(scale=-0.0),
    lambda w: w.table.update(offset=0.5),
    lambda w: w.table.pop("offset", None),
    lambda w: w.parts.append(w.weight.detach()) if len(w.parts) < 3 else w.parts.clear(),
    lambda w: setattr(w, "state", w.state * 0.5 + 0.1),
    lambda w: w.state.mul_(0.5),
    lambda w: w.layer.weight.data.mul_(0.9),
    lambda w: setattr(w, "count", 0),
]


def program_of(choices: list[tuple[int, int, int]]) -> Callable[..., fg.Tensor]:
    """The function that runs the statements on its arguments and on earlier values."""

    def program(x: fg.Tensor, y: fg.Tensor, world: World) -> fg.Tensor:
        values = [x, y]
        for statement, first, second in choices:
            a, b = values[-1 - first % len(values)], values[-1 - second % len(values)]
            values.append(STATEMENTS[statement](a, b, world))
        return values[-1] + values[len(values) // 2] * 0.5

    return program


def run(function: Callable[..., fg.Tensor], seed: int, changes: list[int]) -> list[Any]:
    """Everything that a user could see of some calls in a changing world."""
    fg.manual_seed(seed)
    world = World(seed)
    events: list[Any] = []
    for call, change in enumerate(changes):
        generator = np.random.default_rng(seed + call % 2)
        tracked = call % 3 != 2
        x = fg.tensor(generator.normal(size=SIZE).astype("f4"), requires_grad=tracked)
        y = fg.tensor(generator.normal(size=SIZE).astype("f4"))
        try:
            result = function(x, y, world)
            events.append(seen(result))
            if result.requires_grad:
                result.sum().backward()
        except Exception as error:
            # Which of two errors about memory written too early comes first, is not compared.
            events.append((type(error).__name__, str(error)[:60]))
        # How often a gradient was added into is the engine's own business.
        gradients = (x.grad, world.weight.grad, world.layer.weight.grad)
        # After an error, some leaves have a part of their gradient; which, depends on what comes first.
        failed = isinstance(events[-1], tuple) and isinstance(events[-1][0], str)
        events += [None if g is None or failed else (seen(g)[0],) for g in gradients]
        events += [seen(x), seen(y), seen(world.state), seen(world.weight), world.count]
        events += [
            tuple(seen(w) for w in what) if isinstance(what, tuple) else seen(what) for what in world.log
        ]
        world.log.clear()
        world.weight.grad = world.layer.weight.grad = world.layer.bias.grad = None
        CHANGES[change](world)
    events.append(seen(fg.rand(2)))
    return events


def seen(value: Any) -> Any:
    """A value as it can be compared after the world has gone on."""
    if isinstance(value, fg.Tensor):
        return value.detach().numpy().copy(), value.requires_grad, value.stride(), value._version
    return value


def assert_same(ours: list[Any], theirs: list[Any]) -> None:
    assert len(ours) == len(theirs)
    for place, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if isinstance(b, tuple) and b and isinstance(b[0], np.ndarray):
            assert isinstance(a, tuple), (place, a, b)
            np.testing.assert_allclose(a[0], b[0], rtol=2e-3, atol=2e-4, err_msg=f"event {place}")
            assert a[1:] == b[1:], (place, a, b)
        else:
            assert repr(a) == repr(b), (place, a, b)  # NaN is not equal to itself


def check(seed: int) -> int:
    """Run the program of `seed` jitted and eager; how many calls were answered by compiled code."""
    choose = random.Random(seed)
    length = choose.randint(1, 9)
    choices = [
        (choose.randrange(len(STATEMENTS)), choose.randrange(5), choose.randrange(5)) for _ in range(length)
    ]
    changes = [choose.choice([0, 0, 0, choose.randrange(len(CHANGES))]) for _ in range(CALLS)]
    program = program_of(choices)
    jitted = fg.jit(program)
    assert_same(run(jitted, seed % 1000, changes), run(program, seed % 1000, changes))
    return jitted.stats.compiled_calls


@pytest.mark.parametrize("block", range(4))
def test_random_programs_show_the_world_what_eager_shows(block: int):
    answered = [check(seed) for seed in range(40 * block, 40 * block + 40)]
    assert sum(map(bool, answered)) >= 30


if __name__ == "__main__":
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    failed = compiled = 0
    for number in range(first, first + int(sys.argv[1])):
        try:
            compiled += bool(check(number))
        except Exception as error:
            failed += 1
            print(f"seed {number}: {type(error).__name__}: {str(error)[:400]}", flush=True)
    print(f"{sys.argv[1]} programs, {failed} differ, {compiled} with compiled calls")
