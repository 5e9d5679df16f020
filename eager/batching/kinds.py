"""Kinds of calls: what is known of calls that can run as one, found once and known from then on.

Calls of one kind have the op, its parameters, its Python numbers, the types of its tensors and the grad mode
in common: with equal shared weights they can run as one.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fusegrad.eager.autograd.node import Node
from fusegrad.eager.batching.backward import Operand
from fusegrad.eager.core.op import Op, Params, bind
from fusegrad.eager.core.stand_in import StandIn
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.batches import rules
from fusegrad.eager.ops.batches.batching import Batching
from fusegrad.eager.ops.foretelling import foretell

# Those known are forgotten beyond so many: sizes may be others for each example.
MOST = 4096
# So many kinds of calls of one op are gone through, which others are looked up for.
MOST_AT_HAND = 32

_types: dict[Any, int] = {}
_numbers = itertools.count()


def type_of(array: Any, needs_grad: bool, kind: type = Tensor, is_leaf: bool = False) -> int:
    """The number of a type: shape, strides, dtype, whether gradients are needed, and what functions may
    ask besides of a tensor that no call gives: its class, and whether it is a leaf that needs them.
    """
    key = (array.shape, array.strides, array.dtype, needs_grad, kind, is_leaf)
    found = _types.get(key)
    if found is None:
        if len(_types) >= MOST:
            _types.clear()
        found = _types[key] = next(_numbers)
    return found


class Result(NamedTuple):
    """A result of a kind of calls: what stands for its array, whether it needs gradients, and its type."""

    array: StandIn
    needs_grad: bool
    type_: int


class Kind:
    """A kind of calls.

    number: of the kind. mode: the grad mode. results: what each of them gives, of these types; repeated: a
    value for each of these; block: the same as words, for native code. node: stands for the place on the
    graph of what waits. is_view: whether what it gives is memory of what it takes. parts: whether calls with
    other shared tensors are others. shared: tensors that all calls take besides. runs_as: the kind that does
    such calls. facts: tensors that must have these arrays, and need gradients or not. costs: of a call by
    itself, without and with gradients (`costs.py`).
    """

    __slots__ = ("block", "mode", "node", "number", "repeated", "results", "runs_as", "types")

    name: str
    is_view = False
    parts = True
    shared: Sequence[Tensor] = ()
    facts: Sequence[tuple[Tensor, Any, bool]] = ()
    costs = (6.0, 15.0)

    def __init__(self, mode: bool, text: str) -> None:
        self.number, self.mode, self.runs_as = next(_numbers), mode, self
        self.node = Waiting.__new__(Waiting)
        self.node.text = text
        self.gives(())

    def gives(self, results: Sequence[Result]) -> None:
        """What each call gives is known now."""
        self.results = tuple(results)
        self.types = tuple([result.type_ for result in results])
        self.repeated = (
            _once if len(results) == 1 else functools.partial(itertools.repeat, times=len(results))
        )
        rows = [(r.array, r.needs_grad, self.node if r.needs_grad else None, r.type_) for r in self.results]
        self.block = np.array([len(rows), *(id(thing) for row in rows for thing in row)], np.int64)

    def cannot(self, operands: Sequence[tuple[Tensor, bool]], size: int) -> str:
        """Why calls are not done as one, if they are not. operands: of each a tensor, and whether that has
        several rows.
        """
        return ""

    def as_one(self, batched: Sequence[bool], operands: Sequence[Tensor], size: int) -> tuple[Tensor, ...]:
        """The results of so many calls, with all rows."""
        raise NotImplementedError

    def alone(self, operands: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The results of one call."""
        raise NotImplementedError

    def has_facts(self) -> bool:
        """Whether the tensors of `facts` are as they were."""
        for tensor, array, needs_grad in self.facts:
            if tensor.array is not array or tensor.needs_grad is not needs_grad:
                return False
        return True

    def saved(self, operands: Sequence[Operand]) -> list[int]:
        """The operands that a backward reads."""
        return []


def _once(value: int) -> tuple[int]:
    return (value,)


