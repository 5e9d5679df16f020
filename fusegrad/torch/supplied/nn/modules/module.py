"""`torch.nn.modules.module`."""

from fusegrad.eager.nn.module import IncompatibleKeys as _IncompatibleKeys

__all__ = ["_IncompatibleKeys"]
_EXTRA_STATE_KEY_SUFFIX = "_extra_state"
