"""Loops that test data, put together at random: left to one op or not, with eager's values and gradients.

They are source text, as that is what the tracer reads of a loop. Each is called with arguments that make it
go round more often and less. What the generator finds becomes a small test of its own. More of them:
`PYTHONPATH=tests/helpers python tests/compiler/random/test_random_tested_loops.py COUNT SEED`.
"""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import random_functions

import fusegrad as fg
from fusegrad.tracer.ir import tested

CALLS = 6
HEADERS = [
    "while left > 0 and {test}:",
    "while left > 0:",
    "while left > 0 and err > 0.001:",
    "while (left > 0) & ({test}):",
    "while left.item() > 0:",
    "while True:\n        if left <= 0: break",
    "for _ in range({n}):",
    "for t in range({n}):",
    "for r in x:",
]
TESTS = [
    "(a * a).sum() > {low}", "a.abs().max() > {low}", "(a - b).norm() > {low}", "a.sum().item() > -{high}",
    "not (c.sum() > {high})", "float(b.mean()) < {high}", "(a - c).abs().sum().item() + 1 > {low}",
]  # fmt: skip


def statements(draw: random.Random, header: str) -> Iterator[str]:
    """The lines of a round."""

    def test() -> str:
        return draw.choice(TESTS).format(low=draw.choice([0.01, 0.1, 0.5]), high=draw.choice([0.5, 1, 3]))

    def term() -> str:
        a, b = draw.choice("abc"), draw.choice("abc")
        found = [
            f"w @ {a} * 0.4 + {b} * 0.3", f"{a} * 0.5 - {b} * 0.2", f"{a} * y", f"{a} / (1 + {b} * {b})",
            f"fg.where({a} > 0, {a}, {b} * 0.5)", f"half({a})", f"({a} @ {b}) * y", f"{a} * scale",
            f"{a}.softmax(0) - {b}", f"fg.stack([{a}, {b}]).mean(0)", f"{a}.detach() * 0.5 + {b}",
        ]  # fmt: skip
        if "for r" in header:
            found += [f"{a} * 0.5 + r"] * 2
        if "for t" in header:
            found += [f"{a} * 0.5 + x[t]", f"{a} * (0.5 + t * 0.01)"]
        return draw.choice(found)

    for _ in range(draw.randint(1, 5)):
        target = draw.choice("aabc")
        usual = [f"{target} = fg.tanh({term()})"] * 8 + [f"{target} = {term()}"] * 3
        usual += [
            "a, b = b, a",
            f"{target} = {draw.choice('abc')}",
            "k += 1",
            "k += 2",
            "scale = scale * 0.9",
        ]
        usual += [
            "err = (a - old).abs().max().item()",
            "best = min(best, a.sum().item())",
            "n = n + (a > 0).sum().item()",
        ]
        usual += ["old = a", f"c = b; b = fg.tanh({term()})", "total = total + (a * b).sum()"]
        usual += [f"if {test()}: {target} = {target} * 0.5", f"last = {term()}"]
        usual += [f"{target} = {target} * 0.5 if {test()} else {target} + 0.1 * y", f"if {test()}: break"]
        others = [
            f"{draw.choice('abc')} = {draw.choice(['fg.tanh({})', '{}'])}".format(term()) for _ in "123"
        ]
        usual += [
            f"if {test()}: {others[0]}\n        else: {others[1]}",
            f"if {test()}: {others[0]}\n        elif {test()}: {others[1]}; {others[2]}",
            f"if {test()}: c = -c\n        elif {test()}: best = min(best, a.sum().item())",
            f"if {test()}: old = {target}",
            f"if not {test()}: raise IndexError(k)",
            f"assert {test()}, f'no {{k}}'",
            f"if {test()}: return (a * b).sum(), [a, b, c, old], k + {draw.choice(['0', 'n'])}",
        ] * 2
        odd = [
            f"{target} *= 0.5",
            f"{target} = {target} * k * 0.1",
            "k -= 1",
            "items.append(a)",
            "state.h = a",
        ]
        odd += [
            "numbers.append(a.sum().item())",
            f"{target} = quiet({target}) + b",
            f"{target} = {target}[:]",
        ]
        odd += ["best = max(k, err)", "left = left - 1", "state.n += 1", f"x[0] = {target}"]
        odd += [f"{target} = {target} + fg.tensor(0.25)", f"{target} = x[a.argmax()] * 0.5 + b"]
        yield draw.choice(odd if draw.random() < 0.08 else usual)


