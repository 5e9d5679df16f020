"""Programs put together at random that read and change the world around them, jitted against eager.

A program is a list of choices, each a statement: an op, a branch or a loop on data, a write in place, a
read of outer state or a change of it, a value that leaves to a log, a step of an optimizer. Between calls
the world, the arguments' shapes, types and numbers change too. Everything that a user could see is compared,
event by event. What the generator finds becomes a small test of its own.
`PYTHONPATH=tests/helpers python tests/compiler/random/test_random_worlds.py 20000 [SEED]` runs many.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from random_statements import (
    AFTER,
    CALLS,
    CHANGES,
    RETURNS,
    SIZE,
    STATEMENTS,
    WRITING,
    Options,
    Pair,
    World,
    tensors_in,
)

import fusegrad as fg


@dataclass
class Plan:
    """What the calls of a program are."""

    choices: list[tuple[int, int, int]]
    returned: int
    changes: list[int]
    after: list[int]
    shapes: list[tuple[int, ...]]
    dtypes: list[str]
    options: list[tuple[float, int, bool]]
    modes: list[bool]
    seed: int
    backward: str

    @classmethod
    def of(cls, seed: int) -> Plan:
        choose = random.Random(seed)
        length = choose.randint(1, 9)
        choices = [
            (choose.randrange(len(STATEMENTS)), choose.randrange(5), choose.randrange(5))
            for _ in range(length)
        ]

        def mostly(usual: Any, other: Callable[[], Any], chance: float) -> list[Any]:
            return [other() if choose.random() < chance else usual for _ in range(CALLS)]

        changes = mostly(0, lambda: choose.randrange(len(CHANGES)), 0.25)
        after = mostly(0, lambda: choose.randrange(len(AFTER)), choose.choice((0.0, 0.4)))
        batched = choose.random() < 0.5
        moving = choose.choice((0.0, 0.0, 0.5))
        shapes = mostly(
            (3, SIZE) if batched else (SIZE,), lambda: (choose.randint(1, 5), SIZE), moving * batched
        )
        dtypes = mostly("f4", lambda: "f8", choose.choice((0.0, 0.0, 0.3)))
        usual = choose.choice([(0.5, 2, True), (2.0, 1, False)])
        options = mostly(
            usual,
            lambda: (
                choose.choice((0.25, -0.0, 3.0, choose.random())),
                choose.randint(0, 3),
                choose.random() < 0.5,
            ),
            choose.choice((0.0, 0.2, 0.8)),
        )
        modes = mostly(True, lambda: False, 0.1)
        backward = choose.choice(["once", "once", "twice", "graph"])
        returned = choose.choice([0, 0, choose.randrange(len(RETURNS))])
        if backward == "graph":
            # A derivative that is derived again computes the forward again, and refuses inputs that were
            # written meanwhile, also where eager needs them no more.
            after = [0] * CALLS
            choices = [c for c in choices if not WRITING & {*STATEMENTS[c[0]].__code__.co_names}]
        return cls(choices, returned, changes, after, shapes, dtypes, options, modes, seed % 1000, backward)

    def program(self) -> Callable[..., Any]:
        """The function that runs the statements on its arguments and on earlier values."""
        choices, give = self.choices, RETURNS[self.returned]

        def program(pair: Pair, world: World, options: Options) -> Any:
            values = [*pair]
            for statement, first, second in choices:
                a, b = values[-1 - first % len(values)], values[-1 - second % len(values)]
                values.append(STATEMENTS[statement](a, b, world, options))
            return give(values, options)

        return program

    def run(self, jit: Callable[..., Any], function: Callable[..., Any], nudge: int = 0) -> list[Any]:
        """Everything that a user could see of some calls in a changing world.

        nudge: not 0 moves every argument's elements by at most a rounding, another one for each number.
        """
        fg.manual_seed(self.seed)
        self.nudges = np.random.default_rng(nudge) if nudge else None
        world = World(self.seed, jit)
        events: list[Any] = []
        for call in range(CALLS):
            self.call(call, function, world, events)
            CHANGES[self.changes[call]](world)
        events.append(seen(fg.rand(2)))
        return events

    def call(self, number: int, function: Callable[..., Any], world: World, events: list[Any]) -> None:
        """One call, its backward, and what they leave behind."""
        generator = np.random.default_rng(self.seed + number % 2)
        shape, dtype = self.shapes[number], self.dtypes[number]
        x, y = (self.nudged(generator.normal(size=shape).astype(dtype)) for _ in range(2))
        x.requires_grad_(number % 3 != 2)
        place = len(events)
        try:
            with fg.set_grad_enabled(self.modes[number]):
                result = function(Pair(x, y), world, Options(*self.options[number]))
            events.append(("call", number))
            events.append(seen(result))
            tensors = tensors_in(result)
            AFTER[self.after[number]](tensors, x, world)
            for tensor in tensors:
                if tensor.requires_grad:
                    self.derive(tensor, x, events)
        except Exception as error:
            # Which of two errors about what backward needs comes first, is not compared.
            refused = any(
                text in str(error) for text in ("through the graph a second", "needed for gradient")
            )
            events.append((type(error).__name__, "refused" if refused else str(error)[:45]))
        failed = any(
            isinstance(e, tuple) and isinstance(e[0], str) and e[0] != "call" for e in events[place:]
        )
        # How often a gradient was added into is the engine's own business. After an error, some leaves have
        # a part of their gradient; which, depends on what comes first.
        leaves = [x, world.weight, *world.layer.parameters()]
        events += [None if t.grad is None or failed else (seen(t.grad)[0],) for t in leaves]
        events += [seen(t) for t in (x, y, *world.tensors())] + [world.count, list(world.queue)]
        events += [seen(what) for what in world.log]
        events.append(fg.is_grad_enabled())
        world.log.clear()
        for leaf in leaves:
            leaf.grad = None

    def nudged(self, array: np.ndarray) -> fg.Tensor:
        if self.nudges is None:
            return fg.tensor(array)
        roundings = self.nudges.integers(-1, 2, array.shape) * np.finfo(array.dtype).eps
        return fg.tensor((array * (1 + roundings)).astype(array.dtype))

    def derive(self, tensor: fg.Tensor, x: fg.Tensor, events: list[Any]) -> None:
        """The backward of one result; twice, or one that is derived again."""
        loss = (tensor * 0.5).sum()
        if self.backward == "graph" and x.requires_grad:
            (slope,) = fg.autograd.grad(loss, x, create_graph=True, allow_unused=True)
            events.append(None if slope is None else (seen(slope)[0],))
            if slope is not None and slope.requires_grad:
                # Which of the first derivative's nodes a second one frees is the engine's own business.
                (slope * slope).sum().backward(retain_graph=True)
            return
        if self.backward == "twice":
            loss.backward(retain_graph=True)
        loss.backward()


def seen(value: Any) -> Any:
    """A value as it can be compared after the world has gone on.

    How often its memory was written is not: a replay writes once what the body wrote in several steps.
    """
    if isinstance(value, fg.Tensor):
        return (
            value.detach().numpy().copy(),
            value.requires_grad,
            value.stride() if 1 not in value.shape else None,  # along one element it says nothing
            value.is_leaf,
        )
    if isinstance(value, (tuple, list)):
        return [type(value).__name__, *map(seen, value)]
    if isinstance(value, dict):
        return [(key, seen(item)) for key, item in value.items()]
    return value


def assert_same(ours: Any, theirs: Any, place: Any = ()) -> None:
    if isinstance(theirs, (tuple, list)) and not (theirs and isinstance(theirs[0], np.ndarray)):
        assert type(ours) is type(theirs) and len(ours) == len(theirs), (place, ours, theirs)
        for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            assert_same(a, b, (*place, number))
    elif isinstance(theirs, tuple):
        assert isinstance(ours, tuple) and isinstance(ours[0], np.ndarray), (place, ours, theirs)
        assert ours[0].dtype == theirs[0].dtype, (place, ours, theirs)
        np.testing.assert_allclose(ours[0], theirs[0], rtol=2e-3, atol=2e-4, err_msg=f"event {place}")
        assert ours[1:] == theirs[1:], (place, ours, theirs)
    elif type(ours) is type(theirs) is float and ours * theirs > 0:
        # What `item()` gave is as near as the tensor that it came from.
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-4, err_msg=f"event {place}")
    else:
        assert repr(ours) == repr(theirs), (place, ours, theirs)  # NaN is not equal to itself


class Unstable(Exception):
    """Eager's own results differ as much between inputs that are one rounding apart."""


