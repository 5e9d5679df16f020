"""The lines that each condition of a read becomes in a generated check: see `compiler/guards/guards.py`.

What must be true is said by the reads, in records that can be asked as they stand
(`tracer/observe/conditions.py`); here they are spelled out:

    Matches(Item(Held(settings), "scale"), expected)     (value := settings_1['scale']) is not value_2 and ...
    Are(Exact(Item(Held(group), "params"), list), (w,))  type(params_3) is not list   len(params_3) != 1   ...

Each function gives the expressions that are true where its condition is not, after writing what they need. It
looks at the world as it is now only to find out where to look: whatever the lines and the notes about
classes leave open must not matter to the condition. `TooDifficult` leaves a read to `Read.holds`.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from types import GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import Any

from fusegrad.compiler.guards.check_writer import TooDifficult, Writer
from fusegrad.tracer.observe.conditions import (
    Are,
    Attribute,
    Called,
    ClassAttribute,
    Condition,
    Contents,
    Counts,
    Each,
    Equals,
    Exact,
    Held,
    Is,
    Item,
    Kind,
    Matches,
    Once,
    Part,
    Place,
)
from fusegrad.tracer.observe.lookup import (
    MISSING,
    MODULE_TABLES,
    instance_dict,
    is_data_descriptor,
    nn_module_class,
    type_lookup,
)
from fusegrad.tracer.observe.optimizer_steps import Slots
from fusegrad.tracer.observe.purity import container_of, is_group_class, is_heap_type
from fusegrad.tracer.observe.values import Expected, Strong, is_plain, name_of

_ABSENT = Expected(MISSING)
# Longer containers are compared by a loop, not by a line for each item.
MOST_LINES = 32


def write(writer: Writer, condition: Condition) -> list[str]:
    """Expressions of which one is true where the condition is not. Raises TooDifficult."""
    return CONDITIONS[type(condition)](writer, condition)


# Conditions.


def _matches(writer: Writer, condition: Matches) -> list[str]:
    place, expected = condition.place, condition.expected
    compared = COMPARED.get(type(place))
    return compared(writer, place, expected) if compared else [writer.differs(text(writer, place), expected)]


def _is(writer: Writer, condition: Is) -> list[str]:
    value = condition.value
    known = repr(None) if value is None else writer.constant(name_of(type(value)), value)
    return [f"{text(writer, condition.place)} is not {known}"]


def _equals(writer: Writer, condition: Equals) -> list[str]:
    return [f"{text(writer, condition.place)} != {writer.constant('value', condition.value)}"]


def _counts(writer: Writer, condition: Counts) -> list[str]:
    held, kind = _container(writer, condition.place)
    if not any(kind is c for c in (list, dict, set, deque, OrderedDict)):
        raise TooDifficult
    return [f"len({held}) != {condition.number}" if condition.number else held]


def _each(writer: Writer, condition: Each) -> list[str]:
    place, expected = condition.place, condition.expected
    if isinstance(place, Contents):
        wrong, items = _contents(writer, place, len(expected))
    else:
        items = text(writer, place)
        wrong = f"len({items}) != {len(expected)}"
    if len(expected) <= MOST_LINES:
        return [wrong, *(writer.differs(f"{items}[{i}]", e) for i, e in enumerate(expected))]
    others = f"not all(map(matches, {writer.constant('values', expected)}, {items}))"
    if all(isinstance(e.reference, Strong) for e in expected):
        same = writer.constant("values", tuple(e.reference() for e in expected))
        others = f"not all(map(is_, {same}, {items})) and {others}"
    return [wrong, others]


def _contents(writer: Writer, place: Contents, number: int) -> tuple[str, str]:
    """What is true where a container has another number of items, and a name for the row of them."""
    held, kind = _container(writer, place.owner)
    if kind is list or kind is deque:
        return f"len({held}) != {number}", held
    if kind is not dict:
        raise TooDifficult
    return f"len({held}) != {number // 2}", writer.part(f"[*{held}, *dict.values({held})]", "items")


def _are(writer: Writer, condition: Are) -> list[str]:
    items, names = text(writer, condition.place), [writer.held(r) for r in condition.references]
    others = [f"{items}[{i}] is not {name} or {name} is None" for i, name in enumerate(names)]
    return [f"len({items}) != {len(names)}", *others]


# Places, as expressions.


def text(writer: Writer, place: Place) -> str:
    """A place in the source. Raises TooDifficult."""
    write = PLACES.get(type(place))
    if write is None:
        raise TooDifficult
    return write(writer, place)


def _held(writer: Writer, place: Held) -> str:
    return writer.held(place.reference, place.word)


def _exact(writer: Writer, place: Exact) -> str:
    if isinstance(place.place, Held):
        return _container(writer, place)[0]
    return writer.part(text(writer, place.place), _stem(place.place), place.kind)


def _once(writer: Writer, place: Once) -> str:
    return text(writer, place.place)


def _stem(place: Place) -> str:
    """What the variable for a place is called."""
    if isinstance(place, (Part, Attribute)):
        return place.name.strip("_")
    return place.key if isinstance(place, Item) and type(place.key) is str else "item"


def _part(writer: Writer, place: Part) -> str:
    return f"{text(writer, place.owner)}.{place.name}"


def _item_text(writer: Writer, place: Item) -> str:
    kind = type(place.owner.reference()) if isinstance(place.owner, Held) else None
    if kind is not None and container_of(kind) is not None and not is_group_class(kind):
        raise TooDifficult  # its class may look up items in a way of its own
    owner = text(writer, place.owner)
    if isinstance(place.key, Place):
        # Of a defaultdict: looking must not put anything there.
        return f"dict.get({owner}, {text(writer, place.key)})"
    if type(place.key) not in (int, str):
        raise TooDifficult
    return f"{owner}[{place.key!r}]"


def _slots(writer: Writer, place: Slots) -> str:
    optimizer = writer.owner(place.optimizer.reference)
    return f"(*{optimizer}.slots({text(writer, place.group)}), 'step')"


def _called(writer: Writer, place: Called) -> str:
    owner = writer.owner(place.owner.reference)
    return writer.part(f"{writer.constant('getter', place.function)}({owner})", "found")


# Attributes.


def _attribute(writer: Writer, place: Attribute, expected: Expected) -> list[str]:
    owner, name, where = place.owner.reference(), place.name, place.where
    kind = type(owner)
    if owner is None:
        raise TooDifficult
    if issubclass(kind, type):
        return _attribute_of_class(writer, place, expected, owner)
    if issubclass(kind, ModuleType):
        return _attribute_of_module(writer, place, expected)
    held = _ordinary(writer, place.owner)
    if where == "slot":
        return _slot(writer, place, expected, held)
    if where == "data":
        _class_attribute_of(writer, kind, name, expected, data=True)
        return []
    attributes = _attributes_of(writer, owner, held)
    if where == "instance" and attributes is not None:
        _not_overruled(writer, kind, name)
        return writer.differs_under(attributes, name, expected)
    wrong = [] if attributes is None else writer.differs_under(attributes, name, _ABSENT)
    if where == "class":
        _class_attribute_of(writer, kind, name, expected, data=False)
        return wrong
    if where not in ("absent", "module") or writer.found_in(kind, name)[0] is not None:
        raise TooDifficult
    return wrong + _fallback(writer, place, expected, attributes)


def _own_attribute(writer: Writer, place: Attribute) -> str:
    """What an object has itself, as an expression."""
    owner = place.owner.reference()
    if place.where != "instance" or issubclass(type(owner), (type, ModuleType)):
        raise TooDifficult
    attributes = _attributes_of(writer, owner, _ordinary(writer, place.owner))
    if attributes is None:
        raise TooDifficult
    _not_overruled(writer, type(owner), place.name)
    return f"{attributes}[{place.name!r}]"


def _ordinary(writer: Writer, owner: Held) -> str:
    """A name for an object whose attributes are looked up the interpreter's way."""
    base, _ = writer.found_in(type(owner.reference()), "__getattribute__")
    if base is None or is_heap_type(base):
        raise TooDifficult
    return writer.owner(owner.reference)


