"""Operands near the ends of their dtype, whose squares overflow or vanish: eager, compiled and PyTorch.

What rescales in one form of an op, or computes in a wider dtype, has to do so in the other. A sample of the
ops is taken here; all are taken by
`PYTHONPATH=tests:tests/helpers python tests/compiler/kernel/test_extreme_sizes.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from op_samples import SAMPLES, Sample
from oracle import torch

import fusegrad as fg
from fusegrad.eager.ops.loss import pairwise

SIZES = {
    "f4": (1.0, 1e10, 3e20, 1e30, 1e36, 1e-19, 3e-24, 1e-30, 1e-38, 1e-43),
    "f8": (1.0, 1e80, 3e160, 1e250, 1e305, 1e-154, 3e-170, 1e-250, 1e-308, 1e-321),
}
# Sums of products that overflow are infinite or NaN as the terms come, and as each is rounded or not; so are
# products of many factors. What is left of a number that is divided by its period has no digits then.
ORDERS = frozenset(
    "matmul addmm linear linear_relu lstm_cell gru_cell rnn_cell attention convolution convolution_bias prod "
    "einsum conv_transpose conv_transpose_bias matrix_power product_of_others pixel_pick linear_recurrence "
    "cumprod".split()
)
SAMPLED = [
    (name, sample)
    for name, samples in SAMPLES.items()
    for sample in samples
    if name not in ORDERS and "linalg" not in name and "lu_" not in name and not sample.random
    if any(a.dtype.kind == "f" and a.size for a in sample.inputs)
]
# What is made of lengths and powers, beside PyTorch: whether it holds what they do not is for PyTorch to say.
X, Y = (np.random.default_rng(seed).uniform(-2, 2, (4, 3)) for seed in (0, 1))
BESIDE_TORCH: dict[str, tuple[Callable[..., Any], int]] = {
    "hypot": (lambda lib, x, y: lib.hypot(x, y), 2),
    "norm": (lambda lib, x: lib.linalg.norm(x, dim=1), 1),
    "norm of all": (lambda lib, x: x.norm(), 1),
    "norm of order 3": (lambda lib, x: lib.linalg.vector_norm(x, 3, 1), 1),
    "cdist": (lambda lib, x, y: lib.cdist(x, y), 2),
    "cdist of order 3": (lambda lib, x, y: lib.cdist(x, y, 3.0), 2),
    "cdist of order 1": (lambda lib, x, y: lib.cdist(x, y, 1.0), 2),
    "pdist": (lambda lib, x: lib.nn.functional.pdist(x), 1),
    "dist": (lambda lib, x, y: lib.dist(x, y), 2),
    "pairwise_distance": (lambda lib, x, y: lib.nn.functional.pairwise_distance(x, y), 2),
    "cosine_similarity": (lambda lib, x, y: lib.cosine_similarity(x, y), 2),
    "normalize": (lambda lib, x: lib.nn.functional.normalize(x), 1),
    "renorm": (lambda lib, x: lib.renorm(x, 2, 0, 1.5), 1),
    "logsumexp": (lambda lib, x: lib.logsumexp(x, 1), 1),
    "logaddexp": (lambda lib, x, y: lib.logaddexp(x, y), 2),
    "logcumsumexp": (lambda lib, x: lib.logcumsumexp(x, 1), 1),
    "softplus": (lambda lib, x: lib.nn.functional.softplus(x), 1),
    "softmax": (lambda lib, x: lib.softmax(x, 1), 1),
    "log_softmax": (lambda lib, x: lib.log_softmax(x, 1), 1),
    "std": (lambda lib, x: lib.std(x, 1), 1),
    "std_mean": (lambda lib, x: lib.std_mean(x)[0], 1),
    "var": (lambda lib, x: lib.var(x, 1), 1),
    "mean": (lambda lib, x: x.mean(1), 1),
    "mse_loss": (lambda lib, x, y: lib.nn.functional.mse_loss(x, y), 2),
    "huber_loss": (lambda lib, x, y: lib.nn.functional.huber_loss(x, y), 2),
    "smooth_l1_loss": (lambda lib, x, y: lib.nn.functional.smooth_l1_loss(x, y), 2),
}


def flat(result: Any) -> list[Any]:
    if isinstance(result, (list, tuple)):
        return [t for r in result for t in flat(r)]
    return [result] if hasattr(result, "requires_grad") else []


def answered(lib: Any, function: Callable[..., Any], sample: Sample, arrays: list[np.ndarray]) -> Any:
    """Values, and gradients under uneven cotangents; or that it raised."""
    inputs = [lib.tensor(a).requires_grad_(sample.gradients and a.dtype.kind == "f") for a in arrays]
    try:
        outputs = flat(function(lib, *inputs))
    except (RuntimeError, ValueError, IndexError):
        return ["raised"]
    roots = [t for t in outputs if t.requires_grad and not t.is_complex()]
    gradients: tuple[Any, ...] = ()
    if roots:
        weights = [lib.linspace(0.5, 1.5, t.numel(), dtype=t.dtype).reshape(t.shape) for t in roots]
        leaves = [t for t in inputs if t.requires_grad]
        gradients = lib.autograd.grad(roots, leaves, weights, allow_unused=True)
    return [None if t is None else t.detach().numpy().copy() for t in (*outputs, *gradients)]


def alike(ours: Any, theirs: Any) -> bool:
    """NaN and infinite in the same places, and elsewhere the same but for some digits of the largest."""
    if ours is None or isinstance(ours, str) or ours.dtype.kind not in "fc":
        return theirs is ours if ours is None else bool(np.array_equal(ours, theirs))
    if theirs is None or ours.shape != theirs.shape:
        return False
    finite = np.isfinite(ours)
    if (
        not np.array_equal(ours[~finite], theirs[~finite], equal_nan=True)
        or not np.isfinite(theirs[finite]).all()
    ):
        return False
    wide = np.complex256 if ours.dtype.kind == "c" else np.longdouble
    a, b = ours[finite].astype(wide), theirs[finite].astype(wide)
    largest = np.abs(np.concatenate([a, b])).max(initial=0)
    return bool((np.abs(a - b) <= 1e-3 * largest + 4 * np.finfo(ours.real.dtype).smallest_subnormal).all())


def scaled(sample: Sample, kind: str) -> Iterator[tuple[str, list[np.ndarray]]]:
    """The sample's operands, all or one of them in each size."""
    with np.errstate(all="ignore"):
        arrays = [a.astype(kind) if a.dtype.kind == "f" else a for a in sample.inputs]
        places = [i for i, a in enumerate(arrays) if a.dtype.kind == "f"]
        for size in SIZES[kind]:
            for chosen in [places] if len(places) == 1 else [places, places[:1], places[1:2]]:
                factor = np.array(size, kind)
                yield (
                    f"{kind}, {chosen} times {size}",
                    [a * factor if i in chosen else a for i, a in enumerate(arrays)],
                )


