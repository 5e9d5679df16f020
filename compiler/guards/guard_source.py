"""The lines that each kind of read becomes in a generated check: see `compiler/guards/guards.py`.

Each function gives the conditions under which its read does not hold, after writing what they need. It
looks at the world as it is now only to find out where to look: whatever the conditions and the notes about
classes leave open must not matter to the read. `TooDifficult` leaves a read to `Read.holds`.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from types import GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import Any

from fusegrad.compiler.guards.check_writer import TooDifficult, Writer
from fusegrad.tracer.observe.lookup import (
    MISSING,
    MODULE_TABLES,
    instance_dict,
    is_data_descriptor,
    nn_module_class,
    type_lookup,
)
from fusegrad.tracer.observe.optimizer_steps import ParametersRead, StateRead
from fusegrad.tracer.observe.purity import is_heap_type
from fusegrad.tracer.observe.reads import (
    AttributeRead,
    CellRead,
    ClassAttributeRead,
    ContentsRead,
    FunctionRead,
    GlobalRead,
    ItemRead,
    LengthRead,
    Read,
    TypeRead,
)
from fusegrad.tracer.observe.values import Expected, Strong, is_plain

_ABSENT = Expected(MISSING)
# Longer containers are compared by a loop, not by a line for each item.
MOST_LINES = 32


def write(writer: Writer, read: Read) -> list[str]:
    """The conditions under which the read does not hold. Raises TooDifficult."""
    kind = _KINDS.get(type(read))
    if kind is None:
        raise TooDifficult
    return kind(writer, read)


# Names and functions.


def _global(writer: Writer, read: GlobalRead) -> list[str]:
    if type(read.globals) is not dict or type(read.builtins) is not dict:
        raise TooDifficult
    held = writer.held(Strong(read.globals), "globals")
    if not read.from_builtins:
        return writer.differs_under(held, read.name, read.expected)
    builtins = writer.held(Strong(read.builtins), "builtins")
    wrong = writer.differs_under(held, read.name, _ABSENT)
    return wrong + writer.differs_under(builtins, read.name, read.expected)


def _cell(writer: Writer, read: CellRead) -> list[str]:
    cells = writer.part(f"{writer.held(read.function)}.__closure__", "closure", "tuple")
    return [writer.differs(f"{cells}[{read.index}].cell_contents", read.expected)]


def _function(writer: Writer, read: FunctionRead) -> list[str]:
    held, function = writer.held(read.function), read.function()
    wrong = [f"{held}.__code__ is not {writer.constant('code', read.code)}"]
    if function.__defaults__ is None and not read.defaults:
        wrong.append(f"{held}.__defaults__ is not None")
    else:
        items = writer.part(f"{held}.__defaults__", "defaults", "tuple")
        wrong.append(f"len({items}) != {len(read.defaults)}")
        wrong += [writer.differs(f"{items}[{i}]", e) for i, e in enumerate(read.defaults)]
    if function.__kwdefaults__ is None and not read.keyword_defaults:
        wrong.append(f"{held}.__kwdefaults__ is not None")
    else:
        items = writer.part(f"{held}.__kwdefaults__", "keywords", "dict")
        wrong.append(f"len({items}) != {len(read.keyword_defaults)}")
        wrong += [writer.differs(f"{items}[{name!r}]", e) for name, e in read.keyword_defaults]
    return wrong


# Attributes.


def _attribute(writer: Writer, read: AttributeRead) -> list[str]:
    owner = read.owner()
    kind = type(owner)
    if owner is None:
        raise TooDifficult
    if issubclass(kind, type):
        return _attribute_of_class(writer, read, owner)
    if issubclass(kind, ModuleType):
        return _attribute_of_module(writer, read)
    base, _ = writer.found_in(kind, "__getattribute__")
    if base is None or is_heap_type(base):
        raise TooDifficult
    held = writer.owner(read.owner)
    if read.where == "slot":
        return _slot(writer, read, kind, held)
    if read.where == "data":
        _class_attribute_of(writer, read, kind, data=True)
        return []
    attributes = _attributes_of(writer, owner, held)
    if read.where == "instance" and attributes is not None:
        base, raw = writer.expect_kind(kind, read.name)
        if base is not None and is_data_descriptor(raw):
            raise TooDifficult
        return writer.differs_under(attributes, read.name, read.expected)
    wrong = [] if attributes is None else writer.differs_under(attributes, read.name, _ABSENT)
    if read.where == "class":
        _class_attribute_of(writer, read, kind, data=False)
        return wrong
    if read.where not in ("absent", "module") or writer.found_in(kind, read.name)[0] is not None:
        raise TooDifficult
    return wrong + _fallback(writer, read, kind, attributes)


def _class_attribute_of(writer: Writer, read: AttributeRead, kind: type, data: bool) -> None:
    """The class defines what was read, of a type that cannot become, or cease to be, a data descriptor's."""
    raw = writer.expect(kind, read.name, read.expected)
    if is_heap_type(type(raw)) or is_data_descriptor(raw) is not data:
        raise TooDifficult


