"""How the numbers of all ranks become one: in the order of the ranks, so that all get the same at each run.

Halves are added up as floats of 32 bits and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core.dtypes import is_half
from fusegrad.eager.core.errors import failure

_UFUNCS: dict[str, Callable[..., Any]] = {
    "SUM": np.add,
    "AVG": np.add,
    "PRODUCT": np.multiply,
    "MIN": np.minimum,
    "MAX": np.maximum,
    "BAND": np.bitwise_and,
    "BOR": np.bitwise_or,
    "BXOR": np.bitwise_xor,
}
_FLOATS, _BITS = "fcV", ("BAND", "BOR", "BXOR")


def check(op: str, dtype: np.dtype[Any]) -> None:
    """Raise RuntimeError for what cannot be done with numbers of this dtype."""
    floats = dtype.kind in _FLOATS
    ordered = not (dtype.kind == "c" and op in ("MIN", "MAX"))
    if (op == "AVG" and not floats) or (op in _BITS and floats) or not ordered:
        raise failure(RuntimeError, f"ReduceOp.{op} is not there for numbers of {dtype.name}")


def reduce(op: str, parts: Sequence[np.ndarray], out: np.ndarray) -> None:
    """Put into `out` what `op` makes of the parts, in their order. `out` may be one of them."""
    dtype = out.dtype
    function = _UFUNCS[op]
    if is_half(dtype):
        total: np.ndarray = parts[0].astype(np.float32)
        for part in parts[1:]:
            function(total, part.astype(np.float32), out=total)
        if op == "AVG":
            total /= len(parts)
        out[...] = total.astype(dtype)
        return
    if len(parts) == 1:
        out[...] = parts[0]
    else:
        apart = all(part is not out for part in parts[2:])
        total = out if apart else np.empty_like(out)
        function(parts[0], parts[1], out=total)
        for part in parts[2:]:
            function(total, part, out=total)
        if total is not out:
            out[...] = total
    if op == "AVG":
        out /= len(parts)
