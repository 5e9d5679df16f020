"""Tensors from outside that a run only looks at: shape, dtype, layout and `requires_grad` are guarded."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler.paths.tree import Tree
from fusegrad.tracer.capture import api

# What can be asked of a tensor `w`, or of a module `m`, beside one `x` that is given.
QUESTIONS = """
w.requires_grad | not w.requires_grad | int(w.requires_grad) | getattr(w, "requires_grad")
fg.is_grad_enabled() and w.requires_grad | any(p.requires_grad for p in [w]) | m.weight.requires_grad
all(p.requires_grad for p in m.parameters()) | sum(p.numel() for p in m.parameters() if p.requires_grad)
w.shape[0] | w.size(0) | w.size()[0] | w.numel() | w.nelement() | len(w) | fg.numel(w) | w.shape.numel()
w.shape == x.shape | x.shape == w.shape | w.is_same_size(x) | list(w.shape)[0] | w.element_size() * w.numel()
w.stride(0) | w.stride()[0] | w.is_contiguous() | w.dtype == fg.float64 | w.element_size() | w.itemsize
w.nbytes | fg.get_default_dtype() == w.dtype | fg.finfo(w.dtype).eps | w.type() == "torch.FloatTensor"
fg.promote_types(w.dtype, fg.float32) == fg.float64 | fg.result_type(w, 1) == fg.float64
fg.zeros_like(w).numel() | fg.ones_like(w).sum() | fg.full_like(w, 2.0).sum() | w.new_ones(w.shape).sum()
fg.rand_like(w).numel() | w.new_tensor([1.0]).dtype == fg.float64 | x.new_zeros(len(w)).numel()
x.to(w).dtype == fg.float64 | x.type_as(w).dtype == fg.float64 | x.sum().expand_as(w).sum()
fg.broadcast_shapes(w.shape, (1,))[0] | w.T.shape[0] | w.unsqueeze(0).shape[1] | w.detach().shape[0]
"""
CHANGES: dict[str, Callable[[fg.Tensor], Any]] = {
    "requires_grad": lambda w: w.requires_grad_(not w.requires_grad),
    "shape": lambda w: setattr(w, "data", fg.ones(w.numel() + 2, dtype=w.dtype)),
    "dtype": lambda w: setattr(w, "data", w.data.to(fg.float64 if w.dtype == fg.float32 else fg.float32)),
    "layout": lambda w: setattr(w, "data", fg.ones(6)[:: 3 - w.stride(0)][:3]),
}
TEXT = """
import fusegrad as fg
def made(w, m):
    def f(x):
        answer = {question}
        return (x * 2).sum() + answer, answer
    return f
"""


def function_of(text: str, folder: Path, **given: Any) -> Callable[..., Any]:
    """What `made` of a file with this text gives: functions without a file are not followed."""
    path = folder / "asking.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("asking", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: Callable[..., Any] = module.made(**given)
    return made


def same(ours: Any, theirs: Any) -> bool:
    if not isinstance(theirs, fg.Tensor):
        return type(ours) is type(theirs) and bool(ours == theirs)
    alike = ours.dtype == theirs.dtype and ours.requires_grad == theirs.requires_grad
    return alike and np.array_equal(ours.detach().numpy(), theirs.detach().numpy())


def check_question(question: str, change: str, folder: Path) -> None:
    """Calls before a change, behind it, and when all is as it was: each as eager answers."""
    w, m, x = fg.ones(3).requires_grad_(), fg.nn.Linear(3, 1), fg.ones(3)
    function = function_of(TEXT.format(question=question), folder, w=w, m=m)
    jitted = fg.jit(function)
    for turn in range(3):
        if turn:
            CHANGES[change](w)
            if change == "requires_grad":
                CHANGES[change](m.weight)
        for _ in range(3):
            found = zip(jitted(x), function(x), strict=True)
            assert all(same(ours, theirs) for ours, theirs in found), (question, turn)
    assert jitted.stats.compiled_calls >= 3


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("question", [q for line in QUESTIONS.strip().split("\n") for q in line.split(" | ")])
def test_what_was_asked_is_asked_again(question: str, change: str, tmp_path: Path) -> None:
    check_question(question, change, tmp_path)


def test_tensors_that_are_not_asked_again_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "_met", lambda *_: [])
    with pytest.raises(AssertionError):
        check_question("w.requires_grad", "requires_grad", tmp_path)


def branched(x: fg.Tensor, w: fg.Tensor, b: fg.Tensor) -> fg.Tensor:
    """Two ways, of which one may first be met when a parameter is frozen."""
    h = (x * w * b).sum()
    return h * 2 if h > 0 else h * 3


def check_frozen(first: bool, second: bool, later: bool) -> None:
    """Whether `b` requires grad when each way is met first, and later."""
    w, b = fg.ones(3).requires_grad_(), fg.ones(3).requires_grad_(first)

    @fg.jit
    def jitted(x: fg.Tensor) -> fg.Tensor:
        return branched(x, w, b)

    jitted(fg.ones(3))
    b.requires_grad_(second)
    jitted(-fg.ones(3))
    b.requires_grad_(later)
    for sign in (1, -1, 1, -1, 1, -1):
        found = []
        for function in (jitted, lambda x: branched(x, w, b)):
            w.grad = b.grad = None
            function(sign * fg.ones(3)).backward()
            found.append([None if t.grad is None else t.grad.tolist() for t in (w, b)])
        assert found[0] == found[1]


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_ways_that_were_met_when_others_were_frozen(first: bool, second: bool, later: bool) -> None:
    check_frozen(first, second, later)


def test_ways_that_share_what_was_something_else_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tree, "_finds_the_same", lambda *_: True)
    with pytest.raises(AssertionError):
        check_frozen(True, False, True)
