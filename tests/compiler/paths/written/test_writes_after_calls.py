"""What a call has read or written is written before its backward: values, gradients, errors are PyTorch's.

Kinds of calls times writes times what is written times backwards; all of them by
`PYTHONPATH=tests/helpers python tests/compiler/paths/written/test_writes_after_calls.py 1`.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from oracle import torch
from planted import finds

import fusegrad as fg
from fusegrad.compiler.paths import kept_by_eager
from fusegrad.compiler.paths.path import Path

Program = Callable[[Any, Any, Any], Any]


def _reads(lib: Any, x: Any, s: Any) -> Any:
    return (x * s).sum()


def _reads_then_writes(lib: Any, x: Any, s: Any) -> Any:
    y = x * s
    with lib.no_grad():
        s.mul_(0.9)
    return y


def _writes_then_reads(lib: Any, x: Any, s: Any) -> Any:
    with lib.no_grad():
        s.mul_(0.9).add_(x.detach() * 0.1)
    return (x * s).sum()


def _gives_rows(lib: Any, x: Any, s: Any) -> Any:
    with lib.no_grad():
        s.mul_(0.9).add_(x.detach() * 0.1)
    return x * s


def _reads_a_copy(lib: Any, x: Any, s: Any) -> Any:
    with lib.no_grad():
        s.add_(x.detach() * 0.1)
    return (x * s.clone()).sum()


def _keeps_what_it_copies(lib: Any, x: Any, s: Any) -> Any:
    values = x.detach() * 2
    with lib.no_grad():
        s.copy_(values)
    return (x * values).sum()


def _averages(lib: Any, x: Any, s: Any) -> Any:
    with lib.no_grad():
        s.lerp_(x.mean().detach().expand(3), 0.1)
    return ((x - s) ** 2).sum()


def _writes_twice(lib: Any, x: Any, s: Any) -> Any:
    with lib.no_grad():
        s.add_(1)
    y = (x * s).sum()
    with lib.no_grad():
        s.add_(1)
    return y + (x * x).sum()


def _writes_a_row(lib: Any, x: Any, s: Any) -> Any:
    with lib.no_grad():
        s[0] = x[0].detach() * 3
    return (x[1:] * s[1:]).sum() + x.exp().sum()


def _keeps_nothing(lib: Any, x: Any, s: Any) -> Any:
    with lib.no_grad():
        s.add_(1)
    return (x + s).sum()


def _through_data(lib: Any, x: Any, s: Any) -> Any:
    s.data.mul_(0.5)
    return (x * s).sum()


def _two_results(lib: Any, x: Any, s: Any) -> Any:
    with lib.no_grad():
        s.add_(1)
    return x * x, (x * s).sum()


def _rounds(compute: Callable[[Any, Any, Any, Any], Any]) -> Program:
    """A loop whose rounds read the tensor that is written later, or rows of it."""

    def program(lib: Any, x: Any, s: Any) -> Any:
        h = x * 0
        for t in range(140):
            h = compute(lib, h, x, s[t % 3])
        return h.sum()

    return program


def _rows(compute: Callable[[Any, Any, Any, Any], Any]) -> Program:
    def program(lib: Any, x: Any, s: Any) -> Any:
        h = x * 0
        for row in s.expand(140, 3):
            h = compute(lib, h, x, row)
        return h.sum()

    return program


PROGRAMS: dict[str, Program] = {
    "reads": _reads,
    "reads, then writes": _reads_then_writes,
    "writes, then reads": _writes_then_reads,
    "gives rows": _gives_rows,
    "reads a copy": _reads_a_copy,
    "keeps what it copies": _keeps_what_it_copies,
    "averages": _averages,
    "writes twice": _writes_twice,
    "writes a row": _writes_a_row,
    "keeps nothing": _keeps_nothing,
    "through .data": _through_data,
    "two results": _two_results,
    "rounds that keep a row": _rounds(lambda lib, h, x, row: h * row * 0.3 + x),
    "rounds that keep what is made of a row": _rows(lambda lib, h, x, row: h * (row + 1) * 0.2 + x),
    "rounds that keep outputs": _rows(lambda lib, h, x, row: lib.tanh(h * lib.sigmoid(row) + x)),
    "rounds that keep rows": _rows(lambda lib, h, x, row: h * row * 0.3 + x),
}


def _added(lib: Any, t: Any) -> None:
    with lib.no_grad():
        t.add_(1)


def _copied(lib: Any, t: Any) -> None:
    with lib.no_grad():
        t.copy_(lib.zeros(3))


def _one_item(lib: Any, t: Any) -> None:
    with lib.no_grad():
        t[0] = 9


def _replaced(lib: Any, t: Any) -> None:
    t.data = lib.zeros(3)


WRITES: dict[str, Callable[[Any, Any], None]] = {
    "nothing": lambda lib, t: None,
    "added": _added,
    "added to data": lambda lib, t: t.data.add_(1),
    "replaced": _replaced,
    "detached": lambda lib, t: t.detach().mul_(3),
    "one item": _one_item,
    "copied": _copied,
}


def _backward(lib: Any, loss: Any, x: Any) -> list[Any]:
    loss.backward()
    return [x.grad]


def _inputs(lib: Any, loss: Any, x: Any) -> list[Any]:
    loss.backward(inputs=[x])
    return [x.grad]


def _twice(lib: Any, loss: Any, x: Any) -> list[Any]:
    loss.backward()
    loss.backward(inputs=[x])
    return [x.grad]


def _kept_graph(lib: Any, loss: Any, x: Any) -> list[Any]:
    loss.backward(retain_graph=True)
    loss.backward(inputs=[x])
    return [x.grad]


BACKWARDS: dict[str, Callable[[Any, Any, Any], list[Any]]] = {
    "backward": _backward,
    "inputs=": _inputs,
    "grad": lambda lib, loss, x: [lib.autograd.grad(loss, x)[0]],
    "twice": _twice,
    "with the graph kept": _kept_graph,
}

Case = tuple[str, str, bool, str]
CASES: list[Case] = [
    (program, write, of_state, backward)
    for program, write, of_state, backward in itertools.product(PROGRAMS, WRITES, (True, False), BACKWARDS)
    if write != "nothing" or of_state
]


def outcomes(lib: Any, wrap: Callable[[Any], Any], case: Case) -> list[Any]:
    """What four calls give, each with its write and its backward."""
    program, write, of_state, backward = case
    state = lib.full((3,), 2.0)
    called = wrap(lambda x: PROGRAMS[program](lib, x, state))
    made: list[Any] = []
    for _ in range(4):
        with lib.no_grad():
            state.fill_(2.0)
        x = lib.tensor([1.0, 2.0, 3.0], requires_grad=True)
        result = called(x)
        loss = result[-1].sum() if isinstance(result, tuple) else result.sum()
        WRITES[write](lib, state if of_state else x)
        try:
            found = [loss.detach(), state, *BACKWARDS[backward](lib, loss, x)]
            made.append([[round(v, 3) for v in t.reshape(-1).tolist()] for t in found])
        except RuntimeError:
            made.append("an error")
    return made


def differing(case: Case) -> dict[str, Any]:
    """What eager and jitted calls give where it is not PyTorch's."""
    right = outcomes(torch, lambda f: f, case)
    ways: Iterator[tuple[str, Any]] = iter((("eager", lambda f: f), ("jit", fg.jit)))
    return {name: found for name, wrap in ways if (found := outcomes(fg, wrap, case)) != right}


@pytest.mark.parametrize("case", CASES[::41], ids=str)
def test_writes_between_a_call_and_its_backward(case: Case) -> None:
    assert not differing(case)


def _all_kept(loop: Any, tracked: Any) -> set[Any]:
    return {v for v in (*loop.inputs, *loop.outputs) if not isinstance(v, (int, float))}


@pytest.mark.parametrize(
    ("owner", "name", "fault", "case"),
    [
        (Path, "kept_writes", {}, ("writes, then reads", "added", True, "backward")),
        (Path, "written", {}, ("writes, then reads", "added to data", True, "backward")),
        (
            kept_by_eager,
            "_kept_by_rounds",
            _all_kept,
            ("rounds that keep what is made of a row", "added", True, "grad"),
        ),
    ],
)
def test_planted_faults_are_found(
    owner: Any, name: str, fault: Any, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, fault)
    assert finds(test_writes_between_a_call_and_its_backward, case)


if __name__ == "__main__":
    step = int(sys.argv[1])
    wrong = [(case, found) for case in CASES[::step] if (found := differing(case))]
    for case, found in wrong:
        print(case, found)
    print(f"{len(CASES[::step])} cases, {len(wrong)} differ")
