"""`torch._foreach_*`: an op of each tensor of a list. Optimizers of libraries are written in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fusegrad.eager.core.tensor import Tensor

# Those that have a form that writes into the list's tensors, too.
_BOTH = """abs acos add addcdiv addcmul asin atan ceil clamp_max clamp_min cos cosh div erf erfc exp expm1
floor frac lerp lgamma log log10 log1p log2 maximum minimum mul neg pow reciprocal round rsqrt sigmoid sign
sin sinh sqrt sub tan tanh trunc""".split()
_COPIES = ["clone", "max", "mm"]
_WRITES = ["copy_", "zero_"]


def _of_each(argument: Any, count: int) -> Sequence[Any]:
    """What an argument gives for each tensor: its own item, or the same for all."""
    if isinstance(argument, (list, tuple)):
        if len(argument) != count:
            raise RuntimeError(
                f"Tensor lists must have the same number of tensors, got {count} and {len(argument)}"
            )
        return argument
    return [argument] * count


def _numbers(name: str, arguments: list[Any]) -> list[Any]:
    """The arguments, of which the last may be the numbers of a tensor: one for each."""
    last = arguments[-1] if len(arguments) == 3 else None
    if name.startswith("addc") and isinstance(last, Tensor):
        return [*arguments[:-1], last.tolist()]
    return arguments


def _called(name: str, tensor: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """The op of one tensor, or of a number and a tensor."""
    if name.startswith("addc") and len(arguments) == 3:
        options = {**options, "value": arguments[2]}
        arguments = arguments[:2]
    if not isinstance(tensor, Tensor):
        return tensor ** arguments[0]
    if name in ("maximum", "minimum") and not isinstance(arguments[0], Tensor):
        name = "clamp_min" if name == "maximum" else "clamp_max"
    if name in ("maximum_", "minimum_"):
        lower = name == "maximum_"
        return tensor.clamp_(min=arguments[0]) if lower else tensor.clamp_(max=arguments[0])
    if name in ("clamp_min_", "clamp_max_"):
        return tensor.clamp_(**{name.removeprefix("clamp_").rstrip("_"): arguments[0]})
    return getattr(tensor, name)(*arguments, **options)


def _function(name: str) -> Callable[..., Any]:
    """The function of lists that does the method `name` for each of its tensors."""

    def function(self: Any, *arguments: Any, **options: Any) -> Any:
        listed = next((a for a in (self, *arguments) if isinstance(a, (list, tuple))), None)
        if listed is None:
            raise TypeError(f"_foreach_{name}() takes a list of tensors")
        count = len(listed)
        columns = [_of_each(a, count) for a in (self, *_numbers(name, list(arguments)))]
        named = {key: _of_each(value, count) for key, value in options.items()}
        made = [
            _called(name, row[0], tuple(row[1:]), {key: value[i] for key, value in named.items()})
            for i, row in enumerate(zip(*columns, strict=True))
        ]
        return self if name.endswith("_") else tuple(made)

    function.__name__ = function.__qualname__ = f"_foreach_{name}"
    function.__doc__ = f"`Tensor.{name}` of each tensor of a list. Source: `torch._foreach_{name}`."
    return function


def _foreach_norm(self: Sequence[Tensor], ord: Any = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    """The norm of each tensor of a list. Source: `torch._foreach_norm`."""
    return tuple(x.norm(ord, dtype=dtype) for x in self)


FOREACH: dict[str, Callable[..., Any]] = {
    f"_foreach_{name}": _function(name) for name in (*_BOTH, *(f"{n}_" for n in _BOTH), *_COPIES, *_WRITES)
} | {"_foreach_norm": _foreach_norm}
