"""Numbers that a run followed, as data: where a replay finds them, and what it computes of them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from fusegrad.compiler.artefacts.world import Data, Unsayable, World, from_plain, plain
from fusegrad.tracer.ir.graph import Value
from fusegrad.tracer.observe import symbols
from fusegrad.tracer.observe.conditions import Attribute, Held, Item
from fusegrad.tracer.observe.symbols import Computed, Given, Holding, Symbol
from fusegrad.tracer.observe.values import hold, plain_key
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
    if type(place) is int:
        return ["leaf", place]
    if type(place) is Attribute and type(place.owner) is Held:
        return ["attribute", world.known(place.owner.find()), place.name, place.where]
    if type(place) is Item and type(place.owner) is Held:
        return ["item", world.known(place.owner.find()), plain(place.key)]
    raise Unsayable("follows numbers of a place that has no words for other processes")


def _place_again(said: Data, world: World) -> tuple[Any, Any]:
    """What an observer calls the place, and the place."""
    kind, where, *rest = said
    if kind == "leaf":
        return (kind, where), where
    owner = world.at(where)
    held = Held(hold(owner))
    if kind == "attribute":
        return (kind, id(owner), rest[0]), Attribute(held, *rest)
    key = from_plain(rest[0])
    return (kind, id(owner), plain_key(key)), Item(held, key)
