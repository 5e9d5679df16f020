"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from typing import Any as _Any

from fusegrad.eager.nn.activations import (
    Hardshrink as Hardshrink,
    PReLU as PReLU,
    ReLU6 as ReLU6,
    Softmax2d as Softmax2d,
    Softshrink as Softshrink,
)
from fusegrad.eager.nn.declare_layer import Declared as _Declared
from fusegrad.eager.nn.transformer import MultiheadAttention as MultiheadAttention

class CELU(_Declared):
    def __init__(self, alpha: _Any = 1.0, inplace: bool = False) -> None: ...

class ELU(_Declared):
    def __init__(self, alpha: _Any = 1.0, inplace: bool = False) -> None: ...

class GELU(_Declared):
    def __init__(self, approximate: str = "none") -> None: ...

class GLU(_Declared):
    def __init__(self, dim: _Any = -1) -> None: ...

class Hardsigmoid(_Declared):
    def __init__(self, inplace: bool = False) -> None: ...

class Hardswish(_Declared):
    def __init__(self, inplace: bool = False) -> None: ...

class Hardtanh(_Declared):
    def __init__(self, min_val: _Any = -1.0, max_val: _Any = 1.0, inplace: bool = False) -> None: ...

class LeakyReLU(_Declared):
    def __init__(self, negative_slope: _Any = 0.01, inplace: bool = False) -> None: ...

class LogSigmoid(_Declared):
    def __init__(self) -> None: ...

class LogSoftmax(_Declared):
    def __init__(self, dim: _Any = None) -> None: ...

class Mish(_Declared):
    def __init__(self, inplace: bool = False) -> None: ...

class RReLU(_Declared):
    def __init__(
        self, lower: _Any = 0.125, upper: _Any = 0.3333333333333333, inplace: bool = False
    ) -> None: ...

class ReLU(_Declared):
    def __init__(self, inplace: bool = False) -> None: ...

class SELU(_Declared):
    def __init__(self, inplace: bool = False) -> None: ...

class SiLU(_Declared):
    def __init__(self, inplace: bool = False) -> None: ...

class Sigmoid(_Declared):
    def __init__(self) -> None: ...

class Softmax(_Declared):
    def __init__(self, dim: _Any = None) -> None: ...

class Softmin(_Declared):
    def __init__(self, dim: _Any = None) -> None: ...

class Softplus(_Declared):
    def __init__(self, beta: _Any = 1.0, threshold: _Any = 20.0) -> None: ...

class Softsign(_Declared):
    def __init__(self) -> None: ...

class Tanh(_Declared):
    def __init__(self) -> None: ...

class Tanhshrink(_Declared):
    def __init__(self) -> None: ...

class Threshold(_Declared):
    def __init__(self, threshold: _Any, value: _Any, inplace: bool = False) -> None: ...