def check(seed: int) -> int:
    """Run the program of `seed` jitted and eager; how many calls were answered by compiled code.

    Adam divides a gradient by its own size: where that is zero but for rounding (of weights before a batch
    norm), its steps follow the rounding. So a difference counts unless eager differs from itself too.
    """
    plan = Plan.of(seed)
    program = plan.program()
    jitted = fg.jit(program)
    eager = plan.run(lambda f: f, program)
    try:
        assert_same(plan.run(fg.jit, jitted), eager)
    except AssertionError as difference:
        for nudge in range(1, 9):
            try:
                assert_same(plan.run(lambda f: f, program, nudge), eager)
            except AssertionError:
                raise Unstable(f"{str(difference)[:200]}, and eager against itself") from difference
        raise
    return jitted.stats.compiled_calls


@pytest.mark.one_in(4)
@pytest.mark.parametrize("block", range(4))
def test_random_programs_show_the_world_what_eager_shows(block: int):
    answered = [check(seed) for seed in range(40 * block, 40 * block + 40)]
    assert sum(map(bool, answered)) >= 30


if __name__ == "__main__":
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    failed = compiled = unstable = 0
    for number in range(first, first + int(sys.argv[1])):
        try:
            compiled += bool(check(number))
        except Unstable as error:
            unstable += 1
            print(f"seed {number}: unstable: {error}", flush=True)
        except Exception as error:
            failed += 1
            print(f"seed {number}: {type(error).__name__}: {str(error)[:400]}", flush=True)
    print(f"{sys.argv[1]} programs, {failed} differ, {unstable} unstable, {compiled} with compiled calls")
