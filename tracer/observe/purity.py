"""Purity: a callable or type goes in; whether it is free of effects, and on what terms, comes out."""

from __future__ import annotations

import bisect
import contextlib
import copy
import enum
import functools
import itertools
import math
import operator
import sys
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Mapping, Sequence
from types import (
    BuiltinFunctionType,
    CodeType,
    EllipsisType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    NoneType,
    WrapperDescriptorType,
)
from typing import Any, TypeGuard

from fusegrad.eager.core.public import home
from fusegrad.tracer.observe.lookup import MISSING, type_lookup

# ---------------------------------------------------------------------------------- types

DICTS = frozenset({dict, OrderedDict, defaultdict, Counter})
SEQUENCES = frozenset({list, tuple, deque})
SETS = frozenset({set, frozenset})
CONTAINERS = DICTS | SEQUENCES | SETS


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


MUTATORS: dict[type, frozenset[str]] = {
    list: _words("append extend insert pop remove clear sort reverse __setitem__ __delitem__ __iadd__"),
    dict: _words("update setdefault pop popitem clear __setitem__ __delitem__ move_to_end __ior__"),
    set: _words(
        "add discard remove pop clear update difference_update intersection_update "
        "symmetric_difference_update __ior__ __iand__ __isub__ __ixor__"
    ),
    deque: _words(
        "append appendleft extend extendleft insert pop popleft remove rotate clear reverse "
        "__setitem__ __delitem__ __iadd__"
    ),
    tuple: frozenset(),
    frozenset: frozenset(),
}
MUTATORS |= {
    OrderedDict: MUTATORS[dict],
    defaultdict: MUTATORS[dict] | {"__missing__"},
    Counter: MUTATORS[dict] | {"subtract"},
}
# Methods of containers that compare or hash elements; the others only move them.
ELEMENTWISE_METHODS = _words(
    "index count remove sort __contains__ __eq__ __lt__ isdisjoint issubset issuperset union "
    "intersection difference symmetric_difference add discard difference_update "
    "intersection_update symmetric_difference_update subtract most_common"
)
# Attributes of tensors that a replay would find unchanged, given the guards on inputs.
TENSOR_ATTRIBUTES = _words(
    "shape dtype ndim T mT H mH requires_grad is_leaf device itemsize nbytes real imag data layout "
    "is_cuda is_meta is_mps is_xpu is_mkldnn is_nested is_quantized is_sparse is_sparse_csr"
)

# ---------------------------------------------------------------------------------- callables

OPAQUE, HELD, SHALLOW, PAIRS, DEEP, TEXT = "opaque", "held", "shallow", "pairs", "deep", "text"


def _table() -> dict[Any, str]:
    """Pure callables, by how far they look into their arguments.

    opaque: at the type only; held: not at all; shallow: at the items but not into them; pairs: at the
    items of the items; deep: they operate on the items; text: they write the items out.
    """
    kind: Any
    table: dict[Any, str] = dict.fromkeys([isinstance, issubclass, callable], OPAQUE)
    for kind in (
        len, list, tuple, iter, zip, enumerate, reversed, map, filter, functools.reduce,
        deque, slice, range, itertools.chain, itertools.product,
        itertools.permutations, itertools.combinations, itertools.combinations_with_replacement,
        itertools.zip_longest, itertools.islice, itertools.count, itertools.cycle,
        itertools.pairwise, itertools.takewhile, itertools.dropwhile, itertools.filterfalse, object,
    ):  # fmt: skip
        table[kind] = SHALLOW
    for kind in (functools.partial, itertools.repeat):
        table[kind] = HELD
    for kind in (dict, OrderedDict, defaultdict, itertools.chain.from_iterable, itertools.starmap):
        table[kind] = PAIRS
    for kind in (
        abs, min, max, sum, sorted, any, all, round, divmod, pow, set, frozenset, bool, int, float, complex,
        bytes, chr, ord, bin, hex, oct, Counter, itertools.accumulate,
        itertools.compress, copy.copy, copy.deepcopy, bisect.bisect_left, bisect.bisect_right,
    ):  # fmt: skip
        table[kind] = DEEP
    for kind in (str, repr, format, ascii, hash):
        table[kind] = TEXT
    for name, function in vars(math).items():
        if isinstance(function, BuiltinFunctionType) and name[0] != "_":
            table[function] = DEEP
    for name in _words(
        "abs add and_ concat contains countOf eq floordiv ge getitem gt index indexOf inv invert le "
        "lshift lt matmul mod mul ne neg not_ or_ pos pow rshift sub truediv truth xor"
    ):
        table[getattr(operator, name)] = DEEP
    return table


