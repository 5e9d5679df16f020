"""Complex numbers in kernels, as pairs: eager's values, also special ones, in few kernels."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler.lower import complex_pairs, complex_scalars
from fusegrad.compiler.lower.complex_scalars import ComplexBuilder, is_known
from fusegrad.compiler.program import program
from fusegrad.eager.core.families import Pointwise
from fusegrad.eager.core.op import REGISTRY, bind
from fusegrad.tracer.ir.graph import Graph, check

PARTS = [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, np.inf, -np.inf, np.nan, 1e-3, 88.5, -80.0]
# Of functions of complex128 alone: where a product overflows, NumPy rounds it together with a sum, or not.
WIDE = [710.0, 1e200, 1e-200, -3e-300]
PARAMS: dict[str, list[dict[str, Any]]] = {
    "pow_number": [{"exponent": e} for e in (2, 3, 4, 0.5, -0.5, -1, 5, -2)],
    "addcmul": [{"value": 0.3}],
    "addcdiv": [{"value": 0.3}],
    "nan_to_num": [{"nan": 0.5, "posinf": 3.0, "neginf": -3.0}],
}
# What NumPy still computes of complex numbers.
LEFT = set("pow lerp tan asin acos atan tanh asinh acosh atanh".split())
OPS = [
    name
    for name, op in REGISTRY.items()
    if isinstance(op, Pointwise) and "c" in op.kinds and name not in {"cast", "channels_last", *LEFT}
]


@pytest.fixture(autouse=True)
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[Graph]:
    """What programs were made of once complex numbers were apart; each is checked."""
    found: list[Graph] = []
    taken_apart = program.with_complex_as_pairs

    def checked(graph: Graph) -> Graph:
        found.append(check(taken_apart(graph)))
        return found[-1]

    monkeypatch.setattr(program, "with_complex_as_pairs", checked)
    return found


def numbers(dtype: Any, name: str) -> np.ndarray:
    is_wide = dtype == np.complex128 and len(REGISTRY[name].arguments) == 1
    parts = PARTS + (WIDE if is_wide and name not in ("pow_number", "square") else [])
    return np.array([complex(a, b) for a in parts for b in parts]).astype(dtype)


def is_same(one: np.ndarray, other: np.ndarray, tolerance: float) -> np.ndarray:
    """Equal with signs of zeros and infinities; else close beside the size of the number."""
    if one.dtype.kind not in "fc":
        return one == other
    size = np.where(np.isfinite(one), np.abs(one), 0)
    found = np.ones(one.shape, bool)
    nan = np.isnan(one)
    for a, b in ((one.real, other.real), (one.imag, other.imag)):
        equal = (a == b) & ((a != 0) | (np.signbit(a) == np.signbit(b)) | nan)  # C: 0 beside NaN is either
        with np.errstate(all="ignore"):
            close = (np.abs(a - b) <= tolerance * np.maximum(np.abs(a), size)) & ((a != 0) | (b != 0))
        found &= equal | close | (np.isnan(a) & np.isnan(b))
    return found


def operands(name: str, dtype: Any) -> list[np.ndarray]:
    op, one = REGISTRY[name], numbers(dtype, name)
    if len(op.arguments) == 1:
        return [one]
    if name == "where":
        return [one.real > 0, one, one[::-1].copy()]
    if len(op.arguments) == 3:
        return [one, one[::-1].copy(), np.roll(one, 7)]
    return [np.ascontiguousarray(a).ravel() for a in np.broadcast_arrays(one[:, None], one)]


def differing(name: str, dtype: Any, params: dict[str, Any]) -> list[Any]:
    """Where a compiled op gives other values than eager."""
    op = REGISTRY[name]
    given = [fg.tensor(a) for a in operands(name, dtype)]
    jitted = fg.jit(lambda *tensors: bind(op, tensors, params))
    with np.errstate(all="ignore"):
        expected = bind(op, tuple(given), params)
    for _ in range(2):
        found = jitted(*given)
    assert jitted.stats.compiled_calls == 1
    wrong = ~is_same(expected.numpy(), found.numpy(), 4e-15 if dtype == np.complex128 else 2e-6)
    where = np.flatnonzero(wrong)
    return [([a.numpy()[i] for a in given], expected.numpy()[i], found.numpy()[i]) for i in where[:5]]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
@pytest.mark.parametrize("name", OPS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_special_values_are_those_of_eager(name: str, dtype: Any, graphs: list[Graph]) -> None:
    for params in PARAMS.get(name, [{}]):
        assert differing(name, dtype, params) == []
    assert all(e.op.name != name or not _is_complex(e) for graph in graphs for e in graph.equations)


def _is_complex(equation: Any) -> bool:
    return any(v.dtype.kind == "c" for v in (*equation.values(), *equation.outputs))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_table_finds_a_naive_quotient(monkeypatch: pytest.MonkeyPatch) -> None:
    def naive(self: ComplexBuilder, x: Any, y: Any) -> Any:
        re, im = self.pair(y)
        size = self.b.add(self.b.mul(re, re), self.b.mul(im, im))
        return tuple(self.b.div(part, size) for part in self.mul(x, self.conj(y)))

    monkeypatch.setattr(ComplexBuilder, "div", naive)
    assert differing("div", np.complex128, {})


def test_what_is_left_to_numpy_is_known_not_to_be_known() -> None:
    for name in LEFT:
        kinds = "c" * len(REGISTRY[name].arguments)
        assert not is_known(REGISTRY[name], kinds, False, {}), f"{name} can go to the table"


# Programs.


def drawn(*shape: int, dtype: Any = fg.complex128) -> fg.Tensor:
    return fg.randn(*shape, dtype=dtype)


def agree(function: Callable[..., Any], *given: fg.Tensor, kernels: int | None = None, numpy: int = 0) -> Any:
    """The jitted function with gradients, which are eager's; `numpy` steps of it are left to NumPy."""

    def whole(*leaves: fg.Tensor) -> Any:
        leaves = tuple(x.detach().requires_grad_(x.is_floating_point() or x.is_complex()) for x in leaves)
        result = function(*leaves)
        results = result if isinstance(result, tuple) else (result,)
        loss = sum(((r * r.conj()).real if r.is_complex() else r * r).sum() for r in results)
        wanted = [x for x in leaves if x.requires_grad]
        return *(r.detach().clone() for r in results), *fg.autograd.grad(loss, wanted)

    jitted, expected = fg.jit(whole), whole(*given)
    for _ in range(3):
        for one, other in zip(jitted(*given), expected, strict=True):
            assert one.dtype == other.dtype and one.shape == other.shape
            fg.testing.assert_close(one, other, rtol=1e-5 if one.dtype in SINGLE else 1e-10, atol=1e-5)
    assert jitted.stats.compiled_calls == 2
    lines = str(jitted.explain()).splitlines()
    assert sum("NumPy:" in line for line in lines) == numpy, "\n".join(lines)
    if kernels is not None:
        assert len(jitted.kernels().forward) == kernels, "\n".join(lines)
    return jitted


