"""The floating-point operations of a call, counted as torch's eager computes it.

Products and convolutions by torch's own formulas, small linear algebra by the usual ones, every other op
that computes one for each element of what it gives or reduces. Views and copies count nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# By the last part of the op's name: operations for n×n matrices.
CUBIC = {"linalg_cholesky_ex": 1 / 3, "linalg_inv_ex": 2.0, "_linalg_solve_ex": 2 / 3, "_linalg_det": 2 / 3}
CUBIC |= {"_linalg_slogdet": 2 / 3, "linalg_lu_factor_ex": 2 / 3, "_linalg_eigh": 4 / 3}
NOTHING = ("view", "expand", "permute", "transpose", "t", "slice", "select", "detach", "unsqueeze", "squeeze")
NOTHING += (
    "_unsafe_view",
    "alias",
    "clone",
    "empty",
    "empty_like",
    "zeros",
    "zeros_like",
    "ones_like",
    "copy_",
)
NOTHING += (
    "new_zeros",
    "new_empty",
    "_to_copy",
    "cat",
    "stack",
    "fill_",
    "zero_",
    "as_strided",
    "unbind",
    "split",
)
NOTHING += (
    "full",
    "full_like",
    "arange",
    "scalar_tensor",
    "index",
    "gather",
    "unfold",
    "diagonal",
    "flip",
    "roll",
)


def operations(call: Callable[[], Any]) -> int:
    """How many a call takes."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import flop_registry

    total = 0.0

    def sizes(values: Any) -> list[int]:
        if isinstance(values, torch.Tensor):
            return [values.numel()]
        return (
            [size for value in values for size in sizes(value)] if isinstance(values, (list, tuple)) else []
        )

    class Counter(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            nonlocal total
            result = function(*args, **(kwargs or {}))
            name = function.overloadpacket.__name__
            if function.overloadpacket in flop_registry:
                total += flop_registry[function.overloadpacket](*args, **(kwargs or {}), out_val=result)
            elif name in CUBIC:
                total += CUBIC[name] * args[0].numel() * args[0].shape[-1]
            elif name == "linalg_solve_triangular":
                total += args[1].numel() * args[0].shape[-1]
            elif name not in NOTHING:
                total += max([*sizes(result), *sizes(args)], default=0)
            return result

    with Counter():
        call()
    return int(total)
