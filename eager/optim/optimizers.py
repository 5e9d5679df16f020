"""Optimizers: parameters updated in place with NumPy, with PyTorch's numbers.

A step writes into the parameters' memory and counts the write, as any in-place op does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from fusegrad.eager.errors import failure
from fusegrad.eager.nn.module import bump_state_version, clear_gradient
from fusegrad.eager.op import wrap
from fusegrad.eager.state import enable_grad, state
from fusegrad.eager.tensor import Tensor


class ParameterGroup(dict[str, Any]):
    """Parameters with their options; a write counts as a change of the optimizer's state."""

    def __setitem__(self, key: str, value: Any) -> None:
        bump_state_version()
        super().__setitem__(key, value)

    def update(self, *args: Any, **kwargs: Any) -> None:
        bump_state_version()
        super().update(*args, **kwargs)


class Optimizer:
    """What all optimizers share. Subclasses define `_update`. Source: `torch.optim.Optimizer`.

    param_groups: the parameters and their options; state: what is kept for each parameter.
    """

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self.state: dict[Tensor, dict[str, Any]] = {}
        self.param_groups: list[ParameterGroup] = []
        if isinstance(params, Tensor):
            raise failure(
                TypeError, "params argument given to the optimizer should be an iterable of Tensors"
            )
        groups = list(params)
        if not groups:
            raise failure(ValueError, "optimizer got an empty parameter list")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def __setattr__(self, name: str, value: Any) -> None:
        bump_state_version()
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        bump_state_version()
        object.__delattr__(self, name)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with options of their own.

        Raises TypeError for what is no tensor, ValueError for a tensor that is no leaf or given twice.
        """
        params = param_group["params"]
        tensors = [params] if isinstance(params, Tensor) else list(params)
        tensors = [t[1] if isinstance(t, tuple) else t for t in tensors]
        known = {id(t) for group in self.param_groups for t in group["params"]}
        for tensor in tensors:
            if not isinstance(tensor, Tensor):
                raise failure(
                    TypeError, f"optimizer can only optimize Tensors, but one of the params is {type(tensor)}"
                )
            if tensor.grad_fn is not None:
                raise failure(ValueError, "can't optimize a non-leaf Tensor")
            if id(tensor) in known:
                raise failure(ValueError, "some parameters appear in more than one parameter group")
        bump_state_version()
        self.param_groups.append(ParameterGroup({**self.defaults, **param_group, "params": tensors}))

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters (or set them to 0)."""
        if state.interpreter is not None:
            state.interpreter.effect("clears gradients")
        for group in self.param_groups:
            for parameter in group["params"]:
                clear_gradient(parameter, set_to_none)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient; gives what `closure` gives."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        if state.interpreter is not None:
            state.interpreter.effect("an optimizer writes into parameters")
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    kept = self.state.get(parameter)
                    if kept is None:
                        kept = self.state[parameter] = {}
                    self._update(parameter.array, parameter.grad.array, kept, group)
                    parameter.version[0] += 1
        return loss

    def _update(self, p: np.ndarray, g: np.ndarray, kept: dict[str, Any], group: dict[str, Any]) -> None:
        """Write the new value of one parameter into `p`; `kept` is its state."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """State by parameter number, and the groups with numbers for parameters."""
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for parameter in group["params"]:
                numbers.setdefault(id(parameter), len(numbers))
            options = {k: v for k, v in group.items() if k != "params"}
            groups.append({**options, "params": [numbers[id(p)] for p in group["params"]]})
        return {
            "state": {numbers[id(p)]: _as_tensors(s) for p, s in self.state.items()},
            "param_groups": groups,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over state and options; raises ValueError when the groups differ in size."""
        sizes = [len(g["params"]) for g in state_dict["param_groups"]]
        if sizes != [len(g["params"]) for g in self.param_groups]:
            raise failure(
                ValueError,
                "loaded state dict contains a parameter group that doesn't match the size "
                "of optimizer's group",
            )
        by_number: dict[int, Tensor] = {}
        for group, loaded in zip(self.param_groups, state_dict["param_groups"], strict=True):
            by_number |= dict(zip(loaded["params"], group["params"], strict=True))
            group.update({k: v for k, v in loaded.items() if k != "params"})
        self.state = {by_number[n]: _as_arrays(s) for n, s in state_dict["state"].items()}

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n"
            text += "".join(f"    {k}: {group[k]}\n" for k in sorted(group) if k != "params")
        return text + ")"


def _as_tensors(kept: dict[str, Any]) -> dict[str, Any]:
    return {
        k: wrap(v) if isinstance(v, np.ndarray) else wrap(np.float32(v)) if k == "step" else v
        for k, v in kept.items()
    }


