"""Objects whose class finds attributes in a way of its own, for tests of what replays see of them.

A class written in C answers from what the thread has, from another object or from a class; one written in
Python from whatever it likes. Each case is a world, a function that reads a number in it, and changes of that
world, which are made between calls.
"""

from __future__ import annotations

import array
import collections
import contextvars
import ctypes
import decimal
import enum
import functools
import operator
import threading
import types
import typing
import weakref
from collections.abc import Callable
from types import MethodType, SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

import fusegrad as fg

Case = tuple[Callable[[], Any], list[Callable[[], Any]]]
CASES: dict[str, Callable[[], Case]] = {}


def case(function: Callable[[], Case]) -> Callable[[], Case]:
    CASES[function.__name__.replace("_", " ").strip()] = function
    return function


class Config:
    """What many of the cases read."""

    def __init__(self) -> None:
        self.scale = 1.0

    def gain(self) -> float:
        return self.scale

    def __len__(self) -> int:
        return int(self.scale)

    def __getitem__(self, key: int) -> float:
        return self.scale

    def __call__(self) -> float:
        return self.scale

    def __mul__(self, other: float) -> float:
        return self.scale * other

    def __contains__(self, item: float) -> bool:
        return self.scale == item


class Other(Config):
    """What a `Config` can become."""


def setting(owner: Any, name: str, *values: Any) -> list[Callable[[], Any]]:
    """Changes that give an attribute other values, and then take it away."""
    return [*(functools.partial(setattr, owner, name, v) for v in values), lambda: delattr(owner, name)]


# What one thread has.


@case
def thread_local() -> Case:
    local = threading.local()
    local.scale = 1.0
    return lambda: local.scale, setting(local, "scale", 5.0, 7.0)


@case
def thread_local_absent() -> Case:
    local = threading.local()
    return lambda: getattr(local, "scale", 1.0), setting(local, "scale", 5.0, 7.0)


@case
def thread_local_asked() -> Case:
    local = threading.local()
    return lambda: 2.0 if hasattr(local, "scale") else 3.0, setting(local, "scale", 5.0)


@case
def thread_local_of_a_subclass() -> Case:
    class Local(threading.local):
        scale = 1.0

    local = Local()
    return lambda: local.scale, setting(local, "scale", 5.0)


@case
def thread_local_of_another_thread() -> Case:
    local = threading.local()
    local.scale = 1.0
    found: list[float] = []

    def read() -> float:
        return local.scale if hasattr(local, "scale") else 100.0

    jitted = fg.jit(lambda x: x * read())

    def elsewhere() -> None:
        thread = threading.Thread(target=lambda: found.append(float(jitted(fg.ones(1)))))
        thread.start()
        thread.join()
        assert found.pop() == 100.0

    [jitted(fg.ones(1)) for _ in range(3)]
    return read, [elsewhere]


@case
def thread_local_written() -> Case:
    local = threading.local()
    local.scale = 1.0

    def read() -> float:
        local.scale = local.scale * 2
        return local.scale

    return read, [lambda: setattr(local, "scale", 1.0)]


@case
def context_variable() -> Case:
    variable = contextvars.ContextVar("variable", default=1.0)
    return lambda: variable.get(), [lambda: variable.set(5.0), lambda: variable.set(2.0)]


@case
def context_of_decimals() -> Case:
    changes = [functools.partial(setattr, decimal.getcontext(), "prec", places) for places in (5, 28)]
    return lambda: float(decimal.getcontext().prec), changes  # type: ignore[return-value]


# What another object has.

PROXIES: dict[str, Callable[[Any], Any]] = {
    "attribute": lambda p: p.scale,
    "absent attribute": lambda p: getattr(p, "bias", 3.0),
    "method": lambda p: p.gain(),
    "call": lambda p: p(),
    "product": lambda p: p * 2.0,
    "length": lambda p: len(p),
    "truth": lambda p: 1.0 if p else 2.0,
    "item": lambda p: p[0],
    "contains": lambda p: 1.0 if 5.0 in p else 2.0,
    "class": lambda p: 1.0 if isinstance(p, Other) else 2.0,
    "asked class": lambda p: 1.0 if p.__class__ is Other else 2.0,
    "identity": lambda p: 1.0 if p is None else 2.0,
    "put into a list": lambda p: float(len([p, p])),
    "callable": lambda p: 1.0 if callable(p) else 2.0,
    "type": lambda p: 1.0 if type(p) is Config else 2.0,
    "argument": lambda p: (lambda other: 3.0)(p),
    "attribute of a class": lambda p: type(p).__name__ == "x" and 2.0,
}


def proxied(read: Callable[[Any], Any]) -> Case:
    held = [Config()]
    proxy = weakref.proxy(held[0])
    changes = {"scale": 5.0, "bias": 7.0, "__class__": Other}
    sets = [lambda n=n, v=v: setattr(held[0], n, v) for n, v in changes.items()]  # type: ignore[misc]
    return lambda: read(proxy), [*sets, held.clear]


