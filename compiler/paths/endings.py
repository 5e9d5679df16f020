"""The end of a call: what makes the results of a path, their place on the graph, and what is left in Python.

    result0 = wrap(run0[2]); place(result0, node, 0)
    alias1 = share(result0)        `detach()`, of the same memory
    array0 = lent(alias1)          `numpy()`
    return (result0, array0)

Steps for numbers that the result has, and for attributes and lists that get something, are among them.
"""

from __future__ import annotations

import itertools
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

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
    structured,
)
from fusegrad.compiler.call_plan.steps import Assign, Do, Step
from fusegrad.compiler.paths.autograd_node import AGAIN, RESULT, FreedNode, facts_of, template_of
from fusegrad.compiler.paths.backward_plan import NODE, apart
from fusegrad.compiler.paths.commit import append, set_attribute, with_writes
from fusegrad.compiler.paths.path import Path
from fusegrad.compiler.paths.variables import LEAVES, kept_name, leaf_name
from fusegrad.eager.autograd.node import next_sequence, place, reach, share
from fusegrad.eager.autograd.views import ask_before_write
from fusegrad.eager.core.errors import user_spot
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.shared import another, lend, watching
from fusegrad.eager.core.tensor import Tensor, mark_inference
from fusegrad.tracer.capture.captured import Attribute, Items, Output

if TYPE_CHECKING:
    from fusegrad.compiler.paths.plans import Planner


