"""Averages of weights over training: their mean, or an exponential average. As `torch.optim.swa_utils`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.state import no_grad
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.nn.module import Module
from fusegrad.eager.nn.normalization import _BatchNorm
from fusegrad.eager.optim.optimizer import Optimizer
from fusegrad.eager.optim.schedules.base import LRScheduler, checked_optimizer, one_a_group

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

Average = Callable[[Tensor, Tensor, Any], Any]
Averages = Callable[[Sequence[Tensor], Sequence[Tensor], Any], None]


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """The exponential average: `decay` of the old, the rest of the new. For `AveragedModel(avg_fn=)`."""
    _check_decay(decay)

    @no_grad()
    def average(averaged: Tensor, current: Tensor, count: Any) -> Any:
        return decay * averaged + (1 - decay) * current

    return average


def get_swa_avg_fn() -> Average:
    """The mean of all. For `AveragedModel(avg_fn=)`."""
    return _mean


@no_grad()
def _mean(averaged: Tensor, current: Tensor, count: Any) -> Any:
    return averaged + (current - averaged) / (count + 1)


def get_ema_multi_avg_fn(decay: float = 0.999) -> Averages:
    """`get_ema_avg_fn` for all weights at once, in place. For `AveragedModel(multi_avg_fn=)`."""
    _check_decay(decay)

    @no_grad()
    def average(averaged: Sequence[Tensor], current: Sequence[Tensor], count: Any) -> None:
        for old, new in zip(averaged, current, strict=True):
            if old.is_floating_point() or old.is_complex():
                old.lerp_(new, 1 - decay)
            else:
                old.copy_(decay * old + (1 - decay) * new)

    return average


def get_swa_multi_avg_fn() -> Averages:
    """The mean of all, for all weights at once, in place. For `AveragedModel(multi_avg_fn=)`."""
    return _means


@no_grad()
def _means(averaged: Sequence[Tensor], current: Sequence[Tensor], count: Any) -> None:
    for old, new in zip(averaged, current, strict=True):
        old.copy_(_mean(old, new, count))


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise failure(
            ValueError, f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
        )


class AveragedModel(Module):
    """A copy of `model` whose weights `update_parameters` makes the average of those that it has seen.

    avg_fn: of an averaged weight, the present one and how many were seen, the new average; multi_avg_fn: the
    same for all weights at once, in place; the mean without either. use_buffers: average buffers, too, which
    otherwise are the model's last. Source: `torch.optim.swa_utils.AveragedModel`.

    >>> import fusegrad as fg
    >>> model = fg.nn.Linear(1, 1, bias=False)
    >>> averaged = fg.optim.swa_utils.AveragedModel(model)
    >>> for value in (1.0, 2.0, 6.0):
    ...     _ = fg.nn.init.constant_(model.weight, value)
    ...     averaged.update_parameters(model)
    >>> averaged.module.weight.item()
    3.0
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: Averages | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise failure(AssertionError, "Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", ops.zeros((), dtype="int64"))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the model with averaged weights gives."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take the present weights of `model` into the average."""
        averaged, current = _state(self.module, self.use_buffers), _state(model, self.use_buffers)
        with no_grad():
            if not self.n_averaged:
                for old, new in zip(averaged, current, strict=True):
                    old.copy_(new)
            elif self.avg_fn is None:
                (self.multi_avg_fn or _means)(averaged, current, self.n_averaged)
            else:
                for old, new in zip(averaged, current, strict=True):
                    old.copy_(self.avg_fn(old, new, self.n_averaged))
            if not self.use_buffers:
                for old, new in zip(self.module.buffers(), model.buffers(), strict=True):
                    old.copy_(new)
            self.n_averaged += 1


def _state(model: Module, with_buffers: bool) -> list[Tensor]:
    """The parameters of a model (and buffers), off the graph."""
    found = [*model.parameters(), *(model.buffers() if with_buffers else ())]
    return [tensor.detach() for tensor in found]


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Find the running statistics of all batch norms anew, from the inputs that `loader` gives.

    An input that is a list or tuple gives its first entry. Source: `torch.optim.swa_utils.update_bn`.
    """
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    training = model.training
    model.train()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
    for batch in loader:
        given = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(given if device is None else given.to(device))
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    model.train(training)


class SWALR(LRScheduler):
    """From the present rate to `swa_lr` within `anneal_epochs`, along a cosine or a line; then constant.

    Raises ValueError for other strategies and epochs. Source: `torch.optim.swa_utils.SWALR`.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: Any,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        checked_optimizer(optimizer)
        for rate, group in zip(one_a_group("swa_lr", optimizer, swa_lr), optimizer.param_groups, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise failure(
                ValueError, f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise failure(ValueError, f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs, self._anneal_strategy = anneal_epochs, anneal_strategy
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates after this step: those before it stood where the step before had brought them."""
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(step - 1), self._share(step)
        rates = []
        for group in self.optimizer.param_groups:
            goal = group["swa_lr"]
            start = goal if before == 1 else (group["lr"] - before * goal) / (1 - before)
            rates.append(goal * now + start * (1 - now))
        return rates

    def _share(self, step: int) -> float:
        """How much of the way to `swa_lr` is gone."""
        way = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return way if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * way)) / 2


locate("fusegrad.optim.swa_utils", globals(), __all__)
