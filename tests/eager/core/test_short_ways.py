"""Short ways of small ops: integers next to int64 tensors, streams of random words that go on, one op where
several would do.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.eager.core import large, op as op_module
from fusegrad.eager.core.families import Pointwise
from fusegrad.eager.core.op import REGISTRY
from fusegrad.eager.random import generator
from fusegrad.eager.random.generator import Generator

OPS = [
    op for op in REGISTRY.values() if isinstance(op, Pointwise) and op.takes_int64 and len(op.arguments) == 2
]
NUMBERS = (0, 1, -1, 3, 2**31, 2**62, 2**63 - 1, -(2**63), 2**63, -(2**63) - 1, True, 2.5)


def outcome(evaluate: Any, *args: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = evaluate(args, {})
        except Exception as error:
            return type(error)
    return found.dtype, found.shape, found.tobytes()


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_integers_are_what_they_are_the_long_way(op: Pointwise):
    x = fg.tensor([[0, 1, -1, 7], [2**62, -(2**63), 2**63 - 1, -3]])
    for tensor in (x, x.t(), x[:, ::2], x[0, 3], x[:0]):
        for number in NUMBERS:
            for args in ((tensor, number), (number, tensor)):
                assert outcome(op.evaluate, *args) == outcome(op._evaluate_mixed, *args), (args, op.name)


def test_there_are_such_ops():
    assert {"add", "mul", "sub", "eq", "le", "bitwise_and"} <= {op.name for op in OPS}


def test_streams_go_on_where_they_stood(monkeypatch: pytest.MonkeyPatch):
    made = []
    philox = np.random.Philox

    def counted(**place: Any) -> Any:
        made.append(place)
        return philox(**place)

    monkeypatch.setattr(generator, "_streams", {})
    monkeypatch.setattr(np.random, "Philox", counted)
    one, other = Generator().manual_seed(1), Generator().manual_seed(2)
    for count in (1, 4, 0, 7, 3, 1000, 2):
        for drawn in (one, other):
            expected = philox(key=drawn.seed_value, counter=drawn.counter).random_raw(count)
            assert np.array_equal(drawn.words(count), expected)
    assert one.counter == other.counter and len(made) == 2
    one.counter = 1
    assert np.array_equal(one.words(5), philox(key=1, counter=1).random_raw(5))
    many = [Generator().manual_seed(seed) for seed in range(100)]
    for _ in range(2):
        for drawn in many:
            drawn.words(1)
    assert len(generator._streams) <= generator._MOST_STREAMS


def ops_of(monkeypatch: pytest.MonkeyPatch, function: Any) -> list[str]:
    """The ops that a call runs."""
    ran: list[str] = []
    plain = op_module.evaluate

    def counted(op: Any, args: Any, params: Any, value: Any = None) -> Any:
        ran.append(op.name)
        return plain(op, args, params, value)

    with monkeypatch.context() as patch:
        patch.setattr(op_module, "evaluate", counted)
        for op in op_module.REGISTRY.values():  # native code, which may be there, evaluates by itself
            patch.setattr(op, "run", None)
        function()
    return ran


def test_small_things_are_one_op(monkeypatch: pytest.MonkeyPatch):
    leaves = [fg.ones(3, requires_grad=True) for _ in range(5)]
    scores, target = fg.randn(4, 3), fg.tensor([0, 2, 1, 1])
    logits = fg.log_softmax(scores, 1).requires_grad_()
    chances = fg.distributions.Categorical(fg.rand(2, 3), validate_args=False)
    assert ops_of(monkeypatch, lambda: fg.stack(leaves)) == ["stack"]
    assert ops_of(monkeypatch, lambda: leaves[0].repeat(4, 1)) == ["repeat"]
    assert ops_of(monkeypatch, lambda: scores.zero_()) == []
    assert not scores.any()
    assert ops_of(monkeypatch, chances.sample) == ["class_draw"]
    loss = fg.nn.functional.nll_loss(logits, target)
    assert ops_of(monkeypatch, loss.backward) == ["nll_loss_spread"]


def test_rows_of_something_large_are_no_large_work(monkeypatch: pytest.MonkeyPatch):
    asked = []
    plain = large.evaluate

    def noted(op: Any, args: Any, params: Any) -> Any:
        asked.append(op.name)
        return plain(op, args, params)

    monkeypatch.setattr(large, "evaluate", noted)
    x = fg.ones(large.LARGE, 2)
    assert x[3].shape == (2,) and x.view(-1)[1:].shape == (2 * large.LARGE - 1,) and x.t().shape[0] == 2
    assert asked == []
    assert (x + x).shape == x.shape and asked == ["add"]


@pytest.mark.parametrize("name", ["stack", "repeat"])
def test_nodes_stand_next_to_leaves_as_in_pytorch(name: str):
    x = fg.ones(3, requires_grad=True)
    made = fg.stack([x, x]) if name == "stack" else x.repeat(2, 2)
    assert made.grad_fn.name() == f"{name.capitalize()}Backward0"
    assert {type(node).__name__ for node, _ in made.grad_fn.next_functions} == {"AccumulateGrad"}


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_choices_are_what_they_are_the_long_way(dtype: Any):
    where = REGISTRY["where"]
    x = fg.tensor(np.array([[1.0, -0.0, np.nan], [np.inf, 0.0, -3.0]], dtype))
    for tensor in (x, x.t(), x[:, ::2], x[0, 0]):
        for condition in (tensor > 0, fg.tensor([[True], [False]]), fg.tensor(True)):
            for number in (0.0, -0.0, 0, 2.5, True):
                for args in ((condition, tensor, number), (condition, number, tensor)):
                    assert outcome(where.evaluate, *args) == outcome(where._evaluate_mixed, *args), args


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_many_choices_are_the_same_bits(dtype: Any):
    where, relu = REGISTRY["where"], REGISTRY["relu"]
    draw = np.random.default_rng(0)
    numbers = np.array([0.0, -0.0, 1.5, -2.0, np.nan, np.inf, -np.inf, 1e-7], dtype)
    for shape in ((129,), (1000,), (40, 41), (3, 4, 50)):
        x, test = fg.tensor(draw.choice(numbers, shape)), fg.tensor(draw.random(shape) < 0.5)
        few = fg.tensor(draw.random(shape[-1]) < 0.5)
        for number in (0.0, -0.0):
            for condition in (test, few):
                for args in ((condition, x, number), (condition, number, x)):
                    assert outcome(where.evaluate, *args) == outcome(where._evaluate_mixed, *args)
        alone = np.array([relu.evaluate((fg.tensor(v),), {}) for v in x.numpy().ravel()], dtype)
        assert relu.evaluate((x,), {}).tobytes() == alone.tobytes()


def test_classes_are_drawn_alike_by_ops_and_by_numpy():
    chances = fg.tensor([[0.2, 0.0, 0.8, 0.0], [0.0, 1.0, 0.0, 0.0]])
    one, other = Generator().manual_seed(3), Generator().manual_seed(3)
    params = {"shape": (500, 2)}
    drawn = REGISTRY["class_draw"]
    found = drawn.evaluate((chances,), params | {"generator": one})
    assert np.array_equal(found, drawn.by_ops(chances, **params, generator=other).numpy())
    assert one.counter == other.counter
    assert set(found[:, 0]) == {0, 2} and set(found[:, 1]) == {1}
    assert 0.7 < (found[:, 0] == 2).mean() < 0.9


def test_normal_numbers_are_normal():
    for dtype in (fg.float32, fg.float64, fg.float16):
        drawn = fg.randn(200_001, dtype=dtype, generator=Generator().manual_seed(5)).double()
        for power, moment in ((1, 0), (2, 1), (3, 0), (4, 3), (6, 15)):
            assert abs(float((drawn**power).mean()) - moment) < 0.05 * (moment + 1)
        assert 4 < float(drawn.abs().max()) < 6.5
        halves = drawn[:100_000], drawn[100_000:200_000]
        assert abs(float((halves[0] * halves[1]).mean())) < 0.02


def test_a_word_makes_two_normal_numbers():
    for dtype, count, words in ((fg.float32, 16, 8), (fg.float32, 7, 4), (fg.float64, 16, 16)):
        drawn = Generator().manual_seed(5)
        fg.randn(count, dtype=dtype, generator=drawn)
        assert drawn.counter == words // 4
