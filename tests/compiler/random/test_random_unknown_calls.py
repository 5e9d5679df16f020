"""Programs put together at random with unknown functions called in their middle: eager and jit agree.

The functions are C objects to Python (static methods), which call Python: they give numbers that steer
branches, texts and arrays, raise, draw random numbers, count; they write, keep and give back what they are
given, write memory that they were not given, and change attributes, lists and tensors, each time or now and
then. Each call is made once, in order: what they were given is compared, too. More:
`PYTHONPATH=tests/helpers python tests/compiler/random/test_random_unknown_calls.py COUNT SEED`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import planted
import pytest
import random_functions

import fusegrad as fg
from fusegrad.compiler import entries
from fusegrad.eager.ranks import journal
from fusegrad.tracer.observe.world import unknown_calls

IMPORTS = "import numpy as np\nimport fusegrad as fg\n"
PROGRAMS, CALLS = 40, 9


class Functions:
    """What functions do, by their names. Each is given the world `s` and an array; `s.calls` counts them."""

    def double(s: Any, a: Any) -> Any:
        return np.multiply(a, 2.0)

    def triple(s: Any, a: Any) -> Any:
        return np.multiply(a, 3.0)

    def mean(s: Any, a: Any) -> Any:
        return float(np.mean(a))

    def nothing(s: Any, a: Any) -> Any:
        return None

    def count(s: Any, a: Any) -> Any:
        return s.calls

    def text(s: Any, a: Any) -> Any:
        return "high" if np.mean(a) > 0.1 else "low"

    def two(s: Any, a: Any) -> Any:
        return np.add(a, 1.0), int(np.sum(np.greater(a, 0)))

    def columns(s: Any, a: Any) -> Any:
        return np.asfortranarray(np.zeros((3, 3)) + a)

    def sizes(s: Any, a: Any) -> Any:
        return np.ones(3 if s.calls % 4 else 1) * np.mean(a)

    def kinds(s: Any, a: Any) -> Any:
        return 1.5 if s.calls % 5 else 2

    def draws(s: Any, a: Any) -> Any:
        return s.random.random()

    def draws_of_ours(s: Any, a: Any) -> Any:
        return float(fg.rand(()))

    def raises(s: Any, a: Any) -> Any:
        if s.calls % 4 == 0:
            raise ValueError
        return 0.25

    def reads(s: Any, a: Any) -> Any:
        return float(s.buffer.detach().sum()) + float(s.weight.detach()[0, 0])

    def writes(s: Any, a: Any) -> Any:
        if isinstance(a, np.ndarray):
            a[0] = 0.5

    def rarely_writes(s: Any, a: Any) -> Any:
        if isinstance(a, np.ndarray) and s.calls % 4 == 3:
            a += 1
        return 1.25

    def keeps(s: Any, a: Any) -> Any:
        s.kept = a

    def gives_back(s: Any, a: Any) -> Any:
        return a

    def gives_its_own(s: Any, a: Any) -> Any:
        s.own += a
        return s.own

    def rarely_gives_its_own(s: Any, a: Any) -> Any:
        s.own += a
        return s.own if s.calls % 5 == 4 else s.own.copy()

    def a_view(s: Any, a: Any) -> Any:
        return (np.zeros((3, 6)) + np.mean(a))[:, ::2]

    def an_object(s: Any, a: Any) -> Any:
        return {"mean": np.mean(a)}

    def writes_outside(s: Any, a: Any) -> Any:
        s.table += 0.1

    def rarely_writes_outside(s: Any, a: Any) -> Any:
        if s.calls % 4 == 3:
            s.table += 0.1
        return 2.5

    def writes_a_tensor(s: Any, a: Any) -> Any:
        s.buffer.mul_(0.9)

    def counts(s: Any, a: Any) -> Any:
        s.number += 1

    def rarely_counts(s: Any, a: Any) -> Any:
        if s.calls % 4 == 3:
            s.number += 1
        return 0.5

    def appends(s: Any, a: Any) -> Any:
        s.list.append(len(s.list))

    def rarely_appends(s: Any, a: Any) -> Any:
        if s.calls % 4 == 3:
            s.list.append(len(s.list))


FUNCTIONS = {name: f for name, f in vars(Functions).items() if not name.startswith("_")}
PLAIN = "double triple mean nothing count text two columns a_view raises draws".split()
# {v}, {u}: names of tensors, {a}: of arrays, {n}: of numbers; {f}: of a function.
KINDS = {
    "tensor": """
        {v} * 2 + {u} | fg.tanh({v}) | {v} @ s.weight | {v} * {u} | {v} - s.buffer | {v}.sum() * {u}
        {v}.detach().clone() | {v} * fg.from_numpy(s.table) | {v} * s.shared
        fg.nn.functional.dropout({v}, 0.5)
    """,
    "array": """
        {v}.detach().numpy() | {v}.detach().numpy() | s.buffer.numpy() | {v}.detach().T.numpy()
        s.shared.numpy()
    """,
    "number": """
        {v}.detach().mean().item() | {v}.detach()[0, 1].item() | float({a}.max()) | s.number * 0.5
        s.number | {n} + 0.5 | len(s.list)
    """,
    "call": """
        s.{f}({a}) | s.{f}({a}) | s.{f}({n}) | s.{f}(0.5) | s.{f}({a})
    """,
    "write": """
        s.buffer.mul_(0.9) | s.buffer.copy_({v}.detach()) | {v} = {v}.detach().clone().add_(1)
        s.left = {n} | s.shown = {a} | s.left_tensor = {v}.detach() | s.weight.grad = None
    """,
    "branch": """
        {n} > 0.1 | {a}[0, 0] > 0.2 | {v}.sum() > 0.5 | s.number > 2
    """,
}  # fmt: skip
TEMPLATES = {
    kind: [t.strip() for line in text.strip().splitlines() for t in line.split("|")]
    for kind, text in KINDS.items()
}
OFTEN = ["tensor"] * 5 + ["array"] * 2 + ["number"] * 2 + ["call"] * 4 + ["branch"]
USED = """
    if type({c}) is float or type({c}) is int: {v} = {v} * {c}
    if type({c}) is str: {v} = {v} * (2 if {c} == "high" else 3)
    if type({c}) is np.ndarray: {v} = {v} + fg.from_numpy({c})
    if type({c}) is tuple: {v} = {v} * {c}[1] + fg.tensor({c}[0])
