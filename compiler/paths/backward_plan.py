"""The call plan of a leaf's backward: from a node and the gradients of its results to those that are due."""

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
from fusegrad.compiler.paths.autograd_node import captured_array, in_rows
from fusegrad.compiler.paths.segments import Segment
from fusegrad.eager.core.op import wrap

NODE = Name("node")


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
    """The backward of a leaf: from the variables `node` and `seed0`, ... to the gradients, a list."""

    steps: list[Step]
    result: Expression


def backward_plan(leaf: Segment) -> BackwardPlan:
    """The plan of the backward of a leaf that has one."""
    assert leaf.backward is not None
    steps: list[Step] = []
    inputs: list[Expression] = []
    for number, (kind, reference) in enumerate(leaf.backward.inputs):
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
    steps.append(Run("run", leaf.backward.program, tuple(inputs), seen=leaf.backward.gradients))
    found = apart("run", leaf.backward.gradients, {*range(len(inputs))})
    return BackwardPlan(steps, Row(tuple(Call(wrap, (array,)) for array in found), list))
