"""Groups of equations that are alike are planned once, and only those."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from planted import finds

import fusegrad as fg
from fusegrad.compiler.fuse import fusion, isomorphic_groups, turns
from fusegrad.compiler.fuse.isomorphic_groups import Alike
from fusegrad.compiler.fuse.iteration_domain import Sources
from fusegrad.eager.core.families import View
from fusegrad.tracer.capture.api import capture


def keys(f: Callable[..., Any], *args: Any, size: int = 1) -> list[Any]:
    """The keys of the groups of `size` equations, one after the other, that a run computes with."""
    graph = capture(f, args).graph
    alike = Alike(Sources(graph))
    equations = [e for e in graph.equations if not isinstance(e.op, View)]
    groups = [equations[i : i + size] for i in range(0, len(equations), size)]
    return [alike.group(group, [group[-1].output]).key for group in groups]


x, y = fg.randn(40), fg.randn(40)


def test_names_are_nothing_to_tell_groups_apart_by():
    def f(x: Any, y: Any) -> Any:
        a = fg.tanh(x * y)
        b = fg.tanh(a * y)
        return fg.tanh(x * b)

    first, second, third = keys(f, x, y, size=2)
    assert first == second == third


def test_what_meets_what_tells_them_apart():
    def f(x: Any, y: Any) -> Any:
        return (x * y) * x, (x * y) * y, (x * y) * (x * y), (x * x) * x

    found = keys(f, x, y, size=2)
    assert len(set(found)) == len(found)


def test_only_how_far_reads_are_apart_matters():
    def f(x: Any) -> Any:
        return x[1:5] * x[2:6], x[10:14] * x[11:15], x[20:24] * x[22:26], x[30:34] * x[30:34]

    first, elsewhere, further, same = keys(f, x)
    assert first == elsewhere
    assert len({first, further, same}) == 3


def test_reads_of_other_steps_and_kinds_are_others():
    def f(x: Any, y: Any) -> Any:
        return x[:8] * 2, x[:16:2] * 2, x[:8] * 2.0, x[:4] * 2, x[:8] * 3, y[:8] * 2

    steps, number, length, value = (found := keys(f, x, y))[1:5]
    assert found[0] == found[5]
    assert len({found[0], steps, number, length, value}) == 5


def test_what_is_needed_outside_tells_them_apart():
    graph = capture(lambda x: fg.tanh(x * 2), (x,)).graph
    alike, equations = Alike(Sources(graph)), graph.equations
    outputs = [e.output for e in equations]
    assert alike.group(equations, outputs).key != alike.group(equations, outputs[1:]).key


@pytest.mark.parametrize("value", [0.0, -0.0, 1.0])
def test_parameters_are_told_apart_by_type_and_bits(value: float):
    others = [v for v in (0, 0.0, -0.0, 1, 1.0) if repr(v) != repr(value)]

    def f(x: Any) -> Any:
        return [x * fg.full((40,), v) for v in (value, *others)]

    found = keys(f, x)[::2]
    assert found.count(found[0]) == 1


def built(f: Callable[..., Any], *args: Any) -> int:
    """How many kernels a first call builds; that the next one gives what eager gives."""
    count = 0
    build = fusion.build_kernel

    def counted(*given: Any) -> Any:
        nonlocal count
        count += 1
        return build(*given)

    g = fg.jit(f)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fusion, "build_kernel", counted)
        g(*args)
    expected = f(*args)
    np.testing.assert_allclose(g(*args).numpy(), expected.numpy(), rtol=2e-5, atol=2e-6)
    assert g.stats.compiled_calls == 1
    return count


@pytest.mark.parametrize("way", ["recurrent", "stencil"])
def test_a_longer_loop_builds_no_more_kernels(way: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(turns, "SMALLEST_TURN", 1 << 30)
    weight = fg.randn(8, 8) * 0.1

    def loop(x: Any) -> Any:
        h = fg.zeros(4, 8)
        for t in range(x.shape[0]):
            if way == "recurrent":
                h = fg.tanh(x[t] + h @ weight)
            else:
                h = h + x[t]
                h[1:3] = h[:2] * 0.5 + h[2:] * 0.25
                h = h - h.sum()
        return h

    data = fg.randn(24, 4, 8)
    assert built(loop, data[:12]) == built(loop, data)


def test_kernels_that_are_alike_are_called_with_their_own_values():
    def f(x: Any, y: Any) -> Any:
        total = fg.zeros(8)
        for i in range(5):
            total = total + (x[i : i + 8] * y[3 * i : 3 * i + 8]).sum() * fg.tanh(x[i + 1 : i + 9])
        return total

    built(f, x, y)


def test_one_key_for_two_groups_is_found(monkeypatch: pytest.MonkeyPatch):
    def f(x: Any) -> Any:
        return fg.full((40,), 1.0)[::2] * x[::2], fg.full((40,), 2.0)[::2] * x[::2]

    def agrees() -> bool:
        compiled = fg.jit(f)
        return all(fg.equal(a, b) for _ in range(3) for a, b in zip(compiled(x), f(x), strict=True))

    assert agrees()
    monkeypatch.setattr(isomorphic_groups, "parameters_text", lambda equation: "")
    assert not agrees()
    assert finds(test_parameters_are_told_apart_by_type_and_bits, 1.0)
