"""What PyTorch's test tools ask of PyTorch's insides, beyond what programs do: they are not there.

Only answers: nothing here computes.
"""

from __future__ import annotations

import contextlib
import importlib.util
from types import SimpleNamespace
from typing import Any

from fusegrad.eager.io import storage
from fusegrad.torch.parts import no, nothing
from peers.missing import Missing


def exists(module: str) -> bool:
    """Whether a package is installed."""
    return importlib.util.find_spec(module) is not None


class Nothing:
    """A type that nothing is of."""


PARTS: dict[str, dict[str, Any]] = {
    "torch": {
        "version": SimpleNamespace(cuda=None, hip=None, xpu=None, debug=False, __version__="2.6.0"),
        "_running_with_deploy": no,
        "SymInt": Nothing,
        "SymFloat": Nothing,
        "SymBool": Nothing,
        "ScriptObject": Nothing,
        "_jit_internal": SimpleNamespace(),
        "ops": Missing("torch.ops"),  # lists of ops mention those of PyTorch's core
    },
    "torch._C": {
        "_DisableFuncTorch": contextlib.nullcontext,
        "_get_privateuse1_backend_name": lambda: "privateuseone",
        "_jit_set_profiling_executor": no,
        "_get_graph_executor_optimize": no,
        "_jit_set_num_profiled_runs": no,
        "ScriptFunction": type("ScriptFunction", (), {"__call__": nothing}),
        "ScriptMethod": type("ScriptMethod", (), {"__call__": nothing}),
        "ScriptDict": Nothing,
        "ScriptList": Nothing,
        "DispatchKey": Missing("torch._C.DispatchKey"),
        "has_lapack": True,
        "has_spectral": True,
    },
    "torch._prims_common.wrappers": {"_maybe_remove_out_wrapper": lambda function: function},
    "torch.utils._mode_utils": {"no_dispatch": contextlib.nullcontext},
    "torch._utils": {"_element_size": lambda dtype: dtype.itemsize},
    "torch._utils_internal": {"get_writable_path": str, "IS_FBSOURCE": False},
    "torch._dynamo": {"reset": nothing, "disable": lambda function: function},
    "torch._dynamo.config": {"suppress_errors": False, "inline_inbuilt_nn_modules": False},
    "torch._inductor.utils": {"GPU_TYPES": ["cuda", "xpu"]},
    "torch._logging.scribe": {"open_source_signpost": nothing},
    "torch.utils.deterministic": {"fill_uninitialized_memory": True},
    # Which devices have implementations for lists of tensors.
    "torch.utils._foreach_utils": {
        "_get_foreach_kernels_supported_devices": list,
        "_get_fused_kernels_supported_devices": list,
    },
    "torch.utils._import_utils": {"_check_module_exists": exists},
    "torch.storage": {
        "_get_always_warn_typed_storage_removal": no,
        "_set_always_warn_typed_storage_removal": nothing,
        "UntypedStorage": storage.UntypedStorage,
        "TypedStorage": storage.TypedStorage,
    },
    "torch.__future__": {
        "set_swap_module_params_on_conversion": nothing,
        "get_swap_module_params_on_conversion": no,
        "set_overwrite_module_params_on_conversion": nothing,
        "get_overwrite_module_params_on_conversion": no,
    },
}
