"""Programs put together at random with functions of NumPy and SciPy in their middle: eager and jit agree.

A program computes with tensors, has NumPy and SciPy make something of arrays in their memory, and goes on
with that: as tensors, as numbers, as an index, in a branch. Before, between and after it writes tensors and
arrays that may share memory with those. What it returns, leaves and derives is compared. More:
`PYTHONPATH=tests/helpers python tests/compiler/random/test_random_cuts.py COUNT SEED`.
"""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import planted
import pytest
import random_functions

import fusegrad as fg
from fusegrad.tracer.observe.arrays import foreign

IMPORTS = "import numpy as np\nimport scipy\nimport fusegrad as fg\n"
PROGRAMS, CALLS = 30, 8
# {v}, {u}: names of tensors, {a}, {b}: of arrays, all of them 3 x 3; {n}: of a number.
KINDS = {
    "tensor": """
        {v} * 2 + {u} | fg.tanh({v}) | {v} @ s.weight | {v} * {u} | {v} - s.buffer | {v}.sum() * {u}
        {v}.T + {u} | {v}.detach().clone() | {v}[:, [2, 0, 1]]
    """,
    "array": """
        {v}.detach().numpy() | {v}.detach().cpu().numpy() | np.asarray({v}.detach()) | s.buffer.numpy()
        {v}.detach().T.numpy()
    """,
    "computed": """
        {a} + {b} | np.sqrt(np.abs({a})) | scipy.linalg.expm({a} * 0.1) | np.sort({a}, axis=1) | {a}.T
        {a}[::1] | np.linalg.inv({a} * 0.01 + np.eye(3)) | np.median({a}, axis=0, keepdims=True) + {b}
        {a} @ {b} | -{a} | {a}.reshape(9)[:9].reshape(3, 3) | np.concatenate([{a}, {b}])[1:4] | {a}.copy()
        {a} * s.table | scipy.ndimage.gaussian_filter({a}, 0.7) | np.where({a} > 0, {b}, 0.25)
        np.abs(np.linalg.svd({a})[1]) * {b} | {a}.astype("f4").astype("f8") | scipy.special.erf({a})
        np.cumsum({a}, axis=0) | np.stack(({a}[0], {b}[1], {b}[2]))
        scipy.linalg.qr({a} * 0.01 + np.eye(3))[1] | np.clip({a}, -1, 1) | {a} - k | {a} * {n}
        np.outer({a}[0], {b}[1]) | {a}.mean() * {b} | np.asfortranarray({a})
        np.linalg.cholesky({a} @ {a}.T * 0.01 + np.eye(3)).T
    """,
    "number": """
        float({a}.sum()) | {a}.mean() | {a}[0, 1] | np.linalg.norm({a}) | {a}.max().item()
        {a}.tolist()[0][1] | float(np.median({a})) | [float(row[0]) for row in {a}][1]
        {v}.detach().mean().item()
    """,
    "back": """
        fg.from_numpy({a}) | fg.tensor({a}) | fg.as_tensor({a}) | {v} * {a}
        {v} + fg.from_numpy({a}.copy()) | {v} * {n} | {v}[np.argsort({a}[0])]
        {v}[fg.from_numpy(np.argmax({a}, axis=1))] | fg.tensor({a}, dtype=fg.float64) * {v}
        {v}[[*scipy.optimize.linear_sum_assignment({a})][1]] | {v} - fg.as_tensor({a}.astype("f4")).double()
    """,
    "write": """
        s.buffer.mul_(0.9) | s.buffer.copy_({v}.detach()) | {v} = {v}.detach().clone().add_(1)
        s.kept = {n} | s.shown = {a} | s.buffer[1] = {v}.detach()[0] | s.kept_tensor = {v}.detach()
        s.buffer.add_(fg.from_numpy({a})) | {v} = {v}.detach().clone(); {a} = {v}.numpy(); {v}.mul_(0.5)
    """,
    "rarely": """
        {a}[0] = 1.0 | {a} += 1 | np.add({a}, 1, out={a}) | s.list.append({n})
    """,
    "branch": """
        {n} > 0.1 | {a}[0, 0] > {b}[1, 1] | np.any({a} > 1.5) | len(np.flatnonzero({a} > 0)) > 4
        {a}.sum() < 0
    """,
}  # fmt: skip
TEMPLATES = {
    kind: [t.strip() for line in text.strip().splitlines() for t in line.split("|")]
    for kind, text in KINDS.items()
}
OFTEN = ["tensor"] * 3 + ["array"] * 3 + ["computed"] * 5 + ["number"] * 2 + ["back"] * 4 + ["write"] * 2


