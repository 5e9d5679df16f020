"""Long bodies, divided into parts that go over tiles, compute what they compute as they stand, bit by bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler.codegen import tiles, vector_loops
from fusegrad.compiler.codegen.kernel_cache import cold
from fusegrad.compiler.kernel.ir import Buffer, Compute, Load, Store


def conditions(x: fg.Tensor) -> Any:
    """Booleans, whole numbers and casts are handed on, too."""
    above, steps = x > 0.1, (x * 3).floor().to(fg.int64)
    odd = steps % 2 == 1
    y = fg.where(above & ~odd, x * x, x - 1)
    z = fg.where(odd, y.exp(), steps.to(x.dtype) * y)
    return fg.where(above, z, y) + x, steps + odd, above | odd


def slices(x: fg.Tensor) -> Any:
    """Conditions on where an index stands, which hold in the interior."""
    left, right = fg.roll(x, 1, 0), fg.roll(x, -1, 0)
    bent = left - 2 * x + right
    joined = fg.cat([x[2:], bent[:2] * 3]) + bent
    return joined * x, fg.nn.functional.pad(x, (1, 2))[1:-2] * joined + left


def sums(x: fg.Tensor) -> Any:
    """Sums, extremes and rows of several passes."""
    rows = x[: len(x) // 4 * 4].reshape(4, -1)
    soft = fg.softmax(rows * 2 + 1, 1)
    scaled = (rows - rows.mean(1, keepdim=True)) * soft / (1 + rows * rows)
    return scaled.sum(), scaled.sum(0), scaled.amax(1) if len(x) > 3 else soft, (x * x + 1).prod()


def ranges(x: fg.Tensor) -> Any:
    """What is made of indices, and scalars that do not vary along the axis."""
    places = fg.arange(len(x), dtype=x.dtype)
    first = x[0] * 2 + 1
    y = places * first + x
    return y / (1 + places), y.sin() * first - places, (places < 3) & (y > 0)


CASES: list[Callable[[fg.Tensor], Any]] = [conditions, slices, sums, ranges]


def results(function: Callable[..., Any], x: fg.Tensor) -> list[bytes]:
    """The bits of what a jitted function gives, whose kernels are compiled anew."""
    with cold():
        jitted = fg.jit(function)
        for _ in range(2):
            found = jitted(x)
        assert jitted.stats.compiled_calls == 1
        return [r.numpy().tobytes() for r in found]


def in_short_parts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tiles, "UNDIVIDED", 4)
    patch.setattr(tiles, "SHORTEST", 2)
    patch.setattr(tiles, "LONGEST", 5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("function", CASES)
def test_parts_have_the_same_bits(function: Any, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    given = [fg.tensor(draw.normal(size=n).astype(dtype)) for n in (5, 1003)]
    given[1][7] = float("nan")
    whole = [results(function, x) for x in given]
    in_short_parts(monkeypatch)
    seen: list[Any] = []
    divided = tiles.divided

    def noting(axis: str, body: Sequence[Any]) -> Any:
        seen.append(divided(axis, body))
        return seen[-1]

    monkeypatch.setattr(vector_loops, "divided", noting)
    assert [results(function, x) for x in given] == whole
    assert any(division and len(division.parts) > 2 for division in seen)


def in_place(x: fg.Tensor) -> Any:
    """`y` is written where `v` was, which is needed once more behind that."""
    v = x.cumsum(0)
    y = (v * 2 + 1) / (v * v + 3) + v * 0.1
    z = ((y * 3 - 1) / (y * y + 2) + y * 0.5) * v
    return y.cumsum(0), z


def test_what_is_written_over_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    x = fg.tensor(np.random.default_rng(1).normal(size=2000))
    whole = results(in_place, x)
    in_short_parts(monkeypatch)
    assert results(in_place, x) == whole
    had_again = tiles._had_again

    def planted(*given: Any, rereads: bool) -> Any:
        return had_again(*given, rereads=True)

    monkeypatch.setattr(tiles, "_had_again", planted)
    assert results(in_place, x) != whole, "the fault is not seen"


def test_little_is_handed_on() -> None:
    """Reads and what is cheap are had again; where to divide is where few are alive."""
    x = Buffer("x0", "f64", ("i0",), (1,))
    body: list[Any] = [Load("t0", x), Compute("t1", "mul", ("t0", "k0"), "f64")]
    body += [Compute(f"t{n}", "div", (f"t{n - 1}", "t0" if n % 2 else "t1"), "f64") for n in range(2, 200)]
    division = tiles.divided("i0", [*body, Store(Buffer("y0", "f64", ("i0",), (1,)), "t199")])
    assert division is not None and division.most == 1
    assert all(len(part.takes) <= 1 for part in division.parts)
    assert sum(len(part.body) for part in division.parts) <= len(body) + 1 + 2 * len(division.parts)
    assert tiles.divided("i0", body[:20]) is None