class Known:
    """The kinds of calls of a function, by what must be equal for two calls to be of one kind: the grad mode,
    the types of operands, and, where some are the same, which. Where such calls never wait it is why.

    block: those of calls that take just tensors, as words, for native code.
    """

    __slots__ = ("block", "kinds")

    def __init__(self) -> None:
        self.kinds: dict[Any, Any] = {}
        self.clear()

    def clear(self) -> None:
        """Forget them."""
        self.kinds.clear()
        self.block = np.zeros(1, np.int64)

    def add(self, key: Any, kind: Kind | str) -> None:
        """A kind of calls is known from now on."""
        if key in self.kinds:
            known = {**self.kinds, key: kind}
            self.clear()
            for each in known.items():
                self.add(*each)
            return
        self.kinds[key] = kind
        row = _words(key, kind) if isinstance(kind, Kind) else []
        if row:
            self.block = np.concatenate([self.block, np.array(row, np.int64)])
            self.block[0] += 1


def key_of(mode: bool, types: Sequence[int], operands: Sequence[int]) -> tuple[Any, ...]:
    """What must be equal for calls that take just tensors. f(x, x) is not f(x, y)."""
    return (mode, *types) if len({*operands}) == len(operands) else (mode, *types, _firsts(operands))


def _firsts(operands: Sequence[int]) -> tuple[int, ...]:
    """By the operand, the first that is the same."""
    return tuple([operands.index(operand) for operand in operands])


def _words(key: tuple[Any, ...], kind: Kind) -> list[int]:
    """A kind, the grad mode, how many operands and facts there are, the types of operands, the first that is
    the same, and the facts.
    """
    mode, *types = key
    same = types.pop() if types and type(types[-1]) is tuple else (*range(len(types)),)
    if type(mode) is not bool or not all(type(type_) is int for type_ in types):
        return []
    facts = [id(thing) for fact in kind.facts for thing in fact]
    return [id(kind), id(mode), len(types), len(kind.facts), *types, *same, *facts]


class Waiting(Node):
    """The node of a tensor without values: it has a name, and takes no part in a graph."""

    __slots__ = ("text",)

    text: str

    def name(self) -> str:
        return self.text


class OpKind(Kind):
    """Calls of an op.

    refusal: why such calls do not wait, if they do not. several: whether the results are a tuple.
    has_positions: whether it is looked at what positions it takes.
    """

    __slots__ = (
        "_places",
        "_template",
        "has_positions",
        "is_view",
        "name",
        "op",
        "params",
        "refusal",
        "several",
    )

    def __init__(self, op: Op, args: tuple[Any, ...], params: Params, mode: bool) -> None:
        types = [(a.array.shape, a.array.dtype) if isinstance(a, Tensor) else None for a in args]
        super().__init__(mode, op.node_name(params, types))
        self.op, self.params, self.is_view, self.name = op, dict(params), op.view, op.name
        self.several = self.has_positions = False
        self._places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        self._template = [None if isinstance(a, Tensor) else a for a in args]
        self.refusal = _refusal(op, args)
        if self.refusal:
            return
        made = foretell(op, args, params)
        if made is None:
            self.refusal = "its results are known only once it is done"
            return
        self.several = type(made) is tuple
        arrays: tuple[StandIn, ...] = made if self.several else (made,)
        needs = self._needs(args, arrays)
        self.gives([Result(a, n, type_of(a, n)) for a, n in zip(arrays, needs, strict=True)])
        may_refuse = any(a.dtype.kind in op.refuses for a in arrays)
        self.has_positions = may_refuse and op.positions is not None
        if may_refuse and op.positions is None:
            self.refusal = "it may refuse values, so it is done at its line"

    def _needs(self, args: tuple[Any, ...], arrays: tuple[StandIn, ...]) -> list[bool]:
        """Which results need gradients, as `node.record` finds it."""
        op = self.op
        if not self.mode or op.rules is None:
            return [False] * len(arrays)
        edges = [
            i for i, a in enumerate(args) if isinstance(a, Tensor) and a.needs_grad and op.rule(i) is not None
        ]
        leads = None if op.leads is None else op.leads(self.params)
        return [
            a.dtype.kind in "fcV" and any(leads is None or i in leads[k] for i in edges)
            for k, a in enumerate(arrays)
        ]

    def _filled(self, tensors: Sequence[Any], otherwise: Sequence[Any]) -> list[Any]:
        """What stands at the places of tensors, and what at those of numbers."""
        found = list(otherwise)
        for place, tensor in zip(self._places, tensors, strict=True):
            found[place] = tensor
        return found

    def cannot(self, operands: Sequence[tuple[Tensor, bool]], size: int) -> str:
        given = self._filled([tensor for tensor, _ in operands], self._template)
        rows = self._filled([many for _, many in operands], [False] * len(given))
        has_rule = rules.has_rule(rules.Call(self.op, given, rows, self.params, size))
        return "" if has_rule else "its op has no rule for batches"

    def as_one(self, batched: Sequence[bool], operands: Sequence[Tensor], size: int) -> tuple[Tensor, ...]:
        given = self._filled(operands, self._template)
        flags = self._filled(batched, [False] * len(given))
        names, rules.setting.names_slow = rules.setting.names_slow, False
        try:
            batching = Batching(size)
            made = rules.batch(batching, self.op, given, flags, self.params)
            if made is not NotImplemented:
                return _values(made)
            own = [batching.of(o) if many else o for o, many in zip(given, flags, strict=True)]
            inner = batching.run(self.op.decompose, *own, **self.params)  # type: ignore[attr-defined]
            return tuple([batching.with_batch(part) for part in _values(inner)])
        finally:
            rules.setting.names_slow = names

    def alone(self, operands: Sequence[Tensor]) -> tuple[Tensor, ...]:
        return _values(bind(self.op, tuple(self._filled(operands, self._template)), self.params))

    def saved(self, operands: Sequence[Operand]) -> list[int]:
        places, count = self._places, len(self._template)
        asked = [self.op.rule(i) for i, o in zip(places, operands, strict=True) if o.value.needs_grad]
        found = {i for rule in asked if rule is not None for i in rule.saved(count)}
        return [k for k, i in enumerate(places) if i in found]