SINGLE = (fg.float32, fg.complex64)


def impedance(x: fg.Tensor, y: fg.Tensor) -> fg.Tensor:
    z = fg.complex(x, y)
    z = z * (z + 2) / (z - 3j) + fg.exp(z * 0.1j) - z**3 / (1 + z.conj())
    return fg.abs(z) + 0.1 * fg.angle(z + 9)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...], str, int | None]] = {
    "parts": (impedance, ((30,), (30,)), "rr", 1),
    "polar": (lambda r, t: fg.polar(r, t) * fg.polar(t, r), ((9,), (9,)), "rr", 1),
    "arithmetic": (lambda z, w: (z * w + z / w - 2j * z) ** 2, ((5, 4), (4,)), "cc", None),
    "mixed": (lambda z, x: z * x + x - z, ((5, 4), (4,)), "cr", None),
    "views": (lambda z: z.T[1:, ::2] * z.reshape(4, 5)[:3, :3] + z[None, 0, :3], ((5, 4),), "c", None),
    "pairs": (lambda x: fg.view_as_real(fg.view_as_complex(x) ** 2) + x, ((6, 2),), "r", None),
    "joined": (lambda z, w: fg.cat([z * w, w, fg.stack([z[0], w[1]])]), ((3, 4), (3, 4)), "cc", None),
    "written": (lambda z, w: fg.where(z.real > 0, z, w).flip(0).roll(1, 0), ((6,), (6,)), "cc", None),
    "indexed": (lambda z: z[[0, 2, 2]] * z.index_select(0, fg.tensor([1, 1, 0])), ((3, 4),), "c", None),
    "summed": (lambda z, w: ((z * w).sum(0), (z + w).mean(1, keepdim=True)), ((5, 7), (5, 7)), "cc", None),
    "running": (lambda z: (z * 2).cumsum(0) * z, ((9,),), "c", None),
    "product": (lambda z, w: z @ w.T + z.mT.conj().mT @ w.mH, ((6, 5), (7, 5)), "cc", None),
    "batched": (lambda z, w: z @ w, ((3, 6, 5), (5, 4)), "cc", None),
    "einsum": (lambda z, w: fg.einsum("bim,iom->bom", z, w), ((3, 4, 5), (4, 6, 5)), "cc", None),
    "vectors": (lambda z, w: (z @ w, fg.dot(w, w), fg.vdot(w, z[0])), ((6, 5), (5,)), "cc", None),
    "directions": (lambda z: z.sgn() + z.abs() * z.log().exp() + z.sqrt(), ((12,),), "c", None),
    "cast": (lambda z, x: z.to(fg.complex64) + x.to(fg.complex64), ((4,), (4,)), "cr", None),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    function, shapes, kinds, kernels = PROGRAMS[name]
    dtypes = [fg.complex128 if kind == "c" else fg.float64 for kind in kinds]
    agree(function, *(drawn(*s, dtype=d) for s, d in zip(shapes, dtypes, strict=True)), kernels=kernels)


@pytest.mark.parametrize("name", ["arithmetic", "views", "joined", "product", "batched", "directions"])
def test_calls_that_are_derived_later(name: str) -> None:
    function, shapes, *_ = PROGRAMS[name]
    jitted, given = fg.jit(function), [drawn(*s) for s in shapes]
    for _ in range(3):
        found = []
        for call in (function, jitted):
            leaves = [x.clone().requires_grad_() for x in given]
            result = call(*leaves)
            (result * result.conj()).real.sum().backward()
            found.append([result, *(x.grad for x in leaves)])
        for one, other in zip(*found, strict=True):
            fg.testing.assert_close(one, other)
    assert jitted.stats.compiled_calls == 2


def test_results_lie_as_those_of_eager() -> None:
    jitted = fg.jit(
        lambda z, w: (z.mT * w.mT, z.mT.conj(), (z * w).mT, z.permute(2, 0, 1) + 1, (z + w)[1:, :, 1])
    )
    z, w = drawn(4, 3, 5), drawn(4, 3, 5)
    expected = jitted(z, w)
    for _ in range(2):
        for one, other in zip(jitted(z, w), expected, strict=True):
            fg.testing.assert_close(one, other)
            assert one.stride() == other.stride()
    assert jitted.stats.compiled_calls == 2


def test_parts_of_one_number_are_results_in_its_memory() -> None:
    jitted = fg.jit(lambda z, w: ((z * w).real, (z / w), (z + w).imag, *parts(z - w)))

    def parts(z: fg.Tensor) -> tuple[fg.Tensor, fg.Tensor]:
        return z.real, z.imag

    z, w = drawn(5), drawn(5)
    expected = jitted(z, w)
    for _ in range(2):
        found = jitted(z, w)
        for one, other in zip(found, expected, strict=True):
            fg.testing.assert_close(one, other)
            assert one.stride() == other.stride()
        found[3].zero_()
        fg.testing.assert_close(found[4], expected[4])
    assert jitted.stats.compiled_calls == 2


def test_inputs_are_read_as_they_lie() -> None:
    jitted = fg.jit(lambda z, w: (z[:, 1::3] * w.T + z[:, :3].conj()).abs())
    for z, w in ((drawn(4, 9), drawn(3, 4)), (drawn(9, 4).T, drawn(4, 3).T)):
        expected = jitted(z, w)
        fg.testing.assert_close(jitted(z, w), expected)
    assert jitted.stats.compiled_calls == 2 and len(jitted.kernels().forward) == 2, "one for each call"


def fourier(x: fg.Tensor, real: fg.Tensor, imag: fg.Tensor, mixing: fg.Tensor) -> fg.Tensor:
    """A layer of a Fourier neural operator."""
    modes = x.shape[-1] // 4
    mixed = fg.einsum("bim,iom->bom", fg.fft.rfft(x)[..., :modes], fg.complex(real, imag))
    rest = fg.zeros((*x.shape[:2], x.shape[-1] // 2 + 1 - modes), dtype=mixed.dtype)
    back = fg.fft.irfft(fg.cat([mixed, rest], -1))
    return (fg.nn.functional.gelu(back + fg.einsum("bil,io->bol", x, mixing)) ** 2).mean()


def matched(signals: fg.Tensor, template: fg.Tensor, noise: fg.Tensor) -> fg.Tensor:
    spectrum = fg.fft.rfft(signals) * fg.conj(fg.fft.rfft(template)) / (noise * noise + 1)
    return (fg.fft.irfft(spectrum) ** 2).mean() + 0.01 * (fg.abs(spectrum) ** 2).mean()


def test_a_fourier_layer() -> None:
    """NumPy's part are the four transforms alone."""
    given = [(8, 16, 64), (16, 16, 16), (16, 16, 16), (16, 16)]
    jitted = agree(fourier, *(0.3 * drawn(*s, dtype=fg.float32) for s in given), numpy=4)
    assert len(jitted.kernels().forward) <= 11


def test_spectra() -> None:
    agree(matched, *(drawn(*s, dtype=fg.float64) for s in ((4, 64), (64,), (33,))), numpy=6)


@pytest.mark.parametrize("shape", [(6, 8), (6, 7), (1, 1), (5, 2)])
@pytest.mark.parametrize("norm", ["backward", "forward", "ortho"])
def test_gradients_of_transforms_of_real_numbers(shape: tuple[int, ...], norm: str) -> None:
    def numeric(x: fg.Tensor) -> fg.Tensor:
        return fg.view_as_real(fg.fft.rfftn(x, dim=(0, 1), norm=norm))

    assert fg.autograd.gradcheck(numeric, (drawn(*shape, dtype=fg.float64).requires_grad_(),))
    assert fg.autograd.gradgradcheck(numeric, (drawn(*shape, dtype=fg.float64).requires_grad_(),))


# Drawn.


STEPS: list[Callable[..., Any]] = [
    lambda a, b, x: a * b * 0.5,
    lambda a, b, x: a + b * 0.3j,
    lambda a, b, x: a / (b * b.conj() + 1.5),
    lambda a, b, x: fg.where(a.real > b.imag, a, b),
    lambda a, b, x: fg.exp(a / (1 + a.abs())) - x,
    lambda a, b, x: (a @ b.mH) @ b / 9,
    lambda a, b, x: fg.cat([a[1:], b[:1]]),
    lambda a, b, x: fg.complex(a.imag, b.real),
    lambda a, b, x: a - b.mean(0) + a.abs().sum(1, keepdim=True) / 9,
    lambda a, b, x: fg.fft.fft(a, dim=1, norm="ortho") + b,
    lambda a, b, x: fg.view_as_complex(fg.view_as_real(a) * 0.7) * b.sgn(),
    lambda a, b, x: a.mT.reshape(a.shape) - b.flip(1).clone(),
]


def random_program(seed: int) -> Callable[..., Any]:
    """A program of ten ops of two complex tensors of one shape and a real one."""
    draw = random.Random(seed)
    steps = [(draw.choice(STEPS), draw.randrange(n), draw.randrange(n)) for n in range(3, 13)]

    def of(z: fg.Tensor, w: fg.Tensor, x: fg.Tensor) -> Any:
        known = [z, w, fg.complex(x, -x)]
        for step, one, other in steps:
            known.append(step(known[one], known[other], x))
        return known[-1], known[-2].real + 0, known[-3] * 1

    return of


@pytest.mark.parametrize("seed", [pytest.param(s, marks=pytest.mark.one_in(4)) for s in range(40)])
def test_random_programs(seed: int) -> None:
    function = random_program(seed)
    given = drawn(4, 5), drawn(4, 5), drawn(4, 5, dtype=fg.float64)
    jitted, expected = fg.jit(function), function(*given)
    for _ in range(3):
        for one, other in zip(jitted(*given), expected, strict=True):
            fg.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
    assert jitted.stats.compiled_calls == 2


def test_random_programs_find_a_part_that_is_swapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        complex_scalars.ComplexBuilder, "conj", lambda self, x: (self.b.neg(self.pair(x)[0]), self.pair(x)[1])
    )
    assert complex_pairs.is_known is is_known
    with pytest.raises(AssertionError):
        for seed in range(12):
            test_random_programs(seed)
