"""Long loops put together at random, of rows, lists and effects: rolled or refused, with eager's results.

They are source text, as that is what the tracer reads of a loop. What the generator finds becomes a small
test of its own. What is best so far must be so by more than a rounding: sums of the same numbers in another
order would go another way. So would places of extremes, if elements came to be alike. More of them:
`PYTHONPATH=tests/helpers python tests/compiler/random/test_random_rolled_loops.py COUNT SEED`.
"""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import numpy as np
import pytest
import random_functions

import fusegrad as fg
from fusegrad.tracer.ir import rolled
from fusegrad.tracer.loops import rolling
from fusegrad.tracer.loops.affine import RowRead

WIDTH = 3
# What goes over the rounds: the header, what the number of a round is called, and which rows it has.
HEADERS = [
    ("for t in range({n}):", "t", []),
    ("for t in range({n}):", "t", []),
    ("for t in range(len(x)):", "t", []),
    ("for t in range(2, {n} - 1):", "t", []),
    ("for t in range(0, {n}, 2):", "t", []),
    ("for t in reversed(range({n})):", "t", []),
    ("for t in range({n} - 1, -1, -1):", "t", []),
    ("t = 0\n    while t < {n}:", "t", []),
    ("t = k - 2\n    while {n} - 3 >= t:", "t", []),
    ("for r in x:", "", ["r"]),
    ("for t, r in enumerate(x):", "t", ["r"]),
    ("for r, s in zip(x, y):", "", ["r", "s"]),
    ("for t, r, s in zip(range({n}), y, x):", "t", ["r", "s"]),
    ("for t, (r, s) in enumerate(zip(x, y)):", "t", ["r", "s"]),
    ("for s, r in zip(x, y, strict=True):", "", ["r", "s"]),
]
# Rows that follow the number; the last ones do not do so evenly, or at all.
PLACES = [
    "t", "t", "t", "-1 - t", "n - 1 - t", "len(x) - 1 - t", "t - 5", "t - {half}", "0 + t", "k + t - k",
]  # fmt: skip
# Numbers that follow from that of the round.
NUMBERS = [
    "({t} * 0.01)", "(1 / (2 + {t} * {t}))", "0.9 ** {t}", "(k * 0.1 - {t} / n)", "-({t} % 3)",
    "(SCALE * {t})", "({t} / n - rate)", "(0.2 + {t} * 0.01)", "math.exp(-0.1 * {t})", "lr", "(1 - time)",
    "min(1.0, {t} / 9)", "(WORLD.dt * {t})", "math.cos(time)", "abs(lr - 0.05)",
]  # fmt: skip
# Those that are the same in many rounds, and not in all.
LATE = ["max({t}, {half}) * 0.01", "({t} // {half}) * 0.3", "min({t}, {half}) * 0.01"]
# What rounds make anew, and what they look up by whole numbers, `i`, and by what they choose, `c`.
MADE = [
    "fg.zeros(3, dtype=h.dtype)",
    "fg.arange(3) * 0.1",
    "fg.tensor([0.5, 0.25, 1.0], dtype=h.dtype)",
    "h.new_ones(3)",
]
LOOKED_UP = [
    "w[{i}[0]]", "w[:, {i}[1]]", "w[{i}].sum(0)", "w[{i}, {i} * 0].sum() * y[0]", "w[{i}[0]].flip(0)",
    "fg.eye(3, dtype=h.dtype)[{i}].sum(0)", "w.gather(0, ({i} % 3)[:, None].expand(2, 3)).mean(0)", "w[{c}]",
    "w.index_select(0, ({i} + 3) // 2 % 3)[0]", "w[{i}[0], {c}] * y[0]",
]  # fmt: skip
# What is done with a list when the loop is over.
READ = [
    "({u}[-1] * {u}[0]).mean()", "({u}[len({u}) // 2] ** 2).sum()",
    "fg.stack({u}[::3]).sum() + {u}[-3].prod()", "(fg.stack({u}, -1)[0] ** 2).sum()",
    "sum(item.sum() for item in {u}) / len({u})", "fg.cat({u}[-9:]).mean()",
    "fg.stack([item * k for k, item in enumerate({u})]).mean()", "fg.stack({u}[-2:1:-2], 1).sum()",
]  # fmt: skip
STATE = ["pair[0]", "pair[1]", "cells[0]", "cells[-1]", "grid['c']", "grid['h']", "kept"]
ODD_STATE = [
    "cells = cells[::-1]", "pair = pair[1], pair[0]", "grid['n'] = a", "mesh[mesh > 1] *= 0.5",
    "a = a * time",
    "if lr < 0.05: a = a * 0.5", "lr = lr * 0.9 if a[0] > 0 else lr", "names.append(cells)", "b = mesh[0]",
    "before = lr; lr = lr * 0.9; a = a * before", "mesh = mesh.T", "WORLD.dt *= 0.99", "kept *= 0.5",
    "count = count * 2", "pair[0].mul_(0.5)", "names[0] = cells[0]", "grid['h'] *= 0.5", "mesh += 0.01",
]  # fmt: skip
MODULI = ["2", "2", "3", "5", "7", "16", "k"]
ODD = ["t // 2", "(t * 7) % n", "min(t, 9)", "order[t]", "t - t % 2", "k"]


