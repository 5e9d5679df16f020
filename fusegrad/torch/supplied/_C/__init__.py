"""`torch._C`, what is asked of it: PyTorch's C++ core, in whose place there is Python."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.batches import rules
from fusegrad.eager.ops.overrides.protocol import classes_are_not_asked, disabled, nobody_is_asked
from fusegrad.torch.supplied.futures import Future as Future

_TensorMeta = type(Tensor)
TensorType = type(Tensor)
has_lapack = has_spectral = True
has_mkl = has_mkldnn = has_cudnn = has_xpu = has_mps = has_cuda = _has_cuda = False


def _log_api_usage_once(event: str) -> None:
    """Nothing: nobody counts."""


def _get_tracing_state() -> None:
    """None: nothing is traced."""


def _nothing(*args: Any, **kwargs: Any) -> None:
    """There is nothing to set."""


def _no(*args: Any, **kwargs: Any) -> bool:
    """It is not so."""
    return False


_are_functorch_transforms_active = _cuda_isInBadFork = _is_tracing = _no
_jit_set_profiling_mode = _jit_set_profiling_executor = _jit_set_texpr_fuser_enabled = _nothing
_jit_override_can_fuse_on_cpu = _jit_override_can_fuse_on_gpu = _set_graph_executor_optimize = _nothing
_jit_set_nvfuser_enabled = _cuda_clearCublasWorkspaces = _nothing


def _debug_only_display_vmap_fallback_warnings(enabled: bool) -> None:
    """Whether ops that `vmap` does for one example after the other are named in warnings."""
    rules.setting.names_slow = enabled


def _debug_only_are_vmap_fallback_warnings_enabled() -> bool:
    """Whether they are."""
    return rules.setting.names_slow


DisableTorchFunctionSubclass, DisableTorchFunction = classes_are_not_asked, nobody_is_asked
_disabled_torch_function_impl = disabled


def _len_torch_function_stack() -> int:
    """How many modes are asked about functions."""
    return len(state.function_modes)


def _is_torch_function_all_disabled() -> bool:
    """Whether functions ask nobody."""
    return state.asks is None


class DispatchKey(enum.Enum):
    """Where PyTorch's core looks for an op; here all are Python's. Source: `torch._C.DispatchKey`."""

    CPU = "CPU"
    CUDA = "CUDA"
    AutogradCPU = "AutogradCPU"
    AutocastCPU = "AutocastCPU"
    AutocastCUDA = "AutocastCUDA"
    AutocastXPU = "AutocastXPU"


class DispatchKeySet:
    """Some of these keys. Source: `torch._C.DispatchKeySet`."""

    def __init__(self, *keys: DispatchKey) -> None:
        self.keys = frozenset(keys)

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(*self.keys | other.keys)

    def has(self, key: DispatchKey) -> bool:
        """Whether a key is among them."""
        return key in self.keys


def _is_alias_of(first: Tensor, second: Tensor) -> bool:
    """Whether two tensors lie in one memory."""
    return np.shares_memory(first.detach().numpy(), second.detach().numpy())


def _get_privateuse1_backend_name() -> str:
    """The name of a device of the user's, of which there is none."""
    return "privateuseone"
