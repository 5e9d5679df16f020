"""`TransformedDistribution`, as `torch.distributions.transformed_distribution`."""

from fusegrad.eager.distributions.composed import TransformedDistribution as TransformedDistribution

__all__ = ["TransformedDistribution"]
