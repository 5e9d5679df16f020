"""Calls to be timed, made of a workload: one for each library, the way the library does it best."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from workloads.base import Array, Call, Gradients, Workload

from fusegrad.compiler.compare.terminal import installed

Function = Callable[..., Any]

OURS, REFERENCE = "fusegrad", "eager"  # what the suite is about, and what all must agree with
# Only the function is jitted, and `backward()` is called on what it gives, as torch's users write it.
APART = "fusegrad-backward"
PEERS = ("torch", "torch.compile", "jax")  # the best of these is what the ratio is about
CONTENDERS = (OURS, APART, REFERENCE, *PEERS, "numba")
# Where the name is not the package's.
PACKAGES = {REFERENCE: "fusegrad", APART: "fusegrad", "torch.compile": "torch"}


def package_of(name: str) -> str:
    """The package that a contender runs, which is also its method of a workload."""
    return PACKAGES.get(name, name)


def available(workload: Workload, name: str) -> bool:
    """Whether the workload has a version for this contender, and its library is installed."""
    if name == APART and not isinstance(workload, Gradients):
        return False
    return hasattr(workload, package_of(name)) and installed(package_of(name))


@dataclass
class Contender:
    """A call that gives what all must agree on, and the jitted functions in it (fusegrad's alone)."""

    call: Call
    jitted: list[Any] = field(default_factory=list)


def contender(workload: Workload, name: str) -> Contender:
    """The workload for one contender; imports its library."""
    return BUILDERS[name](workload)


def _with_fusegrad(workload: Workload) -> Contender:
    """Value and gradients by one jitted function, as JAX's users write it."""
    import fusegrad as fg

    if not isinstance(workload, Gradients):
        return _with_backward(workload, True)
    derive = fg.jit(fg.value_and_grad(workload.fusegrad(fg), workload.wanted))
    tensors = [fg.tensor(array) for array in workload.inputs()]
    return Contender(lambda: derive(*tensors), [derive])


def _with_backward(workload: Workload, compiled: bool) -> Contender:
    import fusegrad as fg

    jitted: list[Any] = []

    def jit(function: Function) -> Function:
        jitted.append(fg.jit(function))
        return jitted[-1]

    return Contender(_pytorch_style(workload, fg, jit if compiled else _as_it_stands), jitted)


def _with_torch(workload: Workload, compiled: bool) -> Contender:
    import torch

    torch.set_default_dtype(torch.float32)
    compile_ = functools.partial(torch.compile, fullgraph=True)
    return Contender(_pytorch_style(workload, torch, compile_ if compiled else _as_it_stands))


def _pytorch_style(workload: Workload, library: Any, compiled: Callable[[Function], Function]) -> Call:
    """A call of fusegrad or torch, which have the same names."""
    method = getattr(workload, library.__name__)
    if not isinstance(workload, Gradients):
        return method(library, compiled, *workload.inputs())
    function = compiled(method(library))
    tensors = [library.tensor(array) for array in workload.inputs()]
    leaves = [tensors[place].requires_grad_() for place in workload.wanted]

    def call() -> Any:
        for leaf in leaves:
            leaf.grad = None
        value = function(*tensors)
        value.backward()
        return [value, *[leaf.grad for leaf in leaves]]

    return call


def _with_jax(workload: Workload) -> Contender:
    import jax

    jax.config.update("jax_enable_x64", workload.double)
    if not isinstance(workload, Gradients):
        return Contender(workload.jax(jax, jax.jit, *workload.inputs()))
    derive = jax.jit(jax.value_and_grad(workload.jax(jax), workload.wanted))
    arrays = [jax.device_put(array) for array in workload.inputs()]
    return Contender(lambda: jax.block_until_ready(derive(*arrays)))


def _with_numba(workload: Workload) -> Contender:
    import numba

    return Contender(workload.numba(numba, *workload.inputs()))


def _as_it_stands(function: Function) -> Function:
    return function


BUILDERS: dict[str, Callable[[Workload], Contender]] = {
    OURS: _with_fusegrad,
    APART: functools.partial(_with_backward, compiled=True),
    REFERENCE: functools.partial(_with_backward, compiled=False),
    "torch": functools.partial(_with_torch, compiled=False),
    "torch.compile": functools.partial(_with_torch, compiled=True),
    "jax": _with_jax,
    "numba": _with_numba,
}


def as_arrays(result: Any) -> list[Array]:
    """What a call gave, in any library, as arrays of their own."""
    if isinstance(result, (list, tuple)):
        return [array for item in result for array in as_arrays(item)]
    if hasattr(result, "detach"):
        result = result.detach().numpy()
    return [np.array(result)]


def recorded(made: Contender) -> int:
    """How many ops fusegrad has recorded and planned so far, over all paths of the jitted functions."""
    return sum(len(segment.equations) for function in made.jitted for segment in function.segments())


def way_of(made: Contender) -> str:
    """How fusegrad answers one more call: "replay", "deferred", "eager", or several of them.

    Counted where `explain()` tells it, over all jitted functions of the call.
    """
    before = _ways(made.jitted)
    made.call()
    after = _ways(made.jitted)
    found = {way: after[way] - before[way] for way in after}
    return " + ".join(way for way, count in found.items() if count) or "no jit"


def _ways(jitted: list[Any]) -> dict[str, int]:
    """How many calls went each way so far."""
    counts = {"replay": 0, "deferred": 0, "eager": 0}
    for function in jitted:
        counts["eager"] += function.stats.eager_calls
        for entry in function.explain().as_dict()["entries"]:
            counts["replay"] += sum(path["calls"] for path in entry["paths"])
            counts["deferred"] += entry["deferred"]["compiled_calls"]
    return counts
