"""Python floats that vary from call to call, wherever a function takes one: calls are replayed, and give what
eager gives, values and gradients.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from operands.run import EAGER, WAYS, compared
from operands.table import ROWS

import fusegrad as fg
from fusegrad import nn, optim
from fusegrad.eager.core.families import Elementwise
from fusegrad.eager.core.op import REGISTRY
from fusegrad.nn import functional as F
from fusegrad.tracer.observe.numbers import Followed
from fusegrad.tracer.record import scalars
from fusegrad.tracer.record.number_operands import by_operands

# Replayed only where the number comes again, and right each time.
LOOKED_AT: dict[str, Callable[[Any, Any], Any]] = {
    "a tensor of integers": lambda a, k: a * fg.tensor(int(k * 10)),
    "full of integers": lambda a, k: a * fg.full((5,), k, dtype=fg.int64),
    "kaiser_window": lambda a, k: a * fg.kaiser_window(5, True, k),
    "hamming_window": lambda a, k: a * fg.hamming_window(5, True, k),
    "a power that is a root once": lambda a, k: (a + 3) ** (k + 0.4),
    "exponents": lambda a, k: a ** int(k * 10),
}
CALLS = 14
OPTIONS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "SGD": (lambda p: optim.SGD(p, 0.01, 0.5, 0.1), ("lr", "momentum", "dampening", "weight_decay")),
    "Adam": (lambda p: optim.Adam(p, 0.01), ("lr", "eps", "weight_decay", "betas")),
    "AdamW": (lambda p: optim.AdamW(p, 0.01), ("lr", "eps", "weight_decay", "betas")),
    "RMSprop": (lambda p: optim.RMSprop(p, 0.01, momentum=0.1), ("lr", "eps", "alpha", "momentum")),
    "Adagrad": (lambda p: optim.Adagrad(p, 0.01), ("lr", "eps", "lr_decay", "weight_decay")),
    "Adadelta": (lambda p: optim.Adadelta(p, 0.01), ("lr", "eps", "rho", "weight_decay")),
    "NAdam": (lambda p: optim.NAdam(p, 0.01), ("lr", "eps", "momentum_decay", "betas")),
    "Adamax": (lambda p: optim.Adamax(p, 0.01), ("lr", "eps", "betas")),
    "ASGD": (lambda p: optim.ASGD(p, 0.01), ("lr", "alpha", "lambd")),
}
LAYERS: dict[str, tuple[Callable[[], Any], str]] = {
    "Dropout": (lambda: nn.Dropout(0.3), "p"),
    "AlphaDropout": (lambda: nn.AlphaDropout(), "p"),
    "LayerNorm": (lambda: nn.LayerNorm(4), "eps"),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(4), "eps"),
    "BatchNorm1d, momentum": (lambda: nn.BatchNorm1d(4), "momentum"),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), "eps"),
    "Softplus": (lambda: nn.Softplus(), "beta"),
    "Hardtanh": (lambda: nn.Hardtanh(-1, 0.5), "max_val"),
    "LeakyReLU": (lambda: nn.LeakyReLU(), "negative_slope"),
    "CELU": (lambda: nn.CELU(), "alpha"),
}


@pytest.mark.one_in(16)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ROWS)
def test_varying_floats_are_operands(name: str, way: str) -> None:
    compiled, _ = compared(name, way, CALLS)
    # A root of what comes out of a tensor has to be known: nobody guards that it has one.
    assert compiled >= CALLS - EAGER or ("alpha_dropout" in name and way == "out_of_a_tensor")


def _steps(name: str, option: str, jit: Callable[..., Any]) -> tuple[list[np.ndarray], int]:
    """A weight after each of some steps, with another number as an option each; how many were replayed."""
    weight = nn.Parameter(fg.linspace(-1, 1, 6))
    optimizer = OPTIONS[name][0]([weight])

    def body(x: Any) -> None:
        optimizer.zero_grad()
        ((weight * x) ** 2).sum().backward()
        optimizer.step()

    step, seen = jit(body), []
    for call in range(CALLS):
        number = 0.05 + 0.003 * call
        optimizer.param_groups[0][option] = (number, number + 0.1) if option == "betas" else number
        step(fg.tensor(np.random.default_rng(call).normal(size=6).astype("f4")))
        seen.append(weight.detach().numpy().copy())
    return seen, step.stats.compiled_calls if jit is fg.jit else 0


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("name", "option"), [(name, option) for name, (_, options) in OPTIONS.items() for option in options]
)
def test_varying_options_of_optimizers_are_operands(name: str, option: str) -> None:
    ours, replayed = _steps(name, option, fg.jit)
    for now, eagers in zip(ours, _steps(name, option, lambda f: f)[0], strict=True):
        np.testing.assert_allclose(now, eagers, rtol=1e-4, atol=1e-5)
    assert replayed >= CALLS - EAGER


def _layer(name: str, jit: Callable[..., Any]) -> tuple[list[np.ndarray], int]:
    make, attribute = LAYERS[name]
    fg.manual_seed(0)
    layer = make()
    run, seen = jit(layer), []
    for call in range(CALLS):
        setattr(layer, attribute, 0.05 + 0.003 * call)
        x = fg.tensor(np.random.default_rng(call).normal(size=(3, 4)).astype("f4"), requires_grad=True)
        made = run(x)
        (made * made).sum().backward()
        seen += [made.detach().numpy().copy(), x.grad.numpy()]
    return seen, run.stats.compiled_calls if jit is fg.jit else 0


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", LAYERS)
def test_varying_attributes_of_layers_are_operands(name: str) -> None:
    ours, replayed = _layer(name, fg.jit)
    for now, eagers in zip(ours, _layer(name, lambda f: f)[0], strict=True):
        np.testing.assert_allclose(now, eagers, rtol=1e-4, atol=1e-5)
    assert replayed >= CALLS - EAGER


REFUSED: dict[str, Callable[[Any, Any], Any]] = {
    "hardtanh": lambda a, k: F.hardtanh(a, -k, k),
    "softshrink": lambda a, k: F.softshrink(a, k),
    "celu": lambda a, k: fg.celu(a - 2, alpha=k),
    "dropout": lambda a, k: F.dropout(a, k),
    "huber_loss": lambda a, k: F.huber_loss(a, a * 2, delta=k),
}


@pytest.mark.parametrize("name", REFUSED)
def test_numbers_that_a_function_refuses_are_refused_by_replays(name: str) -> None:
    jitted = fg.jit(lambda a, k: REFUSED[name](a, k))
    for number in range(6):
        jitted(fg.ones(5), 0.3 + 0.1 * number)
    assert jitted.stats.compiled_calls >= 2
    with pytest.raises((ValueError, RuntimeError), match=r"min_val|lambda|cannot be 0|has to be|delta"):
        jitted(fg.ones(5), 0.0 if name == "celu" else -1.5)


@pytest.mark.parametrize("name", LOOKED_AT)
def test_others_are_right(name: str) -> None:
    use = LOOKED_AT[name]
    jitted = fg.jit(lambda a, k: use(a, k).sum())
    for call in range(CALLS):
        x = fg.tensor(np.array([-2, -0.5, 0.1, 1.1, 2.5], "f4"), requires_grad=True)
        y = x.detach().clone().requires_grad_()
        jitted(x, 0.1 * call).backward()
        use(y, 0.1 * call).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-5)


def test_the_table_finds_parameters_that_make_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(REGISTRY["clamp"], "numbers_vary", False)
    assert compared("clamp", "as_argument", CALLS)[0] < CALLS - EAGER


def test_the_table_finds_operands_that_are_mixed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def turned(op: Any, names: tuple[str, ...]) -> Any:
        return by_operands(op, names[::-1])

    monkeypatch.setattr(scalars, "by_operands", turned)
    with pytest.raises(AssertionError):
        compared("clamp", "as_argument", CALLS)


def test_the_table_finds_rules_that_lose_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scalars.Scalars, "in_rules", lambda self, inputs, params: (inputs, params))
    with pytest.raises(AssertionError):
        compared("lerp", "derived_within", CALLS)


def test_the_table_finds_comparisons_that_nobody_guards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Followed, "__gt__", lambda self, other: self.number > getattr(other, "number", other))
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        test_numbers_that_a_function_refuses_are_refused_by_replays("hardtanh")


def _names(op: Any) -> tuple[str, ...]:
    """The parameters of an op that are numbers."""
    return tuple(inspect.signature(op.scalar).parameters)[1 + len(op.arguments) :]


_BY_OPERANDS = [
    n for n, op in REGISTRY.items() if op.numbers_vary is True and isinstance(op, Elementwise) and _names(op)
]


@pytest.mark.parametrize("name", sorted(_BY_OPERANDS))
def test_an_op_gives_the_same_by_operands(name: str) -> None:
    op: Any = REGISTRY[name]
    names = _names(op)
    data = np.array([-np.inf, -1.5, -0.0, 0.0, 1.0, 3.0, np.inf, np.nan], "f4")
    args = [fg.tensor(np.roll(data, shift)) for shift in range(len(op.arguments))]
    for numbers in ((0.5, 0.75, 2.0), (1.0, 1.0, 1.0), (-0.0, 0.0, -1.0), (-2.0, 3.0, 0.0)):
        params = dict(zip(names, numbers, strict=False))
        scalars_of = [fg.tensor(np.array(n, "f4")) for n in params.values()]
        with np.errstate(all="ignore"):
            right = op.evaluate(args, params)
            found = by_operands(op, names).evaluate([*args, *scalars_of], {})
        assert found.tobytes() == right.tobytes() or np.array_equal(found, right, equal_nan=True)
