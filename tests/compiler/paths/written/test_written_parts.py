"""Replays that write a part of a tensor write that alone, where it lies, when it is sure that they answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from planted import finds

import fusegrad as fg
from fusegrad.compiler.lower import partial_writes
from fusegrad.compiler.program import donation
from fusegrad.tracer.ir import passes
from fusegrad.tracer.record import memory

pytestmark = pytest.mark.usefixtures("answered")

# The last ones are out of range of some of the functions, or of all.
PLACES = [3, 4, 5, 9, 0, 17, 30, 2, 31, 6, -1, -3, 32, 7, 64, 8]
Function = Callable[[Any, Any, int, Any], Any]


def _put(c: Any, k: Any, p: int, t: Any) -> Any:
    c[:, p] = k
    return c.sum()


def _row_of_one(c: Any, k: Any, p: int, t: Any) -> Any:
    c[0, p] = k[0]
    return c.sum(1)


def _two_of_them(c: Any, k: Any, p: int, t: Any) -> Any:
    c[0, p] = k[0]
    c[1, p] = k[1] * 2
    return c.amax()


def _rows(c: Any, k: Any, p: int, t: Any) -> Any:
    c[:, p : p + 2] = k[:, None]
    return c.mean()


def _last(c: Any, k: Any, p: int, t: Any) -> Any:
    c[..., p % 20] = k[:, :1]
    return c.sum(0)


def _window(c: Any, k: Any, p: int, t: Any) -> Any:
    c[1:3, p] = k[1:3]
    return c * 2


def _a_number(c: Any, k: Any, p: int, t: Any) -> Any:
    c[:, p] = 3
    return c.sum()


def _also_a_column(c: Any, k: Any, p: int, t: Any) -> Any:
    c[:, :, 3] = k.sum()
    c[:, p] = k
    return c.sum()


def _from_before(c: Any, k: Any, p: int, t: Any) -> Any:
    c[:, p] = c[:, p - 1] * 2 + k
    return c.sum()


def _what_was_there(c: Any, k: Any, p: int, t: Any) -> Any:
    before = c.sum(1)
    c[:, p] = k
    return before, c.sum(1)


def _both(c: Any, k: Any, p: int, t: Any) -> Any:
    before = c * 2
    c[:, p] = k
    return before - c


def _read_in_between(c: Any, k: Any, p: int, t: Any) -> Any:
    c[0, p] = k[0]
    middle = c.sum(0)
    c[1, p] = middle[0]
    return middle, c.sum()


def _by_an_index(c: Any, k: Any, p: int, t: Any) -> Any:
    c.index_copy_(1, t, k[:, None].expand(-1, 2, -1))
    return c.sum()


def _by_a_tensor(c: Any, k: Any, p: int, t: Any) -> Any:
    c[:, t] = k[:, None]
    return c.sum()


def _twice_at_one_place(c: Any, k: Any, p: int, t: Any) -> Any:
    c[:, t * 0 + p] = fg.stack([k, k * 2], 1)
    return c.sum()


def _fixed(c: Any, k: Any, p: int, t: Any) -> Any:
    c[:, 5] = k * p
    return c.sum()


def _fixed_steps(c: Any, k: Any, p: int, t: Any) -> Any:
    c[0, 1:9:3, 1:] = k[0, 1:] * p
    return c.sum()


def _exchanged(c: Any, k: Any, p: int, t: Any) -> Any:
    row = c[:, p] * 1
    c[:, p] = c[:, 0]
    c[:, 0] = row
    return c.sum()


def _asked_first(c: Any, k: Any, p: int, t: Any) -> Any:
    c[:, p] = k
    if k.sum() > 0:
        return c.sum()
    return c.mean()


def _returned(c: Any, k: Any, p: int, t: Any) -> Any:
    c[:, p] = k
    return c[:, 2:5].clone(), c[0] + 1


def _of_itself(c: Any, k: Any, p: int, t: Any) -> Any:
    c[:, p] = c[:, p] * 2
    c[1] = c[0]
    return c.sum()


def _added(c: Any, k: Any, p: int, t: Any) -> Any:
    c[:, 4] += k * p
    return c.sum()


def _added_there(c: Any, k: Any, p: int, t: Any) -> Any:
    c[:, p] += k
    return c.sum()


def _scaled_rows(c: Any, k: Any, p: int, t: Any) -> Any:
    c[:, p : p + 2] *= 1.5
    return c.mean()


def _in_a_part(c: Any, k: Any, p: int, t: Any) -> Any:
    c[0, p] -= k[0]
    c[1][p].mul_(2)
    return c.sum(1)


def _kept_part(c: Any, k: Any, p: int, t: Any) -> Any:
    part = c[:, p]
    part += k
    c[0, 3] = k[1]
    return part * 2, c.sum()


def _part_written_over(c: Any, k: Any, p: int, t: Any) -> Any:
    part, other = c[0, p], c[0, 7]
    c[0, p] = k[0]
    c[0, 7] = k[1]
    return part + other


def _two_parts(c: Any, k: Any, p: int, t: Any) -> Any:
    part, rows = c[:, p], c[:, p - 1 : p + 1]
    part *= 2
    rows += 1
    return part.sum(), rows * 3


def _stencil(c: Any, k: Any, p: int, t: Any) -> Any:
    c[1:-1, 1:-1] += 0.1 * (c[2:, 1:-1] + c[:-2, 1:-1] - 2 * c[1:-1, 1:-1]) * k[0]
    return c.sum()


def _shifted(c: Any, k: Any, p: int, t: Any) -> Any:
    c[:, 1:] = c[:, :-1].clone()
    c[:, 0] = k
    return c.sum(0)


def _most_of_it(c: Any, k: Any, p: int, t: Any) -> Any:
    c[:, 1:-1] += k[:, None]
    return c.sum()


def _less_its_mean(c: Any, k: Any, p: int, t: Any) -> Any:
    c[1:] -= c.mean()
    c[:, 2:] += k.sum()
    return c.sum()


def _of_the_whole(c: Any, k: Any, p: int, t: Any) -> Any:
    c[2:-1] = (c * k[0])[1:-2]
    return c.sum()


def _over_and_over(c: Any, k: Any, p: int, t: Any) -> Any:
    c[2:9] = 3.0
    c[1:10] += k[0]
    c[1:10] *= 2.0
    c[2:9] -= c[3:10] * 0.5
    return c.sum()


FUNCTIONS = [value for name, value in [*globals().items()] if name.startswith("_") and name != "_put"]
FUNCTIONS = [_put, *(f for f in FUNCTIONS if callable(f) and f.__module__ == __name__)]


def _history(function: Function, jitted: bool, outside: bool) -> tuple[list[Any], Any]:
    draw = np.random.default_rng(0)
    c = fg.tensor(draw.standard_normal((20, 32, 20)))

    def step(*args: Any) -> Any:
        return function(c, *args) if outside else function(*args)

    called = fg.jit(step) if jitted else step
    found: list[Any] = []
    for place in PLACES:
        k = fg.tensor(draw.standard_normal((20, 20)))
        t = fg.tensor([place, (place * 3) % 32])
        given = (k, place, t) if outside else (c, k, place, t)
        try:
            made = called(*given)
            found += [m.numpy().copy() for m in (made if isinstance(made, tuple) else (made,))]
        except IndexError:
            found.append("IndexError")
        found += [c.numpy().copy(), t.numpy().copy()]
    return found, called


def _agrees(function: Function, outside: bool) -> Any:
    (right, _), (found, called) = (_history(function, jitted, outside) for jitted in (False, True))
    assert len(found) == len(right)
    for place, (one, other) in enumerate(zip(found, right, strict=True)):
        if isinstance(other, str) or isinstance(one, str):
            assert isinstance(one, str) and isinstance(other, str), place
        else:
            np.testing.assert_allclose(one, other, 1e-12, 1e-12, err_msg=f"at {place}")
    return called


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_written_parts(function: Function, outside: bool) -> None:
    called = _agrees(function, outside)
    assert called.stats.compiled_calls >= 8, called.explain()
    leaves = [s for s in called.segments() if s.commit is not None]
    assert leaves and all(leaf.commit.rest == [] for leaf in leaves), called.explain()


def _is_found(function: Function) -> bool:
    return finds(_agrees, function, True)


def test_steps_that_come_too_late_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was there is read when it is written over."""
    monkeypatch.setattr(donation._Order, "apply", lambda order: order.steps.reverse())
    assert _is_found(_what_was_there)


