"""The pool's threads: who does which tasks, when they sleep, what the environment asks for; forks.

Most of these are programs of their own, since a process starts its pool once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import fusegrad as fg
from fusegrad.compiler.runtime import threads


def test_results_do_not_depend_on_the_number_of_threads():
    def f(x, w):
        return ((x @ w).tanh() * x.exp().sum(1, keepdim=True)).sum()

    g = fg.jit(fg.value_and_grad(f, (0, 1)))
    x, w = fg.randn(700, 300), fg.randn(300, 300)
    g(x, w)
    before = fg.get_num_threads()
    try:
        value, gradients = g(x, w)
        for count in (1, 2, 1000):
            fg.set_num_threads(count)
            assert fg.get_num_threads() == min(count, threads.pool_size())
            again, others = g(x, w)
            assert again.item() == value.item()
            assert all((a == b).all() for a, b in zip(gradients, others, strict=True))
        for count, error in ((0, RuntimeError), (-1, RuntimeError), (1.5, TypeError), ("2", TypeError)):
            with pytest.raises(error):
                fg.set_num_threads(count)
    finally:
        fg.set_num_threads(before)
    assert g.stats.compiled_calls == 4


def in_a_process(code: str) -> str:
    """What a program of its own prints; it must end well within a minute."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def in_a_file(directory: Path, code: str) -> str:
    """What a program prints that has a source, so that its calls are replayed."""
    path = directory / "program.py"
    path.write_text(code)
    return in_a_process(f"import runpy; runpy.run_path({str(path)!r})")


# A pool of more threads than cores, which come in any order, and late.
LARGE_POOL = """
import fusegrad as fg
from fusegrad.compiler.runtime import thread_pool, threads

threads.pool_size = lambda: 64
"""


def test_native_calls_let_other_threads_run():
    # A kernel that waits for another Python thread ends only if that one may run meanwhile.
    code = """
        import ctypes, threading, time
        import numpy as np
        from fusegrad.compiler.llvm import llvm_jit
        from fusegrad.compiler.native.calls import Call, Calls

        libc, semaphore = ctypes.CDLL(None), np.zeros(16, np.int64)
        llvm_jit.add_symbols({"sem_wait": ctypes.cast(libc.sem_wait, ctypes.c_void_p).value})
        (kernel,) = llvm_jit.compile_module('''
            declare i32 @sem_wait(ptr)
            define void @waiting(ptr %slots, ptr %block) {
              %slot = getelementptr ptr, ptr %slots, i64 1
              %semaphore = load ptr, ptr %slot
              %waited = call i32 @sem_wait(ptr %semaphore)
              ret void
            }''', ["waiting"])
        calls = Calls([Call(kernel, [], shared=False)])
        threading.Timer(0.1, libc.sem_post, [ctypes.c_void_p(semaphore.ctypes.data)]).start()
        calls.run(semaphore)
        print("went on")
    """
    assert in_a_process(code) == "went on\n"


def test_native_entries_are_made_once_though_many_threads_ask_first():
    code = """
        import gc, threading
        import numpy as np
        from fusegrad.compiler.native.match import MATCH, Match
        from fusegrad.eager.core.op import wrap

        barrier, found = threading.Barrier(8), []

        def ask():
            barrier.wait()
            match = Match([wrap(np.ones(3))])
            found.append((MATCH._maker, match))

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({id(native) for native, _ in found}) == 1
        matches = [match.matches for _, match in found]
        gc.collect()
        assert all(matches(wrap(np.zeros(3))) for matches in matches)
        print("one")
    """
    assert in_a_process(code) == "one\n"


@pytest.mark.parametrize(
    ("asked", "found"),
    [("1", 1), (" 1,4", 1), *((text, threads.cores()) for text in ("100000", "0", "-1", "many", ""))],
)
def test_as_many_threads_as_the_environment_asks_for(asked: str, found: int):
    code = f"""
        import os
        os.environ["OMP_NUM_THREADS"] = {asked!r}
        import fusegrad as fg
        assert fg.get_num_threads() == {found}
        print("as asked")
    """
    assert in_a_process(code) == "as asked\n"


@pytest.mark.skipif(threads.pool_size() < 2, reason="no pool here")
@pytest.mark.parametrize("wish", [{}, {"GOMP_SPINCOUNT": "7"}, {"OMP_WAIT_POLICY": "passive"}], ids=str)
def test_the_environment_is_what_it_was_when_the_pool_has_started(wish: dict[str, str]):
    code = f"""
        import os
        os.environ |= {wish}
        before = dict(os.environ)
        from fusegrad.compiler.runtime import thread_pool
        assert thread_pool.pool().calls() == 0 and dict(os.environ) == before
        print("the same")
    """
    assert in_a_process(code) == "the same\n"