HEAD = """
import fusegrad as fg

class State:
    pass

def half(x):
    return x * 0.5

def quiet(x):
    with fg.no_grad():
        return x * 0.5

def function(x, y, w, left):
    a, b, c, k, total, scale = x[0] * 0.9, x[1] * 0.5, y * 0.7, 0, y.sum() * 0, 0.5
    old, last, items, numbers, best, err, n, state = a, b, [], [], 1e9, 1.0, 0, State()
    state.h, state.n = c, 0
"""


def loop(seed: int) -> tuple[str, Callable[..., Any]]:
    """The source of a function with a loop, and the function."""
    draw = random.Random(seed)
    test = draw.choice(TESTS).format(low=draw.choice([0.01, 0.1]), high=draw.choice([1, 3]))
    header = draw.choice(HEADERS).format(test=test, n=draw.choice([9, 20, 30]))
    body = [*statements(draw, header)]
    if "left" in header:
        body.insert(draw.randint(0, len(body)), "left = left - 1")
        body = [line.replace("left = left - 1", "left = left - 1.0") for line in body]
    elif not any("break" in line for line in body) and (header == "while True:" or draw.random() < 0.6):
        body.append(f"if {test}: break")
    lines = [header, *(f"    {line}" for line in body)]
    lines += [
        "loss = (a * a).sum() + (b * c).sum() + total + old.sum() + (last * y).sum() + (state.h * y).sum()"
    ]
    lines += ["loss = loss * (1 + best * 1e-12 + err * 0.01) + (fg.stack(items).sum() if items else 0)"]
    lines += [f"return loss, [a, b, c, old], {draw.choice(['k', 'k + n', 'k * 2 + len(numbers)', 'n'])}"]
    source = HEAD + "".join(f"    {line}\n" for line in lines)
    name = f"<random tested loop {seed}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    namespace: dict[str, Any] = {}
    exec(compile(source, name, "exec", dont_inherit=True), namespace)
    return source, namespace["function"]


def _outcome(function: Callable[..., Any], seed: int, order: int) -> Any:
    """What the loop gives, and its derivatives up to that order."""
    draw = np.random.default_rng(seed)
    shapes = (30, 3), (3,), (3, 3)
    args = [fg.from_numpy(draw.standard_normal(shape) * 0.7) for shape in shapes]
    left = fg.tensor(float(draw.choice([0, 1, 2, 5, 11, 26])), dtype=fg.float64)
    args, slopes = [x.requires_grad_(order > 0) for x in args], list[Any]()
    try:
        loss, shown, number = function(*args, left)
        if order == 2:
            slopes = [*fg.autograd.grad(loss, args, create_graph=True, allow_unused=True)]
            loss = sum((s * s).sum() for s in slopes if s is not None) + loss
        if order:
            loss.backward()
    except (RuntimeError, IndexError, AssertionError) as error:
        return type(error), str(error)[:40]
    return number, [loss, *shown], [*slopes, *(x.grad for x in args)]


def check(seed: int) -> bool:
    """Compare one loop; whether an op stands for rounds of it."""
    source, function = loop(seed)
    jitted = fg.jit(function)
    try:
        for call in range(CALLS):
            for order in (1 + call % 2, 0):
                expected = _outcome(function, 100 * seed + call, order)
                found = _outcome(jitted, 100 * seed + call, order)
                if isinstance(expected[0], type) or isinstance(found[0], type):
                    assert expected == found, call
                    continue
                assert repr(expected[0]) == repr(found[0]), call
                for ours, theirs in zip(found[1] + found[2], expected[1] + expected[2], strict=True):
                    assert (ours is None) == (theirs is None), call
                    if theirs is not None:
                        assert ours.requires_grad == theirs.requires_grad
                        given = ours.detach().numpy(), theirs.detach().numpy()
                        np.testing.assert_allclose(*given, 1e-7, 1e-9, err_msg=f"call {call}, order {order}")
    except Exception as error:
        raise AssertionError(source) from error
    return "rounds of a loop" in str(jitted.explain())


@pytest.mark.parametrize("first", range(0, 16, 8))
def test_random_loops_have_eagers_values_and_gradients(first: int) -> None:
    assert sum(map(check, range(first, first + 8))) >= 1


def test_planted_faults_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds are counted once too often."""
    run = tested.Tested._run

    def planted(self: Any, args: Any, params: Any) -> Any:
        *made, count = run(self, args, params)
        return (*made, count + 1)

    monkeypatch.setattr(tested.Tested, "_run", planted)
    assert random_functions.differing(check, range(16, 24))


if __name__ == "__main__":
    made = [0]

    def counted(seed: int) -> None:
        made[0] += check(seed)

    random_functions.run(counted)
    print(f"{made[0]} were left to an op")
