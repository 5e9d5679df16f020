"""The graph's text: it parses back to an equal graph, runs as eager runs, and `check` finds broken graphs."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import fusegrad as fg
from fusegrad.eager.core import dtypes
from fusegrad.eager.core.op import REGISTRY, TensorType, wrap
from fusegrad.eager.core.sizes import Symbol
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.shape.slicing import Slice
from fusegrad.tracer.ir.evaluation import GuardFailed, evaluate_graph
from fusegrad.tracer.ir.graph import (
    GUARD,
    Equation,
    Graph,
    GraphError,
    Source,
    Value,
    check,
    identifier,
    literal_text,
    print_graph,
    renamed,
)
from fusegrad.tracer.ir.text import load, parse_graph
from fusegrad.tracer.record.recorder import Recorder

F32, BOOL, I64 = np.dtype("float32"), np.dtype(bool), np.dtype("int64")
ADD, MUL, SUM, EXP, GT = (REGISTRY[n] for n in ("add", "mul", "sum", "exp", "gt"))


def record(function, *tensors):
    """The graph of one run."""
    recorder = Recorder()
    for i, tensor in enumerate(tensors):
        recorder.argument(tensor, f"x{i}", i)
    previous, state.interpreter = state.interpreter, recorder
    try:
        result = function(*tensors)
    finally:
        state.interpreter = previous
    outputs = tuple(recorder.value_of(r) if isinstance(r, Tensor) else r for r in result)
    inputs = (*recorder.inputs, *recorder.captured, *recorder.constants)
    return Graph(inputs, tuple(recorder.equations), outputs)


STEPS = ["add", "mul", "sub", "exp", "neg", "tanh", "sum0", "sum", "T", "slice", "where"]

# Generated graphs: any well-typed chain of ops, with any literals.

numbers = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63),
    st.floats(),
    st.complex_numbers(),
)
params = st.recursive(
    st.one_of(
        numbers,
        st.none(),
        st.text(max_size=8),
        st.sampled_from(dtypes.ALL),
        st.builds(Slice, st.integers(0, 9), st.integers(-1, 9), st.integers(1, 3)),
    ),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=5,
)
words = st.from_regex(r"[a-z_][a-z0-9_]{0,6}", fullmatch=True)
types = st.builds(
    TensorType,
    st.lists(st.integers(0, 5), max_size=3).map(tuple),
    st.sampled_from([d.numpy for d in dtypes.ALL]),
)
sources = st.one_of(
    st.none(),
    st.builds(Source, st.sampled_from(["a.py", "my file.py", "<stdin>", "x#y.py"]), st.integers(1, 999)),
)


@st.composite
def graphs(draw):
    """Graphs that are well formed; what the ops make of the types does not matter for the text."""
    taken: set[str] = set()

    def value():
        name = identifier(draw(words), taken)
        taken.add(name)
        return Value(name, draw(types))

    inputs = tuple(value() for _ in range(draw(st.integers(0, 4))))
    known = list(inputs)
    equations = []
    for _ in range(draw(st.integers(0, 6))):
        operand = st.one_of(st.sampled_from(known), numbers) if known else numbers
        op = draw(st.sampled_from(sorted(REGISTRY)))
        given_params = draw(
            st.dictionaries(st.sampled_from(["dim", "shape", "dtype", "keepdim"]), params, max_size=3)
        )
        outputs = tuple(value() for _ in range(0 if op == "guard" else draw(st.integers(1, 3))))
        operands = tuple(draw(st.lists(operand, max_size=3)))
        equations.append(Equation(REGISTRY[op], operands, given_params, outputs, draw(sources)))
        known += outputs
    result = st.one_of(st.sampled_from(known), numbers) if known else numbers
    return Graph(inputs, tuple(equations), tuple(draw(st.lists(result, max_size=3))))


@settings(max_examples=200, deadline=None)
@given(graphs())
def test_printed_graphs_parse_back_to_an_equal_graph(graph):
    back = parse_graph(print_graph(graph))
    assert back == graph and hash(back) == hash(graph)
    assert back.inputs == graph.inputs
    assert [e.key() for e in back.equations] == [e.key() for e in graph.equations]
    assert [e.outputs for e in back.equations] == [e.outputs for e in graph.equations]
    assert [str(e.source) for e in back.equations] == [str(e.source) for e in graph.equations]


def test_values_of_one_name_and_type_are_one_object():
    one, type_ = Value("x", TensorType((2, 3), np.dtype("float32"))), TensorType((2, 3), np.dtype("float32"))
    assert Value("x", type_) is one and Value("y", type_) is not one
    assert Value("x", TensorType((3, 2), type_.dtype)) is not one
    assert Value("x", TensorType((2, 3), np.dtype("float64"))) is not one
    for again in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert again is one
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.name = "z"


def test_values_with_open_sizes_are_not_looked_up():
    type_ = TensorType((Symbol(),), np.dtype("float32"))
    assert Value("x", type_) is not Value("x", type_)


@settings(max_examples=100, deadline=None)
@given(numbers)
def test_numbers_are_written_to_the_last_bit_and_with_their_type(number):
    value = Value("v", TensorType((), F32))
    graph = Graph((), (Equation(ADD, (number, number), {}, (value,)),), (value, number))
    back = parse_graph(print_graph(graph)).equations[0].inputs[0]
    assert type(back) is type(number) and repr(back) == repr(number)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(STEPS), max_size=8))
def test_a_printed_run_gives_eagers_results(steps):
    def run(x, y):
        for step in steps:
            match step:
                case "add" | "mul" | "sub":
                    x = getattr(fg, step)(x, y) if x.array.ndim else getattr(fg, step)(y, x)
                case "exp" | "neg" | "tanh":
                    x = getattr(fg, step)(x)
                case "sum0":
                    x = x.sum(dim=0, keepdim=True) if x.array.ndim else x
                case "sum":
                    x = x.sum()
                case "T":
                    x = x.T.T
                case "slice":
                    x = x[:, ::1] if x.array.ndim == 2 else x
                case "where":
                    x = fg.where(x > 0.5, x, -0.0)
        return x, x * y, 3

    rng = np.random.default_rng(0)
    x, y = (wrap(rng.standard_normal((3, 3)).astype("float32")) for _ in "xy")
    with np.errstate(all="ignore"):
        graph = check(record(run, x, y))
        results = load(print_graph(graph))(x, y)
        again = evaluate_graph(graph, (x, y))
        expected = run(x, y)
    for result, other, right in zip(results, again, expected, strict=True):
        if isinstance(right, Tensor):
            np.testing.assert_array_equal(result.array, right.array)
            np.testing.assert_array_equal(other.array, right.array)
        else:
            assert result == other == right


def test_a_printed_graph_reads_as_the_design_shows_it():
    def function(x, w):
        h = x @ w
        if h.sum() > 0:
            return (fg.tanh(h),)
        return (h,)

    ones = wrap(np.ones((2, 3), "float32")), wrap(np.ones((3, 2), "float32"))
    text = print_graph(record(function, *ones), with_text=True)
    lines = [line.split("  #")[0].rstrip() for line in text.split("\n")]
    assert lines == [
        "def graph(x0: f32[2, 3], x1: f32[3, 2]) -> tuple[f32[2, 2]]:",
        "    v0: f32[2, 2] = matmul(x0, x1)",
        "    v1: f32[] = sum(v0, dim=None, keepdim=False)",
        "    v2: bool[] = gt(v1, 0)",
        "    guard(v2, expected=True, kind='branch')",
        "    v3: f32[2, 2] = tanh(v0)",
        "    return (v3,)",
    ]
    assert "test_graph_text.py:" in text and "  if h.sum() > 0:" in text
    assert parse_graph(text) == record(function, *ones)
    with pytest.raises(GuardFailed):
        load(text)(ones[0], ones[1] * -1.0)


def test_long_signatures_have_one_input_a_line():
    values = tuple(Value(f"parameter{i}", TensorType((10, 20), F32)) for i in range(12))
    graph = Graph(values, (), values)
    assert "\n    parameter3: f32[10, 20],\n" in print_graph(graph)
    assert parse_graph(print_graph(graph)) == graph


def test_gradients_flow_through_a_loaded_graph():
    x = wrap(np.array([1.0, 2.0], "float32"))
    x.requires_grad_()
    (total,) = load(print_graph(record(lambda x: ((x * x).sum(),), x)))(x)
    total.backward()
    np.testing.assert_array_equal(x.grad.array, [2.0, 4.0])


@pytest.mark.parametrize(
    "name", ["exp", "f32", "inf", "None", "slice", "complex", "lambda", "a b", "1", "é²", ""]
)
def test_identifiers_hide_no_name_of_the_language(name):
    made = identifier(name, set())
    graph = Graph((Value(made, TensorType((2,), F32)),), (), (Value(made, TensorType((2,), F32)),))
    assert made.isidentifier() and parse_graph(print_graph(graph)) == graph
    assert identifier(name, {made}) != made


def test_what_has_no_literal_is_refused():
    for value in (object(), np.zeros(3), [1, 2]):
        with pytest.raises(TypeError, match="no literal"):
            literal_text(value)
    assert literal_text(np.float64(0.1)) == "0.1"
    assert literal_text(-math.inf) == "-inf"


@pytest.mark.parametrize(
    "text",
    [
        "def graph(x: f32[2]) -> tuple[f32[2]]:\n    v0: f32[2] = unheard_of(x)\n    return (v0,)",
        "def graph(x: f32[2]) -> tuple[f32[2]]:\n    for i in x: pass\n    return (x,)",
        "def graph(x: f32[2]) -> tuple[f32[2]]:\n    v0: f32[2] = neg(y)\n    return (v0,)",
        "def graph(x: f32[2]) -> tuple[f32[2]]:\n    v0: f32[2] = neg(x.T)\n    return (v0,)",
        "def graph(x: float) -> tuple[()]:\n    return ()",
    ],
)
def test_text_of_another_language_is_refused(text):
    with pytest.raises(SyntaxError):
        parse_graph(text)


# The checker.


def value(name, shape=(2,), dtype=F32):
    return Value(name, TensorType(shape, dtype))


X, V = value("x"), value("v")


@pytest.mark.parametrize(
    ("graph", "what"),
    [
        (Graph((X, X), (), (X,)), "defined twice"),
        (Graph((X,), (Equation(EXP, (X,), {}, (X,)),), (X,)), "defined twice"),
        (Graph((X,), (Equation(EXP, (V,), {}, (value("w"),)),), ()), "not defined"),
        (Graph((X,), (), (V,)), "not defined"),
        (Graph((X,), (Equation(EXP, (value("x", (3,)),), {}, (value("v", (3,)),)),), ()), "not defined"),
        (Graph((X,), (Equation(EXP, (X,), {}, (value("v", (3,)),)),), ()), "exp gives"),
        (Graph((X,), (Equation(GT, (X, 1.0), {}, (V,)),), ()), "gt gives"),
        (Graph((X,), (Equation(SUM, (X,), {"dim": None, "keepdim": False}, (V,)),), ()), "sum gives"),
        (Graph((X,), (Equation(EXP, (X,), {}, (V, value("w"))),), ()), "exp gives"),
        (
            Graph((X,), (Equation(GUARD, (X,), {"expected": True, "kind": "branch"}, (V,)),), ()),
            "guard gives",
        ),
    ],
)
def test_broken_graphs_are_found(graph, what):
    with pytest.raises(GraphError, match=what):
        check(graph)


def test_a_type_that_no_rule_allows_is_found():
    broken = Graph((X, value("y", (3,))), (Equation(ADD, (X, value("y", (3,))), {}, (V,)),), (V,))
    with pytest.raises((GraphError, ValueError)):
        check(broken)


def test_equal_graphs_are_equal_and_others_are_not():
    def graph(number, source=None):
        return Graph((X,), (Equation(MUL, (X, number), {}, (V,), source),), (V,))

    assert graph(1.0) == graph(1.0, Source("a.py", 3))
    assert len({graph(1.0), graph(1), graph(True), graph(-0.0), graph(0.0), graph(math.nan)}) == 6


def test_renaming_keeps_what_is_computed():
    x = wrap(np.array([1.0, 2.0], "float32"))
    graph = record(lambda x: (fg.exp(x) * 2.0, x), x)
    fresh = check(renamed(graph))
    assert [e.output.name for e in fresh.equations] == ["v0", "v1"]
    for one, other in zip(evaluate_graph(graph, (x,)), evaluate_graph(fresh, (x,)), strict=True):
        np.testing.assert_array_equal(one.array, other.array)