""".strip("\n")


def source_of(pick: random.Random) -> str:
    """The text of a program: a maker of its world, which gives the function."""
    names = {"v": ["x", "s.buffer"], "a": ["first"], "n": ["k"]}
    given = {"tensor": "v", "array": "a", "number": "n"}
    lines = ["first = x.detach().numpy()"]
    some = [pick.choice([*PLAIN, *FUNCTIONS]) for _ in range(3)]
    wild = pick.random() < 0.25  # writes anywhere, not in the end alone
    frame = pick.randrange(4, 11)
    for place in range(frame):
        late = wild or place > frame - 3
        kind = pick.choice([*OFTEN, "write"] if late else OFTEN)
        v, a, n = names["v"], names["a"], names["n"]
        own = [name for name in v if name not in ("x", "s.buffer")] if kind == "write" else v
        text = pick.choice(TEMPLATES[kind]).format(
            v=pick.choice(own or ["x.clone()"]), u=pick.choice(v), a=pick.choice(a), n=pick.choice(n),
            f=pick.choice(some),
        )  # fmt: skip
        if kind == "branch":
            lines += [f"if {text}:", f"    x = x * 1.5 + {pick.choice(v)}"]
        elif kind == "call":
            lines.append(f"c{place} = {text}")
            if pick.random() < 0.8:
                used = USED.format(c=f"c{place}", v="x")
                lines += [line.strip() for line in used.splitlines()]
        elif kind in given:
            name = f"{given[kind]}{place}"
            lines.append(f"{name} = {text}")
            names[given[kind]].append(name)
        else:
            lines.append("pass" if "x.clone() =" in text else text)
    body = [f"        {line}" for line in lines]
    results = f"        return x, {pick.choice(names['v'])} * 1, {pick.choice(names['n'])}, x.sum()"
    return "\n".join(["def make(s):", "    def function(x, k):", *body, results, "    return function", ""])


def _unknown(s: Any, function: Callable[[Any, Any], Any]) -> Any:
    """A callable of a C type, which notes what it is given."""

    def called(a: Any) -> Any:
        s.calls += 1
        s.log.append((function.__name__, np.copy(a) if isinstance(a, np.ndarray) else a))
        return function(s, a)

    return staticmethod(called)


class World:
    """A program with what it finds outside."""

    def __init__(self, text: str, seed: int, jitted: bool) -> None:
        draws = np.random.default_rng(seed)
        weight, buffer, table = draws.normal(size=(3, 3, 3))
        self.s = s = SimpleNamespace(
            weight=fg.tensor(weight, requires_grad=True), buffer=fg.tensor(buffer), table=table, number=1,
            shared=fg.from_numpy(table), left=None, shown=None, left_tensor=None, list=[1],
            calls=0, log=[], kept=None, own=np.zeros((3, 3)), random=random.Random(seed),
        )  # fmt: skip
        for name, function in FUNCTIONS.items():
            setattr(s, name, _unknown(s, function))
        function = random_functions.defined(f"{IMPORTS}{text}")["make"](s)
        self.called = fg.jit(function) if jitted else function
        self.state: Any = None

    def call(self, x: np.ndarray, k: float) -> list[Any]:
        """What a call gives, leaves and derives, or the class of what it raises."""
        s = self.s
        s.weight.grad = None
        s.log.clear()
        found: list[Any] = []
        with _generator(self):
            try:
                *found, loss = self.called(fg.tensor(x, requires_grad=True), k)
                if loss.requires_grad:
                    loss.backward()
            except Exception as error:
                if "which it did not do when this was recorded" in str(error):
                    raise Refused from None
                found = [type(error).__name__]
        found += [s.weight.grad, s.buffer, s.left, s.shown, s.left_tensor, s.table, s.number, *s.list]
        found += [s.kept, s.own, *(part for entry in s.log for part in entry)]
        return [x.detach().numpy().copy() if isinstance(x, fg.Tensor) else _copied(x) for x in found]


class _generator:
    """Inside, random numbers are those of a world."""

    def __init__(self, world: World) -> None:
        self.world = world

    def __enter__(self) -> None:
        if self.world.state is None:
            fg.manual_seed(3)
        else:
            fg.set_rng_state(self.world.state)

    def __exit__(self, *error: Any) -> None:
        self.world.state = fg.get_rng_state()


class Refused(Exception):
    """A function has changed late what was read before, so that a replay ended in an error."""


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


def check(seed: int) -> int:
    """Run a program in both ways; how many calls were compiled."""
    pick = random.Random(seed)
    text = source_of(pick)
    eager, jitted = (World(text, seed, jitted) for jitted in (False, True))
    varies = pick.random() < 0.3
    for call in range(CALLS):
        for s in (eager.s, jitted.s) if call == CALLS // 2 else ():
            s.double, s.triple = s.triple, s.double
        x = np.random.default_rng(seed + call).normal(size=(3, 3))
        k = 0.5 + call * 0.1 * varies
        try:
            expected, found = eager.call(x.copy(), k), jitted.call(x.copy(), k)
        except Refused:
            REFUSED.append(seed)
            break
        words = f"seed {seed}, call {call}\n{text}"
        assert len(found) == len(expected), f"{words}\n{found}\n{expected}"
        for ours, theirs in zip(found, expected, strict=True):
            _agree(ours, theirs, words)
    return int(jitted.called.stats.compiled_calls)


REFUSED: list[int] = []


def _agree(ours: Any, theirs: Any, words: str) -> None:
    assert type(ours) is type(theirs), f"{words}\n{ours!r}\n{theirs!r}"
    if isinstance(theirs, (np.ndarray, np.generic, float)):
        assert np.asarray(ours).dtype == np.asarray(theirs).dtype, words
        scale = np.abs(theirs).max() if np.all(np.isfinite(theirs)) else 1.0
        np.testing.assert_allclose(ours, theirs, 1e-8, 1e-9 * scale, err_msg=words)
    else:
        assert ours == theirs, f"{words}\n{ours!r}\n{theirs!r}"


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_programs_with_unknown_calls_in_their_middle_agree(seed: int) -> None:
    check(seed)


def test_most_of_them_are_compiled() -> None:
    assert sum(check(seed) > 0 for seed in range(PROGRAMS)) > PROGRAMS // 2


PLANTED: dict[str, tuple[Any, str, Any]] = {
    "what came first comes again": (unknown_calls, "Outcome", None),
    "a call is made by each attempt": (journal.Journal, "taken", lambda self, what, sent: None),
    "nobody looks what is written": (unknown_calls.World, "written", lambda self: []),
    "nobody looks what has changed": (unknown_calls.World, "problem", lambda self: ""),
    "what is kept is a copy": (unknown_calls, "_same", lambda one, other: True),
    "reads are not asked again": (entries.Variant, "refusal", lambda self, path: None),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_faults_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, fault = PLANTED[name]
    if attribute == "Outcome":
        original, kept = unknown_calls.Cut.arrays, dict[int, Any]()

        def arrays(self: Any, given: Any) -> Any:
            return kept.setdefault(id(self), (self, original(self, given)))[1]

        owner, attribute, fault = unknown_calls.Cut, "arrays", arrays
    monkeypatch.setattr(owner, attribute, fault)
    assert any(planted.finds(check, seed) for seed in range(400))


if __name__ == "__main__":
    random_functions.run(check)
