"""Optimizers and schedules in an observed run: what steps read, and what to call for a schedule's own step.

The ops of an optimizer's step are recorded by `record/steps.py`.
"""

from __future__ import annotations

import functools
import weakref
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import MethodType
from typing import Any

from fusegrad.eager.core.state import Interpreter, state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.observe import purity
from fusegrad.tracer.observe.conditions import (
    Are,
    Attribute,
    Condition,
    Counts,
    Equals,
    Exact,
    Held,
    Item,
    Matches,
    Once,
    Place,
)
from fusegrad.tracer.observe.lookup import type_lookup
from fusegrad.tracer.observe.observer import Observer
from fusegrad.tracer.observe.reads import Read
from fusegrad.tracer.observe.values import Expected
from fusegrad.tracer.twin.sites import NOWHERE, Site


class ParametersRead(Read):
    """That an optimizer has the parameters that it had.

    rows: for each parameter group the group, and its parameters.
    """

    __slots__ = ("optimizer", "rows")
    kind = "optimizer"
    what = "parameters"

    def __init__(self, optimizer: Any) -> None:
        self.site, self.optimizer = NOWHERE, weakref.ref(optimizer)
        groups = optimizer.param_groups
        self.rows = [(weakref.ref(g), tuple(weakref.ref(p) for p in g["params"])) for g in groups]

    def subject(self) -> str:
        return f"the {self.what} of an optimizer"

    def was(self) -> str:
        return "the same tensors"

    def token(self) -> tuple[Any, ...]:
        # Weak references stand for their objects: Python makes one for each.
        return (type(self), id(self.optimizer()), tuple((id(g), tuple(map(id, ps))) for g, ps in self.rows))

    def _now(self) -> str:
        return "others"

    def conditions(self) -> Iterable[Condition]:
        groups = self._own("param_groups", list)
        yield Are(groups, tuple(group for group, _ in self.rows))
        for group, parameters in self.rows:
            yield Are(Exact(Item(Held(group), "params"), list), parameters)

    def _own(self, name: str, kind: type) -> Place:
        """What the optimizer itself has under a name, and no class of it."""
        return Exact(Attribute(Held(self.optimizer), name, "instance"), kind)


@dataclass(slots=True, eq=False)
class Slots(Place):
    """The names of what an optimizer keeps for the parameters of a group."""

    optimizer: Held
    group: Held

    def find(self) -> tuple[str, ...]:
        return (*self.optimizer.find().slots(self.group.find()), "step")


class StateRead(ParametersRead):
    """That an optimizer has the parameters, and keeps for them the tensors, that it had.

    slots: the names of what is kept, for each group; kept: the tensors of each parameter.
    """

    __slots__ = ("kept", "slots")
    what = "state"

    def __init__(self, optimizer: Any) -> None:
        super().__init__(optimizer)
        self.slots = [(*optimizer.slots(group), "step") for group in optimizer.param_groups]
        self.kept = [
            (parameter, name, Expected(tensor))
            for (_, parameters), names in zip(self.rows, self.slots, strict=True)
            for parameter in parameters
            for name, tensor in self._state(optimizer, parameter()).items()
            if (name in names or name in optimizer.advanced) and tensor is not None
        ]

    @staticmethod
    def _state(optimizer: Any, parameter: Any) -> dict[str, Any]:
        found: dict[str, Any] = dict.get(optimizer.state, parameter, {})
        return found

    def token(self) -> tuple[Any, ...]:
        kept = ((id(p), name, id(e.reference())) for p, name, e in self.kept)
        return (*super().token(), tuple(kept))

    def conditions(self) -> Iterable[Condition]:
        yield from super().conditions()
        for hooks in ("_step_pre_hooks", "_step_post_hooks"):
            yield Counts(self._own(hooks, dict), 0)
        for (group, _), slots in zip(self.rows, self.slots, strict=True):
            yield Equals(Slots(Held(self.optimizer), Held(group)), slots)
        state = Once(self._own("state", defaultdict))
        for parameter, name, expected in self.kept:
            yield Matches(Item(Exact(Item(state, Held(parameter)), dict), name), expected)


# Learning rate schedules.


def schedule(observer: Observer, method: MethodType, site: Site) -> Any:
    """What to call in place of a schedule's `step`; None where it is to be followed like others.

    It sets numbers in Python, which a replay does by calling it, once everything else is done.
    """
    owner: Any = method.__self__
    recorder = state.interpreter
    if not purity.is_schedule(owner) or not observer.is_outer(owner) or method.__name__ != "step":
        return None
    if type_lookup(type(owner), "step") is not method.__func__ or not isinstance(recorder, Interpreter):
        return None
    return functools.partial(_schedule, observer, recorder, method, site)


def _schedule(observer: Observer, recorder: Any, method: MethodType, site: Site, /, *args: Any) -> Any:
    owner: Any = method.__self__
    rates = [group["lr"] for group in owner.optimizer.param_groups]
    if args or any(isinstance(rate, Tensor) for rate in rates):
        observer.open("steps a schedule by an argument, or with learning rates that are tensors", site)
    if any(id(changed) in observer.numbers.options for changed in _changed(owner)):
        observer.open("steps a schedule after it has set an option of the optimizer", site)
    recorder.finally_(method)
    state.interpreter = None
    try:
        return method(*args)
    finally:
        state.interpreter = recorder
        why = "reads what a learning rate schedule has set; read it before the schedule's step, or outside"
        for changed in _changed(owner):
            observer.restless(changed, why)


def _changed(schedule: Any) -> Iterator[Any]:
    """What a step of a schedule may change: schedules, what they keep, and groups of parameters."""
    yield from (schedule, schedule.optimizer, *schedule.optimizer.param_groups)
    for kept in vars(schedule).values():
        if isinstance(kept, (list, dict)):
            yield kept
    for inner in getattr(schedule, "_schedulers", ()):
        yield from _changed(inner)
