"""A world for guards: objects of all kinds, the reads of them, and what can happen to them."""

from __future__ import annotations

import builtins
import contextlib
import gc
import types
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import numpy as np

import fusegrad as fg
from fusegrad import nn
from fusegrad.tracer.observe.lookup import MISSING, lookup, type_lookup
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
from guards.checks import Ran, runs

NAN = float("nan")

PLAIN = [
    True, False, None, 1, 0, 1.0, 0.0, -0.0, NAN, 2**70, float(2**70), 1e300 * 10, "a", "", b"a",
    1j, complex(0.0, -0.0),
    (1, 2.0), (1.0, 2), (1, (NAN,)), frozenset({1}), frozenset({1.0}), range(3), slice(1, 2), ...,
    np.float32(1), np.float64(1), np.int64(1), np.bool_(True), np.dtype("f4"), np.dtype("f8"),
]  # fmt: skip


class Descriptor:
    """A data descriptor."""

    __get__ = __set__ = runs


class Getter:
    """A descriptor that is no data descriptor."""

    __get__ = runs


class Equal:
    """Equal to everything, if it were asked."""

    __eq__ = __hash__ = __bool__ = runs  # type: ignore[assignment]


class Dict(dict):
    """A dict with a look-up of its own."""

    __getitem__ = get = __contains__ = __len__ = __iter__ = keys = values = runs  # type: ignore[assignment]


class Meta(type):
    """A metaclass with an equality and a look-up of its own."""

    __eq__ = __hash__ = __getattribute__ = runs  # type: ignore[assignment]


def new(value: Any) -> Any:
    """An equal value in an object of its own, where Python has such."""
    if type(value) is float:
        return float(repr(value))
    if type(value) is int:
        return int(str(value))
    if type(value) is tuple:
        return tuple([new(item) for item in value])
    if type(value) is str:
        return "".join(list(value))
    return value