def statements(draw: random.Random, number: str, rows: list[str], half: int) -> Iterator[str]:
    """The lines of a round."""

    def place() -> str:
        return draw.choice(ODD if draw.random() < 0.03 else PLACES).format(half=half)

    def row() -> str:
        if rows and draw.random() < 0.7:
            return draw.choice(rows)
        if not number:
            return draw.choice(["x[0]", "y[-1]", "x.mean(0)"])
        name = draw.choice(["x", "x", "y"])
        if draw.random() < 0.15:
            return f"z[:, {place()}]"
        if draw.random() < 0.15:
            begin = place()
            return f"{name}[{begin} : {begin} + {draw.choice([2, 2, 3])}].sum(0)"
        return f"{name}[{place()}]" + draw.choice(["", "", "", ".flip(0)", " * 0.5"])

    def computed() -> str:
        name = number or "k"
        return draw.choice(NUMBERS).format(t=name) if draw.random() < 0.95 else f"float({name}) * 0.01"

    def term() -> str:
        a, b = draw.choice("abc"), draw.choice("abc")
        return draw.choice(
            [
                f"{row()} @ w + {a}",
                f"{row()} * {a}",
                f"{a} * {b} + {row()}",
                f"{a} @ w",
                f"{row()} @ w @ w.T * 0.5 - {a}",
                f"({a}[:, None] * {b}) @ {row()}",
                f"w @ {row()} * {a} + {b}",
                f"{a} + 0.5 * {b}",
                f"cell({row()}, {a})",
                f"fg.cat([{a}[:1], ({row()})[1:]])",
                f"fg.where({a} > 0, {a}, {row()})",
                f"{a} * {computed()}",
                f"{row()} * {computed()} - {a}",
                f"{row()} - past[-{draw.choice([1, 1, 1, 2, 2, 3])}] * 0.3",
                f"({computed()} - {a} * 0.1) / (5 + {number or 'k'})",
                f"{draw.choice(MADE)} * {a} + {draw.choice(MADE)}",
                f"{looked_up()} * {a}",
                f"{looked_up()} + {a} * 0.5",
            ]
        )

    def looked_up() -> str:
        at = f"i[{place()}]" if number else draw.choice(["i[0]", "i[-1]"])
        chosen = f"{draw.choice('abc')}.arg{draw.choice(['max', 'min'])}()"
        found = f"w[{at}, 0]" if draw.random() < 0.1 else draw.choice(LOOKED_UP)
        return found.format(i=at, c=chosen)

    def asked() -> str:
        a, b = draw.choice("abc"), draw.choice("abc")
        return draw.choice(
            [
                f"{a}.sum() > {draw.choice([-0.5, 0, 0.5])}",
                f"({a} - {b}).abs().max() < 1",
                f"{a}[0] > ({row()})[1]",
                f"({row()}).mean() > {b}.mean()",
                f"{a}.norm() >= 1",
            ]
        )

    def order() -> str:
        return draw.choice(["<", ">=", "==", "!="])

    def test() -> str:
        asked = draw.choice(["k", "n", "h.dim()", number or "3", number or "5"])
        return f"{asked} {order()} {draw.choice([0, 1, 3, half, half + 1, 2 * half])}"

    def remainder(number: str) -> str:
        left = (
            f"{draw.choice([number, number, f'({number} + k)', f'(n - {number})'])} % {draw.choice(MODULI)}"
        )
        return (
            draw.choice(["", "", "not "]) + left
            if draw.random() < 0.2
            else f"{left} {order()} {draw.choice('012')}"
        )

    is_mixed = draw.random() < 0.05
    if is_mixed or draw.random() < 0.3:
        for _ in range(draw.randint(1, 3)):
            target = draw.choice("aabc")
            given = [f"{draw.choice('abc')} = fg.tanh({term()})" for _ in range(3)]
            yield draw.choice(
                [
                    f"{target} = fg.tanh({term()})",
                    f"if {asked()}: {given[0]}",
                    f"if {asked()}: {given[0]}; {given[1]}\n        else: {given[2]}",
                    f"{target} = {target} * 0.5 if {asked()} else fg.tanh({term()})",
                    f"if {asked()} and {draw.choice([asked(), test()])}: {target} = {target} * 0.9",
                    f"if {asked()}: steps += 1",
                    f"if {asked()}: {target} = {draw.choice(['a', 'b', 'c', 'kept'])}",
                    f"if {asked()}: kept = {target}",
                    f"if {asked()}: kept = {draw.choice([row(), looked_up()])}",
                    f"if (q := ({term()}).mean()) > rate: {target} = fg.tanh({term()} * q)",
                    f"if {asked()}: steps = {number or 'k'}",
                    f"if {asked()}: steps, q = {number or 'steps'} + 1, {computed()}",
                    f"if {target}.sum() > best + 0.001: best = {target}.sum(); kept = {target}",
                    f"if {target}.sum() > best + 0.001: best, kept, steps = {target}.sum(), {target}, 0\n"
                    f"        else: {draw.choice(['steps += 1', target + ' = kept', 'a = kept * 0.9'])}",
                    f"q = ({term()}).mean().item()\n        if q < rate - 0.001: rate, kept = q, {target}",
                    f"{target} = fg.tanh({target} - kept * 0.3)",
                    f"if {target}.sum() > 2: break",
                    f"total = total + ({term()}).sum() if {asked()} else total",
                ]
            )
        if not is_mixed:
            return
    for _ in range(draw.randint(1, 2 if is_mixed else 5)):
        target = draw.choice("aabc")
        usual = [f"{target} = fg.tanh({term()})"] * 10 + ["a, b = b, a", f"{target} = {draw.choice('abc')}"]
        usual += [f"u.append({target})"] * 2 + [f"v.append(fg.sin({term()}))", f"v.append({row()})"]
        usual += [f"past.append({target})", f"past.append(fg.sin({term()}))"]
        usual += [f"WORLD.h = fg.tanh(WORLD.h * 0.5 + {target})", f"{target} = {target} + WORLD.h * 0.1"]
        usual += ["WORLD.steps += 1"]
        usual += [
            f"pair = fg.tanh({term()}), {draw.choice(['pair[0] * 0.5', 'pair[0]', 'pair[1] * 0.9 + a'])}",
            f"{target} = fg.tanh({target} + {draw.choice(STATE)})",
            f"cells[{draw.choice([0, 0, 1])}] = fg.tanh({term()})",
            f"cells = [fg.tanh(e * 0.5 + {target}) for e in cells]",
            f"made = [{target} * 0.5]; made.append(fg.sin({term()})); cells = made",
            f"grid['{draw.choice('hc')}'] = fg.tanh({term()} + grid['h'])",
            f"mesh[{draw.choice(['1:', '0', '-1', '...', '::2'])}] += fg.sin({term()}) * 0.1",
            f"mesh[{draw.choice(['0', '-1'])}] = {draw.choice(['mesh[1]', 'mesh[1] * 0.5', target, '0.0'])}",
            f"mesh[:, {draw.choice('012')}] = fg.tanh({term()}); mesh[1] *= 0.9",
            f"{target} = fg.tanh({target} + mesh.mean({draw.choice('01')}))",
            f"{target} = fg.tanh({target} - kept * 0.3); kept = {row()}",
            f"kept, before = {row()}, kept; {target} = fg.tanh({target} + before)",
            "count += 1",
            "count = count + 2; time += 0.01",
            "lr *= 0.98",
            f"{target} = {target} - lr * fg.sin({term()}); lr = lr * 0.97 + 0.001",
            f"time += WORLD.dt; {target} = {target} * math.exp(-time)",
        ]
        usual += [
            f"for j in range({draw.choice([1, 2, 2, 3])}): {target} = fg.tanh({term()}) * (1 + 0.1 * j)",
            f"for e in ({draw.choice('abc')}, {draw.choice('abc')}): {target} = fg.tanh({term()} * e)",
            f"for e, q in zip((a, b), (0.5, 0.25)): {target} = {target} * q + fg.sin(e); v.append(e)",
        ]
        usual += [f"total = total + ({term()}).sum()", f"total += ({term()}).sum()"]
        usual += [f"{target} = {target} * 0.5; {target} {draw.choice(['+=', '-='])} fg.sin({term()}) * 0.5"]
        odd = [
            f"{target} *= 0.5",
            f"{target} += b; {target} *= 0.5",
            "total += a",
            "k = k + 1",
            "x = x * 0.99",
            "last = a",
        ]
        usual += [
            f"{target} = {target}.detach() * 0.5 + b * 0.4",
            f"{target} = fg.tanh({target} * {draw.choice('abc')}.detach())",
        ]
        odd += [f"{target} = no_gradient({target}) + b"]
        odd += [
            f"if {number or '3'} == {half}: {target} = {target} * 0.5",
            f"{target} = {target} * counted()",
        ]
        odd += [f"{target} = {target} * (1 + 0.01 * {number or '2'})", f"{target} = {target}[:]"]
        odd += [f"past.append({draw.choice(['h', target + '[:]', 'past[0]', 'past[-1]', target + '.T'])})"]
        odd += [
            f"{target} = {target} * len(past) * 0.01",
            f"{target} = {target} + past[{draw.choice([1, 9])}]",
        ]
        odd += ["WORLD.h *= 0.5", f"WORLD.h = {target}", f"{target} = {target} * (WORLD.steps < {half})"]
        odd += [f"for j in range({number or '2'} % 3): {target} = fg.tanh({term()})"]
        odd += [f"for j in range(3): {target} = {target} * 0.9 + x[{number or '0'}, j]"]
        odd += ["WORLD.steps += k", f"if {test()}: WORLD.steps -= 3"]
        odd += [draw.choice(ODD_STATE)]
        odd += ["with_list(past)", f"past[-1] = {target}", f"{target}.mul_(0.5)"]
        odd += [f"state.h = fg.tanh({term()})"]
        usual += (
            [
                f"out[{place()}] = {target}",
                f"wide[:, {place()}] = fg.sin({term()})",
                f"out[{place()}, 1:] = {target}[1:]",
                f"line[{place()}] = {target}.sum()",
                f"back[{number}] = back[{number} - 1] * 0.5 + {target}",
                f"sums[{(at := place())}] = sums[{at}] * 0.5 + {target}",
                f"sums[{place()}] += {target}",
                f"sums[{(at := place())}] -= fg.sin({term()}); {target} = {target} + sums[{at}] * 0.1",
                f"{target} = {target} + sums[{place()}] * 0.1",
                f"wide[1:, {place()}] *= 0.5",
                f"{target} = {target} * 0.9 + 0.1 * back[{number} - 1]",
                f"back[{number}] = back[{number} - 1] * 0.7 - back[{number} - {draw.choice([1, 2, 3])}] / 5",
                f"q = {computed()}; {target} = fg.sin({target} * q + {term()})",
                f"if {test()}: q = {draw.choice(LATE).format(t=number, half=half)}",
                f"{target} = fg.tanh({target} * q + {row()})",
            ]
            if number
            else []
        )
        odd += [
            f"{target} = {target} + out[{place()}]", "out[3] = a", "out.T[0] = line[0]", "line[5] += 0.5",
            f"out[{place()}] = 0.5", "p = out", "out = out * 1.0", "p = wide[0] * 1.0", "out[n // 2] = 0",
            f"line[{place()}] = q", "q = k * 0.5", f"a = a * q if {test()} else a", f"view[{place()}] = a",
            f"with_out({place()}, a)",
        ] if number else []  # fmt: skip
        usual += [
            f"if {remainder(number)}: {target} = {target} * 0.5",
            f"{target} = {target} * 0.5 if {remainder(number)} else fg.tanh({term()})",
            f"if {remainder(number)}: v.append({target})",
        ] if number else []  # fmt: skip
        usual += [f"{target} = {target} * 0.5 if {test()} else {target} + 0.1 * {row()}"]
        leave = draw.choice(["break", "break", "continue"] if number else ["break"])
        odd += [f"if {test()}: {leave}"] * 3 + [f"if a.sum() > {draw.choice([0, 9])}: break"]
        usual += [f"if {test()}: {target} = {target} - {row()}", f"if {test()}: last = {target} * 2"]
        yield draw.choice(odd if draw.random() < 0.06 else usual)
    if draw.random() < 0.1:
        yield "state.h = fg.tanh(state.h + a)"


