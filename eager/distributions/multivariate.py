"""Normal vectors, by a covariance or one of its forms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

from fusegrad.eager import linalg
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.sizes import broadcast_shapes
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.distributions import constraints
from fusegrad.eager.distributions.distribution import Distribution, sized
from fusegrad.eager.distributions.noise import normal

__all__ = ["LowRankMultivariateNormal", "MultivariateNormal"]
_LOG_TWO_PI = math.log(2 * math.pi)


def matrix_times(matrix: Tensor, vector: Tensor) -> Tensor:
    """Products of matrices and vectors, batch by batch."""
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def mahalanobis(lower: Tensor, vector: Tensor) -> Tensor:
    """The squared lengths of vectors as a Cholesky factor of their covariance measures them."""
    return linalg.solve_triangular(lower, vector.unsqueeze(-1), upper=False).square().sum((-2, -1))


def half_log_det(lower: Tensor) -> Tensor:
    """Half the logarithm of the determinant, from a Cholesky factor."""
    return lower.diagonal(dim1=-2, dim2=-1).log().sum(-1)


class MultivariateNormal(Distribution):
    """Normal vectors. Source: `torch.distributions.MultivariateNormal`.

    loc: the mean. Exactly one of the covariance, its inverse and its lower Cholesky factor is given.

    >>> import fusegrad as fg
    >>> fg.distributions.MultivariateNormal(fg.zeros(2), fg.eye(2)).log_prob(fg.zeros(2))
    tensor(-1.8379)
    """

    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise failure(ValueError, "loc must be at least one-dimensional.")
        forms = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        given = {name: matrix for name, matrix in forms.items() if matrix is not None}
        if len(given) != 1:
            raise failure(
                ValueError,
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.",
            )
        ((name, matrix),) = given.items()
        if matrix.dim() < 2:
            what = "scale_tril matrix" if name == "scale_tril" else name
            raise failure(
                ValueError,
                f"{what} must be at least two-dimensional, with optional leading batch dimensions",
            )
        batch_shape = broadcast_shapes(tuple(matrix.shape[:-2]), tuple(loc.shape[:-1]))
        event_shape = loc.shape[-1:]
        self._matrix = (name, matrix.expand(sized(batch_shape, (-1, -1))))
        self.loc = loc.expand(sized(batch_shape, (-1,)))
        super().__init__(batch_shape, event_shape, validate_args)
        if name == "scale_tril":
            self._lower = matrix
        elif name == "covariance_matrix":
            self._lower = linalg.cholesky(matrix)
        else:
            self._lower = linalg.cholesky(ops.cholesky_inverse(linalg.cholesky(matrix)))

    def _parameter(self, name: str) -> Any:
        if name == "loc":
            return self.loc
        return self._matrix[1] if self._matrix[0] == name else None

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = self._get_checked_instance(MultivariateNormal, _instance)
        new.loc = self.loc.expand(sized(batch_shape, self.event_shape))
        new._lower = self._lower
        matrix = self._matrix[1].expand(sized(batch_shape, self.event_shape, self.event_shape))
        new._matrix = (self._matrix[0], matrix)
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _wide(self, matrix: Tensor) -> Tensor:
        return matrix.expand(sized(self._batch_shape, self._event_shape, self._event_shape))

    @property
    def scale_tril(self) -> Tensor:
        """The lower Cholesky factor of the covariance."""
        return self._wide(self._lower)

    @property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        if self._matrix[0] == "covariance_matrix":
            return self._matrix[1]
        return self._wide(self._lower @ self._lower.mT)

    @property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        if self._matrix[0] == "precision_matrix":
            return self._matrix[1]
        return self._wide(ops.cholesky_inverse(self._lower))

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self._lower.square().sum(-1).expand(sized(self._batch_shape, self._event_shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        noise = normal(self._extended_shape(sample_shape), self.loc)
        return self.loc + matrix_times(self._lower, noise)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        length = mahalanobis(self._lower, value - self.loc)
        return -0.5 * (self._event_shape[0] * _LOG_TWO_PI + length) - half_log_det(self._lower)

    def entropy(self) -> Tensor:
        one = 0.5 * self._event_shape[0] * (1.0 + _LOG_TWO_PI) + half_log_det(self._lower)
        return one.expand(self._batch_shape)


class LowRankMultivariateNormal(Distribution):
    """Normal vectors with the covariance `cov_factor @ cov_factor.T + diag(cov_diag)`.

    Source: `torch.distributions.LowRankMultivariateNormal`.

    >>> import fusegrad as fg
    >>> low = fg.distributions.LowRankMultivariateNormal(fg.zeros(2), fg.ones(2, 1), fg.ones(2))
    >>> low.variance
    tensor([2., 2.])
    """

    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None
    ) -> None:
        if loc.dim() < 1:
            raise failure(ValueError, "loc must be at least one-dimensional.")
        if cov_factor.dim() < 2:
            raise failure(
                ValueError,
                "cov_factor must be at least two-dimensional, with optional leading batch dimensions",
            )
        size = loc.shape[-1]
        if cov_factor.shape[-2] != size:
            raise failure(ValueError, f"cov_factor must be a batch of matrices with shape {size} x m")
        if cov_diag.shape[-1:] != (size,):
            raise failure(ValueError, f"cov_diag must be a batch of vectors with shape {(size,)}")
        batch_shape = broadcast_shapes(
            tuple(loc.shape[:-1]), tuple(cov_factor.shape[:-2]), tuple(cov_diag.shape[:-1])
        )
        self.loc = loc.expand(sized(batch_shape, (size,)))
        self.cov_factor = cov_factor.expand(sized(batch_shape, cov_factor.shape[-2:]))
        self.cov_diag = cov_diag.expand(sized(batch_shape, (size,)))
        super().__init__(batch_shape, (size,), validate_args)

    @property
    def _capacitance(self) -> Tensor:
        """The Cholesky factor of 1 + W.T D^-1 W, through which the covariance is inverted (Woodbury)."""
        factor = self.cov_factor
        inner = (factor / self.cov_diag.unsqueeze(-1)).mT @ factor
        return linalg.cholesky(inner + ops.eye(factor.shape[-1], dtype=factor.dtype))

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self.cov_factor.square().sum(-1) + self.cov_diag

    @property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        return self.cov_factor @ self.cov_factor.mT + self.cov_diag.diag_embed()

    @property
    def scale_tril(self) -> Tensor:
        """The lower Cholesky factor of the covariance."""
        return linalg.cholesky(self.covariance_matrix)

    @property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        scaled = self.cov_factor.mT / self.cov_diag.unsqueeze(-2)
        part = linalg.solve_triangular(self._capacitance, scaled, upper=False)
        return self.cov_diag.reciprocal().diag_embed() - part.mT @ part

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        inner = normal(sized(shape[:-1], self.cov_factor.shape[-1:]), self.loc)
        outer = normal(shape, self.loc)
        return self.loc + matrix_times(self.cov_factor, inner) + self.cov_diag.sqrt() * outer

    def _half_log_det(self) -> Tensor:
        return half_log_det(self._capacitance) + 0.5 * self.cov_diag.log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        away = value - self.loc
        scaled = away / self.cov_diag
        inner = matrix_times(self.cov_factor.mT, scaled)
        length = (away * scaled).sum(-1) - mahalanobis(self._capacitance, inner)
        return -0.5 * (self._event_shape[0] * _LOG_TWO_PI + length) - self._half_log_det()

    def entropy(self) -> Tensor:
        return 0.5 * self._event_shape[0] * (1.0 + _LOG_TWO_PI) + self._half_log_det()


locate("fusegrad.distributions", globals(), __all__)