CASES |= {f"proxy: {name}": functools.partial(proxied, read) for name, read in PROXIES.items()}


@case
def proxy_written() -> Case:
    config = Config()
    proxy = weakref.proxy(config)

    def read() -> float:
        proxy.scale += 1.0
        return proxy.scale

    return read, [lambda: setattr(config, "scale", 1.0)]


@case
def weak_reference() -> Case:
    held = [Config()]
    reference = weakref.ref(held[0])

    def read() -> float:
        config = reference()
        return 9.0 if config is None else config.scale

    return read, [lambda: setattr(held[0], "scale", 5.0), held.clear]


@case
def weak_dictionary() -> Case:
    held = Config()
    table = weakref.WeakKeyDictionary({held: 1.0})
    return lambda: table[held], [lambda: table.update({held: 5.0}), table.clear]


@case
def module_of_a_subclass() -> Case:
    class Module(types.ModuleType):
        held = 1.0

        @property
        def scale(self) -> float:
            return Module.held

        @property
        def shadowed(self) -> float:
            return Module.held

    module = Module("module")
    vars(module)["shadowed"] = 3.0
    return lambda: module.scale + module.shadowed, setting(Module, "held", 5.0, 2.0)


@case
def module_with_a_function_for_the_rest() -> Case:
    module, held = types.ModuleType("module"), [1.0]
    vars(module)["__getattr__"] = lambda name: held[0]
    return lambda: module.scale, [lambda: held.append(held.pop() + 1)] * 2


@case
def module_that_gets_a_function_for_the_rest() -> Case:
    module = types.ModuleType("module")
    return lambda: getattr(module, "scale", 1.0), setting(module, "__getattr__", lambda name: 5.0)


# What a function or a class has.


class Layer:
    """Methods of several kinds."""

    def scaled(self) -> None:
        """Nothing."""

    @classmethod
    def shared(cls) -> None: ...

    @staticmethod
    def alone() -> None: ...

    partial = functools.partialmethod(scaled)


def method_case(name: str, attribute: str, given: tuple[Any, ...]) -> Case:
    kind: Any = type("Layer", (Layer,), {})
    for each in ("scaled", "shared", "alone"):
        raw = vars(Layer)[each]
        function = getattr(raw, "__func__", raw)
        copied = types.FunctionType(function.__code__, globals(), each)
        setattr(kind, each, copied if raw is function else type(raw)(copied))
    layer = kind()
    raw = vars(kind).get(name, vars(Layer).get(name))
    function = getattr(raw, "__func__", raw)
    if not given:
        setattr(function, attribute, 1.0)
    return lambda: float(getattr(getattr(layer, name), attribute, *given)), setting(function, attribute, 5.0)


for _name in ("scaled", "shared", "alone", "partial"):
    CASES[f"method: {_name}"] = functools.partial(method_case, _name, "gain", ())
    CASES[f"method: {_name}, absent"] = functools.partial(method_case, _name, "gain", (3.0,))


@case
def method_kept_outside() -> Case:
    method: Any = types.FunctionType(Layer.scaled.__code__, globals(), "scaled").__get__(Layer())
    return lambda: getattr(method, "gain", 1.0), setting(method.__func__, "gain", 5.0)


@case
def method_of_a_callable_object() -> Case:
    config = Config()
    method: Any = MethodType(config, Layer())
    return lambda: method.scale, setting(config, "scale", 5.0)


@case
def name_of_a_method() -> Case:
    layer: Any = type("Layer", (), {"scaled": lambda self: None})()
    function = layer.scaled.__func__
    return lambda: float(len(layer.scaled.__name__)), [lambda: setattr(function, "__name__", "longer_name")]


@case
def text_of_a_method() -> Case:
    layer: Any = type("Layer", (), {"scaled": lambda self: None})()
    function = layer.scaled.__func__
    return lambda: 1.0 if layer.scaled.__doc__ else 2.0, [lambda: setattr(function, "__doc__", "Text.")]


@case
def alias_of_a_class() -> Case:
    kind: Any = type("Kind", (), {"scale": 1.0, "__class_getitem__": classmethod(types.GenericAlias)})
    alias = kind[int]
    return lambda: alias.scale, setting(kind, "scale", 5.0)


@case
def alias_of_typing() -> Case:
    class Kind(typing.Generic[typing.TypeVar("T")]):  # type: ignore[misc]
        scale = 1.0

    alias: Any = Kind[int]
    return lambda: alias.scale, setting(Kind, "scale", 5.0)


@case
def alias_asked() -> Case:
    kind: Any = type("Kind", (), {"__class_getitem__": classmethod(types.GenericAlias)})
    alias = kind[int]
    return lambda: 1.0 if hasattr(alias, "scale") else 2.0, setting(kind, "scale", 5.0)


@case
def super_object() -> Case:
    class Below(Config):
        scale = 9.0

        def gain(self) -> float:
            return super().rate  # type: ignore[misc, no-any-return]

    Parent = Config
    held = Below()
    Parent.rate = 1.0  # type: ignore[attr-defined]
    return lambda: held.gain(), setting(Parent, "rate", 5.0)


