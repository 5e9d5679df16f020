"""Compiled functions that write memory from outside: arguments, parameters, views and what overlaps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fusegrad as fg

pytestmark = pytest.mark.usefixtures("answered")


def test_writes_into_arguments_are_replayed():
    def f(x: Any, y: Any) -> Any:
        x += y
        x[1:] *= 2
        x[0] = y.sum()
        y.copy_(x)
        return x.sum(), x

    jitted = fg.jit(f)
    for call in range(5):
        mine, theirs = ([fg.full((3,), float(call + i)) for i in range(2)] for _ in range(2))
        (a, same), (b, _) = jitted(*mine), f(*theirs)
        assert same is mine[0] and a.item() == b.item()
        assert [t.tolist() for t in mine] == [t.tolist() for t in theirs]
        assert [t._version for t in mine] >= [1, 1]
    assert jitted.stats.compiled_calls == 4


@pytest.mark.parametrize("last", [lambda t: t.fill_(3), lambda t: t.copy_(t * 2), lambda t: t])
def test_several_tensors_that_get_one_value(last: Any):
    def f(x: Any, *tensors: Any) -> None:
        value = x * 2 + 1
        for tensor in tensors:
            tensor.copy_(value)
        last(tensors[-1])

    jitted = fg.jit(f)
    for call in range(5):
        mine, theirs = ([fg.zeros(3) for _ in range(3)] for _ in range(2))
        x = fg.full((3,), float(call))
        jitted(x, *mine)
        f(x, *theirs)
        assert [t.tolist() for t in mine] == [t.tolist() for t in theirs]
    assert jitted.stats.compiled_calls == 4


def test_arguments_that_overlap_are_not_those_that_were_recorded():
    def f(x: Any, y: Any) -> Any:
        x.add_(1)
        y.mul_(2)
        return (x * y).sum()

    jitted = fg.jit(f)
    for call in range(6):
        outcomes = []
        for function in (jitted, f):
            whole = fg.arange(6.0)
            pair = (whole[:4], whole[2:]) if call % 2 else (fg.arange(4.0), fg.arange(4.0))
            outcomes.append([function(*pair).item(), [t.tolist() for t in pair]])
        assert outcomes[0] == outcomes[1]
    assert jitted.stats.compiled_calls == 2


def test_a_parameter_given_as_the_argument_that_is_written():
    state = fg.zeros(3)

    def f(x: Any) -> Any:
        state.add_(x)
        x.mul_(2)
        return state + x

    jitted = fg.jit(f)
    for x in (fg.ones(3), fg.ones(3), state, fg.ones(3), state):
        state_before = state.clone()
        again = state if x is state else x.clone()
        found = jitted(x).tolist(), state.tolist()
        with fg.no_grad():
            state.copy_(state_before)
        assert (f(again).tolist(), state.tolist()) == found


def test_views_see_what_is_written_into_their_base():
    def f(x: Any) -> Any:
        rows = x.reshape(2, 3)
        column, turned = rows[:, 0], rows.T
        x.mul_(3)
        column += 1
        first = turned.sum(1)
        rows.diagonal().zero_()
        turned[2] = 5
        return first, rows + 0, x.sum(), column * 1

    jitted = fg.jit(f)
    for call in range(4):
        mine, theirs = fg.arange(6.0) + call, fg.arange(6.0) + call
        for a, b in zip(jitted(mine), f(theirs), strict=True):
            assert a.tolist() == b.tolist()
        assert mine.tolist() == theirs.tolist()
    assert jitted.stats.compiled_calls == 3, jitted.explain()


def test_local_writes_keep_their_gradients():
    def f(x: Any, w: Any) -> Any:
        y = x * w
        y[1:] = y[:-1] * 2
        y *= x
        z = fg.zeros(4)
        z[:2] = y[2:] ** 2
        z += w
        return z.sum() + y.sum()

    jitted = fg.jit(f)
    for call in range(4):
        gradients = []
        for function in (jitted, f):
            x, w = fg.arange(4.0) + call, (fg.arange(4.0) - 1).requires_grad_()
            function(x, w).backward()
            gradients.append(w.grad.tolist())
        assert gradients[0] == gradients[1]
    assert jitted.stats.compiled_calls == 3, jitted.explain()


def test_a_failed_guard_has_written_nothing():
    total, limit = fg.zeros(2), [10.0]

    def f(x: Any) -> Any:
        total.add_(x)
        if total.sum() > limit[0]:
            raise ValueError(f"too much: {total.tolist()}")
        return total * 2

    jitted = fg.jit(f)
    for _ in range(2):
        total.zero_()
        for _ in range(4):
            jitted(fg.ones(2))
        assert total.tolist() == [4.0, 4.0]
        jitted(fg.ones(2))
        with pytest.raises(ValueError, match=r"too much: \[6"):
            jitted(fg.ones(2))
        assert total.tolist() == [6.0, 6.0]
        limit[0] += 0.0


def test_a_backward_after_a_write_finds_what_it_needs_or_says_so():
    buffer = fg.ones(3)

    def f(x: Any) -> Any:
        y = (x * buffer).exp()
        buffer.add_(1)
        return y.sum()

    outcomes = []
    for function in (fg.jit(f), f):
        for _ in range(4):
            x = fg.ones(3, requires_grad=True)
            loss = function(x)
            try:
                loss.backward()
                outcomes.append(x.grad.tolist())
            except RuntimeError as error:
                outcomes.append("modified by an inplace operation" in str(error))
        with fg.no_grad():
            buffer.fill_(1)
    assert outcomes[:4] == outcomes[4:] == [True] * 4


# Computed in the memory that is written.


def _rolls(x: Any, y: Any) -> Any:
    x.copy_(x.roll(1, 0) + y)
    return y * 2


def _shifts(x: Any, y: Any) -> Any:
    x[1:] = x[:-1] * 2
    return y * 2


def _turns(x: Any, y: Any) -> Any:
    x.copy_(x.T + y)
    return (x * y).sum()


def _centres(x: Any, y: Any) -> Any:
    x.sub_(x.mean())
    y.sub_(y.mean(1, keepdim=True))
    return y * 2


def _normalises(x: Any, y: Any) -> Any:
    x /= x.exp().sum(0)
    y.div_((y * y).sum().sqrt()).add_(x)
    return x.amax(1)


def _swaps(x: Any, y: Any) -> Any:
    old = x.clone()
    x.copy_(y)
    y.copy_(old)
    return x + y


def _reads_later(x: Any, y: Any) -> Any:
    before = x * 3
    x.mul_(y)
    y.add_(before @ before)
    return before.sum() + y.sum()


def _steps_a_wave(x: Any, y: Any) -> Any:
    y[1:-1] = 2 * x[1:-1] - y[1:-1] + (x[2:] + x[:-2])


def _smooths_itself(x: Any, y: Any) -> Any:
    x[1:-1] = (x[2:] + x[:-2]) * 0.5
    y[:, 1:] += y[:, :-1]


def _writes_parts(x: Any, y: Any) -> Any:
    x[:, 0] = y[:, 1] * 2
    y[y > 0.5] = -1.0
    x[-1] += x[0]


def _turns_over(x: Any, y: Any) -> Any:
    x[:] = x.flip(0)
    y[0:2] = y.flip(1)[0:2] + x[0:2]


FUNCTIONS = [_rolls, _shifts, _turns, _centres, _normalises, _swaps, _reads_later]
FUNCTIONS += [_steps_a_wave, _smooths_itself, _writes_parts, _turns_over]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("size", [3, 40, 700])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_memory_that_is_read_elsewhere_is_not_written_too_early(function: Any, size: int):
    jitted = fg.jit(function)
    for seed in range(4):
        random = np.random.default_rng(seed)
        given = [random.standard_normal((size, size)) for _ in range(2)]
        mine, theirs = ([fg.tensor(a) for a in given] for _ in range(2))
        result, expected = jitted(*mine), function(*theirs)
        pairs = [*zip(mine, theirs, strict=True)] + [(result, expected)] * (expected is not None)
        for a, b in pairs:
            np.testing.assert_allclose(a.array, b.array, 1e-9, 1e-9)
    assert jitted.stats.compiled_calls == 3


def test_slices_are_written_in_place():
    jitted = fg.jit(_steps_a_wave)
    fields = [fg.randn(40, 40) for _ in range(2)]
    for _ in range(3):
        jitted(*fields)
    (leaf,) = jitted.segments()
    assert leaf.commit.rest == [] and jitted.memory_bytes() == 0


def _overlapping_later(jitted: bool) -> list[Any]:
    """What calls give and leave while memory comes to overlap, and lies apart again."""
    memory = np.zeros(8, np.float32)
    weight, other = fg.from_numpy(memory[:4]), fg.from_numpy(memory[4:])
    parts = [memory[:4], memory[4:], memory[2:6], memory[:4]]

    def call(x: fg.Tensor) -> fg.Tensor:
        weight.add_(x)
        other.mul_(2.0)
        other.add_(weight)
        return (weight * other).sum()

    step = fg.jit(call) if jitted else call
    seen: list[Any] = []
    batch = fg.tensor([1.0, -2.0, 0.5, 3.0])
    for part in parts:
        weight.data = fg.from_numpy(part)
        for given in (batch, batch, batch, fg.from_numpy(memory[1:5]), batch * 2, fg.from_numpy(part)):
            seen.append((step(given).item(), memory.tolist()))
            memory *= 0.25
    if jitted:
        assert step.stats.compiled_calls >= 6, step.explain()
    return seen


def test_memory_may_come_to_overlap_and_lie_apart_again():
    for ours, eagers in zip(_overlapping_later(True), _overlapping_later(False), strict=True):
        assert ours[0] == pytest.approx(eagers[0]) and ours[1] == pytest.approx(eagers[1])


@pytest.mark.parametrize("classes", [5, 40, 700])
def test_what_a_loop_picked_from_is_written_in_place_behind_it(classes: int):
    # The loss of each row reads the bias of its label; the bias is written when all rows are done.
    def step(bias: fg.Tensor, x: fg.Tensor, labels: fg.Tensor) -> fg.Tensor:
        bias.grad = None
        loss = fg.nn.functional.cross_entropy(x + bias, labels)
        loss.backward()
        with fg.no_grad():
            bias -= bias.grad * 0.5
        return loss.detach()

    draw, jitted = np.random.default_rng(0), fg.jit(step)
    x = fg.tensor(draw.standard_normal((300, classes)), dtype=fg.float32)
    labels = fg.tensor(draw.integers(0, classes, 300))
    ours, theirs = (fg.zeros(classes, requires_grad=True) for _ in range(2))
    for _ in range(4):
        losses = [jitted(ours, x, labels).item(), step(theirs, x, labels).item()]
        np.testing.assert_allclose(*losses, rtol=1e-5)
        np.testing.assert_allclose(*(t.detach().numpy() for t in (ours, theirs)), rtol=1e-5, atol=1e-6)
    assert jitted.stats.compiled_calls == 3
    *_, leaf = jitted.segments()
    assert leaf.commit.rest == []


VIEWS_OF_NUMPYS = {
    "another dtype": (lambda x: x.view(fg.int32), fg.float32),
    "another dtype twice": (lambda x: x.view(fg.int32).view(fg.float32), fg.float32),
    "other sizes": (lambda x: x.view(fg.int16), fg.float32),
    "real": (lambda x: x.real, fg.complex64),
    "imag": (lambda x: x.imag, fg.complex64),
    "as real": (fg.view_as_real, fg.complex64),
    "as complex": (lambda x: fg.view_as_complex(x.view(3, 2, 2)), fg.float32),
    "strided": (lambda x: x.as_strided((2, 2), (1, 2)), fg.float32),
    "expanded and strided": (lambda x: x.as_strided((2, 3), (0, 1)), fg.float32),
}


@pytest.mark.parametrize("name", VIEWS_OF_NUMPYS)
@pytest.mark.parametrize("writes", [False, True])
def test_views_of_a_copy_are_none_of_what_was_copied(name: str, writes: bool):
    view, dtype = VIEWS_OF_NUMPYS[name]

    def f(x: Any) -> Any:
        seen = view(x.clone())
        if writes:
            x.zero_()
        return seen

    jitted = fg.jit(f)
    for _ in range(5):
        x, same = (fg.arange(12).reshape(3, 4).to(dtype) for _ in range(2))
        found, expected = jitted(x), f(same)
        assert fg.equal(found, expected) and not np.may_share_memory(found.numpy(), x.numpy())
        x.fill_(7)
        assert fg.equal(found, expected)
    assert jitted.stats.compiled_calls == 4


ONTO_ITSELF = {
    "view": lambda z: z.view(1, *z.shape).copy_(z),
    "unsqueeze": lambda z: z.unsqueeze(0).add_(z),
    "None": lambda z: z[None].mul_(z),
    "transposed": lambda z: z.t().unsqueeze(0).copy_(z.t()),
    "part": lambda z: z[1:].unsqueeze(0).copy_(z[1:]),
    "row": lambda z: z[:1].copy_(z[0]),
    "assigned": lambda z: z.view(1, *z.shape).__setitem__(..., z),
}


@pytest.mark.parametrize("name", ONTO_ITSELF)
@pytest.mark.parametrize("size", [4, 600])
@pytest.mark.parametrize("is_argument", [False, True])
def test_a_tensor_is_written_onto_itself_through_one_more_dimension(name: str, size: int, is_argument: bool):
    def f(a: Any) -> Any:
        z = a if is_argument else a + 1
        ONTO_ITSELF[name](z)
        return z * 2

    jitted = fg.jit(f)
    for _ in range(5):
        x, same = (fg.rand(size, size) for _ in range(2))
        same.copy_(x)
        assert fg.equal(jitted(x), f(same)) and fg.equal(x, same)
    assert jitted.stats.compiled_calls >= 4


@pytest.mark.parametrize("copies", [1, 2, 3])
@pytest.mark.parametrize("assigns", [False, True])
@pytest.mark.parametrize("through", ["all", "a part"])
def test_an_alias_off_the_graph_that_got_on_it_is_still_an_alias_off_it(
    copies: int, assigns: bool, through: str
):
    def f(a: Any) -> Any:
        z = a * 1.0
        alias = z.detach()
        for _ in range(copies):
            alias.copy_(z)
        if assigns:
            (alias if through == "all" else alias[:1])[...] = a if through == "all" else a[:1]
        return alias * 1, z * 3

    jitted = fg.jit(f)
    for _ in range(4):
        gradients = []
        for function in (jitted, f):
            a = fg.ones(2, 2, requires_grad=True)
            sum(((x * x).sum() for x in function(a)), fg.zeros(())).backward()
            gradients.append(a.grad.tolist())
        assert gradients[0] == gradients[1]
