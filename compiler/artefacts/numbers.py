"""Numbers that a run followed, as data: where a replay finds them, and what it computes of them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from fusegrad.compiler.artefacts.world import Data, Unsayable, World, from_plain, plain
from fusegrad.tracer.ir.graph import Value
from fusegrad.tracer.observe import symbols
from fusegrad.tracer.observe.conditions import Attribute, Exact, Held, Item, Part
from fusegrad.tracer.observe.symbols import Computed, Given, Holding, Symbol
from fusegrad.tracer.observe.values import Strong, hold, plain_key
from fusegrad.tracer.twin import unfailing

_KINDS = {kind.__name__: kind for kind in (bool, int, float, str)}
# Functions of numbers and texts, by names.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "str.format": str.format,
    **{f"operator.{name}": getattr(operator, name) for name in operator.__all__},
    **{f"{function.__module__}.{function.__name__}": function for function in symbols.ON_NUMBERS},
    **{f"texts.{name}": found for name, found in vars(unfailing).items() if type(found) is FunctionType},
}
_NAMES = {id(function): name for name, function in _FUNCTIONS.items()}


def told(symbol: Any, world: World) -> Data:
    """How a replay comes by a number. Raises Unsayable."""
    kind = symbol.kind.__name__
    if kind not in _KINDS:
        raise Unsayable("follows what is no number")
    if type(symbol) is Given:
        return ["given", kind, *_place(symbol.place, world), symbol.words]
    if type(symbol) is Holding:
        return ["holding", kind, symbol.value.name]
    if type(symbol) is Computed and id(symbol.function) in _NAMES:
        operands = [
            told(x, world) if isinstance(x, Symbol) else ["plain", "", plain(x)] for x in symbol.operands
        ]
        return ["computed", kind, _NAMES[id(symbol.function)], operands]
    raise Unsayable(f"follows {symbol}, which has no words for other processes")


def again(said: Data, values: Mapping[str, Value], world: World) -> Any:
    """What was told of."""
    how, kind, *rest = said
    if how == "plain":
        return from_plain(*rest)
    if how == "holding":
        return symbols.holding(values[rest[0]], _KINDS[kind])
    if how == "computed":
        function, operands = rest
        return symbols.computed(
            _FUNCTIONS[function], [again(x, values, world) for x in operands], _KINDS[kind]
        )
    *place, words = rest
    return symbols.given(*_place_again(place, world), _KINDS[kind], words)


def _place(place: Any, world: World) -> Data:
    match place:
        case int():
            return ["leaf", place]
        case Attribute(owner=Held() as owner, name=name, where=where):
            return ["attribute", world.known(owner.find()), name, where]
        case Item(owner=Held() as owner, key=key):
            return ["item", world.known(owner.find()), plain(key)]
        case Item(owner=Exact(place=Held() as namespace), key=name):
            return ["global", world.namespace(namespace.find()), name]
        case Part(owner=Item(owner=Exact(place=Part(owner=Held() as function)), key=index)):
            closure = function.find().__code__.co_freevars
            return ["cell", world.known(function.find()), closure[index]]
    raise Unsayable("follows numbers of a place that has no words for other processes")


def _place_again(said: Data, world: World) -> tuple[Any, Any]:
    """What an observer calls the place, and the place."""
    kind, where, *rest = said
    if kind == "leaf":
        return (kind, where), where
    owner, name = world.at(where), rest[0]
    if kind == "attribute":
        return (kind, id(owner), name), Attribute(Held(hold(owner)), *rest)
    if kind == "item":
        key = from_plain(name)
        return (kind, id(owner), plain_key(key)), Item(Held(hold(owner)), key)
    if kind == "global":
        namespace = owner.__globals__
        return (kind, id(namespace), name), Item(Exact(Held(Strong(namespace), "globals"), dict), name)
    cells = Exact(Part(Held(hold(owner)), "__closure__"), tuple)
    cell = Item(cells, owner.__code__.co_freevars.index(name))
    return (kind, id(owner), name), Part(cell, "cell_contents")
