"""Memory of recorded runs: what shares it is followed, and writes keep each value's place on the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from op_samples import SAMPLES

import fusegrad as fg
from fusegrad.eager.core import op as op_module
from fusegrad.eager.core.op import Op, Params
from fusegrad.eager.core.shared import owner
from fusegrad.eager.core.state import Interpreter, state

CASES = [pytest.param(s, id=f"{name}-{i}") for name, rows in SAMPLES.items() for i, s in enumerate(rows)]


class Sharing(Interpreter):
    """Notes ops whose results lie in an input's memory without being views, or seem to lie in another's."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def bind(self, op: Op, args: tuple[Any, ...], params: Params) -> Any:
        result = op_module.evaluate(op, args, params)
        for made in result if type(result) is tuple else (result,):
            for given in (a.array for a in args if isinstance(a, fg.Tensor)):
                followed = op.view and owner(made.array) is owner(given)
                if np.shares_memory(made.array, given) and not followed:
                    self.found.append(op.name)
        return result

    def __getattribute__(self, name: str) -> Any:
        # Whatever else it is told does not matter here.
        if name in ("bind", "found", "check") or name.startswith("__"):
            return super().__getattribute__(name)
        return lambda *args, **kwargs: None

    def check(self, tensor: fg.Tensor, passed: Callable[[], fg.Tensor], within: Any = ()) -> bool:
        return True


@pytest.mark.one_in(4)
@pytest.mark.parametrize("sample", CASES)
def test_what_shares_memory_is_declared_a_view_and_has_one_owner(sample: Any):
    interpreter = Sharing()
    inputs = [fg.tensor(array) for array in sample.inputs]
    state.interpreter = interpreter
    try:
        sample.call(fg, *inputs)
    finally:
        state.interpreter = None
    assert interpreter.found == []


def test_windows_have_the_owner_of_what_they_were_taken_of():
    x = fg.arange(6.0)
    assert owner(x.unfold(0, 2, 1)[1:].array) is owner(x.array)
    windows = np.lib.stride_tricks.sliding_window_view(np.arange(6.0), 2)
    assert owner(fg.from_numpy(windows).array) is owner(windows)


def agree(function: Callable[..., Any], *arrays: Any) -> Any:
    """Compare value, `requires_grad` and gradients of four jitted calls with eager's."""
    jitted = fg.jit(function)
    for _ in range(4):
        ours = [fg.tensor(a, requires_grad=True) for a in arrays]
        theirs = [fg.tensor(a, requires_grad=True) for a in arrays]
        y, z = jitted(*ours), function(*theirs)
        assert fg.equal(y, z) and y.requires_grad is z.requires_grad
        if z.requires_grad:
            y.sum().backward()
            z.sum().backward()
        for a, b in zip(ours, theirs, strict=True):
            assert (a.grad is None) is (b.grad is None)
            assert b.grad is None or fg.equal(a.grad, b.grad)
    return jitted


ALIASES = [
    lambda z: z.detach(),
    lambda z: z[1:].detach(),
    lambda z: z.detach()[1:],
    lambda z: z.view(-1).detach().view(z.shape),
    lambda z: z.detach().detach().unfold(0, 1, 1),
    lambda z: z.detach().reshape(-1),
]


@pytest.mark.parametrize("alias", ALIASES)
@pytest.mark.parametrize("write", ["mul_", "copy_", "zero_", "setitem"])
def test_a_write_through_a_detached_alias_leaves_the_gradient(alias: Callable[..., Any], write: str):
    def function(x: fg.Tensor) -> fg.Tensor:
        z = x * 3.0
        part = alias(z)
        if write == "setitem":
            part[0] = 7.0
        else:
            getattr(part, write)(*{"mul_": [2.0], "copy_": [part.round()], "zero_": []}[write])
        return (z**2).sum() + z.sin().sum()

    jitted = agree(function, [1.0, 2.2, 3.7])
    # Writes into windows are known, but no graph says them.
    assert jitted.stats.compiled_calls >= 3 or "a view that unfold() gave" in str(jitted.explain())


@pytest.mark.parametrize("taken", [lambda z: z[1:].detach(), lambda z: z[1:], lambda z: z.view(-1)[:2]])
def test_a_write_through_a_view_that_was_taken_off_the_graph(taken: Callable[..., Any]):
    def function(x: fg.Tensor) -> fg.Tensor:
        z = x * 3.0
        with fg.no_grad():
            taken(z).detach().mul_(2)
        return z * x

    agree(function, [1.0, 2.2, 3.7])


