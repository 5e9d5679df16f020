"""Adam and its kin: steps from running means of the gradient and of its size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.optim.elementwise import (
    ElementwiseOptimizer,
    average_gradient,
    average_square,
    direction,
    shares,
    unless_zero,
)
from fusegrad.eager.optim.optimizer import ParameterGroup, as_number, check_options, scalar

Arrays = Sequence[np.ndarray]


class Adam(ElementwiseOptimizer):
    """Steps scaled by running means of the gradient and its square. Source: `torch.optim.Adam`.

    >>> import fusegrad as fg
    >>> x = fg.tensor([4.0], requires_grad=True)
    >>> optimizer = fg.optim.Adam([x], lr=0.5)
    >>> for _ in range(2):
    ...     optimizer.zero_grad()
    ...     (x * x).sum().backward()
    ...     optimizer.step()
    >>> x
    tensor([3.0028], requires_grad=True)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check_options(lr, betas, epsilon=eps, weight_decay=weight_decay)
        if not any(all(isinstance(beta, kind) for beta in betas) for kind in (float, Tensor)):
            raise failure(ValueError, "betas must be either both floats or both Tensors")
        tensors = {"lr": lr, "betas[0]": betas[0], "betas[1]": betas[1]}
        for name in tensors if foreach and not capturable else ():
            if isinstance(tensors[name], Tensor):
                what = "is not supported for capturable=False and foreach=True"
                raise failure(ValueError, f"{name} as a Tensor {what}")
        defaults = {
            "lr": lr,
            "betas": (as_number(betas[0]), as_number(betas[1])),
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def slots(self, group: ParameterGroup) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if group["amsgrad"] else ("exp_avg", "exp_avg_sq")

    def constants(self, group: ParameterGroup, step: float, kept: dict[str, Any], fresh: bool) -> Any:
        (beta1, beta2), lr, decay = group["betas"], as_number(group["lr"]), group["weight_decay"]
        decoupled = group["decoupled_weight_decay"]
        return (
            1 - beta1,
            shares(beta2),
            (1 - beta2**step) ** 0.5,
            group["eps"],
            lr / (1 - beta1**step),
            None if decoupled else unless_zero(decay),
            1 - lr * decay if decoupled and decay else None,
            group["maximize"],
        )

    def update(
        self, p: np.ndarray, g: np.ndarray, slots: Arrays, constants: Any, a: np.ndarray, b: np.ndarray
    ) -> None:
        weight, square_shares, correction, eps, size, decay, shrink, maximize = constants
        if shrink is not None:
            p *= shrink
        if decay is not None or maximize:
            g = direction(p, g, decay, maximize, a, b)
        mean, square = slots[0], slots[1]
        average_gradient(mean, g, weight, a)
        average_square(square, g, square_shares, a)
        if len(slots) == 3:
            square = np.maximum(slots[2], square, out=slots[2])
        np.sqrt(square, out=a)
        a /= correction
        a += eps
        np.divide(mean, a, out=a)
        a *= size
        p -= a


class AdamW(Adam):
    """Adam with weight decay apart from the gradient. Source: `torch.optim.AdamW`."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )


class Adamax(ElementwiseOptimizer):
    """Adam with the largest gradient in the place of the mean square. Source: `torch.optim.Adamax`."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_options(lr, betas, epsilon=eps, weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def slots(self, group: ParameterGroup) -> tuple[str, ...]:
        return ("exp_avg", "exp_inf")

    def constants(self, group: ParameterGroup, step: float, kept: dict[str, Any], fresh: bool) -> Any:
        (beta1, beta2), lr = group["betas"], as_number(group["lr"])
        size = lr / (1 - beta1**step)
        return 1 - beta1, beta2, size, group["eps"], unless_zero(group["weight_decay"]), group["maximize"]

    def update(
        self, p: np.ndarray, g: np.ndarray, slots: Arrays, constants: Any, a: np.ndarray, b: np.ndarray
    ) -> None:
        weight, beta2, size, eps, decay, maximize = constants
        g = direction(p, g, decay, maximize, a, b)
        mean, largest = slots
        average_gradient(mean, g, weight, a)
        np.abs(g, out=a)
        a += eps
        largest *= beta2
        np.maximum(largest, a, out=largest)
        np.divide(mean, largest, out=a)
        a *= size
        p -= a


class NAdam(ElementwiseOptimizer):
    """Adam with Nesterov momentum. Source: `torch.optim.NAdam`."""

    bundled = False  # each parameter keeps a product of its own
    advanced = ("mu_product",)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr, betas, epsilon=eps, weight_decay=weight_decay, momentum_decay=momentum_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def slots(self, group: ParameterGroup) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq")

    def constants(self, group: ParameterGroup, step: float, kept: dict[str, Any], fresh: bool) -> Any:
        (beta1, beta2), lr, decay = group["betas"], as_number(group["lr"]), group["weight_decay"]
        mu, mu_next = (
            beta1 * (1.0 - 0.5 * (0.96 ** (count * group["momentum_decay"]))) for count in (step, step + 1)
        )
        total = times(kept.setdefault("mu_product", scalar(1.0)), mu, group["differentiable"])
        decoupled = group["decoupled_weight_decay"]
        return (
            (1 - beta1, shares(beta2), 1 - beta2**step, group["eps"]),
            (lr * (1.0 - mu) / (1.0 - total), lr * mu_next / (1.0 - total * mu_next)),
            (
                None if decoupled else unless_zero(decay),
                1 - lr * decay if decoupled and decay else None,
                group["maximize"],
            ),
        )

    def update(
        self, p: np.ndarray, g: np.ndarray, slots: Arrays, constants: Any, a: np.ndarray, b: np.ndarray
    ) -> None:
        (weight, square_shares, correction, eps), (size, size_mean), (decay, shrink, maximize) = constants
        if shrink is not None:
            p *= shrink
        g = direction(p, g, decay, maximize, a, b)
        mean, square = slots
        average_gradient(mean, g, weight, a)
        average_square(square, g, square_shares, a)
        np.multiply(g, size, out=b)
        np.multiply(mean, size_mean, out=a)
        b += a
        np.divide(square, correction, out=a)
        np.sqrt(a, out=a)
        a += eps
        b /= a
        p -= b


class RAdam(ElementwiseOptimizer):
    """Adam that starts without scaling, until the variance is known. Source: `torch.optim.RAdam`."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr, betas, epsilon=eps, weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def slots(self, group: ParameterGroup) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq")

    def constants(self, group: ParameterGroup, step: float, kept: dict[str, Any], fresh: bool) -> Any:
        (beta1, beta2), lr, decay = group["betas"], as_number(group["lr"]), group["weight_decay"]
        correction = 1 - beta2**step
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * step * beta2**step / correction
        size, known = lr / (1 - beta1**step), length > 5.0
        if known:
            share = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
            size *= share**0.5 * correction**0.5
        decoupled = group["decoupled_weight_decay"]
        return (
            (1 - beta1, shares(beta2), group["eps"], size, known),
            (
                None if decoupled else unless_zero(decay),
                1 - lr * decay if decoupled and decay else None,
                group["maximize"],
            ),
        )

    def update(
        self, p: np.ndarray, g: np.ndarray, slots: Arrays, constants: Any, a: np.ndarray, b: np.ndarray
    ) -> None:
        (weight, square_shares, eps, size, known), (decay, shrink, maximize) = constants
        if shrink is not None:
            p *= shrink
        g = direction(p, g, decay, maximize, a, b)
        mean, square = slots
        average_gradient(mean, g, weight, a)
        average_square(square, g, square_shares, a)
        if known:
            np.sqrt(square, out=a)
            a += eps
            np.divide(mean, a, out=a)
            a *= size
        else:
            np.multiply(mean, size, out=a)
        p -= a


def times(product: Tensor, factor: float, differentiable: bool) -> Any:
    """The running `product` with one more factor: a number, or a tensor on the graph."""
    if differentiable:
        product.mul_(factor)
        return product.clone()
    product.array *= factor
    return product.array.item()
