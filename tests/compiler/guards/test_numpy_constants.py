"""What NumPy makes of constants within a call is constant in replays; any other use of it runs the body."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from jit_checks import Entered, sealed

import fusegrad as fg

OUTSIDE = SimpleNamespace(sizes=[2, 3], scale=2.0, array=np.ones(3), list=[1.0, 2.0, 3.0])


def causal(x: Any) -> Any:
    mask = np.triu(np.ones((x.size(0), x.shape[1])), k=1)
    return x.masked_fill(fg.from_numpy(mask).bool(), -1e9)


def subsequent(x: Any) -> Any:
    shape = (1, x.size(0), x.size(0))
    mask = np.triu(np.ones(shape), k=1).astype("uint8")
    return x * (fg.from_numpy(mask) == 0)


def positions(x: Any) -> Any:
    length, width = x.shape
    angles = np.arange(length)[:, None] / np.power(10000.0, 2 * (np.arange(width) // 2) / width)
    table = np.where(np.arange(width) % 2 == 0, np.sin(angles), np.cos(angles))
    return x + fg.FloatTensor(table)


def written_as_a_tensor(x: Any) -> Any:
    steps = fg.from_numpy(np.zeros(3))
    steps[0] = 5
    steps.add_(1)
    return steps * x[0]


def given_and_written(x: Any) -> Any:
    steps = fg.from_numpy(np.zeros(3))
    before = steps * x[0]
    steps += x[0].double()
    return before, steps


def in_a_list(x: Any) -> Any:
    rows = [np.full(3, 2.0), np.eye(3)[1], [1, 2, 3]]
    return x * fg.tensor(np.stack(rows))


def in_a_loop(x: Any) -> Any:
    for i in range(4):
        x = x * fg.from_numpy(np.full(3, i + 1.0)).float()
    return x


def caught(x: Any) -> Any:
    try:
        np.ones(3).reshape(2, 2)
    except ValueError:
        return x + 1
    return x


def asked(x: Any) -> Any:
    steps = np.linspace(0, 1, 5)
    if steps.shape == (5,) and steps.size > 3 and np.any(steps > 0.9) and steps.ndim == 1:
        return x * steps[1] + float(steps[2]) + steps.sum().item()
    return x


REPLAYED: dict[str, Callable[[Any], Any]] = {
    "causal": causal,
    "subsequent": subsequent,
    "positions": positions,
    "written as a tensor": written_as_a_tensor,
    "given and written": given_and_written,
    "in a list": in_a_list,
    "in a loop": in_a_loop,
    "caught": caught,
    "asked": asked,
    "returned": lambda x: (fg.from_numpy(np.arange(3.0)), x * 2),
    "as_tensor": lambda x: x + fg.as_tensor(np.arange(3), dtype=fg.float32),
    "in another order": lambda x: fg.from_numpy(np.arange(9.0).reshape(3, 3).T),
    "a list": lambda x: x + fg.from_numpy(np.array([1, 2, 3])),
    "a list from outside": lambda x: x + fg.from_numpy(np.array(OUTSIDE.list)),
    "sizes from outside": lambda x: x.sum() + fg.from_numpy(np.zeros(OUTSIDE.sizes)),
    "numbers from outside": lambda x: x + fg.from_numpy(np.full(3, OUTSIDE.scale)),
    "named": lambda x: x + fg.from_numpy(np.full(fill_value=3.0, shape=(3,), dtype=np.float32)),
    "back to NumPy": lambda x: (x * fg.from_numpy(np.arange(3))).numpy(),
}


@pytest.mark.parametrize("which", REPLAYED)
def test_constants_replay(which: str):
    function = fg.jit(REPLAYED[which])
    for seed in range(8):
        if seed == 4:
            sealed(function)
        x = fg.randn(3, 3, generator=fg.Generator().manual_seed(seed))
        ours, theirs = function(x), REPLAYED[which](x)
        several = isinstance(ours, tuple)
        for a, b in zip(ours if several else [ours], theirs if several else [theirs], strict=True):
            a, b = map(np.asarray, (a, b))
            assert (a.shape, a.dtype, a.strides) == (b.shape, b.dtype, b.strides)
            np.testing.assert_allclose(a, b, rtol=1e-5)
            a[...] = 100  # what a call gives is nobody else's


@pytest.mark.parametrize("many", [3, 200])
def test_other_sizes_are_other_constants(many: int):
    function = fg.jit(causal)
    for _, n, m in itertools.product(range(many // 3), (2, 3), (3, 4, 5)):
        x = fg.randn(n, m)
        np.testing.assert_array_equal(function(x).numpy(), causal(x).numpy())
    assert function.stats.compiled_calls > (many > 3) * 100


def _set(name: str, value: Any) -> Callable[[], None]:
    return lambda: setattr(OUTSIDE, name, value)


CHANGES: dict[str, tuple[Callable[[Any], Any], Callable[[], Any]]] = {
    "numbers": (REPLAYED["numbers from outside"], _set("scale", 7.0)),
    "a list": (REPLAYED["a list from outside"], lambda: OUTSIDE.list.__setitem__(1, 9.0)),
    "a list's number": (REPLAYED["sizes from outside"], lambda: OUTSIDE.sizes.__setitem__(1, 5)),
    "a function": (causal, lambda: setattr(np, "triu", np.tril)),
    "another list": (REPLAYED["a list from outside"], _set("list", [4.0, 4.0, 4.0])),
}


@pytest.mark.parametrize("which", CHANGES)
def test_what_constants_are_made_of_is_guarded(which: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(np, "triu", np.triu)
    for name, value in (("sizes", [2, 3]), ("scale", 2.0), ("list", [1.0, 2.0, 3.0])):
        monkeypatch.setattr(OUTSIDE, name, value)
    body, change = CHANGES[which]
    function, x = fg.jit(body), fg.randn(3, 3)
    before = [function(x) for _ in range(4)]
    change()
    after = function(x)
    assert after.tolist() == body(x).tolist() != before[-1].tolist()


def test_an_argument_that_is_another_number_each_time():
    function = fg.jit(lambda x, n: x + fg.from_numpy(np.full(3, [n, 2 * n, 0])))
    for n in (1.5, 2.5, 3.5, 2.5, 1.5, 3.5) * 3:
        assert function(fg.ones(3), n).tolist() == [n + 1, 2 * n + 1, 1]


@pytest.mark.parametrize(
    "body",
    [
        lambda x: x + fg.from_numpy(np.full(3, x.sum().item())),
        lambda x: x + fg.from_numpy(np.array([[x.sum().item(), 2.0], [1, 0]]).sum(0)).sum(),
        lambda x: x * np.maximum(x.sum().item(), 0.5),
    ],
)
def test_numbers_out_of_tensors_are_looked_at(body: Callable[[Any], Any]):
    function = fg.jit(body)
    for seed in (0, 0, 1, 0, 2, 1, 0, 3):
        x = fg.randn(3, generator=fg.Generator().manual_seed(seed))
        np.testing.assert_allclose(function(x).numpy(), body(x).numpy(), rtol=1e-5)


def item(x: Any) -> Any:
    steps = np.zeros(3)
    steps[0] = 1
    return x + fg.from_numpy(steps)


def in_place(x: Any) -> Any:
    steps = np.zeros(3)
    steps += 1
    return x + fg.from_numpy(steps)


def out(x: Any) -> Any:
    steps = np.zeros(3)
    np.add(steps, 1, steps)
    return x + fg.from_numpy(steps)


def out_of_a_method(x: Any) -> Any:
    steps, sums = np.ones((2, 3)), np.zeros(3)
    steps.sum(0, None, sums)
    return x + fg.from_numpy(sums)


def filled(x: Any) -> Any:
    steps = np.zeros(3)
    steps.fill(2)
    return x + fg.from_numpy(steps)


def a_method_kept(x: Any) -> Any:
    steps = np.zeros(3)
    add, tensor = steps.sum, fg.from_numpy(steps)
    tensor += 1
    return x + float(add())


def given_away(x: Any) -> Any:
    steps = np.zeros(3)
    tensor = fg.from_numpy(steps)
    tensor += x[0].double()
    return x + fg.from_numpy(steps)


def given_away_as_a_view(x: Any) -> Any:
    steps = np.zeros((3, 1))
    rows = steps.T
    tensor = fg.from_numpy(steps)
    tensor += x[0, 0].double()
    return x + fg.from_numpy(rows)


def written_out(x: Any) -> Any:
    return x + len(f"{np.ones(3)}")


RUN: dict[str, Callable[[Any], Any]] = {
    "an item": item,
    "in place": in_place,
    "out": out,
    "out of a method": out_of_a_method,
    "filled": filled,
    "a method kept": a_method_kept,
    "given away": given_away,
    "given away as a view": given_away_as_a_view,
    "text": written_out,
    "drawn": lambda x: x + fg.from_numpy(np.random.default_rng(0).random(3)),
    "returned": lambda x: np.ones(3),
    "of tensors": lambda x: fg.from_numpy(np.array([x.sum(), x.mean()])),
    "what warns": lambda x: x + fg.from_numpy(np.log(np.zeros(3))),
}


@pytest.mark.parametrize("which", RUN)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_anything_else_runs_the_function(which: str, monkeypatch: pytest.MonkeyPatch):
    function = fg.jit(RUN[which])
    for seed in range(5):
        monkeypatch.setattr(OUTSIDE, "array", np.full(3, float(seed)))
        monkeypatch.setattr(OUTSIDE, "scale", float(seed))
        x = fg.randn(3, 3, generator=fg.Generator().manual_seed(seed))
        ours, theirs = function(x), RUN[which](x)
        np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-5)
    with pytest.raises(Entered):
        sealed(function)(x)


_scaled = np.frompyfunc(lambda value: value * OUTSIDE.scale, 1, 1)


@pytest.mark.parametrize(
    "function",
    [lambda x: x + fg.from_numpy(np.empty(3)).isnan() * 0, lambda x: x + _scaled(2.0)],
    ids=["uninitialised", "a function of Python"],
)
def test_what_nobody_knows_is_called_again(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = fg.jit(function)
    for seed in range(8):
        monkeypatch.setattr(OUTSIDE, "scale", float(seed))
        x = fg.randn(3, 3, generator=fg.Generator().manual_seed(seed))
        called = sealed(compiled) if seed > 5 else compiled
        np.testing.assert_allclose(np.asarray(called(x)), np.asarray(function(x)), rtol=1e-5)
