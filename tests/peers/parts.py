"""What PyTorch's test tools, and programs, ask of backends that fusegrad does not have: they are not there.

Only answers: nothing here computes.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from fusegrad.eager.data.worker import Caught
from fusegrad.eager.nn.hooks import EVERYWHERE
from peers.missing import DTYPES, Missing

# What only tells kinds of tensors apart, and may be mentioned wherever tensors are compared.
KINDS = frozenset(
    """sparse_coo sparse_csr sparse_csc sparse_bsr sparse_bsc jagged _mkldnn channels_last channels_last_3d
    per_tensor_affine per_channel_affine per_tensor_symmetric per_channel_symmetric""".split()
)


def no(*_: Any, **__: Any) -> bool:
    """It is not available, not enabled, not initialised."""
    return False


def nothing(*_: Any, **__: Any) -> None:
    """There is nothing to set, reset or wait for."""


@contextmanager
def unchanged(*_: Any, **__: Any) -> Any:
    """Flags of backends: there are none to change."""
    yield


def exists(module: str) -> bool:
    """Whether a package is installed."""
    return importlib.util.find_spec(module) is not None


class Nothing:
    """A type that nothing is of."""


_PARTS: dict[str, dict[str, Any]] = {
    "torch": {
        "version": SimpleNamespace(cuda=None, hip=None, xpu=None, debug=False, __version__="2.6.0"),
        "_running_with_deploy": no,
        "is_storage": no,
        "SymInt": Nothing,
        "SymFloat": Nothing,
        "SymBool": Nothing,
        "ScriptObject": Nothing,
        "_jit_internal": SimpleNamespace(),
    },
    "torch._C": {
        "_get_privateuse1_backend_name": lambda: "privateuseone",
        "_jit_set_profiling_executor": no,
        "_get_graph_executor_optimize": no,
        "_jit_set_num_profiled_runs": no,
        "ScriptFunction": type("ScriptFunction", (), {"__call__": nothing}),
        "ScriptMethod": type("ScriptMethod", (), {"__call__": nothing}),
        "ScriptDict": Nothing,
        "ScriptList": Nothing,
        "has_lapack": True,
        "has_spectral": True,
    },
    "torch._utils": {"_element_size": lambda dtype: dtype.itemsize, "ExceptionWrapper": Caught},
    "torch._utils_internal": {"get_writable_path": str, "IS_FBSOURCE": False},
    "torch._dynamo": {"reset": nothing, "disable": lambda function: function},
    "torch._dynamo.config": {"suppress_errors": False, "inline_inbuilt_nn_modules": False},
    "torch._inductor.utils": {"GPU_TYPES": ["cuda", "xpu"]},
    "torch.compiler": {"set_stance": nothing, "is_compiling": no, "is_dynamo_compiling": no},
    # PyTorch's is the standard library's, and sends tensors through shared memory.
    "torch.multiprocessing": {name: getattr(multiprocessing, name) for name in multiprocessing.__all__},
    "torch._logging.scribe": {"open_source_signpost": nothing},
    "torch.backends": {"disable_global_flags": nothing},
    "torch.utils.deterministic": {"fill_uninitialized_memory": True},
    "torch.utils._import_utils": {"_check_module_exists": exists},
    "torch.sparse": {
        "check_sparse_tensor_invariants": SimpleNamespace(is_enabled=no, enable=nothing, disable=nothing)
    },
    "torch.storage": {
        "_get_always_warn_typed_storage_removal": no,
        "_set_always_warn_typed_storage_removal": nothing,
        "UntypedStorage": Nothing,
        "TypedStorage": Nothing,
    },
    "torch.__config__": {"show": lambda: "fusegrad"},
    "torch.__future__": {
        "set_swap_module_params_on_conversion": nothing,
        "get_swap_module_params_on_conversion": no,
        "set_overwrite_module_params_on_conversion": nothing,
        "get_overwrite_module_params_on_conversion": no,
    },
}
# Variables of PyTorch's that its tests read and set, and where fusegrad has them.
VARIABLES: dict[str, tuple[Any, str]] = {
    f"torch.nn.modules.module._global_{name}": (EVERYWHERE, name)
    for name in (
        "forward_pre_hooks",
        "forward_hooks",
        "forward_hooks_always_called",
        "backward_pre_hooks",
        "backward_hooks",
    )
}
VARIABLES["torch.nn.modules.module._global_is_full_backward_hook"] = (EVERYWHERE, "full")
_PARTS["torch"] |= {name: Missing(f"torch.{name}") for name in DTYPES | KINDS}
for _device in ("cuda", "xpu", "mps", "hpu", "mtia"):
    _PARTS[f"torch.{_device}"] = {
        "is_available": no,
        "is_initialized": no,
        "is_bf16_supported": no,
        "device_count": lambda: 0,
        "manual_seed": nothing,
        "manual_seed_all": nothing,
        "synchronize": nothing,
        "empty_cache": nothing,
        "has_magma": False,
    }
for _backend in (
    "cuda",
    "cudnn",
    "mkl",
    "mkldnn",
    "mps",
    "xnnpack",
    "openmp",
    "opt_einsum",
    "quantized",
    "cpu",
):
    _PARTS[f"torch.backends.{_backend}"] = {
        "is_available": no,
        "is_acceptable": no,
        "enabled": False,
        "version": nothing,
        "flags": unchanged,
        "deterministic": False,
        "benchmark": False,
        "allow_tf32": False,
    }


def of(name: str) -> dict[str, Any]:
    """The names that a module of torch has from here."""
    return _PARTS.get(name, {})


def has(name: str) -> bool:
    """Whether there is a module of this name, or one below it, here."""
    return any(known == name or known.startswith(f"{name}.") for known in _PARTS)
