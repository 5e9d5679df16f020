"""Functions of `nn.functional` under `torch` itself, where their arguments come in another order.

A reduction is a number there: 0 for none, 1 for the mean, 2 for the sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.sizes import Ints
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.index import embedding as tables
from fusegrad.eager.ops.linalg.products import bilinear
from fusegrad.eager.ops.loss import distribution_loss, loss, margin_loss
from fusegrad.eager.ops.nn import dropout as dropouts, grid, irregular_pooling, normalization

_REDUCTIONS = ("none", "mean", "sum")
public(bilinear)


def _reduction(reduction: Any) -> str:
    """The name of a reduction that may be its number."""
    if isinstance(reduction, str):
        return reduction
    if reduction not in (0, 1, 2):
        raise failure(ValueError, f"{reduction} is not a valid value for reduction")
    return _REDUCTIONS[reduction]


@public
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    """Mean 0 and variance 1 over the last dimensions. Source: `torch.layer_norm`."""
    return normalization.layer_norm(input, normalized_shape, weight, bias, eps)


@public
def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """A mean square of 1 over the last dimensions. Source: `torch.rms_norm`."""
    return normalization.rms_norm(input, normalized_shape, weight, eps)


@public
def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor:
    """Mean 0 and variance 1 of groups of channels. Source: `torch.group_norm`."""
    return normalization.group_norm(input, num_groups, weight, bias, eps)


@public
def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """Mean 0 and variance 1 of each channel over the batch. Source: `torch.batch_norm`."""
    return normalization.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


@public
def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """Mean 0 and variance 1 of each channel of each row. Source: `torch.instance_norm`."""
    return normalization.instance_norm(
        input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )


@public
def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Elements set to 0 by chance, the others scaled. Source: `torch.dropout`."""
    return dropouts.dropout(input, p, train)


@public
def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`dropout` written into `input`. Source: `torch.dropout_`."""
    return dropouts.dropout(input, p, train, True)


@public
def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Whole channels set to 0 by chance, the others scaled. Source: `torch.feature_dropout`."""
    return dropouts.feature_dropout(input, p, train)


@public
def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """SELU's lowest value by chance, at mean and variance as they were. Source: `torch.alpha_dropout`."""
    return dropouts.alpha_dropout(input, p, train)


@public
def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`alpha_dropout` written into `input`. Source: `torch.alpha_dropout_`."""
    return dropouts.alpha_dropout(input, p, train, True)


@public
def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """`alpha_dropout` of whole channels. Source: `torch.feature_alpha_dropout`."""
    return dropouts.feature_alpha_dropout(input, p, train)


@public
def embedding(
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of a table. `padding_idx`: -1 for none. Source: `torch.embedding`."""
    padding = None if padding_idx == -1 else padding_idx
    return tables.embedding(indices, weight, padding, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)


@public
def affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """The grid that moves images by matrices. Source: `torch.affine_grid_generator`."""
    return grid.affine_grid(theta, size, align_corners)


@public
def adaptive_max_pool1d(input: Tensor, output_size: Ints) -> tuple[Tensor, Tensor]:
    """The largest of so many windows, and their positions. Source: `torch.adaptive_max_pool1d`."""
    pooled: tuple[Tensor, Tensor] = irregular_pooling.adaptive_max_pool1d(input, output_size, True)
    return pooled


@public
def kl_div(input: Tensor, target: Tensor, reduction: Any = 0, *, log_target: bool = False) -> Tensor:
    """The divergence of log-probabilities from a target, of each by default. Source: `torch.kl_div`."""
    return distribution_loss.kl_div(input, target, reduction=_reduction(reduction), log_target=log_target)


@public
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: Any = 0,
) -> Tensor:
    """The cross-entropy of two classes. Source: `torch.binary_cross_entropy_with_logits`."""
    return loss.binary_cross_entropy_with_logits(
        input, target, weight, reduction=_reduction(reduction), pos_weight=pos_weight
    )


@public
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: Any = 0
) -> Tensor:
    """How far angles are from what they ought to be. Source: `torch.cosine_embedding_loss`."""
    return margin_loss.cosine_embedding_loss(input1, input2, target, margin, reduction=_reduction(reduction))


@public
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: Any = 0) -> Tensor:
    """A distance, or how much it is below a margin. Source: `torch.hinge_embedding_loss`."""
    return margin_loss.hinge_embedding_loss(input, target, margin, reduction=_reduction(reduction))


@public
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: Any = 0
) -> Tensor:
    """How far two scores are from their order. Source: `torch.margin_ranking_loss`."""
    return margin_loss.margin_ranking_loss(input1, input2, target, margin, reduction=_reduction(reduction))


@public
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: Any = 0,
) -> Tensor:
    """How much nearer than the negative the positive ought to be. Source: `torch.triplet_margin_loss`."""
    return margin_loss.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, reduction=_reduction(reduction)
    )


@public
def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: Any
) -> Tensor:
    """The negative log-likelihood of counts. Source: `torch.poisson_nll_loss`."""
    return distribution_loss.poisson_nll_loss(
        input, target, log_input, full, eps=eps, reduction=_reduction(reduction)
    )


@public
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: Any = 0,
    zero_infinity: bool = False,
) -> Tensor:
    """The negative log-likelihood of sequences without alignment. Source: `torch.ctc_loss`."""
    return distribution_loss.ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, _reduction(reduction), zero_infinity
    )
