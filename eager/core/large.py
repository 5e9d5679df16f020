"""Ops on large arrays: NumPy answers them, until it is worth to have native kernels for them.

NumPy computes on one core, and what is not one of its own functions in several passes over memory. A program
that spends long on large arrays gets kernels, one for an op (`compiler/eager_kernels.py`); what compiles them
is loaded and runs in a thread beside the program, which goes on with NumPy until they are there.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from fusegrad.eager.core.names import publish
from fusegrad.eager.core.settings import budget, setting as determinism
from fusegrad.eager.core.state import tell

# So many elements are large: from there on a kernel takes less time than NumPy by more than it takes to ask.
LARGE = 1 << 15
# So many are, where NumPy has no loop of its own for the op, and takes several passes, or a scalar loop.
SOME = 1 << 10
# More than any array has: for ops that have no kernels.
NEVER = sys.maxsize
# So many seconds of NumPy's on large arrays are worth to load the compiler.
WORTH_LOADING = 0.1


def least(function: Callable[..., Any]) -> int:
    """From how many elements on a kernel is worth more than a function of numbers that NumPy runs."""
    is_its_own = isinstance(function, np.ufunc) and getattr(np, function.__name__, None) is function
    return LARGE if is_its_own else SOME


class Derived(NamedTuple):
    """Gradients that an op's rules are asked for, of the inputs `indices`; the rest is what `Op.gradient`
    takes.
    """

    op: Any
    indices: Sequence[int]
    g: Any
    inputs: Sequence[Any]
    outputs: Sequence[Any]
    types: Sequence[Any]
    params: dict[str, Any]

    def by_rules(self) -> list[Any]:
        """What the rules give, op by op."""
        op, indices, *given = self
        return [op.gradient(index, *given) for index in indices]

    def size(self) -> int:
        """How many elements the largest of what comes back has, or of the inputs."""
        given = self.g if isinstance(self.g, list) else (self.g,)
        sizes = [g.array.size for g in given if g is not None]
        return max([*sizes, *(math.prod(type_[0]) for type_ in self.types if type_ is not None)])


def has_large(op: Any, g: Any, types: Sequence[Any]) -> bool:
    """Whether there is a large array among what the gradient rules of an op get: the gradients `g` that come
    back, and the inputs, which have these types.
    """
    size = op.large
    if type(g) is not list:
        if g.array.size >= size:
            return True
    elif any(part is not None and part.array.size >= size for part in g):
        return True
    return any(type_ is not None and math.prod(type_[0]) >= size for type_ in types)


class Kernels(Protocol):
    """What may know better than NumPy how to do an op."""

    def evaluate(self, op: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """What `op.evaluate` gives."""

    def gradients(self, derived: Derived) -> list[Any]:
        """What the rules give."""

    def overwrite(self, target: np.ndarray, values: np.ndarray) -> bool:
        """Put values in the place of others; whether it was done."""

    def wait(self) -> None:
        """Until all is there that was asked for."""


class _Answers:
    """Who answers. seconds: what NumPy took so far; kernels: what is asked instead, once it is there."""

    def __init__(self) -> None:
        self.enabled = True
        self.seconds = 0.0
        self.kernels: Kernels | None = None
        # Begins to load the compiler, and sets `kernels` in time.
        self.load: Callable[[], object] | None = None

    def begin(self) -> None:
        """Have the compiler loaded, once."""
        load, self.load = self.load, None
        if load is not None:
            load()


answers = _Answers()


def evaluate(op: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """What an op on large arrays gives."""
    if not answers.enabled or determinism.wanted:
        return op.evaluate(args, params)
    if answers.kernels is not None:
        return answers.kernels.evaluate(op, args, params)
    return timed(op.evaluate, args, params)


def overwrite(target: np.ndarray, values: np.ndarray) -> None:
    """Put values in the place of others, to whose shape they broadcast."""
    if target.size < LARGE or not answers.enabled or determinism.wanted:
        target[...] = values
    elif answers.kernels is None:
        timed(target.__setitem__, ..., values)
    elif not answers.kernels.overwrite(target, values):
        target[...] = values


def timed(function: Callable[..., Any], *args: Any) -> Any:
    """What NumPy does for a program; once it took long, the compiler is loaded."""
    start = time.perf_counter()
    value = function(*args)
    answers.seconds += time.perf_counter() - start
    if answers.seconds > WORTH_LOADING:
        answers.begin()
    return value


def gradients(derived: Derived) -> list[Any]:
    """What the gradient rules of an op give, where nobody looks on and gradients are not derived again."""
    kernels = answers.kernels
    if kernels is None or not answers.enabled or determinism.wanted:
        return derived.by_rules()
    return kernels.gradients(derived)


@publish
def set_eager_kernels(mode: bool) -> None:
    """Let native kernels do ops on large arrays outside of jitted functions, or leave them all to NumPy.

    Kernels are compiled beside the program, once an op has come a few times, and differ from NumPy by
    rounding; under `use_deterministic_algorithms(True)` there are none.

    >>> import fusegrad as fg
    >>> fg.set_eager_kernels(False)  # NumPy's bits, from the first call to the last
    >>> fg.set_eager_kernels(True)
    """
    tell("sets who does ops on large arrays")
    answers.enabled = bool(mode)


@publish
def wait_for_eager_kernels() -> None:
    """Wait until the kernels are there that ops on large arrays have asked for, as a benchmark wants to.

    >>> import fusegrad as fg
    >>> x = fg.rand(300, 300)
    >>> for _ in range(5):
    ...     y = fg.nn.functional.gelu(x)
    >>> fg.wait_for_eager_kernels()
    """
    answers.begin()
    while answers.load is None and answers.kernels is None:
        time.sleep(0.01)
    if answers.kernels is not None:
        answers.kernels.wait()


@publish
def wait_for_compilation() -> None:
    """Wait until all is compiled that is being compiled beside the program: jitted functions for which calls
    did not wait (`set_compile_budget`), and kernels of eager's.

    >>> import fusegrad as fg
    >>> double = fg.jit(lambda x: x * 2)
    >>> y = double(fg.ones(3))
    >>> fg.wait_for_compilation()  # the next call need not be eager's
    """
    if answers.load is None:
        wait_for_eager_kernels()
    for wait in budget.waits:
        wait()
