"""The call plans of a leaf's backward: from a node and the gradients of its results to those that are due,
and to what the backward reads, where that was not kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fusegrad.compiler.call_plan.expressions import (
    NONE,
    Call,
    Constant,
    Expression,
    Made,
    Name,
    Row,
    attribute,
    item,
    other_than,
)
from fusegrad.compiler.call_plan.steps import Assign, Run, Step, Unless
from fusegrad.compiler.paths.path import Captured
from fusegrad.compiler.paths.segments import Code, Segment
from fusegrad.eager.core.op import wrap

NODE = Name("node")


def in_rows(array: np.ndarray) -> np.ndarray:
    """A gradient in row-major order, as the compiled backward takes it."""
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def captured_array(node: Any, captured: Captured) -> np.ndarray | None:
    """The memory of a captured tensor as the call of a node read it; None where it is not what it was."""
    array = node.preserved.get(id(captured)) if node.preserved else None
    return captured.memory() if array is None else array


def apart(run: str, spots: Sequence[tuple[int, Sequence[Any]]], taken: set[int]) -> Iterator[Expression]:
    """The arrays at `spots` of a run, each in memory of its own: `.grad` is written in place.

    taken: the numbers of the run's arrays that somebody else has.
    """
    for index, views in spots:
        array = Made(run, index, views)
        yield Call(np.array, (array,)) if index in taken else array
        taken.add(index)


@dataclass(eq=False)
class BackwardPlan:
    """A part of the backward of a leaf: from the variables `node` and `seed0`, ... to a list of results."""

    steps: list[Step]
    result: Expression


def derivation(leaf: Segment) -> BackwardPlan:
    """The plan of the backward of a leaf that has one: its result are the gradients."""
    answers, code = leaf.answers, leaf.backward
    if answers.derivation is None:
        assert code is not None
        steps, inputs = _found(code)
        steps.append(Run("run", code.program, inputs, seen=code.gradients))
        found = apart("run", code.gradients, {*range(len(inputs))})
        answers.derivation = BackwardPlan(steps, Row(tuple(Call(wrap, (array,)) for array in found), list))
    plan: BackwardPlan = answers.derivation
    return plan


def repetition(leaf: Segment) -> BackwardPlan:
    """The plan of the forward of a leaf, for what its backward reads: in the order in which it keeps that."""
    answers, code = leaf.answers, leaf.code
    if answers.repetition is None:
        assert code is not None
        steps, inputs = _found(code)
        # What the call has tested held then, and its own writes may have changed what tests read.
        steps.append(Run("run", code.program, inputs))
        kept = tuple(Made("run", *spot) for _, spot in code.keeps)
        answers.repetition = BackwardPlan(steps, Row(kept, list))
    plan: BackwardPlan = answers.repetition
    return plan


def _found(code: Code) -> tuple[list[Step], tuple[Expression, ...]]:
    """What finds the inputs of a program, from a node, and those."""
    steps: list[Step] = []
    inputs: list[Expression] = []
    for number, (kind, reference) in enumerate(code.inputs):
        if kind == "argument":
            inputs.append(attribute(item(attribute(NODE, "leaves"), reference), "array"))
        elif kind == "kept":
            inputs.append(item(attribute(NODE, "environment"), reference))
        elif kind == "constant":
            inputs.append(Constant(reference))
        elif kind == "seed":
            inputs.append(Call(in_rows, (attribute(Name(f"seed{reference}"), "array"),)))
        else:
            name = f"outside{number}"
            steps.append(Assign(name, Call(captured_array, (NODE, Constant(reference)))))
            steps.append(Unless(other_than(Name(name), NONE)))
            inputs.append(Name(name))
    return steps, tuple(inputs)
