"""Normal vectors, by a covariance or one of its forms; and random covariances and correlations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

from fusegrad.eager import linalg
from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure, warn
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.sizes import broadcast_shapes
from fusegrad.eager.core.state import no_grad
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.distributions import constraints
from fusegrad.eager.distributions.distribution import (
    Distribution,
    ExponentialFamily,
    broadcast_all,
    sized,
)
from fusegrad.eager.distributions.noise import gamma, normal
from fusegrad.eager.distributions.shares import Beta

__all__ = ["LKJCholesky", "LowRankMultivariateNormal", "MultivariateNormal", "Wishart"]
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


def _lower_factor(name: str, matrix: Tensor) -> Tensor:
    """The lower Cholesky factor of a covariance that is given in one of its forms."""
    if name == "scale_tril":
        return matrix
    if name == "covariance_matrix":
        return linalg.cholesky(matrix)
    return linalg.cholesky(ops.cholesky_inverse(linalg.cholesky(matrix)))


class _OfCovariance(Distribution):
    """A distribution by a covariance, its inverse or its lower Cholesky factor: the form is kept as given."""

    _matrix: tuple[str, Tensor]
    _unbroadcasted_scale_tril: Tensor  # PyTorch's name, which classes of users' derive by

    def _one_form(self, covariance: Any, precision: Any, lower: Any) -> tuple[str, Tensor]:
        """Which form is given, and it. Raises ValueError for none, several, or no matrix."""
        forms = {"covariance_matrix": covariance, "precision_matrix": precision, "scale_tril": lower}
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
        return name, matrix

    def _parameter(self, name: str) -> Any:
        if name in ("covariance_matrix", "precision_matrix", "scale_tril"):
            return self._matrix[1] if self._matrix[0] == name else None
        return super()._parameter(name)

    def _expand_forms(self, new: Any, batch_shape: Sequence[int]) -> Any:
        """Give an expanded distribution the matrix, and make it one."""
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        new._matrix = (self._matrix[0], self._matrix[1].expand(sized(batch_shape, (-1, -1))))
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _wide(self, matrix: Tensor) -> Tensor:
        return matrix.expand(sized(self._batch_shape, (-1, -1)))

    @property
    def scale_tril(self) -> Tensor:
        """The lower Cholesky factor of the covariance."""
        return self._wide(self._unbroadcasted_scale_tril)

    @property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        if self._matrix[0] == "covariance_matrix":
            return self._matrix[1]
        return self._wide(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT)

    @property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        if self._matrix[0] == "precision_matrix":
            return self._matrix[1]
        return self._wide(ops.cholesky_inverse(self._unbroadcasted_scale_tril))


class MultivariateNormal(_OfCovariance):
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
        name, matrix = self._one_form(covariance_matrix, precision_matrix, scale_tril)
        batch_shape = broadcast_shapes(tuple(matrix.shape[:-2]), tuple(loc.shape[:-1]))
        self._matrix = (name, matrix.expand(sized(batch_shape, (-1, -1))))
        self.loc = loc.expand(sized(batch_shape, (-1,)))
        super().__init__(batch_shape, loc.shape[-1:], validate_args)
        self._unbroadcasted_scale_tril = _lower_factor(name, matrix)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = self._get_checked_instance(MultivariateNormal, _instance)
        new.loc = self.loc.expand(sized(batch_shape, self.event_shape))
        return self._expand_forms(new, batch_shape)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return (
            self._unbroadcasted_scale_tril.square()
            .sum(-1)
            .expand(sized(self._batch_shape, self._event_shape))
        )

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        noise = normal(self._extended_shape(sample_shape), self.loc)
        return self.loc + matrix_times(self._unbroadcasted_scale_tril, noise)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        length = mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        return -0.5 * (self._event_shape[0] * _LOG_TWO_PI + length) - half_log_det(
            self._unbroadcasted_scale_tril
        )

    def entropy(self) -> Tensor:
        one = 0.5 * self._event_shape[0] * (1.0 + _LOG_TWO_PI) + half_log_det(self._unbroadcasted_scale_tril)
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
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        batch_shape = broadcast_shapes(
            tuple(loc.shape[:-1]), tuple(cov_factor.shape[:-2]), tuple(cov_diag.shape[:-1])
        )
        self.loc = loc.expand(sized(batch_shape, (size,)))
        self.cov_factor = cov_factor.expand(sized(batch_shape, cov_factor.shape[-2:]))
        self.cov_diag = cov_diag.expand(sized(batch_shape, (size,)))
        super().__init__(batch_shape, (size,), validate_args)

    def _expand_rest(self, new: Any, shape: Sequence[int]) -> None:
        new._unbroadcasted_cov_factor = self._unbroadcasted_cov_factor
        new._unbroadcasted_cov_diag = self._unbroadcasted_cov_diag

    @property
    def _capacitance_tril(self) -> Tensor:
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
        part = linalg.solve_triangular(self._capacitance_tril, scaled, upper=False)
        return self.cov_diag.reciprocal().diag_embed() - part.mT @ part

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        inner = normal(sized(shape[:-1], self.cov_factor.shape[-1:]), self.loc)
        outer = normal(shape, self.loc)
        return self.loc + matrix_times(self.cov_factor, inner) + self.cov_diag.sqrt() * outer

    def _half_log_det(self) -> Tensor:
        return half_log_det(self._capacitance_tril) + 0.5 * self.cov_diag.log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        away = value - self.loc
        scaled = away / self.cov_diag
        inner = matrix_times(self.cov_factor.mT, scaled)
        length = (away * scaled).sum(-1) - mahalanobis(self._capacitance_tril, inner)
        return -0.5 * (self._event_shape[0] * _LOG_TWO_PI + length) - self._half_log_det()

    def entropy(self) -> Tensor:
        return 0.5 * self._event_shape[0] * (1.0 + _LOG_TWO_PI) + self._half_log_det()


class Wishart(_OfCovariance, ExponentialFamily):
    """Sums of `df` squares x x^T of normal vectors. Source: `torch.distributions.Wishart`.

    Exactly one of the vectors' covariance, its inverse and its lower Cholesky factor is given. With `df`
    below the dimension draws may be singular to rounding, of which this warns: none is drawn again.

    >>> import fusegrad as fg
    >>> fg.distributions.Wishart(3.0, fg.eye(2)).mean
    tensor([[3., 0.],
            [0., 3.]])
    """

    support = constraints.positive_definite
    has_rsample = True

    def __init__(
        self,
        df: Any,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = self._one_form(covariance_matrix, precision_matrix, scale_tril)
        degrees = df if isinstance(df, Tensor) else ops.tensor(df, dtype=matrix.dtype)
        batch_shape = broadcast_shapes(tuple(matrix.shape[:-2]), tuple(degrees.shape))
        size = matrix.shape[-1]
        if (degrees <= size - 1).any():
            raise failure(ValueError, f"Value of df={df} expected to be greater than ndim - 1 = {size - 1}.")
        if (degrees < size).any():
            warn(
                "Low df values detected. Singular samples are highly likely to occur for "
                "ndim - 1 < df < ndim."
            )
        self._matrix = (name, matrix.expand(sized(batch_shape, (-1, -1))))
        self.df = degrees.expand(batch_shape)
        super().__init__(batch_shape, matrix.shape[-2:], validate_args)
        self._unbroadcasted_scale_tril = _lower_factor(name, matrix)

    @property
    def arg_constraints(self) -> Any:
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self._event_shape[-1] - 1),
        }

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = self._get_checked_instance(Wishart, _instance)
        new.df = self.df.expand(sized(batch_shape))
        return self._expand_forms(new, batch_shape)

    def _each(self, numbers: Tensor) -> Tensor:
        """A number for each matrix."""
        return numbers.unsqueeze(-1).unsqueeze(-1)

    @property
    def mean(self) -> Tensor:
        return self._each(self.df) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self.df - self._event_shape[-1] - 1
        return self._each(ops.where(factor > 0, factor, math.nan)) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        covariance = self.covariance_matrix
        spread = covariance.diagonal(dim1=-2, dim2=-1)
        return self._each(self.df) * (covariance.square() + spread.unsqueeze(-1) * spread.unsqueeze(-2))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """By Bartlett's decomposition: a factor of chi-squared and normal numbers."""
        shape = self._extended_shape(sample_shape)
        halves = 0.5 * (
            self.df.unsqueeze(-1) - ops.arange(shape[-1], dtype=self._unbroadcasted_scale_tril.dtype)
        )
        length = (2 * gamma(halves.expand(shape[:-1]))).sqrt()
        least = dtypes.finfo(length.dtype).eps
        factor = self._unbroadcasted_scale_tril @ (
            normal(shape, self._unbroadcasted_scale_tril).tril(-1) + length.clamp(min=least).diag_embed()
        )
        return factor @ factor.mT

    def _log_norm(self) -> Tensor:
        size = self._event_shape[-1]
        log_det = size * math.log(2) / 2 + half_log_det(self._unbroadcasted_scale_tril)
        return self.df * log_det + ops.mvlgamma(self.df / 2, size)

    def _mean_log_det(self) -> Tensor:
        """The mean of the logarithm of a draw's determinant."""
        size = self._event_shape[-1]
        halves = (self.df.unsqueeze(-1) - ops.arange(size, dtype=self.df.dtype)) / 2
        return (
            halves.digamma().sum(-1) + size * math.log(2) + 2 * half_log_det(self._unbroadcasted_scale_tril)
        )

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        more = (self.df - self._event_shape[-1] - 1) / 2
        along = ops.cholesky_solve(value, self._unbroadcasted_scale_tril).diagonal(dim1=-2, dim2=-1).sum(-1)
        return more * linalg.slogdet(value)[1] - along / 2 - self._log_norm()

    def entropy(self) -> Tensor:
        size = self._event_shape[-1]
        return self._log_norm() - (self.df - size - 1) / 2 * self._mean_log_det() + self.df * size / 2


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices, the nearer to 1 the larger `concentration`.

    Source: `torch.distributions.LKJCholesky`.

    >>> import fusegrad as fg
    >>> fg.distributions.LKJCholesky(2, 1.0).log_prob(fg.eye(2))
    tensor(-0.6931)
    """

    arg_constraints = {"concentration": constraints.positive}  # noqa: RUF012
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise failure(
                ValueError, f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    def _expand_rest(self, new: Any, shape: Sequence[int]) -> None:
        new.dim = self.dim

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Row by row, by the onion method: a direction, and how far into it.

        The squared length of row i is a beta number of i / 2; PyTorch draws it of i - 1 / 2, and so with
        another density than its `log_prob` from three dimensions on.
        """
        with no_grad():
            # How long each row is but for its diagonal; the first has nothing else.
            before = ops.arange(self.dim - 1, dtype=self.concentration.dtype)
            before = ops.cat([before[:1] * 0, before])
            most = self.concentration.unsqueeze(-1) + 0.5 * (self.dim - 2)
            length = Beta(0.5 * before + 0.5, most - 0.5 * before, validate_args=False).sample(sample_shape)
            direction = normal(self._extended_shape(sample_shape), self.concentration).tril(-1)
            least = dtypes.finfo(direction.dtype).tiny
            direction = direction / direction.square().sum(-1, True).sqrt().clamp(min=least)
            lower = length.sqrt().unsqueeze(-1) * direction
            rest = (1 - lower.square().sum(-1)).clamp(min=least).sqrt()
            return lower + rest.diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        rest = self.dim - 1
        rows = ops.arange(2, self.dim + 1, dtype=self.concentration.dtype)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - rows
        density = (order * value.diagonal(dim1=-1, dim2=-2)[..., 1:].log()).sum(-1)
        half = self.concentration + 0.5 * rest
        norm = 0.5 * rest * math.log(math.pi) + ops.mvlgamma(half - 0.5, rest) - half.lgamma() * rest
        return density - norm


locate("fusegrad.distributions", globals(), __all__)
