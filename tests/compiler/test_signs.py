"""NaN, infinities and the signs of zeros in results and gradients: eager, compiled and PyTorch.

What an op makes of a special value must not depend on where in an array of which length it stands. Where
PyTorch's own answer does, ours is that for a number alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg
from fusegrad.compiler.codegen import primitives
from fusegrad.compiler.llvm.ir_writer import Val, Writer

Function = Callable[..., Any]
SPECIAL = [
    *(np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40, 1e30, -1e30, 1.0, -1.0, 0.5, -0.5, 3.0, -3.0),
    *(-7.0, 120.0, -120.0, 6.0),
]
EVERY_LENGTH = [(), *((n,) for n in range(1, 66))]
SOME_LENGTHS = [(), (1,), (7,), (17,), (33,), (65,)]


def named(names: str) -> dict[str, Function]:
    def function(name: str) -> Function:
        def call(library: Any, *operands: Any) -> Any:
            for part in name.split("."):
                library = getattr(library, part)
            return library(*operands)

        return call

    return {name: function(name) for name in names.split()}


# What chooses between values: here zeros of both signs are equal, and one of them stays.
CHOOSING: dict[str, Function] = {
    **named("relu nn.functional.relu6 nn.functional.hardtanh nn.functional.leaky_relu"),
    **named("nn.functional.hardsigmoid nn.functional.hardswish nn.functional.hardshrink"),
    **named("nn.functional.softshrink nn.functional.logsigmoid"),
    "at least 0": lambda library, x: x.clamp(min=0),
    "at least -0": lambda library, x: x.clamp(min=-0.0),
    "at most 0": lambda library, x: x.clamp(max=0.0),
    "at most -0": lambda library, x: x.clamp(max=-0.0),
    "between zeros": lambda library, x: x.clamp(0, 0),
    "at least zeros": lambda library, x: x.clamp(min=library.zeros_like(x)),
    "at most zeros": lambda library, x: x.clamp(max=-library.zeros_like(x)),
    "threshold": lambda library, x: library.nn.functional.threshold(x, 0.0, 0.0),
    "where": lambda library, x: library.where(x > 0, x, 0.0),
    "over relu": lambda library, x: 1 / library.relu(x),
    "over clamp": lambda library, x: 1 / x.clamp(min=0),
}
# Losses, element by element, with their targets.
LOSSES: dict[str, Function] = {
    f"{name} to {target}": lambda library, x, name=name, target=target: getattr(library.nn.functional, name)(
        x, library.full_like(x, target), reduction="none"
    )
    for name, targets in {
        "mse_loss": (0.5,),
        "l1_loss": (0.5,),
        "smooth_l1_loss": (0.5,),
        "huber_loss": (0.5,),
        "binary_cross_entropy_with_logits": (0.0, 0.5, 1.0),
        "soft_margin_loss": (1.0, -1.0),
        "hinge_embedding_loss": (1.0, -1.0),
        "poisson_nll_loss": (0.5,),
        "kl_div": (0.0, 0.5),
    }.items()
    for target in targets
}
# One operand, or one and a number.
SINGLE: dict[str, Function] = {
    **named("neg abs sign reciprocal square sqrt floor ceil trunc round frac positive nan_to_num deg2rad"),
    **named("exp exp2 expm1 log log2 log10 log1p rsqrt sin cos tan asin acos atan sinh cosh tanh asinh"),
    **named("acosh atanh sigmoid sinc logit rad2deg angle erf erfc erfinv lgamma i0 selu celu"),
    **named("special.ndtri special.entr nn.functional.silu nn.functional.mish nn.functional.elu"),
    **named("nn.functional.celu nn.functional.selu special.expit"),
    **named("nn.functional.softplus nn.functional.softsign nn.functional.tanhshrink"),
    "logit with a bound": lambda library, x: library.logit(x, 0.1),
    "hardtanh": lambda library, x: library.nn.functional.hardtanh(x, -0.5, 3.0),
    "elu": lambda library, x: library.nn.functional.elu(x, 0.5),
    "x - x": lambda library, x: x - x,
    "x * 0": lambda library, x: x * 0,
    "x * -1": lambda library, x: x * -1,
    "x + 0": lambda library, x: x + 0,
    "x - 0": lambda library, x: x - 0,
    "0 - x": lambda library, x: 0 - x,
    "1 / -x": lambda library, x: 1 / -x,
    "-(x + x)": lambda library, x: -(x + x),
    **{f"x ** {p}": lambda library, x, p=p: x**p for p in (0, 1, 3, -1, 0.5, -0.5, 2.5)},
    "2 ** x": lambda library, x: 2**x,
    "0 ** x": lambda library, x: 0.0**x,
    "x % 2": lambda library, x: x % 2,
    "fmod": lambda library, x: library.fmod(x, 2),
    "lerp": lambda library, x: library.lerp(x, x * 2, 0.5),
    "addcmul": lambda library, x: library.addcmul(x, x, x, value=-1),
    "addcdiv": lambda library, x: library.addcdiv(x, x, x, value=-1),
}
PAIRS = {
    **named("add sub mul div maximum minimum fmax fmin copysign nextafter pow atan2 hypot"),
    **named("logaddexp xlogy special.xlog1py"),
}


def kinds(array: np.ndarray) -> list[str]:
    """NaN, or sign and kind of each number."""
    sign = np.where(np.signbit(array), "-", "+")
    kind = np.where(np.isinf(array), "inf", np.where(array == 0, "0", "number"))
    return np.where(np.isnan(array), "nan", np.strings.add(sign, kind)).ravel().tolist()


def derived(library: Any, function: Function, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The result, and the gradient of each operand."""
    inputs = [library.tensor(x).requires_grad_() for x in operands]
    result = function(*inputs)
    result.sum().backward()
    return [result.detach().numpy(), *(x.grad.numpy(force=True) for x in inputs)]


