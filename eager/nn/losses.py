"""Losses as layers. Names, arguments and order as in `torch.nn`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.nn import functional as F
from fusegrad.eager.nn.declare import declared
from fusegrad.eager.nn.module import Module
from fusegrad.eager.ops.loss.distance import cosine_similarity, pairwise_distance


def _loss(name: str, function: str, arguments: dict[str, Any], **options: Any) -> type:
    return declared(__name__, name, function, arguments, **options)


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


class TripletMarginWithDistanceLoss(Module):
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
