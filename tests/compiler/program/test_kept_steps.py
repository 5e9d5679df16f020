"""Steps that an earlier process has left are those that would be worked out, and are found by all that
decides them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler.artefacts import folder, versions
from fusegrad.compiler.artefacts.capture_data import graph_text
from fusegrad.compiler.artefacts.form import Artefact
from fusegrad.compiler.artefacts.objects import Table
from fusegrad.compiler.llvm import target
from fusegrad.compiler.program import kept_steps, program
from fusegrad.compiler.program.kept_steps import Asked
from fusegrad.compiler.program.program import Program
from fusegrad.compiler.runtime import threads
from fusegrad.eager.core.families import Layout
from fusegrad.tracer.capture import capture
from fusegrad.tracer.ir import passes
from fusegrad.tracer.ir.graph import Graph, Subgraph
from fusegrad.tracer.ir.text import parse_graph

F = fg.nn.functional


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the test's own."""
    monkeypatch.setenv(folder.SETTING, str(tmp_path / "cache"))
    return tmp_path / "cache"


def numbers(*shape: int, dtype: Any = fg.float32) -> fg.Tensor:
    return fg.tensor(np.random.default_rng(len(shape)).standard_normal(shape), dtype=dtype)


def complex_numbers(*shape: int) -> fg.Tensor:
    return fg.complex(numbers(*shape), numbers(*shape) + 1)


def rounds(x: fg.Tensor, w: fg.Tensor) -> fg.Tensor:
    h = x[0]
    for row in x:
        h = fg.tanh(h @ w + row)
    return h.sum()


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[fg.Tensor, ...]]] = {
    "pointwise": (lambda x, y: fg.tanh(x) * y + x.exp() * float("inf"), (numbers(3, 4), numbers(4))),
    "odd numbers": (
        lambda x: x * -math.nan + (x + 1) * -0.0 + (x * 2) * math.inf + x.abs() * 1e-310,
        (numbers(3, 4),),
    ),
    "products": (lambda x, y: F.relu(x @ y).sum(0) @ y.T, (numbers(5, 6), numbers(6, 7))),
    "cross entropy": (lambda x, y: F.cross_entropy(x @ y, fg.arange(5) % 7), (numbers(5, 6), numbers(6, 7))),
    "a padded convolution": (
        lambda x, w: F.max_pool2d(F.conv2d(x, w, padding=1), 2),
        (numbers(2, 3, 8, 8), numbers(4, 3, 3, 3)),
    ),
    "complex numbers": (lambda x: (x * x.conj()).sum() + x.exp().abs().mean(), (complex_numbers(3, 4),)),
    "a scan": (lambda x: fg.cumsum(x * 2, 1) + fg.cat([x, x * 2], 1)[:, ::2], (numbers(3, 6),)),
    "rounds of a loop": (rounds, (numbers(40, 3), numbers(3, 3))),
    "an index": (lambda x: F.embedding(fg.arange(4) % 3, x).log_softmax(1), (numbers(3, 6),)),
    "what NumPy sorts": (lambda x: fg.sort(x.sin(), 1)[0] * 2, (numbers(3, 6),)),
    "linear algebra": (lambda x: fg.linalg.solve(x @ x.T + fg.eye(4), x) * 2, (numbers(4, 4),)),
    "numbers of other kinds": (lambda x: (x.double() * 2.5 > 1) & (x.int() % 2 == 0), (numbers(4, 4),)),
    "other strides": (lambda x: (x.T.exp() * 2).T.contiguous() + x.flip(0), (numbers(4, 4),)),
}


def graph_of(name: str) -> tuple[Graph, list[np.ndarray]]:
    function, args = PROGRAMS[name]
    made = capture(function, args)
    assert not made.reasons
    graph = passes.optimise(made.graph)
    return graph, [made.tensors[v].array if v in made.tensors else made.constants[v] for v in graph.inputs]


def given(made: Program, arrays: list[np.ndarray]) -> list[bytes]:
    found = made.run(arrays)
    return [found[made.arrays[made.sources.base(v)]].tobytes() for v in made.outputs]


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_found_is_what_would_be_worked_out(name: str, monkeypatch: pytest.MonkeyPatch):
    graph, arrays = graph_of(name)
    first = Program(graph, is_kept=True)
    monkeypatch.setattr(program, "_divided", lambda *_: pytest.fail("it is worked out again"))
    again = Program(graph, is_kept=True)
    assert again.describe(kernels=True) == first.describe(kernels=True)
    assert repr(again.kernels) == repr(first.kernels)
    assert [e.source for s in again.steps for e in s.equations] == [
        e.source for s in first.steps for e in s.equations
    ]
    assert again.graph.text == first.graph.text and again.checks == first.checks
    assert given(first.finish(), arrays) == given(again.finish(), arrays)