def _as_arrays(kept: dict[str, Any]) -> dict[str, Any]:
    return {
        k: int(v) if k == "step" else np.array(v.array) if isinstance(v, Tensor) else v
        for k, v in kept.items()
    }


def _check(**limits: Any) -> None:
    """Raise ValueError for an option that is negative."""
    for name, value in limits.items():
        if value < 0.0:
            raise failure(ValueError, f"Invalid {name.replace('_', ' ')} value: {value}")


class SGD(Optimizer):
    """Gradient descent, with momentum. Source: `torch.optim.SGD`."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        _check(learning_rate=lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise failure(ValueError, "Nesterov momentum requires a momentum and zero dampening")
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
                "maximize": maximize,
            },
        )

    def _update(self, p: np.ndarray, g: np.ndarray, kept: dict[str, Any], group: dict[str, Any]) -> None:
        g = -g if group["maximize"] else g
        if group["weight_decay"]:
            g = g + p * group["weight_decay"]
        momentum = group["momentum"]
        if momentum:
            buffer = kept.get("momentum_buffer")
            if buffer is None:
                buffer = kept["momentum_buffer"] = np.array(g)
            else:
                buffer *= momentum
                buffer += g * (1 - group["dampening"])
            g = g + buffer * momentum if group["nesterov"] else buffer
        p -= g * group["lr"]


class Adam(Optimizer):
    """Steps scaled by running means of the gradient and its square. Source: `torch.optim.Adam`."""

    decoupled = False

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        _check(learning_rate=lr, epsilon=eps, weight_decay=weight_decay)
        for i, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise failure(ValueError, f"Invalid beta parameter at index {i}: {beta}")
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {**defaults, "amsgrad": amsgrad, "maximize": maximize})

    def _update(self, p: np.ndarray, g: np.ndarray, kept: dict[str, Any], group: dict[str, Any]) -> None:
        (beta1, beta2), lr = group["betas"], group["lr"]
        g = -g if group["maximize"] else g
        if group["weight_decay"] and self.decoupled:
            p *= 1 - lr * group["weight_decay"]
        elif group["weight_decay"]:
            g = g + p * group["weight_decay"]
        if not kept:
            kept.update(step=0, exp_avg=np.zeros_like(p), exp_avg_sq=np.zeros_like(p))
            if group["amsgrad"]:
                kept["max_exp_avg_sq"] = np.zeros_like(p)
        kept["step"] += 1
        mean, square = kept["exp_avg"], kept["exp_avg_sq"]
        mean += (g - mean) * (1 - beta1)
        square *= beta2
        square += (g * g) * (1 - beta2)
        if group["amsgrad"]:
            square = np.maximum(kept["max_exp_avg_sq"], square, out=kept["max_exp_avg_sq"])
        scale = np.sqrt(square)
        scale /= (1 - beta2 ** kept["step"]) ** 0.5
        scale += group["eps"]
        np.divide(mean, scale, out=scale)
        scale *= lr / (1 - beta1 ** kept["step"])
        p -= scale


class AdamW(Adam):
    """Adam with weight decay apart from the gradient. Source: `torch.optim.AdamW`."""

    decoupled = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)


class RMSprop(Optimizer):
    """Steps scaled by a running mean of squared gradients. Source: `torch.optim.RMSprop`."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
    ) -> None:
        _check(learning_rate=lr, epsilon=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        defaults = {"lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps}
        super().__init__(params, {**defaults, "centered": centered, "weight_decay": weight_decay})

    def _update(self, p: np.ndarray, g: np.ndarray, kept: dict[str, Any], group: dict[str, Any]) -> None:
        alpha = group["alpha"]
        if group["weight_decay"]:
            g = g + p * group["weight_decay"]
        if not kept:
            kept.update(step=0, square_avg=np.zeros_like(p))
            if group["momentum"]:
                kept["momentum_buffer"] = np.zeros_like(p)
            if group["centered"]:
                kept["grad_avg"] = np.zeros_like(p)
        kept["step"] += 1
        square = kept["square_avg"]
        square *= alpha
        square += (g * g) * (1 - alpha)
        if group["centered"]:
            mean = kept["grad_avg"]
            mean += (g - mean) * (1 - alpha)
            square = square - mean * mean
        change = g / (np.sqrt(square) + group["eps"])
        if group["momentum"]:
            buffer = kept["momentum_buffer"]
            buffer *= group["momentum"]
            buffer += change
            change = buffer
        p -= change * group["lr"]
