"""Many threads call the same and other jitted functions, first compiles included; forks; lifetimes.

`python tests/compiler/test_threads.py [SECONDS [SEED]]` does what the test does, for a minute. It goes in
rounds: in each, new jitted functions are made, and the threads start on them at once.
"""

from __future__ import annotations

import copy
import faulthandler
import gc
import io
import linecache
import os
import random
import subprocess
import sys
import textwrap
import threading
import time
import traceback
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler import jit, native
from fusegrad.compiler.family import Family
from fusegrad.eager.state import state
from fusegrad.tracer import observe

THREADS = 8
JOBS = 40  # of each thread in a round


def same(a: Any, b: Any) -> None:
    if b is None:
        assert a is None
        return
    assert a.requires_grad == b.requires_grad and a.dtype == b.dtype
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-5)


def model_of(width: int = 3) -> fg.nn.Module:
    return fg.nn.Sequential(fg.nn.Linear(width, 4), fg.nn.Tanh(), fg.nn.Linear(4, width))


# Programs that all threads share.


def flipping(x: fg.Tensor) -> fg.Tensor:
    return (x.tanh() * x).sum() if x.sum() > 0 else (x - 1).exp().mean() + x.abs().sum()


def several(x: fg.Tensor, factor: float) -> tuple[fg.Tensor, fg.Tensor]:
    y = x * factor
    return y.sin().sum(), (y * y).mean()


def logged(x: fg.Tensor, log: list[Any], out: Any) -> fg.Tensor:
    """Runs deferred: it prints and appends."""
    y = (x * 2).sigmoid()
    print("begins", tuple(x.shape), file=out)
    log.append(y.detach() + 1)
    z = (y * x).sum()
    log.append(round(float(z.detach()) * 10))
    return z + y.mean()


def looped(x: fg.Tensor) -> fg.Tensor:
    """A loop whose length depends on data."""
    for _ in range(6):
        if x.abs().max() > 2.0137:
            break
        x = x * 1.7
    return x


def refused(x: fg.Tensor) -> fg.Tensor:
    """An exception on data."""
    if x.min() < -0.7137:
        raise ValueError("too low")
    return x.sqrt() if x.min() > 0 else x * 2


def stepped(model: fg.nn.Module, optimizer: Any, x: fg.Tensor) -> fg.Tensor:
    """A whole training step."""
    optimizer.zero_grad()
    loss = ((model(x) - x) ** 2).mean()
    loss.backward()
    optimizer.step()
    return loss.detach()


def applied(model: fg.nn.Module, x: fg.Tensor) -> fg.Tensor:
    return model(x).softmax(-1)


PROGRAMS = (flipping, several, logged, looped, refused, stepped, applied)


class Shared:
    """What the threads of one round have in common: one jitted function for each program, and a model."""

    def __init__(self) -> None:
        self.model = model_of()
        self.jitted = {p.__name__: fg.jit(p) for p in PROGRAMS}
        inner = fg.jit(lambda x: x.exp() * 0.1)
        self.jitted["outer"] = fg.jit(lambda x: inner(x) + inner(x * 2).sum())
        self.module = fg.jit(self.model)