@pytest.mark.parametrize(("wish", "found"), [(None, "16"), ("20", "20")])
def test_threads_of_numpy_that_is_loaded_by_fusegrad_soon_sleep(wish: str | None, found: str):
    code = f"""
        import os
        wish = {wish!r}
        if wish is None:
            os.environ.pop("OPENBLAS_THREAD_TIMEOUT", None)
        else:
            os.environ["OPENBLAS_THREAD_TIMEOUT"] = wish
        import fusegrad
        assert os.environ.get("OPENBLAS_THREAD_TIMEOUT") == wish
        import ctypes
        from numpy._core import _multiarray_umath
        # Looked for in what the module is linked with.
        library = ctypes.CDLL(_multiarray_umath.__file__)
        asked = getattr(library, "openblas_thread_timeout", None)
        print(asked() if asked else "no OpenBLAS")
    """
    printed = in_a_process(code).strip()
    assert printed in (found, "no OpenBLAS")


@pytest.mark.skipif(sys.platform != "linux" or threads.pool_size() < 2, reason="no cores to be told apart")
def test_a_thread_of_the_pool_is_kept_from_the_core_of_the_thread_that_makes_calls():
    code = """
        import os, time
        import numpy as np
        from fusegrad.compiler.gemm import eager_products
        from fusegrad.compiler.runtime import thread_pool

        cores, before = os.sched_getaffinity(0), {*os.listdir("/proc/self/task")}
        core, pool = min(cores), thread_pool.pool()
        time.sleep(0.2)  # those that compiled have ended
        workers = [int(task) for task in {*os.listdir("/proc/self/task")} - before]
        assert len(workers) == len(cores) - 1
        x = np.random.default_rng(0).standard_normal((700, 700))
        eager_products.matmul(x, x)
        eager_products.wait()

        def found(allowed):
            # All on one core, where the workers come to help sooner or later.
            for thread in (0, *workers):
                os.sched_setaffinity(thread, {core})
            os.sched_setaffinity(0, allowed)  # this mostly stays where it is, if it may
            assert np.allclose(eager_products.matmul(x, x), x @ x)
            return [os.sched_getaffinity(worker) for worker in workers]

        # Where the thread that makes calls may be nowhere else, nothing is changed.
        assert all(found({core}) == [{core}] * len(workers) for attempt in range(10))
        assert any(cores - {core} in found(cores) for attempt in range(300))
        assert pool.calls() > 10
        print("kept apart")
    """
    assert in_a_process(code) == "kept apart\n"


@pytest.mark.skipif(threads.pool_size() < 2, reason="no pool here")
def test_each_task_is_done_once_in_whatever_order_threads_come(tmp_path: Path):
    # Tasks that add to what is there: one that is left out or done twice is seen.
    code = """
        @fg.jit
        def count_on(x):
            x += 1

        for size in (80_000, 300_000, 3_000_000):
            x = fg.zeros(size)
            for turn in range(60):
                threads.thread_count[0] = (2, 3, 7, 64)[turn % 4]
                count_on(x)
                assert bool((x == turn + 1).all()), (size, turn)
        assert count_on.stats.compiled_calls > 150 and thread_pool.pool().calls() > 150
        print("once")
    """
    assert in_a_file(tmp_path, LARGE_POOL + textwrap.dedent(code)) == "once\n"


@pytest.mark.skipif(threads.pool_size() < 2, reason="no pool here")
def test_threads_come_together_once_for_all_kernels_of_a_call(tmp_path: Path):
    code = """
        @fg.jit
        def several(x):
            return fg.softmax((x @ x) * 0.01, 1) @ x + x.sum(0)

        for turn in range(8):
            x = fg.randn(200, 200, dtype=fg.float64)
            several(x)
            before, found = thread_pool.pool().calls(), several(x)
            assert thread_pool.pool().calls() == before + 1
            assert fg.allclose(found, fg.softmax((x @ x) * 0.01, 1) @ x + x.sum(0))
        print("once a call")
    """
    assert in_a_file(tmp_path, LARGE_POOL + textwrap.dedent(code)) == "once a call\n"


