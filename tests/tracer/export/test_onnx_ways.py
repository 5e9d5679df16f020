"""Branches on data and loops in ONNX files: one file goes every way that eager goes, for all data."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from onnx_models.check import agree, nodes
from onnx_models.own_models import MODELS

import fusegrad as fg
from fusegrad.tracer.export import ExportError, implied, ways

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
Tensor = fg.Tensor


def written(function: Callable[..., Any], *args: Any, **options: Any) -> tuple[Any, set[str], Any]:
    """A session, the kinds of nodes, and the file."""
    file = io.BytesIO()
    fg.onnx.export(function, args, file, **options)
    model = onnx.load_from_string(file.getvalue())
    session = onnxruntime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])
    return session, {node.op_type for node in nodes(model.graph)}, model


def grid(*values: float) -> list[Tensor]:
    """Vectors of three of these numbers."""
    return [fg.tensor(list(each)) for each in itertools.product(values, repeat=3)]


WEIGHTS = [fg.nn.Linear(3, 2), fg.nn.Linear(3, 2)]


def one_side_has_weights(x: Tensor) -> Tensor:
    if x.sum() > 0:
        return WEIGHTS[0](x)
    return WEIGHTS[1](x) + fg.tensor([1.0, 2.0])


def asked_twice(x: Tensor) -> Tensor:
    y = x * 2 if x.max() > 1 else x
    return y + 1 if x.max() > 1 else y - 1


def either(x: Tensor) -> Tensor:
    return x * 2 if x.max() > 1 or x.min() < -1 else x


def in_rounds(x: Tensor) -> Tensor:
    for _ in range(3):
        x = x * 0.5 if x.sum() > 1 else x + 1
    return x


def numbers(x: Tensor) -> tuple[Tensor, int, float]:
    if x.sum() > 0:
        return x, 1, 2.0
    return x, 2, 2.0


def by_python(x: Tensor) -> Tensor:
    return x * 2 if x.sum().item() + x.max().item() > 0.5 else x


def until(x: Tensor) -> tuple[Tensor, Tensor]:
    rounds = fg.zeros((), dtype=fg.int64)
    while x.abs().max() > 0.25:
        x = x / 2 if x.sum() > 0 else x / 3
        rounds = rounds + 1
    return x, rounds


def up_to(x: Tensor) -> Tensor:
    for _ in range(40):
        if x.abs().max() < 0.1:
            break
        x = x * 0.75
    return x


BRANCHING = [one_side_has_weights, asked_twice, either, in_rounds, numbers, by_python, until]


@pytest.mark.parametrize("first", [-2.0, 0.0, 2.0])
@pytest.mark.parametrize("function", BRANCHING, ids=lambda f: f.__name__)
def test_a_file_goes_every_way_whatever_the_examples_were(function: Any, first: float):
    session, kinds, _ = written(function, fg.full((3,), first))
    assert kinds & {"If", "Loop"}
    for x in grid(-3.0, -0.3, 0.0, 0.4, 2.5):
        agree(session, function, (x,))


@pytest.mark.parametrize("name", ["relaxed", "unrolled"])
def test_long_loops_are_one_node(name: str):
    function, draw = MODELS[name]()
    session, kinds, model = written(function, *draw(2))
    assert "Scan" in kinds and len(model.graph.node) < 300
    agree(session, function, draw(2))


def test_a_loop_goes_back():
    def reversed_rows(x: Tensor) -> Tensor:
        h, rows = fg.zeros(2), []
        for place in range(39, -1, -1):
            h = fg.tanh(x[place] + h)
            rows.append(h)
        return fg.stack(rows)

    session, kinds, _ = written(reversed_rows, fg.randn(40, 2))
    assert "Scan" in kinds
    agree(session, reversed_rows, (fg.randn(40, 2),))


def test_what_eager_refuses_is_noted():
    def checked(x: Tensor) -> Tensor:
        if x.isnan().any():
            raise ValueError("not a number")
        if x.sum() > 0:
            if x.max() > 9:
                raise ValueError("too large")
            return x + 1
        return x

    session, kinds, model = written(checked, fg.ones(3))
    assert "If" in kinds
    (prop,) = model.metadata_props
    assert "isnan" in prop.value and "x.max() > 9" in prop.value
    agree(session, checked, (fg.full((3,), -1.0),))


def other_shapes(x: Tensor) -> Tensor:
    return x if x.sum() > 0 else x[:1]


def other_structure(x: Tensor) -> Any:
    return x if x.sum() > 0 else (x, x)


def fails_on_the_examples(x: Tensor) -> Tensor:
    if x.sum() > 5:
        return x.reshape(int(x.numel()) + 1)
    return x


def too_many_ways(x: Tensor) -> Tensor:
    for place in range(7):
        x = x * 2 if x[place] > 0 else x + place
    return x


def by_a_number(x: Tensor) -> Tensor:
    return x[: int(x.sum())]


@pytest.mark.parametrize(
    "function, words",
    [
        (other_shapes, "results of other types, or shapes"),
        (other_structure, "is made in another way for other data"),
        (fails_on_the_examples, "fails on the examples"),
        (too_many_ways, "in more than 32 ways"),
        (by_a_number, "branched on the values of tensors"),
        (up_to, "branched on the values of tensors"),
    ],
)
def test_ways_that_no_file_can_say_are_refused(function: Any, words: str):
    with pytest.raises(ExportError, match=words):
        written(function, fg.ones(8) / 4)


def test_a_way_that_never_ends_on_the_examples_is_left():
    def halved(x: Tensor) -> Tensor:
        while x != 1:
            x = x // 2 if x % 2 == 0 else 3 * x + 1
        return x + 1

    session, _, _ = written(halved, fg.tensor(1))
    for number in range(1, 30):
        agree(session, halved, (fg.tensor(number),))


def test_a_wrong_side_is_found(monkeypatch: pytest.MonkeyPatch):
    """Planted: an op that is wrong, on the side that the examples do not go."""
    from fusegrad.tracer.export.onnx.scalars import PRIMITIVES

    monkeypatch.setitem(PRIMITIVES, "tanh", lambda x: x)
    with pytest.raises(ExportError, match="another result 0"):
        written(lambda x: x if x.sum() > 0 else fg.tanh(x), fg.ones(3))


def test_without_what_is_implied_a_loop_would_be_asked_for_ever(monkeypatch: pytest.MonkeyPatch):
    """Planted: nothing follows from the end of a loop."""
    monkeypatch.setattr(implied.Known, "_loop_is_over", lambda self, loop: None)
    with pytest.raises(ExportError, match="ways"):
        written(until, fg.ones(3))


@pytest.mark.parametrize("values", list(itertools.product([False, True], repeat=3)))
def test_what_follows_from_truths_is_what_all_their_values_say(values: Sequence[bool]):
    """`implies` is right for all that three truths can be, put together in several ways."""
    x = fg.tensor([1.0 if value else -1.0 for value in values])

    def joined(x: Tensor) -> Tensor:
        a, b, c = x[0] > 0, x[1] > 0, x[2] > 0
        if (a & b) | ~c:
            if a | ~c:
                x = x + 1
            if b | ~c | ~a:
                x = x * 2
        elif c:
            x = x - 1
        return x

    session, _, _ = written(joined, x)
    for other in itertools.product([-1.0, 1.0], repeat=3):
        agree(session, joined, (fg.tensor(list(other)),))
    found = ways.whole_program(joined, (x,), {})
    assert len(found.ways) <= 4


@pytest.mark.parametrize("opset", [18, 20, 23])
def test_the_opset_is_the_users(opset: int):
    session, kinds, model = written(fg.nn.GELU(), fg.randn(3), opset_version=opset)
    assert model.opset_import[0].version == opset and ("Gelu" in kinds) == (opset >= 20)
    agree(session, fg.nn.GELU(), (fg.randn(3),))


def self_attention(x: Tensor) -> Tensor:
    layer = fg.nn.functional.scaled_dot_product_attention
    return layer(x, x * 2, fg.sin(x), scale=0.3)


def weights_are_given(x: Tensor) -> tuple[Tensor, Tensor]:
    weights = fg.softmax(x @ x.transpose(2, 3), 3)
    return weights @ x, weights


def causal(x: Tensor) -> Tensor:
    return fg.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)


@pytest.mark.parametrize("opset", [22, 23])
@pytest.mark.parametrize(
    "function, is_one", [(self_attention, True), (weights_are_given, False), (causal, False)]
)
def test_attention_is_one_node_where_the_opset_has_it(function: Any, is_one: bool, opset: int):
    session, kinds, _ = written(function, fg.randn(2, 3, 5, 4), opset_version=opset)
    assert ("Attention" in kinds) == (is_one and opset >= 23) and ("Softmax" in kinds) != (
        "Attention" in kinds
    )
    agree(session, function, (fg.randn(2, 3, 5, 4),))


def test_an_opset_that_is_not_there_is_an_error():
    with pytest.raises(ExportError, match="the onnx package here has"):
        written(fg.nn.GELU(), fg.randn(3), opset_version=999)


def test_a_function_may_fill_a_cache_first():
    table: dict[str, Tensor] = {}

    def cached(x: Tensor) -> Tensor:
        if "one" not in table:
            table["one"] = fg.ones(3)
        return x + table["one"]

    session, _, _ = written(cached, fg.randn(3))
    agree(session, cached, (fg.randn(3),))


def test_results_may_be_objects_of_registered_classes():
    class Result(dict[str, Any]):
        pass

    session, _, _ = written(lambda x: Result(first=x + 1, second=[x, None]), fg.randn(3))
    assert [np.shape(r) for r in session.run(None, {"x": np.ones(3, np.float32)})] == [(3,), (3,)]