class Worker:
    """One thread's jobs; each makes a call jitted and eager, and compares what can be seen."""

    def __init__(self, shared: Shared, seed: int) -> None:
        self.shared, self.choose = shared, random.Random(seed)
        self.model = model_of()
        self.optimizer = fg.optim.Adam(self.model.parameters(), lr=0.05)
        self.twin = copy.deepcopy(self.model)
        self.twin_optimizer = fg.optim.Adam(self.twin.parameters(), lr=0.05)
        self.jobs = [getattr(self, name) for name in dir(self) if name.startswith("job_")]

    def go(self, count: int) -> None:
        for _ in range(count):
            self.choose.choice(self.jobs)()
            assert state.interpreter is None and state.grad_enabled and observe.current.observer is None

    def pair(self, *shape: int, tracked: bool = True) -> tuple[fg.Tensor, fg.Tensor]:
        """Two tensors of the same values."""
        generator = np.random.default_rng(self.choose.randrange(1 << 30))
        values = (generator.normal(size=shape) + self.choose.choice((-0.5, 0.5))).astype("f4")
        return fg.tensor(values, requires_grad=tracked), fg.tensor(values, requires_grad=tracked)

    def any_shape(self) -> tuple[int, ...]:
        return self.choose.choice([(3,), (4,), (2, 3), (5, 2), (300, 70)])

    def both(self, name: str, ours: fg.Tensor, theirs: fg.Tensor, *others: Any) -> None:
        """A program's result and its gradient."""
        program = next(p for p in PROGRAMS if p.__name__ == name)
        a, b = self.shared.jitted[name](ours, *others), program(theirs, *others)
        for mine, reference in zip(*((r if type(r) is tuple else (r,)) for r in (a, b)), strict=True):
            same(mine, reference)
            if reference.requires_grad:
                mine.sum().backward()
                reference.sum().backward()
        same(ours.grad, theirs.grad)

    def job_flips(self) -> None:
        self.both("flipping", *self.pair(*self.any_shape()))

    def job_several_results(self) -> None:
        self.both("several", *self.pair(3, 2), self.choose.choice([0.5, 2.0, self.choose.random()]))

    def job_without_gradients(self) -> None:
        ours, theirs = self.pair(*self.any_shape())
        with fg.no_grad():
            self.both("flipping", ours, theirs)
        self.both("looped", ours, theirs)

    def job_loops(self) -> None:
        self.both("looped", *self.pair(3))

    def job_retains(self) -> None:
        ours, theirs = self.pair(4)
        a, b = self.shared.jitted["flipping"](ours), flipping(theirs)
        for result in (a, b):
            result.backward(retain_graph=True)
            result.backward()
        same(ours.grad, theirs.grad)

    def job_derives_twice(self) -> None:
        ours, theirs = self.pair(3)
        slopes = []
        for function, x in ((self.shared.jitted["flipping"], ours), (flipping, theirs)):
            (slope,) = fg.autograd.grad(function(x), x, create_graph=True)
            (slope * slope).sum().backward()
            slopes.append(slope)
        same(*slopes)
        same(ours.grad, theirs.grad)

    def job_logs(self) -> None:
        ours, theirs = self.pair(*self.any_shape())
        logs: tuple[list[Any], list[Any]] = ([], [])
        texts = io.StringIO(), io.StringIO()
        same(self.shared.jitted["logged"](ours, logs[0], texts[0]), logged(theirs, logs[1], texts[1]))
        assert texts[0].getvalue() == texts[1].getvalue()
        for a, b in zip(*logs, strict=True):
            same(a, b) if isinstance(b, fg.Tensor) else np.testing.assert_allclose(a, b, rtol=1e-4, atol=1)

    def job_raises(self) -> None:
        ours, theirs = self.pair(3)
        try:
            expected = refused(theirs)
        except ValueError as error:
            with pytest.raises(ValueError, match=str(error)):
                self.shared.jitted["refused"](ours)
        else:
            same(self.shared.jitted["refused"](ours), expected)

    def job_steps_a_model_of_its_own(self) -> None:
        ours, theirs = self.pair(5, 3, tracked=False)
        loss = self.shared.jitted["stepped"](self.model, self.optimizer, ours)
        same(loss, stepped(self.twin, self.twin_optimizer, theirs))
        for a, b in zip(self.model.parameters(), self.twin.parameters(), strict=True):
            same(a, b)
            same(a.grad, b.grad)

    def job_applies_the_shared_model(self) -> None:
        ours, theirs = self.pair(self.choose.choice((2, 6)), 3)
        model = self.shared.model
        with fg.no_grad() if self.choose.random() < 0.5 else nullcontext():
            a, b = self.shared.jitted["applied"](model, ours), applied(model, theirs)
            same(a, b)
            same(self.shared.module(ours), model(theirs))
        if b.requires_grad:
            slopes = (fg.autograd.grad((r * r).sum(), x)[0] for r, x in ((a, ours), (b, theirs)))
            same(*slopes)

    def job_nests(self) -> None:
        ours, theirs = self.pair(3)
        a, b = self.shared.jitted["outer"](ours), theirs.exp() * 0.1 + ((theirs * 2).exp() * 0.1).sum()
        same(a, b)
        a.sum().backward()
        b.sum().backward()
        same(ours.grad, theirs.grad)

    def job_makes_a_function_of_its_own(self) -> None:
        number = self.choose.random()
        function = fg.jit(lambda x: (x * number).cos().sum())
        for _ in range(3):
            ours, theirs = self.pair(4)
            a, b = function(ours), (theirs * number).cos().sum()
            same(a, b)
            a.backward()
            b.backward()
            same(ours.grad, theirs.grad)


