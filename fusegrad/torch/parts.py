"""What programs ask of PyTorch about devices and backends that fusegrad does not have: they are not there.

Only answers: nothing here computes.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from fusegrad.eager.nn.hooks import EVERYWHERE
from fusegrad.torch.absent import DTYPES, KINDS, Absent

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


def itself(function: Any) -> Any:
    """A mark for a compiler that is not there."""
    return function


_PARTS: dict[str, dict[str, Any]] = {
    "torch": {"__version__": VERSION},
    "torch.version": {"__version__": VERSION},
    "torch.compiler": {
        "set_stance": nothing,
        "is_compiling": no,
        "is_dynamo_compiling": no,
        "allow_in_graph": itself,
    },
    "torch.fx": {"wrap": itself},
    "torch.distributed": {"is_available": no, "is_initialized": no},
    # PyTorch's is the standard library's, and sends tensors through shared memory.
    "torch.multiprocessing": {name: getattr(multiprocessing, name) for name in multiprocessing.__all__},
    "torch.backends": {"disable_global_flags": nothing},
    "torch.sparse": {
        "check_sparse_tensor_invariants": SimpleNamespace(is_enabled=no, enable=nothing, disable=nothing)
    },
    "torch.__config__": {"show": lambda: "fusegrad"},
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

# Modules of PyTorch's whose names the package has that they lie in, and no module of their own here.
_IN_THEIR_PACKAGE = """
binomial cauchy chi2 constraint_registry continuous_bernoulli exp_family exponential fishersnedecor
generalized_pareto geometric gumbel half_cauchy half_normal inverse_gamma kumaraswamy lkj_cholesky log_normal
logistic_normal lowrank_multivariate_normal mixture_same_family multinomial negative_binomial pareto poisson
studentT von_mises weibull wishart
"""
# Functions of fusegrad's that have the names of one of torch's modules.
BEHIND = {"torch.jit": "jit"}
PACKAGES = {f"torch.distributions.{name}": "torch.distributions" for name in _IN_THEIR_PACKAGE.split()}


def of(name: str, absent: type[Absent] = Absent) -> dict[str, Any]:
    """The names that a module of torch has from here; `absent` makes those that may only be mentioned."""
    mentioned = DTYPES | KINDS if name == "torch" else ()
    return {n: absent(f"torch.{n}") for n in mentioned} | _PARTS.get(name, {})


def has(name: str) -> bool:
    """Whether there is a module of this name, or one below it, here."""
    return name in BEHIND or any(known == name or known.startswith(f"{name}.") for known in _PARTS)
