"""Every kind of read, with changes of its world after which it holds, and such after which it does not."""

from __future__ import annotations

import builtins
import gc
from collections import OrderedDict, deque
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import fusegrad as fg
from fusegrad.compiler.guards.guard_source import MOST_LINES
from fusegrad.tracer.observe.hosts import NoGradient
from fusegrad.tracer.observe.lookup import MISSING, lookup, type_lookup
from fusegrad.tracer.observe.modules import ModuleRead
from fusegrad.tracer.observe.optimizer_steps import ParametersRead, StateRead
from fusegrad.tracer.observe.reads import (
    AttributeRead,
    CellRead,
    ClassAttributeRead,
    ContentsRead,
    FunctionRead,
    GetterRead,
    GlobalRead,
    ItemRead,
    LengthRead,
    Read,
    TypeRead,
)
from fusegrad.tracer.twin.sites import NOWHERE

Changes = dict[str, Callable[[], Any]]


class Case(NamedTuple):
    """A read, with changes after which it holds and changes after which it does not."""

    read: Read
    keeps: Changes
    breaks: Changes


CASES: dict[str, Callable[[], Case]] = {}


def case(make: Callable[[], tuple[Read, Changes, Changes]]) -> None:
    """A row of the table; `make` makes a world of its own."""
    CASES[make.__name__] = lambda: Case(*make())


def number(text: str = "1.5") -> float:
    """A number in an object of its own."""
    return float(text)


class Thing:
    """Something that is compared by identity."""


def goes(world: SimpleNamespace) -> Changes:
    """The change that all of a world is gone."""
    return {"goes": lambda: (vars(world).clear(), gc.collect())}


def attribute(owner: Any, name: str) -> Read:
    return AttributeRead(owner, name, lookup(owner, name), NOWHERE)


# Names and functions.


@case
def global_name() -> Any:
    names = {"scale": number()}
    keeps = {"an equal number": lambda: names.update(scale=number())}
    breaks: Changes = {
        "another": lambda: names.update(scale=2.5),
        "another type": lambda: names.update(scale=1),
        "none": lambda: names.pop("scale"),
    }
    return GlobalRead(names, vars(builtins), "scale", names["scale"], NOWHERE), keeps, breaks


@case
def global_object() -> Any:
    names: dict[str, Any] = {"thing": Thing()}
    breaks = {"another": lambda: names.update(thing=Thing()), "None": lambda: names.update(thing=None)}
    return (
        GlobalRead(names, {}, "thing", names["thing"], NOWHERE),
        {"more": lambda: names.update(x=1)},
        breaks,
    )


@case
def builtin_name() -> Any:
    names: dict[str, Any] = {}
    builtin = {"len": len}
    breaks: Changes = {
        "shadowed": lambda: names.update(len=len),
        "another": lambda: builtin.update(len=max),
        "none": lambda: builtin.pop("len"),
    }
    return GlobalRead(names, builtin, "len", len, NOWHERE), {"more": lambda: builtin.update(max=max)}, breaks


def closed() -> Any:
    """A function with a closure and defaults, and what changes the variable of the closure."""
    cell: Any = number()

    def function(x: Any, y: Any = 2.5, *, k: Any = 3.5) -> Any:
        return cell

    def change(value: Any) -> None:
        nonlocal cell
        cell = value

    return function, change


def other_code(function: Any) -> Any:
    return function.__code__.replace(co_name="other")


@case
def closure() -> Any:
    world = SimpleNamespace()
    world.function, world.change = closed()
    keeps = {"an equal number": lambda: world.change(number())}
    breaks = {"another": lambda: world.change(Thing()), **goes(world)}
    return CellRead(world.function, "cell", world.function(0), NOWHERE), keeps, breaks


@case
def function_with_defaults() -> Any:
    world = SimpleNamespace(function=closed()[0])
    row = type("Row", (tuple,), {})
    keeps = {
        "equal defaults": lambda: setattr(world.function, "__defaults__", (number("2.5"),)),
        "equal keywords": lambda: setattr(world.function, "__kwdefaults__", {"k": number("3.5")}),
    }
    breaks = {
        "code": lambda: setattr(world.function, "__code__", other_code(world.function)),
        "other defaults": lambda: setattr(world.function, "__defaults__", (2.0,)),
        "more defaults": lambda: setattr(world.function, "__defaults__", (2.5, 2.5)),
        "defaults of another kind": lambda: setattr(world.function, "__defaults__", row((2.5,))),
        "no defaults": lambda: setattr(world.function, "__defaults__", None),
        "another keyword": lambda: setattr(world.function, "__kwdefaults__", {"k": 2.5}),
        "other keywords": lambda: setattr(world.function, "__kwdefaults__", {"j": 3.5}),
        "more keywords": lambda: world.function.__kwdefaults__.update(j=1),
        "no keywords": lambda: setattr(world.function, "__kwdefaults__", None),
        **goes(world),
    }
    return FunctionRead(world.function, NOWHERE), keeps, breaks