def play(rounds: Callable[[int], bool], seed: int = 0, jobs: int = JOBS) -> int:
    """Rounds while `rounds(number)`; how many calls compiled code answered. Raises what failed first."""
    failures: list[str] = []
    answered = number = 0
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        while rounds(number) and not failures:
            shared = Shared()
            barrier = threading.Barrier(THREADS)

            def work(first: int, shared: Shared = shared, barrier: threading.Barrier = barrier) -> None:
                try:
                    worker = Worker(shared, first)
                    barrier.wait()
                    worker.go(jobs)
                except BaseException:
                    failures.append(f"seed {first}: {traceback.format_exc()}")

            # Every other round compiles its kernels as if they had never been met.
            with native.cold() if number % 2 else nullcontext():
                threads = [
                    threading.Thread(target=work, args=(seed + THREADS * number + i,), daemon=True)
                    for i in range(THREADS)
                ]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join(120)
                    assert not thread.is_alive(), "a thread waits for ever"
            answered += sum(f.stats.compiled_calls for f in shared.jitted.values())
            number += 1
    finally:
        sys.setswitchinterval(interval)
    assert not failures, failures[0]
    return answered


def test_eight_threads_get_what_eager_gives():
    assert play(lambda number: number < 2) > 200


def test_a_thread_that_meets_new_lengths_while_another_makes_room_for_them(monkeypatch: pytest.MonkeyPatch):
    jitted = fg.jit(lambda x: (x * 2).sum())
    jitted(fg.ones(3))
    others: list[Any] = []

    def asked_meanwhile(*args: Any) -> Family:
        monkeypatch.setattr(jit, "Family", Family)
        thread = threading.Thread(target=lambda: others.append(jitted(fg.ones(5))))
        thread.start()
        thread.join(60)
        return Family(*args)

    monkeypatch.setattr(jit, "Family", asked_meanwhile)
    assert jitted(fg.ones(4)).item() == 8
    assert [other.item() for other in others] == [10]
    # Both went into one family, which was told of both.
    (family,) = [e.family for e in jitted.entries.values() if e.family is not None]
    assert family.shapes == [(None,)]


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
            assert fg.get_num_threads() == min(count, native.pool_size())
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
from fusegrad.compiler import native, team

native.pool_size = lambda: 64
"""


def test_native_calls_let_other_threads_run():
    # A kernel that waits for another Python thread ends only if that one may run meanwhile.
    code = """
        import ctypes, threading, time
        import numpy as np
        from fusegrad.compiler import calling, native

        libc, semaphore = ctypes.CDLL(None), np.zeros(16, np.int64)
        native.add_symbols({"sem_wait": ctypes.cast(libc.sem_wait, ctypes.c_void_p).value})
        (kernel,) = native.compile_module("waiting", '''
            declare i32 @sem_wait(ptr)
            define void @waiting(ptr %slots, ptr %block) {
              %slot = getelementptr ptr, ptr %slots, i64 1
              %semaphore = load ptr, ptr %slot
              %waited = call i32 @sem_wait(ptr %semaphore)
              ret void
            }''', ["waiting"])
        calls = calling.Calls([calling.Call(kernel, [], shared=False)])
        threading.Timer(0.1, libc.sem_post, [ctypes.c_void_p(semaphore.ctypes.data)]).start()
        calls.run(semaphore)
        print("went on")
    """
    assert in_a_process(code) == "went on\n"


def test_native_entries_are_made_once_though_many_threads_ask_first():
    code = """
        import gc, threading
        import numpy as np
        from fusegrad.compiler import calling
        from fusegrad.eager.op import wrap

        barrier, found = threading.Barrier(8), []

        def ask():
            barrier.wait()
            found.append((calling._native("run"), calling.Match([wrap(np.ones(3))])))

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
    [("1", 1), (" 1,4", 1), *((text, native.cores()) for text in ("100000", "0", "-1", "many", ""))],
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


