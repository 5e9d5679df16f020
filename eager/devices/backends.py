"""What programs ask and set in `torch.backends.cuda`: settings that nobody reads."""

from __future__ import annotations

from typing import Any

from fusegrad.eager.core.public import locate
from fusegrad.eager.core.state import tell

__all__ = [
    "CuBLASSettings",
    "enable_cudnn_sdp",
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "flash_sdp_enabled",
    "math_sdp_enabled",
    "mem_efficient_sdp_enabled",
    "preferred_linalg_library",
]


class CuBLASSettings:
    """Settings of products on a device, kept as they are set. Source: `torch.backends.cuda.matmul`."""

    def __init__(self) -> None:
        self.allow_tf32 = False
        self.allow_fp16_reduced_precision_reduction = True
        self.allow_bf16_reduced_precision_reduction = True


_sdp = dict.fromkeys(("flash", "math", "mem_efficient", "cudnn"), True)


def _set(kind: str, enabled: bool) -> None:
    tell("sets a kind of attention")
    _sdp[kind] = enabled


def _was_set(kind: str) -> bool:
    tell("asks whether a kind of attention was set")
    return _sdp[kind]


def enable_flash_sdp(enabled: bool) -> None:
    """Set what `flash_sdp_enabled` says; attention is one. Source: `torch.backends.cuda.enable_flash_sdp`."""
    _set("flash", enabled)


def enable_math_sdp(enabled: bool) -> None:
    """Set what `math_sdp_enabled` says; attention is one. Source: `torch.backends.cuda.enable_math_sdp`."""
    _set("math", enabled)


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Set what `mem_efficient_sdp_enabled` says. Source: `torch.backends.cuda.enable_mem_efficient_sdp`."""
    _set("mem_efficient", enabled)


def enable_cudnn_sdp(enabled: bool) -> None:
    """Nothing: attention is one. Source: `torch.backends.cuda.enable_cudnn_sdp`."""
    _set("cudnn", enabled)


def flash_sdp_enabled() -> bool:
    """What was set; True at first. Source: `torch.backends.cuda.flash_sdp_enabled`."""
    return _was_set("flash")


def math_sdp_enabled() -> bool:
    """What was set; True at first. Source: `torch.backends.cuda.math_sdp_enabled`."""
    return _was_set("math")


def mem_efficient_sdp_enabled() -> bool:
    """What was set; True at first. Source: `torch.backends.cuda.mem_efficient_sdp_enabled`."""
    return _was_set("mem_efficient")


def preferred_linalg_library(backend: Any = None) -> None:
    """Nothing: there is one. Source: `torch.backends.cuda.preferred_linalg_library`."""


locate("fusegrad.backends.cuda", globals(), __all__)
