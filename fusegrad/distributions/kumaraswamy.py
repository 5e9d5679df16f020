"""`Kumaraswamy`, as `torch.distributions.kumaraswamy`."""

from fusegrad.eager.distributions.transformed import Kumaraswamy as Kumaraswamy

__all__ = ["Kumaraswamy"]
