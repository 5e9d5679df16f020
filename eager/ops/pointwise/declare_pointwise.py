"""How pointwise ops are declared: from NumPy function, rules and docstring to function, method, operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core.dtypes import plain_number
from fusegrad.eager.core.errors import failure, type_name
from fusegrad.eager.core.families import DTypeRule, Elementwise, Pointwise
from fusegrad.eager.core.names import attach, renamed
from fusegrad.eager.core.op import Op, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.arguments import MISSING
from fusegrad.eager.ops.by_name import by_name
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.inplace import ONE_OP, OneOp
from fusegrad.eager.ops.overrides.asking import answer, answer_operator, has_strangers

# Types that may stand in an equation as they are; others are converted by `operand`.
OPERANDS: set[type] = {Tensor, float, int, bool, complex}
TENSORS: set[type] = {Tensor}
Unary = Callable[[Any], Tensor]
# By the functions of declared ops: what users get in their place, which is what `forms.py` makes of others. A
# further call would cost a small op a tenth.
FORMS: dict[Any, Any] = {}


def operand(value: Any) -> Any:
    """`value` as a tensor or Python number; raises TypeError for anything else."""
    converted = convertible(value)
    if converted is None:
        raise failure(TypeError, f"expected a Tensor or a number, got {type_name(value)}{_hint(value)}")
    return converted


def _hint(value: Any) -> str:
    return "; fg.from_dlpack() makes a tensor of it" if hasattr(value, "__dlpack__") else ""


def tensor_operand(value: Any) -> Tensor:
    """`value` as a tensor, where PyTorch takes no number; raises TypeError for one."""
    if isinstance(value, Tensor):
        return value
    converted = convertible(value)
    if not isinstance(converted, Tensor):
        raise failure(TypeError, f"expected a Tensor, got {type_name(value)}{_hint(value)}")
    return converted


def convertible(value: Any) -> Any:
    """`value` as a tensor or Python number, or None where it is neither."""
    if type(value) in OPERANDS or isinstance(value, Tensor):
        return value
    if isinstance(value, np.ndarray):
        return ops.from_numpy(value)
    number = plain_number(value)
    return number if type(number) in OPERANDS else None


def number(value: Any) -> Any:
    """`value`, or what a tensor without dimensions holds, as a Python number; TypeError for anything else."""
    plain = value.item() if isinstance(value, Tensor) else plain_number(value)
    if type(plain) in OPERANDS:
        return plain
    raise failure(TypeError, f"expected a number, got {type_name(value)}")


def unary(
    name: str,
    numpy: Callable[..., Any],
    rule: DTypeRule,
    scalar: str | Callable[..., Any],
    vjp: Callable[..., Any] | None,
    doc: str,
    grad_name: str | None = None,
    operator: str | None = None,
    family: type[Elementwise] = Elementwise,
    aliases: Sequence[str] = (),
    inplace: bool = True,
    named: bool = True,
) -> Callable[[Any], Tensor]:
    """Declare a one-operand op and give its public function; see `binary`."""
    op = family(name, "x", numpy, rule, scalar, None if vjp is None else {"x": vjp}, grad_name)
    function = function_of_one(op, name, doc)
    if operator is not None:
        attach(function, f"__{operator}__")
    return public(aliases=aliases, method=True, inplace=inplace)(function) if named else function


def binary(
    name: str,
    numpy: Callable[..., Any],
    rule: DTypeRule,
    scalar: str | Callable[..., Any],
    vjp: tuple[Callable[..., Any] | None, Callable[..., Any] | None] | None,
    doc: str,
    grad_name: str | None = None,
    operator: str | None = None,
    reflected: bool = True,
    numbers: str = "xy",
    alone: bool = False,
    family: type[Elementwise] = Elementwise,
    refuses: str = "",
    aliases: Sequence[str] = (),
    inplace: bool = True,
    named: bool = True,
) -> Callable[[Any, Any], Tensor]:
    """Declare a two-operand op and give its public function.

    operator: Python's, if it has one. refuses: see `Op`.
    numbers, alone: which operands may be Python numbers, and whether both at once.
    family: a subclass with a dtype rule of its own.
    aliases, inplace: what else it is called, and whether it has an in-place form; see `public`.
    named: whether the function is the public one of that name, and not one that is made with it.
    """
    rules = None if vjp is None else {"x": vjp[0], "y": vjp[1]}
    op = family(name, "x y", numpy, rule, scalar, rules, grad_name, alone=alone, refuses=refuses)
    if operator is not None:
        declare_operator(operator, lambda x, y: bind(op, (x, y)), reflected)
    function = function_of_two(op, name, doc, numbers)
    return public(aliases=aliases, method=True, inplace=inplace)(function) if named else function


def function_of_one(op: Op, name: str, doc: str, source: str | None = None) -> Callable[[Any], Tensor]:
    """The public function of a declared one-operand op."""

    def function(input: Any) -> Tensor:
        return bind(op, (input if type(input) in OPERANDS else operand(input),))

    def form(
        input: Any = MISSING,
        surplus: Any = None,
        out: Any = None,
        x: Any = None,
        a: Any = None,
        x1: Any = None,
    ) -> Any:
        more = surplus is not None or out is not None or x is not None or a is not None or x1 is not None
        if more or input is MISSING:
            return by_name(function, (input,), {"out": out, "x": x, "a": a, "x1": x1}, surplus)
        try:
            return bind(op, (input if type(input) in OPERANDS else operand(input),))
        except TypeError:
            if has_strangers({0: input}):
                return answer(form, {0: input})
            raise

    FORMS[function] = form
    if isinstance(op, Pointwise):
        ONE_OP[function] = OneOp(op)
    return documented(function, name, doc, source)


def function_of_two(
    op: Op, name: str, doc: str, numbers: str, source: str | None = None
) -> Callable[[Any, Any], Tensor]:
    """The public function of a declared two-operand op; see `binary`."""
    first, take_first = (OPERANDS, operand) if "x" in numbers else (TENSORS, tensor_operand)
    second, take_second = (OPERANDS, operand) if "y" in numbers else (TENSORS, tensor_operand)

    def function(input: Any, other: Any) -> Tensor:
        return bind(
            op,
            (
                input if type(input) in first else take_first(input),
                other if type(other) in second else take_second(other),
            ),
        )

    def form(
        input: Any = MISSING,
        other: Any = MISSING,
        surplus: Any = None,
        out: Any = None,
        x: Any = None,
        a: Any = None,
        x1: Any = None,
        x2: Any = None,
    ) -> Any:
        more = surplus is not None or out is not None or x is not None or a is not None or x1 is not None
        if more or x2 is not None or input is MISSING or other is MISSING:
            named = {"out": out, "x": x, "a": a, "x1": x1, "x2": x2}
            return by_name(function, (input, other), named, surplus)
        try:
            return bind(
                op,
                (
                    input if type(input) in first else take_first(input),
                    other if type(other) in second else take_second(other),
                ),
            )
        except TypeError:
            if has_strangers({0: input, 1: other}):
                return answer(form, {0: input, 1: other})
            raise

    FORMS[function] = form
    if isinstance(op, Pointwise):
        ONE_OP[function] = OneOp(op)
    return documented(function, name, doc, source)


def opaque_unary(
    name: str,
    numpy: Callable[..., Any],
    rule: DTypeRule,
    vjp: Callable[..., Any] | None,
    doc: str,
    source: str | None = None,
) -> Callable[[Any], Tensor]:
    """As `unary`, for what kernels cannot say; it is no public one yet (see `public`)."""
    op = Pointwise(name, "x", numpy, rule, None if vjp is None else {"x": vjp})
    return function_of_one(op, name, doc, source)


def opaque_binary(
    name: str,
    numpy: Callable[..., Any],
    rule: DTypeRule,
    vjp: tuple[Callable[..., Any] | None, Callable[..., Any] | None] | None,
    doc: str,
    numbers: str = "",
    source: str | None = None,
) -> Callable[[Any, Any], Tensor]:
    """As `binary`, for what kernels cannot say; it is no public one yet (see `public`)."""
    op = Pointwise(name, "x y", numpy, rule, None if vjp is None else {"x": vjp[0], "y": vjp[1]})
    return function_of_two(op, name, doc, numbers, source)


def from_scipy(name: str) -> Callable[..., np.ndarray]:
    """`scipy.special.NAME` on arrays of one floating dtype; SciPy is imported at its first use."""

    def evaluate(*arrays: np.ndarray) -> np.ndarray:
        from scipy import special

        dtype = next(a.dtype for a in arrays if isinstance(a, np.ndarray))  # beside numbers, maybe
        return getattr(special, name)(*arrays).astype(dtype, copy=False)

    return evaluate


def unknown(what: str) -> Callable[..., Any]:
    """The gradient rule where nobody knows the derivative: raises NotImplementedError, as PyTorch does."""

    def rule(g: Tensor) -> Tensor:
        raise failure(NotImplementedError, f"the derivative for '{what}' is not implemented.")

    rule.is_unknown = True  # type: ignore[attr-defined]
    return rule


def declare_operator(name: str, function: Callable[[Any, Any], Any], reflected: bool = True) -> None:
    """Python's binary operator `name` (and its reflected form), for what can be an operand."""

    def operator(self: Tensor, other: Any) -> Any:
        if type(other) not in OPERANDS:
            operand = convertible(other)
            if operand is None:
                return answer_operator(f"__{name}__", self, other)
            other = operand
        return function(self, other)

    def backwards(self: Tensor, other: Any) -> Any:
        if type(other) not in OPERANDS:
            operand = convertible(other)
            if operand is None:
                return answer_operator(f"__r{name}__", self, other)
            other = operand
        if not isinstance(self, Tensor):
            raise failure(TypeError, f"expected a Tensor, got {type(self).__name__}")
        return function(other, self)

    attach(renamed(operator, f"__{name}__"))
    if reflected:
        attach(renamed(backwards, f"__r{name}__"))


def documented(
    function: Callable[..., Any], name: str, doc: str, source: str | None = None
) -> Callable[..., Any]:
    """A generated public function, with its name and docstring."""
    renamed(function, name)
    function.__doc__ = f"{doc} Shapes broadcast. Source: `torch.{source or name}`."
    return function
