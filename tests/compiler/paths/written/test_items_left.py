"""Items of dicts and lists from outside that a function replaces: beside eager, in random programs, with a
world that changes between calls; and that the replays are many.
"""

from __future__ import annotations

import copy
import random
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.tracer.observe import stores

World = tuple[dict, list, dict]


# What a step may do: (dict, list, dict of dicts, a tensor) go in, something that is returned comes out.


def adds_a_number(d, items, n, x):
    d["loss"] += x.sum().item()


def sets_a_number(d, items, n, x):
    d["last"] = x.max().item()


def counts(d, items, n, x):
    d["count"] += 1


def sets_a_constant(d, items, n, x):
    d["count"] = 3


def sets_a_tensor(d, items, n, x):
    d["kept"] = x * 2


def carries_a_tensor(d, items, n, x):
    d["kept"] = d["kept"] * 0.5 + x.detach()


def sets_the_last(d, items, n, x):
    items[-1] = x.mean().item()


def adds_in_a_list(d, items, n, x):
    items[0] = 0.9 * items[0] + 0.1 * x.sum().item()


def sets_within(d, items, n, x):
    n["a"]["b"] = n["a"]["b"] + x.min().item()


def sets_a_text(d, items, n, x):
    d["text"] = f"{x.sum().item():.3f}"


def sets_a_pair(d, items, n, x):
    d["pair"] = (x.sum().item(), d["count"])


def appends_to_another(d, items, n, x):
    n["list"].append(x.sum().item())


def swaps(d, items, n, x):
    items[0], items[1] = items[1], items[0]


def reads(d, items, n, x):
    return d["loss"] * x


def reads_by_get(d, items, n, x):
    return x + d.get("count")


def reads_by_setdefault(d, items, n, x):
    return x + d.setdefault("count", 100)


def reads_a_tensor(d, items, n, x):
    return d["kept"] + x


def reads_from_the_end(d, items, n, x):
    return items[-1]


def sums_a_list(d, items, n, x):
    return sum(items)


def goes_over_a_dict(d, items, n, x):
    return [key for key, value in d.items() if key != "text"]


def sums_a_dict(d, items, n, x):
    return sum(value for key, value in d.items() if key in ("loss", "count"))


def counts_a_dict(d, items, n, x):
    return len(d), "other" in d, len(items)


def branches(d, items, n, x):
    return x * 2 if d["count"] > 4 else x


WRITES = [
    adds_a_number, sets_a_number, counts, sets_a_constant, sets_a_tensor, carries_a_tensor, sets_the_last,
    adds_in_a_list, sets_within, sets_a_text, sets_a_pair, appends_to_another, swaps,
]  # fmt: skip
READS = [
    reads, reads_by_get, reads_by_setdefault, reads_a_tensor, reads_from_the_end, sums_a_list,
    goes_over_a_dict, sums_a_dict, counts_a_dict, branches,
]  # fmt: skip


# What somebody else does to the world between two calls.


def adds_a_key(world: World) -> None:
    world[0]["other"] = 1


def takes_a_key(world: World) -> None:
    world[0].pop("other", None)


def reorders(world: World) -> None:
    world[0]["loss"] = world[0].pop("loss")


def lengthens(world: World) -> None:
    world[1].append(0.25)


def sets_numbers(world: World) -> None:
    world[0]["count"], world[1][1] = 5, -1.5


def sets_another_kind(world: World) -> None:
    world[0]["count"] = 2.5


def replaces_a_tensor(world: World) -> None:
    world[0]["kept"] = fg.full((3,), 4.0)


CHANGES = [adds_a_key, takes_a_key, reorders, lengthens, sets_numbers, sets_another_kind, replaces_a_tensor]


def world() -> World:
    d = {"loss": 0.5, "last": 0.0, "count": 0, "kept": fg.ones(3), "text": "", "pair": (0.0, 0)}
    return d, [1.0, 2.0, 3.0], {"a": {"b": 0.0}, "list": []}


def as_numbers(value: Any) -> Any:
    if isinstance(value, fg.Tensor):
        return ("tensor", value.detach().numpy().round(3).tolist())
    if isinstance(value, dict):
        return [(key, as_numbers(v)) for key, v in value.items()]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(as_numbers, value)]
    return round(value, 3) if isinstance(value, float) else value


