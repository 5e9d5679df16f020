"""All ops, and their attachment to `Tensor` as methods and operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fusegrad.eager.ops import contraction, creation, elementwise, reduction, shape
from fusegrad.eager.tensor import Tensor


def _reflected(function: Callable[[Any, Any], Tensor]) -> Callable[[Tensor, Any], Any]:
    def operator(self: Tensor, other: Any) -> Any:
        return function(other, self)

    return operator


def _getitem(self: Tensor, index: Any) -> Tensor:
    basic = shape.basic_index(index, self.array.shape)
    return shape.bind(shape._getitem, (self,), {"index": basic})


_OPERATORS: dict[str, tuple[Callable[..., Tensor], bool]] = {
    # operator: (function, whether it has a reflected form)
    "add": (elementwise.add, True),
    "sub": (elementwise.sub, True),
    "mul": (elementwise.mul, True),
    "truediv": (elementwise.div, True),
    "floordiv": (elementwise.floor_divide, True),
    "mod": (elementwise.remainder, True),
    "pow": (elementwise.pow, True),
    "matmul": (contraction.matmul, True),
    "and": (elementwise.bitwise_and, True),
    "or": (elementwise.bitwise_or, True),
    "xor": (elementwise.bitwise_xor, True),
    "neg": (elementwise.neg, False),
    "abs": (elementwise.abs, False),
    "invert": (elementwise.bitwise_not, False),
    "eq": (elementwise.eq, False),
    "ne": (elementwise.ne, False),
    "lt": (elementwise.lt, False),
    "le": (elementwise.le, False),
    "gt": (elementwise.gt, False),
    "ge": (elementwise.ge, False),
}


def attach() -> None:
    """Give `Tensor` its methods and operators."""
    for family in (elementwise, reduction, shape, contraction):
        for name, function in family.METHODS.items():
            setattr(Tensor, name, function)
    for name, (function, reflected) in _OPERATORS.items():
        setattr(Tensor, f"__{name}__", function)
        if reflected:
            setattr(Tensor, f"__r{name}__", _reflected(function))
    Tensor.__getitem__ = _getitem
    Tensor.T = property(lambda self: shape.permute(self, *reversed(range(self.array.ndim))))
    Tensor.mT = property(lambda self: shape.transpose(self, -1, -2))


attach()
