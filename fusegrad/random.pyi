"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from collections.abc import Iterator as _Iterator
from typing import Any as _Any

from fusegrad.eager.core.tensor import Tensor as _Tensor
from fusegrad.eager.random.drawing import bernoulli_ as bernoulli_, normal_ as normal_, uniform_ as uniform_
from fusegrad.eager.random.generator import (
    Generator as Generator,
    Generator as _Generator,
    get_rng_state as get_rng_state,
    initial_seed as initial_seed,
    manual_seed as manual_seed,
    seed as seed,
    set_rng_state as set_rng_state,
)
from fusegrad.eager.random.random import (
    bernoulli as bernoulli,
    binomial as binomial,
    multinomial as multinomial,
    poisson as poisson,
    randint_like as randint_like,
)

def fork_rng(devices: _Any = None, enabled: bool = True, **ignored: _Any) -> _Iterator[None]: ...
def normal(
    mean: _Any = 0.0,
    std: _Any = 1.0,
    size: _Any = None,
    *,
    generator: _Generator | None = None,
    dtype: _Any = None,
    device: _Any = None,
    layout: _Any = None,
    requires_grad: bool = False,
    out: _Any = None,
) -> _Tensor: ...
def rand(
    *sizes: _Any,
    size: _Any = None,
    generator: _Generator | None = None,
    dtype: _Any = None,
    requires_grad: bool = False,
    device: _Any = None,
    layout: _Any = None,
    memory_format: _Any = None,
    pin_memory: bool = False,
    out: _Any = None,
) -> _Tensor: ...
def rand_like(
    input: _Tensor,
    *,
    generator: _Generator | None = None,
    dtype: _Any = None,
    requires_grad: bool = False,
    device: _Any = None,
    layout: _Any = None,
    memory_format: _Any = None,
    pin_memory: bool = False,
) -> _Tensor: ...
def randint(
    low: _Any = None,
    high: _Any = None,
    size: _Any = None,
    *,
    generator: _Generator | None = None,
    dtype: _Any = None,
    device: _Any = None,
    layout: _Any = None,
    requires_grad: bool = False,
    out: _Any = None,
) -> _Tensor: ...
def randn(
    *sizes: _Any,
    size: _Any = None,
    generator: _Generator | None = None,
    dtype: _Any = None,
    requires_grad: bool = False,
    device: _Any = None,
    layout: _Any = None,
    memory_format: _Any = None,
    pin_memory: bool = False,
    out: _Any = None,
) -> _Tensor: ...
def randn_like(
    input: _Tensor,
    *,
    generator: _Generator | None = None,
    dtype: _Any = None,
    requires_grad: bool = False,
    device: _Any = None,
    layout: _Any = None,
    memory_format: _Any = None,
    pin_memory: bool = False,
) -> _Tensor: ...
def randperm(
    n: int,
    *,
    generator: _Generator | None = None,
    dtype: _Any = None,
    device: _Any = None,
    layout: _Any = None,
    requires_grad: bool = False,
    out: _Any = None,
) -> _Tensor: ...

default_generator: _Generator
