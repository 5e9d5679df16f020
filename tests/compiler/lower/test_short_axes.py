"""Short axes, of which each element is computed apart: the same values, in fewer kernels."""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg
from fusegrad.compiler.lower import pieces, pieces_of_parts, pieces_of_views
from fusegrad.compiler.lower.short_axes import with_short_axes_apart
from fusegrad.compiler.paths import path
from fusegrad.compiler.program import program
from fusegrad.compiler.transform import pieces_of_rows
from fusegrad.tracer.ir.graph import Graph, check


def lorenz(state: Any, dim: int = 0, steps: int = 6) -> Any:
    """Some steps of Euler's method for Lorenz's system, whose three numbers lie along `dim`."""
    for _ in range(steps):
        x, y, z = state.unbind(dim)
        slope = fg.stack([10.0 * (y - x), x * (28.0 - z) - y, x * y - 2.6 * z], dim)
        state = state + 0.01 * slope
    return state


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Graph, Graph]]:
    """What paths and programs were made of, before and after short axes were taken apart; each is checked."""
    found: list[tuple[Graph, Graph]] = []

    def taken_apart(graph: Graph, *arguments: Any, **options: Any) -> Graph:
        apart = with_short_axes_apart(graph, *arguments, **options)
        found.append((graph, check(apart)))
        return apart

    for module in (path, program):
        monkeypatch.setattr(module, "with_short_axes_apart", taken_apart)
    return found


def agree(function: Any, *arguments: fg.Tensor) -> Any:
    """The jitted function, after some calls with gradients that were eager's."""
    jitted = fg.jit(function)
    for _ in range(3):
        found = []
        for call in (function, jitted):
            leaves = [x.detach().clone().requires_grad_(x.is_floating_point()) for x in arguments]
            result = call(*leaves)
            (result * result).sum().backward()
            found.append([result.detach(), *(x.grad for x in leaves if x.grad is not None)])
        fg.testing.assert_close(found[1], found[0], rtol=1e-5, atol=1e-6)
    assert jitted.stats.compiled_calls == 2
    return jitted


def names(graph: Graph) -> list[str]:
    return [e.op.name for e in graph.equations]


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_steps_of_a_small_system_share_a_kernel(dim: int, graphs: list[tuple[Graph, Graph]]) -> None:
    shape = [50, 7]
    shape.insert(dim if dim >= 0 else 2, 3)
    jitted = agree(lambda s: lorenz(s, dim), fg.randn(*shape, dtype=fg.float64))
    assert (len(jitted.kernels().forward), len(jitted.kernels().backward)) == (1, 1)
    assert all("cat" not in names(after) for _, after in graphs)


def moved(x: Any, y: Any) -> Any:
    """Rows of a stack and a whole that something else reads."""
    for _ in range(4):
        s = fg.stack([x.sin(), y])
        t = s * 2.0 + s.mean()
        x, y = t[0], t[1] * 0.5
    return fg.stack([x, y])


def with_zeros(x: Any) -> Any:
    """What gradients of rows are: a row among zeros."""
    for _ in range(3):
        a = fg.zeros_like(x)
        a[1] = x[0] * 2
        x = fg.stack([a[0] + x[1], a[1]]) * 0.5
    return x


def beside_others(x: Any, w: Any) -> Any:
    """Operands that are no stacks: of all rows, of one for each, of one for all."""
    for _ in range(3):
        s = fg.stack([x[0] + 1, x[1] * x[0]])
        x = fg.where(s > 0.1, s * w, s + w[:, :1]) - w[0]
    return x


def parts_of_rows(x: Any) -> Any:
    for _ in range(3):
        s = fg.stack([x[0], x[1], x[0] + x[1]]) * 0.5
        x = fg.stack([s[0, 1:], s[2, :-1]]) + s[1, :1]
    return x


