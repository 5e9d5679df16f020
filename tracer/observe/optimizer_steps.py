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

from fusegrad.eager.core.public import home
from fusegrad.eager.core.state import Interpreter, state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.optim.optimizer import EVERY_STEP, has_step_hooks
from fusegrad.tracer.observe import engine_calls, purity
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
from fusegrad.tracer.observe.lookup import MISSING, is_schedule_class, type_lookup
from fusegrad.tracer.observe.observer import Observer
from fusegrad.tracer.observe.reads import GetterRead, Read
from fusegrad.tracer.observe.values import Expected
from fusegrad.tracer.observe.world import blind
from fusegrad.tracer.twin.sites import NOWHERE, Site

_EVERY_STEP = weakref.ref(EVERY_STEP)


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
        yield Counts(Exact(Attribute(Held(_EVERY_STEP), "ids", "instance"), dict), 0)
        for hooks in ("_step_pre_hooks", "_step_post_hooks"):
            yield Counts(self._own(hooks, dict), 0)
        for (group, _), slots in zip(self.rows, self.slots, strict=True):
            yield Equals(Slots(Held(self.optimizer), Held(group)), slots)
        state = Once(self._own("state", defaultdict))
        for parameter, name, expected in self.kept:
            yield Matches(Item(Exact(Item(state, Held(parameter)), dict), name), expected)


# Optimizers of users' classes, whose steps are Python code like any other.


def is_users(value: Any) -> bool:
    """Whether the value is of a class that users derived from one of our optimizers, or from their base."""
    kind = type(value)
    return not purity.is_optimizers(home(kind)) and any(map(purity.is_optimizers, map(home, kind.__mro__)))


def users(observer: Observer, method: MethodType, site: Site) -> Any:
    """What to call in place of `step` or `zero_grad` of an optimizer of a user's class; None for others."""
    owner, function = method.__self__, method.__func__
    name = function.__name__
    if name not in ("step", "zero_grad") or not observer.is_outer(owner) or not is_users(owner):
        return None
    if not purity.is_optimizers(function.__globals__.get("__name__")):
        return None
    return functools.partial(_clear if name == "zero_grad" else _step, observer, method, site)


def _clear(observer: Observer, method: MethodType, site: Site, /, *args: Any, **kwargs: Any) -> Any:
    for value in (*args, *kwargs.values()):
        observer.consume(value, site, "passes to `zero_grad`")
    if type_lookup(type(method.__self__), "param_groups") is not MISSING:
        observer.open("clears gradients of an optimizer whose class says what its groups are", site)
    return method(*args, **kwargs)  # which tells the recorder of the parameters


def _step(observer: Observer, method: MethodType, site: Site, /, *args: Any, **kwargs: Any) -> Any:
    """A step without its hooks: there must be none, and schedules have been told that it was made."""
    owner, hooked = method.__self__, method.__func__
    own = vars(owner)
    if has_step_hooks(owner):
        observer.open("calls hooks of an optimizer", site)
        return method(*args, **kwargs)
    own["_opt_called"] = True
    observer.read(("hooks", id(owner)), lambda: GetterRead(owner, _is_plain, True, _PLAIN, site))
    cells = dict(zip(hooked.__code__.co_freevars, hooked.__closure__ or (), strict=True))
    body = cells["step"].cell_contents
    if not purity.is_optimizers(body.__globals__.get("__name__")):
        return observer.callee(observer.reached(body), site)(owner, *args, **kwargs)
    # `super().step()`: what its rule asks must be ours, too.
    observer.read(("rule", id(owner)), lambda: GetterRead(owner, _has_our_rule, True, _RULE, site))
    if not _has_our_rule(owner):
        observer.open(f"steps a {type(owner).__name__}, which has a part of the rule of its own", site)
    passed = [engine_calls.passed(observer, value, True, site, "passes to `step`") for value in args]
    return observer.adopt(body(owner, *passed, **kwargs))


_PLAIN = "that an optimizer was stepped, and has no hooks"
_RULE = "that an optimizer steps by a rule of ours"
# What a class may have of its own without a say in what the step does that it takes over.
_WITHOUT_SAY = frozenset(
    "step zero_grad add_param_group state_dict load_state_dict param_groups state".split()
)


def _is_plain(optimizer: Any) -> bool:
    return vars(optimizer).get("_opt_called") is True and not has_step_hooks(optimizer)


def _has_our_rule(optimizer: Any) -> bool:
    """Whether nothing that a rule of ours consists of is a user's."""
    classes = type(optimizer).__mro__
    ours = [kind for kind in classes if purity.is_optimizers(home(kind))]
    names = {name for kind in ours for name in vars(kind) if not name.startswith("__")} - _WITHOUT_SAY
    theirs = (vars(kind) for kind in classes if kind not in ours and kind is not object)
    return not any(name in names for own in (*theirs, vars(optimizer)) for name in own)


# Learning rate schedules.


def schedule(observer: Observer, method: MethodType, site: Site) -> Any:
    """What to call in place of a schedule's `step`; None where it is to be followed like others.

    It sets numbers in Python, which a replay does by calling it, once everything else is done. Where that
    would be too late, or too early, it is followed in the next run.
    """
    owner: Any = method.__self__
    recorder = state.interpreter
    if not is_schedule_class(type(owner)) or not observer.is_outer(owner) or method.__name__ != "step":
        return None
    if type_lookup(type(owner), "step") is not method.__func__ or not isinstance(recorder, Interpreter):
        return None
    if "schedule" in getattr(recorder, "avoided", ()):
        return None
    return functools.partial(_schedule, observer, recorder, method, site)


def _schedule(observer: Observer, recorder: Any, method: MethodType, site: Site, /, *args: Any) -> Any:
    owner: Any = method.__self__
    rates = [group["lr"] for group in owner.optimizer.param_groups]
    if args or any(isinstance(rate, Tensor) for rate in rates):
        observer.open("steps a schedule by an argument, or with learning rates that are tensors", site)
    if any(id(changed) in observer.numbers.options for changed in _changed(owner)):
        observer.open("steps a schedule after it has set an option of the optimizer", site, "schedule")
    functions = [*_functions(owner)]
    looks = not all(map(blind.only_computes, functions))
    for function in functions if not looks else ():
        blind.guard(observer, function, site)
    recorder.finally_(method, looks)
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


def _functions(schedule: Any) -> Iterator[Any]:
    """The functions of a user's that a step of a schedule calls."""
    kept = [*vars(schedule).values()]
    kept += [item for value in kept if isinstance(value, (list, tuple)) for item in value]
    yield from filter(callable, kept)
    for inner in getattr(schedule, "_schedulers", ()):
        yield from _functions(inner)


def is_stepped_by(optimizer: Any, method: MethodType | None) -> bool:
    """Whether a schedule that has made its step sets the numbers of an optimizer."""
    schedule: Any = None if method is None else method.__self__
    return schedule is not None and schedule.optimizer is optimizer
