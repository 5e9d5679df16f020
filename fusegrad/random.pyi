"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from collections.abc import Iterator as _Iterator
from typing import Any as _Any

from fusegrad.eager.core.sizes import Ints as _Ints
from fusegrad.eager.core.tensor import Tensor as _Tensor
from fusegrad.eager.random.generator import Generator as Generator, Generator as _Generator

def bernoulli(
    input: _Tensor, p: float | None = None, *, generator: _Generator | None = None, out: _Tensor | None = None
) -> _Tensor: ...
def bernoulli_(self: _Tensor, p: _Any = 0.5, *, generator: _Generator | None = None) -> _Tensor: ...
def binomial(count: _Tensor, prob: _Tensor, generator: _Generator | None = None) -> _Tensor: ...
def fork_rng(devices: _Any = None, enabled: bool = True, **ignored: _Any) -> _Iterator[None]: ...
def get_rng_state() -> _Tensor: ...
def initial_seed() -> int: ...
def manual_seed(seed: int) -> _Generator: ...
def multinomial(
    input: _Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: _Generator | None = None,
    out: _Tensor | None = None,
) -> _Tensor: ...
def normal(
    mean: _Any = 0.0,
    std: _Any = 1.0,
    size: _Ints | None = None,
    *,
    generator: _Generator | None = None,
    dtype: _Any = None,
    device: _Any = None,
    layout: _Any = None,
    requires_grad: bool = False,
    out: _Any = None,
) -> _Tensor: ...
def normal_(
    self: _Tensor, mean: float = 0.0, std: float = 1.0, *, generator: _Generator | None = None
) -> _Tensor: ...
def poisson(input: _Tensor, generator: _Generator | None = None) -> _Tensor: ...
def rand(
    *sizes: _Any,
    size: _Ints | None = None,
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
def randint_like(
    input: _Tensor,
    low: int,
    high: int | None = None,
    *,
    generator: _Generator | None = None,
    dtype: _Any = None,
    device: _Any = None,
    layout: _Any = None,
    memory_format: _Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> _Tensor: ...
def randn(
    *sizes: _Any,
    size: _Ints | None = None,
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
def seed() -> int: ...
def set_rng_state(new_state: _Tensor) -> None: ...
def uniform_(
    self: _Tensor, from_: float = 0.0, to: float = 1.0, *, generator: _Generator | None = None, **given: float
) -> _Tensor: ...

default_generator: _Generator
