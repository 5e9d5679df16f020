"""Numbers that come out of tensors and are written out, rounded or divided: they are only handed on, so that
a replay makes its own. Each use of the table stands for a function of Python or a way to write numbers.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.tracer.observe import numbers
from fusegrad.tracer.twin.unfailing import never_fails, percent

KEPT = SimpleNamespace(text="", log=[])
CALLS = 12
MOST_EAGER = 3


def _sets(n: Any) -> Any:
    KEPT.text = f"{n:.3f}"


def _appends(n: Any) -> Any:
    KEPT.log.append(round(n, 2))


# What replays make anew.
HANDED_ON: dict[str, Callable[[Any], Any]] = {
    "round": lambda n: round(n, 2),
    "round by name": lambda n: round(n, ndigits=1),
    "round to none": lambda n: round(n),
    "int": lambda n: int(n * 100) / 100,
    "floor and ceil": lambda n: (math.floor(n), math.ceil(n)),
    "divmod": lambda n: divmod(n, 0.25),
    "//": lambda n: n // 0.5,
    "%": lambda n: n % 0.5,
    "more": lambda n: -(round(n, 2) * 100 + 1) / 7,
    "max": lambda n: max(round(n, 1), 1.5),
    "exp": lambda n: math.exp(n),
    "log": lambda n: (math.log(n), math.log2(n), math.log10(n), math.log1p(n)),
    "sqrt": lambda n: math.sqrt(n),
    "power": lambda n: (n**2, n**0.5, pow(n, 3)),
    "f-string": lambda n: f"{n:.3f}",
    "f-string, width": lambda n: f"{n:>{12}.{3}f}",
    "f-string, !r": lambda n: f"{n!r:>20}",
    "f-string, !s": lambda n: f"{n!s}",
    "f-string, =": lambda n: f"{n=:.2f}",
    "f-string, several": lambda n: f"loss {n:.3f}, twice {n * 2:.1e}, {1}",
    "f-string of a text": lambda n: f"{f'{n:.2f}':>10}",
    "format": lambda n: (format(n, ".2e"), format(n), "{:.3f} {!r}".format(n, n)),  # noqa: UP032
    "percent": lambda n: "%.3f" % n,  # noqa: UP031
    "percent, several": lambda n: "%s: %5.2f %g %%" % ("loss", n, n),  # noqa: UP031
    "str": lambda n: str(n),
    "repr": lambda n: repr(n),
    "joined": lambda n: ", ".join([f"{n:.2f}", str(n), "end"]),
    "added": lambda n: "loss " + str(n) + "!",
    "in containers": lambda n: {"loss": round(n, 3), "texts": [f"{n:.2f}", (n,)]},
    "an attribute": _sets,
    "a list outside": _appends,
}
# What must be looked at, or might fail: these calls may be run, and give what eager gives.
LOOKED_AT: dict[str, Callable[[Any], Any]] = {
    "length": lambda n: len(f"{n:.0f}0"),
    "a method": lambda n: f"{n:.3f}".replace("1", "2"),
    "a character": lambda n: f"{n:.3f}"[0],
    "characters": lambda n: [*f"{n:.3f}"],
    "iterated": lambda n: [c + "!" for c in f"{n:.3f}"],
    "unpacked": lambda n: (lambda a, *b: (a, b))(*f"{n:.3f}"),
    "in": lambda n: "5" in f"{n:.3f}",
    "in others": lambda n: f"{n:.1f}" in ("1.0", "2.1"),
    "equal": lambda n: f"{n:.1f}" == "1.0",
    "a key": lambda n: {f"{n:.1f}": 1},
    "found by": lambda n: {"1.0": 1, "2.1": 2}.get(f"{n:.1f}"),
    "an attribute's name": lambda n: getattr(KEPT, f"a{n:.1f}", 7),
    "sorted": lambda n: sorted([f"{n:.2f}", "2"]),
    "zip": lambda n: [*zip(f"{n:.2f}", "abcd", strict=False)],
    "one character": lambda n: f"{n:.0f}",
    "compared": lambda n: round(n, 2) > 2.0,
    "truth": lambda n: "yes" if round(n, 0) else "no",
    "parsed": lambda n: float(f"{n:.2f}"),
    "divides": lambda n: 1 / (round(n, 1) + 1),
    "a size": lambda n: fg.ones(int(n // 1)).shape,
    "in a tensor": lambda n: fg.ones(2).mul(round(n, 1)).tolist(),
    "matched": lambda n: _matched(f"{n:.0f}"),
    "joined letters": lambda n: "-".join(f"{n:.2f}"),
    "repeated": lambda n: f"{n:.2f}" * 2,
}


def _matched(text: str) -> int:
    match text:
        case "1":
            return 1
        case str():
            return 2


def _batches() -> list[Any]:
    """Batches whose means are exact."""
    random = np.random.default_rng(0)
    return [fg.tensor(random.integers(1, 64, 16) / 8.0) for _ in range(CALLS)]


def _run(use: Callable[[Any], Any]) -> tuple[list[Any], list[Any], Any]:
    """What calls give and leave, compiled and eager; the compiled function."""

    def function(x: Any) -> Any:
        mean = x.mean()
        return mean * 2, use(mean.item())

    jitted = fg.jit(function)
    found: tuple[list[Any], list[Any]] = ([], [])
    for x in _batches():
        for call, into in zip((jitted, function), found, strict=True):
            KEPT.text, KEPT.log[:] = "", []
            value, made = call(x)
            into.append((value.item(), repr(made), KEPT.text, [*KEPT.log]))
    return *found, jitted


@pytest.mark.parametrize("name", HANDED_ON)
def test_numbers_that_are_handed_on_are_made_anew(name: str) -> None:
    compiled, eager, jitted = _run(HANDED_ON[name])
    assert compiled == eager
    assert jitted.stats.compiled_calls >= CALLS - MOST_EAGER
    assert jitted.stats.compiles <= 2


@pytest.mark.parametrize("name", LOOKED_AT)
def test_texts_that_are_looked_at_are_known(name: str) -> None:
    compiled, eager, _ = _run(LOOKED_AT[name])
    assert compiled == eager


def test_the_table_finds_texts_that_nobody_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbers.Numbers, "read", lambda self, value: value)
    wrong = []
    for name in ("length", "a character", "characters"):
        compiled, eager, _ = _run(LOOKED_AT[name])
        wrong += [name] * (compiled != eager)
    assert wrong


def test_the_table_finds_numbers_that_are_not_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbers, "never_fails", lambda *asked: False)
    _, _, jitted = _run(HANDED_ON["f-string"])
    assert jitted.stats.compiled_calls < CALLS - MOST_EAGER


@pytest.mark.parametrize("use", (math.exp, math.log, math.sqrt, lambda n: n**0.5, lambda n: n**7))
def test_numbers_for_which_python_raises_are_eagers(use: Callable[[Any], Any]) -> None:
    def function(x: Any) -> Any:
        return x * 2, use(x.item())

    jitted = fg.jit(function)
    for number in (1.0, 2.0, 3.0, 0.5, 0.0, -1.0, 1e3, math.inf, math.nan, 1e60, -1e60):
        answers = []
        for call in (jitted, function):
            try:
                answers.append(repr(call(fg.tensor(number, dtype=fg.float64))[1]))
            except Exception as error:
                answers.append(f"{type(error).__name__}: {str(error).splitlines()[0]}")
        assert answers[0] == answers[1], number


def test_numbers_of_arguments_are_written_out() -> None:
    def function(x: Any, k: Any) -> Any:
        return x * k, f"{k:.2f} of {x.sum().item():.1f}", divmod(k, 0.5), "%4.1f" % k  # noqa: UP031

    jitted = fg.jit(function)
    for number, x in enumerate(_batches()):
        k = 0.5 + number
        assert repr(jitted(x, k)[1:]) == repr(function(x, k)[1:])
    assert jitted.stats.compiled_calls >= CALLS - MOST_EAGER


NUMBERS = (0.0, -0.0, 1.5, -2.7, 1e308, -1e308, 5e-324, math.inf, -math.inf, math.nan)
OPERATORS = (operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod)
SPECS = ("", ".3f", "e", "g", "%", ">20.1f", "n", "010.2f", "+", ",.2f")


def test_what_never_fails_does_not() -> None:
    """For any number where it is said of one."""
    calls: list[tuple[Any, tuple[Any, ...]]] = [(format, (1.5, spec)) for spec in SPECS]
    calls += [(round, (1.5, digits)) for digits in (0, 1, 3, 400, -1, -300)]
    calls += [(f, (1.5, n)) for f in OPERATORS for n in (2, -0.5, 1e-300, 2**60, 0)]
    calls += [(percent, (template, 1.5)) for template in ("%d", "%.3f", "%s %%", "%c", "%5g", "%x")]
    calls += [(str.format, (template, 1.5)) for template in ("{:.3f}", "{}", "{0!r}", "{0.real}")]
    said = 0
    for function, operands in calls:
        place = operands.index(1.5)
        if never_fails(function, operands, [i == place for i in range(len(operands))]):
            said += 1
            kinds = {type(function(*operands[:place], n, *operands[place + 1 :])) for n in NUMBERS}
            assert len(kinds) == 1, (function, operands)
    assert said > len(calls) / 2