def _attributes_of(writer: Writer, owner: Any, held: str) -> str | None:
    """A name for the instance's dict, or None where instances have none."""
    base, descriptor = writer.expect_kind(type(owner), "__dict__")
    if base is None:
        return None
    if type(descriptor) is not GetSetDescriptorType or type(instance_dict(owner)) is not dict:
        raise TooDifficult
    return writer.part(f"{held}.__dict__", "attributes", "dict")


def _slot(writer: Writer, read: AttributeRead, kind: type, held: str) -> list[str]:
    base, raw = writer.expect_kind(kind, read.name)
    if type(raw) is not MemberDescriptorType or base is None or not is_heap_type(base):
        raise TooDifficult
    if read.expected.reference() is MISSING:
        raise TooDifficult
    # Through the class: a constant descriptor would keep it alive.
    slots = writer.part(f"namespace_of({writer.class_name(base)})", "slots")
    return [writer.differs(f"{slots}[{read.name!r}].__get__({held})", read.expected)]


def _fallback(writer: Writer, read: AttributeRead, kind: type, attributes: str | None) -> list[str]:
    """What no class and no instance dict has: absent, or in the tables of an nn.Module."""
    module = nn_module_class()
    base, raw = writer.found_in(kind, "__getattr__")
    if base is None and read.where == "absent":
        return []
    if module is None or base is not module or attributes is None:
        raise TooDifficult
    writer.expect(kind, "__getattr__", Expected(raw))
    namespace = instance_dict(read.owner()) or {}
    wrong: list[str] = []
    for name in MODULE_TABLES:
        table = writer.part(f"{attributes}[{name!r}]", name.strip("_"), "dict")
        if type(namespace.get(name)) is not dict:
            raise TooDifficult
        if read.where == "module" and read.name in namespace[name]:
            return wrong + writer.differs_under(table, read.name, read.expected)
        wrong += writer.differs_under(table, read.name, _ABSENT)
    if read.where == "module":
        raise TooDifficult
    return wrong


def _attribute_of_module(writer: Writer, read: AttributeRead) -> list[str]:
    if type(read.owner()) is not ModuleType:
        raise TooDifficult
    attributes = writer.part(f"{writer.owner(read.owner)}.__dict__", "attributes", "dict")
    if read.where == "instance":
        return writer.differs_under(attributes, read.name, read.expected)
    if read.where != "absent" or type_lookup(ModuleType, read.name) is not MISSING:
        raise TooDifficult
    return [w for name in (read.name, "__getattr__") for w in writer.differs_under(attributes, name, _ABSENT)]


def _attribute_of_class(writer: Writer, read: AttributeRead, owner: type) -> list[str]:
    if type(owner) is not type or type_lookup(type, read.name) is not MISSING:
        raise TooDifficult
    if read.where not in ("class", "absent"):
        raise TooDifficult
    writer.expect(owner, read.name, read.expected)
    return [f"type({writer.class_name(owner)}) is not type"]


def _class_attribute(writer: Writer, read: ClassAttributeRead) -> list[str]:
    owner, after = read.owner(), None if read.after is None else read.after()
    if owner is None or (read.after is not None and after is None):
        raise TooDifficult
    writer.expect(owner, read.name, read.expected, after)
    return []


def _type(writer: Writer, read: TypeRead) -> list[str]:
    if type(read.owner()) is not read.expected.reference():
        raise TooDifficult
    writer.owner(read.owner)
    return []


# Items.


def _item(writer: Writer, read: ItemRead) -> list[str]:
    kind = type(read.owner())
    by_number = (kind is list or kind is deque) and type(read.item) is int
    by_key = (kind is dict or kind is OrderedDict) and is_plain(read.item)
    if not by_number and not by_key:
        raise TooDifficult
    held = writer.owner(read.owner)
    if kind is dict:
        return writer.differs_under(held, read.item, read.expected)
    key = repr(read.item) if type(read.item) in (int, str) else writer.constant("key", read.item)
    absent = read.expected.reference() is MISSING
    return [f"{key} in {held}" if absent else writer.differs(f"{held}[{key}]", read.expected)]


