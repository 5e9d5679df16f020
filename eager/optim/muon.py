"""Muon: steps of momentum, each matrix of which is made nearly orthogonal."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.optim.optimizer import ParameterGroup, SteppedByOps, as_number, check_one_element

# How far a step goes along an orthogonal matrix of so many rows and columns, by the name of the rule.
_ADJUSTMENTS: dict[str | None, Callable[[int, int], float]] = {
    "original": lambda rows, columns: math.sqrt(max(1, rows / columns)),
    "match_rms_adamw": lambda rows, columns: 0.2 * math.sqrt(max(rows, columns)),
}
_ADJUSTMENTS[None] = _ADJUSTMENTS["original"]


class Muon(SteppedByOps):
    """Jordan's steps for the matrices of hidden layers (https://kellerjordan.github.io/posts/muon).
    Source: `torch.optim.Muon`. What is no matrix is stepped by another optimizer, AdamW say.

    weight_decay: decoupled. ns_coefficients, ns_steps: of the polynomial that brings singular values near 1,
    and how often it is applied, in bfloat16. eps: the least norm that a step is divided by. adjust_lr_fn: how
    the learning rate depends on a matrix's shape, `"original"` or `"match_rms_adamw"`. Raises ValueError for
    parameters that are no matrices.

    >>> import fusegrad as fg
    >>> weight = fg.eye(2, requires_grad=True)
    >>> optimizer = fg.optim.Muon([weight], lr=0.1, weight_decay=0.0)
    >>> (weight * fg.tensor([[5.0, 0.0], [0.0, 0.01]])).sum().backward()
    >>> optimizer.step()
    >>> weight[0, 0].item() < 0.95
    True
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        check_one_element(lr)
        wrong = [
            (as_number(lr) < 0, f"Learning rate should be >= 0 but is: {lr}"),
            (momentum < 0, f"momentum should be >= 0 but is: {momentum}"),
            (weight_decay < 0, f"weight decay should be >= 0 but is: {weight_decay}"),
            (
                adjust_lr_fn not in _ADJUSTMENTS,
                f"Adjust learning rate function {adjust_lr_fn} is not supported",
            ),
        ]
        for is_wrong, text in wrong:
            if is_wrong:
                raise failure(ValueError, text)
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.dim() != 2:
                    text = "Muon only supports 2D parameters whereas we found a parameter with size"
                    raise failure(ValueError, f"{text}: {parameter.size()}")

    def _update(self, parameter: Tensor, gradient: Tensor, group: ParameterGroup) -> None:
        if parameter.is_complex():
            raise failure(RuntimeError, "Muon does not support complex parameters")
        kept = self.state[parameter]
        if not kept:
            kept["momentum_buffer"] = ops.zeros_like(gradient)
        momentum, lr = group["momentum"], as_number(group["lr"])
        running = kept["momentum_buffer"].lerp_(gradient, 1 - momentum)
        change = gradient.lerp(running, momentum) if group["nesterov"] else running
        change = _nearly_orthogonal(change, group["ns_coefficients"], group["ns_steps"], group["eps"])
        parameter.mul_(1 - lr * group["weight_decay"])
        parameter.add_(change, alpha=-lr * _ADJUSTMENTS[group["adjust_lr_fn"]](*parameter.shape))


def _nearly_orthogonal(
    matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float
) -> Tensor:
    """U S V^T, where U and V are those of the matrix's singular value decomposition, and S is about 0.5 to
    1.5: a polynomial of fifth degree, steep at zero, applied again and again (Newton, Schulz).
    """
    if steps >= 100:
        raise failure(ValueError, "Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise failure(ValueError, "Coefficients must be a tuple of exactly 3 values")
    first, third, fifth = coefficients
    rows, columns = matrix.shape
    found = matrix.to(dtypes.bfloat16)
    found = found.T if rows > columns else found
    found = found / found.norm().clamp(min=eps)
    for _ in range(steps):
        squares = found @ found.T
        powers = ops.addmm(squares, squares, squares, beta=third, alpha=fifth)
        found = ops.addmm(found, powers, found, beta=first)
    return found.T if rows > columns else found
