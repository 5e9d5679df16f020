"""`FisherSnedecor`, as `torch.distributions.fishersnedecor`."""

from fusegrad.eager.distributions.positive import FisherSnedecor as FisherSnedecor

__all__ = ["FisherSnedecor"]
