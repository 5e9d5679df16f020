"""What counts as free is free: who holds a thing, in all ways that there are, on this Python."""

from __future__ import annotations

import ast
import ctypes
import re
import subprocess
import sys
import threading
import tomllib
import types
import weakref
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler.runtime import allocator
from fusegrad.compiler.runtime.allocator import SMALLEST_POOLED, Pool, data_address
from fusegrad.eager.core import interpreter
from fusegrad.tracer.record import references

ROOT = Path(__file__).resolve().parents[3]


def in_a_thread(thing: Any) -> Any:
    """A thread that has the thing in a variable until its event is set."""
    begun, end = threading.Event(), threading.Event()

    def waits(held: Any) -> None:
        begun.set()
        end.wait(60)

    thread = threading.Thread(target=waits, args=(thing,))
    thread.start()
    begun.wait(60)
    return Ending(thread, end)


class Ending:
    """Ends a thread when it goes itself."""

    def __init__(self, thread: threading.Thread, end: threading.Event) -> None:
        self.thread, self.end = thread, end

    def __del__(self) -> None:
        self.end.set()
        self.thread.join()


def suspended(thing: Any) -> Any:
    def yields() -> Any:
        yield
        yield thing

    made = yields()
    next(made)
    return made


# Who holds something.
OF_ALL: dict[str, Callable[[Any], Any]] = {
    "a variable": lambda thing: thing,
    "a list": lambda thing: [thing],
    "a tuple in a dict": lambda thing: {"key": (thing,)},
    "an attribute": lambda thing: types.SimpleNamespace(slot=thing),
    "a closure": lambda thing: lambda: thing,
    "a default": lambda thing: lambda held=thing: held,
    "a generator": suspended,
    "another thread": in_a_thread,
}
OF_ARRAYS: dict[str, Callable[[np.ndarray], Any]] = {
    **OF_ALL,
    "a view": lambda array: array[5:],
    "a view of a view": lambda array: array[5:][::2],
    "a view of another dtype": lambda array: array.view(np.int8).reshape(4, -1).T,
    "the block": lambda array: array.base,
    "another array on it": lambda array: np.asarray(memoryview(array)),
    "as_strided": lambda array: np.lib.stride_tricks.as_strided(array, (3,), (8,)),
    "an iterator": lambda array: array.flat,
    "a memoryview": lambda array: memoryview(array).cast("B")[3:],
    "ctypes": lambda array: np.ctypeslib.as_ctypes(array),
    "a pointer": lambda array: array.ctypes.data_as(ctypes.c_void_p),
    "dlpack": lambda array: array.__dlpack__(),
    "a tensor": lambda array: fg.from_numpy(array),
    "a view of a tensor": lambda array: fg.from_numpy(array)[2:].reshape(2, -1),
    "a saved tensor": lambda array: fg.from_numpy(array) * fg.ones(array.shape, requires_grad=True),
}


def lent(pool: Pool) -> np.ndarray:
    return pool.array((SMALLEST_POOLED,), np.dtype(np.float32))


def problems_of_pool(pool: Pool) -> list[str]:
    """What is wrong with the blocks that are lent, in all ways to hold one."""
    found = []
    for name, hold in OF_ARRAYS.items():
        pool.clear()
        array = lent(pool)
        address, held = data_address(array), hold(array)
        del array
        if data_address(lent(pool)) == address:
            found.append(f"{name}: used by somebody else")
        del held
        if data_address(lent(pool)) != address:
            found.append(f"{name}: not found again")
    pool.clear()
    array = lent(pool)
    address, reference = data_address(array), weakref.ref(array)
    del array
    if reference() is not None or data_address(lent(pool)) != address:
        found.append("a weak reference: not found again")
    return found


def problems_of_counts() -> list[str]:
    """What is wrong with the counts of who holds a tensor, likewise."""
    found = []
    ways = {**OF_ALL, "its view": lambda thing: thing[1:], "a list twice": lambda thing: [thing, thing]}
    for name, hold in ways.items():
        row = [fg.ones(3)]
        reference, known = weakref.ref(row[0]), Counter({id(row[0]): 1})
        if interpreter.holders(row) != [0] or references.others(reference, known):
            found.append(f"{name}: counted too early")
        held = hold(row[0])
        if interpreter.holders(row)[0] < 1 or not references.others(reference, known):
            found.append(f"{name}: not counted")
        del held
        if interpreter.holders(row) != [0] or references.others(reference, known):
            found.append(f"{name}: still counted")
        row.clear()
        if references.others(reference, known):
            found.append(f"{name}: counted when it is gone")
    return found


def test_a_block_is_lent_again_when_nobody_holds_it() -> None:
    assert problems_of_pool(Pool()) == []


def test_who_holds_a_tensor_is_counted() -> None:
    assert problems_of_counts() == []


