"""What distributions are built with, as `torch.distributions.utils`."""

from fusegrad.eager.distributions.chances import (
    clamp_probs as clamp_probs,
    logits_to_probs as logits_to_probs,
    probs_to_logits as probs_to_logits,
)
from fusegrad.eager.distributions.distribution import (
    broadcast_all as broadcast_all,
    lazy_property as lazy_property,
    tril_matrix_to_vec as tril_matrix_to_vec,
    vec_to_tril_matrix as vec_to_tril_matrix,
)

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]
