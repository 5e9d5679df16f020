"""Gradient descent with momentum, and rules that scale the step by past gradients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.optim.elementwise import (
    ElementwiseOptimizer,
    average,
    average_gradient,
    average_square,
    direction,
    shares,
    unless_zero,
)
from fusegrad.eager.optim.optimizer import ParameterGroup, as_number, check_options, scalar

Arrays = Sequence[np.ndarray]


class SGD(ElementwiseOptimizer):
    """Gradient descent, with momentum. Source: `torch.optim.SGD`.

    >>> import fusegrad as fg
    >>> x = fg.tensor([4.0], requires_grad=True)
    >>> optimizer = fg.optim.SGD([x], lr=0.25)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([2.], requires_grad=True)
    """

    counted = False

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_options(lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise failure(ValueError, "Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    def slots(self, group: ParameterGroup) -> tuple[str, ...]:
        return ("momentum_buffer",) if group["momentum"] else ()

    def constants(self, group: ParameterGroup, step: float, kept: dict[str, Any], fresh: bool) -> Any:
        # The first gradient is taken whole.
        share = None if fresh or not group["dampening"] else 1 - group["dampening"]
        lr, decay = as_number(group["lr"]), unless_zero(as_number(group["weight_decay"]))
        return lr, group["momentum"], share, decay, group["nesterov"], group["maximize"]

    def update(
        self, p: np.ndarray, g: np.ndarray, slots: Arrays, constants: Any, a: np.ndarray, b: np.ndarray
    ) -> None:
        lr, momentum, share, decay, nesterov, maximize = constants
        if decay is not None or maximize:
            g = direction(p, g, decay, maximize, a, b)
        if slots:
            buffer = slots[0]
            buffer *= momentum
            buffer += g if share is None else np.multiply(g, share, out=a)
            if nesterov:
                np.multiply(buffer, momentum, out=a)
                g = np.add(g, a, out=b)
            else:
                g = buffer
        np.multiply(g, lr, out=a)
        p -= a


class RMSprop(ElementwiseOptimizer):
    """Steps scaled by a running mean of squared gradients. Source: `torch.optim.RMSprop`."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr, epsilon=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def slots(self, group: ParameterGroup) -> tuple[str, ...]:
        names = ["square_avg"]
        if group["momentum"] > 0:
            names.append("momentum_buffer")
        if group["centered"]:
            names.append("grad_avg")
        return tuple(names)

    def constants(self, group: ParameterGroup, step: float, kept: dict[str, Any], fresh: bool) -> Any:
        decay, momentum = unless_zero(group["weight_decay"]), unless_zero(group["momentum"])
        options = shares(group["alpha"]), group["eps"], decay, momentum
        return as_number(group["lr"]), *options, group["centered"], group["maximize"]

    def update(
        self, p: np.ndarray, g: np.ndarray, slots: Arrays, constants: Any, a: np.ndarray, b: np.ndarray
    ) -> None:
        lr, mean_shares, eps, decay, momentum, centered, maximize = constants
        g = direction(p, g, decay, maximize, a, b)
        square = slots[0]
        average_square(square, g, mean_shares, a)
        if centered:
            mean = slots[-1]
            average_gradient(mean, g, mean_shares[1], a)
            np.multiply(mean, mean, out=a)
            np.subtract(square, a, out=a)
            np.sqrt(a, out=a)
        else:
            np.sqrt(square, out=a)
        a += eps
        np.divide(g, a, out=a)
        if momentum is not None:
            buffer = slots[1]
            buffer *= momentum
            buffer += a
            np.multiply(buffer, lr, out=a)
        else:
            a *= lr
        p -= a


