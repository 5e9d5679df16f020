"""The shortcut of a replay answers exactly the calls that it was written for."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler.fastpath.entry import _EntryWriter
from fusegrad.compiler.jit import JitFunction
from fusegrad.compiler.native.match import Match
from fusegrad.compiler.paths import replay
from fusegrad.compiler.paths.segments import MISSED
from fusegrad.eager.optim.adaptive import Adam

SCALE = 2.0
WEIGHT = fg.tensor([1.0, 2.0, 3.0])


def product(x: Any, y: Any = 1.0) -> Any:
    return x * y * SCALE


def shortened(f: Callable[..., Any], *args: Any) -> Any:
    """`f` jitted, with a shortcut for `args`."""
    jitted = fg.jit(f)
    for _ in range(6):
        jitted(*args)
    assert taken(jitted, *args), jitted.explain()
    return jitted


def taken(jitted: Any, *args: Any) -> bool:
    """Whether the shortcut answers; it counts as a call."""
    return jitted._answer is not None and jitted._answer(args) is not MISSED


def same(a: Any, b: Any) -> None:
    assert type(a) is type(b)
    if isinstance(a, (list, tuple)):
        for x, y in zip(a, b, strict=True):
            same(x, y)
    else:
        assert a.dtype == b.dtype and a.requires_grad == b.requires_grad
        assert a.tolist() == b.tolist()


X = fg.tensor([1.0, 2.0, 3.0])
CALLS: dict[str, tuple[Any, ...]] = {
    "the same": (X, X * 2),
    "others of the type": (X + 1, X - 1),
    "a number": (X, 2.0),
    "more elements": (fg.ones(4), fg.ones(4)),
    "another rank": (fg.ones(1, 3), X),
    "another dtype": (X.double(), X),
    "other strides": (fg.ones(3, 2)[:, 0], X),
    "backwards in memory": (fg.from_numpy(np.arange(3.0, dtype=np.float32)[::1]), X),
    "a gradient wanted": (X.clone().requires_grad_(), X * 2),
    "one tensor twice": (X, X),
    "one memory twice": (X, X.view(3)),
    "fewer": (X,),
    "a parameter": (fg.nn.Parameter(X.clone(), requires_grad=False), X * 2),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_of_other_kinds_are_answered_as_ever(name: str):
    g = shortened(product, X, X * 2)
    assert taken(g, *CALLS[name]) is (
        name in ("the same", "others of the type", "one memory twice", "backwards in memory")
    )
    same(g(*CALLS[name]), product(*CALLS[name]))
    same(g(X, X * 2), product(X, X * 2))


def test_what_is_no_tensor_does_not_match():
    g = shortened(product, X)
    for other in (None, 3, "x", np.ones(3, np.float32), [X], object, Adam):
        assert not taken(g, other)
    with pytest.raises(TypeError):
        g(None)
    broken = X.clone()
    del broken.array
    assert not taken(g, broken)
    del broken.version
    assert not taken(g, broken)


@pytest.mark.parametrize(
    "number", [1, True, 1.0, 0.0, -0.0, math.nan, None, "mean", 10**30, (1, 2), 1 + 0j, np.float32(1)]
)
def test_plain_arguments_are_compared_by_type_and_bits(number: Any):
    def f(x, n):
        return x * 2 if n else x * 3

    g = shortened(f, X, number)
    for other in (1, True, 1.0, 0.0, -0.0, math.nan, None, "mean", 10**30, (1, 2), 1 + 0j, np.float32(1)):
        alike = type(other) is type(number) and repr(other) == repr(number)
        assert taken(g, X, other) is alike
        same(g(X, other), f(X, other))


class Pair(NamedTuple):
    a: Any
    b: Any


def test_containers_are_taken_apart():
    def f(p, q):
        return [p["w"] * q[0], (p["b"] + q[1][0],)]

    def args() -> tuple[Any, Any]:
        return {"w": X * 2, "b": X + 1}, [X * 3, (X,)]

    g = shortened(f, *args())
    same(g(*args()), f(*args()))
    p, q = args()
    for other in (
        ({"b": p["b"], "w": p["w"]}, q),
        (OrderedDict(p), q),
        ({**p, "more": X}, q),
        (p, tuple(q)),
        (p, [*q, X]),
        (p, [q[0], [X]]),
        (p, Pair(*q)),
    ):
        assert not taken(g, *other)
        same(g(*other), f(*other))


def test_objects_are_held_weakly_and_compared_by_identity():
    class Model:
        def __init__(self, scale: float) -> None:
            self.scale = scale

    def f(model, x):
        return x * model.scale

    one, other = Model(2.0), Model(3.0)
    g = shortened(f, one, X)
    same(g(other, X), X * 3)
    same(g(one, X), X * 2)
    one.scale = 5.0
    assert not taken(g, one, X)
    same(g(one, X), X * 5)


def test_modes_are_looked_at():
    g = shortened(product, X)
    for mode in (fg.no_grad(), fg.inference_mode()):
        with mode:
            assert not taken(g, X)
            same(g(X), product(X))
    with fg.inference_mode():
        made = X * 1
        with fg.enable_grad():
            assert not taken(g, X)
    assert not taken(g, made)
    same(g(made), product(made))
    fg.set_default_dtype(fg.float64)
    try:
        assert not taken(g, X)
        same(g(X), product(X))
    finally:
        fg.set_default_dtype(fg.float32)
    outer = fg.jit(lambda x: g(x) + 1)
    for _ in range(3):
        same(outer(X), product(X) + 1)


def test_what_the_function_reads_is_looked_at(monkeypatch: pytest.MonkeyPatch):
    g = shortened(product, X)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert not taken(g, X)
    same(g(X), X * 3)
    monkeypatch.delitem(globals(), "SCALE")
    with pytest.raises(NameError):
        g(X)


def test_tensors_from_outside_are_read_where_they_are_now(monkeypatch: pytest.MonkeyPatch):
    weight = fg.tensor([1.0, 2.0, 3.0])
    monkeypatch.setitem(globals(), "WEIGHT", weight)

    def f(x):
        return x * WEIGHT

    g = shortened(f, X)
    weight.add_(1)
    assert taken(g, X)
    same(g(X), f(X))
    weight.requires_grad_()
    assert not taken(g, X)
    same(g(X), f(X))
    monkeypatch.setitem(globals(), "WEIGHT", fg.ones(1))
    same(g(X), f(X))


def test_results_on_the_graph_are_derived_as_ever():
    def f(x, w):
        return fg.tanh(x @ w), (x * 2).sum(0)

    def args() -> list[fg.Tensor]:
        return [t.clone().requires_grad_() for t in (fg.ones(2, 3), fg.ones(3, 3) * 0.1)]

    g = shortened(f, *args())
    for derive in (
        lambda y, z: (y.sum() + z.sum()).backward(),
        lambda y, z: z.sum().backward(),
        lambda y, z: (y * z).sum().backward(),
        lambda y, z: [y.sum().backward(retain_graph=True), y.sum().backward()],
        lambda y, z: fg.autograd.grad(y.sum(), y.grad_fn and [y], create_graph=True),
    ):
        ours, theirs = args(), args()
        assert taken(g, *ours)
        derive(*g(*ours))
        derive(*f(*theirs))
        for a, b in zip(ours, theirs, strict=True):
            assert (a.grad is None) == (b.grad is None)
            if a.grad is not None:
                np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-6)


# Which of a hundred calls are derived, and how many of these go the long way: until it is known whether
# backward follows, and where that changes.
HABITS: dict[str, tuple[Callable[[int], bool], int]] = {
    "always": (lambda call: True, 6),
    "never": (lambda call: False, 6),
    "every second time": (lambda call: call % 2 == 0, 12),
    "once in ten times": (lambda call: call % 10 == 9, 6),
    "no more from some call on": (lambda call: call < 30, 8),
    "from some call on": (lambda call: call >= 30, 10),
}


@pytest.mark.parametrize("habit", HABITS)
def test_a_loss_has_a_shortcut_whether_it_is_derived_or_not(habit: str, monkeypatch: pytest.MonkeyPatch):
    def loss(x):
        return (x * x).sum()

    answers, long_way = replay.run, []
    monkeypatch.setattr(replay, "run", lambda *args: long_way.append(1) or answers(*args))
    (derived, most), g = HABITS[habit], fg.jit(loss)
    for call in range(101):
        x = (X + call).requires_grad_()
        y = g(x)
        if derived(call):
            y.backward()
            same(x.grad, (X + call) * 2)
        np.testing.assert_allclose(y.item(), loss(X + call).item(), rtol=1e-6)
    assert g.stats.compiled_calls == 100 and len(long_way) <= most
    x = X.clone().requires_grad_()
    assert taken(g, x)
    # One program for both, where both are wanted.
    at_once = derived(99) and derived(100)
    assert g(x).grad_fn.filled is not at_once
    (first,) = fg.autograd.grad(g(x), x, create_graph=True)
    (second,) = fg.autograd.grad(first.sum(), x)
    same(second, fg.ones(3) * 2)


def test_gradients_that_are_other_tensors_have_memory_of_their_own():
    def loss(x, y):
        return (x * y).sum() + y.sum() * 0

    g = fg.jit(loss)
    for _ in range(12):
        x, y = X.clone().requires_grad_(), (X + 1).requires_grad_()
        g(x, y).backward()
    x.grad.mul_(5)
    y.grad.add_(1)
    same(x.detach(), X)
    same(y.detach(), X + 1)


def test_results_are_fresh_and_counted():
    g = shortened(lambda x: (x + 1, [x[1:] * 1, x.sum()]), X)
    before = g.stats.calls, g.stats.compiled_calls
    first, second = g(X), g(X)
    first[0].mul_(0)
    same(second, (X + 1, [X[1:], X.sum()]))
    assert (g.stats.calls, g.stats.compiled_calls) == (before[0] + 2, before[1] + 2)


def test_large_results_and_ops_of_numpy():
    big = fg.randn(300, 400)

    def f(x):
        return x.exp(), x.sort(1).values, x.T * 2

    g = shortened(f, big)
    for x in (big, fg.randn(300, 400)):
        for a, b in zip(g(x), f(x), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5)
            assert a.stride() == b.stride()


def test_an_op_that_refuses_its_input_raises_as_in_eager():
    def f(x):
        return fg.linalg.cholesky(x)

    g = shortened(f, fg.eye(3))
    with pytest.raises(RuntimeError, match="cholesky"):
        g(-fg.eye(3))
    same(g(fg.eye(3)), fg.eye(3))


def test_numbers_of_calls_and_clear():
    g = shortened(product, X)
    g.clear()
    assert g._answer is None
    same(g(X), product(X))


def test_two_kinds_of_calls_in_turn():
    g = fg.jit(product)
    for _ in range(8):
        same(g(X), product(X))
        same(g(fg.ones(2, 2)), product(fg.ones(2, 2)))
    assert g.stats.compiled_calls == 14 and g.stats.calls == 16


def test_match_reads_shapes_strides_and_classes():
    tensors = [fg.ones(2, 3), fg.zeros(()), fg.ones(3, 2).T]
    matches = Match(tensors).matches
    assert matches(*tensors) is True
    assert matches(fg.zeros(2, 3), fg.ones(()), fg.zeros(3, 2).T) is True
    assert matches(tensors[2], tensors[1], tensors[0]) is False
    assert matches(tensors[0], tensors[1], tensors[0]) is False
    assert matches(tensors[0], 1.0, tensors[2]) is False


def test_labels_out_of_range_are_refused_by_eagers_own_line():
    def f(x, labels):
        return fg.nn.functional.cross_entropy(x, labels) + x.gather(1, labels[:, None]).sum()

    x = fg.randn(4, 3)
    g = shortened(f, x, fg.tensor([0, 1, 2, 0]))
    for labels in ([2, 2, 1, 0], [0, 1, 3, 0], [3, 0, 0, 0], [-1, 0, 0, 0], [1, 0, 0, 0]):
        outcomes = []
        for either in (g, f):
            try:
                outcomes.append(either(x, fg.tensor(labels)).item())
            except (IndexError, RuntimeError) as error:
                outcomes.append(str(error))
        expected = pytest.approx(outcomes[1], rel=1e-6) if type(outcomes[1]) is float else outcomes[1]
        assert outcomes[0] == expected


def test_another_thread_may_take_a_shortcut_away_between_two_looks():
    class Flickering(JitFunction):
        looks = 0

        @property
        def _answer(self) -> Any:
            self.looks += 1
            return (lambda args: MISSED) if self.looks % 2 else None

        @_answer.setter
        def _answer(self, answer: Any) -> None:
            pass

    g = Flickering(product)
    for _ in range(9):
        same(g(X), product(X))


@pytest.mark.usefixtures("faults_are_covered")
def test_a_fault_of_the_writer_is_not_one_of_the_users_program(monkeypatch: pytest.MonkeyPatch):
    def fails(writer: Any, args: Any) -> str:
        raise KeyError("a bug")

    monkeypatch.setattr(_EntryWriter, "write_call", fails)
    g = fg.jit(product)
    for _ in range(8):
        same(g(X), product(X))
    assert g.stats.compiled_calls == 7 and g._answer is None
