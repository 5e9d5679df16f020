"""What `eager_ops.py` times: ops on large arrays, and layers of networks, each a line for both libraries.

Frozen before anything was optimised for it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

# Of ops: rows and columns; of layers: the images of a batch.
SIDE, IMAGES = 1000, 32


@dataclass(frozen=True)
class Case:
    """An op or a few: run(lib, F, *tensors), for fusegrad and torch alike.

    family: of the table; inputs: the shapes of its tensors, normally distributed; whole: those (by number)
    that are whole numbers up to so many; derived: whether the gradients of the others are taken as well.
    """

    family: str
    name: str
    run: Callable[..., Any]
    inputs: tuple[tuple[int, ...], ...]
    whole: tuple[tuple[int, int], ...] = ()
    derived: bool = False

    @property
    def title(self) -> str:
        """The name with what is taken."""
        return f"{self.name}, gradients" if self.derived else self.name

    def arrays(self) -> list[np.ndarray]:
        """What it is called with."""
        draw, numbers = np.random.default_rng(0), dict(self.whole)
        return [
            draw.integers(0, numbers[i], shape)
            if i in numbers
            else (draw.standard_normal(shape) / (shape[1] * 9 if len(shape) == 4 and i else 1) ** 0.5).astype(
                np.float32
            )
            for i, shape in enumerate(self.inputs)
        ]

    def of_side(self, side: int) -> Case | None:
        """The same of matrices of another size; None for a layer, whose sizes are its own."""
        if any(n != SIDE for shape in self.inputs for n in shape):
            return None
        inputs = tuple((side,) * len(shape) for shape in self.inputs)
        return replace(self, inputs=inputs, whole=tuple((i, side) for i, _ in self.whole))


_SQUARE, _ROW = (SIDE, SIDE), (SIDE,)
_WIDE = (IMAGES, 64, 32, 32)  # images in the middle of a network

_PLAIN: dict[str, tuple[Callable[..., Any], int]] = {
    "add": (lambda lib, F, x, y: x + y, 2),
    "sub": (lambda lib, F, x, y: x - y, 2),
    "mul": (lambda lib, F, x, y: x * y, 2),
    "div": (lambda lib, F, x, y: x / y, 2),
    "add a number": (lambda lib, F, x: x + 1.5, 1),
    "maximum": (lambda lib, F, x, y: lib.maximum(x, y), 2),
    "neg": (lambda lib, F, x: -x, 1),
    "square": (lambda lib, F, x: x**2, 1),
    "greater": (lambda lib, F, x, y: x > y, 2),
    "where": (lambda lib, F, x, y: lib.where(x > 0, x, y), 2),
    "relu": (lambda lib, F, x: lib.relu(x), 1),
    "clamp": (lambda lib, F, x: x.clamp(-1, 1), 1),
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "exp": lambda lib, F, x: lib.exp(x),
    "log": lambda lib, F, x: lib.log(lib.abs(x)),
    "tanh": lambda lib, F, x: lib.tanh(x),
    "sigmoid": lambda lib, F, x: lib.sigmoid(x),
    "gelu": lambda lib, F, x: F.gelu(x),
    "sin": lambda lib, F, x: lib.sin(x),
    "sqrt": lambda lib, F, x: lib.sqrt(lib.abs(x)),
}
_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": lambda lib, F, x: x.sum(),
    "sum, rows": lambda lib, F, x: x.sum(1),
    "sum, columns": lambda lib, F, x: x.sum(0),
    "mean, rows": lambda lib, F, x: x.mean(1),
    "max, rows": lambda lib, F, x: x.amax(1),
    "argmax, rows": lambda lib, F, x: x.argmax(1),
    "var, rows": lambda lib, F, x: x.var(1),
    "norm": lambda lib, F, x: x.norm(),
    "softmax": lambda lib, F, x: lib.softmax(x, 1),
    "log softmax": lambda lib, F, x: lib.log_softmax(x, 1),
    "logsumexp": lambda lib, F, x: lib.logsumexp(x, 1),
    "cumsum": lambda lib, F, x: lib.cumsum(x, 1),
}


def _convolution(stride: int = 1, padding: int = 1, groups: int = 1) -> Callable[..., Any]:
    given = {"stride": stride, "padding": padding, "groups": groups}
    return lambda lib, F, x, weight, bias: F.conv2d(x, weight, bias, **given)


def _convolved(images: int, inner: int, side: int, outer: int, kernel: int, groups: int = 1) -> Any:
    return (images, inner, side, side), (outer, inner // groups, kernel, kernel), (outer,)


_LAYERS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "convolution 3x3, 3 to 64, 32x32": (_convolution(), _convolved(IMAGES, 3, 32, 64, 3)),
    "convolution 3x3, 64 to 64, 32x32": (_convolution(), _convolved(IMAGES, 64, 32, 64, 3)),
    "convolution 3x3, 256 to 256, 8x8": (_convolution(), _convolved(IMAGES, 256, 8, 256, 3)),
    "convolution 3x3 by 2, 64 to 128, 32x32": (_convolution(2), _convolved(IMAGES, 64, 32, 128, 3)),
    "convolution 4x4 by 2, 64 to 128, 32x32": (_convolution(2), _convolved(IMAGES, 64, 32, 128, 4)),
    "convolution 1x1, 64 to 128, 32x32": (_convolution(1, 0), _convolved(IMAGES, 64, 32, 128, 1)),
    "convolution 5x5, 16 to 32, 14x14": (_convolution(1, 2), _convolved(64, 16, 14, 32, 5)),
    "convolution 3x3, 1 to 32, 28x28": (_convolution(1, 0), _convolved(64, 1, 28, 32, 3)),
    "convolution 3x3, each of 64, 32x32": (_convolution(1, 1, 64), _convolved(IMAGES, 64, 32, 64, 3, 64)),
    "transposed 4x4 by 2, 128 to 64, 16x16": (
        lambda lib, F, x, weight: F.conv_transpose2d(x, weight, stride=2, padding=1),
        ((IMAGES, 128, 16, 16), (128, 64, 4, 4)),
    ),
    "max pool 2x2": (lambda lib, F, x: F.max_pool2d(x, 2), (_WIDE,)),
    "mean pool 2x2": (lambda lib, F, x: F.avg_pool2d(x, 2), (_WIDE,)),
    "batch norm": (
        lambda lib, F, x, weight, bias: F.batch_norm(x, None, None, weight, bias, True),
        (_WIDE, (64,), (64,)),
    ),
    "relu of images": (lambda lib, F, x: F.relu(x), (_WIDE,)),
    "layer norm": (
        lambda lib, F, x, weight, bias: F.layer_norm(x, x.shape[1:], weight, bias),
        (_SQUARE, _ROW, _ROW),
    ),
    "linear 784 to 512": (
        lambda lib, F, x, weight, bias: F.linear(x, weight, bias),
        ((64, 784), (512, 784), (512,)),
    ),
    "product of matrices": (lambda lib, F, x, y: x @ y, (_SQUARE, _SQUARE)),
}
_CROSS_ENTROPY = lambda lib, F, x, labels: F.cross_entropy(x, labels)  # noqa: E731
# Of these the gradients are taken as well.
_DERIVED = ("add", "mul", "div", "relu", "exp", "tanh", "gelu", "sum, rows", "var, rows", "softmax")


def _ops() -> list[Case]:
    binary = (Case("plain", name, run, (_SQUARE,) * count) for name, (run, count) in _PLAIN.items())
    functions = (Case("functions", name, run, (_SQUARE,)) for name, run in _FUNCTIONS.items())
    reductions = (Case("reductions", name, run, (_SQUARE,)) for name, run in _REDUCTIONS.items())
    moved = [
        Case("moved", "add a row", lambda lib, F, x, y: x + y, (_SQUARE, _ROW)),
        Case("moved", "add transposed", lambda lib, F, x, y: x + y.T, (_SQUARE, _SQUARE)),
        Case("moved", "transposed, in rows", lambda lib, F, x: x.T.contiguous(), (_SQUARE,)),
        Case("moved", "cat", lambda lib, F, x, y: lib.cat([x, y]), (_SQUARE, _SQUARE)),
        Case("moved", "rows by number", lambda lib, F, x, i: x[i], (_SQUARE, _ROW), ((1, SIDE),)),
        Case("moved", "copy in place", lambda lib, F, x, y: x.detach().copy_(y), (_SQUARE, _SQUARE)),
        Case("moved", "relu in place", lambda lib, F, x: x.detach().relu_(), (_SQUARE,)),
        Case("moved", "cross entropy", _CROSS_ENTROPY, (_SQUARE, _ROW), ((1, SIDE),)),
    ]
    return [*binary, *functions, *reductions, *moved]


def cases() -> list[Case]:
    """All of them."""
    ops = _ops()
    layers = [Case("layers", name, run, inputs) for name, (run, inputs) in _LAYERS.items()]
    chosen = [case for case in ops if case.name in (*_DERIVED, "cross entropy")]
    derived = [
        Case(f"{case.family}, gradients", case.name, case.run, case.inputs, case.whole, True)
        for case in itertools.chain(chosen, layers)
    ]
    return [*ops, *layers, *derived]