def source_of(pick: random.Random) -> str:
    """The text of a program: a maker of its world, which gives the function."""
    names = {"v": ["x", "s.buffer"], "a": ["first"], "n": ["k"]}
    given = {"tensor": "v", "back": "v", "array": "a", "computed": "a", "number": "n"}
    lines = ["first = x.detach().numpy()"]

    def filled(kind: str, local: bool = False) -> str:
        v, a, n = names["v"], names["a"], names["n"]
        own = [name for name in v if name not in ("x", "s.buffer")] if local else v
        return pick.choice(TEMPLATES[kind]).format(
            v=pick.choice(own or ["x.clone()"]), u=pick.choice(v), a=pick.choice(a), b=pick.choice(a),
            n=pick.choice(n),
        )  # fmt: skip

    for place in range(pick.randrange(4, 12)):
        kind = pick.choice(["rarely", "branch"] if pick.random() < 0.1 else OFTEN)
        if kind == "branch":
            lines += [f"if {filled(kind)}:", f"    x = x * 1.5 + {pick.choice(names['v'])}"]
        elif kind in given:
            name = f"{given[kind]}{place}"
            lines.append(f"{name} = {filled(kind)}")
            names[given[kind]].append(name)
        else:
            text = filled(kind, local=True)
            lines.append("pass" if "x.clone() =" in text else text)
    shown = [*pick.sample(names["v"], 2), *pick.sample(names["n"], 1), pick.choice(names["a"])]
    if pick.random() < 0.8:  # results in memory of their own are what replays give
        shown[-1] = f"np.negative({shown[-1]})"
    body = [f"        {line}" for line in lines]
    results = f"        return {', '.join(shown)}, x.sum() + {pick.choice(names['v'])}.mean()"
    return "\n".join(["def make(s):", "    def function(x, k):", *body, results, "    return function", ""])


class World:
    """A program with what it finds outside."""

    def __init__(self, text: str, seed: int, jitted: bool) -> None:
        draws = np.random.default_rng(seed)
        weight, buffer, self.table = draws.normal(size=(3, 3, 3))
        self.s = SimpleNamespace(
            weight=fg.tensor(weight, requires_grad=True), buffer=fg.tensor(buffer), table=self.table,
            kept=None, shown=None, kept_tensor=None, list=[],
        )  # fmt: skip
        function = random_functions.defined(f"{IMPORTS}{text}")["make"](self.s)
        self.called = fg.jit(function) if jitted else function

    def call(self, x: np.ndarray, k: float) -> list[Any]:
        """What a call gives, leaves and derives, or the class of what it raises."""
        self.s.weight.grad = None
        try:
            with np.errstate(all="ignore"):
                *results, loss = self.called(fg.tensor(x, requires_grad=True), k)
                if loss.requires_grad:
                    loss.backward()
        except Exception as error:
            return [type(error).__name__]
        s = self.s
        found = [*results, loss, s.weight.grad, s.buffer, s.kept, s.shown, s.kept_tensor, *s.list]
        return [x.detach().numpy().copy() if isinstance(x, fg.Tensor) else _copied(x) for x in found]


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


def check(seed: int) -> int:
    """Run a program in both ways; how many calls were compiled."""
    pick = random.Random(seed)
    text = source_of(pick)
    eager, jitted = (World(text, seed, jitted) for jitted in (False, True))
    varies = pick.random() < 0.3
    for call in range(CALLS):
        x = np.random.default_rng(seed + call).normal(size=(3, 3))
        k = 0.5 + call * 0.1 * varies
        if call == CALLS // 2:  # nobody hears of that
            for world in (eager, jitted):
                world.table *= 1.5
        expected, found = eager.call(x.copy(), k), jitted.call(x.copy(), k)
        words = f"seed {seed}, call {call}\n{text}"
        assert len(found) == len(expected), f"{words}\n{found}\n{expected}"
        for ours, theirs in zip(found, expected, strict=True):
            _agree(ours, theirs, words)
    return int(jitted.called.stats.compiled_calls)


def _agree(ours: Any, theirs: Any, words: str) -> None:
    assert type(ours) is type(theirs), f"{words}\n{ours!r}\n{theirs!r}"
    if isinstance(theirs, (np.ndarray, np.generic, float)):
        strides = [x.strides if isinstance(x, np.ndarray) else () for x in (ours, theirs)]
        assert np.asarray(ours).dtype == np.asarray(theirs).dtype, words
        assert strides[0] == strides[1], f"{words}\nstrides {strides}"
        scale = np.abs(theirs).max() if np.all(np.isfinite(theirs)) else 1.0
        np.testing.assert_allclose(ours, theirs, 1e-8, 1e-9 * scale, err_msg=words)
    else:
        assert ours == theirs, words


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_programs_with_numpy_in_their_middle_agree(seed: int) -> None:
    check(seed)


def test_most_of_them_are_compiled() -> None:
    assert sum(check(seed) > 0 for seed in range(PROGRAMS)) > PROGRAMS // 2


def test_what_a_function_gave_first_given_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    original = foreign.Call.arrays
    kept: dict[int, Any] = {}

    def arrays(self: foreign.Call, given: Any) -> Any:
        return kept.setdefault(id(self), (self, original(self, given)))[1]

    monkeypatch.setattr(foreign.Call, "arrays", arrays)
    assert any(planted.finds(check, seed) for seed in range(PROGRAMS))


def test_operands_that_nobody_tells_apart_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign.Call, "__repr__", lambda self: "a call")
    assert any(planted.finds(check, seed) for seed in range(PROGRAMS))


if __name__ == "__main__":
    random_functions.run(check)