@pytest.mark.skipif(threads.pool_size() < 2, reason="no pool here")
def test_a_call_that_finds_the_team_taken_computes_alone(tmp_path: Path):
    # The team is taken for as long as a kernel of another thread's call waits.
    code = """
        import ctypes, threading
        import numpy as np
        from fusegrad.compiler.llvm import llvm_jit
        from fusegrad.compiler.native.calls import Call, Calls

        libc, semaphores = ctypes.CDLL(None), np.zeros((2, 16), np.int64)
        functions = {"sem_wait": libc.sem_wait, "sem_post": libc.sem_post}
        llvm_jit.add_symbols({n: ctypes.cast(f, ctypes.c_void_p).value for n, f in functions.items()})
        (kernel,) = llvm_jit.compile_module('''
            declare i32 @sem_wait(ptr)
            declare i32 @sem_post(ptr)
            define void @waiting(ptr %slots, ptr %block) {
              %first.at = getelementptr ptr, ptr %slots, i64 1
              %first = load ptr, ptr %first.at
              %second.at = getelementptr ptr, ptr %slots, i64 2
              %second = load ptr, ptr %second.at
              %posted = call i32 @sem_post(ptr %first)
              %waited = call i32 @sem_wait(ptr %second)
              ret void
            }''', ["waiting"])
        calls = Calls([Call(kernel, [], shared=True)])
        begun, done = (ctypes.c_void_p(s.ctypes.data) for s in semaphores)

        @fg.jit
        def count_on(x):
            x += 1

        x = fg.zeros(300_000)
        for _ in range(3):
            count_on(x)
        other = threading.Thread(target=calls.run, args=(*semaphores,))
        other.start()
        libc.sem_wait(begun)
        before = thread_pool.pool().calls()
        for _ in range(3):
            count_on(x)
        assert thread_pool.pool().calls() == before and other.is_alive()
        libc.sem_post(done)
        other.join()
        count_on(x)
        assert thread_pool.pool().calls() == before + 2 and bool((x == 7).all())
        print("alone")
    """
    assert in_a_file(tmp_path, LARGE_POOL + textwrap.dedent(code)) == "alone\n"


@pytest.mark.skipif(threads.pool_size() < 2, reason="no pool here")
def test_threads_sleep_where_no_call_comes():
    code = """
        import time
        import numpy as np
        from fusegrad.compiler.gemm import eager_products
        from fusegrad.compiler.runtime import thread_pool, threads

        x = np.ones((300, 300))
        eager_products.matmul(x, x)
        eager_products.wait()
        for _ in range(100):
            eager_products.matmul(x, x)
        assert thread_pool.pool().calls() == 100
        time.sleep(0.2)
        before = time.process_time()
        time.sleep(0.5)
        assert thread_pool.pool().asleep() == threads.pool_size() - 1
        assert time.process_time() - before < 0.1
        print("asleep")
    """
    assert in_a_process(code) == "asleep\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_children_that_are_forked_while_threads_compile_and_run():
    code = """
        import os, signal, sys, threading, types
        import fusegrad as fg

        def body(x):
            return (x.exp() * NUMBER).sum()

        def fresh(number):
            code = body.__code__
            return fg.jit(types.FunctionType(code, {"NUMBER": number, "fg": fg}))

        shared = fg.jit(lambda x: (x.tanh() * 2).sum() if x.sum() > 0 else x.mean())
        shared(fg.ones(3)), shared(fg.ones(3))  # a module that is being imported is Python's business
        stop = threading.Event()

        def busy(seed):
            number = seed
            while not stop.is_set():
                number += 1
                f = fresh(float(number))
                n = number % 50 + 1
                for x in (fg.ones(n), fg.ones(n), fg.ones(40_000)):
                    f(x), shared(x), shared(-x)

        threads = [threading.Thread(target=busy, args=(1000 * i,)) for i in range(3)]
        for t in threads:
            t.start()
        for round in range(10):
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                try:
                    for n in (3, 60 + round, 40_000):
                        x = fg.ones(n, requires_grad=True)
                        for f, expected in ((shared, 0.8399486), (fresh(2.5), 6.7957046)):
                            for _ in range(3):
                                x.grad = None
                                f(x).backward()
                                assert abs(x.grad[0].item() - expected) < 1e-4
                    os._exit(0)
                except BaseException:
                    import traceback
                    traceback.print_exc()
                    os._exit(1)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if status:
                print("child", round, "ended with", status)
                break
        stop.set()
        for t in threads:
            t.join()
        print("done")
    """
    assert in_a_process(code) == "done\n"