Answers = dict[tuple[str, str], set[str]]


def answers(library: Any, function: Function, data: Sequence[Sequence[np.ndarray]]) -> Answers:
    """For result and gradients, by the operands' values, all kinds of numbers that came out."""
    found: Answers = defaultdict(set)
    for operands in data:
        given = list(zip(*(x.ravel().tolist() for x in operands), strict=True))
        for place, array in enumerate(derived(library, function, operands)):
            which = f"gradient {place}" if place else "result"
            for values, kind in zip(given, kinds(array), strict=True):
                found[which, str(values)].add(kind)
    return found


def numbers_of(data: Sequence[Sequence[np.ndarray]]) -> list[list[np.ndarray]]:
    """The operands of `data`, number by number, each once."""
    rows = (row for operands in data for row in zip(*(x.ravel() for x in operands), strict=True))
    return list({str([v.item() for v in row]): [np.array([v]) for v in row] for row in rows}.values())


def check(function: Function, data: Sequence[Sequence[np.ndarray]], alone: bool = True) -> None:
    """Eager and compiled give the same whatever the length, and what PyTorch gives for a number.

    alone: for a number alone; otherwise for one somewhere in arrays of these lengths.
    """
    theirs = answers(torch, lambda *x: function(torch, *x), numbers_of(data) if alone else data)
    eager = answers(fg, lambda *x: function(fg, *x), data)
    compiled = answers(fg, fg.jit(lambda *x: function(fg, *x)), data)
    assert eager == compiled
    for which, found in eager.items():
        assert len(found) == 1 and found <= theirs[which], (which, found, theirs[which])


def specials(shapes: Sequence[tuple[int, ...]], dtype: str) -> list[list[np.ndarray]]:
    """For each shape and start, the special values one after the other."""
    with np.errstate(over="ignore"):
        values = np.array(SPECIAL, dtype)
    turns = [(n, shape, turn) for n, shape in enumerate(shapes) for turn in range(0, len(SPECIAL), 7)]
    return [[np.resize(np.roll(values, -turn - n), shape)] for n, shape, turn in turns]


def special_pairs(shapes: Sequence[tuple[int, ...]], dtype: str) -> list[list[np.ndarray]]:
    with np.errstate(over="ignore"):
        values = np.array(SPECIAL, dtype)
    columns = [c.ravel() for c in np.meshgrid(values, values)]
    size = columns[0].size
    return [
        [np.resize(np.roll(c, -turn), shape) for c in columns]
        for n, shape in enumerate(shapes)
        for turn in range(0, size, 19 if len(shape) and shape[0] > 30 else 97)
    ]


@pytest.mark.one_in(8)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CHOOSING)
def test_what_chooses_at_every_length(name: str, dtype: str):
    check(CHOOSING[name], specials(EVERY_LENGTH, dtype))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_of_one(dtype: str):
    for name, function in (SINGLE | LOSSES).items():
        try:
            check(function, specials(SOME_LENGTHS, dtype))
        except AssertionError as error:
            raise AssertionError(name) from error


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", PAIRS)
def test_functions_of_two(name: str, dtype: str):
    # Of two zeros ours is always the second, PyTorch's now one, now the other.
    check(PAIRS[name], special_pairs(SOME_LENGTHS, dtype), alone=name not in ("maximum", "minimum"))


