"""x[index] = value and x[index] += value, for all kinds of index, value and dtype, against torch."""

from __future__ import annotations

import warnings

import pytest
from oracle import torch

import fusegrad as fg

INDICES = """
0
T.tensor(1)
(0, T.tensor(1))
(T.tensor(0), T.tensor(1))
(slice(0, 2), T.tensor(1))
[1]
([0], [1])
(slice(None), [1])
T.tensor([1])
T.tensor([True, False, True])
T.ones(3, 2) > 0
(T.tensor([True, False, True]), 0)
(0, [1])
...
None
True
False
(T.tensor(0), [1])
[True, False, True]
T.tensor(True)
T.tensor([], dtype=T.int64)
[]
slice(0, 2)
range(2)
(0, slice(None), None)
""".strip().splitlines()
VALUES = """
5
5.5
2j
True
T.tensor(5)
T.tensor(5.5)
T.tensor(5.5, dtype=T.float64)
T.tensor([7])
T.tensor([7.5], dtype=T.float64)
T.tensor([7.5])
T.tensor(True)
T.tensor([[7]])
T.tensor(2j)
T.tensor([2j])
""".strip().splitlines()


def written(T, index, value, dtype, operator):
    known = {"T": T, "x": T.arange(6).reshape(3, 2).to(getattr(T, dtype))}
    known["index"] = eval(index, known)
    try:
        exec(f"x[index] {operator} {value}", known)
    except Exception as error:
        return type(error).__name__.replace("OpError", "RuntimeError")
    return known["x"].tolist()


@pytest.mark.parametrize("operator", ["=", "+="])
@pytest.mark.parametrize("index", INDICES)
def test_written_as_in_torch(index, operator):
    wrong = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dtype in ("float32", "int64"):
            for value in VALUES:
                found, right = (written(T, index, value, dtype, operator) for T in (fg, torch))
                if found != right:
                    wrong.append((dtype, value, found, right))
    assert not wrong


def test_counting_labels():
    def program(T):
        counts, weights = T.zeros(3), T.ones(2, requires_grad=True)
        for label, weight in zip(T.tensor([0, 2, 2]), (weights[0], weights[1], weights[1] * 2), strict=True):
            counts[label] += 1
            counts[label] *= weight
        (counts * counts).sum().backward()
        return counts.tolist(), weights.grad.tolist()

    assert program(fg) == program(torch)
    counted = fg.jit(lambda x, i: x.__setitem__(i, x[i] + 1))
    x = fg.zeros(3)
    for i in (0, 2, 2, 0, 2):
        counted(x, fg.tensor(i))
    assert x.tolist() == [2, 0, 3]


def test_a_tensor_can_be_written_onto_itself_through_a_view_with_one_more_dimension():
    for T in (fg, torch):
        z = T.arange(12.0).reshape(3, 4)
        view = z.view(1, 3, 4)
        view[...] = z
        assert z.reshape(-1).tolist() == list(range(12))
        with pytest.raises(RuntimeError, match="refer to a single memory location"):
            z[:2] = z[1:]
