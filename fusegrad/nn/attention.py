"""Which way attention is computed, as `torch.nn.attention`: there is one."""

from fusegrad.eager.ops.nn.attention import SDPBackend, sdpa_kernel

__all__ = ["SDPBackend", "sdpa_kernel"]
