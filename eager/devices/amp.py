"""Mixed precision, as `torch.amp`: programs that ask for it on a device that is not there run without.

`autocast` of the CPU computes in bfloat16, and `GradScaler("cpu")` scales.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure, warn
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.state import no_grad
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.devices.autocasting import Outside, begin, end, is_autocast_available
from fusegrad.eager.optim.optimizer import Optimizer

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
_OTHERS = ("cuda", "mps", "xpu", "hpu", "xla", "ipu", "mtia")


class autocast:
    """A `with` block, or decorator, in which products on a device are computed in half precision.

    On the CPU matrix products, convolutions and linear layers get their operands as bfloat16 (or float16, if
    `dtype` says so), losses and linear algebra theirs as float32. Of a device that is not there it warns, and
    does nothing. Jitted functions inside run op by op, and one that has it in it is replayed only where it is
    switched off. Source: `torch.amp.autocast`.

    >>> import fusegrad as fg
    >>> with fg.autocast("cpu"):
    ...     print(fg.ones(2) @ fg.ones(2))
    tensor(2., dtype=torch.bfloat16)
    """

    def __init__(
        self, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        if not isinstance(device_type, str):
            raise failure(
                ValueError, f"Expected `device_type` of type `str`, got: `{type(device_type).__name__}`"
            )
        if device_type not in ("cpu", *_OTHERS):
            raise failure(
                RuntimeError, f"Expected one of cpu, {', '.join(_OTHERS)} device type: {device_type}"
            )
        self.device = device_type
        self.fast_dtype = dtypes.bfloat16 if dtype is None and device_type == "cpu" else dtype
        self._wanted: Any = None
        self._entered: list[Outside] = []
        if enabled and device_type != "cpu":
            warn(f"{device_type.upper()} is not available. Disabling autocast.")
        elif enabled and self.fast_dtype not in (dtypes.bfloat16, dtypes.float16):
            warn("In CPU autocast, but the target dtype is not supported. Disabling autocast.")
        elif enabled:
            self._wanted = self.fast_dtype

    def __enter__(self) -> autocast:
        if self.device == "cpu":
            self._entered.append(begin(self._wanted))
        return self

    def __exit__(self, *_: Any) -> None:
        if self.device == "cpu":
            end(self._entered.pop())

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return wrapped


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str = "cuda", cast_inputs: Any = None
) -> Any:
    """`forward` of a `Function` as it is: no autocast casts its inputs. Source: `torch.amp.custom_fwd`."""
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    return fwd


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str = "cuda") -> Any:
    """`backward` of a `Function` as it is. Source: `torch.amp.custom_bwd`."""
    return functools.partial(custom_bwd, device_type=device_type) if bwd is None else bwd


class GradScaler:
    """Scales a loss so that its gradients do not vanish in half precision, and steps that overflow away.

    For a device that is not there (the default names one) it warns and does nothing.

    Source: `torch.amp.GradScaler`.

    >>> import fusegrad as fg
    >>> scaler = fg.amp.GradScaler("cpu", init_scale=8.0)
    >>> scaler.scale(fg.ones(2))
    tensor([8., 8.])
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if enabled and device != "cpu":
            text = f"torch.{device}.amp.GradScaler is enabled, but {device.upper()} is not available."
            warn(f"{text}  Disabling.")
            enabled = False
        self._enabled, self._device = enabled, device
        if enabled and growth_factor <= 1.0:
            raise failure(ValueError, "The growth factor must be > 1.0.")
        if enabled and backoff_factor >= 1.0:
            raise failure(ValueError, "The backoff factor must be < 1.0.")
        self._scale, self._growth_factor, self._backoff_factor = init_scale, growth_factor, backoff_factor
        self._growth_interval, self._growth_tracker = growth_interval, 0
        # By optimizer, since the last update: whether a gradient was not finite, and what was done.
        self._overflowed: dict[int, bool] = {}
        self._stepped: set[int] = set()

    def scale(self, outputs: Any) -> Any:
        """A tensor, or each of an iterable, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        if isinstance(outputs, Iterable):
            scaled = [self.scale(x) for x in outputs]
            return scaled if isinstance(outputs, list) else tuple(scaled)
        raise failure(ValueError, "outputs must be a Tensor or an iterable of Tensors")

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of an optimizer's parameters by the scale, once between updates."""
        if not self._enabled:
            return
        if id(optimizer) in self._stepped:
            raise failure(RuntimeError, "unscale_() is being called after step().")
        if id(optimizer) in self._overflowed:
            raise failure(
                RuntimeError,
                "unscale_() has already been called on this optimizer since the last update().",
            )
        gradients = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        if not gradients:
            raise failure(AssertionError, "No inf checks were recorded for this optimizer.")
        inverse, finite = 1.0 / self._scale, True
        with no_grad():
            for gradient in gradients:
                if gradient.dtype is dtypes.float16:
                    raise failure(ValueError, "Attempting to unscale FP16 gradients.")
                finite = bool(gradient.isfinite().all()) and finite
                gradient.mul_(inverse)
        self._overflowed[id(optimizer)] = not finite

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """`optimizer.step()`, unless a gradient is infinite or NaN; gives its result, or None."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise failure(RuntimeError, "Closure use is not currently supported if GradScaler is enabled.")
        if id(optimizer) in self._stepped:
            raise failure(RuntimeError, "step() has already been called since the last update().")
        if id(optimizer) not in self._overflowed:
            self.unscale_(optimizer)
        self._stepped.add(id(optimizer))
        return None if self._overflowed[id(optimizer)] else optimizer.step(*args, **kwargs)

    def update(self, new_scale: Any = None) -> None:
        """Lower the scale after a step that was left out, raise it after many that were not; or set it."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale)
        elif not self._overflowed:
            raise failure(AssertionError, "No inf checks were recorded prior to update.")
        elif any(self._overflowed.values()):
            self._scale *= self._backoff_factor
            self._growth_tracker = 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                self._scale *= self._growth_factor
                self._growth_tracker = 0
        self._overflowed.clear()
        self._stepped.clear()

    def get_scale(self) -> float:
        """The scale; 1 if there is none."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """What the scale is multiplied by to raise it."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set what the scale is multiplied by to raise it."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """What the scale is multiplied by to lower it."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set what the scale is multiplied by to lower it."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many steps the scale is raised."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set after how many steps the scale is raised."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Whether it scales."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The scale and how it changes; empty if there is none."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        if not self._enabled:
            return
        if not state_dict:
            raise failure(
                RuntimeError,
                "The source state dict is empty, possibly because it was saved from a disabled instance of "
                "GradScaler.",
            )
        self._scale, self._growth_tracker = state_dict["scale"], state_dict["_growth_tracker"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]


locate("fusegrad.amp", globals(), __all__)