def difference(seed: int, calls: int = 14) -> str | None:
    """Where a jitted random step leaves or gives something else than eager; None if nowhere."""
    numbers = random.Random(seed)
    parts = numbers.choices(WRITES, k=numbers.randint(1, 3)) + numbers.choices(READS, k=numbers.randint(0, 3))
    numbers.shuffle(parts)
    changes = {call: numbers.choice(CHANGES) for call in range(4, calls) if numbers.random() < 0.15}

    def made(known: World) -> Callable[[fg.Tensor], list[Any]]:
        d, items, n = known

        def step(x):
            return [part(d, items, n, x) for part in parts]

        return step

    ours, theirs = world(), world()
    jitted, eager = fg.jit(made(ours)), made(theirs)
    for call in range(calls):
        if call in changes:
            changes[call](ours)
            changes[call](theirs)
        x = fg.tensor(
            np.random.default_rng((seed, call)).integers(-16, 16, 3).astype("f4") / 8
        )  # sums are exact
        found, expected = as_numbers(jitted(x)), as_numbers(eager(x))
        names = [part.__name__ for part in parts]
        if found != expected:
            return f"{seed}, call {call} of {names}: gave {found}, not {expected}"
        if as_numbers(ours) != as_numbers(theirs):
            return f"{seed}, call {call} of {names}: left {as_numbers(ours)}, not {as_numbers(theirs)}"
    return None


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(90))
def test_random_steps_leave_what_eager_leaves(seed: int) -> None:
    assert difference(seed) is None


def _guards_nothing(observer: Any, owner: Any, site: Any) -> bool:
    return bool(observer.stores.has_items(owner))


def _any_length(observer: Any, owner: Any, key: Any, site: Any) -> Any:
    return key % len(owner) if isinstance(owner, list) and key < 0 else key


@pytest.mark.parametrize("fault", ["others", "negative"])
def test_planted_faults_are_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if fault == "others":
        monkeypatch.setattr(stores, "look_at_others", _guards_nothing)
    else:
        monkeypatch.setattr(stores, "place_of", _any_length)
    assert any(difference(seed) is not None for seed in range(120))


@pytest.mark.parametrize("part", WRITES, ids=lambda part: part.__name__)
def test_steps_that_replace_items_are_replayed(part: Callable[..., Any]) -> None:
    d, items, n = world()

    @fg.jit
    def step(x):
        part(d, items, n, x)
        return x * 2

    for _ in range(12):
        step(fg.rand(3))
    assert step.stats.compiled_calls >= 6, step.explain()


def test_a_number_that_get_finds_is_an_input() -> None:
    settings = {"scale": 1.0}

    @fg.jit
    def scaled(x):
        return x * settings.get("scale", 7.0) + settings.setdefault("scale", 9.0)

    for call in range(10):
        settings["scale"] = 1.5 * call
        assert scaled(fg.ones(2)).tolist() == [3.0 * call] * 2
    assert scaled.stats.compiled_calls >= 5


def test_keys_of_dicts_are_what_they_are() -> None:
    table = {-1: 0.0, 1: 5.0}

    @fg.jit
    def step(x):
        table[-1] = x.sum().item()
        return x * table[1]

    for call in range(6):
        assert step(fg.full((2,), float(call))).tolist() == [5.0 * call] * 2
        assert table == {-1: 2.0 * call, 1: 5.0}


def test_tables_that_are_filled_in_once_are_replayed() -> None:
    totals: Any = defaultdict(lambda: [0.0])
    history: dict[str, list[float]] = {}

    @fg.jit
    def step(x):
        totals["loss"][0] += x.sum().item()
        history.setdefault("loss", []).append(x.sum().item())
        return x * 2

    for _ in range(20):
        step(fg.ones(2))
    assert totals["loss"] == [40.0] and history["loss"] == [2.0] * 20
    assert step.stats.compiled_calls >= 12, step.explain()


def test_containers_of_the_call_are_not_replaced() -> None:
    shared = {"a": 1.0}

    @fg.jit
    def step(x, d):
        shared["a"] = x.sum().item()
        return x * d["a"]

    for call in range(8):
        shared["a"] = float(call)
        given = shared if call % 2 else copy.copy(shared)
        assert step(fg.ones(2), given).tolist() == [2.0 if call % 2 else float(call)] * 2


def test_deterministic_calls_leave_the_same() -> None:
    totals = {"loss": 0.0}
    fg.use_deterministic_algorithms(True)
    try:

        @fg.jit
        def step(x):
            totals["loss"] += x.sum().item()
            return x * 2

        for _ in range(5):
            step(fg.ones(2))
    finally:
        fg.use_deterministic_algorithms(False)
    assert totals["loss"] == 10.0
