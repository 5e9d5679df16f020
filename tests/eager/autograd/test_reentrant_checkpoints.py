"""`checkpoint` by each `use_reentrant`, beside PyTorch: who gets gradients, and what is said."""

from __future__ import annotations

import importlib
import itertools
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from oracle import torch

import fusegrad as fg


class World:
    def __init__(self, t: Any) -> None:
        self.t = t
        self.weight = t.full((3,), 2.0, requires_grad=True)
        self.checkpoint = importlib.import_module(f"{t.__name__}.utils.checkpoint")

    def off(self, x: Any) -> Any:
        with self.t.no_grad():
            return (x * self.weight).exp()


FUNCTIONS: dict[str, Callable[[World, Any], Any]] = {
    "of a weight": lambda w, x: (x * w.weight).exp(),
    "of a weight, off the graph": World.off,
    "two results": lambda w, x: ((x * w.weight).exp(), x * x),
    "two results, one off the graph": lambda w, x: ((x * w.weight).exp(), w.off(x)),
    "a whole number beside": lambda w, x: ((x * w.weight).exp(), w.t.ones(3, dtype=w.t.int64)),
}
ENDS: dict[str, Callable[[World, Any, Any], Any]] = {
    "backward": lambda w, loss, x: loss.backward(),
    "backward to inputs": lambda w, loss, x: loss.backward(inputs=[w.weight]),
    "grad": lambda w, loss, x: setattr(w.weight, "grad", w.t.autograd.grad(loss, [w.weight])[0]),
    "twice": lambda w, loss, x: (loss.backward(retain_graph=True), loss.backward()),
}
WORDS = (
    "is incompatible with .grad() or passing an `inputs` parameter",
    "none of output has requires_grad=True, this checkpoint() is not necessary",
    "does not require grad",
    "appears to not have been used in the graph",
    "the use_reentrant parameter should be passed explicitly",
    "None of the inputs have requires_grad=True. Gradients will be None",
)


def words_of(texts: list[str]) -> set[str]:
    return {part for text in texts for part in WORDS if part in text}


def outcome(t: Any, function: str, end: str, needs: bool, beside: bool, reentrant: bool | None) -> Any:
    """Gradients, errors and warnings. beside: whether something else brings the loss onto the graph."""
    world = World(t)
    x, other = t.ones(3, requires_grad=needs), t.ones(3, requires_grad=True)
    chosen = {} if reentrant is None else {"use_reentrant": reentrant}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = world.checkpoint.checkpoint(lambda x: FUNCTIONS[function](world, x), x, **chosen)
        try:
            loss = sum(part.sum() for part in (made if isinstance(made, tuple) else (made,)))
            ENDS[end](world, loss + other.sum() if beside else loss, x)
            error = set()
        except RuntimeError as raised:
            error = words_of([str(raised)])
            assert error, raised
    gradients = [
        None if g is None else f"{g.tolist()[0]:.5g}" for g in (x.grad, world.weight.grad, other.grad)
    ]
    return gradients, error, words_of([str(w.message) for w in caught])


@pytest.mark.parametrize("reentrant", [True, False, None])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_who_gets_gradients_is_as_in_pytorch(function: str, reentrant: bool | None) -> None:
    for end, needs, beside in itertools.product(ENDS, (True, False), (True, False)):
        case = (function, end, needs, beside, reentrant)
        ours, theirs = outcome(fg, *case), outcome(torch, *case)
        if ours[1] == {WORDS[0]}:
            assert theirs[0][1] is None, case  # PyTorch refuses it, or says nothing
        else:
            assert ours == theirs, case


def test_what_goes_with_one_kind_alone_is_refused() -> None:
    for t in (fg, torch):
        checkpoint = World(t).checkpoint.checkpoint
        x = t.ones(3, requires_grad=True)
        with pytest.raises(ValueError, match="Unexpected keyword arguments: y"):
            checkpoint(lambda x, y: x * y, x, y=2.0, use_reentrant=True)
        with pytest.raises(ValueError, match="only supported when use_reentrant=False"):
            checkpoint(lambda x: x * 2, x, use_reentrant=True, debug=True)


def test_errors_list_the_ops_of_both_runs() -> None:
    lengths = iter([3, 2])
    world, x = World(fg), fg.ones(3, requires_grad=True)

    def function(x: fg.Tensor) -> fg.Tensor:
        for _ in range(next(lengths)):
            x = x.exp()
        return x

    with world.checkpoint.set_checkpoint_debug_enabled(True):
        made = world.checkpoint.checkpoint(function, x, use_reentrant=False)
    with pytest.raises(world.checkpoint.CheckpointError) as caught:
        made.sum().backward()
    first, second = str(caught.value).split("Operations executed during recomputation")
    assert first.count("exp(float32[3])  at ") == 3 and second.count("exp(float32[3])") == 2
    assert "x = x.exp()" in first
