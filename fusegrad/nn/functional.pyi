"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from collections.abc import Sequence as _Sequence
from typing import Any as _Any

from fusegrad.eager.core.tensor import Tensor as _Tensor
from fusegrad.eager.nn.functional import relu as relu, silu as silu
from fusegrad.eager.ops.index.embedding import embedding as embedding, embedding_bag as embedding_bag
from fusegrad.eager.ops.index.lookup import one_hot as one_hot
from fusegrad.eager.ops.linalg.products import bilinear as bilinear
from fusegrad.eager.ops.loss.classification import (
    cross_entropy as cross_entropy,
    linear_cross_entropy as linear_cross_entropy,
    nll_loss as nll_loss,
)
from fusegrad.eager.ops.loss.distance import (
    cosine_similarity as cosine_similarity,
    normalize as normalize,
    pairwise_distance as pairwise_distance,
)
from fusegrad.eager.ops.loss.distribution_loss import (
    ctc_loss as ctc_loss,
    gaussian_nll_loss as gaussian_nll_loss,
    kl_div as kl_div,
    poisson_nll_loss as poisson_nll_loss,
)
from fusegrad.eager.ops.loss.loss import (
    binary_cross_entropy as binary_cross_entropy,
    binary_cross_entropy_with_logits as binary_cross_entropy_with_logits,
    huber_loss as huber_loss,
    l1_loss as l1_loss,
    mse_loss as mse_loss,
    smooth_l1_loss as smooth_l1_loss,
    soft_margin_loss as soft_margin_loss,
)
from fusegrad.eager.ops.loss.margin_loss import (
    cosine_embedding_loss as cosine_embedding_loss,
    hinge_embedding_loss as hinge_embedding_loss,
    margin_ranking_loss as margin_ranking_loss,
    multi_margin_loss as multi_margin_loss,
    multilabel_margin_loss as multilabel_margin_loss,
    multilabel_soft_margin_loss as multilabel_soft_margin_loss,
    triplet_margin_loss as triplet_margin_loss,
    triplet_margin_with_distance_loss as triplet_margin_with_distance_loss,
)
from fusegrad.eager.ops.loss.pairwise import pdist as pdist
from fusegrad.eager.ops.nn.activation import (
    gelu as gelu,
    glu as glu,
    hardtanh as hardtanh,
    mish as mish,
    prelu as prelu,
    relu6 as relu6,
    rrelu as rrelu,
    selu as selu,
    softshrink as softshrink,
    softsign as softsign,
    tanhshrink as tanhshrink,
)
from fusegrad.eager.ops.nn.attention import (
    multi_head_attention_forward as multi_head_attention_forward,
    scaled_dot_product_attention as scaled_dot_product_attention,
)
from fusegrad.eager.ops.nn.dropout import (
    alpha_dropout as alpha_dropout,
    dropout as dropout,
    dropout1d as dropout1d,
    dropout2d as dropout2d,
    dropout3d as dropout3d,
    feature_alpha_dropout as feature_alpha_dropout,
    gumbel_softmax as gumbel_softmax,
)
from fusegrad.eager.ops.nn.grid import affine_grid as affine_grid, grid_sample as grid_sample
from fusegrad.eager.ops.nn.linear import linear as linear
from fusegrad.eager.ops.nn.normalization import (
    batch_norm as batch_norm,
    group_norm as group_norm,
    instance_norm as instance_norm,
    layer_norm as layer_norm,
    local_response_norm as local_response_norm,
    rms_norm as rms_norm,
)
from fusegrad.eager.ops.nn.rearranging import (
    channel_shuffle as channel_shuffle,
    fold as fold,
    pixel_shuffle as pixel_shuffle,
    pixel_unshuffle as pixel_unshuffle,
    unfold as unfold,
)
from fusegrad.eager.ops.nn.resampling import (
    interpolate as interpolate,
    upsample as upsample,
    upsample_bilinear as upsample_bilinear,
    upsample_nearest as upsample_nearest,
)
from fusegrad.eager.ops.reduce.softmax import (
    log_softmax as log_softmax,
    softmax as softmax,
    softmin as softmin,
)
from fusegrad.eager.ops.shape.padding import pad as pad

