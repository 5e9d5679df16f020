"""Objects of the world as data: what another process has to find in their places.

Objects are numbered as they are met, so that two worlds say the same only where the same places hold the same
objects. What an object is, is a fact of its own: of a function the digest of its code, of a tensor its type,
of a class the classes that it derives from; of containers and instances no more than their class, since what
a run has read in them is told by its reads. Functions and classes of fusegrad, NumPy and Python are told by
name, and their versions are in the key of the entry.
"""

from __future__ import annotations

import builtins
import hashlib
import sys
from abc import ABCMeta
from collections import OrderedDict, deque, namedtuple
from collections.abc import Callable
from enum import EnumType
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
    SimpleNamespace,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np

from fusegrad.compiler.artefacts.memories import Memories
from fusegrad.eager.core import dtypes
from fusegrad.eager.core.dtypes import DType
from fusegrad.eager.core.interpreter import instructions
from fusegrad.eager.core.op import REGISTRY, Op
from fusegrad.eager.core.ops import Ops
from fusegrad.eager.core.places.device import device
from fusegrad.eager.core.public import home
from fusegrad.eager.core.stand_in import has_values
from fusegrad.eager.core.tensor import Size, Tensor
from fusegrad.eager.ops import results
from fusegrad.tracer.observe import purity
from fusegrad.tracer.observe.lookup import MISSING, type_lookup
from fusegrad.tracer.observe.values import PLAIN_TYPES, Expected, is_plain, text_of

Data = Any  # lists of lists, texts and whole numbers, as JSON has them; never truths, which equal numbers


class Unsayable(Exception):
    """What has no words that another process would understand; the message is why a capture is not kept."""


# ---------------------------------------------------------------------------------- plain values

_ONLY = {"None": None, "True": True, "False": False, "Ellipsis": ..., "NotImplemented": NotImplemented}


def plain(value: Any) -> Data:
    """A plain value, to the type and the bit. Raises Unsayable."""
    kind = type(value)
    if any(value is only for only in _ONLY.values()):
        return [repr(value)]
    if kind is str:
        return ["str", value]
    if kind is int:
        return ["int", str(value)]
    if kind is float:
        return ["float", value.hex() if value == value else np.float64(value).tobytes().hex()]
    if kind is complex:
        return ["complex", plain(value.real), plain(value.imag)]
    if kind is bytes:
        return ["bytes", value.hex()]
    if kind is range or kind is slice:
        return [kind.__name__, plain(value.start), plain(value.stop), plain(value.step)]
    if kind is tuple or kind is Size:
        return [kind.__name__, *map(plain, value)]
    if issubclass(kind, np.dtype) or (issubclass(kind, np.generic) and is_plain(value)):
        # Compared, and never made again.
        return [
            "numpy",
            kind.__name__,
            repr(value),
            value.tobytes().hex() if issubclass(kind, np.generic) else "",
        ]
    raise Unsayable(f"reads {text_of(value)}, which other processes may order otherwise")


def from_plain(data: Data) -> Any:
    """The value that `plain` has told of. Raises Unsayable for what is only compared."""
    kind, *rest = data
    if not rest and kind in _ONLY:
        return _ONLY[kind]
    if kind == "str":
        return str(rest[0])
    if kind == "int":
        return int(rest[0])
    if kind == "float":
        return float.fromhex(rest[0]) if "0x" in rest[0] or "inf" in rest[0] else _not_a_number(rest[0])
    if kind == "complex":
        return complex(*map(from_plain, rest))
    if kind == "bytes":
        return bytes.fromhex(rest[0])
    if kind in ("range", "slice"):
        return {"range": range, "slice": slice}[kind](*map(from_plain, rest))
    if kind in ("tuple", "Size"):
        return {"tuple": tuple, "Size": Size}[kind](map(from_plain, rest))
    raise Unsayable(f"makes a value of NumPy's ({kind})")


def _not_a_number(bits: str) -> float:
    return float(np.frombuffer(bytes.fromhex(bits), np.float64)[0])


# ---------------------------------------------------------------------------------- code


