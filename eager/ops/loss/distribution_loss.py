"""Losses of distributions: Kullback-Leibler, Gaussian and Poisson likelihoods, sequences (CTC)."""

from __future__ import annotations

import math
from typing import Any

from fusegrad.eager.core.errors import failure, warn
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.state import no_grad, testable
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.index import indexing
from fusegrad.eager.ops.loss.distance import at_least
from fusegrad.eager.ops.loss.loss import checked_reduction, reduced
from fusegrad.eager.ops.precision import in_single
from fusegrad.eager.ops.shape import padding


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """target * (log target - input): `input` holds log-probabilities.

    reduction: also "batchmean", the sum by the first size, which is the divergence's own definition.
    log_target: the target holds log-probabilities too. Source: `torch.nn.functional.kl_div`.
    """
    input, target = in_single(input, target)
    batchmean = reduction == "batchmean"
    how = checked_reduction("sum" if batchmean else reduction, size_average, reduce)
    if reduction == "mean":
        warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size. "
            "'batchmean' divides only by the batch size, and aligns with the KL div math definition.",
        )
    if log_target:
        loss = ops.exp(target) * (target - input)
    else:
        loss = target * ops.log(ops.where(ops.eq(target, 0), 1.0, target)) - target * input
    total = reduced(loss, how)
    return total / input.array.shape[0] if batchmean and input.array.ndim else total


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: Any = None,
    eps: float = 1e-8,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """exp(input) - target * input, for counts; `input` itself is the rate unless `log_input`.

    full: with Stirling's approximation of log(target!). Source: `torch.nn.functional.poisson_nll_loss`.
    """
    input, target = in_single(input, target)
    how = checked_reduction(reduction, size_average, reduce)
    if log_input:
        loss = ops.exp(input) - target * input
    else:
        loss = input - target * ops.log(input + eps)
    if full:
        factorial = target * ops.log(target) - target + ops.log(target * (2 * math.pi)) * 0.5
        loss = loss + ops.where(target <= 1, 0.0, factorial)
    return reduced(loss, how)


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """(log var + (input - target) ** 2 / var) / 2, with a variance for each element or row.

    Raises ValueError for a negative variance, or one of a shape that does not fit.
    Source: `torch.nn.functional.gaussian_nll_loss`.
    """
    if not isinstance(var, Tensor):
        var = ops.full(input.array.shape, float(var), dtype=input.dtype)
    _check_not_negative(var)
    size, given = input.array.shape, var.array.shape
    if given != size:
        if size[:-1] == given:
            var = ops.unsqueeze(var, -1)
        elif len(size) != len(given) or sum(b for a, b in zip(size, given, strict=True) if a != b) != 1:
            raise failure(ValueError, f"var is of incorrect size {list(given)} for input of {list(size)}")
    how = checked_reduction(reduction)
    var = at_least(var, eps)
    away = input - target
    loss = (ops.log(var) + away * away / var) * 0.5
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduced(loss, how)


def _check_not_negative(var: Tensor) -> None:
    message = "var has negative entry/entries"
    if testable(var, lambda: ops.logical_not(ops.any(var < 0))) and (var.array < 0).any():
        raise failure(ValueError, message)


# Connectionist temporal classification (Graves et al., 2006): the probability of a label sequence is
# summed over its alignments with the inputs, by the forward recursion in logarithms. The labels stand
# with blanks around them, and all rows of the batch step together.

