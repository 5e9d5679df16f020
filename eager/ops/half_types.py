"""How ops compute with float16 and bfloat16: in float32, rounded once, as PyTorch's kernels do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.families import Composite, Elementwise
from fusegrad.eager.core.op import Op, Params, TensorType, take_halves_by, wrap
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor

# Ops that ask for the numbers next to one, which float32 has others.
_STEPS_OF_ITS_OWN = ("nextafter",)
# Where a number, which has more digits than a half type, counts as it is: as the first operand, the second.
_AS_THEY_ARE = ("mul", "div"), ("mul", "div", "floor_divide")


def _is_half(operand: Any) -> bool:
    dtype = getattr(operand, "dtype", None)
    return isinstance(dtype, np.dtype) and dtypes.is_half(dtype)


def _widened(value: Any) -> Any:
    """What a gradient rule gets in place of a half type."""
    if isinstance(value, Tensor) and _is_half(value.array):
        return ops.cast(value, dtypes.float32)
    return value


def _take_halves(op: Op) -> None:
    """Have an op compute in float32 where it gets a half type, and round what it gives, as PyTorch does.

    So do gradient rules, whose result is rounded once. Views are left as they are, and rounds of loops, whose
    ops are rounded each. Done when such a type is first used: programs without one do not ask.
    """
    if op.view or op.family == "rolled" or op.name in _STEPS_OF_ITS_OWN:
        return
    evaluate, infer, gradient = op.evaluate, op.infer, op.gradient
    single = dtypes.float32.numpy
    of_two = len(op.arguments) == 2 and isinstance(op, Elementwise | Composite)
    rounds_numbers = [of_two and op.name not in names for names in _AS_THEY_ARE]

    def inferred(types: Sequence[Any], params: Params) -> Any:
        """bfloat16 as float16 would be: NumPy counts only that among its floats."""
        kinds = {t.dtype for t in types if _is_half(t)}
        if not any(dtype.kind == "V" for dtype in kinds):
            return infer(types, params)
        like = dtypes.float16.numpy if len(kinds) == 1 else single
        made = infer([TensorType(t.shape, like) if _is_bfloat16(t) else t for t in types], params)
        if len(kinds) > 1 or params.get("dtype") is not None:
            return made
        (half,) = kinds
        outputs = [made] if isinstance(made, TensorType) else made
        narrow = tuple(TensorType(t.shape, half) if t.dtype == like else t for t in outputs)
        return narrow[0] if isinstance(made, TensorType) else narrow

    def rounded_to(operands: Sequence[Any], params: Params) -> np.dtype | None:
        """The half type that float32 stands for in what it gives, if it does."""
        if params.get("dtype") is not None:
            return None
        dtype = dtypes.result_type(operands)
        if dtypes.is_half(dtype):
            return dtype
        # Some give what their first operand is, and some refuse operands of two dtypes.
        types = [TensorType(o.shape, o.dtype) if isinstance(o, np.ndarray) else o for o in operands]
        made = inferred(types, params)
        halves = [t.dtype for t in ([made] if isinstance(made, TensorType) else made) if _is_half(t)]
        return halves[0] if halves else None

    def evaluated(args: Sequence[Any], params: Params) -> Any:
        operands = [a.array if isinstance(a, Tensor) else a for a in args]
        if not any(map(_is_half, operands)):
            return evaluate(args, params)
        half = rounded_to(operands, params)
        wide = [wrap(o.astype(single)) if _is_half(o) else a for a, o in zip(args, operands, strict=True)]
        if half is not None and of_two:
            wide = [
                _rounded(number, half) if rounds and not np.ndim(operand) else number
                for number, operand, rounds in zip(wide, operands, rounds_numbers, strict=True)
            ]
        if half is not None and op.name == "pow_number":
            params = {"exponent": _rounded(params["exponent"], half)}
        made = evaluate(wide, params)
        if half is None:
            return made
        outputs = [np.asarray(m) for m in (made if type(made) is tuple else (made,))]
        outputs = [m.astype(half) if m.dtype == single else m for m in outputs]
        return tuple(outputs) if type(made) is tuple else outputs[0]

    def derived(
        index: int, g: Any, inputs: Sequence[Any], outputs: Sequence[Tensor], types: Any, params: Params
    ) -> Tensor | None:
        given = [*(g if isinstance(g, (list, tuple)) else (g,)), *inputs, *outputs]
        if not any(_is_half(x.array) for x in given if isinstance(x, Tensor)):
            return gradient(index, g, inputs, outputs, types, params)
        wide = [_widened(part) for part in g] if isinstance(g, (list, tuple)) else _widened(g)
        halves = [isinstance(t, tuple) and dtypes.is_half(t[1]) for t in types]
        known = [TensorType(t[0], single) if half else t for t, half in zip(types, halves, strict=True)]
        made = gradient(index, wide, [*map(_widened, inputs)], [*map(_widened, outputs)], known, params)
        narrow = made is not None and halves[index]
        return ops.cast(made, dtypes.FROM_NUMPY[types[index][1]]) if narrow else made

    op.evaluate, op.infer, op.gradient = evaluated, inferred, derived  # type: ignore[method-assign]


def _is_bfloat16(operand: Any) -> bool:
    return _is_half(operand) and operand.dtype.kind == "V"


def _rounded(number: Any, half: np.dtype) -> Any:
    """A number beside tensors of a half type: float32, with the digits that the half type has."""
    array = number.array if isinstance(number, Tensor) else np.asarray(number)
    if array.dtype.kind not in "iuf":  # ops have rules of their own for others, and for too large ones
        return number
    rounded = dtypes.in_digits_of(half, array)
    return wrap(np.asarray(rounded, np.float32)) if isinstance(number, Tensor) else rounded


take_halves_by(_take_halves)
