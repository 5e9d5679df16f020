"""Learning-rate schedules. Source: `torch.optim.lr_scheduler`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fusegrad.eager.optim.optimizers import Optimizer


class LRScheduler:
    """Sets the learning rate of each group from the number of epochs. Subclasses define `get_lr`."""

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer, self.last_epoch = optimizer, last_epoch
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self._last_lr = list(self.base_lrs)
        self.step()

    def get_lr(self) -> list[float]:
        """The rates for `last_epoch`, one a group."""
        raise NotImplementedError

    def get_last_lr(self) -> list[float]:
        """The rates set last."""
        return self._last_lr

    def step(self) -> None:
        """Go on to the next epoch."""
        self.last_epoch += 1
        self._last_lr = self.get_lr()
        for group, rate in zip(self.optimizer.param_groups, self._last_lr, strict=True):
            group["lr"] = rate

    def state_dict(self) -> dict[str, Any]:
        """All but the optimizer (and functions)."""
        skipped = ("optimizer", "lr_lambdas")
        return {key: value for key, value in self.__dict__.items() if key not in skipped}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the state of another schedule."""
        self.__dict__.update(state_dict)


class LambdaLR(LRScheduler):
    """The initial rate times a function of the epoch (one, or one a group)."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1) -> None:
        given = (
            lr_lambda if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * len(optimizer.param_groups)
        )
        self.lr_lambdas: list[Callable[[int], float]] = list(given)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        pairs = zip(self.base_lrs, self.lr_lambdas, strict=True)
        return [rate * function(self.last_epoch) for rate, function in pairs]


class StepLR(LRScheduler):
    """The rate times `gamma` every `step_size` epochs."""

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        rates = [group["lr"] for group in self.optimizer.param_groups]
        if self.last_epoch == 0 or self.last_epoch % self.step_size:
            return rates
        return [rate * self.gamma for rate in rates]


class ExponentialLR(LRScheduler):
    """The rate times `gamma` every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        factor = 1.0 if self.last_epoch == 0 else self.gamma
        return [group["lr"] * factor for group in self.optimizer.param_groups]


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the initial rate to `eta_min` in `T_max` epochs, and back."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        share = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]
