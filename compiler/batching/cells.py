"""`Cells`: the kinds of calls of a jitted function that wait as one entry of a batch.

The first call of a kind is recorded, as `jit` records it. Where the run did nothing but compute fresh tensors
of its arguments and of shared weights, later calls that find what it read unchanged wait (`Cell`), and all
that have come together are one program (`batch_program.py`), which takes the weights once. Other calls are a
part of the program around them.
"""

from __future__ import annotations

import functools
import operator
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.compiler.batching.batch_program import BatchProgram
from fusegrad.compiler.batching.likeness import Work
from fusegrad.compiler.guards.guards import Guards
from fusegrad.eager.batching.backward import Operand
from fusegrad.eager.batching.kinds import Kind, Known, Result, type_of
from fusegrad.eager.core import dtypes
from fusegrad.eager.core.handlers import handler_raised
from fusegrad.eager.core.op import bind, wrap
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.pytree import flatten
from fusegrad.eager.core.stand_in import stand_in
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.batches import rules
from fusegrad.tracer.capture.api import capture
from fusegrad.tracer.capture.captured import Capture
from fusegrad.tracer.export.program import function_name
from fusegrad.tracer.ir.graph import Equation, Value

MOST_KINDS = 256
# A call by itself is done op by op until that has taken as long as compiling: to compile an op takes about so
# many times as long as to have NumPy do it, with its gradient.
COMPILING = 256
# So often a kind is recorded whose reads did not hold, before its calls are left to the program around them.
TRIES = 4


