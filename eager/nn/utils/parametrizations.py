"""Weights of a given norm, or with orthonormal columns. Source: `torch.nn.utils.parametrizations`."""

from __future__ import annotations

from typing import Any

import numpy as np

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.state import no_grad
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.nn import functional as F
from fusegrad.eager.nn.module import Module
from fusegrad.eager.nn.utils.parametrize import register_parametrization
from fusegrad.eager.ops.linalg import contraction
from fusegrad.eager.ops.linalg.orthogonal import geqrf, householder_product
from fusegrad.eager.ops.linalg.solving import solve
from fusegrad.eager.ops.reduce import reduction
from fusegrad.eager.ops.shape import shape
from fusegrad.eager.random.random import randn

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


class WeightNorm(Module):
    """A length for each slice along `dim` (or one for all), and a direction."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def lengths(self, weight: Tensor) -> Tensor:
        """The norms of the slices."""
        square = weight * weight
        if self.dim == -1:
            return ops.sqrt(reduction.sum(square))
        others = tuple(i for i in range(weight.ndim) if i != self.dim)
        return ops.sqrt(reduction.sum(square, others, keepdim=True)) if others else weight.abs()

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_v * (weight_g / self.lengths(weight_v))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return self.lengths(weight), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Train length and direction of a weight apart: `original0` and `original1`; gives `module`.

    dim: along which slices have lengths of their own; None for one length. Source:
    `torch.nn.utils.parametrizations.weight_norm`.

    >>> import fusegrad as fg
    >>> layer = fg.nn.utils.parametrizations.weight_norm(fg.nn.Linear(3, 2))
    >>> [n for n, _ in layer.named_parameters()]
    ['bias', 'parametrizations.weight.original0', 'parametrizations.weight.original1']
    """
    register_parametrization(module, name, WeightNorm(dim), unsafe=True)

    def take_over(state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
        # What `nn.utils.weight_norm`, which came before this, has saved.
        old = [f"{prefix}{name}_{part}" for part in "gv"]
        if all(key in state_dict for key in old):
            for number, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{number}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(take_over)
    return module


class _SpectralNorm(Module):
    """A weight over its largest singular value, which power iterations follow while it is trained."""

    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise failure(
                IndexError,
                f"Dimension out of range (expected to be in range of [-{weight.ndim}, "
                f"{weight.ndim - 1}] but got {dim})",
            )
        if n_power_iterations <= 0:
            raise failure(
                ValueError,
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}",
            )
        self.dim, self.eps, self.n_power_iterations = dim % weight.ndim, eps, n_power_iterations
        if weight.ndim > 1:
            rows, columns = self._matrix(weight).shape
            for name, count in (("_u", rows), ("_v", columns)):
                start = randn(count).to(weight.dtype)
                self.register_buffer(name, F.normalize(start, dim=0, eps=eps))
            self._iterate(self._matrix(weight), 15)

    def _matrix(self, weight: Tensor) -> Tensor:
        if self.dim:
            weight = ops.movedim(weight, self.dim, 0)
        return shape.flatten(weight, 1)

    def _iterate(self, matrix: Tensor, count: int) -> None:
        with no_grad():
            for _ in range(count):
                self._u.copy_(F.normalize(contraction.mv(matrix, self._v), dim=0, eps=self.eps))
                self._v.copy_(F.normalize(contraction.mv(matrix.T, self._u), dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix.detach(), self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()
        return weight / contraction.dot(u, contraction.mv(matrix, v))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a weight by its largest singular value at every use; gives `module`.

    dim: which dimension counts the outputs (1 for transposed convolutions, else 0). Source:
    `torch.nn.utils.parametrizations.spectral_norm`.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise failure(ValueError, f"Module '{module}' has no parameter or buffer with name '{name}'")
    if dim is None:
        dim = 1 if "ConvTranspose" in type(module).__name__ else 0
    return register_parametrization(
        module, name, _SpectralNorm(weight.detach(), n_power_iterations, dim, eps)
    )


ORTHOGONAL_MAPS = ("matrix_exp", "cayley", "householder")


class _Orthogonal(Module):
    """A matrix with orthonormal columns (or rows, where it is wide), from the lower triangle of another one.

    base: an orthogonal matrix that the result is turned by, which makes it any matrix at first; there is none
    where the result is the map of the triangle itself.
    """

    base: Tensor | None

    def __init__(self, weight: Tensor, orthogonal_map: str, use_trivialization: bool) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise failure(ValueError, "The householder parametrization does not support complex tensors.")
        self.shape, self.orthogonal_map, self.turned = weight.shape, orthogonal_map, use_trivialization
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        wide = X.size(-2) < X.size(-1)
        X = X.mT if wide else X
        Q = self._reflected(X) if self.orthogonal_map == "householder" else self._rotated(X)
        Q = self.base @ Q if self.turned else Q
        return Q.mT if wide else Q

    def _reflected(self, X: Tensor) -> Tensor:
        """A product of reflections; the diagonal, of 1 and -1, has the signs of the columns."""
        A = X.tril(-1)
        tau = 2.0 / (1.0 + (A * A).sum(-2))
        signs = X.detach().diagonal(dim1=-2, dim2=-1).unsqueeze(-2)
        return householder_product(A, tau) * signs

    def _rotated(self, X: Tensor) -> Tensor:
        """The exponential of a skew-symmetric matrix, or its Cayley transform."""
        rows, columns = X.shape[-2:]
        X = X.tril()
        if rows != columns:
            X = ops.cat([X, X.new_zeros(*X.shape[:-1], rows - columns)], -1)
        A = X - X.mH
        if self.orthogonal_map == "matrix_exp":
            return ops.matrix_exp(A)[..., :columns]
        one = ops.eye(rows, dtype=A.dtype)
        return solve(one - A / 2, one + A / 2)[..., :columns]

    @no_grad()
    def right_inverse(self, Q: Tensor) -> Tensor:
        if Q.shape != self.shape:
            raise failure(
                ValueError,
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape "
                f"{Q.shape}.",
            )
        if not self.turned and self.orthogonal_map != "householder":
            raise failure(
                NotImplementedError,
                "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                "use_trivialization=False.",
            )
        rows, columns = Q.shape[-2:]
        wide = rows < columns
        tall = Q.mT if wide else Q
        if not self.turned:
            A, tau = geqrf(tall)
            diagonal = A.diagonal(dim1=-2, dim2=-1)
            diagonal.copy_(diagonal.sign() * ops.where(tau == 0, -1, 1))
            return A.mT if wide else A
        if rows != columns:
            more = randn(*tall.shape[:-1], abs(rows - columns), dtype=Q.dtype)
            tall = ops.cat([tall, more], -1)
        self.base = tall.clone() if _is_orthogonal(tall) else _made_orthogonal(tall)
        start = ops.zeros_like(Q)
        start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)  # reflections of this are the identity
        return start


def _is_orthogonal(Q: Tensor) -> bool:
    one = ops.eye(Q.size(-1), dtype=Q.dtype)
    tolerance = 10.0 * Q.size(-2) * float(np.finfo(Q.array.dtype).eps)
    return bool(ops.allclose(Q.mH @ Q, one.expand(*Q.shape[:-2], -1, -1), atol=tolerance))


def _made_orthogonal(A: Tensor) -> Tensor:
    """The Q of A = QR where the diagonal of R is not negative."""
    X, tau = geqrf(A)
    return householder_product(X, tau) * X.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Keep the columns of a weight orthonormal (its rows, where it is wide); gives `module`.

    orthogonal_map: "matrix_exp", "cayley" or "householder", by which the weight is made of the lower triangle
    of another matrix; where it is None, the first for square and complex weights, else the last.
    use_trivialization: turn the result so that it can be any orthogonal matrix at first. Source:
    `torch.nn.utils.parametrizations.orthogonal`.

    >>> import fusegrad as fg
    >>> layer = fg.nn.utils.parametrizations.orthogonal(fg.nn.Linear(3, 3))
    >>> fg.allclose(layer.weight @ layer.weight.T, fg.eye(3), atol=1e-5)
    True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise failure(ValueError, f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise failure(
            ValueError, f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions."
        )
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1)
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in ORTHOGONAL_MAPS:
        names = ", ".join(f'"{known}"' for known in ORTHOGONAL_MAPS)
        raise failure(ValueError, f"orthogonal_map has to be one of {names}. Got: {orthogonal_map}")
    made = _Orthogonal(weight, orthogonal_map, use_trivialization)
    return register_parametrization(module, name, made, unsafe=True)


locate("fusegrad.nn.utils.parametrizations", globals(), __all__)
