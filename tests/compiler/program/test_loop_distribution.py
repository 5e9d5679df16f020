"""What leaves rolled loops: values and gradients are eager's, and rounds have the products that they need."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import rolled_loops

import fusegrad as fg
from fusegrad.compiler.program import loop_bodies, loop_distribution
from fusegrad.eager.core.abstract import interpreted
from fusegrad.eager.core.op import TensorType
from fusegrad.tracer.ir import rolled
from fusegrad.tracer.ir.differentiate import Builder
from fusegrad.tracer.ir.evaluation import evaluate_graph
from fusegrad.tracer.ir.graph import Equation, Graph, Value
from fusegrad.tracer.ir.rolled import ROLLED, Body, loop

ROUNDS, ROWS, WIDTH = rolled_loops.ROUNDS, 3, 4
Loop = Callable[[fg.Tensor, fg.Tensor, fg.Tensor], fg.Tensor]


def elman(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    out = []
    for t in range(ROUNDS):
        h = fg.tanh(x[t] @ w + h @ w.T * 0.5)
        out.append(h)
    return (fg.stack(out) ** 2).sum()


def last(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    for row in x:
        h = fg.tanh(row @ w + h)
    return (h * h).sum()


def left_factor(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    for t in range(ROUNDS):
        h = fg.tanh((w @ x[t].T).T + h * 0.3)
    return (h * h).sum()


def without_a_state(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    out = []
    for t in range(ROUNDS):
        out.append(fg.sin(x[t] @ w) + h)
    return (fg.stack(out) * 0.5).sum()


def given_out(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    out = []
    for t in range(ROUNDS):
        h = fg.tanh(h @ w + x[t])
        out.append(h @ w.T)
    return (fg.stack(out) ** 2).sum()


def same_for_all(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    for t in range(ROUNDS):
        h = fg.tanh(h @ (w @ w.T) * 0.2 + x[t])
    return (h * h).sum()


def read_in_the_round(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    total, out = h * 0, []
    for t in range(ROUNDS):
        h = fg.tanh(h @ w + x[t])
        total = total + h @ w.T
        out.append(total.sum(0))
        h = h + total * 0.01
    return (fg.stack(out) ** 2).sum() + total.sum()


def summed_up(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    total = w * 0
    for t in range(ROUNDS):
        h = fg.tanh(h @ w + x[t])
        total = total + (h.mT @ x[t] if x.dim() == 3 else h[:, None] * x[t]) + w
    return (total * total).sum()


def added_twice(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    total = w * 0
    for t in range(ROUNDS):
        h = fg.tanh(h @ w + x[t])
        product = fg.atleast_2d(h).mT @ fg.atleast_2d(x[t])
        total = total + (product + product)
    return (total * total).sum()


def of_two_states(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
    total = fg.zeros(h.numel() // WIDTH, h.numel() // WIDTH, dtype=h.dtype)
    for t in range(ROUNDS):
        h = fg.tanh(h @ w + x[t])
        total = total + fg.atleast_2d(h) @ fg.atleast_2d(h).mT
    return (total * total).sum()


# How many products of two rounds are left in each loop, and in those that go back.
TABLE = [
    (elman, [2, 2]), (last, [0, 0]), (left_factor, [0, 0]), (without_a_state, [0]), (given_out, [2, 2]),
    (same_for_all, [2, 2]), (read_in_the_round, [4, 4]), (summed_up, [2, 2]), (added_twice, [4, 2]),

]  # fmt: skip


def given(batch: bool) -> tuple[fg.Tensor, fg.Tensor, fg.Tensor]:
    draw = np.random.default_rng(0)
    inner = (ROWS, WIDTH) if batch else (WIDTH,)
    shapes = (ROUNDS, *inner), (WIDTH, WIDTH), inner
    return tuple(fg.from_numpy(draw.standard_normal(s) * 0.5) for s in shapes)  # type: ignore[return-value]


def loops_of(graph: Graph) -> list[Equation]:
    return [e for e in graph.equations if e.op is ROLLED]


def products(loop: Equation) -> int:
    return sum(e.op.name == "matmul" for e in loop.params["body"].graph.equations)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[Graph]:
    """The graphs whose loops were distributed."""
    graphs: list[Graph] = []

    def noted(graph: Graph) -> Graph:
        made = loop_distribution.distributed(graph)
        graphs.append(made)
        return made

    monkeypatch.setattr(loop_bodies, "distributed", noted)
    rolled_loops.rounds_that_run(monkeypatch)
    return graphs


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("function", "expected", "batch"),
    [*[(f, n, batch) for f, n in TABLE for batch in (True, False)], (of_two_states, [2, 2], True)],
)
def test_values_are_eagers_and_rounds_have_few_products(
    function: Loop, expected: list[int], batch: bool, found: list[Graph]
) -> None:
    rolled_loops.check(function, args=given(batch))
    joint = max(found, key=lambda graph: len(loops_of(graph)))
    assert [products(loop) for loop in loops_of(joint)] == expected


def test_there_is_no_more_memory_than_that(found: list[Graph], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_distribution, "MOST_KEPT", 0)
    rolled_loops.check(elman, args=given(True))
    joint = max(found, key=lambda graph: len(loops_of(graph)))
    assert min(products(loop) for loop in loops_of(joint)) == 4


def test_sums_keep_no_more_than_they_would_move(found: list[Graph]) -> None:
    def tall(x: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> fg.Tensor:
        for t in range(ROUNDS):
            h = fg.tanh(h @ w + x[t] * 2)
        return (h * h).sum()

    draw = np.random.default_rng(0)
    args = tuple(fg.from_numpy(draw.standard_normal(s)) for s in ((ROUNDS, 40, 2), (2, 2), (40, 2)))
    rolled_loops.check(tall, args=args)  # type: ignore[arg-type]
    joint = max(found, key=lambda graph: len(loops_of(graph)))
    assert products(loops_of(joint)[1]) == 4


def test_products_are_not_computed_again_where_they_may_be_kept(
    found: list[Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = []
    for most in (rolled.MOST_KEPT, 0):
        monkeypatch.setattr(rolled, "MOST_KEPT", most)
        found.clear()
        rolled_loops.check(elman, args=given(True))
        joint = max(found, key=lambda graph: len(loops_of(graph)))
        numbers.append(sum(e.op.name == "matmul" for e in joint.equations))
    assert numbers[1] == numbers[0] + 2  # the rounds' products with what they were handed, of all rounds


FAULTS: dict[str, tuple[str, Callable[..., fg.Tensor]]] = {
    "not turned": ("transposed", lambda rows: rows),
    "the first rows alone": ("sum_of_products", lambda left, right: left[0].mT @ right[0]),
    "rows of the round before": (
        "lifted",
        lambda *given, lifted=loop_distribution.lifted: (
            None if (made := lifted(*given)) is None else fg.roll(made, 1, 0)
        ),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.usefixtures("found")
def test_planted_faults_are_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, instead = FAULTS[fault]
    monkeypatch.setattr(loop_distribution, name, instead)
    with pytest.raises(Exception, match=r"Not equal|Mismatch|shape|sizes"):
        for function in (*[f for f, _ in TABLE], of_two_states):
            rolled_loops.check(function, args=given(True))


FUNCTIONS: list[Loop] = [
    lambda r, m, v: r @ m, lambda r, m, v: r @ v, lambda r, m, v: m.T @ r.T, lambda r, m, v: r[0] @ m,
    lambda r, m, v: m.T @ r[1], lambda r, m, v: r @ r.T, lambda r, m, v: r[1] @ r.T, lambda r, m, v: r + v,
    lambda r, m, v: v * r[0], lambda r, m, v: r[:, 1:].T.reshape(-1),
    lambda r, m, v: r.sum(1, keepdim=True) * r,
    lambda r, m, v: r.amax() + r, lambda r, m, v: r[0].expand(4, 3) + m.T,
    lambda r, m, v: fg.cat([r, r[:1]], 0),
    lambda r, m, v: fg.where(r > 0, r, v), lambda r, m, v: r[0, None] + r, lambda r, m, v: r.flip(0) + r,
    lambda r, m, v: (m.T * 2) @ r[0] + v.sum(), lambda r, m, v: fg.cat([r, v[None]], 0),
    lambda r, m, v: r[0, 0].double() * v, lambda r, m, v: r.T.double() @ r[:, 0].double(),
    lambda r, m, v: r.cumsum(0) * 2,
]  # fmt: skip
WITHOUT_A_RULE = {21}


def graph_of(function: Loop, *args: fg.Tensor) -> Graph:
    """What the function does with tensors of these types."""
    values = tuple(
        Value(name, TensorType(tuple(t.shape), t.numpy().dtype)) for name, t in zip("xmv", args, strict=True)
    )
    builder = Builder({v.name for v in values})
    made = interpreted(builder, lambda: builder.value(function(*map(builder.tensor, values))))
    return Graph(values, tuple(builder.equations), (made,))


def test_rules_say_what_ops_do_row_by_row() -> None:
    """Every rule beside the op itself, row by row, of operands of several ranks."""
    fg.manual_seed(0)
    rows, matrix, vector = fg.randn(5, 2, 3), fg.randn(3, 4), fg.randn(3)
    for number, function in enumerate(FUNCTIONS):
        graph = graph_of(function, rows[0], matrix, vector)
        expected = fg.stack([function(row, matrix, vector) for row in rows])
        output = Value("rows", TensorType(tuple(expected.shape), expected.numpy().dtype))
        inputs = (Value("x", TensorType((5, 2, 3), np.dtype("f4"))), *graph.inputs[1:])
        whole = Graph(inputs, (Equation(ROLLED, inputs, loop(Body(graph), 5, 0, 1), (output,)),), (output,))
        made = loop_distribution.distributed(whole)
        (found,) = evaluate_graph(made, [rows, matrix, vector])
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)
        assert found.dtype == expected.dtype, f"number {number}"
        assert bool(loops_of(made)) == (number in WITHOUT_A_RULE), f"number {number}"