def _not_overruled(writer: Writer, kind: type, name: str) -> None:
    """What instances have under a name comes before what their class has."""
    base, raw = writer.expect_kind(kind, name)
    if base is not None and is_data_descriptor(raw):
        raise TooDifficult


def _class_attribute_of(writer: Writer, kind: type, name: str, expected: Expected, data: bool) -> None:
    """The class defines what was read, of a type that cannot become, or cease to be, a data descriptor's."""
    raw = writer.expect(kind, name, expected)
    if is_heap_type(type(raw)) or is_data_descriptor(raw) is not data:
        raise TooDifficult


def _attributes_of(writer: Writer, owner: Any, held: str) -> str | None:
    """A name for the instance's dict, or None where instances have none."""
    base, descriptor = writer.expect_kind(type(owner), "__dict__")
    if base is None:
        return None
    # Of builtin classes such as SimpleNamespace it may be a member, which nobody can change.
    builtin = type(descriptor) is MemberDescriptorType and not is_heap_type(base)
    if not (builtin or type(descriptor) is GetSetDescriptorType) or type(instance_dict(owner)) is not dict:
        raise TooDifficult
    return writer.part(f"{held}.__dict__", "attributes", dict)


def _slot(writer: Writer, place: Attribute, expected: Expected, held: str) -> list[str]:
    base, raw = writer.expect_kind(type(place.owner.reference()), place.name)
    if type(raw) is not MemberDescriptorType or base is None or not is_heap_type(base):
        raise TooDifficult
    if expected.reference() is MISSING:
        raise TooDifficult
    # Through the class: a constant descriptor would keep it alive.
    slots = writer.part(f"namespace_of({writer.class_name(base)})", "slots")
    return [writer.differs(f"{slots}[{place.name!r}].__get__({held})", expected)]


