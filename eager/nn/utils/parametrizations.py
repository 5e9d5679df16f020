"""Weights of a given norm. Source: `torch.nn.utils.parametrizations`."""

from __future__ import annotations

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.state import no_grad
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.nn import functional as F
from fusegrad.eager.nn.module import Module
from fusegrad.eager.nn.utils.parametrize import register_parametrization
from fusegrad.eager.ops.linalg import contraction
from fusegrad.eager.ops.reduce import reduction
from fusegrad.eager.ops.shape import shape
from fusegrad.eager.random.random import randn

__all__ = ["spectral_norm", "weight_norm"]


class _WeightNorm(Module):
    """A length for each slice along `dim` (or one for all), and a direction."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def _lengths(self, weight: Tensor) -> Tensor:
        square = weight * weight
        if self.dim == -1:
            return ops.sqrt(reduction.sum(square))
        others = tuple(i for i in range(weight.array.ndim) if i != self.dim)
        return ops.sqrt(reduction.sum(square, others, keepdim=True)) if others else weight.abs()

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_v * (weight_g / self._lengths(weight_v))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return self._lengths(weight), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Train length and direction of a weight apart: `original0` and `original1`; gives `module`.

    dim: along which slices have lengths of their own; None for one length. Source:
    `torch.nn.utils.parametrizations.weight_norm`.

    >>> import fusegrad as fg
    >>> layer = fg.nn.utils.parametrizations.weight_norm(fg.nn.Linear(3, 2))
    >>> [n for n, _ in layer.named_parameters()]
    ['bias', 'parametrizations.weight.original0', 'parametrizations.weight.original1']
    """
    return register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


class _SpectralNorm(Module):
    """A weight over its largest singular value, which power iterations follow while it is trained."""

    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        if not -weight.array.ndim <= dim < weight.array.ndim:
            raise failure(
                IndexError,
                f"Dimension out of range (expected to be in range of [-{weight.array.ndim}, "
                f"{weight.array.ndim - 1}] but got {dim})",
            )
        if n_power_iterations <= 0:
            raise failure(
                ValueError,
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}",
            )
        self.dim, self.eps, self.n_power_iterations = dim % weight.array.ndim, eps, n_power_iterations
        if weight.array.ndim > 1:
            rows, columns = self._matrix(weight).array.shape
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
        if weight.array.ndim == 1:
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


locate("fusegrad.nn.utils.parametrizations", globals(), __all__)
