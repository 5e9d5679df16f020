"""Runs that take too long to record, and deferred ones whose stretches take too long to compile."""

from __future__ import annotations

import numpy as np
import pytest
from budget import agree, leaf, wave

import fusegrad as fg
from fusegrad.compiler import learning
from fusegrad.tracer.record import allowance


def stepped(x: fg.Tensor) -> fg.Tensor:
    """Writes, views, random numbers, a backward and a step of an optimizer."""
    fg.manual_seed(5)
    weight = fg.ones(7, requires_grad=True)
    optimizer = fg.optim.Adam([weight], lr=0.1)
    table = fg.zeros(3, 7)
    for row in range(3):
        table[row] = fg.sin(x.detach()) * (row + fg.rand(7))
    table[1:].mul_(0.5)
    loss = (table * weight).sum() + table.T[2].sum()
    loss.backward()
    optimizer.step()
    if loss > 0:
        x = x * weight.detach()
    total = x
    for number in range(200):
        total = total * 0.99 + x * number
    parts = [total[:3], total[3:]]
    return fg.cat(parts).sum() + loss.detach()


@pytest.mark.parametrize("recorded", [*range(0, 60, 3), 100, 200, 300])
def test_a_run_that_takes_too_long_to_record_goes_on_in_eager(
    recorded: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fg.set_compile_budget(1)
    left = [recorded]

    def clock() -> float:
        left[0] -= 1
        return 0.0 if left[0] >= 0 else -1e9 * left[0]

    monkeypatch.setattr(allowance, "LONGEST", float("inf"))
    monkeypatch.setattr(allowance.time, "perf_counter", clock)
    jitted = fg.jit(stepped)
    for number in range(3):
        agree(stepped, jitted, leaf(number))
    said = capsys.readouterr().err
    assert ("recording" in said) == (recorded < 600)
    if "recording" in said:
        assert said.count("recording <jit stepped> takes longer than 1 s") == 1
        assert jitted.stats.compiles == 0 or jitted.stats.compiled_calls
        (entry,) = jitted.explain().as_dict()["entries"]
        assert entry["given_up"] == learning.LONG
        assert entry["reasons"][-1]["kind"] == "long"


def test_what_takes_long_to_record_is_not_recorded_for_every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    fg.set_compile_budget(0)
    recorded = []
    capture = fg.jit.__globals__["capture"]
    monkeypatch.setitem(
        fg.jit.__globals__, "capture", lambda *given, **more: (recorded.append(1), capture(*given, **more))[1]
    )
    jitted = fg.jit(lambda x, y: (x * y).sum())
    for size in range(1, 12):
        for dtype in (fg.float32, fg.float64):
            jitted(fg.ones(size, dtype=dtype), fg.ones(size, 1))
    assert len(recorded) <= learning.LONG_RUNS


def test_computing_is_not_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two ops the function may do what it likes; and ops may take long."""
    now = [0.0]

    def clock() -> float:
        now[0] += 10.0
        return now[0]

    monkeypatch.setattr(allowance.time, "perf_counter", clock)
    fg.set_compile_budget(4)
    jitted = fg.jit(wave)
    jitted(leaf())
    fg.wait_for_compilation()
    jitted(leaf())
    assert jitted.stats.compiled_calls == 1


# Deferred runs.


def test_stretches_are_compiled_in_pieces(capsys: pytest.CaptureFixture[str]) -> None:
    log: list[float] = []

    def noisy(x: fg.Tensor) -> fg.Tensor:
        for op in (fg.sin, fg.cos, fg.tanh):
            for _ in range(5):
                x = op(x) + 1
            log.insert(99, float(x.sum()))
        return x

    jitted = fg.jit(noisy)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(allowance, "LONGEST", 0.0)
        fg.set_compile_budget(0)
        compiled = []
        for number in range(5):
            x = leaf(number).detach()
            np.testing.assert_allclose(jitted(x).numpy(), noisy(x).numpy(), 1e-5, 1e-6)
            compiled.append(jitted.stats.compiles)
    pieces = np.diff([0, *compiled])
    assert max(pieces) == 1 and sum(pieces) == 3
    said = capsys.readouterr().err
    assert said.count("stretches of its ops, up to /") == 1
