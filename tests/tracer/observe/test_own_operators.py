"""Operators that classes have in Python, beside Python: who is asked in which order, and what comes of it.

Each case is an operator and two operands, made by the function or found outside; then the classes change.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from observing import leave_out_reads

import fusegrad as fg
from fusegrad.tracer.observe.python import own_operators

COMPARED, UNARY = "lt le gt ge eq ne".split(), "neg pos invert".split()


def iadd(x: Any, y: Any) -> Any:
    x += y
    return x


def ipow(x: Any, y: Any) -> Any:
    x **= y
    return x


def ior(x: Any, y: Any) -> Any:
    x |= y
    return x


USES: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "truediv": lambda x, y: x / y,
    "floordiv": lambda x, y: x // y,
    "mod": lambda x, y: x % y,
    "pow": lambda x, y: x**y,
    "matmul": lambda x, y: x @ y,
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
    "lshift": lambda x, y: x << y,
    "rshift": lambda x, y: x >> y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "neg": lambda x, y: -x,
    "pos": lambda x, y: +x,
    "invert": lambda x, y: ~x,
    "iadd": iadd,
    "ipow": ipow,
    "ior": ior,
}


def method(name: str, declines: bool) -> Callable[..., Any]:
    """One that notes its name, its owner's class and what it was asked about, and gives a number."""

    def asked(self: Any, *others: Any) -> Any:
        self.log.append((type(self).__name__, name, *(type(other).__name__ for other in others)))
        if declines:
            return NotImplemented
        return self.level > 1.5 if name[2:-2] in COMPARED else self.number * 3

    return asked


def kind(name: str, has: str, declines: bool = False, base: type = object) -> Any:
    """A class with some methods: "o" for those that are asked first, "r" for the reflected, "i" in place."""
    body: dict[str, Any] = {}
    for op in USES:
        letter = "i" if op in ("iadd", "ipow", "ior") else "o"
        if letter in has:
            body[f"__{op}__"] = method(f"__{op}__", declines)
        if letter == "o" and "r" in has and op not in (*COMPARED, *UNARY):
            body[f"__r{op}__"] = method(f"__r{op}__", declines)
    return type(name, (base,), body)


def kinds() -> dict[str, Any]:
    both = kind("Both", "or")
    return {
        "Both": both,
        "Own": kind("Own", "o"),
        "Reflected": kind("Reflected", "r"),
        "Without": kind("Without", ""),
        "Declines": kind("Declines", "ori", declines=True),
        "InPlace": kind("InPlace", "oi"),
        "Same": kind("Same", "", base=both),
        "Other": kind("Other", "or", base=both),
    }


BUILTIN: dict[str, Callable[[], Any]] = {
    "int": lambda: 2,
    "float": lambda: 1.5,
    "text": lambda: "text",
    "none": lambda: None,
    "list": lambda: [1],
    "tensor": lambda: fg.full((2,), 2.0),
}


def made(kind: Any, x: Any, log: list[Any]) -> Any:
    """An object of a class, or what a function makes."""
    if not isinstance(kind, type):
        return kind()
    found = kind()
    found.number, found.level, found.log = x, 2.0, log
    return found


def changes(known: dict[str, Any], op: str) -> Iterator[Callable[[], Any]]:
    """What the classes get, and lose again."""
    for kind, name in itertools.product(
        [known["Both"], known["Without"], known["Other"]], [op, f"r{op}", f"i{op}"]
    ):
        if f"__{name}__" not in vars(kind):
            yield lambda kind=kind, name=name: setattr(kind, f"__{name}__", method("new", False))  # type: ignore[misc]
        else:
            yield lambda kind=kind, name=name: delattr(kind, f"__{name}__")  # type: ignore[misc]
    for name in ("__float__", "__index__"):
        yield lambda name=name: setattr(known["Both"], name, lambda self: 3)  # type: ignore[misc]


def found(op: str, x: str, y: str, inside: bool, wrap: Callable[[Any], Any]) -> tuple[list[Any], Any]:
    """What calls give in the world as it is, and after each change; the function."""
    known, use = kinds(), USES[op]
    left, right = (known.get(name) or BUILTIN[name] for name in (x, y))
    outside: list[Any] = []
    held = made(left, fg.ones(2), outside), made(right, fg.ones(2), outside)

    def call(number: Any) -> Any:
        log: list[Any] = []
        both = (made(left, number, log), made(right, number, log)) if inside else held
        try:
            return use(*both), log
        except TypeError:
            return "refused", log

    function = wrap(call)
    answers: list[Any] = []
    for change in [lambda: None, *changes(known, op)]:
        change()
        for _ in range(3):
            result, log = function(fg.ones(2))
            is_tensor = isinstance(result, fg.Tensor)
            answers.append((result.tolist() if is_tensor else result, [*log], [*outside]))
            outside.clear()
    return answers, function


CASES = [*itertools.product(USES, [*kinds(), *BUILTIN], [*kinds(), *BUILTIN], [True, False])]
CASES = [
    case
    for case in CASES
    if not {case[1], case[2]} <= {*BUILTIN, "Without"} and not (case[0] in UNARY and case[1] in BUILTIN)
]
SAMPLE = CASES[::29]


def problem(case: Any) -> str:
    """What is wrong with a case; nothing if it is right."""
    answers, function = found(*case, fg.jit)
    wanted = found(*case, lambda f: f)[0]
    for place, (one, other) in enumerate(zip(answers, wanted, strict=True)):
        if one != other:
            return f"{case}, call {place}: {one} instead of {other}"
    asked = case[3] and wanted[0][1] and not {"list", "text"} & {*case}
    if asked and not function.stats.compiled_calls:
        return f"{case}: {function.explain()}"
    return ""


def test_they_are_asked_as_by_python_and_replay() -> None:
    assert [*filter(None, map(problem, SAMPLE))] == []


@pytest.mark.parametrize(
    "case",
    [
        ("add", "int", "Own"),
        ("pow", "Declines", "tensor"),
        ("le", "Declines", "Without"),
        ("iadd", "Declines", "none"),
    ],
)
def test_where_nobody_answers_the_error_is_python_s(case: Any) -> None:
    op, *names = case
    known = kinds()
    operands = [made(known.get(name) or BUILTIN[name], 1.0, []) for name in names]
    said = []
    for wrap in (lambda f: f, fg.jit):
        with pytest.raises(TypeError) as error:
            wrap(lambda x: x * USES[op](*operands))(fg.ones(1))
        said.append(str(error.value))
    assert said[0] == said[1]


def test_a_guard_that_is_missing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    leave_out_reads(monkeypatch, "class")
    assert any(map(problem, SAMPLE[::2]))


def test_what_a_class_does_not_have_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_operators, "_read", lambda *given: None)
    assert any(map(problem, SAMPLE))


def test_operands_that_are_asked_in_another_order_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = own_operators._asked
    monkeypatch.setattr(own_operators, "_asked", lambda *given: reversed([*asked(*given)]))
    assert any(map(problem, SAMPLE[::2]))


if __name__ == "__main__":
    for found_problem in filter(None, map(problem, CASES)):
        print(found_problem)
