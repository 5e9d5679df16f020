"""What distributions are built with, as `torch.distributions.utils`."""

from fusegrad.eager.distributions.chances import (
    clamp_probs as clamp_probs,
    logits_to_probs as logits_to_probs,
    probs_to_logits as probs_to_logits,
)
from fusegrad.eager.distributions.distribution import broadcast_all as broadcast_all

__all__ = ["broadcast_all", "clamp_probs", "logits_to_probs", "probs_to_logits"]