def differing(sample: Sample) -> list[str]:
    """The sizes of operands of which the compiled call is not alike to eager."""
    found = []
    for kind in SIZES:
        jitted = fg.jit(sample.call)
        for text, arrays in scaled(sample, kind):
            eager, compiled = (answered(fg, f, sample, arrays) for f in (sample.call, jitted))
            if len(eager) != len(compiled) or not all(map(alike, eager, compiled)):
                found.append(text)
    return found


def unlike_torch(name: str) -> list[str]:
    """The sizes of operands of which eager or the compiled call has another value than PyTorch."""
    function, count = BESIDE_TORCH[name]
    sample = Sample(function, [X, Y][:count], gradients=False)
    found = []
    for kind in SIZES:
        jitted = fg.jit(function)
        for text, arrays in scaled(sample, kind):
            theirs = answered(torch, function, sample, arrays)
            for how, f in (("eager", function), ("compiled", jitted)):
                if not all(map(alike, answered(fg, f, sample, arrays), theirs)):
                    found.append(f"{how}: {text}")
    return found


@pytest.mark.parametrize("number", range(3, len(SAMPLED), 29))
def test_compiled_calls_agree_with_eager(number: int):
    assert differing(SAMPLED[number][1]) == []


@pytest.mark.parametrize("name", BESIDE_TORCH)
def test_lengths_are_those_of_pytorch(name: str):
    function, count = BESIDE_TORCH[name]
    assert unlike_torch(name) == []
    assert differing(Sample(function, [X, Y][:count])) == []


def test_forms_that_rescale_alone_are_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pairwise, "_in_reach", lambda found, *rest: found)
    assert any(text.startswith("eager: f4") for text in unlike_torch("cdist"))
    assert differing(Sample(BESIDE_TORCH["cdist"][0], [X, Y]))


if __name__ == "__main__":
    for name, sample in SAMPLED:
        for text in differing(sample):
            print(name, text, flush=True)
