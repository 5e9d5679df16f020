"""Calls that do not wait for the compiler longer than they may: eager answers until it is done."""

from __future__ import annotations

import gc
import re
import threading
from typing import Any

import numpy as np
import pytest
from budget import Held, agree, branched, leaf, other, wave

import fusegrad as fg
from fusegrad.compiler import entries
from fusegrad.compiler.base import background
from fusegrad.compiler.paths import segments


def test_calls_are_eagers_until_the_compiler_is_done(held: Held, capsys: pytest.CaptureFixture[str]) -> None:
    jitted = fg.jit(wave)
    for number in range(4):
        agree(wave, jitted, leaf(number))
    assert (jitted.stats.eager_calls, jitted.stats.compiled_calls, jitted.stats.compiles) == (4, 0, 1)
    assert jitted.kernels().forward == []
    held.free()
    fg.wait_for_compilation()
    assert jitted.stats.compiled_calls == 0  # nobody takes it over but a call
    for number in range(12):
        agree(wave, jitted, leaf(number))
    assert (jitted.stats.eager_calls, jitted.stats.compiles) == (4, 1)
    said = capsys.readouterr().err
    assert re.search(
        r"compiling <jit wave> takes long, now .*? 12\d ops, 120 of them from __init__.py:19; it goes on",
        said,
    )
    assert said.count("takes long") == 1


def test_one_program_for_value_and_gradients_is_made_beside_the_program_too(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "LONG_PATH", 10)
    monkeypatch.setattr(segments, "EQUATIONS_PER_CALL", 1000)
    jitted = fg.jit(branched)
    agree(branched, jitted, leaf())
    held.free()
    fg.wait_for_compilation()
    held.__init__()  # type: ignore[misc]
    for number in range(8):
        agree(branched, jitted, leaf(number))
    assert held.begun.wait(60) and jitted.kernels().joint == []
    assert "planning value and gradients at once of" in str(jitted.explain())
    held.free()
    fg.wait_for_compilation()
    for number in range(8):
        agree(branched, jitted, leaf(number))
    assert jitted.kernels().joint and jitted.stats.compiled_calls == 16


def test_another_path_is_compiled_while_the_first_answers(held: Held) -> None:
    jitted = fg.jit(branched)
    agree(branched, jitted, leaf())
    held.free()
    fg.wait_for_compilation()
    held.__init__()  # type: ignore[misc]
    agree(branched, jitted, leaf())
    for _ in range(3):
        agree(branched, jitted, other())
        agree(branched, jitted, leaf())
    assert (jitted.stats.compiled_calls, jitted.stats.eager_calls) == (4, 4)
    held.free()
    fg.wait_for_compilation()
    for _ in range(3):
        agree(branched, jitted, other())
        agree(branched, jitted, leaf())
    assert (jitted.stats.compiled_calls, jitted.stats.eager_calls) == (10, 4)


def test_eager_answers_what_was_put_off(held: Held) -> None:
    """Ops on large tensors wait for the compiled path, which is not there."""
    x = fg.linspace(-1, 1, 1 << 18)
    jitted = fg.jit(lambda x: wave(x) + fg.tanh(x))
    for _ in range(2):
        np.testing.assert_allclose(jitted(x).numpy(), (wave(x) + fg.tanh(x)).numpy(), 1e-4, 1e-4)
    assert jitted.stats.compiled_calls == 0


def test_short_functions_are_compiled_at_once(held: Held) -> None:
    fg.set_compile_budget(1)
    jitted = fg.jit(lambda x: x.sin() + 1)
    for _ in range(2):
        jitted(leaf())
    assert jitted.stats.compiled_calls == 1
    assert held.threads == {threading.get_ident()}


def test_other_functions_are_compiled_meanwhile(held: Held) -> None:
    """What works beside the program has no lock that calls wait for."""
    jitted, short = fg.jit(wave), fg.jit(lambda x: x.cos() * 3)
    jitted(leaf())
    assert held.begun.wait(60)
    fg.set_compile_budget(None)
    for _ in range(2):
        short(leaf())
    assert short.stats.compiled_calls == 1
    assert jitted.stats.compiled_calls == 0


def test_a_call_does_not_wait_behind_what_another_one_has_left(held: Held) -> None:
    """Nor does the process end, or anybody wait for the compiler, before both are done."""
    first, second = fg.jit(wave), fg.jit(branched)
    first(leaf())
    assert held.begun.wait(60)
    fg.set_compile_budget(60)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(background, "takes_long", lambda ops: True)
        for _ in range(2):
            agree(branched, second, leaf())
    assert (second.stats.compiled_calls, first.stats.compiled_calls) == (1, 0)
    held.free()
    fg.wait_for_compilation()
    first(leaf())
    assert first.stats.compiled_calls == 1


