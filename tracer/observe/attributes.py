"""Attributes of an observed run: an object and a name go in, the attribute comes out; its read is noted."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np

from fusegrad.eager.autograd.accumulation import check_gradient, gradient_of, set_gradient, warns_of_gradient
from fusegrad.eager.autograd.function import FunctionNode
from fusegrad.eager.core.pytree import field_names
from fusegrad.tracer.observe import purity, stores
from fusegrad.tracer.observe.arrays import calls as arrays
from fusegrad.tracer.observe.arrays.untold import note_absent, note_leaf
from fusegrad.tracer.observe.conditions import Attribute
from fusegrad.tracer.observe.lookup import (
    DRAWS,
    HANDED_ON,
    MISSING,
    NUMPY_GENERATORS,
    Found,
    instance_dict,
    kind_of_attribute,
    lookup,
    own_of,
    type_lookup,
)
from fusegrad.tracer.observe.observer import LOCAL, OUTER, STRUCTURE, UNKNOWN, Observer
from fusegrad.tracer.observe.python import faces, metaclasses, own_lookups
from fusegrad.tracer.observe.reads import GetterRead, SubclassesRead
from fusegrad.tracer.observe.values import ends_late, is_plain
from fusegrad.tracer.twin.sites import Site
from fusegrad.tracer.twin.source import Unsupported

_NATIVE_DESCRIPTORS = (
    MethodDescriptorType, WrapperDescriptorType, ClassMethodDescriptorType, BuiltinFunctionType,
)  # fmt: skip
_ENUM_TABLES = frozenset({"_member_map_", "_member_names_"})
_CACHED = type(functools.cache(lambda: None))
# What an object of a class written in C has from whoever made it, and nobody else. The frames that tracebacks
# and generators lead to, and the exception that was handled when another was raised, may be the caller's.
_OF_ITS_OWN = frozenset(
    "__dict__ __name__ __qualname__ __doc__ __defaults__ __kwdefaults__ __cause__ args maxlen".split()
)
# What is written on classes and functions, besides what they do.
_OF_CLASSES = {
    name: vars(type)[name].__get__ for name in "__name__ __qualname__ __module__ __mro__ __bases__".split()
}
_OF_FUNCTIONS = {name: vars(FunctionType)[name].__get__ for name in ("__name__", "__qualname__", "__code__")}


def is_jitted(value: Any) -> bool:
    """Whether the value is a function that ``jit`` has wrapped."""
    if isinstance(value, type):
        return False
    if type_lookup(type(value), "__fusegrad_jit__") is True:
        return True
    return (instance_dict(value) or {}).get("__fusegrad_jit__") is True


def load(observer: Observer, owner: Any, name: str, site: Site) -> Any:
    """``owner.name``, guarded. Raises what the native access raises."""
    if observer.is_tensor(owner):
        return _load_from_tensor(observer, owner, name, site)
    is_number = isinstance(owner, np.generic) and arrays.any_of_tensors(observer, (owner,))
    if is_number or isinstance(owner, np.ndarray):
        return arrays.load(observer, owner, name, site)
    if is_plain(owner):
        observer.numbers.look(owner)
        return _native(observer, owner, name)
    if type(owner) is super:
        return _load_from_super(observer, owner, name, site)
    if not observer.is_known(owner):
        observer.open(f"looks up `{name}` of a {type(owner).__name__} of unknown origin", site)
        return getattr(owner, name)
    if type(owner) is MethodType and (name == "__doc__" or type_lookup(MethodType, name) is MISSING):
        return load(
            observer, observer.reached(owner.__func__), name, site
        )  # a method answers by its function
    if purity.is_enum_class(owner):
        return _load_from_enum(observer, owner, name, site)
    purity.load_public(owner, name)
    found = lookup(owner, name)
    if found.where == "dynamic" and purity.python_method(type(owner), "__getattribute__") is not MISSING:
        return own_lookups.load(observer, owner, name, site)
    if found.where == "dynamic" and purity.is_face(owner):
        return faces.load(observer, owner, name, site)
    if found.where == "dynamic":
        observer.open(f"`{name}` of a {type(owner).__name__} is computed by code of its own", site)
        return getattr(owner, name)
    if found.where == "fallback":
        return _load_by_fallback(observer, owner, name, found, site)
    if _may_hide_state(observer, owner, name, found):
        observer.open(f"attribute `{name}` is not a field of the argument's dataclass", site)
        return getattr(owner, name)
    if found.where == "instance":
        late = stores.late(observer, owner, lambda place: Attribute(place, name, "instance"), found.raw, site)
        if late is not MISSING:
            return late
    value = observer.read_attribute(owner, name, found, site)
    if value is not found.raw:
        return value
    return _resolve(observer, owner, name, found, site)


def _load_by_fallback(observer: Observer, owner: Any, name: str, found: Found, site: Site) -> Any:
    """What `__getattr__` gives, which is asked where there is no such attribute."""
    if observer.status(owner) == STRUCTURE:
        observer.open(f"`{name}` of a {type(owner).__name__} is computed by code of its own", site)
        return getattr(owner, name)
    if observer.status(owner) == OUTER:
        observer.read_attribute(owner, name, found, site)
    else:
        observer.read_class(type(owner), name, MISSING, site)
    fallback = observer.special_method(owner, "__getattr__", site)
    return getattr(owner, name) if fallback is None else fallback(name)


def load_counted(observer: Observer, owner: Any, name: str, site: Site) -> Any:
    """``owner.name`` of ``owner.name += ...``: a count need not be what it is."""
    followed = ("attribute", id(owner), name) in observer.numbers.sources
    if observer.is_outer(owner) and not followed and observer.stores.begins_count(owner, name):
        return stores.own(owner, name)[name]
    return load(observer, owner, name, site)


def store_counted(observer: Observer, value: Any, owner: Any, name: str, site: Site) -> None:
    """``owner.name = value``, the end of ``owner.name += ...``."""
    if not stores.count(observer, value, owner, name, site):
        store(observer, value, owner, name, site)


def _may_hide_state(observer: Observer, owner: Any, name: str, found: Found) -> bool:
    """A structural argument is guarded by its fields alone: extra instance attributes are not."""
    if observer.status(owner) != STRUCTURE or found.where not in ("instance", "slot"):
        return False
    return name not in (field_names(owner) or ())


def _native(observer: Observer, owner: Any, name: str) -> Any:
    """The native access; an AttributeError follows from what is guarded."""
    try:
        return getattr(owner, name)
    except AttributeError as error:
        observer.explain(error)
        raise


def _resolve(observer: Observer, owner: Any, name: str, found: Found, site: Site) -> Any:
    """From what lies there to what the access gives."""
    raw = found.raw
    if raw is MISSING:
        return _native(observer, owner, name)
    if found.where in ("instance", "slot", "module"):
        if observer.status(owner) == LOCAL or (owner, name) in observer.stores:
            return raw
        return raw if observer.status(owner) == STRUCTURE else observer.reached(raw)
    if found.where == "data":
        return _resolve_data(observer, owner, name, raw, site)
    if found.where == "meta":
        return _resolve_meta(observer, owner, name, raw, site)
    return _bind(observer, owner, name, raw, site)


def _bind(observer: Observer, owner: Any, name: str, raw: Any, site: Site) -> Any:
    """Apply the descriptor protocol to a class attribute that is no data descriptor."""
    kind = type(raw)
    if kind is FunctionType or is_jitted(raw):
        observer.reached(raw)
        value = getattr(owner, name)
        return value if value is raw else observer.local(value)
    if kind is staticmethod:
        return observer.reached(raw.__func__)
    if kind is classmethod:
        observer.reached(raw.__func__)
        return observer.local(getattr(owner, name))
    if kind in _NATIVE_DESCRIPTORS or (kind is DRAWS and type(owner) in NUMPY_GENERATORS):
        return getattr(owner, name)
    if kind is property or kind is MemberDescriptorType or kind is GetSetDescriptorType:  # on a class
        return observer.reached(raw)
    if kind is functools.cached_property:
        observer.open(f"`{name}` is computed once and kept", site, "once")
        return observer.reached(getattr(owner, name))
    if kind is _CACHED:
        observer.reached(raw)
        return observer.local(getattr(owner, name))
    if type_lookup(kind, "__get__") is MISSING:
        return observer.reached(raw)
    observer.reached(raw)
    if purity.python_method(kind, "__get__") is MISSING:
        observer.open(f"`{name}` is computed by a descriptor", site)
        return getattr(owner, name)
    get = observer.special_method(raw, "__get__", site)
    if get is None:
        return getattr(owner, name)
    return get(None, owner) if isinstance(owner, type) else get(owner, type(owner))


def _gets_as_property(kind: type) -> bool:
    """Whether descriptors of this class are properties, or of a subclass that gets as they do."""
    if kind is property:
        return True
    own = ("__get__", "__getattribute__", "fget")
    return issubclass(kind, property) and all(type_lookup(kind, n) is vars(property)[n] for n in own)


def _resolve_data(observer: Observer, owner: Any, name: str, raw: Any, site: Site) -> Any:
    """A data descriptor of the class: properties are followed, the rest must be known."""
    kind = type(raw)
    if _gets_as_property(kind) and type(raw.fget) is FunctionType:
        if isinstance(owner, FunctionNode) and purity.is_trusted(raw.fget):
            return observer.adopt(getattr(owner, name))  # `ctx.saved_tensors`
        return own_lookups.by_property(observer, owner, name, raw.fget, site)
    if kind is purity.TUPLE_FIELD:
        value = getattr(owner, name)
        return observer.reached(value) if observer.status(owner) == OUTER else value
    if isinstance(owner, enum.Enum) and name in ("value", "name"):
        observer.reached(owner)
        observer.read_attribute(owner, f"_{name}_", lookup(owner, f"_{name}_"), site)
        return observer.reached(getattr(owner, name))
    if name == "__class__" and type(raw) is GetSetDescriptorType:
        observer.read_type(owner, site)
        return observer.reached(getattr(owner, name))
    if isinstance(owner, MethodType) and name in ("__self__", "__func__"):
        return (
            observer.reached(getattr(owner, name))
            if observer.status(owner) == OUTER
            else getattr(owner, name)
        )
    if kind is GetSetDescriptorType and observer.status(owner) == LOCAL and name in _OF_ITS_OWN:
        # What the object has may be from outside, and is judged item by item.
        made = observer.local if name == "__dict__" else observer.adopt
        return made(getattr(owner, name))
    if type(owner) is CodeType:
        return getattr(owner, name)  # which nobody can change
    if type(owner) is FunctionType and name in _OF_FUNCTIONS:
        return _read_by(observer, owner, name, _OF_FUNCTIONS[name], f"`{name}` of a function", site)
    observer.open(f"`{name}` of a {type(owner).__name__} cannot be guarded", site, "read")
    return getattr(owner, name)


def _read_by(
    observer: Observer, owner: Any, name: str, getter: Callable[[Any], Any], words: str, site: Site
) -> Any:
    """What a getter of the interpreter's own gives, guarded by asking it again."""
    value = getter(owner)
    observer.read(("meta", id(owner), name), lambda: GetterRead(owner, getter, value, words, site))
    return observer.reached(value)


