"""Ops that wait until a recorded run is over."""

from __future__ import annotations

import contextlib
import copy
import inspect
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from op_samples.table import SAMPLES, Sample

import fusegrad as fg
from fusegrad.compiler import entries
from fusegrad.eager.core.op import Op, Params, evaluate
from fusegrad.eager.core.stand_in import StandIn, stand_in
from fusegrad.eager.core.state import Interpreter, state
from fusegrad.tracer.record import later
from fusegrad.tracer.record.later import Later


class Compared(Interpreter):
    """Evaluates every op, and compares what was foretold with what comes."""

    def __init__(self) -> None:
        self.later = Later(None, True)  # type: ignore[arg-type]

    def bind(self, op: Op, args: tuple[Any, ...], params: Params) -> Any:
        made = self.later.foretold(op, args, params)
        result = evaluate(op, args, params)
        if made is not None:
            given = [a.array for a in args if isinstance(a, fg.Tensor)]
            outputs = result if type(result) is tuple else (result,)
            assert type(made) is type(result) or type(made) is StandIn
            for array, tensor in zip(made if type(made) is tuple else (made,), outputs, strict=True):
                what = f"{op.name} of {[(a.shape, a.strides) for a in given]}, {params}"
                assert (array.shape, array.dtype, array.strides) == (
                    tensor.array.shape,
                    tensor.array.dtype,
                    tensor.array.strides,
                ), what
                if not op.view:
                    assert not any(np.may_share_memory(tensor.array, a) for a in given), what
        return result

    def effect(self, reason: str) -> None:
        pass


def laid_out(array: np.ndarray, how: str) -> np.ndarray:
    """The same shape with other strides; values may be others among those of the array."""
    if how == "gaps" and array.ndim:
        return np.repeat(array, 2, -1)[..., ::2]
    if how == "turned":
        return np.ascontiguousarray(array.T).T
    if how in ("first", "last") and array.size and array.ndim:
        place = (slice(0, 1),) if how == "first" else (..., slice(0, 1))
        return np.broadcast_to(array[place], array.shape)
    return array


def derive(result: Any, wanted: list[fg.Tensor]) -> None:
    """Run the ops of the gradients, where there are any."""
    for leaf in result if isinstance(result, (tuple, list)) else (result,):
        if isinstance(leaf, fg.Tensor) and leaf.requires_grad and leaf.dtype.is_floating_point:
            with contextlib.suppress(RuntimeError):  # some have no gradient with some parameters
                fg.autograd.grad(leaf.sum(), wanted, retain_graph=True, allow_unused=True)


