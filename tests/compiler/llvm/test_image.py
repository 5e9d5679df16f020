"""Objects become images that may lie anywhere, and are loaded without LLVM."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from fusegrad.compiler.llvm import image, llvm_work, processor, target
from fusegrad.compiler.llvm.image import Image, Unlinkable

pytestmark = pytest.mark.skipif(not image.are_used(), reason="LLVM loads objects here")

INT, REAL = ctypes.c_int64, ctypes.c_double
VARIABLE = INT(7)

# A module; the function that is called; its type, and what it gives for what.
WAYS: dict[str, tuple[str, list[Any], list[tuple[Sequence[float], float]]]] = {
    "constants": ("define double @f(double %x) { %y = fmul double %x, 3.25\n ret double %y }",
                  [REAL, REAL], [((2.0,), 6.5)]),
    "a function of its own": (
        "define double @g(double %x) noinline { %y = fadd double %x, 1.5\n ret double %y }\n"
        "define double @f(double %x) { %y = call double @g(double %x)\n ret double %y }",
        [REAL, REAL], [((2.0,), 3.5)]),
    "a function of C": (
        "declare double @floor(double)\n"
        "define double @f(double %x) { %y = call double @floor(double %x)\n ret double %y }",
        [REAL, REAL], [((2.5,), 2.0)]),
    "the address of one": (
        "declare double @floor(double)\ndefine double @f(double %x) {\n"
        " %p = freeze ptr @floor\n %y = call double %p(double %x)\n ret double %y }",
        [REAL, REAL], [((2.5,), 2.0)]),
    "a variable outside": (
        "@image_test = external global i64\n"
        "define i64 @f() { %y = load i64, ptr @image_test\n ret i64 %y }",
        [INT], [((), 7)]),
    "a table of functions": (
        "@table = private constant [2 x ptr] [ptr @g, ptr @h]\ndeclare i64 @labs(i64)\n"
        "define i64 @g(i64 %x) { %y = add i64 %x, 1\n ret i64 %y }\n"
        "define i64 @h(i64 %x) { %y = call i64 @labs(i64 %x)\n ret i64 %y }\n"
        "define i64 @f(i64 %n, i64 %x) {\n %p = getelementptr ptr, ptr @table, i64 %n\n"
        " %q = load ptr, ptr %p\n %y = call i64 %q(i64 %x)\n ret i64 %y }",
        [INT, INT, INT], [((0, -5), -4), ((1, -5), 5)]),
    "a table of functions outside": (
        "@table = private constant [1 x ptr] [ptr @labs]\ndeclare i64 @labs(i64)\n"
        "define i64 @f(i64 %n, i64 %x) {\n %p = getelementptr ptr, ptr @table, i64 %n\n"
        " %q = load ptr, ptr %p\n %y = call i64 %q(i64 %x)\n ret i64 %y }",
        [INT, INT, INT], [((0, -5), 5)]),
    "a table of jumps": (
        "declare void @abort()\ndefine i64 @f(i64 %n) {\n switch i64 %n, label %z ["
        + " ".join(f"i64 {i}, label %l{i}" for i in range(9)) + "]\n"
        + "\n".join(f"l{i}: call void @abort()\n br label %z" if i == 4 else f"l{i}: ret i64 {i * i % 7 * 11}"
                    for i in range(9)) + "\nz: ret i64 -1 }",
        [INT, INT], [((i,), i * i % 7 * 11 if i < 9 else -1) for i in (0, 1, 2, 3, 5, 6, 7, 8, 9, 100)]),
    "memory that is set": (
        "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)\ndefine i64 @f(i64 %n) {\n"
        " %p = alloca i64, i64 %n\n %b = mul i64 %n, 8\n"
        " call void @llvm.memset.p0.i64(ptr %p, i8 1, i64 %b, i1 false)\n"
        " %y = load i64, ptr %p\n ret i64 %y }",
        [INT, INT], [((100,), 0x0101010101010101)]),
}  # fmt: skip


def object_of(text: str) -> bytes:
    work = llvm_work.object_work(text)
    work.run()
    return work.code()


def function(made: Image, types: Sequence[Any]) -> Callable[..., Any]:
    image.add_symbols({"image_test": ctypes.addressof(VARIABLE)})
    return ctypes.CFUNCTYPE(*types)(image.loaded(made)["f"])


@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_refer_to_something_is_linked(way: str):
    text, types, answers = WAYS[way]
    made = image.linked(object_of(text), ["f"])
    for again in (made, Image.again(made.facts(), made.code)):
        call = function(again, types)
        assert [call(*given) for given, _ in answers] == [answer for _, answer in answers]


def test_no_memory_of_an_image_is_written_to_once_it_runs():
    place = image.loaded(image.linked(object_of(WAYS["a table of functions"][0]), ["f"]))["f"]
    with open("/proc/self/maps") as maps:
        for line in maps:
            span, mode, *_ = line.split()
            first, last = (int(end, 16) for end in span.split("-"))
            if first <= place < last:
                assert mode == "r-xp"
                return
    raise AssertionError("it lies nowhere")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("@v = global i64 3\ndefine i64 @f() { %y = load i64, ptr @v\n ret i64 %y }", "variables"),
        ("@v = internal global i64 0\ndefine i64 @f() {\n store i64 1, ptr @v\n"
         " %y = load volatile i64, ptr @v\n ret i64 %y }", "variables"),
        ("@v = external thread_local global i64\n"
         "define i64 @f() { %y = load i64, ptr @v\n ret i64 %y }", "way"),
        ("define i64 @g() { ret i64 3 }", "lacks a function"),
    ],
)  # fmt: skip
def test_what_is_no_image_is_refused(text: str, why: str):
    with pytest.raises(Unlinkable, match=why):
        image.linked(object_of(text), ["f"])


def test_names_that_nobody_knows_are_refused_before_anything_is_loaded():
    text = (
        "declare i64 @nobody_knows_this()\n"
        "define i64 @f() { %y = call i64 @nobody_knows_this()\n ret i64 %y }"
    )
    made = image.linked(object_of(text), ["f"])
    for use in (image.check, image.loaded):
        with pytest.raises(Unlinkable, match="nobody_knows_this"):
            use(made)


# The processor.


def test_what_the_processor_says_is_the_same_each_time_and_decides_what_llvm_is_asked():
    first, again = processor.seen(), processor.seen()
    assert first is not None and first == again
    assert first[0] != [[0] * 6], "it says something"


CHANGES: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "the processor": lambda patch: patch.setattr(processor, "_registers", lambda: [[0] * 6]),
    "Numba or llvmlite": lambda patch: patch.setattr(processor, "_of_package", lambda name: [name, []]),
    "a setting": lambda patch: patch.setenv("NUMBA_CPU_FEATURES", "+avx2"),
    "a setting that is no feature": lambda patch: patch.setenv("NUMBA_OPT", "2"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_said_of_another_machine_is_not_found(
    change: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
):
    monkeypatch.setenv("FUSEGRAD_CACHE", str(tmp_path / "cache"))
    before = target._key_of_machine()
    assert before and before == target._key_of_machine()
    CHANGES[change](monkeypatch)
    assert target._key_of_machine() != before


def test_what_llvm_says_comes_back_as_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Any):
    monkeypatch.setenv("FUSEGRAD_CACHE", str(tmp_path / "cache"))
    asked = target._asked()
    said = target._machine.__wrapped__()
    assert said == asked
    monkeypatch.setattr(target, "_asked", lambda: pytest.fail("it is asked again"))
    again = target._machine.__wrapped__()
    assert {name: again[name] for name in asked} == asked
