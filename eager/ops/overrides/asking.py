"""Functions that ask their arguments for a `__torch_function__`, once there is a class that has one.

The public functions stay the objects that they are, also those that somebody has imported: they get another
code, which asks and then calls what they were.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from fusegrad.eager.autograd.views import note
from fusegrad.eager.core.public import MAKERS, form
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.overrides import protocol

# The method that is asked about for an operator, where it is another one.
_SAID = {
    **{f"__{name}__": name for name in "abs add sub mul pow matmul neg lt le gt ge ne".split()},
    "__pos__": "positive",
    "__mod__": "remainder",
    "__truediv__": "div",
    "__radd__": "add",
    "__rmul__": "mul",
    "__rand__": "bitwise_and",
    "__ror__": "bitwise_or",
    "__rxor__": "bitwise_xor",
    "__iadd__": "add_",
    "__isub__": "sub_",
    "__imul__": "mul_",
    "__itruediv__": "div_",
    "__ifloordiv__": "floor_divide_",
    "__imod__": "remainder_",
    "__ipow__": "pow_",
}
# Python's names of methods that ask.
OPERATORS = frozenset(
    f"__{name}__"
    for name in """
    abs add and array bool complex contains deepcopy eq float floordiv format ge getitem gt iadd
    iand ifloordiv ilshift imod imul index int invert ior ipow irshift isub itruediv ixor le len
    lshift lt matmul mod mul ne neg or pos pow radd rand repr reversed rfloordiv rlshift rmatmul
    rmod rmul ror rpow rrshift rshift rsub rtruediv rxor setitem sub truediv xor
    """.split()
)
_FORMS: list[FunctionType] = []  # the functions that users call, as far as they have been made
_begun: list[bool] = []  # whether they ask


def may_ask(function: Any) -> Any:
    """Have a function that users call ask from now on, or once others do; gives it back."""
    _FORMS.append(function)
    if _begun:
        _have_ask(function)
    return function


def begin() -> None:
    """Have all functions, methods and operators ask their arguments."""
    if not _begun:
        _begun.append(True)
        for function in (*_FORMS, *MAKERS, *map(vars(Tensor).get, methods())):
            _have_ask(function)
        for name, member in vars(Tensor).items():
            if name in OPERATORS and isinstance(member, FunctionType):
                _have_ask(member, said(name))


def begin_everything() -> None:
    """Have also properties of `Tensor` itself ask: a mode wants to know of every one."""
    begin()
    for name, member in vars(Tensor).items():
        if isinstance(member, property) and not name.startswith("_"):
            _have_ask(member.fget, member.__get__)


def methods() -> list[str]:
    """The methods of `Tensor` that ask, but for operators."""
    named = (name for name, member in vars(Tensor).items() if isinstance(member, FunctionType))
    return [name for name in named if not name.startswith("_") and name != "as_subclass"]


def of_class(tensor: Tensor, kind: type) -> Any:
    """`tensor`, which is new, as one of the class `kind`.

    Raises NotImplementedError for a class that would be asked about ops by `__torch_dispatch__`.
    """
    protocol.decline_dispatch(kind)
    tensor = _in_room_for(kind, tensor)
    if protocol.answers(tensor):
        begin()
    return tensor


def _in_room_for(kind: type, tensor: Tensor) -> Any:
    """`tensor`, which is new, in the class `kind`: another object where that has `__slots__` of its own."""
    if kind.__basicsize__ == Tensor.__basicsize__ or state.interpreter is not None:
        tensor.__class__ = kind  # whoever follows ops knows the object, so there it stays that or fails
        return tensor
    other: Any = object.__new__(kind)
    for slot in ("alias", "array", "gradient", "maker", "needs_grad", "output_index", "version"):
        setattr(other, slot, getattr(tensor, slot))
    other.__dict__.update(tensor.__dict__)
    if type(other.alias) is tuple:
        note(other.alias[0], other)
    return other


class _Asking:
    """What a function does once it asks. plain: what it was. said: what it is asked about."""

    __slots__ = ("function", "plain", "said")

    def __init__(self, function: FunctionType, plain: FunctionType, said: Any) -> None:
        self.function, self.plain, self.said = function, plain, said

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        as_it_is = self.plain.__name__ in protocol.NOT_ASKED
        asked = [] if as_it_is else protocol.asked_of(args, kwargs)
        if asked or state.function_modes:
            # Layers call what users get a form of; it is the form that is asked about.
            return protocol.ask(self.said or form(self.function), asked, args, kwargs)
        if as_it_is:
            with protocol.nobody_is_asked():
                return self.plain(*args, **kwargs)
        return self.plain(*args, **kwargs)


def _have_ask(function: Any, said: Any = None) -> None:
    code, closure = function.__code__, function.__closure__
    if isinstance((function.__kwdefaults__ or {}).get("_asking"), _Asking):
        return
    if "__signature__" not in vars(function):
        # That of the code: who reads arguments by their names goes by it, also of a decorated function.
        function.__signature__ = inspect.signature(function, follow_wrapped=False)
    plain = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    plain.__kwdefaults__ = function.__kwdefaults__
    function.__defaults__, function.__kwdefaults__ = None, {"_asking": _Asking(function, plain, said)}
    function.__code__ = _code(code.co_freevars).replace(co_name=code.co_name, co_qualname=code.co_qualname)


def _code(free: tuple[str, ...]) -> CodeType:
    """The code of a function that asks. free: the names of its closure, which another code must have, too."""
    source = [
        f"def within({', '.join(free)}):",
        "    def calling(*args, _asking, **kwargs):",
        "        return _asking(args, kwargs)",
        f"        {', '.join(free) or 'pass'}",
        "    return calling",
    ]
    namespace: dict[str, Callable[..., FunctionType]] = {}
    exec(compile("\n".join(source), __file__, "exec"), namespace)
    return namespace["within"](*free).__code__


# A class that is not derived from `Tensor`, which a function has failed at.


def has_strangers(arguments: dict[Any, Any]) -> bool:
    """Whether some of the arguments of a call are to be asked."""
    return bool(protocol.asked_of(arguments.values(), {}))


def answer(function: Callable[..., Any], arguments: dict[Any, Any]) -> Any:
    """What a function gives that has failed at arguments which are to be asked.

    arguments: by place or by name, with defaults.
    """
    begin()
    parameters = [*inspect.signature(function).parameters.values()]
    usual: dict[Any, Any] = {p.name: p.default for p in parameters}
    usual |= {place: p.default for place, p in enumerate(parameters)}
    args = [value for place, value in arguments.items() if isinstance(place, int)]
    while args and usual.get(len(args) - 1, inspect.Parameter.empty) is args[-1]:
        args.pop()
    kwargs = {name: value for name, value in arguments.items() if isinstance(name, str)}
    return function(*args, **{name: value for name, value in kwargs.items() if usual.get(name) is not value})


def said(name: str) -> Any:
    """What is asked about for the method `name` of `Tensor`."""
    return getattr(Tensor, _SAID.get(name, name), getattr(Tensor, name))


def answer_operator(name: str, tensor: Tensor, other: Any) -> Any:
    """What a binary operator gives that `Tensor` has none for; NotImplemented if `other` is not asked."""
    asked = protocol.asked_of((tensor, other), {})
    return protocol.ask(said(name), asked, (tensor, other), {}) if asked else NotImplemented
