"""When the program's last name of a tensor goes, the tensor goes: at the first call as at all others, and
without a look for garbage.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.tracer.record.recorder import Recorder

WIDE = 1_000  # 300 rows of it are more than ops compute at once


def plain(x: fg.Tensor) -> Any:
    return x + 1


def several(x: fg.Tensor) -> Any:
    return x[1:], {"twice": x * 2, "sum": [x.sum()]}


def same(x: fg.Tensor) -> Any:
    return x


def numbers(x: fg.Tensor) -> Any:
    return x * x.sum().item() + (2.0 if x.mean() > 0 else x.max().item())


def loop(x: fg.Tensor) -> Any:
    total = x * 0
    for _ in range(20):
        total = total + x.sin()
    return total


def rows(x: fg.Tensor) -> Any:
    made = []
    for row in x[:12]:
        made.append(row * 2)
    return fg.stack(made)


def counted(x: fg.Tensor) -> Any:
    value, rounds = x.sum(), 0
    while value < 5e7:
        value, rounds = value * 1.5, rounds + 1
    return value + rounds


def written(x: fg.Tensor) -> Any:
    y = x.clone()
    y[1:] *= 2
    y.add_(1)
    return y


LOG: list[Any] = []


def deferred(x: fg.Tensor) -> Any:
    print("called")
    y = x * 2
    print("more")
    return y + 1


def appended(x: fg.Tensor) -> Any:
    LOG.append(x.shape)
    return x * 2


def generator(x: fg.Tensor) -> Any:
    return sum(part * 2 for part in (x, x + 1))


def nested(x: fg.Tensor) -> Any:
    def inner(factor: float) -> fg.Tensor:
        return x * factor

    return inner(2.0) + inner(3.0)


def caught(x: fg.Tensor) -> Any:
    try:
        return x.reshape(7, 7)
    except RuntimeError:
        return x + 1


def raising(x: fg.Tensor) -> Any:
    return x.reshape(7, 7)


def opens(x: fg.Tensor) -> Any:
    return x.numpy().copy()


def long(x: fg.Tensor) -> Any:
    for _ in range(300):
        x = (x + 1).tanh()
    return x


class Model(fg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = fg.nn.Linear(WIDE, 3), fg.nn.BatchNorm1d(3)

    def forward(self, x: fg.Tensor) -> fg.Tensor:
        return self.norm(self.layer(x))


def model() -> Callable[..., Any]:
    return Model()


def step() -> Callable[..., Any]:
    model = Model()
    optimizer = fg.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x: fg.Tensor) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step


FUNCTIONS = [
    plain,
    several,
    same,
    numbers,
    loop,
    rows,
    counted,
    written,
    deferred,
    appended,
    generator,
    nested,
]
FUNCTIONS += [caught, raising, opens, long]
KINDS: dict[str, Callable[[], Callable[..., Any]]] = {
    **{f.__name__: (lambda f=f: f) for f in FUNCTIONS},
    "model": model,
    "step": step,
}


@pytest.fixture(autouse=True)
def without_looks_for_garbage() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def left_after(function: Callable[..., Any], side: int, needs_grad: bool) -> list[str]:
    """What is still there of the argument and its memory after each of three calls, and after results go."""
    found = []
    for number in range(3):
        x = fg.tensor(np.full((side, WIDE), 0.5), dtype=fg.float32, requires_grad=needs_grad)
        tensor, memory = weakref.ref(x), weakref.ref(x.array)
        try:
            result = function(x)
            first = result[0] if isinstance(result, tuple) else result
            if needs_grad and isinstance(first, fg.Tensor) and first.needs_grad and first.grad_fn is not None:
                first.sum().backward()
            del first, result
        except RuntimeError:
            pass
        del x
        what = [name for name, ref in (("tensor", tensor), ("array", memory)) if ref() is not None]
        found += [f"call {number}: {name}" for name in what]
    return found


@pytest.mark.one_in(8)
@pytest.mark.parametrize("needs_grad", [False, True], ids=["values", "gradients"])
@pytest.mark.parametrize("side", [16, 300], ids=["small", "large"])
@pytest.mark.parametrize("kind", KINDS)
def test_arguments_go_with_their_last_name(kind: str, side: int, needs_grad: bool) -> None:
    made = KINDS[kind]
    if kind in ("opens", "step") and needs_grad:
        pytest.skip("eager refuses")
    assert left_after(made(), side, needs_grad) == []
    assert left_after(fg.jit(made()), side, needs_grad) == []


def test_a_recorder_that_keeps_what_it_has_seen_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    released = Recorder.release

    def keeps(self: Recorder) -> None:
        kept = dict(vars(self))
        released(self)
        vars(self).update(kept)

    monkeypatch.setattr(Recorder, "release", keeps)
    assert left_after(fg.jit(plain), 300, False)[:1] == ["call 0: tensor"]