@case
def function_without_defaults() -> Any:
    world = SimpleNamespace(function=lambda x: x)
    keeps = {"a name": lambda: setattr(world.function, "__name__", "other")}
    breaks = {
        "code": lambda: setattr(world.function, "__code__", other_code(world.function)),
        "defaults": lambda: setattr(world.function, "__defaults__", (1,)),
        "keywords": lambda: setattr(world.function, "__kwdefaults__", {"x": 1}),
    }
    return FunctionRead(world.function, NOWHERE), keeps, breaks


# Attributes.


def settings() -> SimpleNamespace:
    """A world with an instance, its class and the base of that."""

    class Base:
        level = 3

        def helper(self) -> None: ...

    class Settings(Base):
        __slots__ = ("slot",)

        @property
        def computed(self) -> None: ...

    world = SimpleNamespace(Base=Base, Settings=Settings, owner=Settings())
    world.owner.x, world.owner.thing, world.owner.slot = number(), Thing(), number()
    world.Sibling = type("Sibling", (Settings,), {"__slots__": ()})
    return world


@case
def instance_attribute() -> Any:
    world = settings()
    breaks = {
        "another": lambda: setattr(world.owner, "x", 2.5),
        "none": lambda: delattr(world.owner, "x"),
        "a property": lambda: setattr(world.Base, "x", property(lambda self: 1.5)),
        "a look-up": lambda: setattr(world.Base, "__getattribute__", lambda self, name: 1.5),
        **goes(world),
    }
    return attribute(world.owner, "x"), {"equal": lambda: setattr(world.owner, "x", number())}, breaks


@case
def instance_object() -> Any:
    world = settings()
    keeps = {"more": lambda: setattr(world.owner, "y", 1)}
    return attribute(world.owner, "thing"), keeps, {"None": lambda: setattr(world.owner, "thing", None)}


@case
def slot() -> Any:
    world = settings()
    breaks = {
        "another": lambda: setattr(world.owner, "slot", 2),
        "none": lambda: delattr(world.owner, "slot"),
    }
    return attribute(world.owner, "slot"), {"equal": lambda: setattr(world.owner, "slot", number())}, breaks


@case
def attribute_of_the_class() -> Any:
    world = settings()
    breaks = {
        "own": lambda: setattr(world.owner, "helper", None),
        "nearer": lambda: setattr(world.Settings, "helper", None),
        "another": lambda: setattr(world.Base, "helper", lambda self: None),
    }
    return attribute(world.owner, "helper"), {"more": lambda: setattr(world.Base, "other", 1)}, breaks


@case
def data_descriptor() -> Any:
    world = settings()
    keeps = {"own": lambda: world.owner.__dict__.update(computed=1)}
    breaks = {"another": lambda: setattr(world.Settings, "computed", property(lambda self: None))}
    return attribute(world.owner, "computed"), keeps, breaks


@case
def absent_attribute() -> Any:
    world = settings()
    breaks = {
        "own": lambda: setattr(world.owner, "absent", 1),
        "of the class": lambda: setattr(world.Base, "absent", 1),
        "computed": lambda: setattr(world.Base, "__getattr__", lambda self, name: 1),
    }
    return attribute(world.owner, "absent"), {"more": lambda: setattr(world.owner, "y", 1)}, breaks


