"""Adafactor: steps scaled by squared gradients of which only the means of rows and columns are kept."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.optim.optimizer import ParameterGroup, SteppedByOps, as_number, check_one_element, scalar


class Adafactor(SteppedByOps):
    """Shazeer and Stern's steps (2018), of little memory. Source: `torch.optim.Adafactor`.

    lr: the largest step, relative to the parameter's root mean square. beta2_decay: the power of the step
    count by which the running means slow down. eps: the least square (None: the dtype's own), and the least
    root mean square. d: the largest root mean square of a step before it is scaled.

    >>> import fusegrad as fg
    >>> weight = fg.ones(4, 3, requires_grad=True)
    >>> optimizer = fg.optim.Adafactor([weight])
    >>> (weight * 2).sum().backward()
    >>> optimizer.step()
    >>> sorted(optimizer.state[weight])
    ['col_var', 'row_var', 'step']
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        check_one_element(lr)
        wrong = [
            (as_number(lr) < 0, f"Learning rate should be >= 0 but is: {lr}"),
            (beta2_decay > 0, f"beta2_decay should be <= 0 but is: {beta2_decay}"),
            (eps[0] is not None and eps[0] < 0, f"epsilon1 should be >= 0 but is: {eps[0]}"),
            (eps[1] < 0, f"epsilon2 should be >= 0 but is: {eps[1]}"),
            (d < 1, f"Clipping threshold d should be >= 1 but is: {d}"),
            (weight_decay < 0, f"weight_decay should be >= 0 but is: {weight_decay}"),
        ]
        for is_wrong, text in wrong:
            if is_wrong:
                raise failure(ValueError, text)
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _started(self, parameter: Tensor) -> dict[str, Any]:
        """What is kept for a parameter."""
        kept = self.state[parameter]
        if not kept:
            if parameter.is_complex():
                raise failure(RuntimeError, "Adafactor does not support complex parameters")
            kept["step"] = scalar(0.0)
            shape = parameter.shape
            if len(shape) > 1:
                kept["row_var"] = ops.zeros(*shape[:-1], 1, dtype=parameter.dtype)
                kept["col_var"] = ops.zeros(*shape[:-2], 1, shape[-1], dtype=parameter.dtype)
            else:
                kept["variance"] = ops.zeros(shape, dtype=parameter.dtype)
        return kept

    def _update(self, parameter: Tensor, gradient: Tensor, group: ParameterGroup) -> None:
        kept = self._started(parameter)
        kept["step"] += 1
        if not parameter.numel():
            return
        step, lr = kept["step"].item(), as_number(group["lr"])
        least, least_size = group["eps"]
        if least is None:
            least = dtypes.finfo(parameter.dtype).eps
        gradient = -gradient if group["maximize"] else gradient
        share = step ** group["beta2_decay"]
        size = max(least_size, parameter.norm(2).item() / math.sqrt(parameter.numel()))
        size *= min(lr, 1 / math.sqrt(step))
        if group["weight_decay"]:
            parameter.mul_(1 - lr * group["weight_decay"])
        squares = gradient.square()
        if gradient.dim() > 1:
            rows, columns = kept["row_var"], kept["col_var"]
            rows.lerp_(squares.mean(-1, keepdim=True), share)
            columns.lerp_(squares.mean(-2, keepdim=True), share)
            estimate = (rows @ columns) / rows.mean(-2, keepdim=True).clamp(min=least)
        else:
            estimate = kept["variance"].lerp_(squares, share)
        change = gradient * estimate.clamp(min=least * least).rsqrt()
        most = max(1.0, change.norm(2).item() / (math.sqrt(change.numel()) * group["d"]))
        parameter.add_(change, alpha=-size / most)
