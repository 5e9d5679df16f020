"""`LKJCholesky`, as `torch.distributions.lkj_cholesky`."""

from fusegrad.eager.distributions.multivariate import LKJCholesky as LKJCholesky

__all__ = ["LKJCholesky"]
