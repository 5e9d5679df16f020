"""Reads as data: what a run has read of the world, for another process to read again.

A read that was kept is made anew in the other process, of what lies in the same place there, and told of in
the same way. If it says the same, it holds. So there is one description of a read, which writing and checking
share, and nothing is found by it that the read does not look at itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from fusegrad.compiler.artefacts import owners
from fusegrad.compiler.artefacts.world import Data, Unsayable, World, plain
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.observe import hosts, modules, optimizer_steps, purity, reads, stores
from fusegrad.tracer.observe.lookup import MISSING, container_class, lookup, type_lookup
from fusegrad.tracer.observe.python import abstract
from fusegrad.tracer.observe.reads import Read
from fusegrad.tracer.observe.values import plain_key
from fusegrad.tracer.twin.sites import Site


class Kind(NamedTuple):
    """How reads of a kind are told of, and made again of what was told."""

    told: Callable[[Any, World], list[Data]]
    again: Callable[..., Read]


def told(read: Read, world: World) -> Data:
    """A read as data; what it has found is met. Raises Unsayable."""
    kind = KINDS[type(read)]
    if isinstance(kind, str):
        raise Unsayable(f"reads {read.subject()}: {kind}")
    return [type(read).__name__, *kind.told(read, world)]


def again(data: Data, world: World, site: Site) -> Read:
    """The read that was told of, as it finds the world now. Raises whatever looking there may raise."""
    name, *rest = data
    kind = BY_NAME[name]
    if isinstance(kind, str):
        raise Unsayable(kind)
    return kind.again(world, site, *rest)


# ---------------------------------------------------------------------------------- each kind


def _owner(read: Any, world: World) -> Data:
    return world.known(read.owner())


def _global(read: reads.GlobalRead, world: World) -> list[Data]:
    where = "builtin" if read.from_builtins else "global"
    return [world.namespace(read.globals), read.name, where, world.expected(read.expected)]


def _global_again(world: World, site: Site, function: int, name: str, *_: Data) -> Read:
    owner = world.objects[function]
    namespace, builtins = owner.__globals__, owner.__builtins__
    value = namespace[name] if name in namespace else builtins.get(name, MISSING)
    read = reads.GlobalRead(namespace, builtins, name, value, site)
    read.source = ("global", id(namespace), name)
    return read


def _cell(read: reads.CellRead, world: World) -> list[Data]:
    return [world.known(read.function()), read.name, world.expected(read.expected)]


def _cell_again(world: World, site: Site, number: Data, name: str, *_: Data) -> Read:
    function = world.at(number)
    value = function.__closure__[function.__code__.co_freevars.index(name)].cell_contents
    read = reads.CellRead(function, name, value, site)
    read.source = ("cell", id(function), name)
    return read


def _function(read: reads.FunctionRead, world: World) -> list[Data]:
    defaults, keywords = read.defaults, read.keyword_defaults
    return [
        world.known(read.function()),
        ["none"] if defaults is None else [world.expected(value) for value in defaults],
        ["none"] if keywords is None else [[name, world.expected(value)] for name, value in keywords],
    ]


def _attribute(read: reads.AttributeRead, world: World) -> list[Data]:
    return [_owner(read, world), read.name, read.where, world.expected(read.expected)]


def _attribute_again(world: World, site: Site, number: Data, name: str, *_: Data) -> Read:
    owner = world.at(number)
    purity.load_public(owner, name)
    found = lookup(owner, name)
    if found.where == "dynamic":
        raise Unsayable(f"`{name}` is computed by code of its own")
    read = reads.AttributeRead(owner, name, found, site)
    read.source = ("attribute", id(owner), name)
    return read


def _class_attribute(read: reads.ClassAttributeRead, world: World) -> list[Data]:
    after = -1 if read.after is None else world.known(read.after())
    return [_owner(read, world), read.name, after, world.expected(read.expected)]


def _class_attribute_again(world: World, site: Site, number: Data, name: str, after: Data, *_: Data) -> Read:
    owner, beyond = world.at(number), None if after == -1 else world.at(after)
    return reads.ClassAttributeRead(owner, name, type_lookup(owner, name, beyond), site, beyond)


def _item(read: reads.ItemRead, world: World) -> list[Data]:
    key = read.item() if isinstance(read.item, reads.weakref.ref) else read.item
    said = ["plain", plain(key)] if plain_key(key) is not MISSING else ["object", world.known(key)]
    return [_owner(read, world), said, world.expected(read.expected)]


def _item_again(world: World, site: Site, number: Data, key: Data, *_: Data) -> Read:
    owner, found = world.at(number), world.found(key)
    read = reads.ItemRead(owner, found, reads.Item(reads.Held(lambda: owner), found).find(), site)
    known = plain_key(found)
    read.source = ("item", id(owner), id(found) if known is MISSING else known)
    return read


def _length(read: reads.LengthRead, world: World) -> list[Data]:
    return [_owner(read, world), world.expected(read.expected)]


def _contents(read: reads.ContentsRead, world: World) -> list[Data]:
    owner = read.owner()
    container_class(type(owner))
    return [_owner(read, world), *map(world.expected, read.values)]


def _module(read: modules.ModuleRead, world: World) -> list[Data]:
    return [world.known(read.module()), *map(world.expected, read.values)]


def _type(read: reads.TypeRead, world: World) -> list[Data]:
    return [_owner(read, world), world.expected(read.expected)]


def _count(read: stores.CountRead, world: World) -> list[Data]:
    return [_owner(read, world), read.name]


def _count_again(world: World, site: Site, number: Data, name: str, *_: Data) -> Read:
    read = stores.CountRead(world.at(number), name, site)
    if not read.holds():
        raise Unsayable(f"`{name}` is no whole number of its own")
    return read


# Ways of looking that give the same of the same things in each process.
GETTERS = ("stores._has_item", "stores._keys", "world.environment._text", "attributes._member")


def _getter_called(name: str) -> Any:
    module, _, function = name.rpartition(".")
    return vars(sys.modules[f"fusegrad.tracer.observe.{module}"])[function]


def _getter(read: reads.GetterRead, world: World) -> list[Data]:
    asked = read.getter
    whole = asked if isinstance(asked, partial) else partial(asked)
    name = next((name for name in GETTERS if _getter_called(name) is whole.func), None)
    if name is None or whole.keywords:
        raise Unsayable(f"reads {read.subject()}: it looks by a function of its own")
    said = [*map(world.value, whole.args)]
    owner = owners.told(read.owner(), world)
    return [owner, name, said, read.words, world.expected(read.expected)]


def _getter_again(
    world: World, site: Site, said_owner: Data, name: str, said: Sequence[Data], words: str, *_: Data
) -> Read:
    if name not in GETTERS:
        raise Unsayable(f"{words} is asked in a way that is not known")
    owner, getter = owners.again(said_owner, world), partial(_getter_called(name), *map(world.found, said))
    return reads.GetterRead(owner, getter, getter(owner), words, site)


def _abstract(read: abstract.AbstractRead, world: World) -> list[Data]:
    return [world.known(read.owner()), world.known(read.of), world.expected(read.expected)]


def _abstract_again(world: World, site: Site, asked: Data, of: Data, *_: Data) -> Read:
    return abstract.AbstractRead(world.at(of), world.at(asked), site)


def _no_gradient(read: hosts.NoGradient, world: World) -> list[Data]:
    return [world.known(read.tensor()), world.expected(read.expected)]


def _no_gradient_again(world: World, site: Site, number: Data, *_: Data) -> Read:
    tensor = world.at(number)
    if not isinstance(tensor, Tensor) or tensor.gradient is not None:
        raise Unsayable("there is a `.grad`")
    return hosts.NoGradient(tensor)


def _parameters(read: optimizer_steps.ParametersRead, world: World) -> list[Data]:
    rows = [
        [world.number(group()), [world.number(p()) for p in parameters]] for group, parameters in read.rows
    ]
    return [world.known(read.optimizer()), rows]


def _parameters_again(world: World, site: Site, number: Data, *_: Data) -> Read:
    return optimizer_steps.ParametersRead(world.at(number))


def _state(read: optimizer_steps.StateRead, world: World) -> list[Data]:
    kept = [[world.number(p()), name, world.expected(expected)] for p, name, expected in read.kept]
    return [*_parameters(read, world), [*map(plain, read.slots)], kept]


def _state_again(world: World, site: Site, number: Data, *_: Data) -> Read:
    read = optimizer_steps.StateRead(world.at(number))
    if not read.holds():  # hooks are no part of what it tells
        raise Unsayable("an optimizer has hooks")
    return read


def _of_owner(kind: Callable[[Any, Site], Read]) -> Callable[..., Read]:
    return lambda world, site, number, *_: kind(world.at(number), site)


# Each kind of read there is, with how it is told of, or why it is not: what is read then is not kept.
KINDS: dict[type[Read], Kind | str] = {
    reads.GlobalRead: Kind(_global, _global_again),
    reads.CellRead: Kind(_cell, _cell_again),
    reads.FunctionRead: Kind(_function, _of_owner(reads.FunctionRead)),
    reads.AttributeRead: Kind(_attribute, _attribute_again),
    reads.ClassAttributeRead: Kind(_class_attribute, _class_attribute_again),
    reads.TypeRead: Kind(_type, _of_owner(reads.TypeRead)),
    reads.ItemRead: Kind(_item, _item_again),
    reads.LengthRead: Kind(_length, _of_owner(reads.LengthRead)),
    reads.ContentsRead: Kind(_contents, _of_owner(reads.ContentsRead)),
    modules.ModuleRead: Kind(_module, _of_owner(modules.ModuleRead)),
    hosts.NoGradient: Kind(_no_gradient, _no_gradient_again),
    reads.SubclassesRead: "which classes there are depends on what was imported before",
    reads.IdentityRead: "equal texts and numbers are one object or two by what the process did before",
    reads.GetterRead: Kind(_getter, _getter_again),
    optimizer_steps.ParametersRead: Kind(_parameters, _parameters_again),
    optimizer_steps.StateRead: Kind(_state, _state_again),
    stores.CountRead: Kind(_count, _count_again),
    abstract.AbstractRead: Kind(_abstract, _abstract_again),
}
BY_NAME = {kind.__name__: how for kind, how in KINDS.items()}
