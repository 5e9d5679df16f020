"""Settings that choose among ways to compute: there is one here, and they are kept or declined."""

from __future__ import annotations

from fusegrad.eager.core.errors import failure, warn
from fusegrad.eager.core.state import tell
from fusegrad.eager.ops.declare import public

_PRECISIONS = ("highest", "high", "medium")
_precision = ["highest"]


@public
def set_float32_matmul_precision(precision: str) -> None:
    """Allow products of float32 to be less exact, which they never are.

    Source: `torch.set_float32_matmul_precision`.

    >>> import fusegrad as fg
    >>> fg.set_float32_matmul_precision("high")
    >>> fg.get_float32_matmul_precision()
    'high'
    >>> fg.set_float32_matmul_precision("highest")
    """
    if precision in _PRECISIONS:
        tell("sets the precision of products")
        _precision[0] = precision
    else:
        warn(
            f"{precision} is not one of 'highest', 'high', or 'medium'; the current"
            "setFloat32MatmulPrecision call has no effect.",
        )


@public
def get_float32_matmul_precision() -> str:
    """What was allowed last; "highest" at first. Source: `torch.get_float32_matmul_precision`."""
    tell("asks for the precision of products")
    return _precision[0]


@public
def set_flush_denormal(mode: bool) -> bool:
    """False: tiny numbers are never computed as 0. Source: `torch.set_flush_denormal`."""
    return False


@public
def get_num_interop_threads() -> int:
    """1: ops run one after the other. Source: `torch.get_num_interop_threads`."""
    return 1


@public
def set_num_interop_threads(threads: int) -> None:
    """Nothing: ops run one after the other. Source: `torch.set_num_interop_threads`.

    Raises RuntimeError for a number that is not positive.
    """
    if threads <= 0:
        raise failure(RuntimeError, f"expected a positive number of threads, got {threads}")
