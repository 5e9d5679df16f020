"""How a program is declared: a builder, a table of its parameters, and names that stay.

A builder is given a library's names (`ops`, see `facade.py`), a `Draw` for its inputs and its parameters,
and gives the function and its inputs:

    @programs("reduction", "axis shape", "last 33x100 float32", "first 8x5 float32,float64")
    def logsumexp(ops, draw, axis, shape):
        def loss(x):
            return ops.logsumexp(x, AXES[axis]).sum()
        return loss, [draw.normal(*shape)]

declares `reduction/logsumexp/last/33x100/float32` and two more. Builders look names up once: at call
time a program runs the library's own functions.
"""

from __future__ import annotations

import ast
import dis
import hashlib
import inspect
import itertools
import re
import textwrap
import types
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray
Builder = Callable[..., tuple[Any, ...]]

GRADIENTS = "gradients"  # a scalar function: its value, and its gradients by all inputs of floats
FORWARD = "forward"  # a program without gradients from outside: a simulation, a solver, an index
TRAINING = "training"  # a loss of parameters and a batch: whole steps, with an optimizer


@dataclass(frozen=True)
class Program:
    """One program of the list.

    kind: GRADIENTS, FORWARD or TRAINING. parameters: what its builder is given, by name. loosely: how many
    times the tolerance of its dtype the results may lie apart, where the mathematics is ill-conditioned.
    constants: places of float inputs that are data, of which no gradient is asked. optimizer: of TRAINING.
    """

    name: str
    family: str
    builder: Builder
    parameters: dict[str, Any]
    dtype: str
    kind: str
    loosely: float
    constants: tuple[int, ...]
    optimizer: str

    def build(self, ops: Any, dtype: str | None = None) -> tuple[Any, ...]:
        """The function and its inputs; of TRAINING the loss, the parameters and the batch.

        dtype: computes in another than its own, on the same numbers.
        """
        draw = Draw(zlib.crc32(self.name.encode()), self.dtype, dtype)
        return self.builder(ops, draw, **self.parameters)

    def wanted(self, inputs: list[Array]) -> tuple[int, ...]:
        """The places of the inputs whose gradients are asked for."""
        floats = (place for place, array in enumerate(inputs) if array.dtype.kind == "f")
        return tuple(place for place in floats if place not in self.constants)

    def content(self) -> str:
        """A hash of the builder's source with its helpers' and of all parameters."""
        fields = (self.parameters, self.dtype, self.kind, self.loosely, self.constants, self.optimizer)
        sources = [self.builder.text] if hasattr(self.builder, "text") else sources_of(self.builder)
        text = "\n".join([*sources, repr(fields)])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


class Draw:
    """The inputs of a program: the same numbers for every library, made by NumPy from the program's name."""

    def __init__(self, seed: int, dtype: str, compute: str | None = None) -> None:
        self.random = np.random.default_rng(seed)
        self.dtype, self.compute = dtype, compute or dtype

    def normal(self, *shape: int, scale: float = 1.0) -> Array:
        """Normal numbers."""
        return self.floats(scale * self.random.standard_normal(shape))

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0) -> Array:
        """Numbers between two bounds."""
        return self.floats(self.random.uniform(low, high, shape))

    def positive(self, *shape: int) -> Array:
        """Numbers from 0.5 to 2: safe to divide by, and to take the logarithm of."""
        return self.uniform(*shape, low=0.5, high=2.0)

    def integers(self, high: int, *shape: int) -> Array:
        """Labels and indices from 0 to `high`, which is left out."""
        return self.random.integers(0, high, shape)

    def mask(self, *shape: int) -> Array:
        """True in half of the places."""
        return self.random.random(shape) < 0.5

    def definite(self, *shape: int) -> Array:
        """Symmetric positive definite matrices, well conditioned."""
        size = shape[-1]
        root = self.random.standard_normal(shape) / size**0.5
        return self.floats(root @ np.swapaxes(root, -1, -2) + np.eye(size))

    def regular(self, *shape: int) -> Array:
        """Square matrices that are far from singular."""
        size = shape[-1]
        return self.floats(self.random.standard_normal(shape) / (2 * size**0.5) + 2 * np.eye(size))

    def layer(self, inner: int, outer: int) -> list[Array]:
        """A weight (inner, outer) and a bias, as networks start."""
        bound = inner**-0.5
        return [
            self.uniform(inner, outer, low=-bound, high=bound),
            self.uniform(outer, low=-bound, high=bound),
        ]

    def layers(self, *sizes: int) -> list[Array]:
        """Weights and biases in turn."""
        return [array for pair in itertools.pairwise(sizes) for array in self.layer(*pair)]

    def kernel(self, *shape: int) -> Array:
        """A convolution's weight (out, in, ...)."""
        bound = float(np.prod(shape[1:])) ** -0.5
        return self.uniform(*shape, low=-bound, high=bound)

    def floats(self, values: Any) -> Array:
        """`values`, rounded to the program's dtype, in the dtype that is computed in."""
        return np.asarray(values, self.dtype).astype(self.compute)