def in_both_directions(x: Any) -> Any:
    """Stacks along one dimension of stacks along another."""
    for _ in range(3):
        rows = fg.stack([x[0] * 0.5, x[1] + 0.1])
        columns = fg.stack([rows[:, 0], rows[:, 1]], 1)
        x = rows + columns.sin().sum(1, keepdim=True)
    return x


def in_other_dtypes(x: Any) -> Any:
    for _ in range(3):
        s = fg.stack([x[0] > x[1], x[0] < 0.5])
        x = fg.stack([x[1], x[0]]) * s.to(x.dtype) + 0.25
    return x


def in_complex_numbers(x: Any) -> Any:
    z = fg.complex(x, x)
    s = fg.stack([z[0], z[1]]) * 2
    return (s[0] * s[1]).real


PIECES = [
    moved,
    with_zeros,
    beside_others,
    parts_of_rows,
    in_both_directions,
    in_other_dtypes,
    in_complex_numbers,
]


@pytest.mark.parametrize("function", PIECES)
def test_values_and_gradients_are_eagers(function: Any, graphs: list[tuple[Graph, Graph]]) -> None:
    fg.manual_seed(0)
    x = fg.randn(2, 9)
    given = [x[0], x[1]] if function is moved else [x, fg.randn(2, 9)]
    agree(function, *given[: function.__code__.co_argcount])
    assert any(before is not after for before, after in graphs)


def never_looked_up(x: Any) -> Any:
    return (fg.stack([x[0], x[1]]) * 2).sum(1)


def in_many_rows(x: Any) -> Any:
    s = fg.stack([x[0] + n for n in range(pieces.MOST + 1)]) * 2
    return s[0] + s[1]


@pytest.mark.parametrize("function", [never_looked_up, in_many_rows])
def test_other_stacks_stay_as_they_are(function: Any, graphs: list[tuple[Graph, Graph]]) -> None:
    fg.manual_seed(0)
    jitted = fg.jit(function)
    x = fg.randn(2, 9)
    for _ in range(2):
        fg.testing.assert_close(jitted(x), function(x))
    assert graphs and all(before is after for before, after in graphs)


def turned(T: Any, q: Any, v: Any) -> Any:
    """Vectors turned by quaternions."""
    q = q / (q * q).sum(-1, keepdim=True).sqrt()
    t = 2 * T.linalg.cross(q[:, 1:], v)
    return v + q[:, :1] * t + T.linalg.cross(q[:, 1:], t)


def rotated(T: Any, q: Any, v: Any) -> Any:
    """The same by matrices, put together of nine numbers."""
    r, i, j, k = q.unbind(-1)
    s = 2 / (q * q).sum(-1)
    rows = [1 - s * (j * j + k * k), s * (i * j - k * r), s * (i * k + j * r)]
    rows += [s * (i * j + k * r), 1 - s * (i * i + k * k), s * (j * k - i * r)]
    rows += [s * (i * k - j * r), s * (j * k + i * r), 1 - s * (i * i + j * j)]
    return (T.stack(rows, -1).reshape(-1, 3, 3) @ v.unsqueeze(-1)).squeeze(-1)


def strained(T: Any, q: Any, v: Any) -> Any:
    """Products of 3 x 3 matrices, their traces and transposes."""
    f = T.eye(3, dtype=v.dtype) + v[:, :, None] * q[:, None, 1:]
    right = T.einsum("nki,nkj->nij", f, f)
    squared = right @ right - right.mT
    return squared.diagonal(dim1=1, dim2=2).sum(-1, keepdim=True) * right[:, 0] + squared[:, :, 1]


def edges(T: Any, q: Any, v: Any) -> Any:
    """Rolled and turned round, joined along other dimensions and softmaxed."""
    rolled = T.roll(q, 1, -1) - q.flip(-1)
    weights = T.softmax(rolled, -1)
    apart = T.cat([weights[:, 2:], weights[:, :1]], 1) * v
    return apart - T.roll(apart, (1, 2), (1, 1)).abs() * T.amax(v, 1, keepdim=True)


