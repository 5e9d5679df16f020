"""Red zones: what is written around an array, or given to native code in a type that it was not made for.

Each test is a process of its own, with FUSEGRAD_RED_ZONES=1. `make red-zones TESTS=...` runs any tests so.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from native_core import in_a_process

ROOT = Path(__file__).parents[3]

OVERRUN = """
    import numpy as np
    from fusegrad.compiler.llvm import llvm_jit
    from fusegrad.compiler.native.calls import Call, Calls
    from fusegrad.compiler.runtime import red_zones

    (kernel,) = llvm_jit.compile_module('''
        define void @overrun(ptr %slots, ptr %block) {{
          %slot = getelementptr ptr, ptr %slots, i64 1
          %data = load ptr, ptr %slot
          %behind = getelementptr float, ptr %data, i64 {place}
          store float 1.0, ptr %behind
          ret void
        }}''', ["overrun"])
    array = np.zeros(5, np.float32)
    try:
        Calls([Call(kernel, [], False, "the planted kernel")]).run(array)
        print("nothing")
    except red_zones.RedZoneTouched as error:
        print(error)
    red_zones.check("what comes later")
"""


@pytest.mark.parametrize(
    ("place", "found"),
    [(4, ""), (5, "4 bytes behind it, from 0 to 3"), (-2, "4 bytes before it, from -8 to -5")],
)
def test_a_kernel_that_writes_around_its_array_is_named(place: int, found: str) -> None:
    said = in_a_process(OVERRUN.format(place=place), FUSEGRAD_RED_ZONES="1")[0]
    whole = f"the planted kernel wrote {found}: memory of 20 bytes, array 0 of float32[5]"
    assert said == (f"{whole}\n" if found else "nothing\n")


MISFIT = """
    import numpy as np
    import fusegrad as fg
    from fusegrad.compiler.program.program import Program
    from fusegrad.compiler.runtime.red_zones import RedZoneTouched
    from fusegrad.tracer.capture import capture

    graph = capture(lambda x: x.exp() * 2, (fg.zeros(6),)).graph
    program = Program(graph).finish()
    try:
        program.run([{given}])
        print("nothing")
    except RedZoneTouched as error:
        print(error)
"""


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("np.zeros(6, np.float32)", "nothing"),
        ("np.zeros(6)", "it is float64[6] and not float32[6]"),
        ("np.zeros(2, np.float32)", "it is float32[2] and not float32[6]"),
        ("np.zeros(12, np.float32)[::2]", "its shape and strides are"),
    ],
)
def test_an_array_that_a_kernel_was_not_compiled_for_is_found(given: str, found: str) -> None:
    assert found in in_a_process(MISFIT.format(given=given), FUSEGRAD_RED_ZONES="1")[0]


THREADS = """
    import threading
    import numpy as np
    from fusegrad.compiler.runtime import red_zones

    done = threading.Event()

    def make_and_free():
        red_zones.install()
        while not done.is_set():
            for array in [np.empty(10) for _ in range(300)]:
                del array

    threads = [threading.Thread(target=make_and_free) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(3_000):
        red_zones.check("nothing")
    done.set()
    for thread in threads:
        thread.join()
    print("done")
"""


def test_arrays_of_other_threads_may_go_while_all_are_looked_at() -> None:
    assert in_a_process(THREADS, FUSEGRAD_RED_ZONES="1")[0] == "done\n"


def test_tests_pass_with_red_zones() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider"]
    command.append("tests/compiler/paths/test_accumulation.py")
    environment = {**os.environ, "FUSEGRAD_RED_ZONES": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout[-3000:]
