"""What a jitted function may ask of a tensor that it takes, besides its values: calls wait as one where the
answers are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fusegrad as fg

pytest.importorskip("greenlet")


def leaf(*shape: int) -> fg.Tensor:
    return fg.ones(*shape, requires_grad=True)


def with_gradient() -> fg.Tensor:
    x = leaf(3)
    x.sum().backward()
    return x


def with_tag() -> fg.Tensor:
    x: Any = fg.ones(3)
    x.tag = 1
    return x  # type: ignore[no-any-return]


def retaining() -> fg.Tensor:
    x = leaf(3) * 1
    x.retain_grad()
    return x


W = fg.randn(3, requires_grad=True)
# By what is asked: the question, and what makes tensors of which the answers differ.
QUESTIONS: dict[str, tuple[Callable[[Any], Any], tuple[Callable[[], fg.Tensor], ...]]] = {
    "isinstance": (
        lambda x: isinstance(x, fg.nn.Parameter),
        (lambda: fg.nn.Parameter(fg.ones(3)), lambda: leaf(3)),
    ),
    "type": (lambda x: type(x) is fg.Tensor, (lambda: fg.nn.Parameter(fg.ones(3)), lambda: leaf(3))),
    "is_leaf": (lambda x: x.is_leaf, (lambda: leaf(3), lambda: leaf(3) * 1)),
    "grad_fn": (lambda x: x.grad_fn is None, (lambda: leaf(3), lambda: leaf(3) * 1)),
    "name": (lambda x: "Mul" in x.grad_fn.name(), (lambda: leaf(3) + 1, lambda: leaf(3) * 1)),
    "grad": (lambda x: x.grad is None, (lambda: leaf(3), with_gradient)),
    "tag": (lambda x: hasattr(x, "tag"), (lambda: fg.ones(3), with_tag)),
    "version": (lambda x: x._version, (lambda: fg.ones(3), lambda: fg.ones(3).add_(0))),
    "base": (lambda x: x._base is None, (lambda: fg.ones(3), lambda: fg.ones(6)[:3])),
    "is": (lambda x: x is W, (lambda: leaf(3), lambda: W)),
    "retains_grad": (lambda x: x.retains_grad, (lambda: leaf(3) * 1, retaining)),
    "shape": (lambda x: x.ndim > 1, (lambda: fg.ones(3), lambda: fg.ones(1, 3))),
    "is_contiguous": (lambda x: x.is_contiguous(), (lambda: fg.ones(3), lambda: fg.ones(6)[::2])),
    "dtype": (lambda x: x.dtype is fg.float32, (lambda: fg.ones(3), lambda: fg.ones(3, dtype=fg.float64))),
    "requires_grad": (lambda x: x.requires_grad, (lambda: fg.ones(3), lambda: leaf(3))),
}


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("asked", QUESTIONS)
def test_each_call_has_the_answer_for_what_it_takes(asked: str, turned: bool) -> None:
    question, makers = QUESTIONS[asked]

    def plain(x: fg.Tensor) -> fg.Tensor:
        return x * W * 3 if question(x) else x + W

    cell = fg.jit(plain)
    xs = [make() for make in (makers[::-1] if turned else makers)] * 2
    for _ in range(3):
        found = fg.batched(lambda x: cell(x))(xs)
        assert all(fg.allclose(f, plain(x)) for f, x in zip(found, xs, strict=True))