class Adagrad(ElementwiseOptimizer):
    """Steps scaled by the sum of all squared gradients. Source: `torch.optim.Adagrad`."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_options(
            lr,
            lr_decay=lr_decay,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            epsilon=eps,
        )
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for parameter in group["params"]:
                self.started(parameter, group, self.slots(group))

    def slots(self, group: ParameterGroup) -> tuple[str, ...]:
        return ("sum",)

    def initial(self, name: str, group: ParameterGroup) -> float:
        return group["initial_accumulator_value"]

    def constants(self, group: ParameterGroup, step: float, kept: dict[str, Any], fresh: bool) -> Any:
        lr = as_number(group["lr"]) / (1 + (step - 1) * group["lr_decay"])
        return lr, group["eps"], unless_zero(group["weight_decay"]), group["maximize"]

    def update(
        self, p: np.ndarray, g: np.ndarray, slots: Arrays, constants: Any, a: np.ndarray, b: np.ndarray
    ) -> None:
        lr, eps, decay, maximize = constants
        g = direction(p, g, decay, maximize, a, b)
        total = slots[0]
        np.multiply(g, g, out=a)
        total += a
        np.sqrt(total, out=a)
        a += eps
        np.divide(g, a, out=a)
        a *= lr
        p -= a


class Adadelta(ElementwiseOptimizer):
    """Steps of the size of past steps. Source: `torch.optim.Adadelta`."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr, rho=rho, epsilon=eps, weight_decay=weight_decay)
        if not rho <= 1.0:
            raise failure(ValueError, f"Invalid rho value: {rho}")
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def slots(self, group: ParameterGroup) -> tuple[str, ...]:
        return ("square_avg", "acc_delta")

    def constants(self, group: ParameterGroup, step: float, kept: dict[str, Any], fresh: bool) -> Any:
        lr = as_number(group["lr"])
        return lr, shares(group["rho"]), group["eps"], unless_zero(group["weight_decay"]), group["maximize"]

    def update(
        self, p: np.ndarray, g: np.ndarray, slots: Arrays, constants: Any, a: np.ndarray, b: np.ndarray
    ) -> None:
        lr, mean_shares, eps, decay, maximize = constants
        g = direction(p, g, decay, maximize, a, b)
        square, past = slots
        average_square(square, g, mean_shares, a)
        np.add(square, eps, out=a)
        np.sqrt(a, out=a)
        np.divide(g, a, out=b)
        np.add(past, eps, out=a)
        np.sqrt(a, out=a)
        b *= a
        average_square(past, b, mean_shares, a)
        b *= lr
        p -= b


class Rprop(ElementwiseOptimizer):
    """Steps by the sign of the gradient, longer while it stays the same. Source: `torch.optim.Rprop`."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise failure(ValueError, f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def slots(self, group: ParameterGroup) -> tuple[str, ...]:
        return ("prev", "step_size")

    def initial(self, name: str, group: ParameterGroup) -> float:
        return as_number(group["lr"]) if name == "step_size" else 0.0

    def constants(self, group: ParameterGroup, step: float, kept: dict[str, Any], fresh: bool) -> Any:
        return *group["etas"], *group["step_sizes"], group["maximize"]

    def update(
        self, p: np.ndarray, g: np.ndarray, slots: Arrays, constants: Any, a: np.ndarray, b: np.ndarray
    ) -> None:
        shorter, longer, shortest, longest, maximize = constants
        g = direction(p, g, 0, maximize, a, b)
        previous, length = slots
        np.multiply(g, previous, out=a)
        turned, kept = a < 0, a > 0
        np.multiply(length, shorter, out=length, where=turned)
        np.multiply(length, longer, out=length, where=kept)
        np.maximum(length, shortest, out=length)
        np.minimum(length, longest, out=length)
        previous[...] = g
        previous[turned] = 0  # no step where the sign changed
        np.sign(previous, out=a)
        a *= length
        p -= a


class ASGD(ElementwiseOptimizer):
    """Gradient descent that also averages its path. Source: `torch.optim.ASGD`."""

    bundled = False  # each parameter keeps a rate of its own
    advanced = ("eta", "mu")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_options(lr, weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def slots(self, group: ParameterGroup) -> tuple[str, ...]:
        return ("ax",)

    def constants(self, group: ParameterGroup, step: float, kept: dict[str, Any], fresh: bool) -> Any:
        lr, lambd = as_number(group["lr"]), group["lambd"]
        eta = kept.setdefault("eta", scalar(lr)).array
        mu = kept.setdefault("mu", scalar(1.0)).array
        rate, share = eta.item(), mu.item()
        eta[...] = lr / ((1 + lambd * lr * step) ** group["alpha"])
        mu[...] = 1 / max(1, step - group["t0"])
        return rate, share, 1 - lambd * rate, unless_zero(group["weight_decay"]), group["maximize"]

    def update(
        self, p: np.ndarray, g: np.ndarray, slots: Arrays, constants: Any, a: np.ndarray, b: np.ndarray
    ) -> None:
        rate, share, shrink, decay, maximize = constants
        g = direction(p, g, decay, maximize, a, b)
        np.multiply(g, rate, out=b)
        p *= shrink
        p -= b
        if share == 1:
            slots[0][...] = p
        else:
            average(slots[0], p, share, a)
