"""What programs ask of PyTorch about devices and backends that fusegrad does not have: they are not there.

Only answers: nothing here computes.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import fusegrad.func
from fusegrad.eager.core.errors import warn
from fusegrad.eager.nn.hooks import EVERYWHERE
from fusegrad.eager.utils.vmap import chunk_vmap
from fusegrad.torch.absent import DTYPES, KINDS, Absent
from fusegrad.torch.stand_ins import a_class, a_function

# The PyTorch whose behaviour fusegrad's is held against.
VERSION = "2.13.0+fusegrad"


def no(*_: Any, **__: Any) -> bool:
    """It is not available, not enabled, not initialised."""
    return False


def nothing(*_: Any, **__: Any) -> None:
    """There is nothing to set, reset or wait for."""


def none_of_them(*_: Any, **__: Any) -> int:
    """How many devices there are."""
    return 0


@contextmanager
def unchanged(*_: Any, **__: Any) -> Iterator[None]:
    """Flags of backends: there are none to change."""
    yield


_TRANSFORMS = ("grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "vjp", "vmap")


def _moved(name: str) -> Any:
    """A transform under the name of the library that it was in before, which warns."""

    def transform(*args: Any, **kwargs: Any) -> Any:
        place = "torch.vmap" if name == "vmap" else f"torch.func.{name}"
        warn(
            "We've integrated functorch into PyTorch. As the final step of the integration, "
            f"`functorch.{name}` is deprecated as of PyTorch 2.0 and will be deleted in a future version of "
            f"PyTorch >= 2.3. Please use `{place}` instead",
            FutureWarning,
        )
        return getattr(fusegrad.func, name)(*args, **kwargs)

    transform.__name__ = transform.__qualname__ = name
    return transform


_PARTS: dict[str, dict[str, Any]] = {
    "torch": {
        "__version__": VERSION,
        "is_vulkan_available": no,
        "is_autocast_ipu_enabled": no,
        "is_autocast_xla_enabled": no,
    },
    "torch.version": {"__version__": VERSION},
    # PyTorch's is the standard library's, and sends tensors through shared memory.
    "torch.multiprocessing": {name: getattr(multiprocessing, name) for name in multiprocessing.__all__},
    "torch.backends": {"disable_global_flags": nothing},
    "torch.sparse": {
        "check_sparse_tensor_invariants": SimpleNamespace(is_enabled=no, enable=nothing, disable=nothing)
    },
    "torch.__config__": {"show": lambda: "fusegrad"},
    "functorch": {
        name: a_class(f"functorch.{name}") for name in ("FunctionalModule", "FunctionalModuleWithBuffers")
    }
    | {name: a_function(f"functorch.{name}") for name in ("make_functional", "make_functional_with_buffers")}
    | {name: _moved(name) for name in _TRANSFORMS},
    "functorch.experimental": {"chunk_vmap": chunk_vmap}
    | {name: getattr(fusegrad.func, name) for name in ("hessian", "jacfwd", "jvp")},
    # Libraries ask whether a tensor is one of these.
    "functorch.dim": {name: a_class(f"functorch.dim.{name}") for name in ("Dim", "DimList", "Tensor")}
    | {"dims": a_function("functorch.dim.dims")},
}
# Variables of PyTorch's that programs read and set, and where fusegrad has them.
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
for _device in ("cuda", "xpu", "mps", "hpu", "mtia"):
    _PARTS[f"torch.{_device}"] = {
        "is_available": no,
        "is_initialized": no,
        "is_bf16_supported": no,
        "device_count": none_of_them,
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


def of(name: str, absent: type[Absent] = Absent) -> dict[str, Any]:
    """The names that a module of torch has from here; `absent` makes those that may only be mentioned."""
    mentioned = DTYPES | KINDS if name == "torch" else ()
    return {n: absent(f"torch.{n}") for n in mentioned} | _PARTS.get(name, {})


def has(name: str) -> bool:
    """Whether there is a module of this name, or one below it, here."""
    return any(known == name or known.startswith(f"{name}.") for known in _PARTS)
