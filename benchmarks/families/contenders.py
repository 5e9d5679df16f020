"""Calls to be timed, made of a program: one for each library, the way the library does it best.

GRADIENTS is `jit(value_and_grad(f))` for fusegrad and JAX, and a loss with `autograd.grad` of it for torch,
torch.compile (the loss is compiled) and fusegrad's eager. TRAINING is a whole step: the library's own
optimizer, all of it in `fg.jit` for fusegrad; JAX steps pytrees by hand, with its state donated.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from families.declare import FORWARD, TRAINING, Array, Program
from families.facade import names_of

OURS, EAGER, COMPILED = "fusegrad", "eager", "torch.compile"
PEERS = ("torch", COMPILED, "jax")  # the best of these is what the ratio is about
CONTENDERS = (OURS, EAGER, *PEERS)
LIBRARIES = {OURS: "fusegrad", EAGER: "fusegrad", "torch": "torch", COMPILED: "torch", "jax": "jax"}
RATE, MOMENTUM, FIRST, SECOND, TINY = 1e-3, 0.9, 0.9, 0.999, 1e-8

Function = Callable[..., Any]


@dataclass
class Contender:
    """A call, its inputs as NumPy made them, and fusegrad's jitted function."""

    call: Callable[[], Any]
    inputs: list[Array]
    jitted: Any = None
    state: list[Any] = field(default_factory=list)  # what a step of training writes


def contender(program: Program, name: str, dtype: str | None = None) -> Contender:
    """The program for one contender; imports its library. dtype: computes in another than its own."""
    ops = names_of(LIBRARIES[name])
    if name == "jax":
        ops.library.config.update("jax_enable_x64", program.dtype == "float64")
    if program.kind == TRAINING:
        loss, parameters, batch = program.build(ops, dtype)
        return TRAINERS[name](ops, program.optimizer, loss, parameters, batch)
    function, inputs = program.build(ops, dtype)
    wanted = () if program.kind == FORWARD else program.wanted(inputs)
    return BUILDERS[name](ops, function, inputs, wanted)


def warm_up(name: str) -> None:
    """Import the library with its compiler, and have it compile something."""
    library = names_of(LIBRARIES[name]).library
    if name == "jax":
        library.jit(lambda x: x + 1)(np.ones(2, np.float32)).block_until_ready()
        return
    compile_ = {OURS: getattr(library, "jit", None), COMPILED: getattr(library, "compile", None)}.get(name)
    x = library.tensor([1.0, 2.0], requires_grad=True)
    for _ in range(3):
        library.autograd.grad((compile_ or as_it_stands)(lambda x: (x * 2).sum())(x), x)


# Values and gradients.


def in_torch_style(
    ops: Any, function: Function, inputs: list[Array], wanted: tuple[int, ...], compiled: Any
) -> Contender:
    """torch, torch.compile or fusegrad's eager: `autograd.grad` of what the function gives."""
    derive = ops.library.autograd.grad
    tensors = [ops.tensor(array) for array in inputs]
    leaves = [tensors[place].requires_grad_() for place in wanted]
    function = compiled(function)

    def call() -> Any:
        value = function(*tensors)
        return value, derive(value, leaves)

    return Contender(call if wanted else functools.partial(function, *tensors), inputs)


def with_fusegrad(ops: Any, function: Function, inputs: list[Array], wanted: tuple[int, ...]) -> Contender:
    """One jitted function."""
    fg = ops.library
    jitted = fg.jit(fg.value_and_grad(function, wanted) if wanted else function)
    tensors = [fg.tensor(array) for array in inputs]
    return Contender(lambda: jitted(*tensors), inputs, jitted)


def with_jax(ops: Any, function: Function, inputs: list[Array], wanted: tuple[int, ...]) -> Contender:
    """One jitted function, whose results are waited for."""
    jax = ops.library
    jitted = jax.jit(jax.value_and_grad(function, wanted) if wanted else function)
    arrays = [jax.device_put(array) for array in inputs]
    wait = jax.block_until_ready
    return Contender(lambda: wait(jitted(*arrays)), inputs)


# Training.


def train_in_torch_style(
    ops: Any, optimizer: str, loss: Function, arrays: list[Array], batch: list[Array], compiled: Any
) -> Contender:
    """The loss as it stands or compiled, `backward()`, and the library's optimizer."""
    parameters = [ops.tensor(array).requires_grad_() for array in arrays]
    data = [ops.tensor(array) for array in batch]
    stepping = optimizer_of(ops.library, optimizer, parameters)
    loss = compiled(loss)

    def call() -> Any:
        stepping.zero_grad()
        value = loss(parameters, *data)
        value.backward()
        stepping.step()
        return value

    return Contender(call, [*arrays, *batch], state=parameters)