def written(T: Any, q: Any, v: Any) -> Any:
    """Written part by part."""
    out = T.zeros_like(v)
    out[:, 0] = q[:, 1] * v[:, 2]
    out[:, 1:] = q[:, ::2] - v[:, :1]
    out[:, 1] += v[:, 0]
    return out


PROGRAMS = [turned, rotated, strained, edges, written]


def of_coordinates(dtype: Any = fg.float64) -> list[Any]:
    fg.manual_seed(0)
    return [fg.randn(100, 4, dtype=dtype), fg.randn(100, 3, dtype=dtype)]


@pytest.mark.parametrize("program", PROGRAMS)
def test_coordinates_are_one_kernel(program: Any, graphs: list[tuple[Graph, Graph]]) -> None:
    """Forward and back, and one for both together."""
    q, v = of_coordinates()

    def loss(q: Any, v: Any) -> Any:
        out = program(fg, q, v)
        return (out * out * v).sum()

    jitted = agree(loss, q, v)
    assert (len(jitted.kernels().forward), len(jitted.kernels().backward)) == (1, 1)
    derived = fg.jit(fg.value_and_grad(loss, (0, 1)))
    for _ in range(3):
        derived(q, v)
    (kernel,) = derived.kernels().forward
    assert {a.value.shape for a in kernel.outputs} == {(), q.shape, v.shape}


def test_results_of_pieces_are_pieces() -> None:
    """What nobody in the program reads is apart, too: no loop of two runs within the one over rows."""
    turn = fg.tensor([[1.0, 0.1], [0.0, 1.0]], dtype=fg.float64)

    def loss(state: Any) -> Any:
        moved = state @ turn.T
        return (moved[:, 0] * fg.sin(moved[:, 1])).mean()

    derived, state = fg.jit(fg.value_and_grad(loss)), fg.randn(1000, 2, dtype=fg.float64)
    for _ in range(3):
        derived(state)
    (kernel,) = derived.kernels().forward
    assert [loop.kind for loop in kernel.kernel.loops()] == ["chunked"]


@pytest.mark.parametrize("dtype", [fg.float32, fg.float64])
@pytest.mark.parametrize("count", [1, 3, 8, 37])
def test_what_is_put_together_lies_in_its_place(count: int, dtype: Any) -> None:
    """Whole vectors of rows and the rest of one; rows that are read whole and in part."""
    fg.manual_seed(0)
    q, v = fg.randn(count, 4, dtype=dtype), fg.randn(count, 3, dtype=dtype)
    for of in PROGRAMS:
        jitted, wide = fg.jit(of), fg.randn(count, 5, dtype=dtype)
        for _ in range(2):
            fg.testing.assert_close(jitted(fg, q, v), of(fg, q, v), rtol=1e-4, atol=1e-5)
            part = wide[:, 1:4]  # which lies in longer rows
            fg.testing.assert_close(jitted(fg, q, part), of(fg, q, part), rtol=1e-4, atol=1e-5)


def test_rows_are_read_and_written_as_they_lie() -> None:
    q, v = of_coordinates()
    jitted = fg.jit(turned)
    for _ in range(3):
        jitted(fg, q, v)
    (kernel,) = jitted.kernels().forward
    buffers = (*kernel.kernel.inputs, *kernel.kernel.outputs)
    assert sorted(b.steps for b in buffers) == [(1, 3), (1, 3), (1, 4)]


