"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from collections.abc import Callable as _Callable, Sequence as _Sequence
from typing import Any as _Any

from fusegrad.eager.core.sizes import Ints as _Ints
from fusegrad.eager.core.tensor import Tensor as _Tensor

def adaptive_avg_pool1d(input: _Tensor, output_size: _Sequence[int | None] | int) -> _Tensor: ...
def adaptive_avg_pool2d(input: _Tensor, output_size: _Sequence[int | None] | int) -> _Tensor: ...
def adaptive_avg_pool3d(input: _Tensor, output_size: _Sequence[int | None] | int) -> _Tensor: ...
def adaptive_max_pool1d(input: _Tensor, output_size: _Any, return_indices: bool = False) -> _Any: ...
def adaptive_max_pool2d(input: _Tensor, output_size: _Any, return_indices: bool = False) -> _Any: ...
def adaptive_max_pool3d(input: _Tensor, output_size: _Any, return_indices: bool = False) -> _Any: ...
def affine_grid(theta: _Tensor, size: _Sequence[int], align_corners: bool | None = None) -> _Tensor: ...
def alpha_dropout(
    input: _Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> _Tensor: ...
def avg_pool1d(
    input: _Tensor,
    kernel_size: _Ints,
    stride: _Ints | None = None,
    padding: _Ints = 0,
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
def batch_norm(
    input: _Tensor,
    running_mean: _Tensor | None,
    running_var: _Tensor | None,
    weight: _Tensor | None = None,
    bias: _Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> _Tensor: ...
def bilinear(input1: _Tensor, input2: _Tensor, weight: _Tensor, bias: _Tensor | None = None) -> _Tensor: ...
def binary_cross_entropy(
    input: _Tensor,
    target: _Tensor,
    weight: _Tensor | None = None,
    size_average: _Any = None,
    reduce: _Any = None,
    reduction: str = "mean",
) -> _Tensor: ...
def binary_cross_entropy_with_logits(
    input: _Tensor,
    target: _Tensor,
    weight: _Tensor | None = None,
    size_average: _Any = None,
    reduce: _Any = None,
    reduction: str = "mean",
    pos_weight: _Tensor | None = None,
) -> _Tensor: ...
def celu(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def celu_(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def channel_shuffle(input: _Tensor, groups: int) -> _Tensor: ...
def conv1d(
    input: _Tensor,
    weight: _Tensor,
    bias: _Tensor | None = None,
    stride: _Ints = 1,
    padding: _Any = 0,
    dilation: _Ints = 1,
    groups: int = 1,
) -> _Tensor: ...
def conv2d(
    input: _Tensor,
    weight: _Tensor,
    bias: _Tensor | None = None,
    stride: _Ints = 1,
    padding: _Any = 0,
    dilation: _Ints = 1,
    groups: int = 1,
) -> _Tensor: ...
def conv3d(
    input: _Tensor,
    weight: _Tensor,
    bias: _Tensor | None = None,
    stride: _Ints = 1,
    padding: _Any = 0,
    dilation: _Ints = 1,
    groups: int = 1,
) -> _Tensor: ...
def conv_tbc(input: _Tensor, weight: _Tensor, bias: _Tensor, pad: int = 0) -> _Tensor: ...
def conv_transpose1d(
    input: _Tensor,
    weight: _Tensor,
    bias: _Tensor | None = None,
    stride: _Ints = 1,
    padding: _Ints = 0,
    output_padding: _Ints = 0,
    groups: int = 1,
    dilation: _Ints = 1,
) -> _Tensor: ...
def conv_transpose2d(
    input: _Tensor,
    weight: _Tensor,
    bias: _Tensor | None = None,
    stride: _Ints = 1,
    padding: _Ints = 0,
    output_padding: _Ints = 0,
    groups: int = 1,
    dilation: _Ints = 1,
) -> _Tensor: ...
def conv_transpose3d(
    input: _Tensor,
    weight: _Tensor,
    bias: _Tensor | None = None,
    stride: _Ints = 1,
    padding: _Ints = 0,
    output_padding: _Ints = 0,
    groups: int = 1,
    dilation: _Ints = 1,
) -> _Tensor: ...
def cosine_embedding_loss(
    input1: _Tensor,
    input2: _Tensor,
    target: _Tensor,
    margin: float = 0.0,
    size_average: _Any = None,
    reduce: _Any = None,
    reduction: str = "mean",
) -> _Tensor: ...
def cosine_similarity(
    x1: _Tensor, x2: _Tensor, dim: int = 1, eps: float = 1e-08, *, axis: int = 1
) -> _Tensor: ...
def cross_entropy(
    input: _Tensor,
    target: _Tensor,
    weight: _Tensor | None = None,
    size_average: _Any = None,
    ignore_index: int = -100,
    reduce: _Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> _Tensor: ...
def ctc_loss(
    log_probs: _Tensor,
    targets: _Tensor,
    input_lengths: _Any,
    target_lengths: _Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> _Tensor: ...
def dropout(input: _Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> _Tensor: ...
def dropout1d(input: _Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> _Tensor: ...
def dropout2d(input: _Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> _Tensor: ...
def dropout3d(input: _Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> _Tensor: ...
def elu(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def elu_(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def embedding(
    input: _Tensor,
    weight: _Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> _Tensor: ...
def embedding_bag(
    input: _Tensor,
    weight: _Tensor,
    offsets: _Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: _Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> _Tensor: ...
def feature_alpha_dropout(
    input: _Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> _Tensor: ...
def fold(
    input: _Tensor,
    output_size: _Any,
    kernel_size: _Any,
    dilation: _Any = 1,
    padding: _Any = 0,
    stride: _Any = 1,
) -> _Tensor: ...
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
def gaussian_nll_loss(
    input: _Tensor,
    target: _Tensor,
    var: _Any,
    full: bool = False,
    eps: float = 1e-06,
    reduction: str = "mean",
) -> _Tensor: ...
def gelu(input: _Tensor, approximate: str = "none") -> _Tensor: ...
def glu(input: _Tensor, dim: int = -1, *, axis: int = -1) -> _Tensor: ...
def grid_sample(
    input: _Tensor,
    grid: _Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> _Tensor: ...
def group_norm(
    input: _Tensor,
    num_groups: int,
    weight: _Tensor | None = None,
    bias: _Tensor | None = None,
    eps: float = 1e-05,
) -> _Tensor: ...
def gumbel_softmax(
    logits: _Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1, *, axis: int = -1
) -> _Tensor: ...
def hardshrink(input: _Tensor, *values: _Any, out: _Any = None, **given: _Any) -> _Tensor: ...
def hardsigmoid(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def hardswish(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def hardtanh(
    input: _Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> _Tensor: ...
def hardtanh_(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def hinge_embedding_loss(
    input: _Tensor,
    target: _Tensor,
    margin: float = 1.0,
    size_average: _Any = None,
    reduce: _Any = None,
    reduction: str = "mean",
) -> _Tensor: ...
def huber_loss(
    input: _Tensor,
    target: _Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: _Tensor | None = None,
) -> _Tensor: ...
def instance_norm(
    input: _Tensor,
    running_mean: _Tensor | None = None,
    running_var: _Tensor | None = None,
    weight: _Tensor | None = None,
    bias: _Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> _Tensor: ...
def interpolate(
    input: _Tensor,
    size: _Any = None,
    scale_factor: _Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> _Tensor: ...
def kl_div(
    input: _Tensor,
    target: _Tensor,
    size_average: _Any = None,
    reduce: _Any = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> _Tensor: ...
def l1_loss(
    input: _Tensor,
    target: _Tensor,
    size_average: _Any = None,
    reduce: _Any = None,
    reduction: str = "mean",
    weight: _Tensor | None = None,
) -> _Tensor: ...
def layer_norm(
    input: _Tensor,
    normalized_shape: _Any,
    weight: _Tensor | None = None,
    bias: _Tensor | None = None,
    eps: float = 1e-05,
) -> _Tensor: ...
def leaky_relu(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def leaky_relu_(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def linear(input: _Tensor, weight: _Tensor, bias: _Tensor | None = None) -> _Tensor: ...
def linear_cross_entropy(
    input: _Tensor,
    linear_weight: _Tensor,
    target: _Tensor,
    *,
    linear_bias: _Tensor | None = None,
    weight: _Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: _Any = None,
) -> _Tensor: ...
def local_response_norm(
    input: _Tensor, size: int, alpha: float = 0.0001, beta: float = 0.75, k: float = 1.0
) -> _Tensor: ...
def log_softmax(
    input: _Tensor, dim: int | None = None, *, dtype: _Any = None, axis: int | None = None, out: _Any = None
) -> _Tensor: ...
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
def margin_ranking_loss(
    input1: _Tensor,
    input2: _Tensor,
    target: _Tensor,
    margin: float = 0.0,
    size_average: _Any = None,
    reduce: _Any = None,
    reduction: str = "mean",
) -> _Tensor: ...
def max_pool1d(
    input: _Tensor,
    kernel_size: _Ints,
    stride: _Ints | None = None,
    padding: _Ints = 0,
    dilation: _Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> _Any: ...
def max_pool2d(
    input: _Tensor,
    kernel_size: _Ints,
    stride: _Ints | None = None,
    padding: _Ints = 0,
    dilation: _Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> _Any: ...
def max_pool3d(
    input: _Tensor,
    kernel_size: _Ints,
    stride: _Ints | None = None,
    padding: _Ints = 0,
    dilation: _Ints = 1,
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
def mish(input: _Tensor, inplace: bool = False) -> _Tensor: ...
def mse_loss(
    input: _Tensor,
    target: _Tensor,
    size_average: _Any = None,
    reduce: _Any = None,
    reduction: str = "mean",
    weight: _Tensor | None = None,
) -> _Tensor: ...
def multi_head_attention_forward(
    query: _Tensor,
    key: _Tensor,
    value: _Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: _Tensor | None,
    in_proj_bias: _Tensor | None,
    bias_k: _Tensor | None,
    bias_v: _Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: _Tensor,
    out_proj_bias: _Tensor | None,
    training: bool = True,
    key_padding_mask: _Tensor | None = None,
    need_weights: bool = True,
    attn_mask: _Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: _Tensor | None = None,
    k_proj_weight: _Tensor | None = None,
    v_proj_weight: _Tensor | None = None,
    static_k: _Tensor | None = None,
    static_v: _Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[_Tensor, _Tensor | None]: ...
def multi_margin_loss(
    input: _Tensor,
    target: _Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: _Tensor | None = None,
    size_average: _Any = None,
    reduce: _Any = None,
    reduction: str = "mean",
) -> _Tensor: ...
def multilabel_margin_loss(
    input: _Tensor, target: _Tensor, size_average: _Any = None, reduce: _Any = None, reduction: str = "mean"
) -> _Tensor: ...
def multilabel_soft_margin_loss(
    input: _Tensor,
    target: _Tensor,
    weight: _Tensor | None = None,
    size_average: _Any = None,
    reduce: _Any = None,
    reduction: str = "mean",
) -> _Tensor: ...
def nll_loss(
    input: _Tensor,
    target: _Tensor,
    weight: _Tensor | None = None,
    size_average: _Any = None,
    ignore_index: int = -100,
    reduce: _Any = None,
    reduction: str = "mean",
) -> _Tensor: ...
def normalize(
    input: _Tensor,
    p: float = 2.0,
    dim: _Any = 1,
    eps: float = 1e-12,
    out: _Tensor | None = None,
    *,
    axis: _Any = 1,
) -> _Tensor: ...
def one_hot(tensor: _Tensor, num_classes: int = -1) -> _Tensor: ...
def pad(
    input: _Tensor, pad: _Sequence[int], mode: str = "constant", value: float | None = None
) -> _Tensor: ...
def pairwise_distance(
    x1: _Tensor,
    x2: _Tensor,
    p: float = 2.0,
    eps: float = 1e-06,
    keepdim: bool = False,
    *,
    keepdims: bool = False,
) -> _Tensor: ...
def pdist(input: _Tensor, p: float = 2.0) -> _Tensor: ...
def pixel_shuffle(input: _Tensor, upscale_factor: int) -> _Tensor: ...
def pixel_unshuffle(input: _Tensor, downscale_factor: int) -> _Tensor: ...
def poisson_nll_loss(
    input: _Tensor,
    target: _Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: _Any = None,
    eps: float = 1e-08,
    reduce: _Any = None,
    reduction: str = "mean",
) -> _Tensor: ...
def prelu(input: _Tensor, weight: _Tensor) -> _Tensor: ...
def relu(input: _Tensor, inplace: bool = False) -> _Tensor: ...
def relu6(input: _Tensor, inplace: bool = False) -> _Tensor: ...
def relu_(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def rms_norm(
    input: _Tensor, normalized_shape: _Any, weight: _Tensor | None = None, eps: float | None = None
) -> _Tensor: ...
def rrelu(
    input: _Tensor,
    lower: float = 0.125,
    upper: float = 0.3333333333333333,
    training: bool = False,
    inplace: bool = False,
) -> _Tensor: ...
def rrelu_(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def scaled_dot_product_attention(
    query: _Tensor,
    key: _Tensor,
    value: _Tensor,
    attn_mask: _Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> _Tensor: ...
def selu(input: _Tensor, inplace: bool = False) -> _Tensor: ...
def selu_(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def sigmoid(input: _Any, *, out: _Any = None) -> _Tensor: ...
def silu(input: _Tensor, inplace: bool = False) -> _Tensor: ...
def smooth_l1_loss(
    input: _Tensor,
    target: _Tensor,
    size_average: _Any = None,
    reduce: _Any = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> _Tensor: ...
def soft_margin_loss(
    input: _Tensor, target: _Tensor, size_average: _Any = None, reduce: _Any = None, reduction: str = "mean"
) -> _Tensor: ...
def softmax(
    input: _Tensor, dim: int | None = None, *, dtype: _Any = None, axis: int | None = None, out: _Any = None
) -> _Tensor: ...
def softmin(
    input: _Tensor, dim: int | None = None, *, dtype: _Any = None, axis: int | None = None
) -> _Tensor: ...
def softplus(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def softshrink(input: _Tensor, lambd: float = 0.5) -> _Tensor: ...
def softsign(input: _Tensor) -> _Tensor: ...
def tanh(input: _Any, *, out: _Any = None) -> _Tensor: ...
def tanhshrink(input: _Tensor) -> _Tensor: ...
def threshold(input: _Tensor, *values: _Any, out: _Any = None, **given: _Any) -> _Tensor: ...
def threshold_(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def triplet_margin_loss(
    anchor: _Tensor,
    positive: _Tensor,
    negative: _Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-06,
    swap: bool = False,
    size_average: _Any = None,
    reduce: _Any = None,
    reduction: str = "mean",
) -> _Tensor: ...
def triplet_margin_with_distance_loss(
    anchor: _Tensor,
    positive: _Tensor,
    negative: _Tensor,
    *,
    distance_function: _Callable[[_Tensor, _Tensor], _Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> _Tensor: ...
def unfold(
    input: _Tensor, kernel_size: _Any, dilation: _Any = 1, padding: _Any = 0, stride: _Any = 1
) -> _Tensor: ...
def upsample(
    input: _Tensor,
    size: _Any = None,
    scale_factor: _Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> _Tensor: ...
def upsample_bilinear(input: _Tensor, size: _Any = None, scale_factor: _Any = None) -> _Tensor: ...
def upsample_nearest(input: _Tensor, size: _Any = None, scale_factor: _Any = None) -> _Tensor: ...