@pytest.mark.skipif(native.pool_size() < 2, reason="no pool here")
@pytest.mark.parametrize("wish", [{}, {"GOMP_SPINCOUNT": "7"}, {"OMP_WAIT_POLICY": "passive"}], ids=str)
def test_the_environment_is_what_it_was_when_the_pool_has_started(wish: dict[str, str]):
    code = f"""
        import os
        os.environ |= {wish}
        before = dict(os.environ)
        from fusegrad.compiler import team
        assert team.pool().calls() == 0 and dict(os.environ) == before
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


@pytest.mark.skipif(sys.platform != "linux" or native.pool_size() < 2, reason="no cores to be told apart")
def test_a_thread_of_the_pool_is_kept_from_the_core_of_the_thread_that_makes_calls():
    code = """
        import os, time
        import numpy as np
        from fusegrad.compiler import products, team

        cores, before = os.sched_getaffinity(0), {*os.listdir("/proc/self/task")}
        core, pool = min(cores), team.pool()
        time.sleep(0.2)  # those that compiled have ended
        workers = [int(task) for task in {*os.listdir("/proc/self/task")} - before]
        assert len(workers) == len(cores) - 1
        x = np.random.default_rng(0).standard_normal((700, 700))

        def found(allowed):
            # All on one core, where the workers come to help sooner or later.
            for thread in (0, *workers):
                os.sched_setaffinity(thread, {core})
            os.sched_setaffinity(0, allowed)  # this mostly stays where it is, if it may
            assert np.allclose(products.matmul(x, x), x @ x)
            return [os.sched_getaffinity(worker) for worker in workers]

        # Where the thread that makes calls may be nowhere else, nothing is changed.
        assert all(found({core}) == [{core}] * len(workers) for attempt in range(10))
        assert any(cores - {core} in found(cores) for attempt in range(300))
        assert pool.calls() > 10
        print("kept apart")
    """
    assert in_a_process(code) == "kept apart\n"


@pytest.mark.skipif(native.pool_size() < 2, reason="no pool here")
def test_each_task_is_done_once_in_whatever_order_threads_come(tmp_path: Path):
    # Tasks that add to what is there: one that is left out or done twice is seen.
    code = """
        @fg.jit
        def count_on(x):
            x += 1

        for size in (80_000, 300_000, 3_000_000):
            x = fg.zeros(size)
            for turn in range(60):
                native.thread_count[0] = (2, 3, 7, 64)[turn % 4]
                count_on(x)
                assert bool((x == turn + 1).all()), (size, turn)
        assert count_on.stats.compiled_calls > 150 and team.pool().calls() > 150
        print("once")
    """
    assert in_a_file(tmp_path, LARGE_POOL + textwrap.dedent(code)) == "once\n"


@pytest.mark.skipif(native.pool_size() < 2, reason="no pool here")
def test_threads_come_together_once_for_all_kernels_of_a_call(tmp_path: Path):
    code = """
        @fg.jit
        def several(x):
            return fg.softmax((x @ x) * 0.01, 1) @ x + x.sum(0)

        for turn in range(8):
            x = fg.randn(200, 200, dtype=fg.float64)
            several(x)
            before, found = team.pool().calls(), several(x)
            assert team.pool().calls() == before + 1
            assert fg.allclose(found, fg.softmax((x @ x) * 0.01, 1) @ x + x.sum(0))
        print("once a call")
    """
    assert in_a_file(tmp_path, LARGE_POOL + textwrap.dedent(code)) == "once a call\n"


@pytest.mark.skipif(native.pool_size() < 2, reason="no pool here")
def test_a_call_that_finds_the_team_taken_computes_alone(tmp_path: Path):
    # The team is taken for as long as a kernel of another thread's call waits.
    code = """
        import ctypes, threading
        import numpy as np
        from fusegrad.compiler import calling

        libc, semaphores = ctypes.CDLL(None), np.zeros((2, 16), np.int64)
        functions = {"sem_wait": libc.sem_wait, "sem_post": libc.sem_post}
        native.add_symbols({n: ctypes.cast(f, ctypes.c_void_p).value for n, f in functions.items()})
        (kernel,) = native.compile_module("waiting", '''
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
        calls = calling.Calls([calling.Call(kernel, [], shared=True)])
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
        before = team.pool().calls()
        for _ in range(3):
            count_on(x)
        assert team.pool().calls() == before and other.is_alive()
        libc.sem_post(done)
        other.join()
        count_on(x)
        assert team.pool().calls() == before + 2 and bool((x == 7).all())
        print("alone")
    """
    assert in_a_file(tmp_path, LARGE_POOL + textwrap.dedent(code)) == "alone\n"


@pytest.mark.skipif(native.pool_size() < 2, reason="no pool here")
def test_threads_sleep_where_no_call_comes():
    code = """
        import time
        import numpy as np
        from fusegrad.compiler import products, team

        x = np.ones((300, 300))
        for _ in range(100):
            products.matmul(x, x)
        assert team.pool().calls() == 100
        time.sleep(0.2)
        before = time.process_time()
        time.sleep(0.5)
        assert team.pool().asleep() == team.native.pool_size() - 1
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


FUNCTIONS = """
def body(x, factor=1.0):
    if way == "deferred":
        log.append(x)
    y = model(x * factor)
    if way == "branches" and y.sum() > 0.0137:
        y = y * 2
    return (inner(y) if way == "nested" else y).sum()
"""


@pytest.mark.parametrize(
    "way", ["replay", "deferred", "joint", "branches", "nested", "numbers", "unfollowed"]
)
def test_functions_models_and_their_code_are_collectable(way: str):
    def make() -> list[weakref.ref[Any]]:
        name = f"<functions of {way}>"
        if way != "unfollowed":
            linecache.cache[name] = len(FUNCTIONS), None, FUNCTIONS.splitlines(keepends=True), name
        model, log = model_of(), []
        inner = fg.jit(lambda x: x.exp())
        namespace = {"way": way, "model": model, "inner": inner, "log": log}
        exec(compile(FUNCTIONS, name, "exec"), namespace)
        body: Any = namespace["body"]
        function = fg.jit(body)
        for number in range(8):
            x = fg.ones(2, 3) * (number % 2 * 2 - 1)
            loss = function(x, *([number * 0.1] if way == "numbers" else []))
            if way != "replay":
                loss.backward()
        assert function.stats.compiled_calls > 3, str(function.explain())
        kept = model, model[0].weight, function, inner, body, body.__code__, x, loss
        return [weakref.ref(value) for value in kept]

    references = make()
    gc.collect()
    assert [r() for r in references] == [None] * len(references)


if __name__ == "__main__":
    faulthandler.enable()
    seconds, first = (float(sys.argv[1]) if len(sys.argv) > 1 else 60.0), int((*sys.argv, 0, 0)[2])
    faulthandler.dump_traceback_later(seconds + 300, exit=True)
    end = time.monotonic() + seconds
    count = play(lambda number: time.monotonic() < end, first)
    print(f"{THREADS} threads, {seconds:.0f} s: all as eager, {count} calls answered by compiled code")