def _resolve_meta(observer: Observer, owner: type, name: str, raw: Any, site: Site) -> Any:
    """An attribute of classes in general: their names and bases can be guarded."""
    getter = _OF_CLASSES.get(name)
    if name == "__subclasses__" and raw is vars(type)[name] and metaclasses.is_plain(observer, owner, site):
        return getattr(owner, name)
    if getter is None or not metaclasses.is_plain(observer, owner, site):
        observer.open(f"`{name}` of a class cannot be guarded", site, "read")
        return getattr(owner, name)
    if not purity.is_heap_type(owner):
        return getter(owner)
    return _read_by(observer, owner, name, getter, f"`{name}` of a class", site)


def text_of(
    observer: Observer, function: type[str] | Callable[[Any], str], value: Any, site: Site
) -> str | None:
    """What `str` or `repr` gives for a class, or an object whose class says so in Python; else None."""
    if isinstance(value, type):
        return _text_of_class(observer, value, site)
    for name in ("__str__", "__repr__") if function is str else ("__repr__",):
        method = purity.python_method(type(value), name)
        if method is not MISSING and not purity.is_trusted_object(value):
            twin = observer.special_method(value, name, site, asked=True)
            text: Any = function(value) if twin is None else twin()
            return text if type(text) is str else function(value)  # which raises an error that says so
        if type_lookup(type(value), name) is not type_lookup(object, name):
            return None
        observer.read_class(type(value), name, type_lookup(object, name), site)
    return None


