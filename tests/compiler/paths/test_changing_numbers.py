"""Python numbers that are others at each call: where they come from, times what is done with them."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jit_checks
import numpy as np
import pytest
from oracle import torch

import fusegrad as fg
from fusegrad.tracer.observe import numbers as followed

FLOATS = [0.5, 0.25, 1.75, -0.3, 2.5, 0.1, 3.25, 0.7, 1.1, -1.6]
INTS = [3, 5, 2, 7, 4, 9, 6, 8, 11, 10]
WARM = 6  # after so many calls the next ones are replays


class Holder:
    """An object with a number, in its dict or in a slot."""

    __slots__ = ("__dict__", "slot")


# Where a number comes from: a source makes of a use what is called, and what puts a number there beforehand,
# which gives the arguments that come after the tensor.


def argument(use: Any) -> Any:
    def function(x: Any, n: Any) -> Any:
        return use(x, n)

    return function, lambda n: ((n,), {})


def keyword(use: Any) -> Any:
    def function(x: Any, *, n: Any) -> Any:
        return use(x, n)

    return function, lambda n: ((), {"n": n})


def after_a_container(use: Any) -> Any:
    def function(x: Any, pair: Any, n: Any) -> Any:
        return use(x * pair[0], n)

    return function, lambda n: (((1.5, 2), n), {})


def set_by(put: Any) -> Any:
    """What puts a number where no argument is needed."""

    def given(n: Any) -> Any:
        put(n)
        return (), {}

    return given


def attribute(use: Any) -> Any:
    owner = Holder()

    def function(x: Any) -> Any:
        return use(x, owner.n)

    return function, set_by(lambda n: setattr(owner, "n", n))


def slot(use: Any) -> Any:
    owner = Holder()

    def function(x: Any) -> Any:
        return use(x, owner.slot)

    return function, set_by(lambda n: setattr(owner, "slot", n))


def attribute_of_an_attribute(use: Any) -> Any:
    owner = SimpleNamespace(inner=Holder())

    def function(x: Any) -> Any:
        return use(x, owner.inner.n)

    return function, set_by(lambda n: setattr(owner.inner, "n", n))


def attribute_of_a_module(use: Any) -> Any:
    owner: Any = fg.nn.Module()

    def function(x: Any) -> Any:
        return use(x, owner.n)

    return function, set_by(lambda n: setattr(owner, "n", n))


def item_of_a_dict(use: Any) -> Any:
    owner: dict[str, Any] = {}

    def function(x: Any) -> Any:
        return use(x, owner["n"])

    return function, set_by(lambda n: owner.update(n=n))


def item_of_a_list(use: Any) -> Any:
    owner: list[Any] = [None, None]

    def function(x: Any) -> Any:
        return use(x, owner[1])

    return function, set_by(lambda n: owner.__setitem__(1, n))


def option_of_an_optimizer(use: Any) -> Any:
    optimizer = fg.optim.SGD([fg.ones(2, requires_grad=True)], lr=0.1)

    def function(x: Any) -> Any:
        return use(x, optimizer.param_groups[0]["lr"])

    return function, set_by(lambda n: optimizer.param_groups[0].update(lr=n))


def cell(use: Any) -> Any:
    number: Any = None

    def function(x: Any) -> Any:
        return use(x, number)

    def put(n: Any) -> None:
        nonlocal number
        number = n

    return function, set_by(put)


NUMBER: Any = None


def name(use: Any) -> Any:
    def function(x: Any) -> Any:
        return use(x, NUMBER)

    return function, set_by(lambda n: globals().update(NUMBER=n))


SOURCES = [
    argument, keyword, after_a_container, attribute, slot, attribute_of_an_attribute, attribute_of_a_module,
    item_of_a_dict, item_of_a_list, option_of_an_optimizer, cell, name,
]  # fmt: skip


# What is done with it. Each is replayed whatever the number is, as long as branches go the same way.


def in_place(x: Any, n: Any) -> Any:
    y = x * 1
    y.add_(x, alpha=float(n)).mul_(n)
    y -= n
    return y


def functions(x: Any, n: Any) -> Any:
    library = fg if isinstance(x, fg.Tensor) else torch
    return library.add(library.mul(x, n), library.div(x, n), alpha=n * 0.25) - library.sub(n, x)


def branch(x: Any, n: Any) -> Any:
    return x * n if n > -100 else x


def chain(x: Any, n: Any) -> Any:
    return x * (n if -100 < n < 100 and n != 50 else 2)


def ramp(x: Any, n: Any) -> Any:
    phase = 1.0 - min(max(n, 0.0), 4.0) / 4
    return x * math.exp(-5.0 * phase * phase)


def cosine(x: Any, n: Any) -> Any:
    return x * (0.5 * (1.0 + math.cos(math.pi * n / 12)))


def gradient(x: Any, n: Any) -> Any:
    y = x.detach().requires_grad_()
    ((y * n + y / n) * y).sum().backward()
    return y.grad


def branch_on_data(x: Any, n: Any) -> Any:
    return x * n if (x * x).sum() > n - 50 else x


def caught(x: Any, n: Any) -> Any:
    try:
        return x * (1 / (n - n * 1.0) if n > 100 else 1 / (n + 100))
    except ZeroDivisionError:
        return x


def long_loop(x: Any, n: Any) -> Any:
    w = x.detach().requires_grad_()
    y = w
    for _ in range(150):
        y = y * 0.9 + n / 10
    y.sum().backward()
    return y.detach(), w.grad


def several(x: Any, n: Any) -> Any:
    y = x
    for k in range(3):
        y = y * (n + k) - n / (k + 1)
    return y


def helper(x: Any, n: Any = 0, *rest: Any) -> Any:
    return x * n + rest[0]


def handed_on(x: Any, n: Any) -> Any:
    held = {"n": n, "pair": (n, [n + 1])}
    return helper(x, held["n"], held["pair"][1][0])


USES: dict[str, Callable[[Any, Any], Any]] = {
    "mul": lambda x, n: x * n,
    "reflected": lambda x, n: n * x + (n - x) / (n + n),
    "sub and div": lambda x, n: (x - n) / n,
    "reflected div": lambda x, n: n / (x + 10),
    "compare": lambda x, n: (x > n) * 1.0 + (n >= x) + (x == n),
    "arithmetic": lambda x, n: x * (n * 2 + 1 - n / 3),
    "floor and mod": lambda x, n: x * (n // 2) + n % 3,
    "power": lambda x, n: x * 0.5**n,
    "negative": lambda x, n: x * -n + abs(n) + (+n),
    "builtins": lambda x, n: x * min(n, 5) + max(2, n) + float(n) + round(n * 1.0, 1),
    "int": lambda x, n: x * int(n * 10) + (int(n) + round(n * 3.7)),
    "math": lambda x, n: x * math.sqrt(n * n) + math.floor(n * 0.7) + math.atan2(n, 2),
    "methods": lambda x, n: x.mul(n).add(n).sub(x, alpha=n / 2).div(n),
    "functions": functions,
    "in place": in_place,
    "branch": branch,
    "chain": chain,
    "ramp": ramp,
    "cosine": cosine,
    "gradient": gradient,
    "branch on data": branch_on_data,
    "caught": caught,
    "long loop": long_loop,
    "several": several,
    "handed on": handed_on,
    "isinstance": lambda x, n: x * n if isinstance(n, (int, float)) and n is not None else x,
    "given back": lambda x, n: (x * n, n, (n + 1, [n * 2])),
}  # fmt: skip


def flat(result: Any) -> list[Any]:
    if isinstance(result, (tuple, list)):
        return [leaf for part in result for leaf in flat(part)]
    return [result]


def agree(found: Any, expected: Any) -> None:
    for ours, theirs in zip(flat(found), flat(expected), strict=True):
        if isinstance(ours, fg.Tensor):
            assert isinstance(theirs, fg.Tensor) and ours.dtype == theirs.dtype
            np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-5, atol=1e-6)
        else:
            assert type(ours) is type(theirs) and (ours == theirs or (ours != ours and theirs != theirs))


def run(function: Any, given: Any, numbers: list[Any]) -> list[Any]:
    results = []
    for n in numbers:
        args, kwargs = given(n)
        results.append(function(fg.tensor([0.5, -1.5, 2.0]), *args, **kwargs))
    return results


def replayed(jitted: Any, given: Any, numbers: list[Any]) -> list[Any]:
    """What calls give of which none may enter the function."""
    jit_checks.sealed(jitted)
    try:
        return run(jitted, given, numbers)
    finally:
        jitted.__wrapped__ = jitted.sealed


@pytest.mark.parametrize("numbers", [FLOATS, INTS], ids=["floats", "ints"])
@pytest.mark.parametrize("use", USES)
def test_a_use_is_replayed_with_other_numbers(use: str, numbers: list[Any]) -> None:
    function, given = argument(USES[use])
    expected = run(function, given, numbers)
    jitted = fg.jit(function)
    agree(run(jitted, given, numbers[:WARM]), expected[:WARM])
    agree(replayed(jitted, given, numbers[WARM:]), expected[WARM:])


@pytest.mark.parametrize("numbers", [FLOATS, INTS], ids=["floats", "ints"])
@pytest.mark.parametrize("source", SOURCES)
def test_numbers_are_followed_from_everywhere(source: Any, numbers: list[Any]) -> None:
    def use(x: Any, n: Any) -> Any:
        return x * n + math.exp(-abs(n)) if n * 2 > -50 else x

    function, given = source(use)
    expected = run(function, given, numbers)
    jitted = fg.jit(function)
    agree(run(jitted, given, numbers[:WARM]), expected[:WARM])
    agree(replayed(jitted, given, numbers[WARM:]), expected[WARM:])


@pytest.mark.parametrize("use", USES)
def test_as_torch_computes(use: str) -> None:
    jitted = fg.jit(USES[use])
    for n in [*FLOATS, *INTS]:
        x = np.array([0.5, -1.5, 2.0], "f4")
        ours, theirs = jitted(fg.tensor(x), n), USES[use](torch.tensor(x), n)
        for a, b in zip(flat(ours), flat(theirs), strict=True):
            if isinstance(b, torch.Tensor):
                assert str(a.dtype).split(".")[-1] == str(b.dtype).split(".")[-1]
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-6)


def derived(jitted: Any, x: fg.Tensor, n: Any) -> tuple[fg.Tensor, Any]:
    w = x.detach().requires_grad_()
    loss = jitted(w, n)
    loss.backward()
    return loss.detach(), w.grad


@pytest.mark.parametrize("options", [{}, {"verify": 1}, {"require": "replay"}], ids=str)
def test_a_backward_outside_has_the_numbers_of_its_call(options: dict[str, Any]) -> None:
    def function(x: Any, n: Any) -> Any:
        y = x * n if n > 0 else x / n
        return (y * y * (n + 1)).sum()

    jitted = fg.jit(function, **options)
    x = fg.tensor([0.5, -1.5, 2.0])
    for n in [*FLOATS, *INTS, *FLOATS]:
        agree(derived(jitted, x, n), derived(function, x, n))
    held = []
    for n in FLOATS:  # backwards that come after other calls
        w = x.detach().requires_grad_()
        held.append((jitted(w, n), w, n))
    for loss, w, n in held:
        loss.backward()
        agree(w.grad, derived(function, x, n)[1])
    assert jitted.stats.compiled_calls > len(FLOATS)


SIZES: dict[str, Callable[[Any, Any], Any]] = {
    "size": lambda x, n: fg.ones(n) * x.sum(),
    "range": lambda x, n: sum((x * i for i in range(n)), x),
    "index": lambda x, n: x[n % 3] * x[: n % 2 + 1].sum(),
    "key": lambda x, n: x * {2: 0.5, 3: 1.5}.get(n, 2.5),
    "item": lambda x, n: x * [1, 2, 3, 4][n % 4],
    "text": lambda x, n: x * len(f"{n:>{n}}"),
    "repeat": lambda x, n: x.repeat(n) * len([0] * n),
    "integers": lambda x, n: (x > 0) * n,
    "identity": lambda x, n: x * (2 if n in (2, 5) else 3),
    "exponent": lambda x, n: x**n,
    "clamp": lambda x, n: x.clamp(max=n / 4),
    "made of it": lambda x, n: fg.full((3,), n) + fg.tensor([n, n, 1]) * x,
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("use", SIZES)
@pytest.mark.parametrize("source", SOURCES)
def test_what_must_be_known_is_guarded(source: Any, use: str) -> None:
    function, given = source(SIZES[use])
    jitted = fg.jit(function)
    numbers = [3, 2, 5, 3, 4, 2, 7, 3, 2, 6, 9, 2, 3, 4, 5, 8, 2, 3]
    for n, ours, theirs in zip(
        numbers, run(jitted, given, numbers), run(function, given, numbers), strict=True
    ):
        assert ours.dtype == theirs.dtype, n
        agree(ours, theirs)


def test_numbers_of_which_there_is_one_object_are_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed, "fresh", lambda number: number + 0)

    def function(x: Any, n: Any) -> Any:
        return x * n + 3

    jitted = fg.jit(function)
    x = fg.tensor([1.0, 2.0])
    for n in (1, 2, 3, 4, 3, 2, 3, 3):
        agree(jitted(x, n), function(x, n))


@pytest.mark.parametrize("make", [fg.optim.SGD, fg.optim.AdamW, fg.optim.RMSprop], ids=lambda m: m.__name__)
def test_rates_that_a_step_sets_are_those_of_its_step(make: Any) -> None:
    def world() -> Any:
        w = fg.tensor([1.0, -2.0, 0.5], requires_grad=True)
        optimizer = make([w], lr=0.1, weight_decay=0.1)

        def step(x: Any, rate: Any) -> Any:
            for group in optimizer.param_groups:
                group["lr"] = rate
                group["weight_decay"] = group["lr"] / 2
            loss = ((w * x) ** 2).sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            optimizer.param_groups[0]["lr"] = rate * 0.5 + optimizer.param_groups[0]["lr"]
            return loss

        return w, optimizer, step

    (w, optimizer, step), (v, other, plain) = world(), world()
    jitted = fg.jit(step)
    for i in range(12):
        if i == 6:
            jit_checks.sealed(jitted)
        x, rate = fg.tensor([1.0, 2.0, 3.0]) / (i + 1), 0.1 / (i + 1)
        agree(jitted(x, rate), plain(x, rate))
        agree(w, v)
        assert [g["lr"] for g in optimizer.param_groups] == [g["lr"] for g in other.param_groups]


def test_keywords_are_not_two_containers() -> None:
    @fg.jit
    def function(*args: Any, **kwargs: Any) -> Any:
        return kwargs["a"] * args[0] if kwargs else args[0][0] - args[1]["a"]

    x, y = fg.tensor([2.0]), fg.tensor([5.0])
    for _ in range(3):
        agree(function(x, a=y), x * y)
        agree(function((x,), {"a": y}), x - y)


class Whole(int):
    """A subclass, which may be anything."""


ODD = [
    0.0, -0.0, math.nan, math.inf, -math.inf, 1e300, -1e-320, 2**24 + 1, 2**53 + 1, 2**63, -(2**70), 10**400,
    True, False, Whole(3), np.float32(0.1), np.float64(0.1), np.int64(4), 1 + 2j, 0, -5, 256, 257, 1.0, 1,
]  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("use", ["mul", "arithmetic", "int", "branch", "compare", "given back"])
def test_odd_numbers_are_what_they_are_in_eager(source: Any, use: str) -> None:
    function, given = source(USES[use])
    jitted = fg.jit(function)
    numbers = [*FLOATS[:WARM], *ODD, *INTS[:WARM], *ODD, *FLOATS[:WARM], *ODD]
    x = fg.tensor([0.5, -1.5, 0.0])
    for n in numbers:
        args, kwargs = given(n)
        try:
            with np.errstate(all="ignore"):
                expected = function(x, *args, **kwargs)
        except Exception as error:
            with np.errstate(all="ignore"), pytest.raises(type(error)):
                jitted(x, *args, **kwargs)
            continue
        with np.errstate(all="ignore"):
            found = jitted(x, *args, **kwargs)
        agree(found, expected)
        for ours, theirs in zip(flat(found), flat(expected), strict=True):
            if isinstance(theirs, fg.Tensor) and not theirs.is_complex():
                assert (np.signbit(ours.numpy()) == np.signbit(theirs.numpy())).all()
            elif isinstance(theirs, float):
                assert math.copysign(1, ours) == math.copysign(1, theirs)