REGISTRY: dict[str, Program] = {}


def programs(
    family: str,
    header: str,
    *rows: str,
    kind: str = GRADIENTS,
    loosely: float = 1.0,
    constants: tuple[int, ...] = (),
    optimizer: str = "",
    named: bool = True,
) -> Callable[[Builder], Builder]:
    """Declare a builder's programs: one for each row of the table (values under `header`, then dtypes).

    named: whether the builder's name is part of the programs' names. Raises ValueError for a name that
    is taken.
    """

    def declare(builder: Builder) -> Builder:
        columns = header.split()
        for row in rows:
            *values, dtypes = row.split()
            for dtype in dtypes.split(","):
                parts = [family, *([builder.__name__] if named else []), *values, dtype]
                given = {name: parsed(name, text) for name, text in zip(columns, values, strict=True)}
                fields = (given, dtype, kind, loosely, constants, optimizer)
                register(Program("/".join(parts), family, builder, *fields))
        return builder

    return declare


def register(program: Program) -> None:
    """Add a program to those that are known. Raises ValueError for a name that is taken."""
    if program.name in REGISTRY:
        raise ValueError(f"there are two programs called {program.name}")
    REGISTRY[program.name] = program


def parsed(name: str, text: str) -> Any:
    """A parameter of a table: a shape under the name `shape`, a number, or a word.

    >>> parsed("shape", "8x33"), parsed("shape", "scalar"), parsed("n", "3"), parsed("axis", "last")
    ((8, 33), (), 3, 'last')
    """
    if name.endswith("shape"):
        return () if text == "scalar" else tuple(map(int, text.split("x")))
    return int(text) if re.fullmatch(r"-?\d+", text) else text


def sources_of(builder: Builder) -> list[str]:
    """The source of a builder, and of the helpers and constants in its module that it uses.

    As Python writes it out: neither the layout, comments, docstrings nor the table of parameters matter.
    """
    found: dict[str, str] = {}
    waiting: list[Any] = [builder]
    while waiting:
        function = waiting.pop()
        if function.__qualname__ in found:
            continue
        found[function.__qualname__] = normal_source(function)
        for name in globals_in(function.__code__):
            value = function.__globals__.get(name)
            if inspect.isfunction(value) and value.__module__ == function.__module__:
                waiting.append(value)
            elif isinstance(value, (dict, tuple, int, float, str)):
                found[name] = f"{name} = {value!r}"
    return [found[name] for name in sorted(found)]


def normal_source(function: Any) -> str:
    """A function without its decorators and docstring, in one layout."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(tree, ast.FunctionDef)
    tree.decorator_list = []
    if ast.get_docstring(tree) is not None:
        del tree.body[0]
    return ast.unparse(tree)


def globals_in(code: types.CodeType) -> Iterator[str]:
    """The global names that code and the functions inside it read."""
    for instruction in dis.get_instructions(code):
        if instruction.opname == "LOAD_GLOBAL":
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from globals_in(constant)
