"""Each op, planned with its sizes left open, is planned as for the sizes themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from op_samples import SAMPLES, Sample

import fusegrad as fg
from fusegrad.compiler.deferred.interpreter import Deferred
from fusegrad.compiler.deferred.op_trie import Plan
from fusegrad.compiler.deferred.polymorphic_region import Form
from fusegrad.compiler.paths import path
from fusegrad.compiler.placement.memory_plan import Placed
from fusegrad.compiler.program import pipeline, program
from fusegrad.tracer.ir.symbolic_sizes import Dim, Fixed


class Watched(Plan):
    """A plan that compiles nothing, and keeps what it was asked to compile."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers_change = True
        self.asked_for: list[tuple[Any, ...]] = []

    def stretch(self, *asked: Any) -> None:
        place, steps, outside, alive, sizes, _ = asked
        self.asked_for.append((place, list(steps), list(outside), alive, sizes))


def stretches(plan: Watched, function: Callable[..., Any], inputs: list[Any]) -> list[tuple[Any, ...]]:
    """The stretches of a deferred run."""
    plan.asked_for = []
    Deferred(plan).run(function, tuple(inputs), {})
    return plan.asked_for


def placed_like(ours: Placed, theirs: Placed) -> None:
    """Two programs do the same with the same memory: everything that native code is given is equal."""
    assert ours.fresh == theirs.fresh
    assert ours.arena_bytes == theirs.arena_bytes
    assert len(ours.stages) == len(theirs.stages)
    for a, b in zip(ours.stages, theirs.stages, strict=True):
        assert type(a) is type(b)
        if hasattr(a, "calls"):
            # How many there are, the entries of the kernels (their texts are their names), and their blocks.
            tables = [x.calls._table for x in (a, b)]
            for part in (slice(3), slice(3, None, 2)):
                assert tables[0][part].tolist() == tables[1][part].tolist()
            for x, y in zip(a.calls._blocks, b.calls._blocks, strict=True):
                assert x.tolist() == y.tolist()
        else:
            assert repr(a.equation.op) == repr(b.equation.op)
            assert dict(a.equation.params) == dict(b.equation.params)
            assert a.results == b.results
            assert [steps(o) for o in a.operands] == [steps(o) for o in b.operands]


def steps(place: Any) -> Any:
    """A place in a program's arrays, with the ops and parameters of its views."""
    if not isinstance(place, tuple):
        return place
    index, chain = place
    return index, [(e.op.name, dict(e.params)) for e in chain]


def same_code(ours: Any, theirs: Any) -> None:
    """Two stretches are compiled alike, forward and backward."""
    assert [p.takes for p in ours.parts] == [p.takes for p in theirs.parts]
    assert [p.gives for p in ours.parts] == [p.gives for p in theirs.parts]
    for a, b in zip(ours.parts, theirs.parts, strict=True):
        mine, other = a.tree.root, b.tree.root
        placed_like(mine.code.program.placed(), other.code.program.placed())
        for spots in ("results", "checks"):
            assert list(map(steps, getattr(mine.code, spots))) == list(map(steps, getattr(other.code, spots)))
        assert (mine.backward is None) == (other.backward is None)
        if mine.backward is not None:
            placed_like(mine.backward.program.placed(), other.backward.program.placed())
            assert list(map(steps, mine.backward.gradients)) == list(map(steps, other.backward.gradients))
        assert mine.path.derivative.types == other.path.derivative.types
        if mine.path.derivative.alone:
            a.make_joint(mine)
            b.make_joint(other)
            if mine.joint is not None:
                placed_like(mine.joint.program.placed(), other.joint.program.placed())


@pytest.fixture
def choices_are_guards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Choices that may differ from what they would be at other sizes must not, to compare plans."""
    monkeypatch.setattr(Dim, "likely", lambda size: size)
    monkeypatch.setattr(pipeline, "least_work", lambda kernels, target: kernels[0])
    # An axis whose size is open is never computed element by element, whatever it would be at this size.
    for module in (path, program):
        monkeypatch.setattr(module, "with_short_axes_apart", lambda graph, **_: graph)
    # Nor are pairs that lie next to each other turned over, as rows of complex numbers are of known sizes.
    monkeypatch.setattr(program, "with_whole_rows", lambda kernel, *_: kernel)


def compared(function: Callable[..., Any], first: list[Any], second: list[Any]) -> list[str]:
    """For each stretch of `function`: compiled for the sizes of `first` and those of `second`, with what
    differs left open, is it what is compiled for `second` alone? "same", or "refused" by a guard.
    """
    plan = Watched()
    for inputs in (first, second, first):
        stretches(plan, function, inputs)
    mine, other = stretches(plan, function, first), stretches(plan, function, second)
    if [(place, alive) for place, _, _, alive, _ in mine] != [(p, alive) for p, _, _, alive, _ in other]:
        return ["another way"]
    found = []
    for (_, steps_1, outside_1, alive, sizes_1), (_, steps_2, outside_2, _, sizes_2) in zip(
        mine, other, strict=True
    ):
        try:
            form = Form(steps_1, outside_1, alive, sizes_1, [sizes_2])
        except Fixed:
            found.append("refused")
            continue
        ours = form.at(sizes_2)
        if ours is not None:
            same_code(ours, Form(steps_2, outside_2, alive, sizes_2).stretch)
        found.append("refused" if ours is None else "same" if form.open else "constant")
    return found


LARGER = {3: 5, 4: 7, 5: 6, 6: 8, 8: 10, 10: 12}


def inputs_of(sample: Sample, larger: bool) -> list[fg.Tensor]:
    """A sample's inputs, in their own sizes or in others (where these were equal, they stay so)."""
    made = []
    for array in sample.inputs:
        if larger:
            shape = [LARGER.get(n, n) for n in array.shape]
            array = np.resize(array, shape) if array.size else array
        floating = array.dtype.kind == "f"
        data = array.astype("f4") if floating else array
        made.append(fg.tensor(data, requires_grad=floating and sample.gradients))
    return made


# Ops that must be planned with their sizes open, and some that go on without.
NEVER_REFUSED = (
    "add mul sub div tanh exp relu where sum mean amax softmax log_softmax logsumexp matmul addmm "
    "reshape permute expand cat clamp var std standardize"
).split()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", SAMPLES)
def test_an_op_planned_with_open_sizes_is_planned_as_for_each(name: str, choices_are_guards: None):
    sample = next(s for s in SAMPLES[name])
    if sample.random:
        return
    first, second = inputs_of(sample, False), inputs_of(sample, True)
    function = lambda *inputs: sample.call(fg, *inputs)  # noqa: E731
    try:
        function(*second)
    except (RuntimeError, IndexError, ValueError):
        return  # parameters of the sample that go with its own sizes
    found = compared(function, first, second)
    assert name not in NEVER_REFUSED or "refused" not in found, found