@case
def metaclass() -> Case:
    class Meta(type):
        held = 1.0

        @property
        def scale(cls) -> float:
            return cls.held

    kind = Meta("Kind", (), {})
    return lambda: kind.scale, setting(Meta, "held", 5.0)


@case
def metaclass_with_a_lookup() -> Case:
    held = [1.0]

    class Meta(type):
        def __getattribute__(cls, name: str) -> Any:
            return held[0] if name == "scale" else type.__getattribute__(cls, name)

    kind: Any = Meta("Kind", (), {})
    return lambda: kind.scale, [lambda: held.append(held.pop() + 1)] * 2


# What code computes.


@case
def lookups_that_come_later() -> Case:
    kind: Any = type("Kind", (), {"scale": 1.0})
    held = kind()
    changes = [lambda: setattr(kind, "__getattribute__", lambda self, name: 5.0)]
    return lambda: held.scale, [*changes, lambda: delattr(kind, "__getattribute__")]


@case
def fallbacks_that_come_later() -> Case:
    kind: Any = type("Kind", (), {})
    held = kind()
    return lambda: getattr(held, "scale", 1.0), setting(kind, "__getattr__", lambda self, name: 5.0)


@case
def object_that_says_its_class() -> Case:
    held = [Config]
    pretender: Any = type("Pretender", (), {"__class__": property(lambda self: held[0])})()
    return lambda: 1.0 if isinstance(pretender, Other) else 2.0, [lambda: held.__setitem__(0, Other)]


@case
def mock_of_a_class() -> Case:
    fake = mock.Mock(scale=1.0)
    return lambda: fake.scale, [lambda: setattr(fake, "scale", 5.0)]


@case
def mock_that_says_its_class() -> Case:
    fake = mock.Mock(spec=Config)
    change = functools.partial(fake.mock_add_spec, Other)
    return lambda: 1.0 if isinstance(fake, Other) else 2.0, [change]


@case
def cached_property_that_is_forgotten() -> Case:
    class Kind:
        held = 1.0
        scale = functools.cached_property(lambda self: self.held)

    Kind.scale.__set_name__(Kind, "scale")
    kind = Kind()
    return lambda: kind.scale, [lambda: setattr(Kind, "held", 5.0), lambda: vars(kind).clear()]


@case
def function_of_a_property() -> Case:
    def getter(self: Any) -> float:
        return 1.0

    kind: Any = type("Kind", (), {"scale": property(getter)})
    return lambda: getattr(kind.scale.fget, "rate", 1.0), setting(getter, "rate", 5.0)


# What other classes of C have.


@case
def partial() -> Case:
    held: Any = functools.partial(max, 1.0)
    return lambda: getattr(held, "scale", 1.0) + held.args[0], setting(held, "scale", 5.0)


@case
def partial_set_anew() -> Case:
    held: Any = functools.partial(max, 1.0)
    return lambda: held.args[0], [lambda: held.__setstate__((max, (5.0,), {}, {}))]


@case
def getter_of_operator() -> Case:
    config, getter = Config(), operator.attrgetter("scale")
    return lambda: getter(config), setting(config, "scale", 5.0)


@case
def structure_of_ctypes() -> Case:
    held = type("Point", (ctypes.Structure,), {"_fields_": [("scale", ctypes.c_double)]})(1.0)
    return lambda: held.scale, [lambda: setattr(held, "scale", 5.0)]


@case
def array_of_python() -> Case:
    held = array.array("d", [1.0])
    return lambda: held[0] + len(held), [lambda: held.__setitem__(0, 5.0), lambda: held.append(2.0)]


@case
def view_of_a_dictionary() -> Case:
    table = {"scale": 1.0}
    view = types.MappingProxyType(table)
    changes = [lambda: table.update(scale=5.0), table.clear]
    return lambda: view.get("scale", 3.0), [*changes, lambda: table.update(scale=2.0)]


@case
def namespace() -> Case:
    held = SimpleNamespace(scale=1.0)
    return lambda: getattr(held, "scale", 3.0), setting(held, "scale", 5.0)


@case
def record_of_numpy() -> Case:
    table = np.array([(1.0,)], dtype=[("scale", float)])
    held, record = table[0], table.view(np.recarray)[0]
    change = functools.partial(table["scale"].__setitem__, 0)
    return lambda: held["scale"] + record.scale, [lambda: change(5.0)]


@case
def member_of_an_enumeration() -> Case:
    members: Any = enum.Enum("Members", {"ONE": 1.0})
    return lambda: getattr(members.ONE, "scale", members.ONE.value), setting(members.ONE, "scale", 5.0)


@case
def chain_of_dictionaries() -> Case:
    front: dict[str, float] = {}
    held = collections.ChainMap(front, {"scale": 1.0})
    return lambda: held["scale"], [lambda: front.update(scale=5.0), front.clear]
