"""Parameters with parts set to 0 for good, by a mask. Source: `torch.nn.utils.prune`.

A pruned parameter `weight` lives on as `weight_orig`, and `weight_mask` is a buffer; before each forward
`weight` is their product. Methods that come after others choose among what these left.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.nn.module import Module

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]


def _check_amount(amount: Any) -> None:
    if not isinstance(amount, (int, float)) or isinstance(amount, bool):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or (isinstance(amount, float) and amount > 1.0):
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer"
        )


def _count(amount: float, size: int) -> int:
    """How many of `size` an amount is: a share, if it is a float."""
    count = amount if isinstance(amount, int) else round(amount * size)
    if count > size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={size}")
    return count


class BasePruningMethod:
    """A way to choose what is set to 0. Subclasses define `compute_mask`, and say what they choose among.

    PRUNING_TYPE: "unstructured" (among all elements), "structured" (among slices), or "global".
    """

    PRUNING_TYPE: ClassVar[str]
    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        """The hook before a forward."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask for the scores `t`, of what `default_mask` has left."""
        raise NotImplementedError

    def apply_mask(self, module: Module) -> Tensor:
        """The parameter times its mask."""
        name = self._tensor_name
        original, mask = getattr(module, f"{name}_orig"), getattr(module, f"{name}_mask")
        return mask.to(original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune the parameter `name` of a module; gives the method. importance_scores: by other numbers."""
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        before = _hook_of(module, name)
        original = getattr(module, name) if before is None else getattr(module, f"{name}_orig")
        scores = original if importance_scores is None else importance_scores
        if scores.shape != original.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}"
            )
        if before is None:
            mask = method.compute_mask(scores.detach(), ops.ones_like(original))
            del module._parameters[name]
            module.register_parameter(f"{name}_orig", original)
        else:
            key, earlier = before
            del module._forward_pre_hooks[key]
            container = PruningContainer(*(earlier if isinstance(earlier, PruningContainer) else [earlier]))
            container._tensor_name = name
            container.add_pruning_method(method)
            mask = container.compute_mask(scores.detach(), getattr(module, f"{name}_mask"))
            method = container
        module.register_buffer(f"{name}_mask", mask.to(original.dtype))
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(
        self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None
    ) -> Tensor:
        """A tensor times the mask that is found for it."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError("importance_scores should have the same shape as tensor t")
        mask = ops.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, mask)

    def remove(self, module: Module) -> None:
        """Make the parameter an ordinary one again, with its zeros; the hook stays."""
        name = self._tensor_name
        weight = self.apply_mask(module)
        original = getattr(module, f"{name}_orig")
        for gone in (name, f"{name}_orig", f"{name}_mask"):
            delattr(module, gone)
        original.data = weight.detach()
        setattr(module, name, original)


def _hook_of(module: Module, name: str) -> tuple[Any, Any] | None:
    """The hook that prunes a parameter, with its key."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            return key, hook
    return None


class PruningContainer(BasePruningMethod):
    """Several methods, one after the other."""

    def __init__(self, *args: BasePruningMethod) -> None:
        self._methods = list(args)
        if args:
            self._tensor_name = args[0]._tensor_name

    def __len__(self) -> int:
        return len(self._methods)

    def __iter__(self) -> Any:
        return iter(self._methods)

    def __getitem__(self, index: Any) -> Any:
        return self._methods[index]

    def add_pruning_method(self, method: Any) -> None:
        """Let another method of the same parameter come last."""
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method._tensor_name != self._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._methods.append(method)

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        method, mask = self._methods[-1], default_mask.to(t.dtype)
        if method.PRUNING_TYPE == "unstructured":
            left = mask == 1
            found = mask.clone()
            found[left] = method.compute_mask(t[left], ops.ones_like(mask)[left]).to(mask.dtype)
            return found
        if method.PRUNING_TYPE == "structured":
            dim = method.dim % t.dim()  # type: ignore[attr-defined]
            others = tuple(d for d in range(t.dim()) if d != dim)
            places = (mask.sum(others) != 0).nonzero().flatten()
            part = method.compute_mask(t.index_select(dim, places), mask.index_select(dim, places))
            return mask.index_copy(dim, places, part.to(mask.dtype))
        if method.PRUNING_TYPE == "global":
            return method.compute_mask(t, mask)
        raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")


class Identity(BasePruningMethod):
    """Sets nothing to 0."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class _ByAmount(BasePruningMethod):
    def __init__(self, amount: float) -> None:
        _check_amount(amount)
        self.amount = amount