def _text_of_class(observer: Observer, kind: type, site: Site) -> str | None:
    """`str(kind)`, guarded; None where a metaclass says it in a way of its own."""
    written = all(type_lookup(type(kind), n) is type_lookup(type, n) for n in ("__repr__", "__str__"))
    if not written or not observer.is_known(kind) or not metaclasses.is_plain(observer, kind, site):
        return None
    for name in ("__module__", "__qualname__") if purity.is_heap_type(kind) else ():
        _resolve_meta(observer, kind, name, None, site)
    return str(kind)


def subclasses(observer: Observer, owner: type, site: Site, /) -> list[type]:
    """`owner.__subclasses__()`, guarded."""
    found: list[type] = type.__subclasses__(owner)
    observer.read(("subclasses", id(owner)), lambda: SubclassesRead(owner, site))
    for kind in found:
        observer.reached(kind)
    return observer.local(found)


def _load_from_enum(observer: Observer, owner: type, name: str, site: Site) -> Any:
    """A member of an enumeration; whatever else its metaclass computes is not followed."""
    members = type_lookup(owner, "_member_map_")
    if name in _ENUM_TABLES:
        observer.read_class(owner, name, type_lookup(owner, name), site)
        return observer.reached(type_lookup(owner, name))
    if not isinstance(members, dict) or name not in members:
        observer.open(f"`{name}` of an enumeration cannot be guarded", site, "read")
        return getattr(owner, name)
    value = members[name]
    words, again = f"`{name}` of an enumeration", functools.partial(_member, name)
    observer.read(("enum", id(owner), name), lambda: GetterRead(owner, again, value, words, site))
    return observer.reached(value)