def test_checks_that_come_too_late_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that is out of range has written when that is found out."""

    def dropped(program: Any, guards: Any) -> Any:
        graph = donation.checks_apart(program, guards)
        return None if graph is None else graph._replace(equations=(), inputs=(), outputs=())

    from fusegrad.compiler.paths import writing_leaf

    monkeypatch.setattr(writing_leaf, "checks_apart", dropped)
    assert _is_found(_a_number)


def test_parts_that_do_not_come_back_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written into a part that a number chose stays there."""
    monkeypatch.setattr(memory.Chosen, "put", lambda way, emit, before, value: before)
    assert _is_found(_in_a_part)


def test_parts_that_stay_what_they_were_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part is not taken anew when what it is a part of was written."""
    monkeypatch.setattr(memory.Known, "is_current", lambda known: True)
    current = memory.Memory.current
    stale = lambda self, known: known.value if isinstance(known.way, memory.Chosen) else current(self, known)  # noqa: E731
    monkeypatch.setattr(memory.Memory, "current", stale)
    assert _is_found(_part_written_over)


def test_writes_of_something_else_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second write at a place is taken for the first one."""
    monkeypatch.setattr(passes, "same_write", lambda one, other: True)
    assert _is_found(_two_of_them)


def test_parts_at_other_places_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of a part counts from its own begin."""
    monkeypatch.setattr(partial_writes, "inside", lambda outer, inner: inner)
    assert _is_found(_row_of_one)


def test_what_two_states_read_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A memory that is read before and after a write is written all the same."""
    monkeypatch.setattr(donation._Order, "has_read", lambda order, states: True)
    assert _is_found(_both)


