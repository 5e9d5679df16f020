"""Call plans: what the writer spells out does what the interpreter does, for plans of all sorts."""

from __future__ import annotations

import operator
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler.call_plan import python_writer
from fusegrad.compiler.call_plan.expressions import (
    NONE,
    Call,
    Constant,
    Either,
    Expression,
    Like,
    Name,
    Row,
    attribute,
    item,
    other_than,
    same,
)
from fusegrad.compiler.call_plan.python_writer import Writer
from fusegrad.compiler.call_plan.steps import Assign, Do, Frame, Step, Unless, Unpack, execute
from fusegrad.compiler.entries import Variant
from fusegrad.compiler.paths import replay
from fusegrad.compiler.paths.replay import Answer
from fusegrad.compiler.paths.segments import MISSED


class Thing:
    """Something with attributes, which notes what is set."""

    __slots__ = ("array", "next", "number")

    def __init__(self, number: int) -> None:
        self.number, self.array = number, np.array(float(number))


def total(*values: Any) -> float:
    return float(sum(v if isinstance(v, (int, float)) else 1 for v in values))


def interpreted(steps: Sequence[Step], result: Expression, variables: dict[str, Any]) -> Any:
    frame = Frame(dict(variables))
    return MISSED if execute(steps, frame) is not None else result.evaluate(frame.variables)


def written(steps: Sequence[Step], result: Expression, variables: dict[str, Any]) -> Any:
    writer = Writer(MISSED)
    writer.write(steps)
    writer.returns(result)
    answer = writer.function(writer.text(", ".join(variables)), "plan")
    return answer(*variables.values())


class Generator:
    """Draws plans over a few things: names of numbers, of things and of rows."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.numbers, self.things = ["n"], ["x", "y"]
        self.steps: list[Step] = []

    def number(self, depth: int = 0) -> Expression:
        kind = self.draw.randrange(7) if depth < 3 else self.draw.randrange(3)
        if kind == 0:
            return Constant(self.draw.choice([0, 1, 2.5, True, -3]))
        if kind == 1:
            return Name(self.draw.choice(self.numbers))
        if kind == 2:
            return attribute(self.thing(), "number")
        if kind == 3:
            return Either(self.number(depth + 1), self.number(depth + 1))
        if kind == 4:
            return Call(total, tuple(self.number(depth + 1) for _ in range(self.draw.randrange(3))))
        if kind == 5:
            row = Row((self.number(depth + 1), self.number(depth + 1)), self.draw.choice([tuple, list]))
            return item(row, self.draw.randrange(2))
        return Call(np.ndarray.item, (attribute(self.thing(), "array"),))

    def thing(self) -> Expression:
        return Name(self.draw.choice(self.things))

    def condition(self) -> Expression:
        return self.draw.choice(
            [
                same(self.thing(), self.thing()),
                other_than(self.thing(), NONE),
                self.number(),
                Call(operator.eq, (self.number(), self.number())),
                same(attribute(self.thing(), "array"), NONE),
            ]
        )

    def step(self, number: int) -> None:
        kind = self.draw.randrange(6)
        if kind <= 1:
            self.steps.append(Assign(f"n{number}", self.number()))
            self.numbers.append(f"n{number}")
        elif kind == 2:
            names = f"a{number}", f"b{number}"
            self.steps.append(Unpack(names, Row((self.number(), self.number()))))
            self.numbers += names
        elif kind == 3:
            self.steps.append(Do(Call(setattr, (self.thing(), Constant("number"), self.number()))))
        elif kind == 4:
            self.steps.append(Unless(self.condition()))
        else:
            template = Thing(self.draw.randrange(5))
            self.steps.append(Assign(f"t{number}", Like(template)))
            self.things.append(f"t{number}")

    def plan(self, length: int) -> tuple[list[Step], Expression]:
        for number in range(length):
            self.step(number)
        return self.steps, Row((*(self.number() for _ in range(3)), Row((), list)), list)


def outcomes(seed: int) -> tuple[Any, Any]:
    """What a plan gives, and what it leaves in the things that it is given, by both."""
    steps, result = Generator(seed).plan(12)
    found = []
    for way in (interpreted, written):
        x, y = Thing(1), Thing(2)
        found.append((way(steps, result, {"x": x, "y": y, "n": 3}), x.number, y.number))
    return found[0], found[1]


def test_plans_written_out_do_what_the_interpreter_does():
    answered = 0
    for seed in range(400):
        ours, theirs = outcomes(seed)
        assert repr(ours) == repr(theirs), seed
        answered += ours[0] is not MISSED
    assert 60 < answered < 340  # both kinds


FAULTS = {
    operator.is_: "{0} is not {1}",
    operator.getitem: "{0}[0]",
    operator.eq: "{0} != {1}",
}


@pytest.mark.parametrize("function", FAULTS, ids=lambda f: f.__name__)
def test_a_wrong_spelling_is_found(function: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(python_writer.SPELLED, function, FAULTS[function])
    assert any(repr(a) != repr(b) for a, b in map(outcomes, range(400)))


def test_a_refusal_leaves_the_plan():
    def refuses(value: Any) -> bool:
        raise ValueError("no")

    steps = [Unless(Call(refuses, (Name("n"),)), refuses=True)]
    for way in (interpreted, written):
        assert way(steps, NONE, {"n": 1}) is MISSED
    for way in (interpreted, written):
        with pytest.raises(ValueError, match="no"):
            way([Unless(Call(refuses, (Name("n"),)))], NONE, {"n": 1})


def test_an_object_is_like_another_in_all_of_its_slots():
    template = Thing(4)
    (made,) = (interpreted([Assign("t", Like(template))], Name("t"), {}),)
    assert type(made) is Thing and made is not template
    assert made.number == 4 and made.array is template.array and not hasattr(made, "next")


def test_shortcuts_give_what_the_steps_give(monkeypatch: pytest.MonkeyPatch):
    """The very call that a shortcut has answered, by the interpreter."""
    weight = fg.tensor([0.5, -1.0, 2.0], requires_grad=True)

    @fg.jit
    def function(x: Any, options: dict[str, Any]) -> Any:
        y = fg.tanh(x * weight) * options["scale"]
        return {"y": y, "sum": y.sum(), "x": x}, (y > 0, "text")

    def call() -> Any:
        return function(fg.tensor([1.0, 2.0, 3.0], requires_grad=True), {"scale": 2.0})

    for _ in range(8):
        call()
    assert function._answer is not None
    short = call()
    function._answer = None
    answers: list[Answer] = []
    known = replay.run

    def noted(*args: Any, **kwargs: Any) -> Any:
        answers.append(known(*args, **kwargs))
        return answers[-1]

    monkeypatch.setattr(replay, "run", noted)
    long = call()
    assert len(answers) == 1 and isinstance(answers[0], Answer)
    for found in (short, long):
        (found[0]["sum"] + found[0]["y"].sum()).backward()
    assert [*short[0]] == [*long[0]] and short[1][1] == long[1][1]
    for name in short[0]:
        assert short[0][name].tolist() == long[0][name].tolist()
    assert short[0]["x"].grad.tolist() == long[0]["x"].grad.tolist()
    assert short[1][0].tolist() == long[1][0].tolist()


def test_a_plan_is_made_once():
    @fg.jit
    def double(x: Any) -> Any:
        return x * 2

    for _ in range(3):
        double(fg.ones(3))
    (variant,) = next(iter(double.entries.values())).variants
    assert isinstance(variant, Variant)
    plan = variant.tree.root.answers.plans[False]
    double(fg.ones(3))
    assert variant.tree.root.answers.plans == {False: plan}