class RandomUnstructured(_ByAmount):
    """Sets elements to 0 by chance."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return _without(default_mask, ops.rand_like(t), _count(self.amount, t.numel()))


class L1Unstructured(_ByAmount):
    """Sets the smallest elements to 0."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return _without(default_mask, t.abs(), _count(self.amount, t.numel()))


def _without(mask: Tensor, scores: Tensor, count: int) -> Tensor:
    """A mask without the `count` elements of the smallest scores."""
    flat = mask.clone().reshape(-1)
    if count:
        flat[scores.reshape(-1).topk(count, largest=False).indices] = 0
    return flat.reshape(mask.shape)


class _OfSlices(_ByAmount):
    """Sets whole slices along a dimension to 0."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def scores(self, t: Tensor, others: tuple[int, ...]) -> Tensor:
        """A number for each slice: the smallest go."""
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if t.dim() <= 1:
            raise ValueError(
                "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
                f"{t.shape} with {t.dim()} dims"
            )
        if not -t.dim() <= self.dim < t.dim():
            raise IndexError(f"Invalid index {self.dim} for tensor of size {t.shape}")
        dim = self.dim % t.dim()
        size = t.shape[dim]
        scores = self.scores(t, tuple(d for d in range(t.dim()) if d != dim))
        kept = _without(ops.ones_like(scores), scores, _count(self.amount, size))
        return default_mask * kept.reshape([size if d == dim else 1 for d in range(t.dim())]).to(t.dtype)


class RandomStructured(_OfSlices):
    """Sets slices to 0 by chance."""

    def scores(self, t: Tensor, others: tuple[int, ...]) -> Tensor:
        return ops.rand(t.numel() // max(1, math.prod(t.shape[d] for d in others)))


class LnStructured(_OfSlices):
    """Sets the slices of the smallest norm to 0."""

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def scores(self, t: Tensor, others: tuple[int, ...]) -> Tensor:
        return ops.norm(t, p=self.n, dim=others)


class CustomFromMask(BasePruningMethod):
    """Sets to 0 what a mask says."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if default_mask.shape != self.mask.shape:
            raise AssertionError("default_mask and mask should have the same shape")
        return default_mask * self.mask.to(default_mask.dtype)


def identity(module: Module, name: str) -> Module:
    """Have a parameter pruned by a mask of ones. Source: `torch.nn.utils.prune.identity`."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Set a share or a number to 0 by chance. Source: `torch.nn.utils.prune.random_unstructured`."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: Module, name: str, amount: float, importance_scores: Tensor | None = None
) -> Module:
    """Set the smallest elements to 0: a share or a number. Source: `torch.nn.utils.prune.l1_unstructured`.

    >>> import fusegrad as fg
    >>> layer = fg.nn.utils.prune.l1_unstructured(fg.nn.Linear(4, 2), "weight", amount=0.5)
    >>> int((layer.weight == 0).sum())
    4
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Set slices along `dim` to 0 by chance. Source: `torch.nn.utils.prune.random_structured`."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: float, n: Any, dim: int, importance_scores: Tensor | None = None
) -> Module:
    """Set the slices of the smallest norm to 0. Source: `torch.nn.utils.prune.ln_structured`."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Set to 0 what a mask says. Source: `torch.nn.utils.prune.custom_from_mask`."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: Any,
    importance_scores: dict[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune several parameters as if they were one. Source: `torch.nn.utils.prune.global_unstructured`."""
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    places: Sequence[tuple[Module, str]] = list(parameters)
    scores = importance_scores or {}
    flat = ops.cat([scores.get(p, getattr(*p)).detach().reshape(-1) for p in places])
    masks = [getattr(m, f"{n}_mask", ops.ones_like(getattr(m, n))).reshape(-1) for m, n in places]
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    container.add_pruning_method(method)
    found = container.compute_mask(flat, ops.cat(masks))
    start = 0
    for module, name in places:
        parameter = getattr(module, name)
        part = found[start : start + parameter.numel()]
        custom_from_mask(module, name, part.reshape(parameter.shape))
        start += parameter.numel()


def remove(module: Module, name: str) -> Module:
    """Make a pruned parameter an ordinary one, with its zeros. Source: `torch.nn.utils.prune.remove`."""
    found = _hook_of(module, name)
    if found is None:
        raise ValueError(
            f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
        )
    key, hook = found
    hook.remove(module)
    del module._forward_pre_hooks[key]
    return module


def is_pruned(module: Module) -> bool:
    """Whether a module, or one in it, is pruned. Source: `torch.nn.utils.prune.is_pruned`."""
    hooks = [hook for m in module.modules() for hook in m._forward_pre_hooks.values()]
    return any(isinstance(hook, BasePruningMethod) for hook in hooks)


locate("fusegrad.nn.utils.prune", globals(), __all__)