def code_digest(code: CodeType) -> str:
    """What a function does, as far as its code says it, with the lines that messages name."""
    found = hashlib.sha256()
    parts = (
        code.co_qualname, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags,
        instructions(code), code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars,
        code.co_exceptiontable, code.co_firstlineno, code.co_linetable, _constants(code.co_consts),
    )  # fmt: skip
    found.update(repr(parts).encode())
    return found.hexdigest()


def _constants(value: Any) -> Any:
    """Constants in a text that tells them apart: 1 from 1.0, and no order of a set."""
    if type(value) is CodeType:
        return code_digest(value)
    if type(value) is tuple:
        return tuple(map(_constants, value))
    if type(value) is frozenset:
        return sorted(repr(_constants(item)) for item in value)
    return type(value).__name__, repr(value)


# ---------------------------------------------------------------------------------- objects

# A metaclass may have a look-up of its own.
_space_of, _bases_of, _module_of, _qualname_of = (
    vars(type)[name].__get__ for name in ("__dict__", "__mro__", "__module__", "__qualname__")
)
# Where functions of ours stand that are not found where they were written, nor by what they say.
_FACES = ("fusegrad.eager.core.ops", "ops."), ("fusegrad.eager.nn.functional", "")
_KNOWN = (frozenset(sys.stdlib_module_names) | {"numpy", "fusegrad"}) - {"__main__"}
# Of these the result, or the order of what is in it, is another one in each process.
_OWN_ORDER: tuple[Any, ...] = (set, frozenset, hash, id)


def canonical(value: Any, *names: tuple[Any, Any]) -> Data:
    """An object of Python's, NumPy's or fusegrad's by the first of some names (of a module, and in it) under
    which it is found. Raises Unsayable.
    """
    if any(value is own for own in _OWN_ORDER):
        raise Unsayable(f"uses `{value.__name__}`, which has an order or a number of each process's own")
    for module, name in names:
        told = type(module) is str and type(name) is str and module.partition(".")[0] in _KNOWN
        if told and _named(module, name) is value:
            # A user's module may have the name of one of Python's.
            digest = code_digest(value.__code__) if type(value) is FunctionType else ""
            return ["known", module, name, digest]
    raise Unsayable(f"uses {text_of(value)}, which has no name in other processes")


def _named(module: str, name: str) -> Any:
    found: Any = sys.modules.get(module)
    if module == "fusegrad":  # which has names that come when they are asked for
        purity.load_public(found, name)
    for part in name.split("."):
        if found is None:
            break
        found = (_space_of(found) if isinstance(found, type) else vars(found)).get(part)
    return found.__func__ if isinstance(found, (classmethod, staticmethod)) else found


