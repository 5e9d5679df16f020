"""Tensors that wait, in the hands of another thread: each use of one, while the call waits for that thread.

The thread that put the ops off may be waiting for the one that uses their results, so that computes them.
"""

from __future__ import annotations

import copy
import io
import pickle
import queue
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from planted import finds

import fusegrad as fg
from fusegrad.eager.autograd import engine, hooks, views
from fusegrad.eager.core import op, stand_in, tensor
from fusegrad.eager.ops import inplace
from fusegrad.tracer.record import later

pytestmark = pytest.mark.usefixtures("always_deferred")

inner = fg.jit(lambda t: (t * 3 + 1).sum())


def _written(h: Any, x: Any) -> list[float]:
    with fg.no_grad():
        h.add_(1)
    return h.tolist()


def _source_written(h: Any, x: Any) -> list[float]:
    with fg.no_grad():
        x.mul_(10)
    return h.tolist()


def _row_written(h: Any, x: Any) -> list[float]:
    h.detach()[0] = 7
    return h.tolist()


def _given_data(h: Any, x: Any) -> list[float]:
    h.data = fg.zeros_like(h)
    return h.tolist()


def _as_out(h: Any, x: Any) -> list[float]:
    with fg.no_grad():
        plain = h.detach()
        fg.add(x.detach(), 1, out=plain)
    return h.tolist()


def _backward(h: Any, x: Any) -> list[float]:
    x.grad = None
    h.sum().backward()
    return x.grad.tolist()


def _backward_from(h: Any, x: Any) -> list[float]:
    x.grad = None
    h.backward(fg.ones(3))
    return x.grad.tolist()


def _hooked(h: Any, x: Any) -> list[float]:
    h.register_hook(lambda gradient: gradient * 10)
    return fg.autograd.grad(h.sum(), x)[0].tolist()


def _retained(h: Any, x: Any) -> list[float]:
    h.retain_grad()
    (h * 2).sum().backward()
    return h.grad.tolist()


def _saved(h: Any, x: Any) -> list[float]:
    file = io.BytesIO()
    fg.save(h.detach(), file)
    file.seek(0)
    return fg.load(file).tolist()


# What another thread may do with a tensor that waits, which was computed of `x`.
USES: dict[str, Callable[[Any, Any], Any]] = {
    "item": lambda h, x: h[0].item(),
    "float": lambda h, x: float(h[0]),
    "bool": lambda h, x: bool(h[0]),
    "tolist": lambda h, x: h.tolist(),
    "repr": lambda h, x: repr(h),
    "numpy": lambda h, x: h.detach().numpy().copy().tolist(),
    "asarray": lambda h, x: np.asarray(h.detach()).copy().tolist(),
    "iteration": lambda h, x: [float(row) for row in h],
    "op": lambda h, x: (h * 2 + x).tolist(),
    "reduction": lambda h, x: h.sum().item(),
    "product": lambda h, x: (h @ x).item(),
    "copied": lambda h, x: copy.deepcopy(h.detach()).tolist(),
    "pickled": lambda h, x: pickle.loads(pickle.dumps(h.detach())).tolist(),
    "saved": _saved,
    "view": lambda h, x: h[1:].tolist(),
    "view of a view": lambda h, x: h.reshape(3, 1).T[0, 1:].tolist(),
    "view kept": lambda h, x: h[1:],
    "expanded and kept": lambda h, x: h.expand(2, 3),
    "detached and kept": lambda h, x: h.detach(),
    "data kept": lambda h, x: h.data,
    "itself kept": lambda h, x: h,
    "jitted": lambda h, x: inner(h).item(),
    "jitted, captured": lambda h, x: fg.jit(lambda: (h * 3).sum())().item(),
    "written": _written,
    "row written": _row_written,
    "given data": _given_data,
    "out=": _as_out,
    "source written": _source_written,
    "backward": _backward,
    "backward from it": _backward_from,
    "grad": lambda h, x: fg.autograd.grad(h.sum(), x)[0].tolist(),
    "hooked": _hooked,
    "retained": _retained,
}


def in_thread(use: Callable[[], Any]) -> Any:
    """What `use` gives in another thread, which is waited for."""
    found: queue.Queue[Any] = queue.Queue()

    def run() -> None:
        try:
            found.put(use())
        except Exception as error:
            found.put(error)

    threading.Thread(target=run).start()
    return found.get(timeout=60)


def check(use: Callable[[Any, Any], Any], size: int = 3) -> None:
    """Deferred runs, and first ones, give what eager gives. size: of what the first op takes."""

    def f(x: Any) -> Any:
        h = (x * 2)[:3] + 1
        found = in_thread(lambda: use(h, x))
        return (h * 2).detach(), found

    jitted = fg.jit(f)
    for call in range(4):
        results = []
        for called in (f, jitted):
            x = fg.linspace(1, size, size).requires_grad_()
            result, found = called(x)
            results.append((result.tolist(), str(found.tolist() if isinstance(found, fg.Tensor) else found)))
        assert results[0] == results[1], (call, results)
        assert "Error" not in results[0][1], results


@pytest.mark.parametrize("name", USES)
def test_another_thread_finds_values(name: str) -> None:
    check(USES[name])


def test_another_thread_finds_values_of_large_tensors_in_a_first_call() -> None:
    check(USES["view kept"], later.LARGE)
    check(USES["retained"], later.LARGE)


def test_a_thread_that_looks_again_and_again_disturbs_nobody() -> None:
    """Another thread uses tensors at any moment of the runs, of which two go on at a time."""
    handed: list[Any] = []
    wrong: list[Any] = []
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            for found in handed[-3:]:
                try:
                    total = (found + 0).sum().item()
                    if total not in (12.0, 24.0, 27.0):
                        wrong.append(total)
                except Exception as error:
                    wrong.append(error)

    def f(x: Any) -> Any:
        h = x * 2
        handed.append(h)
        k = h * 2
        handed.append(k)
        if handed[0] is not None:
            k = k + h / h
        handed.append(k + 1 - 1)
        return k

    jitted = fg.jit(f)

    def call() -> None:
        for _ in range(60):
            if jitted(fg.tensor([1.0, 2.0, 3.0])).tolist() != [5.0, 9.0, 13.0]:
                wrong.append("result")

    threads = [threading.Thread(target=work) for work in (call, call)]
    looking = threading.Thread(target=look)
    for thread in (*threads, looking):
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    over.set()
    looking.join(timeout=60)
    assert not wrong, wrong[:3]
    assert not any(thread.is_alive() for thread in (*threads, looking))
    assert all(run.thread is None for run in stand_in.putting_off)


def _none(*_: Any) -> None:
    """Nothing is told."""


@pytest.mark.parametrize(
    ("module", "name", "use"),
    [
        (op, "give_values", "op"),
        (tensor, "give_values", "tolist"),
        (engine, "give_values", "backward from it"),
        (hooks, "give_values", "hooked"),
        (hooks, "give_values", "retained"),
        (inplace, "give_values", "written"),
        (views, "tell_others", "source written"),
    ],
)
def test_planted_faults_are_found(module: Any, name: str, use: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without each of the questions that other threads ask, the table finds a fault."""
    monkeypatch.setattr(module, name, _none)
    assert finds(check, USES[use])
