"""float16 and bfloat16 on PyTorch's samples: how far values and gradients are from those of float64.

PyTorch's kernels compute with half types in float32 and round once, so both libraries' errors are told in
units of the last place: of the number, or of a sixteenth of the tensor's largest one where numbers cancel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from op_database.drive import (
    ADAPTED,
    PLACEMENT,
    converted,
    differentiable,
    found,
    numpy,
    samples_of,
    tensors_in,
)
from op_database.table import TIES

torch = pytest.importorskip("torch")

EPSILON = {torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}
CHUNKS = "PyTorch's gradients come chunk by chunk from one kernel; ours from ops that round each product"
PRODUCTS = (
    "the gradient of a product of several is a product of rounded ones, in another order than PyTorch's"
)
# Ops whose numbers may be further off than PyTorch's, and why; all else about them must be right.
REASONS = {
    "topk": TIES,
    "mode": TIES,
    "sort": TIES,
    "msort": TIES,
    "linalg.multi_dot": PRODUCTS,
    "addbmm": PRODUCTS,
    "baddbmm": PRODUCTS,
    "nn.functional.linear_cross_entropy": CHUNKS,
    "as_strided_scatter": "PyTorch's gradient of what is written over is not 0, and fails its own gradcheck",
    "special.ndtr": "PyTorch's is 0 where ours is not: the numbers are below float32's last place of 1",
    "masked.normalize": "a division by a norm that is 0 in half precision: neither gradient is a number",
    "nn.functional.kl_div": "PyTorch's gradient of the target keeps more than one rounding's digits",
    "cov": "the gradient is 0 but for rounding",
}
# What PyTorch takes in half precision and fusegrad does not.
REFUSED = ("Low precision dtypes not supported", "ComplexHalf", "complex32", "view_as_complex")


def widened(value: Any) -> Any:
    """A sample's argument with float64 in place of half types."""
    if isinstance(value, torch.Tensor):
        half = value.dtype in EPSILON
        return value.detach().double().requires_grad_(value.requires_grad) if half else value
    if isinstance(value, torch.dtype):
        return torch.float64 if value in EPSILON else value
    if isinstance(value, (list, tuple)):
        parts = [widened(v) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return {k: widened(v) for k, v in value.items()} if isinstance(value, dict) else value


def error(tensor: Any, exact: Any, epsilon: float) -> float:
    """How many units of the last place the worst element is off."""
    a, b = numpy(tensor).astype(np.float64), numpy(exact).astype(np.float64)
    assert a.shape == b.shape, f"shape {list(a.shape)} for {list(b.shape)}"
    finite = np.isfinite(b)
    if not finite.any():
        return 0.0
    unit = epsilon * np.maximum(np.abs(b), np.abs(b[finite]).max() / 16) + 1e-30
    with np.errstate(all="ignore"):
        off = np.where(finite, np.abs(a - b) / unit, 0)
    return float(np.where(np.isnan(off), np.inf, off).max())


def further_off(ours: Any, theirs: Any, exact: Any, epsilon: float) -> Iterator[str]:
    """Where ours is of another dtype than PyTorch's, or off by more than three times as much."""
    for mine, other, right in zip(ours, theirs, exact, strict=True):
        if other is None or right is None or (mine is None and not numpy(other).any()):
            continue
        assert mine is not None, "no gradient"
        assert mine.dtype == converted(other.dtype), f"dtype {mine.dtype} for {other.dtype}"
        if other.dtype in EPSILON:
            off, allowed = error(mine, right, epsilon), error(other, right, epsilon)
            if off > 3 * allowed + 1.5:
                yield f"off by {off:.1f} units of the last place, PyTorch by {allowed:.1f}"


def wrong_in(entry: Any, function: Callable[..., Any], sample: Any, dtype: Any) -> Iterator[str]:
    """What one sample's values and gradients are further off by; nothing where PyTorch cannot take it."""
    kwargs = {k: v for k, v in sample.kwargs.items() if k not in PLACEMENT}
    given = [sample.input, *sample.args]
    twins, twin_kwargs, wide, wide_kwargs = (
        converted(given),
        converted(kwargs),
        widened(given),
        widened(kwargs),
    )
    kept = sample.output_process_fn_grad
    try:
        theirs, exact = kept(entry.op(*given, **kwargs)), kept(entry.op(*wide, **wide_kwargs))
    except Exception:
        return
    ours = kept(function(*twins, **twin_kwargs))
    trios = [list(tensors_in(part)) for part in (ours, theirs, exact)]
    for problem in further_off(*trios, EPSILON[dtype]):
        yield f"value {problem}"
    marks = [t.requires_grad for t in trios[1]]
    if not any(marks) or not entry.supports_autograd:
        return
    leaves = [
        [t for t in tensors_in(part) if t.requires_grad]
        for part in ([twins, twin_kwargs], [given, kwargs], [wide, wide_kwargs])
    ]
    ours, theirs, exact = (differentiable(part, marks) for part in trios)
    random = np.random.default_rng(3)
    seeds = [torch.tensor(random.uniform(0.5, 1.5, tuple(t.shape))).to(t.dtype) for t in theirs]
    try:
        expected = torch.autograd.grad(theirs, leaves[1], seeds, allow_unused=True)
        doubles = [seed.to(t.dtype) for seed, t in zip(seeds, exact, strict=True)]
        right = torch.autograd.grad(exact, leaves[2], doubles, allow_unused=True)
    except RuntimeError:
        return
    import fusegrad as fg

    made = fg.autograd.grad(ours, leaves[0], converted(seeds), allow_unused=True)
    for problem in further_off(made, expected, right, EPSILON[dtype]):
        yield f"gradient {problem}"


def run_halves(entry: Any) -> list[str]:
    """What is wrong with all samples of one entry, in both half types."""
    variant = f"{entry.name} ({entry.variant_test_name})" if entry.variant_test_name else entry.name
    function = found(entry.name)
    assert function is not None
    function = ADAPTED.get(variant, ADAPTED.get(entry.name, lambda f: f))(function)
    problems = []
    for dtype in EPSILON:
        if dtype not in entry.dtypes:
            continue
        for sample in samples_of(entry, dtype):
            if sample.kwargs.get("dropout_p"):
                continue
            try:
                problems += [f"{variant}, {dtype}: {p}" for p in wrong_in(entry, function, sample, dtype)]
            except Exception as problem:
                if not any(words in str(problem) for words in REFUSED):
                    problems.append(f"{variant}, {dtype}: {problem!r}")
    return problems