class World:
    """Objects by number, and what is to be said of each.

    objects: in the order in which they were met. facts: what each is.
    """

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self.facts: list[Data] = []
        self._numbers: dict[int, int] = {}
        self._namespaces: dict[int, int] = {}  # by id, the function whose globals they are
        self._memories = Memories()
        self._cells: dict[int, list[Data]] = {}  # by id, a function that has them, and which of its they are

    def number(self, value: Any) -> int:
        """The number of an object, which is met here, or was before. Raises Unsayable."""
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self.objects)
            self.objects.append(value)
            self.facts.append([])
            self.facts[number] = self._fact(value, number)
        return number

    def known(self, value: Any) -> Data:
        """An object by its name, or by its number where it has been met. Raises Unsayable."""
        number = self._numbers.get(id(value))
        if number is None and isinstance(value, (type, FunctionType)):
            number = self.number(value)
            if self.facts[number][0] != "known":
                number = None
        if number is None or value is None:
            raise Unsayable(f"reads {text_of(value)}, to which no path from the function is known")
        return self.facts[number] if self.facts[number][0] == "known" else number

    def at(self, said: Data) -> Any:
        """The object that `known` has told of. Raises LookupError and Unsayable."""
        if not isinstance(said, list):
            return self.objects[said]
        found = _named(*said[1:3])
        if self.facts[self.number(found)] != said:
            raise Unsayable(f"`{said[2]}` of fusegrad's or Python's is another one")
        return found

    def namespace(self, value: dict[str, Any]) -> int:
        """The number of a function whose globals a dict is. Raises Unsayable."""
        if id(value) not in self._namespaces:
            raise Unsayable("reads the globals of a module of which it called no function")
        return self._namespaces[id(value)]

    def is_namespace(self, value: Any) -> bool:
        """Whether these are the globals of a function that has been met."""
        return id(value) in self._namespaces

    def cell(self, value: Any) -> list[Data]:
        """The number of a function that has a cell, and which of its cells it is. Raises Unsayable."""
        if id(value) not in self._cells:
            raise Unsayable("sets a variable of a closure of which it called no function")
        return self._cells[id(value)]

    def expected(self, expected: Expected) -> Data:
        """What a place held. Raises Unsayable."""
        value = expected.reference()
        if value is MISSING:
            return ["absent"]
        if value is None and expected.key is MISSING:
            raise Unsayable("reads an object that is gone")
        return self.value(value)

    def value(self, value: Any) -> Data:
        """A value: a plain one itself, others by number. Raises Unsayable."""
        if type(value) in PLAIN_TYPES or is_plain(value):
            return ["plain", plain(value)]
        return ["object", self.number(value)]

    def found(self, data: Data) -> Any:
        """The value that is meant, where objects have been met."""
        kind, what = data
        return from_plain(what) if kind == "plain" else self.objects[what]

    def _fact(self, value: Any, number: int) -> Data:
        kind = type(value)
        if isinstance(value, Tensor):
            return [*_tensor(value, self.number(kind)), *self._memories.told(value, number)]
        if purity.is_group_class(kind):
            return _group(value)
        fact = FACTS.get(kind)
        if fact is None:
            fact = next((fact for base, fact in _OF_BASES.items() if issubclass(kind, base)), None)
        if fact is not None:
            return fact(self, value, number)
        return self._instance(value)

    def _instance(self, value: Any) -> Data:
        """An object that is its class and its attributes."""
        kind = type(value)
        bases = [base for base in _bases_of(kind) if base is not object]
        own = kind.__basicsize__ == _PLAIN_SIZE and not kind.__itemsize__  # and nothing in slots
        if not own or not all(map(purity.is_heap_type, bases)) or purity.is_static(value):
            raise Unsayable(f"reads {text_of(value)}, which has no words for other processes")
        return ["instance", self.number(kind)]

    def first_of_globals(self, function: FunctionType, number: int) -> int:
        """The first function that has the globals of this one."""
        return self._namespaces.setdefault(id(function.__globals__), number)

    def first_of_cells(self, function: FunctionType, number: int) -> Data:
        """For each cell of a function which one of the first function that has it."""
        return [self._cells.setdefault(id(c), [number, i]) for i, c in enumerate(function.__closure__ or ())]


class _Plain:
    pass


_PLAIN_SIZE = _Plain.__basicsize__


def _tensor(value: Tensor, kind: int) -> Data:
    array = value.array
    if not has_values(array):
        raise Unsayable("reads a tensor that has no values")
    said = (value.needs_grad, value.requires_grad, value.is_leaf, type(value.version).__name__)
    return ["tensor", kind, str(array.dtype), list(array.shape), list(array.strides), *map(str, said)]


def _group(value: dict[str, Any]) -> Data:
    """Options of a group of parameters: the kinds of numbers, which steps find anew, and what others are."""
    options = [(name, option) for name, option in dict.items(value) if name != "params"]
    numbers = (int, float)
    return ["group", *([n, type(o).__name__ if type(o) in numbers else plain(o)] for n, o in options)]


def _function(world: World, value: FunctionType, number: int) -> Data:
    owner: Any = value
    first = world.first_of_globals(value, number)
    if purity.is_trusted(value) or purity.is_outside_world(value):
        names = (value.__globals__["__name__"], value.__name__), (value.__module__, value.__qualname__)
        return canonical(value, *names, *((module, f"{path}{value.__name__}") for module, path in _FACES))
    if owner.__builtins__ is not vars(builtins):
        raise Unsayable(f"calls `{value.__qualname__}`, which has builtin names of its own")
    return ["function", code_digest(value.__code__), first, world.first_of_cells(value, number)]


