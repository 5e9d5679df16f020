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
    normal as normal,
    poisson as poisson,
    randint as randint,
    randint_like as randint_like,
    randperm as randperm,
)

def fork_rng(devices: _Any = None, enabled: bool = True, **ignored: _Any) -> _Iterator[None]: ...
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
) -> _Tensor: ...
def rand_like(input: _Tensor, *, dtype: _Any = None, **options: _Any) -> _Tensor: ...
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
) -> _Tensor: ...
def randn_like(input: _Tensor, *, dtype: _Any = None, **options: _Any) -> _Tensor: ...

default_generator: _Generator