def _fallback(writer: Writer, place: Attribute, expected: Expected, attributes: str | None) -> list[str]:
    """What no class and no instance dict has: absent, or in the tables of an nn.Module."""
    owner, module = place.owner.reference(), nn_module_class()
    base, raw = writer.found_in(type(owner), "__getattr__")
    if base is None and place.where == "absent":
        return []
    if module is None or base is not module or attributes is None:
        raise TooDifficult
    writer.expect(type(owner), "__getattr__", Expected(raw))
    namespace = instance_dict(owner) or {}
    wrong: list[str] = []
    for name in MODULE_TABLES:
        table = writer.part(f"{attributes}[{name!r}]", name.strip("_"), dict)
        if type(namespace.get(name)) is not dict:
            raise TooDifficult
        if place.where == "module" and place.name in namespace[name]:
            return wrong + writer.differs_under(table, place.name, expected)
        wrong += writer.differs_under(table, place.name, _ABSENT)
    if place.where == "module":
        raise TooDifficult
    return wrong


def _attribute_of_module(writer: Writer, place: Attribute, expected: Expected) -> list[str]:
    if type(place.owner.reference()) is not ModuleType:
        return _attribute_of_other_module(writer, place, expected)
    attributes = writer.part(f"{writer.owner(place.owner.reference)}.__dict__", "attributes", dict)
    if place.where == "instance":
        return writer.differs_under(attributes, place.name, expected)
    if place.where != "absent" or type_lookup(ModuleType, place.name) is not MISSING:
        raise TooDifficult
    names = (place.name, "__getattr__")
    return [w for name in names for w in writer.differs_under(attributes, name, _ABSENT)]


def _attribute_of_other_module(writer: Writer, place: Attribute, expected: Expected) -> list[str]:
    """What a module of a class of its own has itself, as those have that stand in torch's place."""
    owner = place.owner.reference()
    if place.where != "instance" or writer.found_in(type(owner), "__getattribute__")[0] is not ModuleType:
        raise TooDifficult
    attributes = _attributes_of(writer, owner, writer.owner(place.owner.reference))
    if attributes is None:
        raise TooDifficult
    _not_overruled(writer, type(owner), place.name)
    return writer.differs_under(attributes, place.name, expected)


def _attribute_of_class(writer: Writer, place: Attribute, expected: Expected, owner: type) -> list[str]:
    if type(owner) is not type or type_lookup(type, place.name) is not MISSING:
        raise TooDifficult
    if place.where not in ("class", "absent"):
        raise TooDifficult
    writer.expect(owner, place.name, expected)
    return [f"type({writer.class_name(owner)}) is not type"]


def _class_attribute(writer: Writer, place: ClassAttribute, expected: Expected) -> list[str]:
    owner, after = place.owner.reference(), None if place.after is None else place.after.reference()
    if owner is None or (place.after is not None and after is None):
        raise TooDifficult
    writer.expect(owner, place.name, expected, after)
    return []


def _kind(writer: Writer, place: Kind, expected: Expected) -> list[str]:
    reference = place.owner.reference
    if type(reference()) is not expected.reference():
        raise TooDifficult
    writer.owner(reference)
    return []


# Items.


def _item(writer: Writer, place: Item, expected: Expected) -> list[str]:
    key = place.key
    held, kind = _container(writer, place.owner)
    by_number = (kind is list or kind is deque) and type(key) is int
    by_key = (kind is dict or kind is OrderedDict) and is_plain(key)
    if not by_number and not by_key:
        raise TooDifficult
    if kind is dict:
        return writer.differs_under(held, key, expected)
    name = repr(key) if type(key) in (int, str) else writer.constant("key", key)
    absent = expected.reference() is MISSING
    return [f"{name} in {held}" if absent else writer.differs(f"{held}[{name}]", expected)]


def _container(writer: Writer, place: Place) -> tuple[str, type]:
    """A name for a container, and the class that it is made sure to be of."""
    if isinstance(place, Exact) and not isinstance(place.place, Held):
        return text(writer, place), place.kind
    held = place.place if isinstance(place, Exact) else place
    if not isinstance(held, Held):
        raise TooDifficult
    kind = type(held.reference())
    if isinstance(place, Exact) and kind is not place.kind:
        raise TooDifficult
    return writer.owner(held.reference, held.word), kind


# What is written for each kind of condition; for places that are compared in a way of their own; and for
# places as expressions.
CONDITIONS: dict[type[Condition], Callable[[Writer, Any], list[str]]] = {
    Matches: _matches,
    Is: _is,
    Equals: _equals,
    Counts: _counts,
    Each: _each,
    Are: _are,
}
COMPARED: dict[type[Place], Callable[[Writer, Any, Expected], list[str]]] = {
    Item: _item,
    Attribute: _attribute,
    ClassAttribute: _class_attribute,
    Kind: _kind,
}
PLACES: dict[type[Place], Callable[[Writer, Any], str]] = {
    Held: _held,
    Exact: _exact,
    Once: _once,
    Part: _part,
    Item: _item_text,
    Attribute: _own_attribute,
    Slots: _slots,
    Called: _called,
}