PURE = _table()
# Which positional arguments a callable loops over.
ALL = "all"
ITERATED: dict[Any, Any] = {
    **dict.fromkeys((list, tuple, zip, map, filter, deque, any, all, set, frozenset, sorted, iter), ALL),
    **dict.fromkeys((itertools.chain, itertools.product, itertools.zip_longest, itertools.cycle), ALL),
    **dict.fromkeys((itertools.pairwise, itertools.takewhile, itertools.dropwhile), ALL),
    **dict.fromkeys((itertools.filterfalse, itertools.starmap, itertools.compress), ALL),
    **dict.fromkeys((enumerate, sum, min, max, dict, OrderedDict, Counter, math.prod, math.fsum), (0,)),
    **dict.fromkeys((itertools.islice, itertools.permutations, itertools.combinations), (0,)),
    **dict.fromkeys((itertools.combinations_with_replacement, itertools.accumulate), (0,)),
    itertools.chain.from_iterable: (0,),
    functools.reduce: (1,),
    defaultdict: (1,),
}
# Which argument is a callback that the callable will call: a position, or the keyword ``key``.
CALLBACKS: dict[Any, int | str] = {
    map: 0, filter: 0, functools.reduce: 0, itertools.starmap: 0, itertools.takewhile: 0,
    itertools.dropwhile: 0, itertools.filterfalse: 0, itertools.accumulate: 1,
    sorted: "key", min: "key", max: "key",
}  # fmt: skip
IMPURE_WORDS: dict[Any, str] = {
    input: "reads the keyboard",
    open: "opens a file",
    breakpoint: "stops in the debugger",
    setattr: "sets an attribute",
    globals: "looks at all globals",
}


def container_of(kind: type) -> Any:
    """The builtin container that a class of a user's derives from, or that of an optimizer's groups; None for
    builtin classes, and for others of ours.
    """
    if kind in CONTAINERS or not (home(kind) is None or is_group_class(kind)):
        return None
    found = next((base for base in type.__dict__["__mro__"].__get__(kind) if base in CONTAINERS), None)
    return None if found in (Counter, defaultdict) else found


def takes_over(kind: type, base: type, name: str) -> bool:
    """Whether a class has under a name what the builtin class has that it derives from."""
    return type_lookup(kind, name) is type_lookup(base, name)


# What builtin functions may ask of a container.
LOOKED_INTO = ("__iter__", "__len__", "__getitem__", "__contains__", "__eq__", "__missing__", "keys", "items")


def is_pure_type(kind: type) -> bool:
    """Whether calling a builtin class only makes a new object: exceptions without code of their own."""
    if not issubclass(kind, BaseException):
        return False
    has_init = isinstance(type_lookup(kind, "__init__"), FunctionType)
    return not has_init and is_builtin_new(type_lookup(kind, "__new__"))


def lookup_pure(function: Any) -> str | None:
    """How far a pure callable looks into its arguments; None if it is not known as pure."""
    try:
        return PURE.get(function)
    except TypeError:  # unhashable
        return None


# ---------------------------------------------------------------------------------- fusegrad's own