def drawn_of_coordinates(seed: int) -> Any:
    """A function of vectors, quaternions and 3 x 3 matrices, put together at random; by T's names."""
    choose = random.Random(seed)
    places = [choose.randint(0, 3), choose.randrange(3), choose.randrange(3)]
    vectors: dict[str, Any] = {
        "cross": lambda T, a, b, m: T.linalg.cross(a, b),
        "rolled": lambda T, a, b, m: T.roll(a, places[2] or 2, -1) * b,
        "flipped": lambda T, a, b, m: a.flip(-1) - b,
        "joined": lambda T, a, b, m: T.cat([a[:, places[0] :], b[:, : places[0]]], 1),
        "stacked": lambda T, a, b, m: T.stack([a[:, 1], (b * m[:, 0]).sum(-1), b[:, 0] * a[:, 2]], -1),
        "unbound": lambda T, a, b, m: T.stack([x.tanh() for x in reversed(b.unbind(1))], 1),
        "by_matrix": lambda T, a, b, m: (m @ a[:, :, None])[:, :, 0],
        "by_rows": lambda T, a, b, m: T.einsum("nji,nj->ni", m, b),
        "of_norm": lambda T, a, b, m: a / (1 + (b * b).sum(-1, keepdim=True)).sqrt(),
        "largest": lambda T, a, b, m: a - b.amax(1, keepdim=True),
        "chosen": lambda T, a, b, m: T.where(a > places[1] - 1, a, m[:, :, 2]),
        "column": lambda T, a, b, m: m[:, :, places[1]] + a[:, places[1] : places[1] + 1],
        "diagonal": lambda T, a, b, m: m.diagonal(dim1=1, dim2=2) * b,
        "centred": lambda T, a, b, m: a - b.mean(0),
        "written": lambda T, a, b, m: _written(T, a, b, places[2]),
        "summed": lambda T, a, b, m: (a * b).sum(1, keepdim=True) + T.cumsum(b, 1),
    }
    matrices: dict[str, Any] = {
        "outer": lambda T, a, b, m: a[:, :, None] * b[:, None, :],
        "product": lambda T, a, b, m: m @ m.mT + T.eye(3, dtype=m.dtype),
        "rows": lambda T, a, b, m: T.stack([a, b, T.linalg.cross(a, b)], choose_dim),
        "turned": lambda T, a, b, m: m.transpose(1, 2).flip(1) - m,
        "nine": lambda T, a, b, m: T.cat([a, b, a * b], 1).reshape(-1, 3, 3),
        "rolled": lambda T, a, b, m: T.roll(m, (1, 2), (1, 2)) * m.sum((1, 2), keepdim=True),
        "skew": lambda T, a, b, m: m - m.permute(0, 2, 1) * a[:, :1, None],
        "softmax": lambda T, a, b, m: T.softmax(m, choose_dim),
    }
    choose_dim = choose.choice([1, 2])
    plan = [
        (choose.random() < 0.35, choose.choice(sorted(vectors)), choose.choice(sorted(matrices)),
         choose.randrange(4), choose.randrange(4), choose.randrange(3))
        for _ in range(choose.randint(3, 7))
    ]  # fmt: skip
    ends = choose.choice(["vector", "matrix", "sum"])

    def function(T: Any, q: Any, v: Any) -> Any:
        a = [v, q[:, 1:], q[:, :3] * 0.5, q[:, 1:] * q[:, :1]]
        m = [v[:, :, None] * q[:, None, :3] * 0.3]
        for of_matrices, one, other, i, j, k in plan:
            given = a[-1 - i % len(a)], a[-1 - j % len(a)], m[-1 - k % len(m)]
            if of_matrices:
                m.append(T.tanh(matrices[other](T, *given)))
            else:
                a.append(T.sin(vectors[one](T, *given)))
        if ends == "sum":
            return (a[-1] * m[-1][:, 1]).sum()
        return (a[-1], m[-1] * 1.0) if ends == "matrix" else (a[-1] * a[-2], m[-1].sum())

    return function


def _written(T: Any, a: Any, b: Any, number: int) -> Any:
    out = a * 1.0
    out[:, number] = b[:, 0] * 2
    return out


