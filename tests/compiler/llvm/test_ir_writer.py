"""What the writer of LLVM IR puts where."""

from __future__ import annotations

import ctypes
import re

import numpy as np
from kernel_checks import program_of, tensor

import fusegrad as fg
from fusegrad.compiler.codegen.functions import module_text
from fusegrad.compiler.llvm import llvm_jit
from fusegrad.compiler.llvm.ir_writer import Val, Writer
from fusegrad.compiler.llvm.target import Target
from fusegrad.compiler.llvm.tasks import function


def place(w: Writer, value: Val) -> str:
    """The label of the block that computes a value."""
    text = "\n".join(["entry:", *w.lines])
    before, _, _ = text.partition(f"{value.text} = ")
    return next(line[:-1] for line in reversed(before.splitlines()) if line.endswith(":"))


def test_what_does_not_change_in_a_loop_is_computed_before_it():
    w = Writer(set())
    number = Val("%number", "i64")
    with w.loop("0", "9") as outer:
        with w.loop("0", "9") as inner:
            everywhere = w.splat(number, 4)
            by_row = w.binary("add", everywhere, w.splat(Val(outer, "i64"), 4))
            by_element = w.binary("add", by_row, w.splat(Val(inner, "i64"), 4))
            may_fail = w.binary("sdiv", number, number)
            read = w.emit("load i64, ptr %block", "i64")
            of_read = w.binary("add", read, number)
        after = w.binary("mul", number, number)
    rows, elements = (line for line in w.lines if line.startswith("body"))
    assert place(w, everywhere) == place(w, after) == "entry"
    assert place(w, by_row) == rows[:-1]
    assert {place(w, value) for value in (by_element, may_fail, read, of_read)} == {elements[:-1]}


def test_nothing_is_computed_twice_where_it_is_known():
    w = Writer(set())
    one, two = Val("%one", "i64"), Val("%two", "i64")
    with w.when("%condition"):
        inside = w.binary("mul", one, two)
        assert w.binary("mul", one, two) == inside
    outside = w.binary("mul", one, two)
    assert outside != inside  # which is computed only where the condition holds
    with w.loop("0", "9"):
        assert w.binary("mul", one, two) == outside
        moved = w.binary("add", one, two)
        with w.loop("0", "9"):
            assert w.binary("add", one, two) == moved
        read = [w.emit("load i64, ptr %block", "i64") for _ in range(2)]
    assert w.binary("add", one, two) != moved
    assert read[0] != read[1]  # there may be a store between them
    known = w.binary("xor", one, two)
    w.start("anywhere")
    assert w.binary("xor", one, two) != known


def test_addresses_of_a_row_are_known_before_the_loop_along_it():
    def shifted(x: fg.Tensor) -> fg.Tensor:
        return x[1:, 1:] * x[:-1, :-1]

    program, _, _ = program_of(shifted, tensor(40, 50))
    for bound in program.kernels:
        text = module_text(bound.kernel, "kernel", Target(32))
        loops = re.findall(r"\nbody(\d+):\n([^:]*)\n  br label %head\1\n", text)
        vectors = [body for _, body in loops if "load <8 x float>" in body]
        assert vectors and not any("= mul" in body or "= add i64" in body for body in vectors)


def test_counters_go_on_with_a_loop():
    w = Writer(set())
    with w.loop("2", "%n", "2"):
        place = w.counter("%room", "1", "i64")
        number = w.counter("100", "%step")
        with w.loop("0", "3"):
            w.line(f"store i64 {number}, ptr {place}")
    text = function("void @counters(ptr %room, i64 %n, i64 %step)", w)
    (address,) = llvm_jit.compile_module(text, ["counters"])
    room = np.zeros(5, np.int64)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(address)(room.ctypes.data, 9, -7)
    assert room.tolist() == [100, 93, 86, 79, 0]


def test_numbers_of_a_row_are_spread_over_lanes_once_a_row():
    def centred(x: fg.Tensor, y: fg.Tensor) -> fg.Tensor:
        return (x - x.mean(1, keepdim=True)) * y.sum() + 3

    program, _, _ = program_of(centred, tensor(6, 300), tensor(5))
    for bound in program.kernels:
        text = module_text(bound.kernel, "kernel", Target(32))
        loops = re.findall(r"\nbody(\d+):\n([^:]*)\n  br label %head\1\n", text)
        vectors = [body for _, body in loops if "load <8 x float>" in body]
        assert vectors and not any("insertelement" in body for body in vectors)