_NEVER = -1e30  # the log-probability of what cannot be; finite, so that sums of such keep their order


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Minus the log-probability of label sequences without a given alignment (CTC).

    log_probs: [T, N, C] or [T, C]; targets: [N, S] or all labels in one row. The mean is over rows, each
    by its length. As in PyTorch, the gradient is that of scores under log_softmax.
    zero_infinity: 0 in place of the infinite loss of labels that do not fit into the inputs.
    Source: `torch.nn.functional.ctc_loss`.
    """
    log_probs = in_single(log_probs)
    how = checked_reduction(reduction)
    single = log_probs.array.ndim == 2
    if single:
        log_probs = ops.unsqueeze(log_probs, 1)
    if log_probs.array.ndim != 3 or log_probs.array.dtype.kind not in "fV":
        raise failure(RuntimeError, "log_probs must be floating-point, of shape [T, N, C] or [T, C]")
    steps, rows, classes = log_probs.array.shape
    if not 0 <= blank < classes:
        raise failure(RuntimeError, f"blank must be in label range, got {blank} for {classes} classes")
    inputs = _lengths(input_lengths, rows, "input_lengths", steps)
    lengths = _lengths(target_lengths, rows, "target_lengths", targets.array.shape[-1])
    if targets.array.ndim == 1:
        total = targets.array.size
        known = testable(lengths, lambda: ops.eq(ops.sum(lengths), total))
        if known and lengths.array.sum() != total:
            raise failure(
                RuntimeError,
                f"Expected tensor to have size {lengths.array.sum()} at dimension 0, but got size {total} "
                "for argument #2 'targets'",
            )
    labels = _with_blanks(_label_rows(targets, lengths, rows), blank)
    loss = -_log_likelihood(log_probs, labels, inputs, lengths, blank)
    impossible = loss > -_NEVER / 10
    loss = ops.where(impossible, 0.0 if zero_infinity else math.inf, loss)
    if how == "mean":
        loss = loss / ops.clamp(lengths, 1)
    return ops.squeeze(loss, 0) if single and how == "none" else reduced(loss, how)


def _lengths(lengths: Any, rows: int, name: str, most: int) -> Tensor:
    """The lengths as int64[N], checked."""
    lengths = ops.reshape(ops.as_tensor(lengths), (-1,))
    if lengths.array.dtype.kind not in "iu":
        raise failure(RuntimeError, f"{name} must be integral, got {lengths.array.dtype.name}")
    if lengths.array.shape != (rows,):
        raise failure(RuntimeError, f"{name} must be of size batch_size {rows}, got {lengths.array.size}")
    inside = testable(lengths, lambda: ops.logical_and(lengths >= 0, lengths <= most).all())
    if inside and rows and not 0 <= lengths.array.min() <= lengths.array.max() <= most:
        raise failure(RuntimeError, f"Expected {name} to be from 0 to {most}, but got {lengths.array}")
    return lengths


def _label_rows(targets: Tensor, lengths: Tensor, rows: int) -> Tensor:
    """The labels as [N, S]; what lies behind a row's length is not looked at."""
    if targets.array.ndim == 2:
        if targets.array.shape[0] != rows:
            raise failure(RuntimeError, f"targets has {targets.array.shape[0]} rows, log_probs {rows}")
        return targets
    total = targets.array.size
    starts = ops.cumsum(lengths, 0) - lengths
    places = ops.unsqueeze(starts, 1) + ops.arange(total)
    return indexing.getitem(targets, ops.clamp(places, 0, max(total - 1, 0)))


def _with_blanks(labels: Tensor, blank: int) -> Tensor:
    """[b, l1, b, l2, ..., b] of each row."""
    rows, count = labels.array.shape
    pairs = ops.stack([ops.full_like(labels, blank), labels], -1)
    last = ops.full((rows, 1), blank, dtype=labels.dtype)
    return ops.cat([ops.reshape(pairs, (rows, 2 * count)), last], 1)


def _log_likelihood(log_probs: Tensor, labels: Tensor, inputs: Tensor, lengths: Tensor, blank: int) -> Tensor:
    """The log-probability of each row's labels."""
    steps, rows, classes = log_probs.array.shape
    places = labels.array.shape[1]
    index = ops.expand(ops.unsqueeze(ops.clamp(labels, 0, classes - 1), 0), (steps, rows, places))
    emitted = ops.gather(log_probs, 2, index)
    # Two equal labels need the blank between them; different ones may follow each other.
    skips = ops.ne(labels, blank) & ops.ne(labels, ops.roll(labels, 2, 1))
    skips = skips & (ops.arange(places) >= 2)
    # A row without inputs stands before the first label.
    forward = ops.expand(ops.where(ops.arange(places) < 1, 0.0, _NEVER), (rows, places))
    forward = ops.cast(forward, log_probs.dtype)
    if steps:
        start = ops.where(ops.arange(places) < 2, emitted[0], _NEVER)
        forward = ops.where(ops.unsqueeze(inputs > 0, 1), start, forward)
    for step in range(1, steps):
        ways = [forward, _moved(forward, 1), ops.where(skips, _moved(forward, 2), _NEVER)]
        ahead = ops.logsumexp(ops.stack(ways), 0) + emitted[step]
        forward = ops.where(ops.unsqueeze(inputs > step, 1), ahead, forward)
    ends = ops.stack([2 * lengths, ops.clamp(2 * lengths - 1, 0)], 1)
    last = ops.gather(forward, 1, ends)
    # An empty label sequence has but one place to end at.
    counted = (ops.arange(2) < 1) | ops.unsqueeze(lengths > 0, 1)
    total = ops.logsumexp(ops.where(counted, last, _NEVER), 1)
    return total - _softmax_term(log_probs, inputs)


def _moved(forward: Tensor, by: int) -> Tensor:
    return padding.padded(forward, [(0, 0), (by, 0)], _NEVER)[:, :-by]


def _softmax_term(log_probs: Tensor, inputs: Tensor) -> Tensor:
    """0, with the gradient exp(log_probs): PyTorch's gradient takes log_softmax into account."""
    with no_grad():
        counted = ops.arange(log_probs.array.shape[0]).unsqueeze(1) < inputs
        weights = ops.where(ops.unsqueeze(counted, 2), ops.exp(log_probs), 0.0)
    return ops.sum(weights * (log_probs - log_probs.detach()), (0, 2))