@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - {"odd numbers"}))  # another NaN has no text
def test_a_graph_that_comes_from_its_text_has_the_same_key(name: str):
    """As it does in another process: which of its numbers are one object says nothing."""
    graph, _ = graph_of(name)
    bare = Graph(graph.inputs, tuple([replace(e, source=None) for e in graph.equations]), graph.outputs)
    keys = [kept_steps.KeptSteps(ASKED._replace(graph=g), True)._key for g in (bare, again(bare))]
    assert keys[0] and keys[0] == keys[1]


def again(graph: Graph) -> Graph:
    return parse_graph(graph_text(graph))


# The key.

GRAPH, _ = graph_of("products")
X, Y = GRAPH.inputs
OUT = GRAPH.outputs[0]
ASKED = Asked(GRAPH, {}, {}, {}, set(), False)
OTHERS: dict[str, list[Asked]] = {
    "graph": [
        ASKED._replace(graph=graph_of(name)[0]) for name in PROGRAMS if name != "products"
    ] + [ASKED._replace(graph=Graph(GRAPH.inputs, GRAPH.equations, GRAPH.outputs * 2))],
    "known": [
        ASKED._replace(known={X: layout})
        for layout in (Layout((5, 6), (1, 5)), Layout((5, 6), (6, 1), 3), Layout((5, 6), (12, 2)))
    ] + [ASKED._replace(known={Y: Layout((6, 7), (1, 6))})],
    "results": [ASKED._replace(results={OUT: Layout(OUT.shape, OUT.shape)})],
    "seen": [ASKED._replace(seen={OUT: (n,) * len(OUT.shape)}) for n in (1, 2)],
    "apart": [ASKED._replace(apart={OUT})],
    "contracted": [ASKED._replace(contracted=True)],
}  # fmt: skip
# In the order of `_facts`: what is not asked of a graph, and how it becomes another.
AMBIENT: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "form": lambda patch: patch.setattr(kept_steps, "FORM", 0),
    "source": lambda patch: patch.setattr(versions, "_known", ["another"]),
    "instructions": lambda patch: patch.setattr(kept_steps, "host_facts", lambda: ["others"]),
    "host": lambda patch: patch.setattr(target, "_host", lambda: target.Target(16)),
    "cores": lambda patch: patch.setattr(threads, "cores", lambda: 77),
    "threads": lambda patch: patch.setattr(threads, "pool_size", lambda: 77),
    "rounds": lambda patch: patch.setattr(kept_steps, "_bodies", lambda graph: [Subgraph(graph)]),
}
FACTS = [*AMBIENT, *Asked._fields]


def noticed(facts: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Of which facts a change is seen by what `facts` gives."""

    def said(asked: Asked) -> list[Any]:
        return facts(asked, kept_steps._table(asked.graph))

    found, before = set(), said(ASKED)
    for name, change in AMBIENT.items():
        with monkeypatch.context() as patch:
            change(patch)
            if said(ASKED) != before:
                found.add(name)
    for name, others in OTHERS.items():
        if all(said(other) != before for other in others):
            found.add(name)
    return found


def test_all_that_decides_is_in_the_key_and_a_hole_would_be_seen(monkeypatch: pytest.MonkeyPatch):
    assert FACTS[len(AMBIENT) :] == [*OTHERS]
    facts = kept_steps._facts
    assert noticed(facts, monkeypatch) == {*FACTS}
    for hole, name in enumerate(FACTS):

        def without(asked: Asked, table: Table, hole: int = hole) -> list[Any]:
            whole = facts(asked, table)
            return whole[:hole] + whole[hole + 1 :]

        assert noticed(without, monkeypatch) == {*FACTS} - {name}


@pytest.mark.parametrize("rows", [[], [[0, "x"]], [["op", "no such op"]], "none", [[99]], [["named", "os"]]])
def test_an_entry_that_says_something_else_is_worked_out_anew(rows: Any):
    graph, arrays = graph_of("products")
    expected = given(Program(graph, is_kept=True).finish(), arrays)
    (kept,) = [kept_steps.KeptSteps(Asked(graph, {}, {}, {}, (), False), True)]
    assert kept.find() is not None
    folder.keep([kept._key], Artefact(kept_steps.KIND, {"rows": rows, "said": [[0]] * 6}))
    assert kept.find() is None
    assert given(Program(graph, is_kept=True).finish(), arrays) == expected


class Number(float):
    """A number that is more than one."""


def test_what_has_no_words_is_not_kept():
    graph, _ = graph_of("pointwise")
    equations = tuple([replace(e, params={**e.params, "more": Number(2)}) for e in graph.equations])
    asked = Asked(Graph(graph.inputs, equations, graph.outputs), {}, {}, {}, (), False)
    kept = kept_steps.KeptSteps(asked, True)
    assert kept._key == "" and kept.find() is None
