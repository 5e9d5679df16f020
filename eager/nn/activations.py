"""Activation functions as layers. Names, arguments and text as in `torch.nn`."""

from __future__ import annotations

from typing import Any

from fusegrad.eager.core.places.device import on_its_device
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.nn import functional as F, init
from fusegrad.eager.nn.declare_layer import REQUIRED, declared, parameter
from fusegrad.eager.nn.module import Module


def _activation(name: str, function: str, arguments: dict[str, Any], shown: str = "", **options: Any) -> type:
    return declared(__name__, name, function, arguments, shown=shown, **options)


_IN = {"inplace": False}
ReLU = _activation("ReLU", "relu", _IN)
SiLU = _activation("SiLU", "silu", _IN)
SELU = _activation("SELU", "selu", _IN)
Mish = _activation("Mish", "mish", _IN)
Hardswish = _activation("Hardswish", "hardswish", _IN)
Hardsigmoid = _activation("Hardsigmoid", "hardsigmoid", _IN)
Tanh = _activation("Tanh", "tanh", {})
Sigmoid = _activation("Sigmoid", "sigmoid", {})
LogSigmoid = _activation("LogSigmoid", "logsigmoid", {})
Softsign = _activation("Softsign", "softsign", {})
Tanhshrink = _activation("Tanhshrink", "tanhshrink", {})
GELU = _activation("GELU", "gelu", {"approximate": "none"}, "approximate")
GLU = _activation("GLU", "glu", {"dim": -1}, "dim")
LeakyReLU = _activation("LeakyReLU", "leaky_relu", {"negative_slope": 0.01, **_IN}, "negative_slope")
RReLU = _activation("RReLU", "rrelu", {"lower": 1 / 8, "upper": 1 / 3, **_IN}, "lower upper", mode=True)
ELU = _activation("ELU", "elu", {"alpha": 1.0, **_IN}, "alpha")
CELU = _activation("CELU", "celu", {"alpha": 1.0, **_IN}, "alpha")
Hardtanh = _activation("Hardtanh", "hardtanh", {"min_val": -1.0, "max_val": 1.0, **_IN}, "min_val max_val")
Threshold = _activation(
    "Threshold", "threshold", {"threshold": REQUIRED, "value": REQUIRED, **_IN}, "threshold value"
)
Softplus = _activation("Softplus", "softplus", {"beta": 1.0, "threshold": 20.0}, "beta threshold")
Softmax = _activation("Softmax", "softmax", {"dim": None}, "dim")
Softmin = _activation("Softmin", "softmin", {"dim": None}, "dim")
LogSoftmax = _activation("LogSoftmax", "log_softmax", {"dim": None}, "dim")


class ReLU6(Hardtanh):  # type: ignore[misc, valid-type]  # mypy sees no class in what is declared
    """min(max(x, 0), 6): bounds that can be set later, as those of `Hardtanh`. Source: `torch.nn.ReLU6`."""

    __signature__ = None  # that of `__init__`, not that of `Hardtanh`

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class _Shrink(Module):
    """An activation with a width around 0, which its text shows without a name."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(_Shrink):
    """x, or 0 where |x| is at most lambd. Source: `torch.nn.Hardshrink`."""

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """x brought toward 0 by lambd. Source: `torch.nn.Softshrink`."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)


class Softmax2d(Module):
    """softmax over the channels of [N, C, H, W] or [C, H, W]. Source: `torch.nn.Softmax2d`."""

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead")
        return F.softmax(input, -3)


class PReLU(Module):
    """x, or weight * x below 0, with one weight or one per channel. Source: `torch.nn.PReLU`."""

    @on_its_device
    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = parameter(num_parameters, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """All weights at their start."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"
