"""Who is asked by `__torch_function__`, in which order, and what is then called.

    fg.add(tensor, celsius)     ->     Celsius.__torch_function__(fg.add, (Celsius,), (tensor, celsius), {})

A class that is derived from `Tensor` is asked from its definition on (`subclasses.py`), one that is not, from
the first time on that a function could do nothing with it (`asking.py`): programs without such classes pay
nothing for them. Source: `torch.overrides`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.state import in_state, state
from fusegrad.eager.core.tensor import Tensor

# Functions that make tensors of data, or ask what something is.
NOT_ASKED = frozenset("as_tensor asarray from_numpy is_storage is_tensor sparse_coo_tensor tensor".split())


def nobody_is_asked() -> in_state:
    """Functions take all tensors as tensors, and ask no mode. Source: `torch._C.DisableTorchFunction`."""
    return in_state(asks=None, function_modes=())


def classes_are_not_asked() -> in_state:
    """Functions take tensors of all classes as tensors. Source: `torch._C.DisableTorchFunctionSubclass`."""
    return in_state(asks=False)


def disabled(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """The `__torch_function__` of classes that leave functions as they are, such as `Parameter`."""
    with classes_are_not_asked():
        return func(*args, **(kwargs or {}))


def decline_dispatch(kind: type) -> None:
    """Raise NotImplementedError for a class with a `__torch_dispatch__`: nobody would ever ask it.

    PyTorch asks it about ops below autograd, by names of its C++ core, of which there are none here.
    """
    asks = getattr(kind, "__torch_dispatch__", None)
    if asks is not None and getattr(asks, "__name__", "") != "_disabled_torch_dispatch_impl":
        raise failure(
            NotImplementedError,
            f"{kind.__qualname__} has a __torch_dispatch__, which is not asked: ops below autograd are not "
            "dispatched to Python; define __torch_function__, which is asked about every function, instead",
        )


def answers(value: Any) -> bool:
    """Whether an argument is asked: one whose class has a `__torch_function__` that is not off."""
    kind = type(value)
    if kind is Tensor or getattr(kind, "__torch_function__", disabled) is disabled:
        return False
    # PyTorch's own tensors would call our function again, for ever.
    return issubclass(kind, Tensor) or not any(c.__qualname__ == "TensorBase" for c in kind.__mro__)


def in_order(values: Iterable[Any]) -> list[Any]:
    """The arguments that are asked, one of each class: subclasses before those they are derived from.

    Tensors are named among the others, which they leave to answer.
    """
    found: list[Any] = []
    for value in values:
        kind = type(value)
        if not (kind is Tensor or answers(value)) or any(type(other) is kind for other in found):
            continue
        place = next((i for i, other in enumerate(found) if issubclass(kind, type(other))), len(found))
        found.insert(place, value)
    return found


_MOST_NESTED = 64  # as many dimensions as arrays have at most


def _items(values: Iterable[Any], depth: int = 0) -> Iterator[Any]:
    """What lists and tuples hold that may be nested, as in indices; not of lists that hold themselves."""
    for value in values:
        if type(value) in (list, tuple):
            yield from _items(value, depth + 1) if depth < _MOST_NESTED else ()
        else:
            yield value


def asked_of(args: Iterable[Any], kwargs: dict[str, Any]) -> list[Any]:
    """The arguments to ask for a call, also those in lists and tuples; none if all of them are off."""
    if not state.asks:
        return []
    values: list[Any] = []
    for value in (*args, *kwargs.values()):
        values.extend(_items(value)) if type(value) in (list, tuple) else values.append(value)
    return in_order(filter(answers, values)) if any(map(answers, values)) else []


def ask(func: Callable[..., Any], asked: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the first of `asked` gives that does not decline, by NotImplemented.

    Raises TypeError where all of them do.
    """
    try:
        return answer_of(func, asked, args, kwargs)
    except NobodyAnswers as error:
        raise failure(TypeError, str(error)) from None


def _mode_s_answer(func: Any, types: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """What the innermost mode gives, in which what it calls goes to those around it."""
    *around, mode = modes = state.function_modes
    state.function_modes = tuple(around)
    try:
        return mode.__torch_function__(func, types, args, kwargs)
    finally:
        state.function_modes = modes


def _as_passed(func: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments as PyTorch passes them on: a list of `einsum`'s operands is taken apart before."""
    if getattr(func, "__name__", "") == "einsum" and len(args) == 2 and type(args[1]) in (list, tuple):
        return (args[0], *args[1])
    return args


class NobodyAnswers(TypeError):
    """All that are asked decline."""


def answer_of(func: Any, asked: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What `ask` gives, for whoever tells errors otherwise."""
    if state.interpreter is not None:
        name = next((type(value).__qualname__ for value in asked if answers(value)), "nobody")
        state.interpreter.effect(f"asks {name}.__torch_function__, which is Python code")
    types, args = tuple(map(type, asked)), _as_passed(func, args)
    if state.function_modes:
        result = _mode_s_answer(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    for value in filter(answers, asked):
        result = value.__torch_function__(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    name = f"{getattr(func, '__module__', None) or 'fusegrad'}.{getattr(func, '__qualname__', func)}"
    raise NobodyAnswers(
        f"no implementation found for {name!r} on types that implement __torch_function__: {list(types)}"
    )
