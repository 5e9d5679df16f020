"""Worker processes: what they give, by each way to start them, and what happens when things go wrong."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import worker_datasets as datasets
from oracle import torch

import fusegrad as fg
from fusegrad.eager.data import crew, worker
from fusegrad.eager.data.worker import Caught
from fusegrad.utils.data import DataLoader, TensorDataset

METHODS = [m for m in ("fork", "spawn", "forkserver") if m in multiprocessing.get_all_start_methods()]
QUICK = METHODS[0]


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    before = set(multiprocessing.active_children())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="This DataLoader will create")
        warnings.filterwarnings("ignore", category=DeprecationWarning, message=".*fork")
        yield
    gc.collect()
    assert set(multiprocessing.active_children()) <= before


def loader(dataset: Any, method: str = QUICK, **options: Any) -> DataLoader:
    options = {"num_workers": 2, "multiprocessing_context": method, **options}
    return DataLoader(dataset, **options)


def plain(batches: Any) -> Any:
    """Batches without tensors."""
    if isinstance(batches, fg.Tensor):
        return str(batches.dtype), batches.tolist()
    if isinstance(batches, dict):
        return {key: plain(value) for key, value in batches.items()}
    if isinstance(batches, (list, tuple)):
        return [plain(value) for value in batches]
    return batches


@pytest.mark.parametrize("method", METHODS)
def test_workers_give_what_one_process_gives(method: str) -> None:
    dataset = datasets.Squares(11)
    expected = plain(list(DataLoader(dataset, batch_size=3)))
    assert plain(list(loader(dataset, method, batch_size=3))) == expected
    several = loader(dataset, method, batch_size=3, persistent_workers=True, num_workers=3, prefetch_factor=1)
    for _ in range(3):
        assert plain(list(several)) == expected


def test_collate_functions_run_in_workers() -> None:
    batches = list(loader(range(5), batch_size=2, collate_fn=datasets.first_and_last))
    assert batches == [(0, 1), (2, 3), (4, 4)]
    assert list(loader(range(3), batch_size=None)) == [0, 1, 2]


def test_batches_that_a_pipe_does_not_hold_are_memory_of_their_own() -> None:
    for i, (large, empty, turned) in enumerate(loader(datasets.Large(4))):
        assert large.shape == (1, 500_000) and (large == i).all()
        assert empty.shape == (1, 0) and turned.tolist() == (fg.ones(1, 4, 3) * i).tolist()
        large += 1
        assert (large == i + 1).all()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("method", METHODS)
def test_seeds_follow_from_the_generator(method: str) -> None:
    def epoch(seed: int, **options: Any) -> Any:
        fg.manual_seed(seed)
        return plain(list(loader(datasets.Draws(4), method, **options)))

    assert epoch(1) == epoch(1) != epoch(2)
    fg.manual_seed(3)
    base = int(fg.randint(0, 2**63 - 1, ()))
    seeds = [batch[3][1][0] for batch in epoch(3)]
    assert seeds == [base, base + 1, base, base + 1]
    given = [epoch(seed, generator=fg.Generator().manual_seed(9)) for seed in (1, 2)]
    assert given[0] == given[1]


def test_generators_are_seeded_as_torch_seeds_them() -> None:
    fg.manual_seed(5)
    drawn = list(loader(datasets.Draws(2)))
    fg.manual_seed(5)
    base = int(fg.randint(0, 2**63 - 1, ()))
    for number, (uniform, python, numpy, seed) in enumerate(drawn):
        assert int(seed) == base + number
        wanted = np.random.RandomState(torch.utils.data._utils.worker._generate_state(base, number)).rand(2)
        assert (numpy[0].numpy() == wanted).all()
        assert float(python) == random.Random(base + number).random()
        assert (uniform[0] == fg.rand(2, generator=fg.Generator().manual_seed(base + number))).all()


def test_shuffles_are_the_same_with_any_number_of_workers() -> None:
    orders = []
    for workers in (0, 1, 3):
        fg.manual_seed(4)
        method = QUICK if workers else None
        orders.append([int(x) for x in loader(range(10), method, shuffle=True, num_workers=workers)])
    assert orders[0] == orders[1] == orders[2] != sorted(orders[0])


@pytest.mark.parametrize("method", METHODS)
def test_init_functions_see_their_worker(method: str) -> None:
    given = loader(datasets.Shifted(4), method, worker_init_fn=datasets.take_half)
    assert [int(x) for x in given] == [100, 201, 102, 203]


class TorchStream(torch.utils.data.IterableDataset):
    def __init__(self, size: int, unequal: bool) -> None:
        self.size, self.unequal = size, unequal

    def __iter__(self) -> Any:
        info = torch.utils.data.get_worker_info()
        if self.unequal:
            return iter(range(self.size) if info.id == 0 else [])
        return iter(range(info.id, self.size, info.num_workers))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize(
    "batched", [{"batch_size": 2}, {"batch_size": 2, "drop_last": True}, {"batch_size": None}]
)
def test_streams_are_those_of_torch(persistent: bool, batched: dict[str, Any]) -> None:
    for size, unequal in ((7, False), (6, True), (0, False)):
        options = {**batched, "persistent_workers": persistent, "num_workers": 2}
        ours = DataLoader(datasets.Stream(size, unequal=unequal), **options)
        theirs = torch.utils.data.DataLoader(TorchStream(size, unequal), **options)
        for _ in range(2):
            wanted = [b if batched["batch_size"] is None else b.tolist() for b in theirs]
            assert [b if batched["batch_size"] is None else b.tolist() for b in ours] == wanted


def test_batches_come_as_they_are_made_where_no_order_is_asked_for() -> None:
    stream = datasets.Stream(8, pace=0.2)
    given = [int(x) for x in loader(stream, in_order=False)]
    assert sorted(given) == list(range(8)) and given.index(6) < given.index(3)
    assert [int(x) for x in loader(stream)] == list(range(8))


def test_an_iteration_may_be_broken_off_and_begun_again() -> None:
    persistent = loader(datasets.Process(20), persistent_workers=True)
    seen = [{int(x) for x, _ in zip(persistent, range(n), strict=False)} for n in (3, 5)]
    assert seen[0] == seen[1] == {int(x) for x in persistent} and len(seen[0]) == 2
    assert {int(x) for x in loader(datasets.Process(4))}.isdisjoint(seen[0])


# What goes wrong.


@pytest.mark.parametrize("method", METHODS)
def test_exceptions_come_with_their_traceback(method: str) -> None:
    batches = iter(loader(datasets.Failing("value_error"), method))
    assert [int(next(batches)) for _ in range(5)] == list(range(5))
    with pytest.raises(ValueError, match="Caught ValueError in DataLoader worker process 1") as caught:
        next(batches)
    text = str(caught.value)
    assert (
        "Original Traceback (most recent call last):\n" in text and 'raise ValueError("five is bad")' in text
    )
    assert text.endswith("ValueError: five is bad\n")
    assert [int(x) for x in batches] == list(range(6, 12))


@pytest.mark.parametrize(
    ("how", "kind", "last"),
    [
        ("key_error", KeyError, "KeyError: 'five'"),
        ("two_arguments", RuntimeError, "UnicodeDecodeError: 'utf-8' codec can't decode byte 0x66"),
        ("local_class", ValueError, "LocalError: five is local"),
        ("stop_iteration", StopIteration, "StopIteration"),
        ("on_a_graph", RuntimeError, "Cowardly refusing to serialize non-leaf tensor"),
    ],
)
def test_exceptions_of_all_kinds(how: str, kind: type[Exception], last: str) -> None:
    collate = {"collate_fn": datasets.first_and_last} if how == "on_a_graph" else {}
    batches = iter(loader(datasets.Failing(how), **collate))
    for _ in range(5):
        next(batches)
    with pytest.raises(kind) as caught:
        next(batches)
    assert "in DataLoader worker process 1.\nOriginal Traceback" in str(caught.value)
    assert last in str(caught.value).splitlines()[-1]


class Spoken(Exception):
    """Takes its message by name alone."""

    message = "unset"

    def __init__(self, *, message: str) -> None:
        super().__init__(message)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("five"),
        KeyError("five"),
        Spoken(message="five"),
        StopIteration(5),
        OSError(5, "five"),
        UnicodeDecodeError("utf-8", b"five", 0, 1, "bad"),
        AssertionError(),
    ],
    ids=repr,
)
def test_what_is_raised_again_is_what_torch_raises(error: Exception) -> None:
    raised = []
    for wrapper in (Caught, lambda where: torch._utils.ExceptionWrapper(where=where)):
        try:
            raise error.with_traceback(None)
        except Exception:
            wrapped = wrapper("in DataLoader worker process 1")
        with pytest.raises(Exception) as caught:
            pickle.loads(pickle.dumps(wrapped)).reraise()
        raised.append((caught.type, str(caught.value)))
    assert raised[0] == raised[1]


def test_a_failure_at_the_start_is_said_once_by_each_worker() -> None:
    batches = iter(loader(range(6), worker_init_fn=datasets.fail_at_start))
    for number in (0, 1):
        with pytest.raises(ValueError, match=f"(?s)worker process {number}.*worker {number} cannot start"):
            next(batches)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("how", "manner"), [("exit", "exit code 7"), ("system_exit", "exit code 7"), ("kill", "signal 9")]
)
def test_a_death_is_told_when_its_batch_is_due(method: str, how: str, manner: str) -> None:
    batches = iter(loader(datasets.Failing(how), method))
    dead = batches._workers[1].pid
    given = []
    start = time.monotonic()
    with pytest.raises(
        RuntimeError, match=f"DataLoader worker .pid.s. {dead}. exited unexpectedly .*{manner}"
    ):
        for batch in batches:
            given.append(int(batch))
    assert time.monotonic() - start < 5
    assert given == list(range(len(given))) and len(given) <= 5
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        next(batches)


@pytest.mark.skipif("fork" not in METHODS, reason="needs fork")
def test_a_death_is_told_where_another_process_holds_the_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one does that another thread forked while the worker was started."""
    held = []

    class Holding(type(multiprocessing.get_context("fork"))):  # type: ignore[misc]
        def Pipe(self, duplex: bool = True) -> Any:
            ours, theirs = super().Pipe(duplex)
            held.append(os.dup(theirs.fileno()))
            return ours, theirs

    monkeypatch.setattr(crew, "PATIENCE", 0.2)
    batches = iter(DataLoader(datasets.Failing("exit"), num_workers=2, multiprocessing_context=Holding()))
    given = []
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        given.extend(int(batch) for batch in batches)
    for descriptor in held:
        os.close(descriptor)