class Ending:
    """The results of a path and their place on the graph."""

    def __init__(self, planner: Planner, path: Path) -> None:
        self.planner, self.path, self.joint = planner, path, planner.joint
        self.arrays = [planner.made(spot) for spot in planner.code.results]
        self.tensors: dict[Any, Name] = {}  # by value
        self.late: list[Step] = []
        self.steps: list[Step] = []
        outputs = [o for o in path.capture.outputs if o.value is not None]
        self.freed = {o.value: o.grad_name for o in reversed(outputs) if o.freed}
        self.inference = {o.value for o in outputs if o.inference}
        if path.derivative.wanted:
            self._node()
        self._results()
        self._numbers()
        if path.derivative.wanted:
            self._link()
        self._aliases()
        self._arrays()

    def _do(self, function: Any, *arguments: Expression) -> None:
        self.steps.append(Do(Call(function, arguments)))

    def _set(self, name: str, value: Expression) -> None:
        self._do(setattr, NODE, Constant(name), value)

    def _node(self) -> None:
        planner, path = self.planner, self.path
        self.steps.append(Assign(NODE.name, Like(template_of(planner.segment, self.joint is None))))
        places = [kept_name(p) if p in planner.kept else NONE for p in range(planner.tree.environment)]
        self._set("environment", Row(tuple(places), list))
        self._set("spot", Call(user_spot))
        self._set("leaves", LEAVES)
        if self.joint is not None:
            taken = {*range(len(self.joint.inputs)), *(i for i, _ in (*self.joint.results, *self.joint.left))}
            gradients = apart(planner.name, self.joint.gradients, taken)
            self._set("ready", Row(tuple(Call(wrap, (gradient,)) for gradient in gradients), list))
        # The path holds captured tensors weakly; what backward needs must live until then.
        outside = [planner.tensor(c.reference) for c in path.captured.values()]
        if outside:
            self._set("captured", Row(tuple(outside)))
        wanted = [
            planner.tensor(s if isinstance(s, int) else s.reference) for s in path.derivative.wanted_from
        ]
        self._set("types", Row(tuple(wanted)))
        self._set("edges", Row(tuple(_edge(number, tensor) for number, tensor in enumerate(wanted))))
        self._set("sequence", Call(next_sequence))  # edges may make nodes, which come before

    def _results(self) -> None:
        for number, value in self.path.own_results.items():
            name = self.tensors[value] = Name(f"result{number}")
            self.steps.append(Assign(name.name, Call(wrap, (self.arrays[number],))))
            if value in self.path.capture.left.made:
                self._do(with_writes, name, Constant(self.path.capture.left.made[value]))
            if value in self.freed:
                freed = Call(FreedNode, (Constant(self.freed[value]), name))
                self._do(place, name, freed, Constant(0))
            if value in self.inference:
                self._do(mark_inference, Row((name,)))

    def _numbers(self) -> None:
        """Take Python numbers out of what was computed for them, before anything is left in the world."""
        planner, numbers = self.planner, self.path.capture.left.numbers
        self.numbers: dict[Any, Name] = {}
        made = planner.code.left[len(planner.code.left) - len(numbers) :]
        for number, (value, spot) in enumerate(zip(numbers, made, strict=True)):
            name = self.numbers[value] = Name(f"number{number}")
            taken = Call(np.ndarray.item, (planner.made(spot),))
            # Those of bfloat16 are no Python numbers.
            self.steps.append(Assign(name.name, taken if value.dtype.kind in "iu" else Call(float, (taken,))))
        for output in self.path.capture.outputs:
            planner.numbers.names.update((symbol, self.numbers[value].name) for symbol, value in output.held)
            if output.held:
                self.steps += planner.numbers.find(output.item)

    def _link(self) -> None:
        """Note how often the memory was written that backward needs, then put the results on the graph."""
        path, planner, derived = self.path, self.planner, self.path.derivative
        facts = facts_of(planner.segment, self.joint is None)
        counted: list[Expression] = [leaf_name(i) for i in path.argument_leaves.values()]
        counted += [planner.tensor(c.reference) for c in path.captured.values()]
        read_from = dict(zip((*path.argument_leaves, *path.captured), counted, strict=True))
        counted += [read_from[target] for target in path.kept_writes.values()]
        read = [fact.value for fact in facts if fact.what == RESULT]
        counted += [self.tensors[v] for v in read]
        versions = [attribute(tensor, "version") for tensor in counted]
        self._set("counters", Row(tuple(versions), list))
        self._set("numbers", Row(tuple(item(version, 0) for version in versions), list))
        if read:
            references = [Call(weakref.ref, (self.tensors[v],)) for v in read]
            self._set("results", Row(tuple(references)))
        self._do(watching.add, NODE)
        for fact, version in zip(facts, versions, strict=True):
            if fact.how == AGAIN:
                self._do(ask_before_write, version, NODE)
        for number, value in path.own_results.items():
            if number in derived.seeded and value not in self.freed:
                self._do(place, self.tensors[value], NODE, Constant(derived.seeded.index(number)))

    def _aliases(self) -> None:
        """Tensors of the memory of others."""
        outputs = self.path.capture.outputs
        for output in outputs:
            if output.kind == "alias":
                owner, number, counted = output.item
                shared = Call(share if counted else _data, (self._tensor(outputs[owner]),))
                self.steps.append(Assign(f"alias{number}", shared))

    def _arrays(self) -> None:
        """NumPy arrays in the memory of tensors."""
        lent = {o.lent: self._tensor(o) for o in self.path.capture.outputs if o.lent is not None}
        for number, tensor in lent.items():
            self.steps.append(Assign(f"array{number}", Call(_lent, (tensor,))))

    def result(self) -> Expression:
        """What the function gives."""
        structure = self.path.capture.structure
        items = [self._item(output) for output in self.path.capture.outputs]
        return structured(structure, items)

    def attributes(self) -> tuple[list[Step], list[Step]]:
        """Set the attributes that the run has set, and append to lists what it has appended; and those of
        which a part is there only when schedules have made their steps.
        """
        left, outputs = self.path.capture.left, self.path.capture.outputs
        parts: list[Attribute | Items] = [*left.attributes, *left.items]
        python = iter(outputs[len(outputs) - sum(part.count for part in parts) :])
        steps: tuple[list[Step], list[Step]] = [], []
        for part in parts:
            given = [*itertools.islice(python, part.count)]
            value = structured(part.structure, [*map(self._item, given)])
            of_late = steps[any(output.kind == "late" for output in given)]
            if isinstance(part, Attribute):
                of_late.append(Do(Call(set_attribute, (Constant(part.owner), Constant(part.name), value))))
            else:
                of_late.append(Do(Call(append, (Constant(part.owner), Constant(part.emptied), value))))
        return steps

    def _tensor(self, output: Output) -> Expression:
        if output.value is not None:
            return self.tensors[output.value]
        if output.kind == "argument":
            return leaf_name(output.item)
        return Name(f"alias{output.item[1]}") if output.kind == "alias" else Call(output.item)

    def _item(self, output: Output) -> Expression:
        if output.lent is not None:
            return Name(f"array{output.lent}")
        if output.kind == "object":
            return Constant(output.item)
        if output.kind == "number":
            return self.numbers[output.item]
        if output.kind == "computed":
            return self.planner.numbers.name(output.item)
        if output.kind == "late":
            name = Name(f"late{len(self.late)}")
            self.late.append(Assign(name.name, Call(output.item.find)))
            return name
        return self._tensor(output)


def _data(tensor: Tensor) -> Tensor:
    """A tensor of the same memory off the graph, whose writes are counted by themselves."""
    other = share(tensor)
    other.version = another(tensor.version)
    return other


def _lent(tensor: Tensor) -> np.ndarray:
    """The memory of a tensor, for NumPy code."""
    reach(tensor)
    return lend(tensor.array, tensor.version)


def _edge(number: int, tensor: Expression) -> Expression:
    """Where a gradient goes: the node that made the tensor, or the leaf itself."""
    target = Either(attribute(tensor, "grad_fn"), tensor)
    return Row((Constant(number), target, attribute(tensor, "output_index")))
