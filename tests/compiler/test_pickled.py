"""Jitted functions in pickles, as process pools and their kin make them."""

from __future__ import annotations

import functools
import pickle
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from numba import cloudpickle
from planted import finds

import fusegrad as fg
from fusegrad.compiler.jit import JitFunction

LOCK = threading.Lock()


@fg.jit
def doubled(x: fg.Tensor) -> fg.Tensor:
    return x * 2


def tripled(x: fg.Tensor) -> fg.Tensor:
    return x * 3


class Group:
    @fg.jit
    def scaled(self, x: fg.Tensor) -> fg.Tensor:
        return x * 4


@fg.jit
def locked(x: fg.Tensor) -> fg.Tensor:
    with LOCK:
        return x * 5


def closing() -> Any:
    factor, weights = 6, fg.tensor([1.0, 2.0])
    return fg.jit(lambda x: x * weights * factor)


def recursive() -> Any:
    @fg.jit
    def power(x: fg.Tensor, n: int) -> fg.Tensor:
        return x if n <= 1 else x * power(x, n - 1)

    return power


def mutual() -> Any:
    @fg.jit
    def even(x: fg.Tensor, n: int) -> fg.Tensor:
        return x if n == 0 else odd(x * 2, n - 1)

    @fg.jit
    def odd(x: fg.Tensor, n: int) -> fg.Tensor:
        return -x if n == 0 else even(x * 3, n - 1)

    return even


CASES: dict[str, tuple[Callable[[], Any], tuple[Any, ...], bool]] = {
    # What is pickled, further arguments, whether it is the same object in the same process.
    "function of a module": (lambda: doubled, (), True),
    "another name": (lambda: fg.jit(tripled), (), False),
    "function with a lock": (lambda: locked, (), True),
    "method": (lambda: Group().scaled, (), False),
    "function of a class": (lambda: functools.partial(Group.scaled, Group()), (), False),
    "local function": (closing, (), False),
    "recursive function": (recursive, (3,), False),
    "two that call each other": (mutual, (3,), False),
    "module": (lambda: fg.jit(fg.nn.Linear(2, 2)), (), False),
    "partial": (lambda: fg.jit(functools.partial(fg.add, alpha=2)), (fg.ones(2),), False),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("pickler", [pickle, cloudpickle])
def test_what_comes_back_computes_the_same(name: str, pickler: Any):
    make, arguments, same = CASES[name]
    function, x = make(), fg.tensor([1.0, 3.0])
    expected = function(x, *arguments)
    made = pickler.loads(pickler.dumps(function))
    assert (made is function) is same
    assert all(fg.allclose(made(x, *arguments), expected) for _ in range(3))


def test_options_come_back():
    made = pickle.loads(pickle.dumps(fg.jit(lambda x: x + 1, verify=3, require="replay")))
    assert (made.verify, made.require, made.stats.calls) == (3, "replay", 0)


def test_what_cannot_be_pickled_says_so():
    lock = threading.Lock()
    with pytest.raises(TypeError, match="lock"):
        pickle.dumps(fg.jit(lambda x: lock and x))


def run(tmp_path: Path, text: str) -> str:
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(text))
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, cwd=tmp_path)
    assert not done.returncode, done.stderr
    return done.stdout


def test_functions_of_a_main_module_go_to_other_processes(tmp_path: Path):
    run(
        tmp_path,
        """
        import pathlib, pickle
        import fusegrad as fg

        @fg.jit
        def loss(x):
            return loss(x - 1) + 1 if x.sum() > 4 else (x * x).sum()

        assert pickle.loads(pickle.dumps(loss)) is loss
        pathlib.Path("loss").write_bytes(pickle.dumps(loss))
        """,
    )
    text = 'import pickle\nprint(pickle.load(open("loss", "rb"))(__import__("fusegrad").tensor([3.0, 4.0])))'
    assert run(tmp_path, text) == "tensor(7.)\n"


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_process_pools_run_jitted_functions(method: str, tmp_path: Path):
    printed = run(
        tmp_path,
        f"""
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor
        import fusegrad as fg

        @fg.jit
        def square(x):
            return x * x

        if __name__ == "__main__":
            with ProcessPoolExecutor(1, multiprocessing.get_context({method!r})) as pool:
                print([float(y) for y in pool.map(square, [fg.tensor(float(n)) for n in range(4)])])
        """,
    )
    assert printed == "[0.0, 1.0, 4.0, 9.0]\n"


def test_functions_that_pickle_as_objects_are_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(JitFunction, "__reduce__", lambda self: object.__reduce_ex__(self, 2))
    assert all(
        finds(test_what_comes_back_computes_the_same, name, pickle) for name in set(CASES) - {"method"}
    )
