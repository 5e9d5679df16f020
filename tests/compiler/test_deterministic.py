"""Under use_deterministic_algorithms a run that was resumed has the bits of one that went on, jitted too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import resumed_runs
from resumed_runs import PROGRAMS, STOPS, goes_on, resumed, trained

import fusegrad as fg

# Programs none of whose calls is replayed, or not all: they look at values, or do what cannot be done again;
# and the first step of most optimizers makes their state.
EAGER = {"branch_on_data", "runs_that_are_open_for_a_while"}


@pytest.fixture(autouse=True)
def deterministic():
    fg.use_deterministic_algorithms(True)
    yield
    fg.use_deterministic_algorithms(False)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The folder with the states on the way, the runs, and the bits of each."""
    folder = tmp_path_factory.mktemp("runs")
    fg.use_deterministic_algorithms(True)
    found = {name: trained(name, folder) for name in PROGRAMS}
    fg.use_deterministic_algorithms(False)
    return (
        folder,
        {name: run for name, (run, _) in found.items()},
        {n: bits for n, (_, bits) in found.items()},
    )


@pytest.mark.parametrize("stop", STOPS)
def test_another_process_goes_on_to_the_same_bits(runs, stop):
    folder, _, bits = runs
    script = Path(resumed_runs.__file__)
    subprocess.run([sys.executable, str(script), str(folder), str(stop)], check=True)
    others = np.load(folder / f"resumed_{stop}.npz")
    differing = [n for n, known in bits.items() if others[n].tobytes() != b"".join(known[stop:])]
    assert not differing


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_fresh_function_goes_on_to_the_same_bits(runs, name):
    folder, _, bits = runs
    stop = STOPS[1]
    assert goes_on(resumed(name, fg.load(folder / f"{name}_{stop}")), stop) == bits[name][stop:]


@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - EAGER))
def test_first_calls_are_compiled_too(runs, name):
    _, runs_of, _ = runs
    for function in runs_of[name].jitted:
        # The first step of an optimizer makes its state.
        assert function.stats.eager_calls <= 1
        assert function.stats.compiled_calls >= function.stats.calls - 1
        assert not function.kernels().joint


def test_what_a_first_call_does_is_done_once():
    weight = fg.ones(3, requires_grad=True)
    optimizer = fg.optim.SGD([weight], lr=1.0)
    schedule = fg.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    count, noise = fg.zeros(1), fg.Generator().manual_seed(0)

    @fg.jit
    def step(x):
        count.add_(1)
        drawn = fg.rand(3, generator=noise)
        (x * weight).sum().backward()
        optimizer.step()
        schedule.step()
        return drawn, count.clone()

    drawn, counted = step(fg.ones(3))
    assert step.stats.compiled_calls == 1
    other = fg.Generator().manual_seed(0)
    assert fg.equal(drawn, fg.rand(3, generator=other)) and noise.get_state().equal(other.get_state())
    assert weight.grad.tolist() == [1, 1, 1] and weight.tolist() == [0, 0, 0]
    assert count.item() == counted.item() == 1 and schedule.get_last_lr() == [0.5]
    step(fg.ones(3))
    assert weight.grad.tolist() == [2, 2, 2] and weight.tolist() == [-1, -1, -1]
    assert count.item() == 2 and schedule.get_last_lr() == [0.25]


@pytest.mark.parametrize("apart_first", [False, True])
def test_memory_that_overlaps_is_eagers(apart_first):
    @fg.jit
    def add(x, y):
        x.add_(1)
        return y * 2

    def on_shared():
        memory = fg.arange(4.0)
        assert add(memory[:3], memory[1:]).tolist() == [4, 6, 6]
        assert memory.tolist() == [1, 2, 3, 3]

    def on_others():
        assert add(fg.ones(3), fg.ones(3)).tolist() == [2, 2, 2]

    for call in [on_others, on_shared] * 2 if apart_first else [on_shared, on_others] * 2:
        call()
    assert (add.stats.compiled_calls, add.stats.eager_calls) == (2, 2)


def test_runs_that_look_at_values_are_eagers():
    @fg.jit
    def halved(x):
        return x / 2 if x.sum() > 1 else x

    assert [halved(fg.full((2,), float(n))).tolist() for n in range(3)] == [[0, 0], [0.5, 0.5], [1, 1]]
    assert halved.stats.eager_calls == 3 and "looks at values" in str(halved.explain())
    with pytest.raises(fg.JitError, match="looks at values"):
        fg.jit(halved.__wrapped__, require="replay")(fg.ones(2))


def test_what_was_compiled_before_is_not_used():
    weight = fg.randn(300, requires_grad=True)
    x = fg.randn(7, 300)
    loss_of = fg.jit(lambda x: (x @ weight).exp().mean())
    fg.use_deterministic_algorithms(False)
    for _ in range(8):  # by now forward and backward are one program, and written out
        weight.grad = None
        loss_of(x).backward()
    assert loss_of.kernels().joint
    fg.use_deterministic_algorithms(True)
    found = []
    for function in (loss_of, fg.jit(loss_of.__wrapped__)):
        for _ in range(6):
            weight.grad = None
            loss = function(x)
            loss.backward()
            found.append((loss.item(), weight.grad.tolist()))
    assert all(f == found[0] for f in found)
    calls = loss_of.stats.compiled_calls
    loss_of(x)
    assert loss_of.stats.compiled_calls == calls + 1


def test_kinds_that_are_forgotten_are_recorded_anew(monkeypatch):
    monkeypatch.setattr("fusegrad.compiler.deterministic.MOST_KEYS", 3)
    monkeypatch.setattr("fusegrad.compiler.deterministic.MOST_RUNS", 2)
    double = fg.jit(lambda x, n: x * n)
    for _ in range(2):
        for n in range(6):
            assert double(fg.ones(n + 1), n).tolist() == [n] * (n + 1)
    assert double.stats.compiled_calls == 12 and len(double.entries) == 3


def test_a_fault_of_the_compiler_is_covered(monkeypatch, faults_are_covered):
    def fails(*_):
        raise ArithmeticError("planted")

    monkeypatch.setattr("fusegrad.compiler.deterministic.apart", fails)
    memory = fg.zeros(2)
    add = fg.jit(lambda x: memory.add_(x).sum())
    assert [add(fg.ones(2)).item() for _ in range(3)] == [2, 4, 6]
    assert add.stats.compiled_calls == 0 and "planted" in str(add.explain())


def test_calls_that_are_verified_leave_what_others_do():
    def trained(verify):
        fg.manual_seed(0)
        weight = fg.randn(12, 4).requires_grad_()
        optimizer = fg.optim.SGD([weight], lr=0.1, momentum=0.9)

        def step(x, y):
            optimizer.zero_grad()
            fg.nn.functional.cross_entropy(x @ weight, y).backward()
            optimizer.step()

        jitted = fg.jit(step, verify=verify)
        for _ in range(8):
            jitted(fg.randn(8, 12), fg.randint(0, 4, (8,)))
        return weight.tolist(), weight.grad.tolist(), optimizer.state[weight]["momentum_buffer"].tolist()

    assert trained(0) == trained(2) == trained(1)


def test_a_resumed_run_whose_first_step_is_eagers_is_found(runs):
    folder, _, bits = runs
    stop = STOPS[1]

    def differs(name: str) -> bool:
        fg.use_deterministic_algorithms(False)
        return goes_on(resumed(name, fg.load(folder / f"{name}_{stop}")), stop) != bits[name][stop:]

    assert any(differs(name) for name in PROGRAMS if name not in EAGER)