@pytest.mark.parametrize(("by", "words"), [(1, "used by somebody else"), (-1, "not found again")])
def test_a_pool_that_is_off_by_one_is_found(by: int, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pool, "free", Pool.free + by)
    assert sum(words in problem for problem in problems_of_pool(Pool())) >= len(OF_ARRAYS) - 1


@pytest.mark.parametrize(("owner", "name"), [(interpreter, "_ALONE"), (references, "_OWN")])
@pytest.mark.parametrize(("by", "words"), [(1, "not counted"), (-1, "too early")])
def test_a_count_that_is_off_by_one_is_found(
    owner: Any, name: str, by: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, getattr(owner, name) + by)
    assert any(words in problem for problem in problems_of_counts())


def test_where_arrays_do_not_count_no_block_is_lent_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Borrowed references: there, a count is the same whether somebody has an array or not."""
    monkeypatch.setattr(allocator, "getrefcount", lambda block: 2)
    monkeypatch.setattr(Pool, "free", allocator._count_of_free())
    problems = problems_of_pool(Pool())
    assert problems and all("not found again" in problem for problem in problems)


def test_counts_that_are_odd_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert interpreter.strangeness() == ""
    monkeypatch.setattr(interpreter, "counts", lambda things: [2] * len(things))
    assert "not counted as in CPython" in interpreter.strangeness()


STRANGE = """
import warnings
import fusegrad.eager.core.interpreter as interpreter
interpreter.TRIED = ((3, 10),)
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    import fusegrad as fg

    def total(x, large):
        sums, kept = x * 0, []
        for i in range(30):
            sums += x * i
            kept.append(sums.sum())
        large.add_(1)
        return sums, fg.stack(kept), large * 2

    jitted = fg.jit(total)
    for call in range(4):
        x, large = fg.ones(10, requires_grad=True), fg.ones(600, 600)
        y, large_too = fg.ones(10, requires_grad=True), fg.ones(600, 600)
        given, wanted = jitted(x, large), total(y, large_too)
        given[1].sum().backward(), wanted[1].sum().backward()
        assert all(fg.equal(a, b) for a, b in zip(given, wanted)) and fg.equal(x.grad, y.grad)
        assert fg.equal(large, large_too)
from fusegrad.compiler.native.layouts import Unknown, layouts
try:
    layouts()
except Unknown as refused:
    print(refused)
print(*[w.message for w in found if "was tried on" in str(w.message)], sep="\\n")
print(jitted.stats.compiled_calls)
"""


def test_an_interpreter_that_is_not_known_gets_the_plain_way_and_one_warning() -> None:
    run = [sys.executable, "-c", STRANGE]
    done = subprocess.run(run, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    refused, warned, calls = done.stdout.splitlines()
    assert "is not known" in refused
    assert warned.startswith("fusegrad was tried on CPython 3.10: cpython 3.")
    assert int(calls) > 0


# Where that may stand which no version of Python promises to another.
INSIDES = {
    r"getrefcount": {
        "eager/core/interpreter.py",
        "eager/batching/table.py",
        "compiler/runtime/allocator.py",
        "tracer/record/references.py",
    },
    r"^\s*(import|from) (dis|opcode)\b|co_code\b": {"eager/core/interpreter.py"},
    r"from_address\(id\(|pythonapi|\bob_refcnt\b": {
        *(f"compiler/native/{name}.py" for name in ("layouts", "classes", "core")),
        "compiler/runtime/red_zones.py",  # NumPy's handler of memory, in a capsule
        "compiler/gemm/blas.py",  # SciPy's routines, in capsules
    },
}


@pytest.mark.parametrize("pattern", INSIDES)
def test_what_differs_between_pythons_stands_in_one_room(pattern: str) -> None:
    files = [p for folder in ("eager", "tracer", "compiler") for p in (ROOT / folder).rglob("*.py")]
    found = {p.relative_to(ROOT).as_posix() for p in files if re.search(pattern, p.read_text(), re.M)}
    assert found == INSIDES[pattern]


def test_the_versions_that_are_known_are_those_of_ci() -> None:
    versions = {f"{major}.{minor}" for major, minor in interpreter.TRIED}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (last,) = interpreter.TRIED[-1:]
    wanted = f">={min(versions)},<{last[0]}.{last[1] + 1}"
    assert project["project"]["requires-python"] == wanted
    default = project["tool"]["mypy"]["python_version"]
    others = re.findall(r"^tier .* make test-([\d.]+) ", (ROOT / ".ci" / "run").read_text(), re.M)
    assert {default, *others} == versions
    (matrix,) = re.findall(r"python: (\[.*\])", (ROOT / ".github" / "workflows" / "tests.yml").read_text())
    assert set(ast.literal_eval(matrix)) == versions