def _values(made: Any) -> tuple[Any, ...]:
    return made if type(made) is tuple else (made,)


def _refusal(op: Op, args: tuple[Any, ...]) -> str:
    """Why calls of an op never wait, or ""."""
    if op.family == "random":
        return "it draws random numbers"
    if not any(isinstance(a, Tensor) for a in args):
        return "it makes a tensor of no other"
    if any(a.is_meta for a in args if isinstance(a, Tensor)):
        return "it has a tensor of the meta device"
    return ""


class Kinds:
    """The kinds of ops that programs have asked for so far."""

    def __init__(self) -> None:
        self._known: dict[Any, OpKind] = {}
        self._waiting: dict[Any, Known] = {}

    def waiting(self, op: Op, args: tuple[Any, ...], params: Params) -> Known:
        """The kinds of calls of an op that wait, with these parameters and numbers."""
        key: Any = op
        if params:
            key = (op, *map(type, params.values()), repr(params))
        for a in args:
            if not isinstance(a, Tensor):
                key = (key, *_numbers_among(args))
                break
        found = self._waiting.get(key)
        if found is None:
            if len(self._waiting) >= MOST:
                self._waiting.clear()
            found = self._waiting[key] = Known()
        return found

    def of(self, op: Op, args: tuple[Any, ...], params: Params, mode: bool, types: Sequence[int]) -> OpKind:
        """The kind of a call. types: of the tensors among its arguments."""
        key: list[Any] = [op, mode, *types]
        if len(types) != len(args):
            key += _numbers_among(args)
        if params:
            key += [(name, type(value), repr(value)) for name, value in params.items()]
        found = self._known.get(known := tuple(key))
        if found is None:
            if len(self._known) >= MOST:
                self.clear()
            found = self._known[known] = OpKind(op, args, params, mode)
        return found

    def clear(self) -> None:
        """Forget them."""
        self._known.clear()
        self._waiting.clear()


def _numbers_among(args: tuple[Any, ...]) -> list[Any]:
    """What is no tensor among arguments, by its place."""
    return [(i, type(a), repr(a)) for i, a in enumerate(args) if not isinstance(a, Tensor)]


kinds = Kinds()