def _class(world: World, value: type, number: int) -> Data:
    name, module = _qualname_of(value), _module_of(value)
    if not purity.is_heap_type(value) or home(value) is not None:
        return canonical(value, (home(value), name), (module, name))
    if getattr(results.return_types, name, None) is value:
        return canonical(value, (results.__name__, f"return_types.{name}"))
    if type(value) not in (type, ABCMeta, EnumType):
        raise Unsayable(f"reads {text_of(value)}, which has a metaclass")
    return ["class", name, *map(world.number, _bases_of(value)[1:])]


def _module(world: World, value: ModuleType, number: int) -> Data:
    name = vars(value).get("__name__")
    if type(name) is not str or sys.modules.get(name) is not value:
        raise Unsayable("reads a module that cannot be found by its name")
    return ["module", name]


def _builtin(world: World, value: BuiltinFunctionType, number: int) -> Data:
    owner = value.__self__
    if isinstance(owner, type) and type_lookup(owner, value.__name__) is value:  # as `object.__new__`
        return ["of class", world.number(owner), value.__name__]
    if owner is not None and type(owner) is not ModuleType:
        raise Unsayable(f"uses the bound method `{value.__name__}`")
    return canonical(value, (value.__module__, value.__qualname__))


def _descriptor(world: World, value: Any, number: int) -> Data:
    owner, name = value.__objclass__, value.__name__
    if name == "__hash__" or type_lookup(owner, name) is not value:
        raise Unsayable(f"uses {text_of(value)}, which has no name in other processes")
    return ["descriptor", world.number(owner), name]


def _container(world: World, value: Any, number: int) -> Data:
    return ["container", type(value).__name__]


def _tuple(world: World, value: tuple[Any, ...], number: int) -> Data:
    return ["tuple", *map(world.value, value)]


def _ops(world: World, value: Ops, number: int) -> Data:
    return canonical(value, (Ops.__module__, "ops"))


def _field(world: World, value: Any, number: int) -> Data:
    """A named tuple's attribute, which says which item it gives."""
    return ["field", *map(plain, value.__reduce__()[1])]


def _op(world: World, value: Op, number: int) -> Data:
    if REGISTRY.get(value.name) is not value:
        raise Unsayable(f"uses an op `{value.name}` that cannot be found by its name")
    return ["op", value.name]


def _dtype(world: World, value: DType, number: int) -> Data:
    if dtypes.FROM_SHORT.get(value.short) is not value:
        raise Unsayable(f"uses a dtype `{value}` that cannot be found by its name")
    return ["dtype", value.short]


def _parts(*names: str) -> Callable[[World, Any, int], Data]:
    """Of an object that is nothing but these attributes, which cannot be set."""

    def fact(world: World, value: Any, number: int) -> Data:
        return [type(value).__name__, *(world.value(getattr(value, name)) for name in names)]

    return fact


# The same of objects of classes that derive from these.
_OF_BASES: dict[type, Callable[[World, Any, int], Data]] = {type: _class, Op: _op, DType: _dtype}
# What is said of an object, by its class; of others see `_fact`.
FACTS: dict[type, Callable[[World, Any, int], Data]] = {
    FunctionType: _function,
    ModuleType: _module,
    BuiltinFunctionType: _builtin,
    MethodType: _parts("__func__", "__self__"),
    staticmethod: _parts("__func__"),
    classmethod: _parts("__func__"),
    property: _parts("fget", "fset", "fdel"),
    device: _parts("type", "index"),
    Ops: _ops,
    type(vars(namedtuple("Named", ("part",)))["part"]): _field,  # of any named tuple
    tuple: _tuple,
    **dict.fromkeys((list, dict, OrderedDict, deque, SimpleNamespace), _container),
    **dict.fromkeys(
        (MethodDescriptorType, WrapperDescriptorType, GetSetDescriptorType, ClassMethodDescriptorType,
         MemberDescriptorType), _descriptor
    ),
}  # fmt: skip
