"""Rounds may look things up, where the whole numbers that they look up are known to be there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad import nn
from fusegrad.nn import functional as F

ROUNDS, CLASSES = 150, 5
Round = Callable[[fg.Tensor, fg.Tensor, fg.Tensor], fg.Tensor]


def class_of(h: fg.Tensor, w: fg.Tensor, i: fg.Tensor) -> fg.Tensor:
    """What is chosen is looked up in turn."""
    chosen = (h @ w[i].T).argmax(-1)
    return fg.tanh(h * 0.5 + w[chosen])


ROUND: dict[str, Round] = {
    "rows": lambda h, w, i: fg.tanh(h + w[i]),
    "embedding": lambda h, w, i: fg.tanh(h + F.embedding(i, w)),
    "index_select": lambda h, w, i: fg.tanh(h + w.index_select(0, i)),
    "one row": lambda h, w, i: fg.tanh(h + w[i[0]]),
    "two places": lambda h, w, i: fg.tanh(h + w[i[0]] + w[i[1], 0]),
    "elements": lambda h, w, i: fg.tanh(h + w[i, i % 3][:, None]),
    "gather": lambda h, w, i: fg.tanh(h + w.gather(0, i[:, None].expand(2, 3))),
    "cross_entropy": lambda h, w, i: fg.tanh(h * F.cross_entropy(h @ w.T, i) + w[0]),
    "nll_loss": lambda h, w, i: h * 0.9 + F.nll_loss(F.log_softmax(h @ w.T, -1), i) * w[:2],
    "one_hot": lambda h, w, i: fg.tanh(h + F.one_hot(i, CLASSES).double() @ w),
    "whole numbers": lambda h, w, i: fg.tanh(h + w[(i * 3 + 1) // 2 % 2]),
    "what was chosen": class_of,
    "index_add": lambda h, w, i: fg.tanh(h + w.index_add(0, i, h)[:2]),
}


def walk(round_: Round) -> Callable[..., fg.Tensor]:
    def function(h: fg.Tensor, w: fg.Tensor, i: fg.Tensor) -> fg.Tensor:
        for t in range(len(i)):
            h = round_(h, w, i[t])
        return (h * h).sum()

    return function


def given(seed: int) -> tuple[fg.Tensor, fg.Tensor, fg.Tensor]:
    draw = np.random.default_rng(seed)
    h, w = draw.standard_normal((2, 3)), draw.standard_normal((CLASSES, 3))
    return fg.tensor(h), fg.tensor(w), fg.tensor(draw.integers(0, CLASSES, (ROUNDS, 2)))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", ROUND)
@pytest.mark.parametrize("derived", [False, True])
def test_they_are_rolled(name: str, derived: bool) -> None:
    function = walk(ROUND[name])
    called: Any = fg.value_and_grad(function, (0, 1)) if derived else function
    jitted = fg.jit(called)
    for seed in range(3):
        expected, found = called(*given(seed)), jitted(*given(seed))
        pairs = zip((expected[0], *expected[1]), (found[0], *found[1]), strict=True) if derived else ()
        for a, b in pairs or [(expected, found)]:
            np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-9, atol=1e-11)
    assert "was not rolled" not in str(jitted.explain()), jitted.explain()
    assert jitted.stats.compiles == 1 and jitted.stats.compiled_calls >= 2


class Language(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        fg.manual_seed(0)
        self.table, self.cell, self.out = nn.Embedding(9, 4), nn.GRUCell(4, 6), nn.Linear(6, 9)

    def forward(self, tokens: fg.Tensor) -> fg.Tensor:
        h, loss = fg.zeros(tokens.shape[1], 6), fg.zeros(())
        for t in range(len(tokens) - 1):
            h = self.cell(self.table(tokens[t]), h)
            loss = loss + F.cross_entropy(self.out(h), tokens[t + 1], ignore_index=0)
        return loss


def test_a_language_model() -> None:
    model = Language()
    jitted = fg.jit(model)
    for seed in range(3):
        tokens = fg.tensor(np.random.default_rng(seed).integers(1, 9, (ROUNDS, 2)))
        found = []
        for called in (model, jitted):
            loss = called(tokens)
            loss.backward()
            found.append([loss.detach().numpy(), *(p.grad.numpy().copy() for p in model.parameters())])
            model.zero_grad(set_to_none=True)
        for a, b in zip(*found, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-3, atol=1e-5)
    assert "was not rolled" not in str(jitted.explain()), jitted.explain()


@pytest.mark.parametrize("bad", [CLASSES, -CLASSES - 1])
def test_what_is_not_there_is_refused_where_it_is_looked_up(bad: int) -> None:
    seen: list[str] = []

    def function(h: fg.Tensor, w: fg.Tensor, i: fg.Tensor) -> fg.Tensor:
        try:
            for t in range(len(i)):
                h = fg.tanh(h + w[i[t]])
        except IndexError as error:
            seen.append(str(error))
            return h
        return h * 2

    jitted = fg.jit(function)
    for place in (None, None, 100, None, 3):
        h, w, i = given(0)
        if place is not None:
            i[place, 1] = bad
        expected = function(h, w, i)
        seen.clear()
        np.testing.assert_allclose(jitted(h, w, i).numpy(), expected.numpy(), rtol=1e-12)
        assert len(seen) == (place is not None)
        assert all(f"index {bad} is out of bounds" in text for text in seen)


def test_numbers_that_are_written_meanwhile_are_looked_at_anew() -> None:
    def function(h: fg.Tensor, w: fg.Tensor, i: fg.Tensor) -> fg.Tensor:
        i = i.clone()
        for t in range(len(i)):
            h = fg.tanh(h + w[i[t]])
            if t == 120:
                i[130] = i[130] - 100
        return h

    jitted = fg.jit(function)
    for _ in range(3):
        with pytest.raises(IndexError, match="out of bounds"):
            jitted(*given(0))
