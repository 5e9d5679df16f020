"""Who is compared: one function run by eager fusegrad, compiled fusegrad, torch or JAX.

Each contender is reduced to calls without arguments that can be timed: its forward alone, and
its value together with all gradients; and to arrays that can be compared.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fusegrad.compiler.codegen.kernel_cache import cold
from fusegrad.compiler.jit import JitFunction, jit
from fusegrad.eager.autograd import autograd
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.pytree import Structure, flatten
from fusegrad.eager.core.state import no_grad
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.random.generator import get_rng_state, set_rng_state

Arrays = list[np.ndarray]


@dataclass
class Contender:
    """One column of a comparison.

    forward: one call without gradients. both: value and all gradients, or None where the function
    has none. arrays: the results and the gradients of one more call, to compare. prepare: what the
    first call does, compilation included. facts: what is known besides times.
    """

    name: str
    forward: Callable[[], Any]
    both: Callable[[], Any] | None
    arrays: Callable[[], tuple[Arrays, Arrays]]
    prepare: Callable[[], Any]
    facts: dict[str, Any] = field(default_factory=dict)


class Case:
    """A function with the arguments of one comparison, and the leaves whose gradients are wanted.

    Running it once (eagerly) finds the leaves: the tensors among the arguments first, then those
    that the function reaches otherwise, a module's parameters for instance.
    """

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        self.function = plain(function)
        self.args, self.kwargs = args, dict(kwargs)
        self.values: list[Any] = []
        self.structure: Structure = flatten((args, self.kwargs), self.values)
        tensors = [v for v in self.values if isinstance(v, Tensor)]
        before = State(tensors)
        reached = reached_leaves(differentiable(self.function(*args, **self.kwargs)))
        arguments = {id(v): v for v in tensors}
        # Equal order for every contender: arguments as they stand, then the others.
        self.leaves = [t for i, t in arguments.items() if i in reached]
        self.outside = [t for i, t in reached.items() if i not in arguments]
        self.leaves += self.outside
        self.state = before.including(self.leaves)

    @property
    def name(self) -> str:
        """What the user calls the function."""
        named = getattr(self.function, "__qualname__", None) or type(self.function).__qualname__
        return named.replace("<locals>.", "").rsplit(".", 1)[-1]

    def describe(self) -> str:
        """The arguments for people: `x float32[32, 784], 3`."""
        parts = []
        for value in self.values:
            if isinstance(value, Tensor):
                parts.append(f"{value.array.dtype.name}{list(value.array.shape)}")
            else:
                parts.append(
                    repr(value) if isinstance(value, (bool, int, float, str)) else type(value).__name__
                )
        return ", ".join(parts)


class State:
    """The contents and gradients of tensors and the random state, to be put back after a run."""

    def __init__(self, tensors: list[Tensor]) -> None:
        self._tensors = [(t, t.array.copy(), t.gradient) for t in tensors]
        self._random = get_rng_state()

    def including(self, tensors: list[Tensor]) -> State:
        """Also the state of `tensors`, as they are now."""
        known = {id(t) for t, _, _ in self._tensors}
        self._tensors += [(t, t.array.copy(), t.gradient) for t in tensors if id(t) not in known]
        return self

    def restore(self) -> None:
        """Put everything back."""
        for tensor, array, gradient in self._tensors:
            tensor.gradient = gradient
            if not np.array_equal(tensor.array, array, equal_nan=array.dtype.kind in "fc"):
                tensor.array[...] = array
        set_rng_state(self._random)


def plain(function: Any) -> Callable[..., Any]:
    """The undecorated form of a jitted function, method or module; others as they are."""
    if hasattr(type(function), "__fusegrad_jit__"):
        return function.__wrapped__
    if isinstance(function, types.MethodType) and isinstance(function.__func__, JitFunction):
        return types.MethodType(function.__func__.__wrapped__, function.__self__)
    return function


def differentiable(result: Any) -> list[Tensor]:
    """The tensors in a result that backward can start from."""
    found: list[Any] = []
    flatten(result, found)
    return [t for t in found if isinstance(t, Tensor) and t.needs_grad and t.grad_fn is not None]


def reached_leaves(roots: list[Tensor]) -> dict[int, Tensor]:
    """The leaf tensors that a backward from `roots` would give gradients to, by id."""
    leaves: dict[int, Tensor] = {}
    pending, seen = [t.grad_fn for t in roots], set()
    while pending:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        for _, target, _ in node.edges:
            if isinstance(target, Tensor):
                leaves[id(target)] = target
            else:
                pending.append(target)
    return leaves


# fusegrad itself.


def forward_call(case: Case, function: Callable[..., Any]) -> Callable[[], Any]:
    """A call of `function` without gradients."""
    args, kwargs = case.args, case.kwargs

    def forward() -> Any:
        with no_grad():
            return function(*args, **kwargs)

    return forward


def gradients_call(case: Case, function: Callable[..., Any]) -> Callable[[], Any]:
    """A call of `function` and backward from its result (its sum, where it is no scalar)."""
    args, kwargs, leaves = case.args, case.kwargs, case.leaves

    def both() -> Any:
        for leaf in leaves:
            leaf.gradient = None
        result = function(*args, **kwargs)
        if type(result) is Tensor and not result.array.shape:
            result.backward()
        else:
            roots = differentiable(result)
            autograd.run_backward(roots, [wrap(np.ones_like(t.array)) for t in roots], False, False)
        return result

    return both


def arrays_of(case: Case, call: Callable[[], Any]) -> tuple[Arrays, Arrays]:
    """The results and gradients of `call`, copied; the state before it is put back around it."""
    case.state.restore()
    found: list[Any] = []
    flatten(call(), found)
    results = [t.array.copy() for t in found if isinstance(t, Tensor)]
    gradients = [leaf.gradient.array.copy() for leaf in case.leaves if leaf.gradient is not None]
    case.state.restore()
    return results, gradients


def eager_contender(case: Case) -> Contender:
    """The undecorated function."""
    forward = forward_call(case, case.function)
    both = gradients_call(case, case.function) if case.leaves else None
    measured = both or forward
    return Contender("eager", forward, both, lambda: arrays_of(case, measured), measured)


def compiled_contender(case: Case) -> Contender:
    """The function under a fresh `jit`, so that the user's own keeps its paths and counters."""
    # With and without gradients are two paths; apart, each can be counted for itself.
    compiled = jit(case.function)
    both = gradients_call(case, compiled) if case.leaves else None
    forward = forward_call(case, jit(case.function) if both else compiled)
    measured = both or forward
    facts: dict[str, Any] = {}

    def prepare() -> None:
        with cold():
            measured()

    def arrays() -> tuple[Arrays, Arrays]:
        # What is compared must come from compiled code, not from the first call, which records.
        measured()
        before = compiled.stats.compiled_calls
        found = arrays_of(case, measured)
        facts.update(compiled_facts(compiled), ran_compiled=compiled.stats.compiled_calls > before)
        return found

    return Contender("compiled", forward, both, arrays, prepare, facts)


def compiled_facts(compiled: JitFunction) -> dict[str, Any]:
    """What is known of compiled code besides its times."""
    kernels = compiled.kernels()
    programs = [c.program for s in compiled.segments() for c in (s.code, s.backward) if c is not None]
    steps = [step.title for program in programs for part in (program, *program.bodies) for step in part.steps]
    return {
        "forward_kernels": len(kernels.forward),
        "backward_kernels": len(kernels.backward),
        "products": steps.count("matrix product"),
        "numpy_steps": steps.count("NumPy"),
        "memory_bytes": compiled.memory_bytes(),
        "explanation": str(compiled.explain()),
    }


@contextmanager
def restored(case: Case) -> Iterator[None]:
    """Leave the user's tensors, gradients and random state as they were."""
    try:
        yield
    finally:
        case.state.restore()
