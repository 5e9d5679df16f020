"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from collections.abc import Callable as _Callable
from typing import Any as _Any

from fusegrad.eager.autograd.func import (
    grad as grad,
    grad_and_value as grad_and_value,
    hessian as hessian,
    jacfwd as jacfwd,
    jacrev as jacrev,
    jvp as jvp,
    value_and_grad as value_and_grad,
    vjp as vjp,
)
from fusegrad.eager.autograd.functional_call import functional_call as functional_call
from fusegrad.eager.autograd.levels import Argnums as _Argnums
from fusegrad.eager.utils.vmap import stack_module_state as stack_module_state, vmap as vmap

def jacobian(
    func: _Callable[..., _Any], argnums: _Argnums = 0, *, has_aux: bool = False, chunk_size: int | None = None
) -> _Callable[..., _Any]: ...
