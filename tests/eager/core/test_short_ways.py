"""Short ways of small ops: integers next to int64 tensors, and streams of random words that go on."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
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
