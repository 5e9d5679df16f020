"""Modules, and other objects with a `__call__`, whose calls are jitted.

What is asked of such an object, and set or deleted on it, is the wrapped one's: it keeps nothing but the
compiled function.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from fusegrad.eager.nn.module import Module


def is_calling(called: Any) -> bool:
    """Whether what is called may have attributes that its calls read: no function, method or class."""
    return isinstance(getattr(type(called), "__call__", None), types.FunctionType) and not isinstance(  # noqa: B004
        called, type
    )


def read(module: Any, jitted: Any, name: str) -> Any:
    """An attribute of the module, or else what jitted functions tell (`stats`, `explain`, ...)."""
    try:
        return getattr(module, name)
    except AttributeError:
        if name.startswith("_") or not hasattr(jitted, name):
            raise
        return getattr(jitted, name)


def names(module: Any, jitted: Any) -> list[str]:
    """All names that `read` knows."""
    return sorted({*dir(module), *(name for name in dir(jitted) if not name.startswith("_"))})


class JittedObject:
    """What `jit` makes of a module: the module itself to all who ask, but for its calls, which are jitted.

    Attributes, `len`, indices and the other special methods of its class are the module's. Names that the
    module does not have are those of a jitted function: `stats`, `explain()`, `kernels()` and so on.
    """

    __slots__ = ("__jitted__", "__weakref__", "__wrapped__")
    __fusegrad_jit__ = True
    __jitted__: Any
    __wrapped__: Any

    def __new__(cls, jitted: Any) -> JittedObject:
        made: JittedObject = object.__new__(_kind_for(type(jitted.__wrapped__)))
        object.__setattr__(made, "__jitted__", jitted)
        object.__setattr__(made, "__wrapped__", jitted.__wrapped__)
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__jitted__(*args, **kwargs)

    __class__ = property(lambda self: self.__wrapped__.__class__)
    __dict__ = property(lambda self: self.__wrapped__.__dict__)
    __doc__ = property(lambda self: self.__wrapped__.__doc__)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = read(self.__wrapped__, self.__jitted__, name)
        return _giving(self, value) if name in _GIVE_THEMSELVES and callable(value) else value

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__wrapped__, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.__wrapped__, name)

    def __dir__(self) -> list[str]:
        return names(self.__wrapped__, self.__jitted__)

    def __repr__(self) -> str:
        return repr(self.__jitted__)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _again, self.__jitted__.__reduce__()

    def __deepcopy__(self, memo: dict[int, Any]) -> JittedObject:
        kind, (module, *options) = self.__jitted__.__reduce__()
        return _again(kind, (deepcopy(module, memo), *options))


def _again(kind: Any, options: tuple[Any, ...]) -> JittedObject:
    return JittedObject(kind(*options))


# Methods of modules that give the module.
_GIVE_THEMSELVES = frozenset(
    name
    for kind in Module.__mro__
    for name, value in vars(kind).items()
    if getattr(value, "__annotations__", {}).get("return") == "Self"
)
# What of a class makes, ends, copies or describes it or its objects, and so is not handed on.
_OWN = frozenset(vars(JittedObject)) | frozenset(
    "__init__ __del__ __getattribute__ __init_subclass__ __subclasshook__ __class_getitem__ __copy__ "
    "__reduce__ __getstate__ __setstate__ __getnewargs__ __getnewargs_ex__ __sizeof__".split()
)
_kinds: weakref.WeakKeyDictionary[type, type[JittedObject]] = weakref.WeakKeyDictionary()


def _kind_for(kind: type) -> type[JittedObject]:
    """`JittedObject` with the special methods of a class, which Python looks for in classes alone."""
    known = _kinds.get(kind)
    if known is None:
        special = {name: _handed_on(name) for name in dir(kind) if _is_special(kind, name)}
        known = type(f"Jitted{kind.__name__}", (JittedObject,), {"__slots__": (), **special})
        _kinds[kind] = known
    return known


def _is_special(kind: type, name: str) -> bool:
    """Whether Python looks for a method of that name in the class, and the class has one of its own."""
    method = getattr(kind, name, None)
    named = name.startswith("__") and name.endswith("__") and name not in _OWN
    return named and callable(method) and method is not getattr(object, name, None)


def _handed_on(name: str) -> Any:
    """A special method that is the wrapped object's."""

    def method(self: JittedObject, *args: Any, **kwargs: Any) -> Any:
        return _itself(self, getattr(self.__wrapped__, name)(*args, **kwargs))

    method.__name__ = name
    return method


def _giving(jitted: JittedObject, method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of the wrapped module that gives the jitted one where it gave the module."""
    return lambda *args, **kwargs: _itself(jitted, method(*args, **kwargs))


def _itself(jitted: JittedObject, result: Any) -> Any:
    return jitted if result is jitted.__wrapped__ else result