def test_zeros_that_are_larger_only_in_vectors_are_found(monkeypatch: pytest.MonkeyPatch):
    right = primitives.extreme

    def other_zero(w: Writer, op: str, x: Val, y: Val) -> Val:
        return right(w, op, y, x)

    monkeypatch.setattr(primitives, "extreme", other_zero)
    with pytest.raises(AssertionError):
        check(lambda library, x: library.relu(x * 1) * 1, specials([(), (33,)], "float32"))


# What a row makes of its special values; PyTorch's gradients of these are the same for all lengths.
ROWS = [
    *(
        [1.0, np.nan, 0.25, 2.0],
        [1.0, np.inf, 0.25, 2.0],
        [1.0, -np.inf, 0.25, 2.0],
        [np.inf, -np.inf, 1.0, 2.0],
    ),
    *(
        [np.inf] * 4,
        [-np.inf] * 4,
        [0.0, 0.0, 1.0, 2.0],
        [0.0] * 4,
        [3.0, 0.0, 1.0, 2.0],
        [0.0, np.nan, 0.0, 2.0],
    ),
    [np.nan, np.inf, 0.0, 1.0],
]
OF_ROWS: dict[str, Function] = {
    "cumprod": lambda library, x: library.cumprod(x, 1),
    "cumsum": lambda library, x: library.cumsum(x, 1),
    "cummax": lambda library, x: library.cummax(x, 1)[0],
    "logcumsumexp": lambda library, x: library.logcumsumexp(x, 1),
    "prod": lambda library, x: library.prod(x, 1),
    "logsumexp": lambda library, x: library.logsumexp(x, 1),
    "var": lambda library, x: library.var(x, 1),
    "std": lambda library, x: library.std(x, 1),
    "amax": lambda library, x: library.amax(x, 1),
    "max": lambda library, x: library.max(x, 1)[0],
    "norm 1": lambda library, x: library.linalg.vector_norm(x, 1, 1),
    "norm 2": lambda library, x: library.linalg.vector_norm(x, 2, 1),
    "norm 3": lambda library, x: library.linalg.vector_norm(x, 3, 1),
    "norm inf": lambda library, x: library.linalg.vector_norm(x, float("inf"), 1),
    "normalize": lambda library, x: library.nn.functional.normalize(x, dim=1),
    "cosine": lambda library, x: library.nn.functional.cosine_similarity(x, library.ones_like(x), dim=1),
    "cross entropy": lambda library, x: library.nn.functional.cross_entropy(
        x, library.zeros(1, dtype=library.int64)
    ),
    "margin": lambda library, x: library.nn.functional.multi_margin_loss(
        x, library.zeros(1, dtype=library.int64)
    ),
    "margins": lambda library, x: library.nn.functional.multilabel_margin_loss(
        x, library.tensor([[1, 0, -1, 0]])
    ),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", OF_ROWS)
def test_rows(name: str, dtype: str):
    function = OF_ROWS[name]
    compiled = fg.jit(lambda x: function(fg, x))
    for row in ROWS:
        x = np.array([row], dtype)
        results = [
            derived(torch, lambda x: function(torch, x), [x]),
            derived(fg, lambda x: function(fg, x), [x]),
        ]
        results += [derived(fg, compiled, [x]) for _ in range(2)]
        theirs, *ours = [
            [[k.replace("-0", "+0") for k in kinds(array)] for array in result] for result in results
        ]
        assert all(result == theirs for result in ours), (row, theirs, ours)


@pytest.mark.parametrize("name", ["cosine", "normalize"])
def test_lengths_that_overflow(name: str):
    function = OF_ROWS[name]
    for row in ([1e30, -1e30, 1e-30, 0.0], [1e30, 2e30, 3e30, 1e30], [3e38] * 4):
        x = np.array([row], np.float32)
        theirs = derived(torch, lambda x: function(torch, x), [x])
        ours = derived(fg, lambda x: function(fg, x), [x])
        for mine, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(mine, other)


# Reductions. Values that cancel or overflow on the way give what depends on the order: there are none here.

POOLS = {
    "zeros": [0.0, -0.0],
    "negative zeros": [-0.0],
    "few zeros": [0.0, -0.0, 1.0, 2.0],
    "below zero": [0.0, -0.0, -1.0],
    "infinite": [np.inf, 1.0, 2.0, 0.0, -0.0],
    "both infinities": [np.inf, -np.inf, 1.0],
    "nan": [np.nan, 1.0, 0.0, -0.0, 3.0],
    "all": [np.nan, np.inf, -np.inf, 1.0, 0.0],
}
SHAPES = [(1, 1), (2, 2), (3, 5), (2, 17), (17, 2), (33, 40), (1, 300)]


def along(names: str) -> dict[str, Function]:
    def function(name: str, dim: int) -> Function:
        return lambda library, x: getattr(library, name)(x, dim)

    return {f"{name} {dim}": function(name, dim) for name in names.split() for dim in (0, 1)}


def norm(order: float) -> Function:
    return lambda library, x: library.linalg.vector_norm(x, order, dim=1)


EXTREMES: dict[str, Function] = {
    **along("amax amin"),
    "max": lambda library, x: x.max(),
    "min": lambda library, x: x.min(),
}
REDUCTIONS: dict[str, Function] = {
    **along("sum mean nansum cumsum logsumexp logcumsumexp prod"),
    "sum": lambda library, x: x.sum(),
    "prod": lambda library, x: x.prod(),
    **{f"norm {order}": norm(order) for order in (1, 2, float("inf"))},
    "var": lambda library, x: library.var(x, dim=1, correction=0),
    "std": lambda library, x: library.std(x, dim=1, correction=0),
}


def pools() -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.choice(np.array(p, np.float32), shape) for p in POOLS.values() for shape in SHAPES]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str):
    function = REDUCTIONS[name]
    compiled = fg.jit(lambda x: function(fg, x))
    for x in pools():
        eager = derived(fg, lambda x: function(fg, x), [x])
        theirs = derived(torch, lambda x: function(torch, x), [x])
        ours = derived(fg, compiled, [x])
        assert kinds(ours[0]) == kinds(eager[0]) == kinds(theirs[0]), x
        assert kinds(ours[1]) == kinds(eager[1]), x


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", EXTREMES)
def test_extremes_of_zeros_of_both_signs(name: str, dtype: str):
    """0 is above -0, wherever they stand; PyTorch gives one or the other."""
    function = EXTREMES[name]
    compiled = fg.jit(lambda x: function(fg, x))
    dim = int(name[-1]) if name[-1].isdigit() else None
    extreme = np.max if "max" in name else np.min
    for x in pools():
        x = x.astype(dtype)
        apart = extreme(np.where(x == 0, np.copysign(0.25, x), x), axis=dim)
        right = np.where(abs(apart) == 0.25, np.copysign(0.0, apart), apart)
        for ours in (function(fg, fg.tensor(x)), compiled(fg.tensor(x)), compiled(fg.tensor(x))):
            assert kinds(ours.numpy()) == kinds(right), x


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("dim", [0, 1])
def test_extremes_along_a_dimension_are_what_stands_at_their_place(name: str, dtype: str, dim: int):
    def both(library: Any, x: Any) -> Any:
        return getattr(library, name)(x, dim)

    compiled = fg.jit(lambda x: tuple(both(fg, x)))
    alone = fg.jit(lambda x: both(fg, x)[0])
    for x in pools():
        x = x.astype(dtype)
        values, places = both(torch, torch.from_numpy(x))
        for values_of, places_of in (both(fg, fg.tensor(x)), *(compiled(fg.tensor(x)) for _ in range(2))):
            assert kinds(values_of.numpy()) == kinds(values.numpy()), x
            assert places_of.tolist() == places.tolist()
        # Without their places they are those of amax and amin, for which 0 is above -0.
        apart = getattr(fg, f"a{name}")(fg.tensor(x), dim)
        for _ in range(2):
            assert kinds(alone(fg.tensor(x)).numpy()) in (kinds(values.numpy()), kinds(apart.numpy())), x


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [*EVERY_LENGTH, (5, 7)], ids=str)
def test_the_sign_of_nan_is_seen(dtype: str, shape: tuple[int, ...]):
    values = np.array([np.nan, np.nan, 0.0, -0.0, np.inf, -np.inf, 1.0, -1.0], dtype)
    signed = np.copysign(values, [1, -1] * 4).astype(dtype)
    x = fg.tensor(np.resize(signed, shape))
    compiled = fg.jit(lambda x: (x.signbit(), (-x).signbit(), x.abs().signbit()))
    negative = np.signbit(x.numpy())
    for _ in range(2):
        for found, expected in zip(compiled(x), (negative, ~negative, np.zeros_like(negative)), strict=True):
            np.testing.assert_array_equal(found.numpy(), expected)
