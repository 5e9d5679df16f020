"""`torch.utils._contextlib`: what contexts are derived from that are decorators, too."""

from __future__ import annotations

from fusegrad.eager.core.state import _Mode

__all__ = ["_DecoratorContextManager"]
_DecoratorContextManager = _Mode
