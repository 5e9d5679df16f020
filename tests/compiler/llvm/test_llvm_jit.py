"""Modules become machine code side by side, each in an LLVM context of its own, and leave nothing behind."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from kernel_checks import program_of, tensor
from llvmlite.binding import ffi

import fusegrad as fg
from fusegrad.compiler.base import background
from fusegrad.compiler.base.lock import compiling
from fusegrad.compiler.codegen import kernel_cache
from fusegrad.compiler.llvm import image, llvm_jit, llvm_work
from fusegrad.compiler.llvm.llvm_jit import Module, compile_module
from fusegrad.compiler.runtime import threads

numbers = iter(range(1_000_000))


@pytest.fixture(autouse=True)
def interrupts_are_heard():
    """Also where whoever started the tests ignores them, as a shell does for what runs in its background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def giving(number: int) -> tuple[str, str]:
    """A function of no arguments that gives a number: its name and its module."""
    name = f"giving_{next(numbers)}"
    return name, f"define i64 @{name}() {{ ret i64 {number} }}"


def called(address: int) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int64)(address)()


def begun(number: int) -> Module:
    name, text = giving(number)
    with compiling:
        return Module(text, [name])


def result(module: Module) -> int:
    (address,) = module.addresses().values()
    return called(address)


def emitting(monkeypatch: pytest.MonkeyPatch, first: Callable[[], Any]) -> None:
    """Have something done before LLVM makes machine code of a module."""
    emit = llvm_work._emit
    monkeypatch.setattr(llvm_work, "_emit", lambda *given: (first(), emit(*given))[1])


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What LLVM was told for the whole process, and "emitted" for each module."""
    told: list[str] = []
    monkeypatch.setattr(llvm_work.llvm, "set_option", lambda name, option: told.append(option))
    emitting(monkeypatch, lambda: told.append("emitted"))
    return told


def test_modules_are_compiled_side_by_side(monkeypatch):
    both = threading.Barrier(2)
    emitting(monkeypatch, lambda: both.wait(60))
    first, second = begun(3), begun(4)
    assert [result(first), result(second)] == [3, 4]


def test_llvm_works_though_another_thread_has_the_lock_of_llvmlite(monkeypatch, options):
    held = threading.Event()
    run_passes = llvm_work._run_passes
    monkeypatch.setattr(llvm_work, "_run_passes", lambda *given: (held.wait(60), run_passes(*given)))
    module = begun(15)
    with ffi.lib._lock:
        held.set()
        end = time.monotonic() + 60
        while not module.running.finished and time.monotonic() < end:
            time.sleep(0.001)
        assert module.running.finished
    assert result(module) == 15


def test_kernels_of_a_program_are_shared_out(monkeypatch):
    def two(x: fg.Tensor) -> fg.Tensor:
        return fg.tanh(x).sum(0).exp() + fg.sin(x).mean(0)[:, None].log1p().sum()

    monkeypatch.setattr(threads, "cores", lambda: 2)
    with kernel_cache.cold():
        program, _, _ = program_of(two, tensor(40, 30))
        names = [kernel_cache.kernel_name(bound.kernel) for bound in program.kernels]
        assert len({kernel_cache._modules[name] for name in names}) == 2


def test_small_kernels_share_a_module():
    assert kernel_cache._shares({"a": 100, "b": 200}, 8) == [["b", "a"]]
    assert kernel_cache._shares({"a": 9_000, "b": 200}, 8) == [["a", "b"]]
    sizes = {"a": 9_000, "b": 5_000, "c": 4_500, "d": 100}
    assert kernel_cache._shares(sizes, 2) == [["a", "d"], ["b", "c"]]
    assert kernel_cache._shares(sizes, 1) == [["a", "b", "c", "d"]]
    assert kernel_cache._shares({}, 2) == []


def test_of_many_kernels_llvm_has_the_first_before_the_last_are_written(monkeypatch):
    def many(x: fg.Tensor) -> list[fg.Tensor]:
        return [fg.tanh(x.sum(0)) @ x.mT, fg.sin(x).sum(), fg.exp(x[0]).sum() * x]

    done: list[str] = []
    write, begin = kernel_cache.module_text, kernel_cache.Module
    monkeypatch.setattr(kernel_cache, "LARGE_MODULE", 1)
    monkeypatch.setattr(kernel_cache, "module_text", lambda *given: (done.append("text"), write(*given))[1])
    monkeypatch.setattr(kernel_cache, "Module", lambda *given: (done.append("module"), begin(*given))[1])
    with kernel_cache.cold():
        program_of(many, tensor(40, 30))
    assert done == ["text", *["text", "module"] * (len(done) // 2 - 1), "module"] and len(done) > 4


def test_llvm_has_no_more_modules_at_a_time_than_turns(monkeypatch):
    at_once, most = [0], [0]
    lock = threading.Lock()

    def count(by: int) -> None:
        with lock:
            at_once[0] += by
            most[0] = max(most[0], at_once[0])

    emit = llvm_work._emit
    monkeypatch.setattr(
        llvm_work, "_emit", lambda *given: (count(1), time.sleep(0.01), emit(*given), count(-1))[2]
    )
    turn = threading.Semaphore(2)
    modules = [Module(text, [name], turn) for name, text in map(giving, range(20, 26))]
    assert [result(module) for module in modules] == [*range(20, 26)]
    assert most == [2]


def test_what_is_no_llvm_ir_says_so():
    with pytest.raises(RuntimeError, match="parsing error"):
        compile_module("define nothing", [])
    with pytest.raises(RuntimeError, match="dominate"):
        compile_module("define i64 @early() {\n%x = add i64 %y, 1\n%y = add i64 1, 1\nret i64 %x }", [])


def test_a_module_that_failed_is_compiled_anew(monkeypatch):
    name, text = giving(5)
    made = []

    @llvm_jit.remembered
    def code() -> Module:
        made.append(name)
        return Module(text, [name])

    with monkeypatch.context() as patch:
        patch.setattr(llvm_work, "_emit", failing)
        with pytest.raises(MemoryError):
            code().addresses()
    assert result(code()) == result(code()) == 5
    assert len(made) == 2


def failing(*_: Any) -> None:
    raise MemoryError


def test_a_kernel_that_failed_is_compiled_anew(monkeypatch, faults_are_covered):
    x = fg.linspace(0, 1, 7)

    @fg.jit
    def scaled(x):
        return x * 3.25 + 0.125

    expected = x * 3.25 + 0.125
    with kernel_cache.cold():
        with monkeypatch.context() as patch:
            patch.setattr(llvm_work, "_emit", failing)
            assert (scaled(x) == expected).all()
        assert "MemoryError" in str(scaled.explain())
        scaled.clear()
        for _ in range(2):
            assert (scaled(x) == expected).all()
        assert scaled.stats.compiled_calls == 1


def test_a_machine_with_no_threads_left_runs_eagerly(tmp_path, faults_are_covered):
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
            import _thread
            import fusegrad as fg

            def no_threads(*_):
                raise RuntimeError("can't start new thread")

            jitted = fg.jit(lambda x: (x * 2).sum())
            _thread.start_new_thread = no_threads
            print(jitted(fg.ones(3)).item(), jitted(fg.ones(3)).item(), jitted.stats.compiled_calls)
            print("can't start new thread" in str(jitted.explain()))
        """)
    )
    run = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True)
    assert run.stdout == "6.0 6.0 0\nTrue\n"


