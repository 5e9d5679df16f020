"""Ops whose results have sizes that values decide: where a mask is true, what is distinct, or repeated.

Such an op has the parameter `size`, which its rule of shapes needs and NumPy does not: eager leaves it out.
Interpreters may want it beforehand (`Interpreter.decides_size`): a recorder finds it by an op, and guards it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fusegrad.eager.core.op import Op, Params, bind, evaluate
from fusegrad.eager.core.stand_in import stands_for_batch
from fusegrad.eager.core.state import state

# Their names.
SIZED = frozenset({"nonzero", "repeated_indices", "bincount", "distinct", "count_distinct"})


def bind_sized(op: Op, args: tuple[Any, ...], params: Params, what: str, count: Callable[[], Any]) -> Any:
    """What the op gives.

    what: what it is asked for, in words. count: gives the size by ops, a tensor without dimensions.
    """
    interpreter = state.interpreter
    if interpreter is None:
        return evaluate(op, args, params)
    if stands_for_batch(args[0].array):
        return bind(op, args, params)  # which is refused: examples would differ in shape
    size = interpreter.decides_size(what, args[0], (op.name, *params.items()), count)
    return evaluate(op, args, params) if size is None else bind(op, args, {**params, "size": size})
