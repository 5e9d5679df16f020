"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.eager.devices.absent import is_built as is_built
from fusegrad.eager.devices.backends import (
    CuBLASSettings as CuBLASSettings,
    CuBLASSettings as _CuBLASSettings,
    enable_cudnn_sdp as enable_cudnn_sdp,
    enable_flash_sdp as enable_flash_sdp,
    enable_math_sdp as enable_math_sdp,
    enable_mem_efficient_sdp as enable_mem_efficient_sdp,
    flash_sdp_enabled as flash_sdp_enabled,
    math_sdp_enabled as math_sdp_enabled,
    mem_efficient_sdp_enabled as mem_efficient_sdp_enabled,
    preferred_linalg_library as preferred_linalg_library,
)

matmul: _CuBLASSettings
