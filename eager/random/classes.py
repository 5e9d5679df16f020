"""Numbers of classes, drawn by the chances of the classes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import Random
from fusegrad.eager.core.op import TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.state import no_grad, testable
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.shape.joining import written_out
from fusegrad.eager.random.generator import Generator, default_generator
from fusegrad.eager.random.random import _generator, rand
from fusegrad.eager.random.words import uniform_from

# The class is the first one up to which the chances are more than a uniform number. That stays below the sum,
# also where it is rounded, so that a last class without a chance is never drawn.
_BELOW_ONE = 1 - 2.0**-52
_WIDE = np.dtype(np.float64)


def _drawn_numpy(chances: np.ndarray, shape: tuple[int, ...], generator: Generator) -> np.ndarray:
    upto = np.add.accumulate(chances, axis=-1, dtype=_WIDE)
    share = uniform_from(generator.words(math.prod(shape)), _WIDE).reshape((*shape, 1)) * _BELOW_ONE
    return np.add.reduce(upto <= share * upto[..., -1:], axis=-1, dtype=np.int64)


def _drawn_by_ops(chances: Tensor, shape: tuple[int, ...], generator: Generator) -> Tensor:
    """What `_drawn_numpy` does, of the same words."""
    with no_grad():
        upto = ops.cumsum(ops.cast(chances.detach(), dtypes.float64), -1)
        share = ops.unsqueeze(rand(shape, generator=generator, dtype=dtypes.float64), -1) * _BELOW_ONE
        return ops.sum(ops.le(upto, share * upto[..., -1:]), -1)


_drawn = Random(
    "class_draw",
    "chances",
    _drawn_numpy,
    lambda types, shape, generator: TensorType(shape, np.dtype(np.int64)),
    None,
)
_drawn.by_ops = _drawn_by_ops


def drawn_class(chances: Tensor, shape: Any) -> Tensor:
    """Numbers of classes, of `shape`, by chances along the last dimension of what broadcasts to it."""
    return bind(_drawn, (chances,), {"shape": tuple(shape), "generator": default_generator})


# As `torch.multinomial` draws them.


def _check_weights(rows: np.ndarray, count: int, replacement: bool) -> None:
    """Refuse weights of which so many cannot be drawn."""
    if not (np.isfinite(rows).all() and (rows >= 0).all()):
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if not (rows.sum(1) > 0).all():
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    if not replacement and count > (rows > 0).sum(1).min():
        raise RuntimeError(f"cannot draw {count} without replacement from so few nonzero weights")


def _multinomial_numpy(x: np.ndarray, count: int, replacement: bool, generator: Generator) -> np.ndarray:
    rows = x.reshape(-1, x.shape[-1]).astype(np.float64)
    if not len(rows):
        return np.empty((*x.shape[:-1], count), np.int64)
    _check_weights(rows, count, replacement)
    words = uniform_from(
        generator.words(rows.shape[0] * (count if replacement else rows.shape[1])), np.dtype(np.float64)
    ).reshape(rows.shape[0], -1)
    if replacement:
        steps = np.cumsum(rows, axis=1) / rows.sum(1, keepdims=True)
        picked = np.array([np.searchsorted(s, u, side="right") for s, u in zip(steps, words, strict=True)])
        picked = np.minimum(picked, x.shape[-1] - 1)
    else:
        # The largest keys log(u) / weight are a sample without replacement (Efraimidis, Spirakis).
        keys = np.where(rows > 0, np.log1p(-words) / np.where(rows > 0, rows, 1), -np.inf)
        picked = np.argsort(-keys, axis=1, kind="stable")[:, :count]
    return picked.astype(np.int64).reshape(*x.shape[:-1], count)


_multinomial = Random(
    "multinomial",
    "x",
    _multinomial_numpy,
    lambda types, count, replacement, generator: TensorType(
        (*types[0].shape[:-1], count), np.dtype(np.int64)
    ),
    None,
)


def _multinomial_by_ops(x: Tensor, count: int, replacement: bool, generator: Generator) -> Tensor:
    """What `_multinomial_numpy` does, of the same words."""
    classes = x.array.shape[-1]
    rows = ops.reshape(ops.cast(x.detach(), dtypes.float64), (-1, classes))
    positive, limit = ops.gt(rows, 0), 1 if replacement else count

    def proper() -> Tensor:
        fit = ops.logical_and(ops.isfinite(rows), ops.ge(rows, 0))
        return ops.logical_and(ops.all(fit), ops.all(ops.ge(ops.sum(positive, 1), limit)))

    with no_grad():
        if testable(rows, proper):
            _check_weights(rows.array, count, replacement)
        size = rows.array.shape[0], count if replacement else classes
        words = rand(*size, generator=generator, dtype=dtypes.float64)
        if replacement:
            steps = ops.cumsum(rows, 1) / ops.sum(rows, 1, keepdim=True)
            passed = ops.le(ops.unsqueeze(steps, 1), ops.unsqueeze(words, 2))
            picked = ops.clamp(ops.sum(passed, 2), max=classes - 1)
        else:
            keys = ops.log1p(-words) / ops.where(positive, rows, 1.0)
            order = ops.argsort(ops.where(positive, keys, -math.inf), dim=1, descending=True, stable=True)
            picked = ops.narrow(order, 1, 0, count)
        return ops.reshape(ops.contiguous(picked), (*x.array.shape[:-1], count))


_multinomial.by_ops = _multinomial_by_ops


@public(method=True)
def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Class numbers drawn by the weights in each row. Source: `torch.multinomial`.

    Raises RuntimeError for weights that are negative or not finite, or too few for a draw without
    replacement.
    """
    if not input.array.ndim or input.array.ndim > 2:
        raise failure(RuntimeError, f"prob_dist must be 1 or 2 dim, got shape {list(input.array.shape)}")
    if input.array.dtype.kind not in "fV":
        raise failure(
            RuntimeError,
            f"multinomial only supports floating-point dtypes for input, got: {input.array.dtype.name}",
        )
    if num_samples <= 0:
        raise failure(RuntimeError, f"cannot sample n_sample <= 0 samples, got {num_samples}")
    if not replacement and num_samples > input.array.shape[-1]:
        raise failure(RuntimeError, "cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    params = {"count": num_samples, "replacement": replacement, "generator": _generator(generator)}
    drawn = bind(_multinomial, (input,), params)
    return drawn if out is None else written_out(drawn, out, (input,))
