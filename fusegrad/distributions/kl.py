"""Divergences, as `torch.distributions.kl`."""

from fusegrad.eager.distributions.kl_pairs import kl_divergence as kl_divergence, register_kl as register_kl

__all__ = ["kl_divergence", "register_kl"]
