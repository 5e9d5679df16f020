"""Functions that go into inference mode by themselves: what a replay gives is of the mode that eager's is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from oracle import torch

import fusegrad as fg

BODIES: dict[str, Callable[[Any, Any], Any]] = {
    "computed": lambda T, x: x * 2,
    "two": lambda T, x: (x * 2, x.sum()),
    "a view of what was there": lambda T, x: x[1:],
    "a view of what was computed": lambda T, x: (x * 2)[1:],
    "one memory twice": lambda T, x: (lambda y: (y, y.detach()))(x * 2),
    "made of numbers": lambda T, x: T.ones(2),
    "the argument": lambda T, x: x,
    "written": lambda T, x: x.add_(1),
    "in a list": lambda T, x: [x + 1, {"a": x - 1}],
}


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, (list, tuple)) else [value]


def shown(lib: Any, jit: Callable[..., Any], body: Callable[[Any, Any], Any]) -> list[Any]:
    """Of some calls, for each tensor that comes out: its mode, and whether backward takes it."""

    @jit
    def decorated(x: Any) -> Any:
        return lib.inference_mode()(lambda: body(lib, x))(), x * 3

    @jit
    def within(x: Any) -> Any:
        with lib.inference_mode():
            return body(lib, x)

    found: list[Any] = []
    for function in (decorated, within):
        for step in range(4):
            for tensor in leaves(function(lib.ones(3) * step)):
                try:
                    (tensor * lib.ones(1, requires_grad=True)).sum().backward()
                    taken = True
                except RuntimeError:
                    taken = False
                found.append((tensor.is_inference(), taken, tensor.tolist()))
    return found


@pytest.mark.parametrize("name", BODIES)
def test_results_are_of_the_mode_in_which_they_were_made(name: str) -> None:
    expected = shown(torch, lambda f: f, BODIES[name])
    assert shown(fg, lambda f: f, BODIES[name]) == expected
    assert shown(fg, fg.jit, BODIES[name]) == expected


def test_such_calls_are_replayed() -> None:
    function = fg.jit(fg.inference_mode()(lambda x: x * 2 + 1))
    for step in range(5):
        assert function(fg.ones(3) * step).is_inference()
    assert function.stats.compiled_calls >= 3


# What a loss is computed of, beside a parameter `w`: `c` was made in inference mode.
USES: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "not kept": lambda T, x, w, c: (x * w - c).sum(),
    "kept": lambda T, x, w, c: (w * c).sum(),
    "beside": lambda T, x, w, c: (x * w).sum() + c.sum(),
    "a view": lambda T, x, w, c: (w + c[:1]).exp().sum(),
    "for nothing": lambda T, x, w, c: (w * x).sum() if c.shape[0] else None,
}


@pytest.mark.parametrize("prints", [False, True])
@pytest.mark.parametrize("use", USES)
def test_losses_of_what_was_made_in_inference_mode(
    use: str, prints: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    found = []
    for lib in (fg, torch):
        w = lib.ones(3).requires_grad_()
        with lib.inference_mode():
            c = lib.ones(3) * 2

        def loss(x: Any, lib: Any = lib, w: Any = w, c: Any = c) -> Any:
            if prints:
                print("here")
            return USES[use](lib, x, w, c)

        call = fg.jit(loss) if lib is fg else loss
        seen: list[Any] = []
        for step in range(6):
            w.grad = None
            try:
                call(lib.ones(3) * step).backward()
                seen.append(w.grad.tolist())
            except RuntimeError as error:
                seen.append("saved for backward" in str(error))
        found.append(seen)
    for ours, theirs in zip(*found, strict=True):
        assert ours == theirs if isinstance(theirs, bool) else ours == pytest.approx(theirs)
