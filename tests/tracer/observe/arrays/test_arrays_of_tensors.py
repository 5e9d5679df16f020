"""Arrays in the memory of tensors that are read for numbers within a step: each way to read, each use.

Beside eager: what calls give and leave, with its classes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.tracer.observe.arrays import of_tensors

READS: dict[str, Callable[[fg.Tensor], Any]] = {
    "int of a sum": lambda x: int((x > 0).sum().numpy()),
    "float of a mean": lambda x: float(x.mean().detach().cpu().numpy()),
    "bool": lambda x: bool((x.sum() > 1).numpy()),
    "item": lambda x: x.sum().numpy().item(),
    "item of a row": lambda x: x.numpy()[1].item() if x.ndim == 1 else x.numpy()[0, 1].item(),
    "a number of NumPy's": lambda x: x.reshape(-1).numpy()[-1],
    "of a whole number": lambda x: x.reshape(-1).long().numpy()[2],
    "int of an element": lambda x: int(x.reshape(-1).numpy()[2]),
    "abs": lambda x: abs(x.sum().numpy()),
    "round": lambda x: round(float(x.sum().numpy())),
    "a slice": lambda x: x.reshape(-1).numpy()[1:3],
    "an element of a slice": lambda x: float(x.reshape(-1).numpy()[1:3][0]),
    "shape": lambda x: x.numpy().shape[0] * x.numpy().ndim + x.numpy().size,
    "dtype": lambda x: x.numpy().dtype.name,
    "reversed": lambda x: x.reshape(-1).numpy()[::-1][0],
    "by a mask": lambda x: float(x.numpy()[x.numpy() > 0].sum()),
    "written": lambda x: _written(x),
    "written through the array": lambda x: _written_through(x),
}
OWNER = SimpleNamespace(kept=0.0, kept_all=[])


def _written(x: fg.Tensor) -> float:
    x = x.clone()
    array = x.reshape(-1).numpy()
    x.mul_(2.0)
    return float(array[1])


def _written_through(x: fg.Tensor) -> Any:
    x = x.clone()
    x.reshape(-1).numpy()[1] = 7.0
    return float(x.reshape(-1)[1])


def _compared(x: fg.Tensor, n: Any) -> Any:
    return x * 2 if n > 0.5 else x - 1


def _kept(x: fg.Tensor, n: Any) -> Any:
    OWNER.kept = n
    return x


def _appended(x: fg.Tensor, n: Any) -> Any:
    OWNER.kept_all.append(n)
    return x


USES: dict[str, Callable[[fg.Tensor, Any], Any]] = {
    "returned": lambda x, n: (x * 2, n), "in a dict": lambda x, n: {"n": n, "x": x + 1},
    "scaled by": lambda x, n: x * n, "compared": _compared, "text": lambda x, n: (x, f"{n:.3f}"),
    "kept": _kept, "appended": _appended, "computed": lambda x, n: (x + n * 0.5, n * 2),
    "of math": lambda x, n: (x, math.sqrt(abs(n))), "of NumPy": lambda x, n: (x, np.sqrt(np.abs(n))),
}  # fmt: skip


def outcomes(read: str, use: str, jitted: bool) -> tuple[list[Any], Any]:
    OWNER.kept, OWNER.kept_all = 0.0, []

    def step(x: fg.Tensor) -> Any:
        return USES[use](x, READS[read](x))

    run, found = fg.jit(step) if jitted else step, list[Any]()
    for i in range(7):
        x = fg.tensor([-1.0, 0.3, 0.75, 1.2]).roll(i) * (1.0 + 0.5 * i)
        try:
            found.append(run(x))
        except Exception as error:
            found.append(type(error).__name__)
        found.append(OWNER.kept)
    return [*found, *OWNER.kept_all], run


def told(value: Any) -> Any:
    """A value with its class, as a text."""
    if isinstance(value, (tuple, list)):
        return [told(v) for v in value]
    if isinstance(value, dict):
        return {key: told(v) for key, v in value.items()}
    if isinstance(value, (fg.Tensor, np.ndarray)):
        return type(value).__name__, str(value.dtype), np.round(np.asarray(value), 4).tolist()
    number = isinstance(value, (float, np.floating))
    return type(value).__name__, round(float(value), 4) if number else str(value)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("read", READS)
def test_numbers_are_those_of_eager(read: str, use: str) -> None:
    ours, theirs = outcomes(read, use, True)[0], outcomes(read, use, False)[0]
    assert told(ours) == told(theirs)


@pytest.mark.parametrize(
    "read", ["int of a sum", "float of a mean", "item", "item of a row", "int of an element"]
)
def test_numbers_that_are_only_given_replay(read: str) -> None:
    _, run = outcomes(read, "returned", True)
    assert run.stats.compiled_calls >= 3, run.explain()


def test_numbers_of_another_element_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(observer: Any, value: Any) -> Any:
        owner = right(observer, value)
        return owner if owner is None or not owner.ndim else owner.flip(0)

    right = of_tensors.owner_of
    monkeypatch.setattr(of_tensors, "owner_of", wrong)
    assert told(outcomes("int of an element", "returned", True)[0]) != told(
        outcomes("int of an element", "returned", False)[0]
    )
