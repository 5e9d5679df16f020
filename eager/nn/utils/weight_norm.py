"""A weight as length and direction, set anew before each forward. Source: `torch.nn.utils.weight_norm`."""

from __future__ import annotations

from typing import Any

from fusegrad.eager.core.errors import failure, warn
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.nn.module import Module, Parameter
from fusegrad.eager.nn.utils import parametrizations

__all__ = ["remove_weight_norm", "weight_norm"]


class _Hook:
    """Called before a forward: makes `name` of `name_g`, the lengths, and `name_v`, the direction."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name, self.norm = name, parametrizations.WeightNorm(dim)

    def weight(self, module: Module) -> Tensor:
        """The weight of now."""
        made: Tensor = self.norm(getattr(module, f"{self.name}_g"), getattr(module, f"{self.name}_v"))
        return made

    def __call__(self, module: Module, _: Any) -> None:
        setattr(module, self.name, self.weight(module))


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Train length and direction of a weight apart, as the parameters `name_g` and `name_v`; gives `module`.

    `nn.utils.parametrizations.weight_norm` is what PyTorch has in its place now. dim: along which slices have
    lengths of their own; None for one length. Source: `torch.nn.utils.weight_norm`.

    >>> import fusegrad as fg
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     layer = fg.nn.utils.weight_norm(fg.nn.Linear(3, 2))
    >>> [(name, p.shape) for name, p in layer.named_parameters()][1:]
    [('weight_g', torch.Size([2, 1])), ('weight_v', torch.Size([2, 3]))]
    """
    warn(
        "`torch.nn.utils.weight_norm` is deprecated in favor of "
        "`torch.nn.utils.parametrizations.weight_norm`.",
        FutureWarning,
    )
    if any(isinstance(h, _Hook) and h.name == name for h in module._forward_pre_hooks.values()):
        raise failure(RuntimeError, f"Cannot register two weight_norm hooks on the same parameter {name}")
    hook, weight = _Hook(name, dim), getattr(module, name)
    lengths = hook.norm.lengths(weight)
    del module._parameters[name]
    module.register_parameter(f"{name}_g", Parameter(lengths.detach()))
    module.register_parameter(f"{name}_v", Parameter(weight.detach()))
    setattr(module, name, hook.weight(module))
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Make a weight that `weight_norm` took apart one parameter again; gives `module`.

    Source: `torch.nn.utils.remove_weight_norm`.
    """
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, _Hook) and hook.name == name:
            weight = hook.weight(module).detach()
            for gone in (name, f"{name}_g", f"{name}_v"):
                delattr(module, gone)
            del module._forward_pre_hooks[key]
            setattr(module, name, Parameter(weight))
            return module
    raise failure(ValueError, f"weight_norm of '{name}' not found in {module}")