def test_assembly_that_is_shown_is_of_the_code_that_runs(monkeypatch, options, capfd):
    monkeypatch.setenv("FUSEGRAD_DEBUG", "5")
    name, text = giving(6)
    compile_module(text, [name])
    assert options == 2 * ["-disable-lsr=true", "emitted", "-disable-lsr=false"]
    shown = capfd.readouterr().err
    assert f"define i64 @{name}()" in shown and f"{name}:" in shown


def test_what_numba_compiles_is_looked_through_for_addresses_as_ever(monkeypatch, options):
    assert result(begun(7)) == 7
    assert options == ["-disable-lsr=true", "emitted", "-disable-lsr=false"]
    monkeypatch.setattr(llvm_work, "_emit", failing)
    with pytest.raises(MemoryError):
        begun(8).addresses()
    assert options[3:] == ["-disable-lsr=true", "-disable-lsr=false"]


def test_the_setting_stays_until_the_last_of_several_modules_is_done(monkeypatch, options):
    both = threading.Barrier(2)
    emitting(monkeypatch, lambda: both.wait(60))
    modules = begun(1), begun(2)
    assert [result(m) for m in modules] == [1, 2]
    assert options == ["-disable-lsr=true", "emitted", "emitted", "-disable-lsr=false"]


def test_several_threads_may_wait_for_one_module(monkeypatch):
    emitting(monkeypatch, lambda: time.sleep(0.05))
    module = begun(9)
    running, seen = module.running, []
    threads = [threading.Thread(target=lambda: seen.append(running.wait())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert seen == [[], [], []] and result(module) == 9


def test_an_interrupt_waits_until_a_module_is_done(monkeypatch):
    if not hasattr(signal, "pthread_kill"):
        pytest.skip("no signals to threads here")
    main = threading.main_thread().ident
    assert main is not None
    emitting(monkeypatch, lambda: (signal.pthread_kill(main, signal.SIGINT), time.sleep(0.1)))
    module = begun(10)
    with pytest.raises(KeyboardInterrupt):
        module.addresses()
    assert result(module) == 10


def test_an_interrupt_while_code_is_loaded_loads_it_once(monkeypatch):
    module = begun(13)
    loads = []
    load = image.loaded

    def loading(code: image.Image) -> Any:
        loads.append(code)
        signal.raise_signal(signal.SIGINT)  # for the main thread, which waits
        return load(code)

    monkeypatch.setattr(image, "loaded", loading)
    with pytest.raises(KeyboardInterrupt):
        module.addresses()
    assert result(module) == 13 and len(loads) == 1


def test_code_that_could_not_be_loaded_is_compiled_anew(monkeypatch):
    name, text = giving(14)

    @llvm_jit.remembered
    def code() -> Module:
        return Module(text, [name])

    with monkeypatch.context() as patch:
        patch.setattr(image, "loaded", failing)
        for _ in range(2):
            with pytest.raises(MemoryError):
                code().addresses()
        lost = code()
        with pytest.raises(MemoryError):
            lost.addresses()
    with pytest.raises(RuntimeError, match="no machine code"):
        lost.addresses()
    assert result(code()) == 14


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_waits_for_modules(monkeypatch):
    with monkeypatch.context() as patch:
        emitting(patch, lambda: time.sleep(0.2))
        module = begun(11)
        child = os.fork()
    if not child:
        signal.alarm(60)
        os._exit(result(module) + result(begun(12)))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 11 + 12


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_does_not_wait_for_what_is_aside_and_has_not_begun():
    name, text = giving(31)
    turn = threading.Semaphore(0)
    with compiling:
        module = Module(text, [name], turn, True)
    child = os.fork()
    if not child:
        os._exit(0 if module.failed else 3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not module.failed and not module.begun
    turn.release()
    assert result(module) == 31


def test_calls_do_not_wait_for_kernels_that_have_not_begun_beside_the_program(monkeypatch):
    """They compile them themselves."""
    aside, x = threading.Semaphore(0), fg.linspace(0, 1, 9)
    monkeypatch.setitem(kernel_cache._turns, True, aside)
    monkeypatch.setattr(background, "here", lambda: True)
    with kernel_cache.cold():
        waiting = threading.Thread(target=lambda: program_of(lambda x: x * 5.125 + 0.375, x))
        waiting.start()
        while not any(not module.begun for module in llvm_jit._at_work):
            time.sleep(0.01)
        monkeypatch.setattr(background, "here", lambda: False)
        program, _, _ = program_of(lambda x: x * 5.125 + 0.375, x)
        aside.release(9)
        waiting.join()
    assert program.kernels


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_has_all_turns_anew(monkeypatch):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(kernel_cache._turns, True, threading.Semaphore(0))
        child = os.fork()
        if not child:
            os._exit(0 if kernel_cache._turns[True].acquire(timeout=0) else 3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
