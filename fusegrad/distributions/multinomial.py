"""`Multinomial`, as `torch.distributions.multinomial`."""

from fusegrad.eager.distributions.classes import Multinomial as Multinomial

__all__ = ["Multinomial"]
