"""Programs put together at random that ask the world (iterators, numbers of Python's, the clock), and print.

Beside eager: values, gradients, what is printed, where iterators are afterwards, the state of `random`. More:
`PYTHONPATH=tests/helpers python tests/compiler/random/test_random_answers.py COUNT SEED`.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import linecache
import random
import time
from typing import Any

import numpy as np
import pytest
import random_functions

import fusegrad as fg
from fusegrad.tracer.observe.world import ahead

CALLS = 9
ASKS = [
    "x, y = next(batches)", "b = next(dicts); x, y = b['x'], b['y']", "x = next(singles); y = x * 0.5",
    "if random.random() < 0.5: x = x.flip(0)", "if own.random() < 0.3: y = y + 1.0",
    "x = x * (0.5 + random.random())", "k = random.randint(0, 1); x = x[k:] if x.shape[0] > 2 else x",
    "scale = own.uniform(0.5, 1.5); y = y * scale", "log['t'] = time.time() - log['t']",
    "if next(flags): y = -y", "print(f'{i}: {loss.item():.4f}')", "print('mean', x.mean().item(), i)",
    "noise = fg.randn(3); x = x + noise", "if loss.item() > 1.0: loss = loss * 0.5",
    "tags.append(next(words))", "x, y = x.detach(), y.detach()",
    "x = x + fg.tensor(numpys.normal(size=3), dtype=fg.float32)", "y = y * numpys.beta(0.5, 0.5)",
    "x = x[fg.tensor(numpys.permutation(x.shape[0]))]",
    "x = x * fg.from_numpy(old.rand(x.shape[0], 1)).float()",
    "if numpys.random() < 0.5: x = x.flip(0)", "a, b = own.sample(range(3), 2); y = y + (x if a < b else a)",
    "w0 = numpys.uniform(0.5, 1.5, size=2); x = x * float(w0[0]); y = y * w0[1].item()",
    "y = y + old.randint(0, 2)", "if numpys.integers(2): y = -y",
]  # fmt: skip
STEP = ["loss = loss + ((x @ w - y.sum(-1)) ** 2).mean()", "(loss * 0.1).backward(); loss = loss.detach()"]


class Items:
    """An iterator whose code is Python."""

    def __init__(self, items: list[Any]) -> None:
        self.items, self.at = items, 0

    def __iter__(self) -> Items:
        return self

    def __next__(self) -> Any:
        if self.at >= len(self.items):
            raise StopIteration
        self.at += 1
        return self.items[self.at - 1]


def source(seed: int) -> str:
    draw = random.Random(seed)
    lines = ["w.grad = None", "x, y, loss = fg.ones(3, 3), fg.ones(3, 3), fg.zeros(())"]
    for _ in range(draw.choice([1, 1, 2])):
        body = [draw.choice(ASKS) for _ in range(draw.randint(2, 5))]
        lines += [*body, STEP[0]]
        if draw.random() < 0.5:
            lines.append(STEP[1])
    if draw.random() < 0.4:
        lines.insert(2, "with fg.no_grad(): w.mul_(0.99)")
    lines.append("if loss.requires_grad: loss.backward()")
    if draw.random() < 0.5:
        lines.append("with fg.no_grad(): w.sub_(0.01 * w.grad)" if STEP[1] in lines else "log['n'] += 1")
    lines.append("return loss.detach(), i")
    return "def step(i):\n" + "".join(f"    {line}\n" for line in lines)


def world(seed: int) -> dict[str, Any]:
    """The globals of a program, made afresh."""
    numbers = np.random.default_rng(seed)
    size = [3, 3, 3, 3, 2] if seed % 2 else [3]

    def tensor(n: int) -> fg.Tensor:
        return fg.tensor(numbers.normal(size=(n, 3)).astype("f4"))

    def batches() -> Any:
        for n in itertools.cycle(size):
            yield tensor(n), tensor(n)

    ends = seed % 5 == 0  # then iterators end in the middle
    singles = [tensor(3) for _ in range(6 if ends else 60)]
    fg.manual_seed(seed)
    random.seed(seed)
    return {
        "fg": fg, "random": random, "time": time, "own": random.Random(seed),
        "numpys": np.random.default_rng(seed), "old": np.random.RandomState(seed), "batches": batches(),
        "singles": Items(singles),
        "dicts": ({"x": tensor(3), "y": tensor(3)} for _ in range(7 if ends else 70)),
        "flags": (bool(numbers.integers(2)) for _ in range(99)), "words": (f"w{i % 2}" for i in range(99)),
        "w": fg.tensor(numbers.normal(size=3).astype("f4"), requires_grad=True),
        "log": {"t": 0.0, "n": 0}, "tags": [],
    }  # fmt: skip


def outcome(seed: int, jitted: bool) -> list[Any]:
    """What calls of a program give, print and leave."""
    text, name = source(seed), f"<random answers {seed}>"
    linecache.cache[name] = len(text), None, text.splitlines(True), name
    made = world(seed)
    exec(compile(text, name, "exec", dont_inherit=True), made)
    step, found = fg.jit(made["step"]) if jitted else made["step"], list[Any]()
    for i in range(CALLS):
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            try:
                loss, number = step(i)
                found.append((loss.item(), number))
            except (StopIteration, RuntimeError, IndexError, UnboundLocalError) as error:
                found.append((type(error).__name__, 0.0))
        printed = [
            part if not _is_number(part) else round(float(part), 3) for part in shown.getvalue().split()
        ]
        gradient = made["w"].grad
        found.append(
            (printed, None if gradient is None else gradient.tolist(), made["w"].tolist(), [*made["tags"]])
        )
    left = [_left(made[name]) for name in ("batches", "dicts", "singles", "flags", "words")]
    left += [made["numpys"].random(), made["old"].rand()]
    found.append([random.random(), made["own"].random(), fg.rand(1).item(), made["log"]["n"], *left])
    return found


def _is_number(text: str) -> bool:
    return text.strip("-").replace(".", "").replace("e-", "").isdigit()


def _left(iterator: Any) -> Any:
    """The next item, told by its numbers."""
    item = next(iterator, None)
    parts = item.values() if type(item) is dict else item if type(item) is tuple else [item]
    return [part.tolist() if isinstance(part, fg.Tensor) else part for part in parts]


def alike(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return bool(np.isclose(a, b, rtol=1e-3, atol=2e-3))
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(alike, a, b))
    return bool(a == b)


def check(seed: int) -> None:
    """Compare one program."""
    expected, found = outcome(seed, False), outcome(seed, True)
    for place, (a, b) in enumerate(zip(expected, found, strict=True)):
        assert alike(a, b), f"{source(seed)}\n{place}: eager {a}\n jitted {b}"


@pytest.mark.parametrize("seed", range(8))
def test_random_programs_that_ask_are_as_eager(seed: int) -> None:
    check(seed)


FAULTS = {
    "answers are given twice": (ahead.Source, "answered", lambda self: None, range(1, 9)),
    "every question is the first": (ahead, "_question", lambda observer, source: 0, (13, 28, 32)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, planted, seeds = FAULTS[fault]
    monkeypatch.setattr(ahead, "_waiting", type(ahead._waiting)())  # what a fault leaves there goes with it
    monkeypatch.setattr(owner, name, planted)
    assert random_functions.differing(check, seeds)


if __name__ == "__main__":
    random_functions.run(check)
