"""Classes that users derive from `Tensor`: what methods and functions give of theirs is theirs again.

    class Celsius(fg.Tensor): ...

    fg.ones(2).as_subclass(Celsius) + 1     ->     a Celsius, by way of `Celsius.__torch_function__`

Properties of `Tensor` that such a class does not have itself are put into it in a form that asks; `Tensor`'s
own stay what they are. Sources: `torch.Tensor.__torch_function__`,
`torch.Tensor.as_subclass`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from fusegrad.eager.autograd import autograd
from fusegrad.eager.core.abstract import AbstractTensor
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.names import attach
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor, require_grad as set_requires_grad
from fusegrad.eager.ops.overrides import asking, protocol

# What gives tensors of no class but those they have.
_AS_THEY_ARE = frozenset(["grad", "_grad", "_base"])


def _of(cls: type[Tensor], result: Any) -> Any:
    """`result` with tensors of the class `cls` in it."""
    if isinstance(result, Tensor):
        return result if isinstance(result, cls) else _as_subclass(result, cls)
    if isinstance(result, (tuple, list)) and any(isinstance(part, (Tensor, tuple, list)) for part in result):
        parts = [_of(cls, part) for part in result]
        kind: Any = type(result)
        return kind._make(parts) if hasattr(kind, "_make") else kind(parts)
    return result


def _torch_function(
    cls: type[Tensor], func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
) -> Any:
    """What functions of tensors do with those of a derived class: what they do, and give that class."""
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    with protocol.nobody_is_asked():
        result = func(*args, **(kwargs or {}))
        owner = getattr(func, "__self__", None)
        return result if any(owner is member for member in _GETTERS_AS_THEY_ARE) else _of(cls, result)


def _as_subclass(self: Tensor, cls: type[Tensor]) -> Any:
    """The same values and the same place on the graph, as a tensor of the class `cls`.

    Source: `torch.Tensor.as_subclass`. Raises TypeError for a class that is not derived from `Tensor`.

    >>> import fusegrad as fg
    >>> class Celsius(fg.Tensor): ...
    >>> type(fg.ones(2).as_subclass(Celsius) + 1).__name__
    'Celsius'
    """
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise failure(TypeError, f"cls must be a type derived from Tensor, not {cls!r}")
    with protocol.nobody_is_asked():
        return asking.of_class(ops.view(self, self.array.shape), cls)


def _make_subclass(cls: type[Tensor], data: Tensor, require_grad: bool = False, **_: Any) -> Any:
    """The memory of `data` as a leaf of the class `cls`. Source: `torch.Tensor._make_subclass`."""
    with protocol.nobody_is_asked():
        tensor = data.detach()
    return set_requires_grad(asking.of_class(tensor, cls), require_grad)


def _make_wrapper_subclass(cls: type[Tensor], *_: Any, **__: Any) -> Any:
    """Raise NotImplementedError: tensors without memory are those of classes with a `__torch_dispatch__`.

    Source: `torch.Tensor._make_wrapper_subclass`.
    """
    protocol.decline_dispatch(cls)
    raise failure(
        NotImplementedError,
        "no tensor is without memory: keep what is wrapped as an attribute, and make the wrapper by "
        "_make_subclass(cls, data)",
    )


def _init_subclass(cls: type[Tensor], **kwargs: Any) -> None:
    """Have a derived class ask, unless it has that switched off."""
    super(Tensor, cls).__init_subclass__(**kwargs)
    if cls.__torch_function__ is not protocol.disabled:  # type: ignore[attr-defined]
        for name, member in _members().items():
            if getattr(cls, name, None) is getattr(Tensor, name):
                setattr(cls, name, member)


@functools.cache
def _members() -> dict[str, Any]:
    """The properties of `Tensor`, in the form that asks, and how its rows are gone through."""
    found: dict[str, Any] = {
        name: _property(member)
        for name, member in vars(Tensor).items()
        if isinstance(member, property) and not name.startswith("_")
    }
    found["__iter__"] = lambda self: iter(self.unbind(0))
    return found


def _property(member: property) -> property:
    """A property of `Tensor` in the form that asks."""

    def get(self: Tensor) -> Any:
        get_it = member.__get__
        return protocol.ask(get_it, [self], (self,), {}) if state.asks else get_it(self)

    def put(self: Tensor, value: Any) -> None:
        set_it = member.__set__
        protocol.ask(set_it, [self], (self, value), {}) if state.asks else set_it(self, value)

    def delete(self: Tensor) -> None:
        member.__delete__(self)

    return property(get, member.fset and put, member.fdel and delete, member.__doc__)


AbstractTensor.__torch_function__ = staticmethod(protocol.disabled)  # type: ignore[attr-defined]
asking.may_ask(autograd.grad)
attach(_as_subclass, "as_subclass")
Tensor.__torch_function__ = classmethod(_torch_function)  # type: ignore[attr-defined]
Tensor._make_subclass = staticmethod(_make_subclass)  # type: ignore[attr-defined]
Tensor._make_wrapper_subclass = staticmethod(_make_wrapper_subclass)  # type: ignore[attr-defined]
Tensor.__init_subclass__ = classmethod(_init_subclass)  # type: ignore[assignment, method-assign]
_GETTERS_AS_THEY_ARE = [vars(Tensor)[name] for name in _AS_THEY_ARE if name in vars(Tensor)]