class World:
    """Objects of all kinds, the reads of them, and what can happen to them."""

    def __init__(self) -> None:
        class Root:
            default = 1.5

            def helper(self) -> None: ...

        class Owner(Root):
            level = 3
            strange = Getter()

            @property
            def computed(self) -> Any:
                return runs()

            @classmethod
            def make(cls) -> None: ...

        class Sibling(Root):
            level = 3

        class Slotted:
            __slots__ = ("__weakref__", "a", "b", "empty")

        class Dynamic(Root):
            def __getattr__(self, name: str) -> Any:
                return runs()

        class Net(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.weight = nn.Parameter(fg.ones(2))
                self.register_buffer("mean", fg.zeros(2))
                self.layer = nn.Linear(2, 2)
                self.number = 2.5

        self.Root, self.Owner, self.Sibling, self.Slotted = Root, Owner, Sibling, Slotted
        self.Dynamic, self.Net = Dynamic, Net
        self.Other = type("Other", (Root,), {})
        self.WithMeta = Meta("WithMeta", (), {"level": 1})
        self.owner: Any = Owner()
        self.owner.x, self.owner.default, self.owner.thing = 2.5, 7, Root()
        self.slotted: Any = Slotted()
        self.slotted.a, self.slotted.b = 1.5, Root()
        self.dynamic: Any = Dynamic()
        self.dynamic.x = 2.5
        self.net: Any = Net()
        self.odd: Any = type.__call__(self.WithMeta)
        self.module: Any = types.ModuleType("module")
        self.module.x, self.module.thing = 2.5, Root()
        # One of a class of its own, as those are that stand in torch's place.
        self.Face: Any = type("Face", (types.ModuleType,), {"__getattr__": lambda module, name: runs()})
        self.face: Any = self.Face("face")
        self.face.x, self.face.thing = 2.5, Root()
        self.list = [1.5, "a", Root()]
        self.long = [float(i) for i in range(50)]
        self.things = [Root() for _ in range(40)]
        self.dict = {"a": 1.5, "thing": Root(), 3: "three", (1, 2): 4}
        self.ordered = OrderedDict(a=1.5, b=2)
        self.set = {1, 2}
        self.deque = deque([1.5, Root()])
        cell, thing = 1.5, Root()

        def closed(x: Any, y: Any = 2.5, *, k: Any = thing) -> Any:
            return cell, thing

        def plain(x: Any) -> Any: ...

        def set_cell(value: Any) -> None:
            nonlocal cell
            cell = value

        def empty_cell() -> None:
            nonlocal cell
            del cell

        self.closed: Any = closed
        self.plain: Any = plain
        self.set_cell, self.empty_cell = set_cell, empty_cell
        self.globals: dict = {"scale": 1.5, "thing": Root(), "__builtins__": dict(vars(builtins))}

    def reads(self) -> list[Read]:
        """Every kind of read, of everything."""

        def attribute(owner: Any, name: str) -> Read:
            return AttributeRead(owner, name, lookup(owner, name), NOWHERE)

        def of_class(owner: type, name: str, after: type | None = None) -> Read:
            return ClassAttributeRead(owner, name, type_lookup(owner, name, after), NOWHERE, after)

        def item(owner: Any, key: Any) -> Read:
            value = dict.get(owner, key, MISSING) if isinstance(owner, dict) else owner[key]
            return ItemRead(owner, key, value, NOWHERE)

        of_owner = "x default thing level helper computed make strange absent __class__".split()
        of_net = "weight mean layer number forward absent _modules".split()
        sized = [self.list, self.dict, self.set, self.ordered, self.deque]
        builtin = self.globals["__builtins__"]
        return [
            *(attribute(self.owner, name) for name in of_owner),
            *(attribute(self.slotted, name) for name in ("a", "b", "empty", "absent")),
            *(attribute(self.dynamic, name) for name in ("x", "helper")),
            *(attribute(self.net, name) for name in of_net),
            *(attribute(self.module, name) for name in ("x", "thing", "absent")),
            *(attribute(self.face, name) for name in ("x", "thing")),
            *(attribute(self.Owner, name) for name in ("level", "helper", "absent", "default")),
            attribute(self.odd, "level"),
            attribute(self.closed, "note"),
            *(of_class(self.Owner, name) for name in ("level", "helper", "absent", "__init__", "default")),
            of_class(self.Owner, "helper", self.Owner),
            of_class(self.Net, "forward", self.Net),
            of_class(self.WithMeta, "level"),
            *(TypeRead(owner, NOWHERE) for owner in (self.owner, self.slotted, self.net, self.odd)),
            *(item(self.list, key) for key in (0, 1, 2, -1)),
            *(item(self.dict, key) for key in ("a", "thing", 3, (1, 2), "absent")),
            *(item(self.ordered, key) for key in ("a", "absent")),
            item(self.deque, 1),
            *(LengthRead(owner, NOWHERE) for owner in sized),
            *(ContentsRead(owner, NOWHERE) for owner in (*sized, self.long, self.things)),
            CellRead(self.closed, "cell", 1.5, NOWHERE),
            CellRead(self.closed, "thing", self.closed(1)[1], NOWHERE),
            FunctionRead(self.closed, NOWHERE),
            FunctionRead(self.plain, NOWHERE),
            GlobalRead(self.globals, builtin, "scale", self.globals["scale"], NOWHERE),
            GlobalRead(self.globals, builtin, "thing", self.globals["thing"], NOWHERE),
            GlobalRead(self.globals, builtin, "len", len, NOWHERE),
            GetterRead(self.owner, lambda owner: dict.get(_namespace(owner), "x"), 2.5, "x", NOWHERE),
        ]


def _namespace(owner: Any) -> Any:
    return object.__getattribute__(owner, "__dict__")


def _tables(world: World) -> dict:
    return _namespace(world.net)


# Each may fail where an earlier one has taken away what it changes.
CHANGES: list[Callable[[World], Any]] = [
    lambda w: _namespace(w.owner).__setitem__("x", new(2.5)),
    lambda w: _namespace(w.owner).__setitem__("x", np.float64(2.5)),
    lambda w: _namespace(w.owner).__setitem__("x", NAN),
    lambda w: _namespace(w.owner).__setitem__("x", Equal()),
    lambda w: _namespace(w.owner).__setitem__("thing", Equal()),
    lambda w: _namespace(w.owner).__setitem__("thing", None),
    lambda w: _namespace(w.owner).pop("x"),
    lambda w: _namespace(w.owner).pop("thing"),
    lambda w: _namespace(w.owner).pop("default"),
    lambda w: _namespace(w.owner).__setitem__("level", 3),
    lambda w: _namespace(w.owner).__setitem__("helper", w.Root.helper),
    lambda w: _namespace(w.owner).__setitem__("computed", 1),
    lambda w: _namespace(w.owner).__setitem__("absent", 1),
    lambda w: object.__setattr__(w.owner, "__dict__", dict(_namespace(w.owner))),
    lambda w: object.__setattr__(w.owner, "__dict__", Dict(x=2.5)),
    lambda w: setattr(w.owner, "__class__", w.Sibling),
    lambda w: setattr(w.owner, "__class__", w.Owner),
    lambda w: setattr(w.Owner, "x", 1),
    lambda w: setattr(w.Owner, "x", Descriptor()),
    lambda w: setattr(w.Root, "x", property(runs)),
    lambda w: setattr(w.Root, "x", Getter()),
    lambda w: setattr(w.Owner, "default", 2),
    lambda w: setattr(w.Root, "default", Equal()),
    lambda w: setattr(w.Root, "default", property(runs)),
    lambda w: setattr(w.Owner, "level", new(3)),
    lambda w: setattr(w.Owner, "level", 4),
    lambda w: setattr(w.Owner, "helper", w.Root.helper),
    lambda w: setattr(w.Owner, "helper", lambda self: None),
    lambda w: setattr(w.Root, "helper", lambda self: None),
    lambda w: setattr(w.Owner, "unrelated", 1),
    lambda w: setattr(w.Owner, "absent", None),
    lambda w: setattr(w.Owner, "computed", property(runs)),
    lambda w: setattr(w.Owner, "strange", Descriptor()),
    lambda w: setattr(w.Owner, "__getattr__", runs),
    lambda w: setattr(w.Owner, "__getattribute__", runs),
    lambda w: setattr(w.Root, "__getattribute__", runs),
    lambda w: setattr(w.Owner, "__dict__", property(runs)),
    lambda w: setattr(w.Owner, "__bases__", (w.Sibling,)),
    lambda w: setattr(w.Owner, "__bases__", (w.Root,)),
    lambda w: setattr(w.Owner, "__init__", lambda self: None),
    lambda w: setattr(Getter, "__set__", runs),
    lambda w: delattr(Getter, "__set__"),
    lambda w: delattr(w.Owner, "level"),
    lambda w: setattr(w.slotted, "a", new(1.5)),
    lambda w: setattr(w.slotted, "a", 2.5),
    lambda w: delattr(w.slotted, "a"),
    lambda w: setattr(w.slotted, "b", None),
    lambda w: setattr(w.slotted, "empty", None),
    lambda w: setattr(w.Slotted, "a", property(runs)),
    lambda w: setattr(w.Slotted, "__getattr__", runs),
    lambda w: setattr(w.dynamic, "x", new(2.5)),
    lambda w: delattr(w.dynamic, "x"),
    lambda w: _tables(w)["_parameters"].__setitem__("weight", nn.Parameter(fg.ones(2))),
    lambda w: _tables(w)["_parameters"].__setitem__("mean", None),
    lambda w: _tables(w)["_parameters"].__setitem__("absent", None),
    lambda w: _tables(w)["_parameters"].pop("weight"),
    lambda w: _tables(w)["_buffers"].__setitem__("mean", fg.zeros(2)),
    lambda w: _tables(w).__setitem__("_parameters", dict(_tables(w)["_parameters"])),
    lambda w: _tables(w).__setitem__("_parameters", Dict()),
    lambda w: _tables(w).__setitem__("_modules", OrderedDict(_tables(w)["_modules"])),
    lambda w: _tables(w).__setitem__("_buffers", None),
    lambda w: _tables(w).__setitem__("weight", 1),
    lambda w: _tables(w).__setitem__("layer", _tables(w)["_modules"]["layer"]),
    lambda w: _tables(w).__setitem__("number", new(2.5)),
    lambda w: setattr(w.Net, "weight", 1),
    lambda w: setattr(w.Net, "mean", Descriptor()),
    lambda w: setattr(w.Net, "__getattr__", runs),
    lambda w: setattr(w.Net, "forward", runs),
    lambda w: setattr(w.net, "__class__", nn.Module),
    lambda w: vars(w.module).__setitem__("x", new(2.5)),
    lambda w: vars(w.module).__setitem__("thing", Equal()),
    lambda w: vars(w.module).pop("x"),
    lambda w: vars(w.module).__setitem__("__getattr__", runs),
    lambda w: vars(w.module).__setitem__("absent", 1),
    lambda w: setattr(w.module, "__class__", type("Module", (types.ModuleType,), {"__getattribute__": runs})),
    lambda w: setattr(w.module, "__class__", type("Module", (types.ModuleType,), {"__getattr__": runs})),
    lambda w: vars(w.face).__setitem__("x", new(2.5)),
    lambda w: vars(w.face).__setitem__("thing", Equal()),
    lambda w: vars(w.face).pop("x"),
    lambda w: setattr(w.Face, "x", property(runs)),
    lambda w: setattr(w.Face, "thing", Descriptor()),
    lambda w: setattr(w.Face, "x", 2.5),
    lambda w: setattr(w.Face, "__getattribute__", runs),
    lambda w: setattr(w.Face, "__dict__", property(runs)),
    lambda w: setattr(w.Face, "unrelated", 1),
    lambda w: setattr(w.face, "__class__", types.ModuleType),
    lambda w: setattr(w.face, "__class__", type("Other", (w.Face,), {"x": property(runs)})),
    lambda w: type.__setattr__(w.WithMeta, "level", 2),
    lambda w: w.list.__setitem__(0, new(1.5)),
    lambda w: w.list.__setitem__(0, Equal()),
    lambda w: w.list.append(1),
    lambda w: w.list.reverse(),
    lambda w: w.list.clear(),
    lambda w: w.long.__setitem__(3, new(3.0)),
    lambda w: w.long.__setitem__(3, 3),
    lambda w: w.things.__setitem__(3, None),
    lambda w: w.things.reverse(),
    lambda w: w.dict.__setitem__("a", new(1.5)),
    lambda w: w.dict.__setitem__("a", True),
    lambda w: w.dict.__setitem__("thing", Equal()),
    lambda w: w.dict.__setitem__("absent", None),
    lambda w: w.dict.__setitem__("a", w.dict.pop("a")),
    lambda w: w.dict.pop(3),
    lambda w: w.ordered.move_to_end("a"),
    lambda w: w.ordered.__setitem__("absent", 1),
    lambda w: w.set.add(3),
    lambda w: w.deque.rotate(),
    lambda w: w.deque.append(1.5),
    lambda w: w.set_cell(new(1.5)),
    lambda w: w.set_cell(Equal()),
    lambda w: w.empty_cell(),
    lambda w: setattr(w.closed, "__code__", w.closed.__code__.replace(co_name="other")),
    lambda w: setattr(w.plain, "__code__", runs.__code__),
    lambda w: setattr(w.closed, "__defaults__", (new(2.5),)),
    lambda w: setattr(w.closed, "__defaults__", (Equal(),)),
    lambda w: setattr(w.closed, "__defaults__", None),
    lambda w: setattr(w.closed, "__defaults__", type("Tuple", (tuple,), {"__iter__": runs})((2.5,))),
    lambda w: setattr(w.plain, "__defaults__", ()),
    lambda w: setattr(w.plain, "__defaults__", (1,)),
    lambda w: w.closed.__kwdefaults__.__setitem__("k", Equal()),
    lambda w: setattr(w.closed, "__kwdefaults__", Dict(w.closed.__kwdefaults__)),
    lambda w: setattr(w.closed, "__kwdefaults__", None),
    lambda w: setattr(w.plain, "__kwdefaults__", {}),
    lambda w: w.closed.__dict__.__setitem__("note", 1),
    lambda w: w.globals.__setitem__("scale", new(1.5)),
    lambda w: w.globals.__setitem__("scale", 2.5),
    lambda w: w.globals.__setitem__("thing", None),
    lambda w: w.globals.pop("scale"),
    lambda w: w.globals.__setitem__("len", len),
    lambda w: w.globals["__builtins__"].__setitem__("len", max),
    lambda w: w.globals["__builtins__"].pop("len"),
    # Objects that go.
    lambda w: (setattr(w, "owner", None), gc.collect()),
    lambda w: (setattr(w, "net", None), gc.collect()),
    lambda w: (setattr(w, "module", None), gc.collect()),
    lambda w: (setattr(w, "face", None), gc.collect()),
    lambda w: (setattr(w, "closed", None), setattr(w, "set_cell", None), gc.collect()),
    lambda w: (setattr(w, "Owner", None), setattr(w, "owner", None), gc.collect()),
    lambda w: (setattr(w, "deque", None), gc.collect()),
]  # fmt: skip


def try_change(world: World, change: Callable[[World], Any]) -> None:
    """What it changes may not be there any more, or have a look-up of its own by now."""
    gone = (AttributeError, KeyError, TypeError, NameError, IndexError, ValueError, Ran)
    with contextlib.suppress(*gone):
        change(world)