HEAD = """
import math
import fusegrad as fg
SCALE = 0.03
class State:
    def __init__(self, h):
        self.h = h

WORLD = State(None)
WORLD.steps = 0

def no_gradient(x):
    with fg.no_grad():
        return x * 0.5

def cell(row, h):
    return fg.tanh(row + h * 0.5)

def function(x, y, w, h, i):
    n, k, total, state, steps = len(x), 3, h.sum() * 0, State(h), 0
    a, b, c, z = h, h * 0.5, h + 1, x.T
    order, numbers = [*range(9, n), *range(9)], [0]

    def counted():
        numbers.append(len(numbers))
        return 1.0 if len(numbers) < n // 2 else 0.9

    WORLD.h, WORLD.dt = h * 0.5, 0.01
    pair, cells, grid, mesh, kept = (h, h * 0.5), [h, h + 1], {"h": h, "c": h * 2}, w * 1, h
    count, time, lr, names, before = 0, 0.0, 0.1, [cells], h
    u, v, past = [], [h], [h * 0.5, h - 1, h * 2]
    back = fg.zeros(n, 3, dtype=h.dtype)
    sums = x * 0.5
    out, wide, line, q = fg.zeros(n, 3, dtype=h.dtype), fg.zeros(3, n, dtype=h.dtype), x[:, 0] * 1, 0.25
    rate, last, view, best = 0.5, h, fg.zeros(3, n, dtype=h.dtype).T, h.sum()

    def with_out(place, given):
        out[place] = given

    def with_list(items):
        items[0] = items[-1] * 0.5
"""


