"""Losses as layers. Names, arguments and order as in `torch.nn`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.places.device import on_its_device
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.nn import functional as F
from fusegrad.eager.nn.containers import ModuleList, Sequential
from fusegrad.eager.nn.declare_layer import declared
from fusegrad.eager.nn.linear import Linear
from fusegrad.eager.nn.module import Module
from fusegrad.eager.ops.index import indexing
from fusegrad.eager.ops.loss.distance import cosine_similarity, pairwise_distance
from fusegrad.eager.ops.loss.loss import checked_reduction
from fusegrad.eager.ops.reduce import reduction as reductions
from fusegrad.eager.ops.shape import shape


class _Loss(Module):
    """What all losses are, and users' may be. Source: `torch.nn.modules.loss._Loss`."""

    reduction: str

    def __init__(self, size_average: Any = None, reduce: Any = None, reduction: str = "mean") -> None:
        super().__init__()
        old = size_average is not None or reduce is not None
        self.reduction = checked_reduction(reduction, size_average, reduce) if old else reduction


class _WeightedLoss(_Loss):
    """A loss with weights of classes or numbers."""

    weight: Tensor | None

    def __init__(
        self, weight: Any = None, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


def _loss(name: str, function: str, arguments: dict[str, Any], **options: Any) -> type:
    base = _WeightedLoss if options.get("held") == "weight" else _Loss
    return declared(__name__, name, function, arguments, base=base, **options)


_OLD = {"size_average": None, "reduce": None}  # PyTorch's older switches for the reduction
_MEAN = {"reduction": "mean"}
_LAST = {**_OLD, **_MEAN}
_MARGIN = {"margin": 0.0, **_LAST}

MSELoss = _loss("MSELoss", "mse_loss", _LAST)
L1Loss = _loss("L1Loss", "l1_loss", _LAST)
SmoothL1Loss = _loss("SmoothL1Loss", "smooth_l1_loss", {**_LAST, "beta": 1.0})
HuberLoss = _loss("HuberLoss", "huber_loss", {**_MEAN, "delta": 1.0})
SoftMarginLoss = _loss("SoftMarginLoss", "soft_margin_loss", _LAST)
BCELoss = _loss("BCELoss", "binary_cross_entropy", {"weight": None, **_LAST}, held="weight")
BCEWithLogitsLoss = _loss(
    "BCEWithLogitsLoss",
    "binary_cross_entropy_with_logits",
    {"weight": None, **_LAST, "pos_weight": None},
    held="weight pos_weight",
)
NLLLoss = _loss(
    "NLLLoss",
    "nll_loss",
    {"weight": None, "size_average": None, "ignore_index": -100, "reduce": None, **_MEAN},
    held="weight",
)
CrossEntropyLoss = _loss(
    "CrossEntropyLoss",
    "cross_entropy",
    {
        "weight": None,
        "size_average": None,
        "ignore_index": -100,
        "reduce": None,
        **_MEAN,
        "label_smoothing": 0.0,
    },
    held="weight",
)
KLDivLoss = _loss("KLDivLoss", "kl_div", {**_LAST, "log_target": False})
PoissonNLLLoss = _loss(
    "PoissonNLLLoss",
    "poisson_nll_loss",
    {"log_input": True, "full": False, "size_average": None, "eps": 1e-8, "reduce": None, **_MEAN},
)
GaussianNLLLoss = _loss(
    "GaussianNLLLoss", "gaussian_nll_loss", {"full": False, "eps": 1e-6, **_MEAN}, keyword_only=True
)
CTCLoss = _loss("CTCLoss", "ctc_loss", {"blank": 0, **_MEAN, "zero_infinity": False})
HingeEmbeddingLoss = _loss("HingeEmbeddingLoss", "hinge_embedding_loss", {"margin": 1.0, **_LAST})
CosineEmbeddingLoss = _loss("CosineEmbeddingLoss", "cosine_embedding_loss", _MARGIN)
MarginRankingLoss = _loss("MarginRankingLoss", "margin_ranking_loss", _MARGIN)
MultiLabelMarginLoss = _loss("MultiLabelMarginLoss", "multilabel_margin_loss", _LAST)
MultiLabelSoftMarginLoss = _loss(
    "MultiLabelSoftMarginLoss", "multilabel_soft_margin_loss", {"weight": None, **_LAST}, held="weight"
)
MultiMarginLoss = _loss(
    "MultiMarginLoss", "multi_margin_loss", {"p": 1, "margin": 1.0, "weight": None, **_LAST}, held="weight"
)
TripletMarginLoss = _loss(
    "TripletMarginLoss",
    "triplet_margin_loss",
    {"margin": 1.0, "p": 2.0, "eps": 1e-6, "swap": False, **_LAST},
)


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along `dim`. Source: `torch.nn.CosineSimilarity`."""

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The p-norm of the difference over the last dimension. Source: `torch.nn.PairwiseDistance`."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class TripletMarginWithDistanceLoss(_Loss):
    """`TripletMarginLoss` with a distance of one's own. Source: `torch.nn.TripletMarginWithDistanceLoss`."""

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        if margin <= 0:
            raise failure(ValueError, f"margin must be greater than 0, got {margin}")
        self.distance_function = PairwiseDistance() if distance_function is None else distance_function
        self.margin, self.swap, self.reduction = margin, swap, reduction

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


# Losses with weights of their own: class scores are made here, and compared with the targets.


class LinearCrossEntropyLoss(_WeightedLoss):
    """`CrossEntropyLoss` of the scores of a linear layer. Source: `torch.nn.LinearCrossEntropyLoss`."""

    @on_its_device
    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: Any = None,
    ) -> None:
        super().__init__()
        if weight is not None and weight.shape != (num_classes,):
            size = list(weight.shape)
            raise failure(RuntimeError, f"expected weight shape to be {(num_classes,)}, got {size}")
        if not 0 <= label_smoothing <= 1:
            raise failure(
                RuntimeError, f"expected label_smoothing to be in range [0, 1], got {label_smoothing}"
            )
        self.register_buffer("weight", weight)
        self.num_classes, self.out_features, self.reduction = num_classes, out_features, reduction
        self.ignore_index, self.label_smoothing, self.options = ignore_index, label_smoothing, options
        outputs = math.prod(out_features, start=num_classes)
        self.linear = Linear(in_features, outputs, bias, dtype=dtype)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        size, bias = (self.num_classes, *self.out_features), self.linear.bias
        return F.linear_cross_entropy(
            input,
            shape.reshape(self.linear.weight, (*size, self.linear.in_features)),
            target,
            linear_bias=None if bias is None else shape.reshape(bias, size),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, "
            f"reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )


class ASMoutput(NamedTuple):
    """What `AdaptiveLogSoftmaxWithLoss` gives: each row's log-probability of its target, and the loss."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """log_softmax over many classes that are sorted by how frequent they are, rare ones in clusters.

    The head scores the frequent classes and the clusters; only rows whose target is in a cluster are
    scored within it, from a smaller projection. Source: `torch.nn.AdaptiveLogSoftmaxWithLoss`.
    """

    @on_its_device
    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        within = cutoffs and cutoffs[0] > 0 and cutoffs[-1] < n_classes
        if not within or cutoffs != sorted(set(cutoffs)) or any(int(c) != c for c in cutoffs):
            raise failure(
                ValueError,
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, "
                "where each value is between 1 and n_classes-1",
            )
        self.in_features, self.n_classes, self.cutoffs = in_features, n_classes, [*cutoffs, n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size, self.n_clusters = cutoffs[0], len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, dtype=dtype)
        self.tail = ModuleList()
        for cluster, (low, high) in enumerate(itertools.pairwise(self.cutoffs)):
            hidden = int(in_features // div_value ** (cluster + 1))
            self.tail.append(
                Sequential(
                    Linear(in_features, hidden, bias=False, dtype=dtype),
                    Linear(hidden, high - low, bias=False, dtype=dtype),
                )
            )

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        for layer in (self.head, *itertools.chain(*self.tail)):
            layer.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> ASMoutput:
        rank = target_.ndim
        if rank > 1 or input_.ndim != rank + 1 or input_.shape[:-1] != target_.shape:
            raise failure(
                RuntimeError,
                "Input and target should have the same size in the batch dimension: a 1D target goes with a "
                f"2D input, a 0D target with a 1D input; got target {list(target_.shape)} and input "
                f"{list(input_.shape)}",
            )
        input, target = (input_, target_) if rank else (input_.unsqueeze(0), target_.unsqueeze(0))
        outside = (target < 0) | (target >= self.n_classes)
        if bool(reductions.any(outside)):
            raise failure(RuntimeError, f"Target values should be in [0, {self.n_classes - 1}]")
        column, inner = target, input.new_zeros(len(target))
        for cluster, (low, high) in enumerate(itertools.pairwise(self.cutoffs)):
            mask = (target >= low) & (target < high)
            rows = indexing.nonzero(mask).squeeze(1)
            if not len(rows):
                continue
            scores = F.log_softmax(self.tail[cluster](input[rows]), 1)
            local = ops.gather(scores, 1, (target[rows] - low).unsqueeze(1)).squeeze(1)
            inner = ops.index_copy(inner, 0, rows, local)
            column = ops.where(mask, self.shortlist_size + cluster, column)
        head = F.log_softmax(self.head(input), 1)
        output = inner + ops.gather(head, 1, column.unsqueeze(1)).squeeze(1)
        return ASMoutput(output if rank else output.squeeze(0), -output.mean())

    def log_prob(self, input: Tensor) -> Tensor:
        """The log-probabilities [N, n_classes] of all classes."""
        head = F.log_softmax(self.head(input), 1)
        parts = [head[:, : self.shortlist_size]]
        for cluster, scores in enumerate(self.tail):
            place = self.shortlist_size + cluster
            parts.append(F.log_softmax(scores(input), 1) + head[:, place : place + 1])
        return ops.cat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """The class [N] that each row most likely has."""
        best = reductions.argmax(self.head(input), 1)
        return ops.where(best < self.shortlist_size, best, reductions.argmax(self.log_prob(input), 1))
