"""Schedules that go up and down: cycles, one cycle, and warm restarts."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.optim.optimizer import Optimizer
from fusegrad.eager.optim.schedules.base import (
    LRScheduler,
    checked_optimizer,
    kept_function,
    one_a_group,
    set_option,
)


class _Momentum(LRScheduler):
    """What CyclicLR and OneCycleLR share: the momentum (or the first beta) moves against the rate."""

    use_beta1: bool

    def _start_momentum(self, base: Any, most: Any, last_epoch: int) -> tuple[list[Any], list[Any]]:
        """The least and the largest momentum of each group, which the groups start with and keep."""
        optimizer = self.optimizer
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise failure(
                ValueError, "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
            )
        self.use_beta1 = "betas" in optimizer.defaults
        bases = one_a_group("base_momentum", optimizer, base)
        mosts = one_a_group("max_momentum", optimizer, most)
        if last_epoch == -1:
            for least, largest, group in zip(bases, mosts, optimizer.param_groups, strict=True):
                self._set_momentum(group, largest)
                group["max_momentum"] = largest
                group["base_momentum"] = least
        return bases, mosts

    def _set_momentum(self, group: dict[str, Any], value: float) -> None:
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value


class CyclicLR(_Momentum):
    """The rate between `base_lr` and `max_lr`, up and down. Source: `torch.optim.lr_scheduler.CyclicLR`.

    mode: "triangular", "triangular2" (half as high each cycle) or "exp_range" (times `gamma` each step).
    scale_fn: a height of one's own, from the number of the cycle or of the step (`scale_mode`).
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = checked_optimizer(optimizer)
        base_lrs = one_a_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for rate, group in zip(base_lrs, optimizer.param_groups, strict=True):
                set_option(group, "lr", rate)
        self.max_lrs = one_a_group("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise failure(ValueError, "mode is invalid and scale_fn is None")
        self.mode, self.gamma, self._scale_fn_custom = mode, gamma, scale_fn
        if scale_fn is None:
            scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.scale_mode, self.cycle_momentum = scale_mode, cycle_momentum
        if cycle_momentum:
            self.base_momentums, self.max_momentums = self._start_momentum(
                base_momentum, max_momentum, last_epoch
            )
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """The height of a cycle."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        return self._own_scale()(x)

    def _own_scale(self) -> Callable[[float], float]:
        """The scale of the mode. Files that PyTorch wrote name these functions."""
        if self.mode == "exp_range":
            return partial(self._exp_range_scale_fn, self.gamma)
        return self._triangular_scale_fn if self.mode == "triangular" else self._triangular2_scale_fn

    @staticmethod
    def _triangular_scale_fn(x: float) -> float:
        return 1.0

    @staticmethod
    def _triangular2_scale_fn(x: float) -> float:
        return 1 / (2.0 ** (x - 1))

    @staticmethod
    def _exp_range_scale_fn(gamma: float, x: float) -> float:
        return gamma**x

    def get_lr(self) -> list[Any]:
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        share = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        height = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            limits = zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True)
            for group, least, largest in limits:
                self._set_momentum(group, largest - (largest - least) * share * height)
        pairs = zip(self.base_lrs, self.max_lrs, strict=True)
        return [base + (most - base) * share * height for base, most in pairs]

    def state_dict(self) -> dict[str, Any]:
        """All but the optimizer; of `scale_fn` nothing, or the attributes of a callable object."""
        function = self._scale_fn_custom
        return {
            **super().state_dict(),
            "_scale_fn_custom": None if function is None else kept_function(function),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the state of another schedule; `scale_fn` stays the one given here."""
        attributes = state_dict["_scale_fn_custom"]
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_scale_fn_custom"})
        if attributes is not None:
            self._scale_fn_custom.__dict__.update(attributes)


class OneCycleLR(_Momentum):
    """One rise to `max_lr` and a long fall. Source: `torch.optim.lr_scheduler.OneCycleLR`.

    total_steps, or epochs and steps_per_epoch: the length; stepping beyond it raises ValueError.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = checked_optimizer(optimizer)
        self.total_steps = _length(total_steps, epochs, steps_per_epoch)
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise failure(ValueError, f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise failure(
                ValueError,
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}",
            )
        self._anneal_func_type = anneal_strategy
        self._schedule_phases = self._phases(pct_start, three_phase)
        most = one_a_group("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for rate, group in zip(most, optimizer.param_groups, strict=True):
                group["initial_lr"] = rate / div_factor
                group["max_lr"] = rate
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._start_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def _phases(self, share: float, three: bool) -> list[dict[str, Any]]:
        """Where each phase ends, and between which options of a group it goes."""
        top, low = "max_momentum", "base_momentum"
        last = self.total_steps - 1
        first_end = float(share * self.total_steps) - 1
        rows: list[tuple[float, str, str, str, str]] = [(first_end, "initial_lr", "max_lr", top, low)]
        if three:
            middle = float(2 * share * self.total_steps) - 2
            rows += [(middle, "max_lr", "initial_lr", low, top), (last, "initial_lr", "min_lr", top, top)]
        else:
            rows.append((last, "max_lr", "min_lr", low, top))
        names = ("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum")
        return [dict(zip(names, row, strict=True)) for row in rows]

    def _between(self, start: float, end: float, share: float) -> float:
        if self._anneal_func_type == "cos":
            return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)
        return (end - start) * share + start

    def get_lr(self) -> list[Any]:
        step = self.last_epoch
        if step > self.total_steps:
            raise failure(
                ValueError,
                f"Tried to step {step} times. The specified number of total steps is {self.total_steps}",
            )
        phases, start = self._schedule_phases, 0.0
        number = next((i for i, p in enumerate(phases) if step <= p["end_step"]), len(phases) - 1)
        if number:
            start = phases[number - 1]["end_step"]
        phase = phases[number]
        share = (step - start) / (phase["end_step"] - start)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._between(group[phase["start_lr"]], group[phase["end_lr"]], share))
            if self.cycle_momentum:
                limits = group[phase["start_momentum"]], group[phase["end_momentum"]]
                self._set_momentum(group, self._between(*limits, share))
        return rates


def _length(total: int | None, epochs: int | None, steps: int | None) -> int:
    """The number of steps that OneCycleLR was asked for."""
    if total is None and (epochs is None or steps is None):
        raise failure(ValueError, "You must define either total_steps OR (epochs AND steps_per_epoch)")
    given = {"total_steps": total} if total is not None else {"epochs": epochs, "steps_per_epoch": steps}
    for name, value in given.items():
        if not isinstance(value, int) or value <= 0:
            raise failure(ValueError, f"Expected positive integer {name}, but got {value}")
    return math.prod(given.values())  # type: ignore[arg-type]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half cosines from the initial rate to `eta_min`, each `T_mult` times as long as the one before.

    Source: `torch.optim.lr_scheduler.CosineAnnealingWarmRestarts`.
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if not isinstance(T_0, int) or T_0 <= 0:
            raise failure(ValueError, f"Expected positive integer T_0, but got {T_0}")
        if not isinstance(T_mult, int) or T_mult < 1:
            raise failure(ValueError, f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise failure(
                ValueError, f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}"
            )
        self.T_0, self.T_i, self.T_mult, self.eta_min, self.T_cur = T_0, T_0, T_mult, eta_min, last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        height = 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return [self.eta_min + (rate - self.eta_min) * height / 2 for rate in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go on to the next epoch, or to `epoch`, which may be a fraction."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            self._jump(epoch)
        self.last_epoch = math.floor(epoch)
        self._set(self.get_lr())

    def _jump(self, epoch: Any) -> None:
        """Set the place within the cycle for any epoch."""
        if epoch < 0:
            raise failure(ValueError, f"Expected non-negative epoch, but got {epoch}")
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            count = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**count - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**count