def _member(name: str, kind: Any) -> Any:
    return type_lookup(kind, "_member_map_").get(name, MISSING)


def _load_from_tensor(observer: Observer, owner: Any, name: str, site: Site) -> Any:
    """A tensor's methods and static attributes are trusted; its gradient and the like are not guarded."""
    raw = type_lookup(type(owner), name)
    if name == "shape" and type(owner) is purity.tensor_class() and observer.numbers.follows_sizes:
        return observer.numbers.take(functools.partial(getattr, owner, name), is_deed=False)
    if name in (instance_dict(owner) or {}):
        observer.open(f"reads `{name}`, an attribute that was put on a tensor", site, "read")
        return getattr(owner, name)
    if name == "grad" and not warns_of_gradient(owner):
        return gradient_of(owner)
    if name == "is_leaf":
        note_leaf(observer, owner, site)
    known = name in purity.TENSOR_ATTRIBUTES
    if raw is not MISSING and purity.is_trusted_object(owner) and (known or callable(raw)):
        return getattr(owner, name)
    is_property = known and type(raw) is property and purity.is_trusted(raw.fget)
    if is_property or (callable(raw) and purity.is_trusted(raw)):
        return getattr(owner, name)
    if raw is MISSING:
        note_absent(observer, owner, name, site)
        observer.read_class(type(owner), name, MISSING, site)
        return _native(observer, owner, name)
    observer.open(f"reads `{name}` of a tensor", site, "read")
    return getattr(owner, name)


def _load_from_super(observer: Observer, owner: super, name: str, site: Site) -> Any:
    """``super().name``: found in the bases beyond the class that the method stands in."""
    # typeshed does not know the attributes of super.
    after, kind, instance = owner.__thisclass__, owner.__self_class__, owner.__self__  # type: ignore[attr-defined]
    raw = type_lookup(kind, name, after)
    observer.read_class(kind, name, raw, site, after)
    if raw is MISSING:
        return _native(observer, owner, name)
    if _gets_as_property(type(raw)) and type(raw.fget) is FunctionType:
        return _resolve_data(observer, instance, name, raw, site)
    if type(raw) in (FunctionType, classmethod, staticmethod, *_NATIVE_DESCRIPTORS):
        if isinstance(raw, (classmethod, staticmethod)):
            observer.reached(raw.__func__)
        else:
            observer.reached(raw)
        return observer.local(getattr(owner, name))
    if type_lookup(type(raw), "__get__") is not MISSING:
        observer.open(f"`super().{name}` is computed by a descriptor", site)
        return getattr(owner, name)
    return observer.reached(raw)


# ---------------------------------------------------------------------------------- writing


