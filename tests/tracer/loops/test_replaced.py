"""In-place arithmetic of rounds: rolled where nobody can tell, done in place where one can."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.eager.core.pytree import flatten

ROUNDS = 200
Loop = Callable[..., Any]


def leaves(result: Any) -> list[fg.Tensor]:
    found: list[fg.Tensor] = []
    flatten(result, found)
    return found


def losses(x: fg.Tensor, w: fg.Tensor) -> Any:
    total = 0.0
    for t in range(len(x)):
        total += ((x[t] * w).tanh() ** 2).sum()
    return total


def decayed(x: fg.Tensor, w: fg.Tensor) -> Any:
    h = w * 1
    for t in range(len(x)):
        h *= 0.9
        h -= x[t] / 3
        h /= 1.01
    h += 1
    return (h * w).sum()


def from_zeros(x: fg.Tensor, w: fg.Tensor) -> Any:
    total, h = fg.zeros(3, dtype=x.dtype), w
    for t in range(len(x)):
        h = (h + x[t]).tanh()
        total += h
    total /= len(x)
    return (total * w).sum()


def of_a_broadcast(x: fg.Tensor, w: fg.Tensor) -> Any:
    total = x[:2] * w
    for t in range(len(x)):
        total += x[t] * total.sum() * 0.01
    return total.sum()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("function", [losses, decayed, from_zeros, of_a_broadcast])
@pytest.mark.parametrize("derived", [True, False])
def test_it_is_rolled(function: Loop, derived: bool) -> None:
    called = fg.value_and_grad(function, (0, 1)) if derived else function
    jitted, x = fg.jit(called), (fg.randn(ROUNDS, 3, dtype=fg.float64), fg.randn(3, dtype=fg.float64))
    for _ in range(3):
        expected, found = (leaves(f(*x)) for f in (called, jitted))
        for a, b in zip(expected, found, strict=True):
            np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-9, atol=1e-12)
    assert "rounds of a loop" in str(jitted.explain())


def test_it_goes_on_the_graph_of_a_backward_that_follows() -> None:
    x = fg.randn(ROUNDS, 3, dtype=fg.float64)
    jitted, gradients = fg.jit(losses), []
    for function in (losses, jitted, jitted, jitted):
        w = fg.ones(3, dtype=fg.float64, requires_grad=True)
        function(x, w).backward()
        gradients.append(w.grad.numpy())
    for found in gradients[1:]:
        np.testing.assert_allclose(found, gradients[0], rtol=1e-9, atol=1e-12)


# Somebody can tell.


def another_name(x: fg.Tensor, w: fg.Tensor) -> Any:
    total = w * 1
    other = total
    for t in range(len(x)):
        total += x[t]
        other = other * 0.5 + total
    return total, other


def a_name_before(x: fg.Tensor, w: fg.Tensor) -> Any:
    total = w * 1
    other = total
    for t in range(len(x)):
        total += x[t]
    return total, other


def a_view(x: fg.Tensor, w: fg.Tensor) -> Any:
    total = w * 1
    part = total[:2]
    for t in range(len(x)):
        total += x[t]
    return total, part


def a_view_in_a_round(x: fg.Tensor, w: fg.Tensor) -> Any:
    total = w * 1
    for t in range(len(x)):
        part = total[:2]
        total += x[t]
    return total, part


def what_it_is_a_view_of(x: fg.Tensor, w: fg.Tensor) -> Any:
    whole = x[:2] * 1
    total = whole[0]
    for t in range(len(x)):
        total += x[t]
    return total, whole


def an_argument(x: fg.Tensor, w: fg.Tensor) -> Any:
    for t in range(len(x)):
        w += x[t]
    return w * 2, w


def a_list(x: fg.Tensor, w: fg.Tensor) -> Any:
    total, items = w * 1, []
    for t in range(len(x)):
        total += x[t]
        items.append(total)
    return total, items[3], items[-1]


def an_item(x: fg.Tensor, w: fg.Tensor) -> Any:
    total = w * 1
    items = [total]
    for t in range(len(x)):
        total += x[t]
    return total, items[0]


class Holder:
    h: Any = None


def an_attribute(x: fg.Tensor, w: fg.Tensor) -> Any:
    total, holder = w * 1, Holder()
    holder.h = total
    for t in range(len(x)):
        total += x[t]
        last = holder.h * 1
    return total, holder.h, last


def detached(x: fg.Tensor, w: fg.Tensor) -> Any:
    total = w * 1
    other = total.detach()
    for t in range(len(x)):
        total += x[t]
    return total, other


def lent(x: fg.Tensor, w: fg.Tensor) -> Any:
    total = fg.zeros(3, dtype=fg.float64)
    memory = total.numpy()
    for t in range(len(x)):
        total += x[t]
    return total, fg.tensor(memory)


def a_function(x: fg.Tensor, w: fg.Tensor) -> Any:
    def add(total: fg.Tensor) -> None:
        for t in range(len(x)):
            total += x[t]

    total = w * 1
    add(total)
    return total


def whole_numbers(x: fg.Tensor, w: fg.Tensor) -> Any:
    count = fg.zeros(3, dtype=fg.int64)
    for _ in range(len(x)):
        count += 2
    return count, x.sum() * 0


def narrow(x: fg.Tensor, w: fg.Tensor) -> Any:
    total = fg.zeros(3, dtype=fg.float32)
    for t in range(len(x)):
        total += x[t]
    return total


def without_gradients(x: fg.Tensor, w: fg.Tensor) -> Any:
    total = w * 1
    with fg.no_grad():
        for _ in range(len(x)):
            total *= 0.99
    return (total * w).sum(), total


def in_another_order(x: fg.Tensor, w: fg.Tensor) -> Any:
    total = fg.zeros(3, 2, dtype=fg.float64).t() * 1
    for t in range(len(x)):
        total += x[t, 0]
    return fg.as_strided(total, (6,), (1,)), w


def another_name_in_the_end(x: fg.Tensor, w: fg.Tensor) -> Any:
    total, other = w * 1, w
    for t in range(len(x)):
        if t == len(x) - 2:
            other = total
        total += x[t]
    return other * 1 + total


def in_inference(x: fg.Tensor, w: fg.Tensor) -> Any:
    total = fg.zeros(3, dtype=fg.float64)
    with fg.inference_mode():
        for _ in range(len(x)):
            total += 1.0
    return total * w


def with_data(x: fg.Tensor, w: fg.Tensor) -> Any:
    total, states = w * 1, []
    for t in range(len(x)):
        total += x[t]
        states.append(total.data)
    return fg.stack(states), total


CAN_TELL = [
    without_gradients, in_another_order, another_name_in_the_end, in_inference, with_data,
    another_name, a_name_before, a_view, a_view_in_a_round, what_it_is_a_view_of, an_argument, a_list,
    an_item, an_attribute, detached, lent, a_function, whole_numbers, narrow,
]  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("function", CAN_TELL)
@pytest.mark.parametrize("tracked", [False, True])
def test_whoever_has_its_memory_sees_the_writes(function: Loop, tracked: bool) -> None:
    jitted = fg.jit(function)
    x = fg.randn(ROUNDS, 3, dtype=fg.float64)
    for _ in range(3):
        results = []
        for called in (function, jitted):
            # A leaf is not written in place, what is computed of it is.
            leaf = fg.ones(3, dtype=fg.float64, requires_grad=tracked)
            found = leaves(called(x, leaf * 1 if tracked else leaf))
            loss = sum((f.to(fg.float64) ** 2).sum() for f in found)
            if tracked and loss.requires_grad:
                loss.backward()
            results.append([*(f.detach().numpy() for f in found), leaf.grad])
        for a, b in zip(*results, strict=True):
            if a is not None:
                np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-12)


def kept_for_backward(x: fg.Tensor, w: fg.Tensor) -> fg.Tensor:
    total, loss = w * 1, 0.0
    for t in range(len(x)):
        loss = loss + (total * w).sum()  # keeps `total`
        total += x[t]
    return loss


def a_function_that_keeps_its_result(x: fg.Tensor, w: fg.Tensor) -> fg.Tensor:
    for t in range(len(x)):
        h = (x[t] * w).exp()
        h += 1
    return h.sum()


def a_leaf(x: fg.Tensor, w: fg.Tensor) -> fg.Tensor:
    leaf = fg.zeros(3, dtype=fg.float64, requires_grad=True)
    for t in range(len(x)):
        leaf += x[t]
    return leaf.sum()


def of_inference(x: fg.Tensor, w: fg.Tensor) -> fg.Tensor:
    with fg.inference_mode():
        total = fg.zeros(3, dtype=fg.float64)
    for t in range(len(x)):
        total += x[t]
    return (total * w).sum()


@pytest.mark.parametrize(
    "function", [of_inference, kept_for_backward, a_function_that_keeps_its_result, a_leaf]
)
def test_what_eager_refuses_is_refused(function: Loop) -> None:
    x, jitted = fg.randn(ROUNDS, 3, dtype=fg.float64), fg.jit(function)
    for called in (function, jitted, jitted):
        with pytest.raises(RuntimeError, match=r"(?i)in-place|inplace"):
            called(x, fg.ones(3, dtype=fg.float64, requires_grad=True)).backward()


def test_writes_into_what_has_no_values_yet_are_not_asked_for_their_memory() -> None:
    """Though a compiled call is on the graph of somebody, whom writes are told of."""

    def product(a: fg.Tensor, b: fg.Tensor) -> fg.Tensor:
        return (a * b).sin().sum()

    jitted, leaf = fg.jit(product), fg.randn(3, requires_grad=True)
    kept = [jitted(leaf, fg.randn(3)) for _ in range(3)]
    told = fg.zeros(3)
    told.detach()
    told += 1

    def large(x: fg.Tensor) -> Any:
        y = x * 1
        data = y.data
        y += 1
        return y, data

    x, jitted = fg.randn(512, 512), fg.jit(large)
    for _ in range(3):
        y, data = jitted(x)
        assert fg.equal(y, x + 1) and fg.equal(data, y)
    assert kept[-1].grad_fn is not None