_MADE_OF_OPS = ("fusegrad.eager.ops", "fusegrad.eager.random.drawing", "fusegrad.eager.random.random")
_INSTRUMENTED = (
    "fusegrad.eager.nn",
    "fusegrad.eager.optim",
    "fusegrad.eager.utils.control_flow",
    "fusegrad.eager.distributions",
    "fusegrad.eager.devices.amp",
    "fusegrad.eager.devices.cuda_amp",
    "fusegrad.eager.devices.parallel",
    "fusegrad.eager.distributed",
    "fusegrad.eager.processes",
)
# Of these, functions of their arguments alone, like the ops that they are made of.
_OF_THEIR_ARGUMENTS = frozenset(
    """fusegrad.eager.nn.functional fusegrad.eager.nn.parameter fusegrad.eager.nn.utils.packing
    fusegrad.tracer.export.exported_call""".split()
)
# Functions here call the functions that they are given, or make functions that will, and pass objects on.
_TRANSFORMS = ("fusegrad.eager.autograd.func", "fusegrad.eager.utils.vmap")
_CHECKPOINTS = "fusegrad.eager.utils.checkpoint"  # which calls a function, once where it is recorded
_TRANSFORM_MAKERS = (
    "grad",
    "grad_of",
    "grad_and_value",
    "value_and_grad",
    "jacrev",
    "jacfwd",
    "hessian",
    "vmap",
)


def tensor_class() -> type | None:
    """``fusegrad.eager.core.tensor.Tensor`` if it has been imported."""
    module = sys.modules.get("fusegrad.eager.core.tensor")
    return None if module is None else vars(module).get("Tensor")


def load_public(owner: Any, name: str) -> None:
    """Have `fusegrad` load a part that comes when it is first asked for: from then on it is an attribute.

    So do the modules that stand in torch's place.
    """
    if is_face(owner) or (type(owner) is ModuleType and owner is sys.modules.get("fusegrad")):
        with contextlib.suppress(AttributeError):
            getattr(owner, name)


def is_face(owner: Any) -> bool:
    """Whether an object is one of the modules that stand in torch's place."""
    face = sys.modules.get("fusegrad.torch.face")
    return face is not None and issubclass(type(owner), vars(face).get("Face", ()))


def is_trusted_module(name: Any) -> TypeGuard[str]:
    """Whether functions of the module are the recorder's business, not ours."""
    if not isinstance(name, str) or name in _OF_THEIR_ARGUMENTS:
        return isinstance(name, str)
    ours = name == "fusegrad.eager" or name.startswith("fusegrad.eager.")
    return ours and not any(name == other or name.startswith(other + ".") for other in _INSTRUMENTED)


def is_trusted(function: Any) -> bool:
    """Whether a callable is one of fusegrad's ops or public functions, a leaf to the observer.

    Functions that wrap a user's function (decorators such as no_grad) are not: they are followed.
    """
    if isinstance(function, FunctionType):
        module = function.__globals__.get("__name__")
        if is_optimizers(module):
            return function.__name__ in ("step", "zero_grad")
        if not is_trusted_module(module):
            return False
        return "<locals>" not in function.__code__.co_qualname or module.startswith(_MADE_OF_OPS)
    if isinstance(function, type):
        return is_trusted_module(home(function))
    return is_trusted_object(function)


def only_counts(function: FunctionType) -> bool:
    """Whether a function keeps count, for the end of the program, of names that were asked for in vain.
    Replays need not do it again.
    """
    return function.__name__ == "note" and function.__globals__.get("__name__") == "fusegrad.torch.asked"


def is_op(function: Any) -> bool:
    """Whether a function is one of the engine's that are made of ops, and do nothing besides."""
    if not isinstance(function, FunctionType):
        return False
    module = function.__globals__.get("__name__")
    return isinstance(module, str) and module.startswith("fusegrad.eager.ops.") and is_trusted(function)


_ASKS = frozenset(
    {"dim", "ndimension", "size", "numel", "nelement", "is_floating_point", "is_complex", "element_size"}
)


def only_asks(function: Any) -> bool:
    """Whether a function is a tensor's method that tells what is known without its values, or `detach`, which
    is an op.
    """
    tensor = tensor_class()
    name = getattr(function, "__name__", "")
    return tensor is not None and name in (*_ASKS, "detach") and vars(tensor).get(name) is function