def network() -> SimpleNamespace:
    class Net(fg.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = fg.nn.Linear(2, 2)
            self.scale = fg.nn.Parameter(fg.ones(2))

    return SimpleNamespace(net=Net(), Net=Net)


@case
def part_of_a_network() -> Any:
    world = network()
    breaks = {
        "another": lambda: setattr(world.net, "scale", fg.nn.Parameter(fg.ones(2))),
        "own": lambda: world.net.__dict__.update(scale=1),
        "a table of another kind": lambda: world.net.__dict__.update(_parameters=None),
        "of the class": lambda: setattr(world.Net, "scale", 1),
        **goes(world),
    }
    return attribute(world.net, "scale"), {"more": lambda: setattr(world.net, "more", 1)}, breaks


@case
def attribute_of_a_module() -> Any:
    world = SimpleNamespace(module=ModuleType("module"))
    world.module.x = number()
    breaks = {"another": lambda: setattr(world.module, "x", 2), "none": lambda: delattr(world.module, "x")}
    return attribute(world.module, "x"), {"equal": lambda: setattr(world.module, "x", number())}, breaks


@case
def absent_from_a_module() -> Any:
    world = SimpleNamespace(module=ModuleType("module"))
    breaks = {
        "there": lambda: setattr(world.module, "x", 2),
        "computed": lambda: setattr(world.module, "__getattr__", lambda name: 1),
    }
    return attribute(world.module, "x"), {"more": lambda: setattr(world.module, "y", 1)}, breaks


@case
def attribute_of_a_class() -> Any:
    world = settings()
    breaks = {
        "nearer": lambda: setattr(world.Settings, "level", 3.0),
        "none": lambda: delattr(world.Base, "level"),
    }
    return attribute(world.Settings, "level"), {"more": lambda: setattr(world.Base, "y", 1)}, breaks


@case
def class_attribute() -> Any:
    world = settings()
    read = ClassAttributeRead(world.Settings, "helper", type_lookup(world.Settings, "helper"), NOWHERE)
    breaks = {"another": lambda: setattr(world.Base, "helper", None), **goes(world)}
    return read, {"own": lambda: setattr(world.owner, "helper", 1)}, breaks


@case
def attribute_by_super() -> Any:
    world = settings()
    raw = type_lookup(world.Settings, "helper", world.Settings)
    read = ClassAttributeRead(world.Settings, "helper", raw, NOWHERE, world.Settings)
    breaks = {"another": lambda: setattr(world.Base, "helper", None)}
    return read, {"skipped": lambda: setattr(world.Settings, "helper", None)}, breaks


@case
def kind() -> Any:
    world = settings()
    breaks = {"another": lambda: setattr(world.owner, "__class__", world.Sibling), **goes(world)}
    return TypeRead(world.owner, NOWHERE), {"more": lambda: setattr(world.Base, "y", 1)}, breaks


@case
def what_a_getter_finds() -> Any:
    world = settings()
    read = GetterRead(
        world.owner, lambda owner: owner.__dict__.get("x", MISSING), world.owner.x, "x", NOWHERE
    )
    breaks = {
        "another": lambda: setattr(world.owner, "x", 2),
        "none": lambda: delattr(world.owner, "x"),
        **goes(world),
    }
    return read, {"equal": lambda: setattr(world.owner, "x", number())}, breaks


# Containers.


@case
def item_of_a_list() -> Any:
    items = [0, number()]
    keeps = {"equal": lambda: items.__setitem__(1, number()), "more": lambda: items.append(1)}
    return ItemRead(items, 1, items[1], NOWHERE), keeps, {"another": items.reverse, "none": items.clear}


@case
def item_of_a_deque() -> Any:
    items = deque([Thing(), Thing()])
    keeps = {"more": lambda: items.append(Thing())}
    return ItemRead(items, 1, items[1], NOWHERE), keeps, {"another": items.rotate, "none": items.clear}


@case
def item_of_a_dict() -> Any:
    items = {"a": 1, (1, 2): number()}
    keeps = {"equal": lambda: items.update({(1, 2): number()})}
    breaks = {"another": lambda: items.update({(1, 2): True}), "none": items.clear}
    return ItemRead(items, (1, 2), items[1, 2], NOWHERE), keeps, breaks


@case
def absent_item() -> Any:
    items = OrderedDict(a=1)
    breaks = {"there": lambda: items.update(x=None)}
    return ItemRead(items, "x", MISSING, NOWHERE), {"more": lambda: items.update(y=1)}, breaks


@case
def length() -> Any:
    items = [1]
    keeps = {"another": lambda: items.__setitem__(0, 2)}
    return LengthRead(items, NOWHERE), keeps, {"more": lambda: items.append(1), "none": items.clear}


@case
def no_length() -> Any:
    world = SimpleNamespace(items={1})
    world.items.clear()
    breaks = {"more": lambda: world.items.add(1), **goes(world)}
    return LengthRead(world.items, NOWHERE), {"none again": lambda: world.items.clear()}, breaks


@case
def contents_of_a_list() -> Any:
    items = [number(), Thing()]
    keeps = {"equal": lambda: items.__setitem__(0, number())}
    breaks = {"another": lambda: items.__setitem__(1, Thing()), "more": lambda: items.append(1)}
    return ContentsRead(items, NOWHERE), keeps, {**breaks, "less": items.pop, "turned": items.reverse}


@case
def contents_of_a_long_list() -> Any:
    items = [float(i) for i in range(2 * MOST_LINES)]
    keeps = {"equal": lambda: items.__setitem__(5, number("5"))}
    breaks = {"another": lambda: items.__setitem__(5, True), "more": lambda: items.append(1)}
    return ContentsRead(items, NOWHERE), keeps, {**breaks, "less": items.pop, "turned": items.reverse}


@case
def contents_of_a_dict() -> Any:
    items: dict[str, Any] = {"a": number(), "b": Thing()}
    keeps = {"equal": lambda: items.update(a=number())}
    breaks = {
        "another": lambda: items.update(b=Thing()),
        "turned": lambda: items.update(a=items.pop("a")),
        "less": items.popitem,
        "renamed": lambda: items.update(c=items.pop("b")),
    }
    return ContentsRead(items, NOWHERE), keeps, breaks


# What engines keep.


@case
def parts_of_a_network() -> Any:
    world = network()
    breaks = {
        "a parameter": lambda: setattr(world.net, "scale", fg.nn.Parameter(fg.ones(2))),
        "a module": lambda: setattr(world.net, "layer", fg.nn.ReLU()),
        "more": lambda: world.net.register_buffer("more", fg.ones(1)),
        "renamed": lambda: world.net._modules.update(other=world.net._modules.pop("layer")),
        **goes(world),
    }
    return ModuleRead(world.net, NOWHERE), {"a number": lambda: setattr(world.net, "more", 1)}, breaks


@case
def no_gradient() -> Any:
    world = SimpleNamespace(weight=fg.ones(2, requires_grad=True))
    keeps = {"used": lambda: world.weight * 2}
    breaks = {"a gradient": lambda: setattr(world.weight, "grad", fg.ones(2)), **goes(world)}
    return NoGradient(world.weight), keeps, breaks


def optimizing() -> SimpleNamespace:
    weights = [fg.ones(2, requires_grad=True) for _ in range(3)]
    optimizer = fg.optim.Adam([{"params": weights[:2]}, {"params": weights[2:]}])
    sum(w.sum() for w in weights).backward()
    optimizer.step()
    return SimpleNamespace(optimizer=optimizer)


def none_in_the_place_of_one_that_is_gone(optimizer: Any) -> None:
    group = optimizer.param_groups[0]
    optimizer.state.pop(group["params"][0], None)
    group["params"][0] = None
    gc.collect()


def changes_of_parameters(world: SimpleNamespace) -> Changes:
    groups = world.optimizer.param_groups
    return {
        "another": lambda: groups[0]["params"].__setitem__(0, fg.ones(2)),
        "less": lambda: groups[0]["params"].pop(),
        "turned": lambda: groups[0]["params"].reverse(),
        "none": lambda: groups[0].pop("params"),
        "none in the place of one": lambda: none_in_the_place_of_one_that_is_gone(world.optimizer),
        "a tuple": lambda: groups[0].update(params=tuple(groups[0]["params"])),
        "more groups": lambda: groups.append({"params": []}),
        "another group": lambda: groups.__setitem__(0, dict(groups[0])),
        "no groups": lambda: delattr(world.optimizer, "param_groups"),
        "gone": lambda: (groups.clear(), vars(world).clear(), gc.collect()),
    }


@case
def parameters_of_an_optimizer() -> Any:
    world = optimizing()
    group = world.optimizer.param_groups[0]
    keeps = {
        "a rate": lambda: group.update(lr=0.5),
        "another list": lambda: group.update(params=list(group["params"])),
    }
    return ParametersRead(world.optimizer), keeps, changes_of_parameters(world)


@case
def state_of_an_optimizer() -> Any:
    world = optimizing()
    optimizer: Any = world.optimizer
    kept = next(iter(optimizer.state.values()))
    breaks = {
        "another tensor": lambda: kept.update(exp_avg=kept["exp_avg"].clone()),
        "less": lambda: kept.pop("exp_avg"),
        "nothing": lambda: optimizer.state.clear(),
        "a state of another kind": lambda: setattr(optimizer, "state", dict(optimizer.state)),
        "a hook before": lambda: optimizer.register_step_pre_hook(lambda *given: None),
        "a hook behind": lambda: optimizer.register_step_post_hook(lambda *given: None),
        "other slots": lambda: setattr(optimizer, "slots", lambda group: ()),
        **changes_of_parameters(world),
    }
    breaks.pop("gone")  # the changes above hold what would have to go
    return StateRead(optimizer), {"more": lambda: kept.update(more=1)}, breaks
