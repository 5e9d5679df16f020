"""`LRScheduler`: sets the learning rate of each group, epoch by epoch."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from typing import Any

from fusegrad.eager.core.errors import failure, warn
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.optim.optimizer import Optimizer, as_number, copied

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. "
    "Please use `scheduler.step()` to step the scheduler. If epoch is different from None, the closed form "
    "is used instead of the new chainable form, where available."
)
TOO_EARLY = (
    "Detected call of `lr_scheduler.step()` before `optimizer.step()`. You should call them in the opposite "
    "order: `optimizer.step()` before `lr_scheduler.step()`. Otherwise the first value of the learning rate "
    "schedule is skipped. See more details at "
    "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"
)
OVERRIDDEN = (
    "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. Please, "
    "make sure to call `optimizer.step()` before `lr_scheduler.step()`. See more details at "
    "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"
)


def checked_optimizer(optimizer: Any) -> Optimizer:
    """`optimizer`, which must be one."""
    if not isinstance(optimizer, Optimizer):
        raise failure(TypeError, f"{type(optimizer).__name__} is not an Optimizer")
    return optimizer


def group_values(optimizer: Optimizer, key: str) -> list[Any]:
    """An option of every group."""
    return [copied(group[key]) for group in optimizer.param_groups]


def set_option(group: dict[str, Any], key: str, value: Any) -> None:
    """Set an option; one that is a tensor is written into."""
    if isinstance(group[key], Tensor):
        group[key].fill_(as_number(value))
    else:
        group[key] = value


def one_a_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """An argument that is one value, or a list with one for each group, as such a list."""
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        value = [value] * count
    if len(value) != count:
        raise failure(
            ValueError,
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} values, "
            f"param_groups has {count}.",
        )
    return [copied(v) for v in value]


class LRScheduler:
    """Sets the learning rate of each group from the number of epochs. Subclasses define `get_lr`.

    Source: `torch.optim.lr_scheduler.LRScheduler`.
    """

    optimizer: Optimizer
    last_epoch: int
    base_lrs: list[Any]
    _step_count: int
    _last_lr: list[Any]
    _initial = False  # whether the step of the constructor runs, which sets the first rates

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = checked_optimizer(optimizer)
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise failure(
                    KeyError,
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with "
                    "last_epoch >= 0; load the optimizer's state first, or leave last_epoch out",
                )
        self.base_lrs = group_values(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        optimizer.__dict__.setdefault("_opt_called", False)
        optimizer.__dict__["_own_step"] = optimizer.__dict__.get("step")
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._initial = True
        try:
            self.step()
        finally:
            del self._initial

    def state_dict(self) -> dict[str, Any]:
        """All but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the state of another schedule."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The rates set last, one a group."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """The rates for `last_epoch`, one a group."""
        raise NotImplementedError

    def closed_form(self) -> list[Any]:
        """The rates for `last_epoch` without those before it, where there is a formula."""
        return self.get_lr()

    def step(self, epoch: int | None = None) -> None:
        """Go on to the next epoch; call it after `optimizer.step()`."""
        if self._step_count == 1:
            self._check_order()
        self._step_count += 1
        if epoch is not None:
            warn(EPOCH_DEPRECATION_WARNING)
        self._update_lr(epoch)

    def _check_order(self) -> None:
        """Warn where the optimizer has not made a step before the first one of the schedule."""
        own = self.optimizer.__dict__
        if own.get("step") is not own.get("_own_step"):
            warn(OVERRIDDEN)
        elif not own.get("_opt_called", True):
            warn(TOO_EARLY)

    def _update_lr(self, epoch: int | None = None) -> None:
        if epoch is None:
            self.last_epoch += 1
            values = self.get_lr()
        else:
            self.last_epoch = epoch
            values = self.closed_form()
        self._set(values)

    def _set(self, rates: Iterable[Any]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            set_option(group, "lr", rate)
        self._last_lr = group_values(self.optimizer, "lr")

    def _scaled(self, factor: float) -> list[Any]:
        """The present rates times `factor`."""
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _present(self) -> list[Any]:
        return group_values(self.optimizer, "lr")


def kept_function(function: Any) -> dict[str, Any] | None:
    """What a state dict keeps of a function: the attributes of a callable object, nothing of a function."""
    return None if isinstance(function, types.FunctionType) else dict(function.__dict__)


class FunctionScheduler(LRScheduler):
    """A schedule made of functions of the epoch: one, or one a group."""

    lr_lambdas: list[Callable[[int], float]]

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1) -> None:
        self.optimizer = checked_optimizer(optimizer)
        count = len(optimizer.param_groups)
        given = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * count
        if len(given) != count:
            raise failure(ValueError, f"Expected {count} lr_lambdas, but got {len(given)}")
        for function in given:
            if not callable(function):
                raise failure(TypeError, f"lr_lambda should be a function, but got {type(function).__name__}")
        self.lr_lambdas = given
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """All but the optimizer; of functions nothing, of other callables their attributes."""
        return {**super().state_dict(), "lr_lambdas": [kept_function(f) for f in self.lr_lambdas]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the state of another schedule; functions stay those given here."""
        kept = state_dict["lr_lambdas"]
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        for function, attributes in zip(self.lr_lambdas, kept, strict=True):
            if attributes is not None:
                function.__dict__.update(attributes)
