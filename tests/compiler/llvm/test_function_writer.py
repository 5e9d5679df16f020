"""Functions of words: what is written as Python does what that Python would."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fusegrad.compiler.llvm import llvm_jit
from fusegrad.compiler.llvm.function_writer import FunctionWriter, Word, module_text


def compiled(*functions: FunctionWriter) -> Callable[..., int]:
    """The last of some functions of one module, which takes and gives numbers or addresses."""
    last = functions[-1]
    (address,) = llvm_jit.compile_module(module_text(functions), [last.name])
    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64 for _ in last.given])(address)


def test_conditions_loops_and_returns_from_anywhere():
    """How many steps Collatz's rule takes from a number to 1; -1 where these are more than 100."""
    f = FunctionWriter("collatz", {"start": "i64"}, "i64")
    number, steps = f.variable(f.given[0]), f.variable(0)
    with f.repeat() as walk:
        with f.if_(number.value == 1):
            walk.leave()
        with f.if_(steps.value >= 100):
            f.return_(-1)
        steps.set(steps.value + 1)
        with f.if_(number.value & 1 == 0):
            number.set(number.value >> 1)
            walk.again()
        number.set(number.value * 3 + 1)
    f.return_(steps.value)
    run = compiled(f)

    def expected(number: int) -> int:
        steps = 0
        while number != 1:
            if steps >= 100:
                return -1
            number, steps = (number // 2 if number % 2 == 0 else number * 3 + 1), steps + 1
        return steps

    assert [run(n) for n in range(1, 200)] == [expected(n) for n in range(1, 200)]


def test_loops_within_loops_and_calls_of_each_other():
    inner = FunctionWriter("row_sum", {"row": "ptr", "count": "i64"}, "i64", private=True)
    row, count = inner.given
    total = inner.variable()
    with inner.loop(count) as i:
        total.set(total.value + row.load("i64", i))
    inner.return_(total.value)
    f = FunctionWriter("largest_row", {"rows": "i64", "count": "i64", "each": "i64"}, "i64")
    start, count, each = f.given
    best, where = f.variable(-(1 << 40)), f.variable(-1)
    with f.loop(count) as i:
        found = f.call("row_sum", start.to("ptr").at(i * each), each, gives="i64")
        with f.if_(found > best.value):
            best.set(found)
            where.set(i)
    f.return_(where.value)
    run = compiled(inner, f)
    random = np.random.default_rng(0)
    for rows, each in ((0, 3), (1, 1), (7, 5), (30, 2)):
        numbers = random.integers(-100, 100, (rows, each))
        expected = int(numbers.sum(1).argmax()) if rows else -1
        assert run(numbers.ctypes.data, rows, each) == expected


OPERATIONS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    lambda a, b: a & b,
    lambda a, b: a | b,
    lambda a, b: a ^ b,
    lambda a, b: ~a,
    lambda a, b: a << 3,
    lambda a, b: a < b,
    lambda a, b: a <= b,
    lambda a, b: a > b,
    lambda a, b: a >= b,
    lambda a, b: a == b,
    lambda a, b: a != b,
]


@pytest.mark.parametrize("number", range(len(OPERATIONS)))
def test_operators_are_those_of_numbers(number: int) -> None:
    operation = OPERATIONS[number]
    f = FunctionWriter(f"operation{number}", {"a": "i64", "b": "i64"}, "i64")
    found = operation(*f.given)
    f.return_(found.to("i64") if found.type == "i1" else found)
    run = compiled(f)
    for a in (-7, 0, 5, 1 << 40):
        for b in (-7, 0, 3):
            assert run(a, b) == int(operation(a, b)), (a, b)


def test_unsigned_numbers_and_other_types():
    f = FunctionWriter("parts", {"a": "i64", "b": "i64"}, "i64")
    a, b = f.given
    short = a.to("i32")
    parts: list[Word] = [a // b, a % b, a >> 60, a.below(b).to("i64"), short.to("i64"), short.unsigned("i64")]
    parts.append((a.bits("double") * f.number(2.0, "double")).bits("i64"))
    place = f.room("i64", len(parts))
    for number, part in enumerate(parts):
        place.store(part, number)
    which = f.variable()
    with f.loop(len(parts)) as i:
        which.set(which.value * 31 + place.load("i64", i))
    f.return_(which.value)
    run = compiled(f)
    for a_, b_ in ((-5, 7), (12, 5), (1 << 62, 3), (-1, -1)):
        big, divisor = a_ % (1 << 64), b_ % (1 << 64)
        low = big % (1 << 32)
        double = np.array([a_]).view(np.float64) * 2
        expected = [big // divisor, big % divisor, big >> 60, int(big < divisor)]
        expected += [low - (low >> 31 << 32), low, int(double.view(np.int64)[0])]
        total = 0
        for part in expected:
            total = total * 31 + part
        assert (run(a_, b_) - total) % (1 << 64) == 0


def test_memory_that_threads_share():
    f = FunctionWriter("shared", {"at": "i64"}, "i64")
    place = f.given[0].to("ptr")
    before = place.change_shared("add", 5, "seq_cst")
    swapped = place.swap_shared(before + 5, 100)
    again = place.swap_shared(before, 200)
    place.store_shared(place.load_shared() + 1)
    f.return_(swapped.to("i64") * 10 + again.to("i64"))
    memory = np.array([7])
    assert compiled(f)(memory.ctypes.data) == 10 and memory.tolist() == [101]


def test_nothing_is_written_where_nothing_comes():
    f = FunctionWriter("ends", {}, "i64")
    with pytest.raises(AssertionError, match="to be returned"):
        f.text()
    f.return_(1)
    with pytest.raises(AssertionError, match="never reached"):
        f.variable(2)