def adaptive_avg_pool1d(input: _Tensor, output_size: _Any) -> _Tensor: ...
def adaptive_avg_pool2d(input: _Tensor, output_size: _Any) -> _Tensor: ...
def adaptive_avg_pool3d(input: _Tensor, output_size: _Any) -> _Tensor: ...
def adaptive_max_pool1d(input: _Tensor, output_size: _Any, return_indices: bool = False) -> _Any: ...
def adaptive_max_pool2d(input: _Tensor, output_size: _Any, return_indices: bool = False) -> _Any: ...
def adaptive_max_pool3d(input: _Tensor, output_size: _Any, return_indices: bool = False) -> _Any: ...
def avg_pool1d(
    input: _Tensor,
    kernel_size: _Any,
    stride: _Any = None,
    padding: _Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> _Tensor: ...
def avg_pool2d(
    input: _Tensor,
    kernel_size: _Any,
    stride: _Any = None,
    padding: _Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> _Tensor: ...
def avg_pool3d(
    input: _Tensor,
    kernel_size: _Any,
    stride: _Any = None,
    padding: _Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> _Tensor: ...
def celu(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def celu_(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def conv1d(
    input: _Tensor,
    weight: _Tensor,
    bias: _Tensor | None = None,
    stride: _Any = 1,
    padding: _Any = 0,
    dilation: _Any = 1,
    groups: int = 1,
) -> _Tensor: ...
def conv2d(
    input: _Tensor,
    weight: _Tensor,
    bias: _Tensor | None = None,
    stride: _Any = 1,
    padding: _Any = 0,
    dilation: _Any = 1,
    groups: int = 1,
) -> _Tensor: ...
def conv3d(
    input: _Tensor,
    weight: _Tensor,
    bias: _Tensor | None = None,
    stride: _Any = 1,
    padding: _Any = 0,
    dilation: _Any = 1,
    groups: int = 1,
) -> _Tensor: ...
def conv_transpose1d(
    input: _Tensor,
    weight: _Tensor,
    bias: _Tensor | None = None,
    stride: _Any = 1,
    padding: _Any = 0,
    output_padding: _Any = 0,
    groups: int = 1,
    dilation: _Any = 1,
) -> _Tensor: ...
def conv_transpose2d(
    input: _Tensor,
    weight: _Tensor,
    bias: _Tensor | None = None,
    stride: _Any = 1,
    padding: _Any = 0,
    output_padding: _Any = 0,
    groups: int = 1,
    dilation: _Any = 1,
) -> _Tensor: ...
def conv_transpose3d(
    input: _Tensor,
    weight: _Tensor,
    bias: _Tensor | None = None,
    stride: _Any = 1,
    padding: _Any = 0,
    output_padding: _Any = 0,
    groups: int = 1,
    dilation: _Any = 1,
) -> _Tensor: ...
def elu(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def elu_(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def fractional_max_pool2d(
    input: _Tensor,
    kernel_size: _Any,
    output_size: _Any = None,
    output_ratio: _Any = None,
    return_indices: bool = False,
    _random_samples: _Tensor | None = None,
) -> _Any: ...
def fractional_max_pool3d(
    input: _Tensor,
    kernel_size: _Any,
    output_size: _Any = None,
    output_ratio: _Any = None,
    return_indices: bool = False,
    _random_samples: _Tensor | None = None,
) -> _Any: ...
def hardshrink(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def hardsigmoid(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def hardswish(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def hardtanh_(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def leaky_relu(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def leaky_relu_(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def logsigmoid(input: _Any) -> _Tensor: ...
def lp_pool1d(
    input: _Tensor, norm_type: float, kernel_size: _Any, stride: _Any = None, ceil_mode: bool = False
) -> _Tensor: ...
def lp_pool2d(
    input: _Tensor, norm_type: float, kernel_size: _Any, stride: _Any = None, ceil_mode: bool = False
) -> _Tensor: ...
def lp_pool3d(
    input: _Tensor, norm_type: float, kernel_size: _Any, stride: _Any = None, ceil_mode: bool = False
) -> _Tensor: ...
def max_pool1d(
    input: _Tensor,
    kernel_size: _Any,
    stride: _Any = None,
    padding: _Any = 0,
    dilation: _Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> _Any: ...
def max_pool2d(
    input: _Tensor,
    kernel_size: _Any,
    stride: _Any = None,
    padding: _Any = 0,
    dilation: _Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> _Any: ...
def max_pool3d(
    input: _Tensor,
    kernel_size: _Any,
    stride: _Any = None,
    padding: _Any = 0,
    dilation: _Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> _Any: ...
def max_unpool1d(
    input: _Tensor,
    indices: _Tensor,
    kernel_size: _Any,
    stride: _Any = None,
    padding: _Any = 0,
    output_size: _Sequence[int] | None = None,
) -> _Tensor: ...
def max_unpool2d(
    input: _Tensor,
    indices: _Tensor,
    kernel_size: _Any,
    stride: _Any = None,
    padding: _Any = 0,
    output_size: _Sequence[int] | None = None,
) -> _Tensor: ...
def max_unpool3d(
    input: _Tensor,
    indices: _Tensor,
    kernel_size: _Any,
    stride: _Any = None,
    padding: _Any = 0,
    output_size: _Sequence[int] | None = None,
) -> _Tensor: ...
def relu_(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def rrelu_(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def selu_(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def sigmoid(input: _Any, *, out: _Any = None) -> _Tensor: ...
def softplus(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def tanh(input: _Any, *, out: _Any = None) -> _Tensor: ...
def threshold(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def threshold_(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