def test_a_death_is_told_by_a_persistent_crew_again() -> None:
    given = loader(datasets.Failing("exit"), persistent_workers=True)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="exited unexpectedly"):
            list(given)


@pytest.mark.parametrize("method", METHODS)
def test_time_is_up(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "PATIENCE", 0.2)
    batches = iter(loader(datasets.Failing("sleep"), method, timeout=1.5))
    start = time.monotonic()
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 1.5 seconds"):
        list(batches)
    assert time.monotonic() - start < 20


@pytest.mark.parametrize("method", METHODS)
def test_time_is_up_also_where_orders_are_longer_than_a_pipe(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew, "PATIENCE", 0.2)
    long = [[5] * 300_000] * 8
    batches = iter(loader(datasets.Failing("sleep"), method, batch_sampler=long, timeout=1.5))
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 1.5 seconds"):
        next(batches)


@pytest.mark.parametrize("method", METHODS)
def test_what_cannot_be_sent_to_a_worker_is_an_error_here(method: str) -> None:
    if method == "fork":
        assert list(loader(range(2), method, collate_fn=lambda batch: batch)) == [[0], [1]]
        return
    with pytest.raises((AttributeError, pickle.PicklingError), match="lambda"):
        iter(loader(range(2), method, collate_fn=lambda batch: batch))


