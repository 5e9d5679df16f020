"""`torch._dynamo.eval_frame`."""

from typing import Any

from fusegrad.torch.supplied._dynamo import __getattr__ as __getattr__

__all__ = ["is_dynamo_supported"]


def is_dynamo_supported() -> bool:
    """True: `torch.compile` works here."""
    return True


check_if_dynamo_supported: Any = is_dynamo_supported