@pytest.fixture
def all_are_large(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(later, "LARGE", 0)
    yield


CASES = [pytest.param(s, id=f"{n}-{k}") for n, samples in SAMPLES.items() for k, s in enumerate(samples)]


@pytest.mark.one_in(8)
@pytest.mark.parametrize("sample", CASES)
def test_what_is_said_of_results_beforehand_is_true(sample: Sample, all_are_large: None) -> None:
    for how in ("plain", "gaps", "turned", "first", "last"):
        tensors = []
        for given in sample.inputs:
            x = fg.tensor(given.astype("f4") if given.dtype.kind == "f" else given)
            x.array = laid_out(x.array, how)
            tensors.append(x.requires_grad_(given.dtype.kind in "fc"))
        state.interpreter = Compared()
        try:
            result = sample.call(fg, *tensors)
            derive(result, [t for t in tensors if t.requires_grad])
        except (RuntimeError, ValueError, IndexError):
            if how == "plain":  # values that the op takes may not be there in other layouts
                raise
        finally:
            state.interpreter = None


# Runs that put off all they can.


class Doubled(fg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2


KEPT: list[Any] = []
MEMORY = np.ones((3, 4), "f4")
LENT = fg.from_numpy(MEMORY)
WEIGHT = fg.full((4,), 0.5, requires_grad=True)


def asks_for_a_number(x):
    y = (x * 2).tanh()
    return y * y.sum().item()


def branches(x):
    y = x.exp() + 1
    return y * 2 if y.mean() > 0 else y


def keeps(x):
    y = x * 3
    KEPT.append(y)
    return y + 1


def raises(x):
    y = x * 4
    KEPT.append(y)
    raise ValueError("after an op")


def cannot_add(x):
    return (x * 2) + fg.ones(5)


def writes(x):
    y = x * 2
    z = y + 1
    y.add_(1)
    y[1:] = z[:-1]
    return y, z


def steps_of_a_wave(x):
    now, before = x.detach().clone(), x.detach().clone()
    for _ in range(3):
        before[1:-1] = 2 * now[1:-1] - before[1:-1] + (now[2:] + now[:-2])
        now, before = before, now
    return now, before.sum().item()


def writes_through_views(x):
    y = (x * 2).detach()
    early, part = y[1:], y.t()[1:]
    part[...] = 7
    part += x.detach().t()[1:]
    y[:, 0].mul_(3)
    y.view(-1)[::2] = early[0, 1]
    KEPT.append(early)
    return early + 1, part.sum().item()


def writes_where_a_mask_says(x):
    y = (x * 2).detach()
    y[y > 0.3] = -1
    y[x < 0] = (x * 3).detach()[x < 0]
    y.masked_fill_(y == -1, 5).clamp_(-1, 4)
    return y


def writes_what_nobody_holds(x):
    y = (x * 2).detach()
    z = y + 1
    y.zero_()
    del y
    return z, z.sum().item()


def writes_numbers_of_numpys(x):
    y = (x * 2).detach()
    y[0] = LENT[0]
    MEMORY[0] += 1
    y[1:] += LENT[0]
    return y


def writes_what_is_written_later(x):
    y, z = (x * 2).detach(), (x * 3).detach()
    y[0] = z[1]
    z[1] = y[1]
    y.copy_(z.exp())
    return y, z


def writes_what_does_not_fit(x):
    y = (x * 2).detach()
    y[0] = 1
    KEPT.append(y)
    y[1] = fg.ones(7)


def writes_over_itself(x):
    y = (x * 2).detach()
    y[1:] = y[:-1]
    return y


def writes_on_the_graph(x):
    y = x.detach() * 2
    y[0] = 1
    y[1:] = x[1:] * 2
    y *= 3
    return y


def writes_integers(x):
    y = (x * 10).detach().long()
    y[0] = (x * 2).detach()[1]
    y += 1
    return y, y.float().mul_(0.5)


def goes_backward(x):
    y = (x * WEIGHT).tanh().sum()
    y.backward()
    return y.detach() * 2, WEIGHT.grad * 2


def derives_twice(x):
    y = (x.tanh() * x).sum()
    (first,) = fg.autograd.grad(y, x, create_graph=True)
    return first.detach(), fg.autograd.grad((first * first).sum(), x)[0]


def makes_a_parameter(x):
    with fg.no_grad():
        parameter = fg.nn.Parameter(x * 2)
    return parameter * 3, copy.copy(x * 5), copy.deepcopy((x * 6).detach())


def looks_with_numpy(x):
    y = (x * 2).detach()
    return y + float(np.asarray(y).sum()), fg.tensor(np.exp(y))


def memory_that_numpy_writes(x):
    y = LENT * x
    MEMORY[0] += 1
    return y, LENT + x


def runs_a_function_of_the_users(x):
    y = Doubled.apply(x * 3)
    y.register_hook(lambda g: g * 2)
    return y * 2


def wrong_labels(x):
    return fg.nn.functional.cross_entropy(x * 2, fg.tensor([0, 1, 7]))


def right_labels(x):
    return fg.nn.functional.cross_entropy(x * 2, fg.tensor([0, 1, 3]))


def draws(x):
    return fg.nn.functional.dropout(x * 2) + fg.rand(3, 4) * x


def shows_views(x):
    y = x * 2
    z = y.t()[1:].reshape(-1)
    return z * 2, y.t().contiguous() + 1, y.expand(2, 3, 4).sum(0), fg.cat([y, y])[2:] * 2, y[:, 1]


def gives_one_memory_twice(x):
    y = x * 2
    return y, y[1:]


def gives_many_kinds(x):
    y = x * 2
    return {"y": y, "x": x, "list": [y + 1, 3, None], "off": y.detach(), "type": y.dtype, "shape": y.shape}


def asks_for_all_but_values(x):
    y = (x * 2).t()
    name = y.grad_fn.name() if y.grad_fn is not None else ""
    return y + len(y), y.stride(), y.is_contiguous(), y.storage_offset(), y.requires_grad, name


DEFINED = [f for f in list(globals().values()) if inspect.isfunction(f)]
FUNCTIONS = [f for f in DEFINED if list(inspect.signature(f).parameters) == ["x"]]


def seen(value: Any) -> Any:
    """A result as something that can be compared."""
    if isinstance(value, fg.Tensor):
        assert type(value.array) is np.ndarray
        array = value.detach().numpy()
        return array.shape, str(array.dtype), value.requires_grad, value.stride(), np.round(array, 3).tolist()
    if isinstance(value, dict):
        return {key: seen(item) for key, item in value.items()}
    return [seen(item) for item in value] if isinstance(value, (list, tuple)) else value


def outcome(function: Any, requires_grad: bool) -> Any:
    """What a call gives, leaves and prints, made afresh."""
    fg.manual_seed(1)
    KEPT.clear()
    MEMORY[:] = 1
    WEIGHT.grad = None
    x = (fg.arange(12.0).reshape(3, 4) / 10 - 0.5).requires_grad_(requires_grad)
    try:
        result = function(x)
        found = seen(result)
        first = result[0] if isinstance(result, tuple) else result
        if isinstance(first, fg.Tensor) and first.requires_grad:
            first.sum().backward()
    except (ValueError, RuntimeError, IndexError) as error:
        found = type(error), str(error)
    gradients = [seen(t.grad) for t in (x, WEIGHT)]
    return found, seen(KEPT), gradients


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_nobody_can_tell_that_ops_wait(function: Any, requires_grad: bool, all_are_large: None) -> None:
    assert outcome(fg.jit(function), requires_grad) == outcome(function, requires_grad)


def chain(x, y):
    z = fg.exp(x) * y + x
    return (z * fg.sigmoid(z)).sum(), z


def test_a_large_first_call_is_computed_by_the_path_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Later, "_compute", None)  # nothing is evaluated afterwards
    x, y = (fg.linspace(-1, 1, later.LARGE, requires_grad=True) for _ in range(2))
    jitted = fg.jit(chain)
    total, z = jitted(x, y)
    total.backward()
    assert (jitted.stats.compiled_calls, jitted.stats.eager_calls, jitted.stats.compiles) == (1, 0, 1)
    expected, w = chain(*(others := [t.detach().requires_grad_() for t in (x, y)]))
    expected.backward()
    np.testing.assert_allclose(total.item(), expected.item(), rtol=1e-5)
    np.testing.assert_allclose(z.detach(), w.detach(), rtol=1e-5, atol=1e-6)
    for mine, other in zip((x, y), others, strict=True):
        np.testing.assert_allclose(mine.grad, other.grad, rtol=1e-5, atol=1e-5)
    small = fg.jit(chain)
    small(x[:-1], y[:-1])
    assert (small.stats.compiled_calls, small.stats.eager_calls) == (0, 1)


def test_writes_into_what_waits_wait_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    def smoothed(x):
        y, z = x * 2, x.clone()
        for _ in range(3):
            z[1:-1] += y[:-2] + y[2:]
            z *= 0.25
            y, z = z, y
        return y

    x = fg.linspace(-1, 1, later.LARGE)
    expected = smoothed(x)
    monkeypatch.setattr(Later, "_compute", None)  # nothing is evaluated afterwards
    jitted = fg.jit(smoothed)
    np.testing.assert_array_equal(jitted(x), expected)
    assert (jitted.stats.compiled_calls, jitted.stats.eager_calls) == (1, 0)


@pytest.mark.usefixtures("faults_are_covered")
def test_what_the_compiler_refuses_is_evaluated(monkeypatch: pytest.MonkeyPatch, all_are_large: None) -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(entries, "make_path", fails)
    jitted = fg.jit(chain)
    x, y = fg.ones(4), fg.ones(4)
    assert seen(jitted(x, y)) == seen(chain(x, y))
    assert (jitted.stats.compiled_calls, jitted.stats.eager_calls) == (0, 1)


def test_memory_that_is_not_to_be_had_is_not_asked_for(
    monkeypatch: pytest.MonkeyPatch, all_are_large: None
) -> None:
    calls = itertools.count()

    def scarce(*given: Any) -> Any:
        if next(calls) == 3:
            raise MemoryError
        return stand_in(*given)

    monkeypatch.setattr(later, "stand_in", scarce)
    x, y = fg.ones(4), fg.ones(4)
    assert seen(fg.jit(chain)(x, y)) == seen(chain(x, y))