def asks_kind(function: Any) -> bool:
    """Whether a function of the engine tells of what class an object is, and does not look at it."""
    return function is vars(sys.modules["fusegrad"]).get("is_tensor")


def is_door(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a call is one of a tensor's `item`, which gives its one element to Python, or of its `numpy` or
    `__array__`, which lend its memory.
    """
    tensor = tensor_class()
    if type(function) is not MethodType or tensor is None or args:
        return False
    if function.__func__ is vars(tensor)["numpy"]:
        return not kwargs or (type(kwargs.get("force")) is bool and len(kwargs) == 1)
    return not kwargs and function.__func__ in (vars(tensor)["item"], vars(tensor)["__array__"])


def is_transform(function: Any) -> bool:
    """Whether a trusted function is a transform of a user's function, or makes one, as `value_and_grad`."""
    if not isinstance(function, FunctionType):
        return False
    module = function.__globals__.get("__name__")
    return module in _TRANSFORMS or (module == _CHECKPOINTS and function.__name__ == "checkpoint")


def makes_transform(function: Any) -> bool:
    """Whether a transform gives a function that will call the user's, instead of calling it."""
    return function.__code__.co_name in _TRANSFORM_MAKERS


def is_optimizers(module: Any) -> bool:
    """Whether a module holds our optimizers: the recorder knows how they step."""
    package, _, name = module.rpartition(".") if isinstance(module, str) else ("", "", "")
    return package == "fusegrad.eager.optim" and name != "lr_scheduler"


def is_optimizer(value: Any) -> bool:
    """Whether the value is one of our optimizers, of no subclass of a user's."""
    return is_optimizers(home(type(value)))


def is_group_class(kind: type) -> bool:
    """Whether a class is that of the dicts of an optimizer's parameters and options."""
    return issubclass(kind, dict) and is_optimizers(home(kind))


def is_trusted_object(value: Any) -> bool:
    """Whether the value is an instance of a class of the engine (an op, a dtype, a device)."""
    return is_trusted_module(home(type(value)))


# ---------------------------------------------------------------------------------- kinds of objects

_HEAP_TYPE = 1 << 9
_IMMUTABLE_TYPE = 1 << 8
_flags_of = type.__dict__["__flags__"].__get__  # a metaclass may have a look-up of its own
_STATIC_TYPES = (
    BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType, GetSetDescriptorType,
    MemberDescriptorType, CodeType, ModuleType, MappingProxyType, EllipsisType, NoneType,
)  # fmt: skip


def is_heap_type(kind: type) -> bool:
    """Whether the attributes of the class can be changed."""
    flags = _flags_of(kind)
    return bool(flags & _HEAP_TYPE) and not flags & _IMMUTABLE_TYPE


def is_static(value: Any) -> bool:
    """Whether the value is a constant of the interpreter or the engine: builtin classes, dtypes, devices."""
    if isinstance(value, type):
        return not is_heap_type(value)
    if isinstance(value, BuiltinFunctionType):
        return value.__self__ is None or isinstance(value.__self__, ModuleType)
    return not callable(value) and is_trusted_object(value) and not isinstance(value, tensor_class() or ())


def is_namedtuple(value: Any) -> bool:
    """Whether the value is an instance of a class made by ``namedtuple``, without code of its own, or of one
    of the engine's that are like it.
    """
    kind = type(value)
    if kind.__base__ is tuple and is_namedtuple_class(kind):
        return not _has_operators(kind)
    return is_tuple_of_ours(kind)


def _has_operators(namedtuple_class: type) -> bool:
    """Whether operators, calls or loops run code that a namedtuple's class adds to what all of them have."""
    return any(
        isinstance(function, FunctionType)
        and name.startswith("__")
        and name != "__new__"
        and function.__code__.co_filename != _NAMEDTUPLES
        and not is_trusted(function)
        for name, function in vars(namedtuple_class).items()
    )


# The file that has the code of all namedtuples, and the class of their fields.
_NAMEDTUPLES = namedtuple("_Nothing", "").__repr__.__code__.co_filename
TUPLE_FIELD = type(vars(namedtuple("_One", "field"))["field"])


def is_namedtuple_class(kind: type) -> bool:
    """Whether the class was made by ``collections.namedtuple`` or ``typing.NamedTuple``."""
    if not issubclass(kind, tuple) or kind.__base__ is not tuple or "_fields" not in kind.__dict__:
        return False
    new = kind.__dict__.get("__new__")
    new = new.__func__ if isinstance(new, staticmethod) else new
    return isinstance(new, FunctionType) and new.__code__.co_filename.startswith(("<string>", "<namedtuple"))


def is_enum_class(value: Any) -> bool:
    """Whether the value is an enumeration."""
    return isinstance(value, enum.EnumMeta)


def is_simple_enum(kind: type) -> bool:
    """Whether members of the enumeration behave as the enum module has it, without operators of their own."""
    for base in kind.__mro__:
        for name, value in vars(base).items():
            if not (isinstance(value, FunctionType) and name.startswith("__")):
                continue
            if value.__globals__.get("__name__") != "enum":
                return False
    return True


def python_method(kind: type, name: str) -> Any:
    """A special method that is written in Python, or MISSING."""
    raw = type_lookup(kind, name)
    return raw if isinstance(raw, FunctionType) else MISSING


def is_plain_type(kind: Any) -> bool:
    """Whether instances of a builtin class are plain values."""
    return kind in (bool, int, float, complex, str, bytes, range, slice)


def has_attribute(kind: type, name: str) -> bool:
    """Whether the class defines the attribute, and not as None."""
    raw = type_lookup(kind, name)
    return raw is not MISSING and raw is not None


def is_user_iterable(value: Any) -> bool:
    """Whether iterating over the value runs Python code of its class."""
    return python_method(type(value), "__iter__") is not MISSING and not isinstance(
        value, tensor_class() or ()
    )


def is_user_sequence(value: Any) -> bool:
    """Whether going over the value backwards runs Python code of its class."""
    kind = type(value)
    if isinstance(value, tensor_class() or ()) or kind in CONTAINERS:
        return False
    methods = [python_method(kind, name) is not MISSING for name in ("__len__", "__getitem__")]
    return python_method(kind, "__reversed__") is not MISSING or (
        type_lookup(kind, "__reversed__") is MISSING and all(methods)
    )


def is_tuple_of_ours(kind: type) -> bool:
    """Whether the class is one of the engine's that are tuples with names for their items, and methods."""
    return issubclass(kind, tuple) and home(kind) is not None


def is_known_context(manager: Any) -> bool:
    """Whether entering and leaving the context manager is the recorder's business."""
    return is_trusted_object(manager) or type(manager) is contextlib.nullcontext


def is_outside_world(function: FunctionType) -> bool:
    """Whether a function is of what is not followed: NumPy, and most of the standard library."""
    module = function.__globals__.get("__name__")
    top = module.partition(".")[0] if isinstance(module, str) else ""
    return top in _NOT_FOLLOWED and function.__name__ not in _FOLLOWED_OF.get(module, ())


# Modules whose Python only handles the objects that it is given; what they do beside is seen there.
_FOLLOWED = _words(
    "__main__ collections _collections_abc contextlib dataclasses functools operator types typing"
)
_NOT_FOLLOWED = (frozenset(sys.stdlib_module_names) | {"numpy", "scipy", "torch", "jax"}) - _FOLLOWED
# Of others: methods of loggers, which ask first whether anybody wants to hear of it, and questions of kinds.
_FOLLOWED_OF: dict[Any, frozenset[str]] = {
    "os": _words("getenv"),
    "logging": _words("debug info warning error critical log"),
    "inspect": _words("isfunction ismethod isclass isbuiltin isroutine ismodule getmro"),
    "enum": _words("__getitem__ __iter__ __len__ __contains__ __reversed__"),
}


def is_builtin_new(new: Any) -> bool:
    """Whether a ``__new__`` found on a class is that of a builtin one."""
    return isinstance(new, BuiltinFunctionType)
