"""`torch.utils.hooks`."""

import warnings
from typing import Any

from fusegrad.eager.autograd.hooks import RemovableHandle as RemovableHandle

__all__ = ["RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]


def unserializable_hook(f: Any) -> Any:
    """Mark a hook that pickles of a tensor leave out with a warning. Source: `torch.utils.hooks`."""
    f.__torch_unserializable__ = True
    return f


def warn_if_has_hooks(tensor: Any) -> None:
    """Warn of hooks that a pickle of a tensor leaves out. Source: `torch.utils.hooks`."""
    hooks = getattr(tensor, "_backward_hooks", None) or {}
    for key, hook in hooks.items():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(f"backward hook {hook!r} on tensor will not be serialized ({key})", stacklevel=2)