def train_with_fusegrad(
    ops: Any, optimizer: str, loss: Function, arrays: list[Array], batch: list[Array]
) -> Contender:
    """The whole step is one jitted function."""
    parameters = [ops.tensor(array).requires_grad_() for array in arrays]
    data = [ops.tensor(array) for array in batch]
    stepping = optimizer_of(ops.library, optimizer, parameters)

    @ops.library.jit
    def train(*data: Any) -> Any:
        stepping.zero_grad()
        value = loss(parameters, *data)
        value.backward()
        stepping.step()
        return value

    return Contender(lambda: train(*data), [*arrays, *batch], train, parameters)


def optimizer_of(library: Any, name: str, parameters: list[Any]) -> Any:
    """torch's or fusegrad's optimizer; torch's fused one, which is its fastest on a CPU."""
    fused = {"fused": True} if library.__name__ == "torch" else {}
    if name == "adam":
        return library.optim.Adam(parameters, lr=RATE, betas=(FIRST, SECOND), eps=TINY, **fused)
    return library.optim.SGD(parameters, lr=RATE, momentum=MOMENTUM, **fused)


def train_with_jax(
    ops: Any, optimizer: str, loss: Function, arrays: list[Array], batch: list[Array]
) -> Contender:
    """One jitted step from state to state, which is updated in place."""
    jax = ops.library
    step = {"adam": adam_step, "sgd": sgd_step}[optimizer]

    def advance(state: Any, *data: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(state[0], *data)
        return step(jax, state, gradients), value

    jitted = jax.jit(advance, donate_argnums=0)
    zeros = [[np.zeros_like(array) for array in arrays] for _ in range(2 if optimizer == "adam" else 1)]
    parameters = [jax.device_put(array) for array in arrays]
    made = Contender(as_it_stands, [*arrays, *batch])
    state, data = (
        jax.device_put((parameters, *zeros, np.int32(0))),
        [jax.device_put(array) for array in batch],
    )
    wait = jax.block_until_ready

    def call() -> Any:
        nonlocal state
        state, value = wait(jitted(state, *data))
        made.state = state[0]
        return value

    made.call = call
    return made


def adam_step(jax: Any, state: Any, gradients: Any) -> Any:
    """Adam on lists of arrays."""
    parameters, first, second, count = state
    each, count = jax.tree.map, count + 1
    first = each(lambda m, g: FIRST * m + (1 - FIRST) * g, first, gradients)
    second = each(lambda v, g: SECOND * v + (1 - SECOND) * g * g, second, gradients)
    rate, spread = RATE / (1 - FIRST**count), jax.numpy.sqrt(1 - SECOND**count)

    def moved(p: Any, m: Any, v: Any) -> Any:
        return (p - rate * m / (jax.numpy.sqrt(v) / spread + TINY)).astype(p.dtype)

    return each(moved, parameters, first, second), first, second, count


def sgd_step(jax: Any, state: Any, gradients: Any) -> Any:
    """Gradient descent with momentum on lists of arrays."""
    parameters, speeds, count = state
    speeds = jax.tree.map(lambda v, g: MOMENTUM * v + g, speeds, gradients)
    return jax.tree.map(lambda p, v: p - RATE * v, parameters, speeds), speeds, count + 1


def as_it_stands(function: Any = None) -> Any:
    """What eager makes of a function."""
    return function


def compiled_by_torch(function: Function) -> Function:
    """torch.compile as it comes: what it cannot follow breaks the graph. Every program starts afresh."""
    import torch

    torch.compiler.reset()
    return torch.compile(function)


BUILDERS: dict[str, Any] = {
    OURS: with_fusegrad,
    EAGER: functools.partial(in_torch_style, compiled=as_it_stands),
    "torch": functools.partial(in_torch_style, compiled=as_it_stands),
    COMPILED: functools.partial(in_torch_style, compiled=compiled_by_torch),
    "jax": with_jax,
}
TRAINERS: dict[str, Any] = {
    OURS: train_with_fusegrad,
    EAGER: functools.partial(train_in_torch_style, compiled=as_it_stands),
    "torch": functools.partial(train_in_torch_style, compiled=as_it_stands),
    COMPILED: functools.partial(train_in_torch_style, compiled=compiled_by_torch),
    "jax": train_with_jax,
}


def as_arrays(result: Any) -> list[Array]:
    """What a call gave, in any library, as arrays of their own."""
    if isinstance(result, (list, tuple)):
        return [array for item in result for array in as_arrays(item)]
    if hasattr(result, "detach"):
        result = result.detach().numpy()
    return [np.array(result)]


def found_by(made: Contender) -> list[Array]:
    """What one more call gives, and the state that it leaves."""
    result = made.call()
    return as_arrays([result, list(made.state)])