def check_of_coordinates(seed: int) -> None:
    """One drawn function, its values and gradients beside eager's and PyTorch's."""
    function = drawn_of_coordinates(seed)
    count = random.Random(seed).choice([1, 2, 5, 16, 33])
    random_numbers = np.random.default_rng(seed)
    numbers = [random_numbers.standard_normal((count, n)) for n in (4, 3)]

    def found(T: Any, call: Any) -> list[Any]:
        leaves = [T.tensor(x).requires_grad_() for x in numbers]
        result = call(T, *leaves)
        results = result if isinstance(result, tuple) else (result,)
        sum((r * r).sum() for r in results).backward()
        return [x.detach().numpy() for x in results] + [
            np.zeros(x.shape) if x.grad is None else x.grad.numpy() for x in leaves
        ]

    expected = found(torch, function)
    jitted = fg.jit(function)
    for call in (function, jitted, jitted, jitted):
        for ours, theirs in zip(found(fg, call), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("seed", range(36))
def test_drawn_programs_of_coordinates_agree(seed: int, graphs: list[tuple[Graph, Graph]]) -> None:
    check_of_coordinates(seed)


def drawn(seed: int) -> Any:
    """A function of a small system, put together at random."""
    choose = random.Random(seed)
    rows, dim, steps = choose.randint(2, 4), choose.choice([0, 1, -1]), choose.randint(2, 4)
    plan: list[Any] = []
    for _ in range(choose.randint(2, 5)):
        kind = choose.choice(["stack", "stack", "scale", "add", "whole", "where", "part"])
        plan.append((kind, [choose.randrange(rows) for _ in range(rows)], choose.random() + 0.25))

    def function(state: Any, other: Any) -> Any:
        for _ in range(steps):
            kept = state
            for kind, order, number in plan:
                at = [state.select(dim, i) for i in order]
                if kind == "stack":
                    state = fg.stack([(a * number).tanh() for a in at], dim)
                elif kind == "scale":
                    state = state * number - kept
                elif kind == "add":
                    state = state + other * number
                elif kind == "whole":
                    state = state * 0.5 + state.mean(dim, keepdim=True)
                elif kind == "where":
                    state = fg.where(state > at[0].mean(), state, kept * number)
                else:
                    state = fg.stack([a + at[0].flip(0) for a in at], dim)
        return state

    shape = [5, 3]
    shape.insert(dim if dim >= 0 else 2, rows)
    return function, shape


def check_drawn(seed: int) -> None:
    """One drawn function against eager."""
    fg.manual_seed(seed)
    function, shape = drawn(seed)
    agree(function, fg.randn(*shape, dtype=fg.float64), fg.randn(*shape, dtype=fg.float64))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(24))
def test_drawn_systems_agree(seed: int, graphs: list[tuple[Graph, Graph]]) -> None:
    check_drawn(seed)


def check_of_all_rules() -> None:
    """The programs above beside eager."""
    q, v = of_coordinates()
    for of in PROGRAMS:
        jitted = fg.jit(of)
        for _ in range(2):
            fg.testing.assert_close(jitted(fg, q, v), of(fg, q, v))


@pytest.mark.parametrize(
    ("room", "name"), [(pieces, "_where"), (pieces_of_views, "of_diagonal"), (pieces_of_parts, "_inside")]
)
def test_pieces_from_wrong_places_are_found(room: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = getattr(room, name)
    planted: Any = {
        "_where": lambda rank, dims, index: before(rank, dims, (*index[:-1], 0)),
        "of_diagonal": lambda number, offset: before(0, offset),
        "_inside": lambda index, shape, where: before(index, shape, tuple(at and 1 for at in where)),
    }
    monkeypatch.setattr(room, name, planted[name])
    with pytest.raises(AssertionError):
        check_of_all_rules()


def test_rows_that_lie_elsewhere_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns that are read as if they were others, in what reads rows as they lie."""
    row = pieces_of_rows._Rows._row

    def shifted(self: Any, *given: Any) -> Any:
        found = row(self, *given)
        return None if found is None else (found[0], (found[1] + 1) % found[0].length)

    monkeypatch.setattr(pieces_of_rows._Rows, "_row", shifted)
    with pytest.raises(AssertionError):
        check_of_coordinates(1)


if __name__ == "__main__":
    count, first = [int(text) for text in (*sys.argv[1:], "100", "1000")[:2]]
    for number in range(first, first + count):
        check_of_coordinates(number)
        check_drawn(number)
