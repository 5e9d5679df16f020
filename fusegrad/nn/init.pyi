"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from typing import Any as _Any

from fusegrad.eager.core.tensor import Tensor as _Tensor
from fusegrad.eager.nn.init import (
    calculate_gain as calculate_gain,
    constant_ as constant_,
    dirac_ as dirac_,
    eye_ as eye_,
    kaiming_normal_ as kaiming_normal_,
    kaiming_uniform_ as kaiming_uniform_,
    normal_ as normal_,
    ones_ as ones_,
    orthogonal_ as orthogonal_,
    sparse_ as sparse_,
    trunc_normal_ as trunc_normal_,
    uniform_ as uniform_,
    xavier_normal_ as xavier_normal_,
    xavier_uniform_ as xavier_uniform_,
    zeros_ as zeros_,
)

def _calculate_fan_in_and_fan_out(tensor: _Tensor) -> tuple[int, int]: ...
def constant(tensor: _Tensor, val: float) -> _Tensor: ...
def dirac(tensor: _Tensor, groups: int = 1) -> _Tensor: ...
def eye(tensor: _Tensor) -> _Tensor: ...
def kaiming_normal(
    tensor: _Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: _Any = None,
) -> _Tensor: ...
def kaiming_uniform(
    tensor: _Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: _Any = None,
) -> _Tensor: ...
def normal(tensor: _Tensor, mean: float = 0.0, std: float = 1.0, generator: _Any = None) -> _Tensor: ...
def orthogonal(tensor: _Tensor, gain: float = 1, generator: _Any = None) -> _Tensor: ...
def sparse(tensor: _Tensor, sparsity: float, std: float = 0.01, generator: _Any = None) -> _Tensor: ...
def uniform(tensor: _Tensor, a: float = 0.0, b: float = 1.0, generator: _Any = None) -> _Tensor: ...
def xavier_normal(tensor: _Tensor, gain: float = 1.0, generator: _Any = None) -> _Tensor: ...
def xavier_uniform(tensor: _Tensor, gain: float = 1.0, generator: _Any = None) -> _Tensor: ...
