"""Libraries that functions were exported as, beside the process that has the functions.

First: loading the library and its first call, in a process that imports NumPy, and the first call of the
jitted function, in one that imports fusegrad, without a cache and with that of a process before. Steady: a
call through ctypes, on one thread and on two, and a call of the jitted function on as many.

python benchmarks/shipped [--json FILE] [--repeat N] [--quick]
"""

from __future__ import annotations

import ctypes
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import harness
from programs import PROGRAMS

FIRST = """
import ctypes, sys, time
import numpy as np
path, name, *files = sys.argv[1:]
arrays = [np.load(file) for file in files]
addresses = [ctypes.c_void_p(array.ctypes.data) for array in arrays]
begin = time.perf_counter()
code = getattr(ctypes.CDLL(path), name)(*addresses)
print(time.perf_counter() - begin)
assert code == 0
"""
ALL = 200  # calls of a sample


def first_of_library(path: Path, arrays: Sequence[np.ndarray]) -> float:
    """Seconds of loading a library and calling it once."""
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for number, array in enumerate(arrays):
            files.append(f"{folder}/{number}.npy")
            np.save(files[-1], array)
        return _printed("-c", FIRST, str(path), path.stem, *files)


def first_in_process(name: str, cache: str) -> float:
    """Seconds of the first call of a jitted function."""
    return _printed(__file__, "--first", name, cache=cache)


def _printed(*command: str, cache: str = "0") -> float:
    env = harness.environment(FUSEGRAD_CACHE=cache)
    done = subprocess.run([sys.executable, *command], env=env, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def first_call(name: str) -> None:
    """Print how long the first call takes; imports apart."""
    import fusegrad as fg

    fg.manual_seed(0)
    function, given = PROGRAMS[name]()
    compiled = fg.jit(function)
    begin = time.perf_counter()
    compiled(*given)
    print(time.perf_counter() - begin)


def seconds(call: Callable[[], Any], repeat: int) -> float:
    """The median of samples of a call."""
    samples = []
    for _ in range(repeat):
        begin = time.perf_counter()
        for _ in range(ALL):
            call()
        samples.append((time.perf_counter() - begin) / ALL)
    return statistics.median(samples)


def figures(name: str, folder: Path, repeat: int) -> dict[str, float]:
    """All figures of a program, in seconds and bytes."""
    import fusegrad as fg

    fg.manual_seed(0)
    function, given = PROGRAMS[name]()
    path, arrays = folder / f"{name}.so", [tensor.numpy() for tensor in given]
    begin = time.perf_counter()
    fg.export(function, given, path)
    exported = time.perf_counter() - begin
    compiled = fg.jit(function)
    for _ in range(3):
        results = compiled(*given)
    expected = [made.numpy() for made in (results if isinstance(results, tuple) else (results,))]
    found = [np.empty_like(array) for array in expected]
    library = ctypes.CDLL(str(path))
    addresses = [ctypes.c_void_p(array.ctypes.data) for array in (*arrays, *found)]
    native, threads = library[name], library[f"{name}_threads"]
    assert native(*addresses) == 0
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    made = {"export": exported, "bytes": path.stat().st_size}
    for count in (1, 2):
        fg.set_num_threads(count)
        threads(count)
        made[f"library, {count} threads"] = seconds(lambda: native(*addresses), repeat)
        made[f"jit, {count} threads"] = seconds(lambda: compiled(*given), repeat)
    threads(1)
    firsts: dict[str, list[float]] = {"first of library": [], "first of jit": [], "first of jit, warm": []}
    with tempfile.TemporaryDirectory() as cache:
        first_in_process(name, cache)
        for _ in range(max(2, repeat // 2)):
            firsts["first of library"].append(first_of_library(path, [*arrays, *found]))
            firsts["first of jit"].append(first_in_process(name, "0"))
            firsts["first of jit, warm"].append(first_in_process(name, cache))
    return made | {what: statistics.median(samples) for what, samples in firsts.items()}


def main() -> None:
    if sys.argv[1:2] == ["--first"]:
        first_call(sys.argv[2])
        return
    options = harness.options("libraries beside the process")
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in ["lstm"] if "L" in __import__("os").environ else PROGRAMS:
            found[name] = figures(name, Path(folder), options.repeat or 11)
            print(f"{name}: {found[name]['bytes'] / 1000:.0f} kB")
            for what, figure in found[name].items():
                if what != "bytes":
                    print(f"    {what:20} {figure * 1e6:12,.1f} us")
    harness.save(options.json, found)


if __name__ == "__main__":
    main()
