"""The names under which users know the engine's classes and functions, and where these stand in truth.

In: the namespace of a module that users import from, with what it lists. Out: `__module__` and `__qualname__`
that lead there, so that pickles, reprs and messages stay the same wherever modules move:

    fusegrad.eager.nn.linear.Linear        ->      fusegrad.nn.Linear

Whoever must know whether a class is the engine's own asks `home`, never `__module__`: a user's class may set
that, or inherit it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any, ForwardRef

# What gives `fusegrad.torch.face`, which knows PyTorch's names: it stands above this, and the public package
# says how to come by it.
torch_face: Callable[[], Any]
# By identity, since a metaclass may have an equality of its own: each class, and the module that defines it.
_HOMES: dict[int, tuple[type, str]] = {}
_namespace_of = type.__dict__["__dict__"].__get__
_name_of = type.__dict__["__name__"].__get__


def locate(path: str, namespace: dict[str, Any], names: Iterable[str]) -> None:
    """Have the classes and functions that `names` lists say that they are those of the module `path`.

    What has several paths keeps the first that is given, or a shorter one: `fusegrad.nn.functional.tanh`
    is `fusegrad.tanh`.
    """
    listed = set(names)
    for name in names:
        value = namespace.get(name)
        if not isinstance(value, (type, FunctionType)) or not _may_take(value.__module__, path):
            continue
        if isinstance(value, type):
            _HOMES.setdefault(id(value), (value, value.__module__))
            _find_hints_at(value, value.__module__)
        value.__module__ = path
        # An alias, as `absolute` is of `abs`, is not what a function is called.
        if value.__qualname__ not in listed or namespace[value.__qualname__] is not value:
            value.__qualname__ = name


def called(kind: type, module: str) -> None:
    """Have a class of ours say that it is that of another module, as those in PyTorch's place do."""
    _HOMES.setdefault(id(kind), (kind, kind.__module__))
    kind.__module__ = module


def _find_hints_at(kind: type, module: str) -> None:
    """Have `typing.get_type_hints` look up the annotations of a class where it is defined.

    It looks in the module that the class names, which has not all that they mention. Libraries ask for the
    hints of users' classes, and so of those that they are derived from.
    """
    hints = _namespace_of(kind).get("__annotations__", {})
    for name, hint in hints.items():
        if isinstance(hint, str):
            hints[name] = ForwardRef(hint, module=module, is_class=True)


# What makes the form of a function that users get in its place, which refuses what it cannot take
# (`eager/ops/forms.py`) and may have `out=` (`eager/ops/shape/out.py`), and those that have been asked for:
# there are hundreds, and a program needs few of them.
MAKERS: dict[Any, Callable[[Any], Any]] = {}
_forms: dict[Any, Any] = {}


def form(value: Any) -> Any:
    """What users get in the place of a public function."""
    if not isinstance(value, FunctionType) or value not in MAKERS:
        return value
    if value not in _forms:
        _forms.setdefault(value, MAKERS[value](value))
    return _forms[value]


def formed(namespace: dict[str, Any]) -> None:
    """Put into a public namespace what users get."""
    for name, value in namespace.items():
        if not name.startswith("_"):
            namespace[name] = form(value)


def gather(path: str, namespace: dict[str, Any]) -> list[str]:
    """The names that a module imports to hand them on, located as those of `path`; for its `__all__`."""
    formed(namespace)
    found = {n: v for n, v in namespace.items() if isinstance(v, (type, FunctionType)) and v is not gather}
    names = sorted(name for name in found if not name.startswith("_"))
    locate(path, namespace, names)
    return names


def _may_take(now: str, path: str) -> bool:
    """Whether what says that it is in `now` may say `path`: what is not public yet, or at a longer path."""
    return now.startswith(("fusegrad.eager.", "fusegrad.tracer.", "fusegrad.compiler.", f"{path}."))


def home(kind: type) -> str | None:
    """The module of fusegrad that defines a class; None for users' classes, whatever they say they are."""
    known = _HOMES.get(id(kind))
    if known is not None:
        return known[1]
    name = _namespace_of(kind).get("__module__")
    if not isinstance(name, str) or not name.startswith("fusegrad."):
        return None
    module = sys.modules.get(name)
    defined = module is not None and vars(module).get(_name_of(kind)) is kind
    return name if defined else None