# What is left: nothing.


@pytest.mark.parametrize("persistent", [False, True])
def test_abandoned_iterators_end_their_workers(persistent: bool) -> None:
    files = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for taken in (0, 1, 4):
        given = loader(datasets.Squares(50), persistent_workers=persistent)
        batches = iter(given)
        for _ in range(taken):
            next(batches)
        pids = [process.pid for process in batches._workers]
        assert {p.pid for p in multiprocessing.active_children()} >= set(pids)
        del batches, given  # without a collection
        assert not {p.pid for p in multiprocessing.active_children()} & set(pids)
    if files:
        assert len(os.listdir("/proc/self/fd")) == files


PROGRAM = """
import os, signal, sys
import worker_datasets as datasets
from fusegrad.utils.data import DataLoader

# A shell ignores it for what runs in its background.
signal.signal(signal.SIGINT, signal.default_int_handler)
if __name__ == "__main__":
    loader = DataLoader(
        datasets.Large(100), num_workers=2, multiprocessing_context=sys.argv[1],
        persistent_workers=sys.argv[2] == "True",
    )
    batches = iter(loader)
    next(batches)
    print("begun", flush=True)
    {end}
"""


@pytest.mark.one_in(6)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("pass", 0),
        ("sys.exit(3)", 3),
        ("raise ValueError", 1),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("os.kill(os.getpid(), signal.SIGINT); next(batches)", -signal.SIGINT),
        ("os.killpg(0, signal.SIGINT); list(batches)", -signal.SIGINT),
    ],
)
def test_no_worker_outlives_its_program(method: str, end: str, status: int, tmp_path: Path) -> None:
    """A worker has the program's standard output: its end is read when all of them have gone."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(end=end))
    started = subprocess.Popen(
        [sys.executable, program, method, str(end != "pass")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(datasets.__file__).parent)},
        start_new_session=True,
        text=True,
    )
    try:
        output, errors = started.communicate(timeout=60)
    finally:
        if started.poll() is None:
            os.killpg(started.pid, signal.SIGKILL)
    assert output == "begun\n"
    assert started.returncode == status, errors


# In use.


def test_a_compiled_step_is_fed_by_workers() -> None:
    def train(workers: int, compiled: bool) -> tuple[list[float], Any]:
        fg.manual_seed(0)
        x = fg.randn(48, 4)
        dataset = TensorDataset(x, (x @ fg.tensor([1.0, -2.0, 3.0, 0.5])).unsqueeze(1))
        model = fg.nn.Sequential(fg.nn.Linear(4, 8), fg.nn.Tanh(), fg.nn.Linear(8, 1))
        optimizer = fg.optim.SGD(model.parameters(), lr=0.1)

        def step(inputs: Any, targets: Any) -> Any:
            optimizer.zero_grad()
            loss = fg.nn.functional.mse_loss(model(inputs), targets)
            loss.backward()
            optimizer.step()
            return loss

        run = fg.jit(step) if compiled else step
        batches = loader(dataset, QUICK if workers else None, batch_size=8, shuffle=True, num_workers=workers)
        losses = [float(run(*batch).detach()) for _ in range(4) for batch in batches]
        return losses, run

    eager, _ = train(0, False)
    fed, step = train(2, True)
    assert np.allclose(eager, fed, rtol=1e-4) and eager[-1] < eager[0] / 2
    assert step.stats.compiled_calls >= len(fed) - 3


def test_a_recorded_run_that_iterates_takes_batches_each_time() -> None:
    given = loader(TensorDataset(fg.arange(6.0)), batch_size=2, shuffle=True)

    def firsts(weight: Any) -> Any:
        return fg.stack([batch[0] * weight for (batch,) in given])

    compiled = fg.jit(firsts)
    for seed in (0, 1, 2, 0):
        fg.manual_seed(seed)
        expected = firsts(fg.tensor(2.0))
        fg.manual_seed(seed)
        assert (compiled(fg.tensor(2.0)) == expected).all()


def test_what_a_worker_knows_of_itself_stays() -> None:
    ours = worker.WorkerInfo(0, 2, 7, [1])
    for name in ("id", "value"):
        with pytest.raises(RuntimeError, match="Cannot assign attributes to WorkerInfo objects"):
            setattr(ours, name, 3)
    assert repr(ours) == "WorkerInfo(id=0, num_workers=2, seed=7, dataset=[1])"
    assert pickle.loads(pickle.dumps(ours)) == ours