def store(observer: Observer, value: Any, owner: Any, name: str, site: Site) -> None:
    """``owner.name = value``; a write to what lives outside opens the run."""
    if observer.is_tensor(owner):
        if name == "grad" and (value is None or observer.is_tensor(value)):
            check_gradient(owner, value)
            set_gradient(owner, value)
            return
        setattr(owner, name, value)
        if (name == "data" and observer.is_tensor(value)) or (name == "requires_grad" and is_plain(value)):
            return  # the recorder has been told
        observer.open(f"sets `{name}` of a tensor", site)
        return
    stores.fix(observer, owner, name, site)
    if observer.is_outer(owner) and stores.store(observer, value, owner, name, site):
        return
    if observer.status(owner) == LOCAL and _sets_in_python(owner):
        method = observer.special_method(owner, "__setattr__", site)
        (functools.partial(setattr, owner) if method is None else method)(name, value)
        return
    # As configurations are filled in: from then on it is there.
    own = vars(owner).get(name) if isinstance(owner, type) else own_of(name, owner)
    fills = is_plain(value) and value is not None and own is None
    if not _is_local_store(observer, owner, name, "__setattr__", site, "once" if fills else ""):
        setattr(owner, name, value)
        return
    raw = type_lookup(type(owner), name)
    if type(raw) is property and type(raw.fset) is FunctionType:
        observer.reached(raw.fset)
        observer.read_function(raw.fset, site)
        setter: Callable[..., Any] | None
        try:
            setter = observer.twin(raw.fset)
        except Unsupported as refusal:
            setter = None
            observer.open(f"setter of `{name}`: {refusal.reason}", site)
        if setter is None:
            setattr(owner, name, value)
        else:
            setter(owner, value)
        return
    if type_lookup(type(raw), "__set__") is not MISSING and type(raw) is not MemberDescriptorType:
        observer.open(f"setting `{name}` runs a descriptor", site)
    kind = kind_of_attribute(owner, name)
    if kind in HANDED_ON and not ends_late(owner):
        observer.loops.sets(owner, name)
    else:
        observer.does(f"sets `{name}` {kind.value}", site)
    try:
        setattr(owner, name, value)
    except AttributeError as error:
        observer.explain(error)
        raise


def _sets_in_python(owner: Any) -> bool:
    """Whether a class of a user's has a `__setattr__` in Python."""
    own = purity.python_method(type(owner), "__setattr__")
    return own is not MISSING and own.__globals__.get("__name__") != "fusegrad.eager.nn.module"


def store_ordinary(observer: Observer, site: Site, /, owner: Any, name: str, value: Any) -> None:
    """``object.__setattr__(owner, name, value)``, as frozen classes do, and those with a `__setattr__`."""
    if observer.status(owner) != LOCAL:
        observer.open(f"sets `{name}` of an object that lives outside the function", site)
    raw = type_lookup(type(owner), name)
    has_set = raw is not MISSING and type_lookup(type(raw), "__set__") is not MISSING
    if has_set and type(raw) is not MemberDescriptorType:
        observer.open(f"setting `{name}` runs a descriptor", site)
    observer.read_class(type(owner), name, raw, site)
    observer.does(f"sets `{name}` of an object", site)
    object.__setattr__(owner, name, value)


def delete(observer: Observer, owner: Any, name: str, site: Site) -> None:
    """``del owner.name``."""
    if stores.unset(observer, owner, name, site):
        return
    if observer.is_tensor(owner):
        observer.open(f"deletes `{name}` of a tensor", site)
    elif _is_local_store(observer, owner, name, "__delattr__", site):
        raw = type_lookup(type(owner), name)
        deletes = raw is not MISSING and type_lookup(type(raw), "__delete__") is not MISSING
        if deletes and type(raw) is not MemberDescriptorType:
            observer.open(f"deleting `{name}` runs a descriptor", site)
    observer.does(f"deletes `{name}`", site)
    observer.stores.forget(owner, name)
    delattr(owner, name)


def _is_local_store(
    observer: Observer, owner: Any, name: str, method: str, site: Site, often: str = ""
) -> bool:
    """Whether a write stays within the run; if not, opens it."""
    if observer.status(owner) != LOCAL:
        what = {UNKNOWN: "of unknown origin", OUTER: "that lives outside the function"}.get(
            observer.status(owner), "that is part of the arguments"
        )
        kind = "module" if isinstance(owner, ModuleType) else type(owner).__name__
        kind = f"class {owner.__name__}" if isinstance(owner, type) else f"{kind} object"
        does = "sets" if method == "__setattr__" else "deletes"
        observer.open(f"{does} `{name}` of a {kind} {what}", site, often)
        return False
    if isinstance(owner, FunctionType):
        observer.open(f"sets `{name}` of a function", site)
        return False
    observer.read_class(type(owner), name, type_lookup(type(owner), name), site)
    own = type_lookup(type(owner), method)
    observer.read_class(type(owner), method, own, site)
    # fusegrad's nn.Module sorts parameters and submodules into its tables: known, and local here.
    if isinstance(own, FunctionType) and own.__globals__.get("__name__") != "fusegrad.eager.nn.module":
        observer.open(f"`{method}` of a {type(owner).__name__} is code of its own", site)
        return False
    return True