OWN_WRITES = [
    lambda part, x: part.fill_(x.sum()),
    lambda part, x: part.mul_(x.sum()),
    lambda part, x: part.copy_(x.mean()),
    lambda part, x: part[:1].copy_(x.max()),
    lambda part, x: part.view(-1)[0].add_(x[0]),
    lambda part, x: part.sub_(x.max()).detach().mul_(2),
]
LATER_WRITES = [
    lambda z: z.mul_(1.5),
    lambda z: z[:2].zero_(),
    lambda z: z.detach().add_(1),
    lambda z: z.copy_(z.flip(0)),
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("alias", [a for a in ALIASES if "unfold" not in a.__code__.co_names])
@pytest.mark.parametrize("own", OWN_WRITES)
@pytest.mark.parametrize("later", LATER_WRITES)
def test_what_an_alias_was_given_stays_its_gradient_when_its_memory_is_written_elsewhere(
    alias: Callable[..., Any], own: Callable[..., Any], later: Callable[..., Any]
):
    def function(x: fg.Tensor, y: fg.Tensor) -> fg.Tensor:
        z = x * 3.0
        part = alias(z)
        own(part, y)
        later(z)
        return (part * 2).sum() + (part[:1] * x[:1]).sum() + z.sum()

    assert agree(function, [1.0, 2.2, 3.7], [2.0, 0.5, 1.0]).stats.compiled_calls >= 3


def test_what_is_written_unseen_gives_its_own_gradient_to_nobody():
    def function(x: fg.Tensor, y: fg.Tensor) -> fg.Tensor:
        z = x * 3.0
        z.detach().copy_(y * 2)
        return (z * x).sum()

    agree(function, [1.0, 2.0], [3.0, 4.0])


OVERWRITES = [
    lambda z, y: z.zero_(),
    lambda z, y: z.fill_(2.0),
    lambda z, y: z.copy_(y.detach()),
    lambda z, y: z.copy_(y),
    lambda z, y: z.fill_(y.sum()),
    lambda z, y: z.view(-1).zero_(),
    lambda z, y: z.unsqueeze(0).copy_(y),
    lambda z, y: z[1:].zero_(),
    lambda z, y: z.sign_(),
    lambda z, y: z.mul_(y.detach()).zero_().add_(1),
]


@pytest.mark.parametrize("overwrite", OVERWRITES)
def test_what_is_written_over_whole_gets_a_gradient_of_zeros(overwrite: Callable[..., Any]):
    def function(x: fg.Tensor, y: fg.Tensor) -> fg.Tensor:
        z = x * 3.0
        overwrite(z, y)
        return z * 2

    agree(function, [1.0, -2.0, 3.0], [4.0, 5.0, 6.0])


def test_two_arrays_over_one_buffer_are_known_to_share_it():
    memory = bytearray(np.arange(4.0).tobytes())

    def function(x: fg.Tensor, y: fg.Tensor) -> fg.Tensor:
        x.mul_(2)
        return y * 1

    jitted = fg.jit(function)
    for _ in range(4):
        x, y = (fg.from_numpy(np.frombuffer(memory)) for _ in range(2))
        expected = y.numpy() * 2
        assert np.array_equal(jitted(x, y).numpy(), expected)


def test_an_op_that_gives_its_input_back_ends_the_replay(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(op_module.REGISTRY["nextafter"], "numpy", lambda x, y: x)
    jitted = fg.jit(lambda x: fg.nextafter(x, x) * 1)
    jitted(fg.ones(2, 3))
    assert "gave memory of its input" in str(jitted.explain())


# Views of what gets on the graph by a write: each program makes them of `base`, which is not on it yet.


def view_before_a_write(base: fg.Tensor, a: fg.Tensor) -> list[fg.Tensor]:
    view = base.T
    base.add_(a)
    return [base * 1, view * 1]


def view_of_a_view(base: fg.Tensor, a: fg.Tensor) -> list[fg.Tensor]:
    row = base.T[0]
    base.mul_(a)
    row.add_(1)
    return [base * 1, row * 1]


def part_that_is_written(base: fg.Tensor, a: fg.Tensor) -> list[fg.Tensor]:
    first, rest = base[0], base[1:]
    first.add_(a[0])
    return [base * 1, first * 1, rest * 1]


def several_writes(base: fg.Tensor, a: fg.Tensor) -> list[fg.Tensor]:
    view, row = base.T, base[1]
    base.lerp_(a, 0.5)
    view[0] = a[:, 1]
    row.mul_(a[2])
    return [base * 1, view * 1, row * 1]


def detached_before(base: fg.Tensor, a: fg.Tensor) -> list[fg.Tensor]:
    alias = base.detach()
    part = alias.T
    base.add_(a)
    return [base * 1, alias * 1, part * 1]


def detached_from_a_view(base: fg.Tensor, a: fg.Tensor) -> list[fg.Tensor]:
    view = base.T
    part = view.detach()[0]
    base.mul_(a)
    return [base * 1, view * 1, part * 1]


def view_made_under_no_grad(base: fg.Tensor, a: fg.Tensor) -> list[fg.Tensor]:
    with fg.no_grad():
        view = base.T
    base.add_(a)
    return [base * 1, view * 1]


@pytest.mark.parametrize(
    "program",
    [
        view_before_a_write,
        view_of_a_view,
        part_that_is_written,
        several_writes,
        detached_before,
        detached_from_a_view,
        view_made_under_no_grad,
    ],
)
def test_views_of_what_gets_on_the_graph_by_a_write_are_on_it_as_in_eager(program: Callable[..., Any]):
    def run(function: Callable[..., Any]) -> Any:
        a = (fg.arange(12.0).reshape(3, 4) / 4 - 1).requires_grad_()
        found = function(fg.arange(12.0).reshape(3, 4) * 0.3, a)
        sum((x * x).sum() for x in found if x.requires_grad).backward()
        return [x.requires_grad for x in found], [x.tolist() for x in found], a.grad.tolist()

    jitted = fg.jit(lambda base, a: program(base * 1.0, a))
    expected = run(lambda base, a: program(base * 1.0, a))
    for _ in range(4):
        flags, values, gradient = run(jitted)
        assert flags == expected[0]
        for found, right in zip((*values, gradient), (*expected[1], expected[2]), strict=True):
            np.testing.assert_allclose(found, right, rtol=1e-6)
    assert jitted.stats.compiled_calls == 3, str(jitted.explain())