def loop(seed: int) -> tuple[str, Callable[..., Any], int]:
    """The source of a function with a loop, the function, and how many rows it wants."""
    draw = random.Random(seed)
    n = draw.randint(36, 64)
    header, number, rows = draw.choice(HEADERS)
    body = [*statements(draw, number, rows, n // 2)]
    if "while" in header:  # of which each round counts, also one that is left early
        body = [*(line.replace("continue", "t += 1; continue") for line in body), "t += 1"]
    lines = [header.format(n=n), *(f"    {line}" for line in body)]
    lines += ["loss = (a * a).sum() + (b * c).sum() + total + (state.h + WORLD.h).sum()"]
    lines += [
        "loss = loss + (out * x).sum() + (sums * y).sum() + (back * y).sum() + (wide * wide.roll(1, 1)).sum()"
    ]
    lines += ["loss = loss + (pair[0] * pair[1] + kept + cells[0] * cells[1] + grid['h'] * grid['c']).sum()"]
    lines += ["loss = loss + (mesh * mesh.roll(1, 1)).sum() * time + count * lr + names[0][0].mean()"]
    lines += ["loss = loss + (line * line).mean() + last.prod() + steps + best + rate"]
    lines += ["loss = loss * (1 + 0.1 * (kept is a) + 0.2 * (kept is b) + 0.3 * (a is b))"]
    if any("u.append" in line for line in body):
        lines += [
            f"loss = loss + ({draw.choice(['fg.stack(u)', 'fg.stack(u, -1)', 'fg.cat(u)'])} ** 2).sum()"
        ]
    lines += [f"loss = loss + (fg.{draw.choice(['stack', 'cat'])}(v) * 0.5).mean()"]
    read = draw.choices(["past", "past", "v"], k=draw.choice([0, 1, 2]))
    lines += [f"loss = loss + {draw.choice(READ).format(u=items)}" for items in read]
    shown = draw.choice(["a, b", "a, b", "a, b, *past", "b, past[-2]"])
    source = HEAD + "".join(f"    {line}\n" for line in (*lines, f"return loss, [{shown}]"))
    name = f"<random rolled loop {seed}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    namespace: dict[str, Any] = {}
    exec(compile(source, name, "exec", dont_inherit=True), namespace)
    return source, namespace["function"], n


def made_short(set_: Callable[[Any, str, Any], Any]) -> None:
    """Few rounds are enough to leave some out, and to have a loop compiled."""
    set_(rolling, "FEWEST_SMALL", 16)
    set_(rolling, "LONG", 16)
    set_(rolled, "MANY", 100)


def check(seed: int) -> bool:
    """Compare one loop; whether it was rolled. Every second one is tried round by round first."""
    with mock.patch.object(rolling, "LONG_ROUND", 1 if seed % 2 else 1 << 30):
        return compare(seed)


def compare(seed: int) -> bool:
    source, function, n = loop(seed)
    derived, world = fg.value_and_grad(function, (0, 1, 2, 3), has_aux=True), function.__globals__["WORLD"]
    inner, outer = fg.jit(derived), fg.jit(function)

    def results(called: Callable[..., Any], args: Sequence[fg.Tensor]) -> Any:
        """What a call gives, and leaves; the class of what it raises."""
        world.steps = 0
        try:
            found = called(*args)
        except (RuntimeError, IndexError, ValueError) as error:
            return type(error)
        (loss, shown), gradients = found if called in (derived, inner) else (found, ())
        return [t.detach().numpy().copy() for t in (loss, *shown, *gradients)], world.steps

    try:
        for call in range(3):
            of = seed if call < 2 else seed + 1
            for called, eager in ((inner, derived), (outer, function)):
                expected, found = (results(each, given(of, n)) for each in (eager, called))
                if isinstance(found, type) or isinstance(expected, type):
                    assert found is expected, f"call {call}: {found}, not {expected}"
                    continue
                assert found[1] == expected[1], f"call {call}"
                for ours, theirs in zip(found[0], expected[0], strict=True):
                    np.testing.assert_allclose(ours, theirs, 1e-7, 1e-9, err_msg=f"call {call}")
    except Exception as error:
        raise AssertionError(source) from error
    return "rounds of a loop" in str(inner.explain())


def given(seed: int, n: int) -> list[fg.Tensor]:
    """What a loop is called with."""
    draw = np.random.default_rng(seed)
    shapes = (n, WIDTH), (n, WIDTH), (WIDTH, WIDTH), (WIDTH,)
    tensors = [fg.from_numpy(draw.standard_normal(shape) * 0.5) for shape in shapes]
    return [*tensors, fg.from_numpy(draw.integers(-WIDTH, WIDTH, (n, 2)))]


def test_random_loops_have_eagers_values_and_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    """And are rolled often enough to say something of rolling: a third of them are."""
    made_short(monkeypatch.setattr)
    assert sum(map(check, range(12))) >= 2


def test_planted_faults_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that begin one too early, places that are taken to grow whatever they do."""
    made_short(monkeypatch.setattr)
    rows = RowRead.rows
    monkeypatch.setattr(RowRead, "rows", lambda self, x, after, turns: rows(self, x, after - 1, turns))
    assert random_functions.differing(check, range(8, 24))


if __name__ == "__main__":
    made_short(setattr)
    made = [0]

    def counted(seed: int) -> None:
        made[0] += check(seed)

    random_functions.run(counted)
    print(f"{made[0]} were rolled")
