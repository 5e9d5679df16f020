"""What a capture holds: how the result is built, what the run left, and what must hold for a replay."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fusegrad.eager.core.pytree import Structure
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.ir.evaluation import Recomputed
from fusegrad.tracer.ir.graph import Equation, Graph, Value
from fusegrad.tracer.observe.hosts import Host, Place
from fusegrad.tracer.observe.reads import Read
from fusegrad.tracer.observe.symbols import NOTHING_CHANGING, Changing, Symbol
from fusegrad.tracer.record.before import Before
from fusegrad.tracer.record.doors import Answers
from fusegrad.tracer.record.later import Later


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a run cannot be replayed, with the user's line.

    kind: "memory" where only the memory of the results could not be repeated, not their values; "positions"
    where it could be repeated if it went by the numbers that are in an index as tensors; "schedule" if it
    followed the step of a learning rate schedule; "once" where a later run will not do it again; "long" where
    recording took too long; "read" where all that stands against it is that nobody could ask again whether
    what it read is still the same; "derived" where only the gradients of the results could not be repeated.
    """

    reason: str
    file: str
    line: int
    kind: str = ""

    def __str__(self) -> str:
        return f"{self.reason} ({self.file}:{self.line})" if self.file else self.reason


@dataclass(frozen=True, slots=True)
class Output:
    """One leaf of the result.

    kind "value": computed, `value` in the graph; "number": what `item`, a value in the graph, has for its one
    element; "late": what lies at the place `item` when all is done; "computed": the Python number that the
    symbol `item` stands for (of values in the graph as in `held`); "object": the plain Python value `item`;
    "captured": the tensor that the reference `item` gives when called; "argument": the argument leaf number
    `item`; "alias": a tensor off the graph, of the memory of the output number `item[0]`, the same as the
    output number `item[1]`, and `item[2]` says whether one counter has the writes of both. freed: a backward
    inside the run has freed its graph. inference: it was made in inference mode, and the call was not. lent:
    not the tensor is given but a NumPy array in its memory, the same one where numbers are alike.
    """

    kind: str
    value: Value | None = None
    item: Any = None
    requires_grad: bool = False
    grad_name: str = ""
    strides: tuple[int, ...] = ()
    freed: bool = False
    inference: bool = False
    lent: int | None = None
    held: tuple[tuple[Symbol, Value], ...] = ()


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute, or an item of a dict or a list, that the run has set: of the object that `owner` gives
    when called, to a value that has this structure, with so many leaves (`count`).
    """

    owner: Callable[[], Any]
    name: Any
    structure: Structure
    count: int


@dataclass(frozen=True, slots=True)
class Items:
    """What the run has appended to the list that `owner` gives when called: a tuple of this structure, with
    so many leaves (`count`). emptied: whether what was there before is gone.
    """

    owner: Callable[[], Any]
    emptied: bool
    structure: Structure
    count: int


@dataclass(frozen=True, slots=True)
class Left:
    """What the run left in the world, besides its result.

    writes: (input, what its memory holds in the end); times: how often each was written, as its version
    counts, which is not at all where autograd does not notice. made: how often what the run made itself was
    written, if it was, by the values of results and gradients. gradients: (tensor, what its `.grad` is in the
    end; None: there is none). attributes: those that were set; items: what lists have got; the leaves of both
    are the last of the capture's outputs. counts: those that grew: the object, the name, and by how much.
    after: methods that are called when all is done. hits: calls of functions that had kept their results.
    numbers: what the Python numbers among the outputs are taken out of. replaced: (tensor, what the memory
    holds that it is given). flags: (tensor, whether it requires gradients), where it did not before, or did.
    """

    writes: tuple[tuple[Value, Value], ...] = ()
    times: tuple[int, ...] = ()
    made: Mapping[Value, int] = field(default_factory=dict)
    gradients: tuple[tuple[Place, Value | None], ...] = ()
    attributes: tuple[Attribute, ...] = ()
    items: tuple[Items, ...] = ()
    counts: tuple[tuple[Callable[[], Any], str, int], ...] = ()
    after: tuple[weakref.WeakMethod[Any], ...] = ()
    hits: tuple[tuple[Any, ...], ...] = ()
    numbers: tuple[Value, ...] = ()
    replaced: tuple[tuple[Place, Value], ...] = ()
    flags: tuple[tuple[Place, bool], ...] = ()

    def values(self) -> list[Value]:
        """What is computed for the world, and for the numbers of the result."""
        gradients = (v for _, v in self.gradients if v is not None)
        return [*(v for _, v in self.writes), *gradients, *(v for _, v in self.replaced), *self.numbers]

    def __bool__(self) -> bool:
        python = self.attributes or self.items or self.counts or self.after or self.flags
        return bool(self.writes or self.gradients or self.replaced or python)


@dataclass(frozen=True)
class ForFile:
    """How a run is recorded of which a file is written.

    result: makes, in containers of their own, what is captured in place of the result. rolls: whether loops
    are rolled that are too short for it to pay. answers: see `Doors`.
    """

    result: Callable[[Any], Any]
    rolls: bool = False
    answers: Answers | None = None


@dataclass
class Capture:
    """A run that was recorded.

    result: what the run returned, eager's own. graph: what it computed; its inputs are the
    argument tensors, then captured tensors, then what Python gives, then constants; tensors: the argument
    tensors behind its inputs. tracked: the values that needed gradients. outputs, structure: how the
    result is built. left: what else it left. hosts: the inputs whose values Python gives, each with the
    number of equations before it.
    met: tensors found outside of which nothing was computed: the run may have asked for their shape, dtype,
    layout or `requires_grad`. reads: what must still hold for a replay. same: (leaf number, place) of tensors
    that were one array, and so are one value of the graph. bare: the leaves that had no `.grad`, and must
    have none. derived: the tensors whose gradients the run asked for: no op has made them, and they have no
    hooks.
    reasons: why it cannot be replayed; empty for a closed run. foretold: whether a run that meets the same
    `reads` cannot be replayed, either. changes: what it did to the world that a
    replay does, too. later: what of the result waits to be computed. before: what takes the run back.
    not_rolled: the long loops of which every round ran. changing: where a replay finds other numbers; of
    these, it must find the same at `fixed`. recomputed: the parts that a later backward computes again.
    numbers: the values that stand for numbers which Python had out of tensors, and gave ops. asked: the
    guards of tensors that were asked for a truth, in order, also those that a loop has taken the place of.
    sets: whether it has made or met any: their order is each process's own. is_open: whether its graph is for
    any number of places that masks are true at.
    """

    result: Any
    graph: Graph
    arguments: tuple[Value, ...]
    captured: dict[Value, Tensor]
    constants: dict[Value, np.ndarray]
    tracked: frozenset[Value]
    outputs: tuple[Output, ...]
    structure: Structure
    tensors: dict[Value, Tensor] = field(default_factory=dict)
    met: list[Tensor] = field(default_factory=list)
    same: list[tuple[int, Place]] = field(default_factory=list)
    bare: list[int] = field(default_factory=list)
    derived: list[Place] = field(default_factory=list)
    left: Left = field(default_factory=Left)
    hosts: list[tuple[Host, int]] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    reasons: list[Reason] = field(default_factory=list)
    foretold: bool = False
    changes: list[Reason] = field(default_factory=list)
    later: Later | None = None
    before: Before | None = None
    not_rolled: list[Reason] = field(default_factory=list)
    changing: Changing = NOTHING_CHANGING
    fixed: Changing = NOTHING_CHANGING
    recomputed: tuple[Recomputed, ...] = ()
    numbers: frozenset[Value] = frozenset()
    asked: tuple[Equation, ...] = ()
    sets: bool = False
    is_open: bool = False
