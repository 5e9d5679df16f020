"""Programs put together at random: compiled, derived, and compared with eager.

A program is a list of choices; each adds a value made from earlier ones. What the generator
finds becomes a small test of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

import fusegrad as fg

ROWS, COLUMNS = 5, 4
Values = list[fg.Tensor]


def matrix(x: fg.Tensor) -> fg.Tensor:
    """Any value as a matrix of the usual size."""
    return x + fg.zeros(ROWS, COLUMNS)


# Places in a row, one or several; rows, some more than once; one place a row.
PLACES = fg.tensor([[0, 2, 2], [3, 1, 0], [1, 1, 1], [2, 3, 0], [0, 0, 3]])
PICKED = fg.tensor([0, -3, 4, 4, 1])
LABELS = fg.tensor([1, 0, 3, 3, 2])


def with_slice(x: fg.Tensor, y: fg.Tensor) -> fg.Tensor:
    """`x` with a part of it written from a part of `y`."""
    written = matrix(x).clone()
    written[1:4, 1:] = matrix(y)[:3, :3] * 0.5
    return written


def difference(x: fg.Tensor) -> fg.Tensor:
    """Neighbours subtracted, the edge kept at 0."""
    return fg.nn.functional.pad(x[1:] - x[:-1], (0, 0, 1, 0))


OPERATIONS: list[Callable[[fg.Tensor, fg.Tensor], fg.Tensor]] = [
    lambda x, y: x + y,
    lambda x, y: x * y,
    lambda x, y: x - y * 0.5,
    lambda x, y: x / (y.abs() + 1),
    lambda x, y: x.tanh(),
    lambda x, y: (x * 0.3).exp(),
    lambda x, y: x.sigmoid() + 1,
    lambda x, y: x.relu(),
    lambda x, y: fg.maximum(x, y),
    lambda x, y: fg.where(x > y, x, y * 2),
    lambda x, y: matrix(x).sum(0),
    lambda x, y: matrix(x).mean(1, keepdim=True),
    lambda x, y: matrix(x).sum(),
    lambda x, y: matrix(x).amax(1, keepdim=True),
    lambda x, y: matrix(x).softmax(1),
    lambda x, y: matrix(x).log_softmax(0),
    lambda x, y: matrix(x).var(0),
    lambda x, y: (matrix(x) @ matrix(y).T * 0.2) @ matrix(y),
    lambda x, y: matrix(x).T.reshape(ROWS, COLUMNS),
    lambda x, y: matrix(x)[1:4].sum(0),
    lambda x, y: matrix(x).T.contiguous().T,
    lambda x, y: fg.cat([matrix(x)[:2], matrix(y)[2:]]),
    lambda x, y: fg.nn.functional.layer_norm(matrix(x), (COLUMNS,)),
    lambda x, y: matrix(x)[:, :1] + matrix(y)[:1],
    lambda x, y: x.detach() * y,
    lambda x, y: matrix(x).gather(1, PLACES).sum(1, keepdim=True),
    lambda x, y: matrix(x).gather(1, LABELS.unsqueeze(1)) * y,
    lambda x, y: matrix(x)[PICKED] + y,
    lambda x, y: matrix(x)[fg.arange(ROWS), LABELS].unsqueeze(1),
    lambda x, y: matrix(x)[:, fg.tensor([3, 0, 0, 1])] * 0.5,
    lambda x, y: matrix(x).index_add(0, PICKED % ROWS, matrix(y) * 0.3),
    lambda x, y: matrix(x).scatter(1, PLACES, matrix(y)[:, :3]),
    lambda x, y: fg.nn.functional.cross_entropy(matrix(x), LABELS),
    lambda x, y: with_slice(x, y),
    lambda x, y: difference(matrix(x)) * 0.5 + matrix(y)[:, 1:2],
    lambda x, y: fg.roll(matrix(x), (1, -1), (0, 1)) - matrix(y),
    lambda x, y: matrix(x)[1:4:2].mean(0) + matrix(x).flip(1),
    lambda x, y: fg.stack([matrix(x)[i] * (i + 1) for i in range(ROWS)]) * 0.3,
    lambda x, y: fg.cat([matrix(x)[:, :1].tanh(), matrix(y)[:, 1:3], matrix(x)[:, :1]], 1),
    lambda x, y: matrix(x).cumsum(0) * 0.3,
    lambda x, y: (matrix(x) * 0.2 + 1).cumprod(1),
    lambda x, y: matrix(x).logcumsumexp(1),
    lambda x, y: matrix(x).max(1, keepdim=True)[0] - matrix(y).min(0)[0],
    lambda x, y: matrix(x).cummax(1)[0],
    # Sums that ought to be equal differ by rounding, and not in both alike: they are not compared.
    lambda x, y: x if matrix(x).sum() > matrix(y).sum() + 0.0137 else y * 0.7,
]

choice = st.tuples(st.integers(0, len(OPERATIONS) - 1), st.integers(0, 9), st.integers(0, 9))
programs = st.lists(choice, min_size=1, max_size=14)


def function_of(program: list[tuple[int, int, int]], results: list[int]) -> Callable[..., Any]:
    """The program as a function of three tensors: a scalar loss and some of its values."""

    def function(x: fg.Tensor, y: fg.Tensor, z: fg.Tensor) -> Any:
        values = [x, y, z]
        for operation, first, second in program:
            a, b = values[-1 - first % len(values)], values[-1 - second % len(values)]
            values.append(OPERATIONS[operation](a, b))
        loss = (matrix(values[-1]) * 0.1).sum() + (matrix(values[len(values) // 2]) * 0.01).mean()
        return loss, [values[3 + r % len(program)] + 0 for r in results]

    return function


def inputs(seed: int, dtype: str = "f4") -> Values:
    """A matrix, a row and a column."""
    generator = np.random.default_rng(seed)
    shapes = ((ROWS, COLUMNS), (COLUMNS,), (ROWS, 1))
    arrays = [generator.normal(size=s).astype("f4") for s in shapes]
    return [fg.tensor(a.astype(dtype), requires_grad=True) for a in arrays]


def outcome(function: Callable[..., Any], given: Values) -> list[Any]:
    """The loss, the values and the gradients of a call."""
    loss, values = function(*given)
    if loss.requires_grad:
        loss.backward()
    return [loss, *values, *(x.grad for x in given)]


def compare(ours: list[Any], theirs: list[Any], exact: list[Any] | None = None) -> None:
    """exact: in double precision. A gradient that is zero but for rounding is compared by how far eager's is
    off.
    """
    for a, b, c in zip(ours, theirs, exact or theirs, strict=True):
        if b is None:
            assert a is None
            continue
        assert a.shape == b.shape and a.dtype == b.dtype
        assert a.requires_grad == b.requires_grad
        x, y, z = (t.detach().numpy() for t in (a, b, c))
        rounding = np.abs(y - z).max(initial=0)
        assert rounding < 1e-3
        np.testing.assert_allclose(x, y, rtol=2e-4, atol=2e-5 + 4 * rounding)


# A failing program compiles anew at every step of shrinking, so it is printed as it was found.
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(program=programs, results=st.lists(st.integers(0, 9), max_size=2), seed=st.integers(0, 3))
def test_a_random_program_gives_eagers_values_and_gradients(
    program: list[tuple[int, int, int]], results: list[int], seed: int
):
    function = function_of(program, results)
    compiled = fg.jit(function)
    for call in range(7):
        # The seeds come again, so that both sides of a branch are met compiled as well.
        ours, theirs = (outcome(f, inputs(seed + call % 2)) for f in (compiled, function))
        try:
            compare(ours, theirs)
        except AssertionError:
            compare(ours, theirs, outcome(function, inputs(seed + call % 2, "f8")))
    assert not any("compiler failed" in e.given_up for e in compiled.entries.values())
    assert compiled.stats.compiled_calls >= 4, str(compiled.explain())