def _length(writer: Writer, read: LengthRead) -> list[str]:
    kind = type(read.owner())
    if not any(kind is c for c in (list, dict, set, deque, OrderedDict)):
        raise TooDifficult
    held, length = writer.owner(read.owner), read.expected.reference()
    return [f"len({held}) != {length}" if length else held]


def _contents(writer: Writer, read: ContentsRead) -> list[str]:
    kind = type(read.owner())
    if kind is not list and kind is not dict and kind is not deque:
        raise TooDifficult
    held = writer.owner(read.owner)
    wrong = [f"len({held}) != {len(read.values) // (2 if kind is dict else 1)}"]
    items = writer.part(f"[*{held}, *dict.values({held})]", "items") if kind is dict else held
    if len(read.values) <= MOST_LINES:
        return wrong + [writer.differs(f"{items}[{i}]", e) for i, e in enumerate(read.values)]
    others = f"not all(map(matches, {writer.constant('values', read.values)}, {items}))"
    if all(isinstance(e.reference, Strong) for e in read.values):
        same = writer.constant("values", tuple(e.reference() for e in read.values))
        others = f"not all(map(is_, {same}, {items})) and {others}"
    return [*wrong, others]


# Optimizers.


def _parameters(writer: Writer, read: ParametersRead) -> list[str]:
    _groups(writer, read)
    return []


def _groups(writer: Writer, read: ParametersRead) -> list[str]:
    """The names of an optimizer's groups, after lines that ask whether all is as it was."""
    groups = _own(writer, read.optimizer, "param_groups", list)
    names = [writer.held(known) for known, _ in read.rows]
    rows = (
        groups,
        *((name, *(id(p()) for p in row)) for name, (_, row) in zip(names, read.rows, strict=True)),
    )
    if rows not in writer.known:
        writer.known[rows] = groups
        writer.check(f"len({groups}) != {len(names)}")
        for number, (name, (_, parameters)) in enumerate(zip(names, read.rows, strict=True)):
            writer.check(f"{groups}[{number}] is not {name}")
            now = writer.part(f"{name}['params']", "parameters", writer.constant("builtin", list))
            writer.check(f"len({now}) != {len(parameters)}")
            for place, parameter in enumerate(parameters):
                writer.check(f"{now}[{place}] is not {writer.held(parameter)}")
    return names


def _state(writer: Writer, read: StateRead) -> list[str]:
    names = _groups(writer, read)
    for hooks in ("_step_pre_hooks", "_step_post_hooks"):
        writer.check(_own(writer, read.optimizer, hooks, dict))
    held, state = writer.owner(read.optimizer), _own(writer, read.optimizer, "state", defaultdict)
    for name, slots in zip(names, read.slots, strict=True):
        writer.check(f"(*{held}.slots({name}), 'step') != {writer.constant('slots', slots)}")
    wrong = []
    for parameter, name, tensor in read.kept:
        kept = writer.part(f"dict.get({state}, {writer.held(parameter)})", "kept", "dict")
        wrong += writer.differs_under(kept, name, Expected(tensor()))
    return wrong


def _own(writer: Writer, reference: Callable[[], Any], name: str, kind: type) -> str:
    """A name for what an object has under `name`, in its dict alone, of exactly the builtin type `kind`."""
    owner = reference()
    base, _ = writer.found_in(type(owner), "__getattribute__")
    if base is None or is_heap_type(base) or writer.found_in(type(owner), name)[0] is not None:
        raise TooDifficult
    attributes = _attributes_of(writer, owner, writer.owner(reference))
    if attributes is None:
        raise TooDifficult
    return writer.part(f"{attributes}[{name!r}]", name.strip("_"), writer.constant("builtin", kind))


_KINDS: dict[type, Callable[[Writer, Any], list[str]]] = {
    GlobalRead: _global,
    CellRead: _cell,
    FunctionRead: _function,
    AttributeRead: _attribute,
    ClassAttributeRead: _class_attribute,
    TypeRead: _type,
    ItemRead: _item,
    LengthRead: _length,
    ContentsRead: _contents,
    ParametersRead: _parameters,
    StateRead: _state,
}
