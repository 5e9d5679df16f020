"""A weight over its largest singular value, set anew before each forward: `torch.nn.utils.spectral_norm`."""

from __future__ import annotations

from typing import Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.state import no_grad
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.nn import functional as F
from fusegrad.eager.nn.module import Module, Parameter

__all__ = ["remove_spectral_norm", "spectral_norm"]


class _Hook:
    """Called before a forward: makes `name` of `name_orig`. Buffers follow its singular vectors."""

    def __init__(self, name: str, count: int, dim: int, eps: float) -> None:
        self.name, self.count, self.dim, self.eps = name, count, dim, eps

    def matrix(self, weight: Tensor) -> Tensor:
        """The weight as a matrix whose rows are the outputs."""
        return (weight.movedim(self.dim, 0) if self.dim else weight).flatten(1)

    def weight(self, module: Module, iterates: bool) -> Tensor:
        """The weight of now; iterates: whether the vectors come closer first."""
        weight = getattr(module, f"{self.name}_orig")
        u, v = getattr(module, f"{self.name}_u"), getattr(module, f"{self.name}_v")
        matrix = self.matrix(weight)
        if iterates:
            with no_grad():
                for _ in range(self.count):
                    v.copy_(F.normalize(matrix.T @ u, dim=0, eps=self.eps))
                    u.copy_(F.normalize(matrix @ v, dim=0, eps=self.eps))
        u, v = u.clone(), v.clone()
        return weight / (u @ (matrix @ v))

    def __call__(self, module: Module, _: Any) -> None:
        setattr(module, self.name, self.weight(module, module.training))


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a weight by its largest singular value at every forward; gives `module`.

    The parameter is `name_orig` now. dim: which dimension counts the outputs (1 for transposed convolutions,
    else 0). `nn.utils.parametrizations.spectral_norm` is what PyTorch has in its place now.
    Source: `torch.nn.utils.spectral_norm`.

    >>> import fusegrad as fg
    >>> layer = fg.nn.utils.spectral_norm(fg.nn.Linear(3, 2))
    >>> [key for key in layer.state_dict()]
    ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    if n_power_iterations <= 0:
        raise failure(
            ValueError,
            f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}",
        )
    if _hook_of(module, name) is not None:
        raise failure(RuntimeError, f"Cannot register two spectral_norm hooks on the same parameter {name}")
    if dim is None:
        dim = 1 if "ConvTranspose" in type(module).__name__ else 0
    hook, weight = _Hook(name, n_power_iterations, dim, eps), module._parameters[name]
    assert weight is not None
    rows, columns = hook.matrix(weight.detach()).shape
    del module._parameters[name]
    module.register_parameter(f"{name}_orig", weight)
    setattr(module, name, weight.detach())
    for vector, count in (("u", rows), ("v", columns)):
        start = ops.randn(count, dtype=weight.dtype)
        module.register_buffer(f"{name}_{vector}", F.normalize(start, dim=0, eps=eps))
    module.register_forward_pre_hook(hook)
    return module


def _hook_of(module: Module, name: str) -> Any:
    """The key of the hook that makes a weight, or None."""
    hooks = module._forward_pre_hooks.items()
    return next((key for key, hook in hooks if isinstance(hook, _Hook) and hook.name == name), None)


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Make a weight that `spectral_norm` divides an ordinary parameter of its value now; gives `module`.

    Source: `torch.nn.utils.remove_spectral_norm`.
    """
    key = _hook_of(module, name)
    if key is None:
        raise failure(ValueError, f"spectral_norm of '{name}' not found in {module}")
    hook: Any = module._forward_pre_hooks[key]
    with no_grad():
        weight = hook.weight(module, False)
    for gone in (name, f"{name}_orig", f"{name}_u", f"{name}_v"):
        delattr(module, gone)
    del module._forward_pre_hooks[key]
    setattr(module, name, Parameter(weight.detach()))
    return module