class Cells:
    """What is known of the calls of a function, by what must be equal for two to be of one kind."""

    def __init__(self, function: Callable[..., Any], key: Callable[..., Any]) -> None:
        """key: what must be equal for two calls to be of one kind, from arguments, keywords and a list that
        it fills with their leaves; None where there is no such thing.
        """
        self._function, self.key = function, key
        self.known = Known()
        self._tries: Counter[Any] = Counter()

    @functools.cached_property
    def name(self) -> str:
        """What the user calls the function."""
        return function_name(self._function)

    def record(self, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a first call of a kind gives, after which the kind is known."""
        made = capture(self._function, args, kwargs)
        leaves: list[Any] = []
        flatten((args, kwargs), leaves)
        self._tries[key] += 1
        if self._tries[key] > TRIES:
            found: Cell | str = "what it reads is other than it was, again and again"
        else:
            found = _refusal(made) or Cell(self.name, made, leaves)
        results: list[Any] = []
        flatten(made.result, results)
        if any(isinstance(r, Tensor) and r.version[0] for r in results):
            found = "it gives tensors that it has written"
        if len(self.known.kinds) >= MOST_KINDS:
            self.known.clear()
        if isinstance(found, Cell):
            found.join([kind for kind in self.known.kinds.values() if isinstance(kind, Cell)])
        self.known.add(key, found)
        result, made.result = made.result, None
        return result

    def clear(self) -> None:
        """Forget all of it."""
        self.known.clear()
        self._tries.clear()


class Cell(Kind):
    """A kind of calls of a jitted function.

    builds: makes what a call gives of its tensors, where these are all of it. weights: what it takes
    besides its arguments, the same for all calls; constants follow them. tests: for leaves of the
    arguments that count along a dimension, the least and the end. guards: what must hold.
    """

    parts = False
    costs = (25.0, 50.0)

    def __init__(self, name: str, made: Capture, leaves: Sequence[Any]) -> None:
        outputs = [output for output in made.outputs if output.kind == "value"]
        super().__init__(state.grad_enabled, next((o.grad_name for o in outputs if o.grad_name), ""))
        self.name = name
        arrays = [stand_in(o.value.shape, o.value.dtype, o.strides) for o in outputs]  # type: ignore[union-attr]
        needs = [o.requires_grad for o in outputs]
        self.gives([Result(a, n, type_of(a, n)) for a, n in zip(arrays, needs, strict=True)])
        self._made = made
        self._values: list[Any] = [o.value for o in outputs]
        self.weights = [*made.captured.values()]
        self.facts = [(t, t.array, t.needs_grad) for t in (*self.weights, *made.met)]
        self.shared = [*self.weights, *(wrap(array) for array in made.constants.values())]
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        first = {id(tensor): i for i, tensor in reversed([*enumerate(tensors)])}
        places = {value: first[id(tensor)] for value, tensor in made.tensors.items()}
        places |= {v: len(tensors) + i for i, v in enumerate((*made.captured, *made.constants))}
        self._count = len(tensors)
        given: list[Value | None] = [None] * (len(tensors) + len(self.shared))
        for value, place in places.items():
            given[place] = value
        given[: len(tensors)] = [given[first[id(tensor)]] for tensor in tensors]
        self._work = Work(made, given, self._values)
        self._inputs = [places[value] for value in made.graph.inputs]
        self._saved = _saved(made, places)
        self._cut = _cut(made)
        numbers = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        self.tests = [(numbers[places[v]], least, end) for v, least, end in _positions(made)]
        self._guards = Guards(made.reads)
        self._float = dtypes.default_float()
        self.builds = _builder(made)
        self._programs: dict[Any, BatchProgram] = {}
        self._done_alone = 0
        # Those give views, which programs do not.
        self._is_plain = all(_owner(value, made) is value for value in self._values)

    def join(self, others: Sequence[Cell]) -> None:
        """Have calls of this kind and of others run as one, where one of them can stand for all."""
        alike = [other for other in others if other.mode == self.mode and other.types == self.types]
        for other in alike:
            if other.runs_as is other and other._work.stands_for(self._work):
                self.runs_as = other
                return
        for other in alike:
            if self._work.stands_for(other._work):
                other.runs_as = self

    def holds(self) -> bool:
        """Whether all that the recorded run read is as it was."""
        if not self.has_facts() or self._float is not dtypes.default_float():
            return False
        return self._guards.first_failure() is None

    def is_unchanged(self, leaves: Sequence[Any]) -> bool:
        """Whether all else than its facts is seen at once to be as it was, and positions are in range."""
        if self._float is not dtypes.default_float() or (self.tests and not self.admits(leaves)):
            return False
        try:
            return self._guards.check() is None
        except Exception:
            if handler_raised():
                raise
            return False

    def admits(self, leaves: Sequence[Any]) -> bool:
        """Whether positions among the arguments are in range, as far as that is known."""
        for leaf, least, end in self.tests:
            array = leaves[leaf].array
            if type(array) is not np.ndarray:
                return False
            if array.ndim:
                if array.size and not (array.min() >= least and array.max() < end):
                    return False
            elif not least <= array.item() < end:
                return False
        return True

    def built(self, made: Sequence[Tensor], leaves: Sequence[Any]) -> Any:
        """The result, of the tensors that the call gives."""
        if self.builds is not None:
            return self.builds(made)
        given = iter(made)
        leaves = [next(given) if o.kind == "value" else _item(o, leaves) for o in self._made.outputs]
        return self._made.structure.build(iter(leaves))

    # Doing calls.

    def as_one(self, batched: Sequence[bool], operands: Sequence[Tensor], size: int) -> tuple[Tensor, ...]:
        return self._run(tuple(batched), operands, size)

    def alone(self, operands: Sequence[Tensor]) -> tuple[Tensor, ...]:
        given = [*operands, *self.shared]
        self._done_alone += 1
        if self._done_alone > COMPILING and self._is_plain and state.interpreter is None:
            return self._run((), given, None)
        return tuple(self._evaluated(given))

    def _run(self, batched: tuple[bool, ...], operands: Sequence[Tensor], size: int | None) -> Any:
        """The results by a program for such operands."""
        key = (batched, state.grad_enabled, *[o.needs_grad for o in operands])
        program = self._programs.get(key)
        if program is None:
            program = self._programs[key] = BatchProgram(self._evaluated, batched)
        return program.run([_dense(o) for o in operands[: self._count]] + [*operands[self._count :]], size)

    def _evaluated(self, operands: Sequence[Any]) -> Sequence[Any]:
        graph = self._made.graph
        known: dict[Value, Any] = {v: operands[i] for v, i in zip(graph.inputs, self._inputs, strict=True)}
        for equation in graph.equations:
            args = tuple([known[v] if isinstance(v, Value) else v for v in equation.inputs])
            made = bind(equation.op, args, dict(equation.params))
            for value, result in zip(equation.outputs, made if type(made) is tuple else (made,), strict=True):
                # What was made where no gradients are recorded has none for a batch, either.
                known[value] = ops.detach(result) if value in self._cut else result
        return [known[value] for value in self._values]

    def saved(self, operands: Sequence[Operand]) -> list[int]:
        return [i for i in self._saved if isinstance(operands[i].value, Tensor)]


def _builder(made: Capture) -> Callable[[Sequence[Tensor]], Any] | None:
    """What makes the result of the tensors that a call gives, where it is one, or a tuple of them all."""
    if all(output.kind == "value" for output in made.outputs):
        key = made.structure.key
        if key is None:
            return operator.itemgetter(0)
        if key == (tuple, None, (None,) * len(made.outputs)):
            return tuple
    return None


def _item(output: Any, leaves: Sequence[Any]) -> Any:
    return leaves[output.item] if output.kind == "argument" else output.item


def _dense(tensor: Tensor) -> Tensor:
    """A tensor in row-major order, as compiled code takes operands that were put side by side."""
    return tensor if tensor.array.flags.c_contiguous else tensor.contiguous()


def _refusal(made: Capture) -> str:
    """Why a recorded call is left to the program around it, or ""."""
    if made.reasons:
        return str(made.reasons[0])
    if made.changes or made.left or made.hosts or made.derived or made.recomputed or made.numbers:
        return str(made.changes[0]) if made.changes else "it does more than computing tensors"
    if made.graph.guards():
        return "it asks for values"
    if made.same:  # in the graph they are one, which those of the next call need not be
        return "it takes an array twice"
    if made.bare:
        return "it asks for the gradient of what it takes"
    if any(o.kind not in ("value", "argument", "object") or o.freed or o.inference for o in made.outputs):
        return "it gives something else than fresh tensors"
    if not any(o.kind == "value" for o in made.outputs) or not made.tensors:
        return "it makes no tensor of another"
    for equation in made.graph.equations:
        if equation.op.family == "random" or not _has_rule(equation):
            return f"it calls {equation.op.name}"
        if _may_refuse(equation) and _of_equation(equation, made) is None:
            return f"{equation.op.name} may refuse values, so it is done at its line"
    owners = [_owner(o.value, made) for o in made.outputs if o.kind == "value"]
    if len({*owners}) < len(owners) or not {*owners}.isdisjoint(made.graph.inputs):
        return "it gives views of one memory"
    return ""


def _owner(value: Any, made: Capture) -> Value:
    """The value whose memory this one is."""
    makers = {output: e for e in made.graph.equations for output in e.outputs}
    while (equation := makers.get(value)) is not None and equation.op.view:
        value = equation.inputs[0]
    return value


def _has_rule(equation: Equation) -> bool:
    """Whether the op can be done for many examples at once."""
    operands = [
        wrap(stand_in((2, *v.shape), v.dtype)) if isinstance(v, Value) else v for v in equation.inputs
    ]
    batched = [isinstance(o, Tensor) for o in operands]
    return rules.has_rule(rules.Call(equation.op, operands, batched, dict(equation.params), 2))


def _may_refuse(equation: Equation) -> bool:
    return any(o.dtype.kind in equation.op.refuses for o in equation.outputs)


def _of_equation(equation: Equation, made: Capture) -> list[tuple[Value, int, int]] | None:
    """The arguments that an op takes as positions, with the least and the end of each; None where what it
    refuses depends on more.
    """
    op = equation.op
    types = [v.type if isinstance(v, Value) else v for v in equation.inputs]
    found = None if op.positions is None else op.positions(types, dict(equation.params))
    if found is None:
        return None
    asked = [(equation.inputs[place], least, end) for place, least, end in found]
    asked = [a for a in asked if isinstance(a[0], Value)]
    return asked if all(value in made.tensors for value, _, _ in asked) else None


def _positions(made: Capture) -> list[tuple[Value, int, int]]:
    return [a for e in made.graph.equations if _may_refuse(e) for a in _of_equation(e, made) or ()]


def _cut(made: Capture) -> set[Value]:
    """The values that were made of others with gradients where none are recorded."""
    return {
        value
        for equation in made.graph.equations
        if any(v in made.tracked for v in equation.values())
        for value in equation.outputs
        if value not in made.tracked and value.dtype.kind in "fcV"
    }


def _saved(made: Capture, places: dict[Value, int]) -> list[int]:
    """The operands whose values a backward reads, by number."""
    found: set[int] = set()
    for equation in made.graph.equations:
        tracked = [i for i, v in enumerate(equation.inputs) if isinstance(v, Value) and v in made.tracked]
        for rule in [equation.op.rule(i) for i in tracked]:
            saved = () if rule is None else rule.saved(len(equation.inputs))
            owners = [_owner(equation.inputs[i], made) for i in saved]
            found |= {places[v] for v in owners if isinstance(v, Value) and v in places}
    return sorted(found)
