"""`Beta`, as `torch.distributions.beta`."""

from fusegrad.eager.distributions.shares import Beta as Beta

__all__ = ["Beta"]
