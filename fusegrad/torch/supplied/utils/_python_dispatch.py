"""`torch.utils._python_dispatch`: what is asked about dispatch below autograd, of which fusegrad has none."""

from __future__ import annotations

from typing import Any

from fusegrad.eager.core.tensor import Tensor


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """Whether tensors of a class say which tensors they are made of."""
    made_of = hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")
    return issubclass(t, Tensor) and t is not Tensor and made_of


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Whether a tensor's class says which tensors it is made of."""
    return isinstance(t, Tensor) and is_traceable_wrapper_subclass_type(type(t))


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """False: there are no such modes."""
    return False


def is_in_any_mode_without_ignore_compile_internals() -> bool:
    """False, as well."""
    return False


def _get_current_dispatch_mode() -> Any:
    """None, as well."""


def _get_current_dispatch_mode_stack() -> list[Any]:
    """None of them."""
    return []