def _steps(called: Any) -> list[str]:
    """What the steps of a function's only path are."""
    return [line.strip() for line in str(called.explain()).splitlines() if "forward" in line]


def test_a_part_that_is_written_twice_is_written_once() -> None:
    """`x[1:] += 1` is a write of what the part has become, and another of the same part."""

    @fg.jit
    def step(x: Any) -> None:
        x[10:-10] += 1.5

    x = fg.zeros(100, 100)
    for _ in range(4):
        step(x)
    assert x[10:-10].sum() == 80 * 100 * 6 and x.sum() == x[10:-10].sum()
    assert len(_steps(step)) == 1, step.explain()


def test_what_reads_other_places_is_written_where_it_lies() -> None:
    """It is made before in any case; the rest of the tensor is not copied."""

    @fg.jit
    def step(x: Any) -> None:
        x[1:-1] += x[2:] + x[:-2]

    x = fg.ones(100, 100)
    for _ in range(4):
        step(x)
    assert ["loop nest: write" in line for line in _steps(step)] == [False, True], step.explain()


def test_places_in_large_tensors_are_followed() -> None:
    cache, made = fg.zeros(64, 32, 1024), []

    @fg.jit
    def step(key: Any, place: int) -> Any:
        cache[:, place] = key
        return cache[0].sum()

    for place in range(8):
        made.append(step(fg.ones(1024), place).item())
    assert made == [1024.0 * (place + 1) for place in range(8)] and step.stats.compiles == 2
    assert [leaf.commit.rest for leaf in step.segments()] == [[], []]
    assert step.memory_bytes() < 1 << 16
