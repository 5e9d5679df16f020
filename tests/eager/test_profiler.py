"""The profiler: what is counted, tables, schedules, files; and that results are those of eager."""

from __future__ import annotations

import json

import pytest
from oracle import torch

import fusegrad as fg
from fusegrad.profiler import ProfilerActivity, profile, record_function, schedule, tensorboard_trace_handler


def test_ops_and_stretches_are_counted():
    model = fg.nn.Linear(3, 2)
    optimizer = fg.optim.SGD(model.parameters(), lr=0.1)
    x = fg.ones(4, 3)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        for _ in range(3):
            with record_function("step"):
                optimizer.zero_grad()
                loss = (model(x) * 2).exp().sum()
                loss.backward()
                optimizer.step()
    found = {event.key: event for event in profiler.key_averages()}
    assert found["step"].count == 3 and found["exp"].count == 3
    assert found["step"].cpu_time_total >= found["exp"].cpu_time_total > 0
    assert 0 < found["step"].self_cpu_time_total < found["step"].cpu_time_total
    shapes = [e.input_shapes for e in profiler.key_averages(group_by_input_shape=True) if e.key == "exp"]
    assert shapes == [[[4, 2]]]
    total = sum(e.self_cpu_time_total for e in profiler.events())
    assert profiler.key_averages().self_cpu_time_total == pytest.approx(total)


def test_results_are_those_without():
    def run():
        fg.manual_seed(0)
        x = fg.randn(5, 4, requires_grad=True)
        y = fg.nn.functional.dropout((x @ x.T).softmax(-1), 0.5)
        y[0].mul_(2).sum().backward()
        return x.grad.tolist()

    expected = run()
    with profile():
        assert run() == expected
    assert run() == expected


def test_tables():
    with profile() as profiler:
        fg.ones(100, 100) @ fg.ones(100, 100)
        fg.ones(2) + 1
    text = profiler.key_averages().table(sort_by="cpu_time_total", row_limit=2)
    assert "matmul" in text and "Self CPU time total" in text and "# of Calls" in text
    assert len(text.splitlines()) == 7
    assert "add" in profiler.key_averages().table(sort_by="self_cuda_time_total")
    with pytest.raises(AttributeError, match="cannot be sorted by 'colour'"):
        profiler.key_averages().table(sort_by="colour")


@pytest.mark.parametrize(
    "options",
    [
        {"wait": 1, "warmup": 1, "active": 2},
        {"wait": 0, "warmup": 0, "active": 1, "repeat": 2},
        {"wait": 2, "warmup": 1, "active": 3, "repeat": 2, "skip_first": 2},
    ],
)
def test_schedules(options):
    mine, other = schedule(**options), torch.profiler.schedule(**options)
    assert [mine(i).name for i in range(20)] == [other(i).name for i in range(20)]


def test_steps_by_a_schedule(tmp_path):
    seen = []

    def ready(profiler):
        seen.append({e.key: e.count for e in profiler.key_averages()})

    with profile(schedule=schedule(wait=1, warmup=1, active=2, repeat=2), on_trace_ready=ready) as profiler:
        for _ in range(9):
            fg.ones(2).exp()
            profiler.step()
    assert [s["exp"] for s in seen] == [2, 2]
    with profile(on_trace_ready=tensorboard_trace_handler(str(tmp_path), "me")):
        fg.ones(2).sin()
    (file,) = tmp_path.iterdir()
    events = json.loads(file.read_text())["traceEvents"]
    assert file.name.startswith("me.") and events[-1]["name"] == "sin" and events[-1]["dur"] > 0


def test_stretches_in_jitted_functions_replay():
    @fg.jit
    def f(x):
        with record_function("inner"):
            return (x * 2).sum()

    assert [f(fg.ones(2)).item() for _ in range(3)] == [4.0] * 3
    assert f.stats.compiled_calls == 2
    with profile() as profiler:
        assert f(fg.ones(2)).item() == 4.0
    assert profiler.events() is not None

    @record_function("outer")
    def g(x):
        return x + 1

    with profile() as profiler:
        g(fg.ones(1))
    assert {e.key for e in profiler.events()} >= {"outer", "add"}


def test_errors_leave_no_profiler_behind():
    with pytest.raises(RuntimeError), profile(), record_function("bad"):
        fg.ones(2) @ fg.ones(3)
    assert fg.jit(lambda x: x + 1)(fg.ones(1)).item() == 2
    with pytest.raises(AssertionError, match="schedule"):
        schedule(wait=0, warmup=0, active=0)
