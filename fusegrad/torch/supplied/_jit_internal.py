"""`torch._jit_internal`: decorators that mean something to scripts, of which there are none."""

from fusegrad.torch.supplied.jit import _itself, _overload, _overload_method, export, ignore, unused

__all__ = ["_copy_to_script_wrapper", "_overload", "_overload_method", "export", "ignore", "unused"]

_copy_to_script_wrapper = _itself