def test_calls_of_one_function_do_not_each_wait_as_long(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    fg.set_compile_budget(0.4)
    waits: list[float | None] = []
    wait = background.Work.wait

    def noted(self: Any, seconds: float | None = None) -> bool:
        waits.append(seconds)
        return wait(self, seconds)

    monkeypatch.setattr(background.Work, "wait", noted)
    jitted = fg.jit(branched)
    agree(branched, jitted, leaf())
    held.free()
    fg.wait_for_compilation()
    agree(branched, jitted, leaf())
    agree(branched, jitted, other())
    first, second = (seconds for seconds in waits if seconds is not None)
    assert 0.2 < first <= 0.4 and second == pytest.approx(0.02)


def test_a_call_waits_for_as_long_as_it_may(held: Held) -> None:
    held.free()
    fg.set_compile_budget(1e-9)
    jitted, calls = fg.jit(wave), []
    wait = background.Work.wait

    def watched(self: Any, seconds: float | None = None) -> bool:
        calls.append(seconds)
        return wait(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(background.Work, "wait", watched)
        jitted(leaf())
    assert calls == [1e-9]
    agree(wave, jitted, leaf())
    assert jitted.stats.compiled_calls == 1


def test_bits_that_must_not_depend_on_the_clock_wait(held: Held) -> None:
    fg.use_deterministic_algorithms(True)
    try:
        jitted = fg.jit(wave)
        first, second = jitted(leaf()), jitted(leaf())
    finally:
        fg.use_deterministic_algorithms(False)
    assert jitted.stats.compiled_calls == 2 and fg.equal(first, second)
    assert held.threads <= {threading.get_ident()}


def test_what_is_required_to_replay_waits(held: Held) -> None:
    jitted = fg.jit(wave, require="replay")
    for _ in range(2):
        agree(wave, jitted, leaf())
    assert jitted.stats.compiled_calls == 1
    assert held.threads == {threading.get_ident()}


def test_no_bound_and_no_such_bound(held: Held) -> None:
    fg.set_compile_budget(None)
    assert fg.get_compile_budget() is None
    jitted = fg.jit(wave)
    jitted(leaf())
    assert held.threads == {threading.get_ident()}
    for seconds in (-1, float("nan")):
        with pytest.raises(ValueError, match="must be 0 or more"):
            fg.set_compile_budget(seconds)


def test_explain_says_what_is_compiled_beside_the_program(held: Held) -> None:
    jitted = fg.jit(wave)
    jitted(leaf())
    assert held.begun.wait(60)
    assert re.search(
        r"compiled beside the program for .* s, and calls go on without: planning", str(jitted.explain())
    )
    (entry,) = jitted.explain().as_dict()["entries"]
    assert entry["compiling"]["most"] == 120 and entry["compiling"]["line"] == "__init__.py:19"
    held.free()
    fg.wait_for_compilation()
    assert "done, for the next call" in str(jitted.explain())
    jitted(leaf())
    assert jitted.explain().as_dict()["entries"][0]["compiling"] is None


def test_a_fault_of_the_compiler_is_one_beside_the_program(
    held: Held, monkeypatch: pytest.MonkeyPatch, faults_are_covered: None
) -> None:
    def broken(*given: Any) -> Any:
        raise KeyError("planted")

    monkeypatch.setattr(entries, "tree_with", broken)
    jitted = fg.jit(wave)
    for _ in range(2):
        agree(wave, jitted, leaf())
        fg.wait_for_compilation()
    assert "the compiler failed: KeyError: 'planted'" in str(jitted.explain())
    monkeypatch.setenv("FUSEGRAD_FAULTS", "raise")
    jitted.clear()
    jitted(leaf())
    assert jitted.at_work is not None and jitted.at_work.wait(60)
    with pytest.raises(KeyError, match="planted"):
        jitted(leaf())
    jitted.clear()
    jitted(leaf())
    with pytest.raises(KeyError, match="planted"):
        fg.wait_for_compilation()


def test_what_was_planned_for_another_default_dtype_is_not_taken(held: Held) -> None:
    jitted = fg.jit(wave)
    jitted(leaf())
    assert held.begun.wait(60)
    fg.set_default_dtype(fg.float64)
    fg.set_default_dtype(fg.float32)
    held.free()
    fg.wait_for_compilation()
    agree(wave, jitted, leaf())
    assert jitted.stats.compiled_calls == 0 and jitted.stats.compiles == 2


def test_two_functions_and_several_threads(held: Held) -> None:
    functions = [lambda x: wave(x) * 2, lambda x: wave(x * 0.5)]
    jitted = [fg.jit(function) for function in functions]
    wrong: list[Exception] = []

    def work() -> None:
        try:
            for number in range(20):
                for function, compiled in zip(functions, jitted, strict=True):
                    agree(function, compiled, leaf(number))
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    held.free()
    for thread in threads:
        thread.join()
    fg.wait_for_compilation()
    assert not wrong
    for function, compiled in zip(functions, jitted, strict=True):
        agree(function, compiled, leaf())
        before = compiled.stats.compiled_calls
        agree(function, compiled, leaf())
        assert compiled.stats.compiled_calls == before + 1


def test_what_is_forgotten_is_not_taken_over(held: Held) -> None:
    jitted = fg.jit(wave)
    jitted(leaf())
    jitted.clear()
    held.free()
    fg.wait_for_compilation()
    agree(wave, jitted, leaf())
    assert jitted.stats.compiled_calls == 0 and jitted.stats.compiles == 2


def test_garbage_is_collected_once_nobody_waits(held: Held) -> None:
    seen = []
    wait = background.Work.wait

    def watched(self: Any, seconds: float | None = None) -> bool:
        seen.append(gc.isenabled())
        return wait(self, seconds)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(background.Work, "wait", watched)
        fg.jit(wave)(leaf())
    assert seen == [False] and gc.isenabled()


def test_one_thread_at_a_time_works_on_the_paths_of_a_function(held: Held) -> None:
    """What is short, too, is compiled behind what is long."""
    jitted = fg.jit(wave)
    jitted(leaf())
    assert held.begun.wait(60)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(background, "takes_long", lambda ops: False)
        jitted(leaf().double())
    assert jitted.stats.compiles == 2
    held.free()
    fg.wait_for_compilation()
    assert threading.get_ident() not in held.threads
    for x in (leaf(), leaf().double()):
        jitted(x)
    assert jitted.stats.compiled_calls == 2
