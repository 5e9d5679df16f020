"""Whether gradients are recorded, as `torch.autograd.grad_mode`."""

from fusegrad.eager.core.state import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled"]
