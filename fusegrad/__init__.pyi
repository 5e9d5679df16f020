"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from builtins import bool as _bool, float as _float, int as _int
from collections.abc import Callable as _Callable, Sequence as _Sequence
from typing import Any as _Any

from fusegrad import (
    accelerator as accelerator,
    amp as amp,
    autograd as autograd,
    backends as backends,
    cpu as cpu,
    cuda as cuda,
    distributions as distributions,
    fft as fft,
    func as func,
    linalg as linalg,
    masked as masked,
    mps as mps,
    multiprocessing as multiprocessing,
    nn as nn,
    onnx as onnx,
    optim as optim,
    profiler as profiler,
    random as random,
    sparse as sparse,
    special as special,
    testing as testing,
    utils as utils,
    version as version,
    xpu as xpu,
)
from fusegrad.compiler.compare.compare import compare as compare
from fusegrad.compiler.jit import jit as jit
from fusegrad.compiler.runtime.threads import (
    get_num_threads as get_num_threads,
    set_num_threads as set_num_threads,
)
from fusegrad.compiler.torch_names import compile as compile
from fusegrad.compiler.verify import JitError as JitError
from fusegrad.eager.autograd.anomaly import (
    is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled,
    is_anomaly_enabled as is_anomaly_enabled,
)
from fusegrad.eager.autograd.func import (
    hessian as hessian,
    jvp as jvp,
    value_and_grad as value_and_grad,
    vjp as vjp,
)
from fusegrad.eager.autograd.levels import Argnums as _Argnums
from fusegrad.eager.core.dtypes import (
    DType as _DType,
    _BFloat16 as _BFloat16,
    can_cast as can_cast,
    finfo as finfo,
    iinfo as iinfo,
    promote_types as promote_types,
    set_default_dtype as set_default_dtype,
)
from fusegrad.eager.core.large import (
    set_eager_kernels as set_eager_kernels,
    wait_for_eager_kernels as wait_for_eager_kernels,
)
from fusegrad.eager.core.memory_order import (
    layout as _layout,
    layout as layout,
    memory_format as _memory_format,
    memory_format as memory_format,
)
from fusegrad.eager.core.settings import (
    are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled,
    is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled,
    is_warn_always_enabled as is_warn_always_enabled,
    set_warn_always as set_warn_always,
    use_deterministic_algorithms as use_deterministic_algorithms,
)
from fusegrad.eager.core.state import (
    enable_grad as enable_grad,
    inference_mode as inference_mode,
    is_grad_enabled as is_grad_enabled,
    is_inference_mode_enabled as is_inference_mode_enabled,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)
from fusegrad.eager.core.tensor import Size as Size, Tensor as Tensor, Tensor as _Tensor, device as device
from fusegrad.eager.devices.amp import autocast as autocast, is_autocast_enabled as is_autocast_enabled
from fusegrad.eager.devices.cuda import OutOfMemoryError as OutOfMemoryError
from fusegrad.eager.io.interop import from_dlpack as from_dlpack
from fusegrad.eager.io.printing import set_printoptions as set_printoptions
from fusegrad.eager.io.serialization import load as load, save as save
from fusegrad.eager.io.storage import TypedStorage as TypedStorage, UntypedStorage as UntypedStorage
from fusegrad.eager.ops.create.creation import (
    as_tensor as as_tensor,
    asarray as asarray,
    from_numpy as from_numpy,
    frombuffer as frombuffer,
    full_like as full_like,
    is_tensor as is_tensor,
    numel as numel,
    scalar_tensor as scalar_tensor,
    tensor as tensor,
)
from fusegrad.eager.ops.create.legacy import (
    _Typed as _Typed,
    get_default_device as get_default_device,
    set_default_device as set_default_device,
    set_default_tensor_type as set_default_tensor_type,
    typename as typename,
)
from fusegrad.eager.ops.create.questions import (
    is_inference as is_inference,
    is_nonzero as is_nonzero,
    is_same_size as is_same_size,
    is_signed as is_signed,
)
from fusegrad.eager.ops.create.settings import (
    get_float32_matmul_precision as get_float32_matmul_precision,
    get_num_interop_threads as get_num_interop_threads,
    set_float32_matmul_precision as set_float32_matmul_precision,
    set_flush_denormal as set_flush_denormal,
    set_num_interop_threads as set_num_interop_threads,
)
from fusegrad.eager.ops.create.window_functions import (
    bartlett_window as bartlett_window,
    blackman_window as blackman_window,
    hamming_window as hamming_window,
    hann_window as hann_window,
    kaiser_window as kaiser_window,
)
from fusegrad.eager.ops.index.indexing import argwhere as argwhere
from fusegrad.eager.ops.index.lookup import (
    index_select as index_select,
    masked_select as masked_select,
    nonzero_static as nonzero_static,
    take as take,
    unravel_index as unravel_index,
)
from fusegrad.eager.ops.index.scatter import (
    gather as gather,
    index_reduce as index_reduce,
    scatter as scatter,
    scatter_add as scatter_add,
    scatter_reduce as scatter_reduce,
)
from fusegrad.eager.ops.index.writing import (
    fill as fill,
    index_add as index_add,
    index_copy as index_copy,
    index_fill as index_fill,
    index_put as index_put,
    masked_scatter as masked_scatter,
    put as put,
)
from fusegrad.eager.ops.linalg.einsum import einsum as einsum
from fusegrad.eager.ops.linalg.least_squares import pinverse as pinverse
from fusegrad.eager.ops.linalg.low_rank import pca_lowrank as pca_lowrank, svd_lowrank as svd_lowrank
from fusegrad.eager.ops.linalg.matrix_functions import matrix_exp as matrix_exp
from fusegrad.eager.ops.linalg.products import bilinear as bilinear, tensordot as tensordot
from fusegrad.eager.ops.linalg.solving import logdet as logdet
from fusegrad.eager.ops.linalg.sparse_tensor import sparse_coo_tensor as sparse_coo_tensor
from fusegrad.eager.ops.loss.as_torch_has import (
    affine_grid_generator as affine_grid_generator,
    alpha_dropout as alpha_dropout,
    alpha_dropout_ as alpha_dropout_,
    batch_norm as batch_norm,
    binary_cross_entropy_with_logits as binary_cross_entropy_with_logits,
    cosine_embedding_loss as cosine_embedding_loss,
    ctc_loss as ctc_loss,
    dropout as dropout,
    dropout_ as dropout_,
    embedding as embedding,
    feature_alpha_dropout as feature_alpha_dropout,
    feature_dropout as feature_dropout,
    group_norm as group_norm,
    hinge_embedding_loss as hinge_embedding_loss,
    instance_norm as instance_norm,
    kl_div as kl_div,
    layer_norm as layer_norm,
    margin_ranking_loss as margin_ranking_loss,
    poisson_nll_loss as poisson_nll_loss,
    rms_norm as rms_norm,
    triplet_margin_loss as triplet_margin_loss,
)
from fusegrad.eager.ops.loss.distance import (
    cosine_similarity as cosine_similarity,
    pairwise_distance as pairwise_distance,
)
from fusegrad.eager.ops.loss.pairwise import cdist as cdist, pdist as pdist
from fusegrad.eager.ops.nn.activation import prelu as prelu, rrelu as rrelu, selu as selu
from fusegrad.eager.ops.nn.grid import grid_sampler as grid_sampler
from fusegrad.eager.ops.nn.normalization import (
    native_batch_norm as native_batch_norm,
    native_group_norm as native_group_norm,
    native_layer_norm as native_layer_norm,
)
from fusegrad.eager.ops.nn.rearranging import (
    channel_shuffle as channel_shuffle,
    pixel_shuffle as pixel_shuffle,
    pixel_unshuffle as pixel_unshuffle,
)
from fusegrad.eager.ops.nn.recurrent import (
    gru_cell as gru_cell,
    lstm_cell as lstm_cell,
    rnn_relu_cell as rnn_relu_cell,
    rnn_tanh_cell as rnn_tanh_cell,
)
from fusegrad.eager.ops.nn.spectrogram import istft as istft, stft as stft
from fusegrad.eager.ops.pointwise.complex_numbers import (
    conj as conj,
    imag as imag,
    is_complex as is_complex,
    is_conj as is_conj,
    is_floating_point as is_floating_point,
    is_neg as is_neg,
    isreal as isreal,
    real as real,
    resolve_conj as resolve_conj,
    resolve_neg as resolve_neg,
    view_as_complex as view_as_complex,
    view_as_real as view_as_real,
)
from fusegrad.eager.ops.pointwise.elementwise import (
    clone as clone,
    positive as positive,
    result_type as result_type,
    rsub as rsub,
)
from fusegrad.eager.ops.pointwise.numbers import Frexp as _Frexp, heaviside as heaviside
from fusegrad.eager.ops.pointwise.special import (
    allclose as allclose,
    clamp_max as clamp_max,
    clamp_min as clamp_min,
    equal as equal,
    isclose as isclose,
    masked_fill as masked_fill,
)
from fusegrad.eager.ops.reduce.counting import histogramdd as histogramdd, isin as isin
from fusegrad.eager.ops.reduce.differences import (
    cumulative_trapezoid as cumulative_trapezoid,
    gradient as gradient,
    trapezoid as trapezoid,
)
from fusegrad.eager.ops.reduce.softmax import log_softmax as log_softmax, softmax as softmax
from fusegrad.eager.ops.shape.diagonals import (
    diag_embed as diag_embed,
    diagflat as diagflat,
    diagonal as diagonal,
    diagonal_scatter as diagonal_scatter,
    trace as trace,
    tril_indices as tril_indices,
    triu_indices as triu_indices,
    vander as vander,
)
from fusegrad.eager.ops.shape.joining import (
    block_diag as block_diag,
    broadcast_shapes as broadcast_shapes,
    broadcast_tensors as broadcast_tensors,
    cartesian_prod as cartesian_prod,
    cat as cat,
    combinations as combinations,
    meshgrid as meshgrid,
    repeat_interleave as repeat_interleave,
    stack as stack,
    tile as tile,
)
from fusegrad.eager.ops.shape.order import (
    adjoint as adjoint,
    flip as flip,
    fliplr as fliplr,
    flipud as flipud,
    movedim as movedim,
    permute as permute,
    roll as roll,
    rot90 as rot90,
    swapaxes as swapaxes,
    t as t,
    transpose as transpose,
)
from fusegrad.eager.ops.shape.padding import constant_pad_nd as constant_pad_nd
from fusegrad.eager.ops.shape.shape import (
    detach as detach,
    flatten as flatten,
    ravel as ravel,
    reshape as reshape,
    squeeze as squeeze,
    unflatten as unflatten,
    unsqueeze as unsqueeze,
)
from fusegrad.eager.ops.shape.slicing import (
    chunk as chunk,
    narrow as narrow,
    select as select,
    select_scatter as select_scatter,
    slice_scatter as slice_scatter,
    split as split,
    split_with_sizes as split_with_sizes,
    tensor_split as tensor_split,
    unbind as unbind,
    unsafe_chunk as unsafe_chunk,
    unsafe_split as unsafe_split,
    unsafe_split_with_sizes as unsafe_split_with_sizes,
)
from fusegrad.eager.ops.shape.strided import (
    as_strided as as_strided,
    as_strided_scatter as as_strided_scatter,
    empty_permuted as empty_permuted,
    empty_strided as empty_strided,
    resize_as_ as resize_as_,
)
from fusegrad.eager.random.generator import (
    Generator as Generator,
    Generator as _Generator,
    get_rng_state as get_rng_state,
    initial_seed as initial_seed,
    manual_seed as manual_seed,
    seed as seed,
    set_rng_state as set_rng_state,
)
from fusegrad.eager.random.random import (
    bernoulli as bernoulli,
    binomial as binomial,
    multinomial as multinomial,
    poisson as poisson,
    randint_like as randint_like,
)
from fusegrad.eager.utils.control_flow import cond as cond, scan as scan, while_loop as while_loop
from fusegrad.tracer.export.api import export as export

__version__: str

class BFloat16Tensor(_Typed): ...
class BoolTensor(_Typed): ...
class ByteTensor(_Typed): ...
class CharTensor(_Typed): ...
class DoubleTensor(_Typed): ...
class FloatTensor(_Typed): ...
class HalfTensor(_Typed): ...
class IntTensor(_Typed): ...
class LongTensor(_Typed): ...
class ShortTensor(_Typed): ...

def abs(input: _Any, *, out: _Any = None) -> _Tensor: ...
def abs_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def absolute(input: _Any, *, out: _Any = None) -> _Tensor: ...
def acos(input: _Any, *, out: _Any = None) -> _Tensor: ...
def acos_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def acosh(input: _Any, *, out: _Any = None) -> _Tensor: ...
def acosh_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def adaptive_avg_pool1d(input: _Tensor, output_size: _Any) -> _Tensor: ...
def adaptive_max_pool1d(input: _Tensor, output_size: _Any, return_indices: _bool = False) -> _Any: ...
def add(input: _Any, other: _Any, *, alpha: _Any = 1, out: _Any = None) -> _Tensor: ...
def addbmm(
    input: _Tensor, batch1: _Tensor, batch2: _Tensor, *, beta: _Any = 1, alpha: _Any = 1, out: _Any = None
) -> _Tensor: ...
def addcdiv(
    input: _Tensor, tensor1: _Tensor, tensor2: _Tensor, *, value: _Any = 1, out: _Any = None
) -> _Tensor: ...
def addcmul(
    input: _Tensor, tensor1: _Tensor, tensor2: _Tensor, *, value: _Any = 1, out: _Any = None
) -> _Tensor: ...
def addmm(
    input: _Tensor, mat1: _Tensor, mat2: _Tensor, *, beta: _Any = 1, alpha: _Any = 1, out: _Any = None
) -> _Tensor: ...
def addmv(
    input: _Tensor, mat: _Tensor, vec: _Tensor, *, beta: _Any = 1, alpha: _Any = 1, out: _Any = None
) -> _Tensor: ...
def addmv_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def addr(
    input: _Tensor, vec1: _Tensor, vec2: _Tensor, *, beta: _Any = 1, alpha: _Any = 1, out: _Any = None
) -> _Tensor: ...
def alias_copy(input: _Tensor, *args: _Any, **kwargs: _Any) -> _Any: ...
def all(input: _Tensor, dim: _Any = None, keepdim: _bool = False, *, out: _Any = None) -> _Tensor: ...
def amax(input: _Tensor, dim: _Any = (), keepdim: _bool = False, *, out: _Any = None) -> _Tensor: ...
def amin(input: _Tensor, dim: _Any = (), keepdim: _bool = False, *, out: _Any = None) -> _Tensor: ...
def aminmax(input: _Tensor, *, dim: _int | None = None, keepdim: _bool = False, out: _Any = None) -> _Any: ...
def angle(input: _Tensor, *, out: _Any = None) -> _Tensor: ...
def any(input: _Tensor, dim: _Any = None, keepdim: _bool = False, *, out: _Any = None) -> _Tensor: ...
def arange(
    start: _Any = 0,
    end: _Any = None,
    step: _Any = 1,
    *,
    dtype: _Any = None,
    requires_grad: _bool = False,
    device: _Any = None,
    layout: _Any = None,
    pin_memory: _bool = False,
    out: _Any = None,
) -> _Tensor: ...
def arccos(input: _Any, *, out: _Any = None) -> _Tensor: ...
def arccos_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def arccosh(input: _Any, *, out: _Any = None) -> _Tensor: ...
def arccosh_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def arcsin(input: _Any, *, out: _Any = None) -> _Tensor: ...
def arcsin_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def arcsinh(input: _Any, *, out: _Any = None) -> _Tensor: ...
def arcsinh_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def arctan(input: _Any, *, out: _Any = None) -> _Tensor: ...
def arctan2(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def arctan_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def arctanh(input: _Any, *, out: _Any = None) -> _Tensor: ...
def arctanh_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def argmax(
    input: _Tensor,
    dim: _int | None = None,
    keepdim: _bool = False,
    *,
    axis: _Any = ...,
    keepdims: _bool = ...,
) -> _Tensor: ...
def argmin(
    input: _Tensor,
    dim: _int | None = None,
    keepdim: _bool = False,
    *,
    axis: _Any = ...,
    keepdims: _bool = ...,
) -> _Tensor: ...
def argsort(
    input: _Tensor, dim: _int = -1, descending: _bool = False, *, stable: _bool = False, axis: _Any = ...
) -> _Tensor: ...
def as_strided_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def as_strided_copy(input: _Tensor, *args: _Any, **kwargs: _Any) -> _Any: ...
def asin(input: _Any, *, out: _Any = None) -> _Tensor: ...
def asin_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def asinh(input: _Any, *, out: _Any = None) -> _Tensor: ...
def asinh_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def atan(input: _Any, *, out: _Any = None) -> _Tensor: ...
def atan2(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def atan_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def atanh(input: _Any, *, out: _Any = None) -> _Tensor: ...
def atanh_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def atleast_1d(*tensors: _Any) -> _Any: ...
def atleast_2d(*tensors: _Any) -> _Any: ...
def atleast_3d(*tensors: _Any) -> _Any: ...
def avg_pool1d(
    input: _Tensor,
    kernel_size: _Any,
    stride: _Any = None,
    padding: _Any = 0,
    ceil_mode: _bool = False,
    count_include_pad: _bool = True,
) -> _Tensor: ...
def baddbmm(
    input: _Tensor, batch1: _Tensor, batch2: _Tensor, *, beta: _Any = 1, alpha: _Any = 1, out: _Any = None
) -> _Tensor: ...

bfloat16: _BFloat16

def bincount(input: _Tensor, weights: _Tensor | None = None, minlength: _int = 0) -> _Tensor: ...
def bitwise_and(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def bitwise_left_shift(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def bitwise_not(input: _Any, *, out: _Any = None) -> _Tensor: ...
def bitwise_or(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def bitwise_right_shift(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def bitwise_xor(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def bmm(input: _Tensor, mat2: _Tensor, *, out: _Any = None) -> _Tensor: ...

bool: _DType

def broadcast_to(input: _Tensor, *sizes: _Any, size: _Any = None) -> _Tensor: ...
def bucketize(
    input: _Any, boundaries: _Tensor, *, out_int32: _bool = False, right: _bool = False, out: _Any = None
) -> _Tensor: ...

cdouble: _DType

def ceil(input: _Any, *, out: _Any = None) -> _Tensor: ...
def ceil_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def celu(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def celu_(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...

cfloat: _DType

def chain_matmul(*matrices: _Tensor, out: _Any = None) -> _Tensor: ...

channels_last: _memory_format
channels_last_3d: _memory_format

def cholesky(input: _Tensor, upper: _bool = False, *, out: _Any = None) -> _Tensor: ...
def cholesky_inverse(L: _Tensor, upper: _bool = False, *, out: _Any = None) -> _Tensor: ...
def cholesky_solve(B: _Tensor, L: _Tensor, upper: _bool = False, *, out: _Any = None) -> _Tensor: ...
def clamp(input: _Tensor, min: _Any = None, max: _Any = None, *, out: _Any = None) -> _Tensor: ...
def clamp_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def clamp_max_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def clamp_min_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def clip(input: _Tensor, min: _Any = None, max: _Any = None, *, out: _Any = None) -> _Tensor: ...
def clip_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def column_stack(tensors: _Sequence[_Tensor], *, out: _Any = None) -> _Tensor: ...
def complex(real: _Tensor, imag: _Tensor, *, out: _Any = None) -> _Tensor: ...

complex128: _DType
complex64: _DType

def concat(tensors: _Sequence[_Tensor], dim: _int = 0, *, out: _Tensor | None = None) -> _Tensor: ...
def concatenate(tensors: _Sequence[_Tensor], dim: _int = 0, *, out: _Tensor | None = None) -> _Tensor: ...
def conj_physical(input: _Tensor, *, out: _Any = None) -> _Tensor: ...
def conj_physical_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...

contiguous_format: _memory_format

def conv1d(
    input: _Tensor,
    weight: _Tensor,
    bias: _Tensor | None = None,
    stride: _Any = 1,
    padding: _Any = 0,
    dilation: _Any = 1,
    groups: _int = 1,
) -> _Tensor: ...
def conv2d(
    input: _Tensor,
    weight: _Tensor,
    bias: _Tensor | None = None,
    stride: _Any = 1,
    padding: _Any = 0,
    dilation: _Any = 1,
    groups: _int = 1,
) -> _Tensor: ...
def conv3d(
    input: _Tensor,
    weight: _Tensor,
    bias: _Tensor | None = None,
    stride: _Any = 1,
    padding: _Any = 0,
    dilation: _Any = 1,
    groups: _int = 1,
) -> _Tensor: ...
def conv_transpose1d(
    input: _Tensor,
    weight: _Tensor,
    bias: _Tensor | None = None,
    stride: _Any = 1,
    padding: _Any = 0,
    output_padding: _Any = 0,
    groups: _int = 1,
    dilation: _Any = 1,
) -> _Tensor: ...
def conv_transpose2d(
    input: _Tensor,
    weight: _Tensor,
    bias: _Tensor | None = None,
    stride: _Any = 1,
    padding: _Any = 0,
    output_padding: _Any = 0,
    groups: _int = 1,
    dilation: _Any = 1,
) -> _Tensor: ...
def conv_transpose3d(
    input: _Tensor,
    weight: _Tensor,
    bias: _Tensor | None = None,
    stride: _Any = 1,
    padding: _Any = 0,
    output_padding: _Any = 0,
    groups: _int = 1,
    dilation: _Any = 1,
) -> _Tensor: ...
def copysign(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def corrcoef(input: _Tensor) -> _Tensor: ...
def cos(input: _Any, *, out: _Any = None) -> _Tensor: ...
def cos_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def cosh(input: _Any, *, out: _Any = None) -> _Tensor: ...
def cosh_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def count_nonzero(input: _Tensor, dim: _Any = None, *, axis: _Any = ...) -> _Tensor: ...
def cov(
    input: _Tensor, *, correction: _int = 1, fweights: _Tensor | None = None, aweights: _Tensor | None = None
) -> _Tensor: ...
def cross(input: _Tensor, other: _Tensor, dim: _int | None = None, *, out: _Any = None) -> _Tensor: ...
def cummax(input: _Tensor, dim: _int, *, out: _Any = None) -> _Any: ...
def cummin(input: _Tensor, dim: _int, *, out: _Any = None) -> _Any: ...
def cumprod(input: _Tensor, dim: _int, *, dtype: _Any = None, out: _Any = None) -> _Tensor: ...
def cumsum(input: _Tensor, dim: _int, *, dtype: _Any = None, out: _Any = None) -> _Tensor: ...

default_generator: _Generator

def deg2rad(input: _Tensor, *, out: _Any = None) -> _Tensor: ...
def deg2rad_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def det(A: _Tensor, *, out: _Any = None) -> _Tensor: ...
def detach_(self: _Tensor) -> _Tensor: ...
def detach_copy(input: _Tensor, *args: _Any, **kwargs: _Any) -> _Any: ...
def diag(input: _Tensor, diagonal: _int = 0, *, out: _Any = None) -> _Tensor: ...
def diagonal_copy(input: _Tensor, *args: _Any, **kwargs: _Any) -> _Any: ...
def diff(
    input: _Tensor,
    n: _int = 1,
    dim: _int = -1,
    prepend: _Tensor | None = None,
    append: _Tensor | None = None,
    *,
    out: _Any = None,
) -> _Tensor: ...
def digamma(input: _Any, *, out: _Any = None) -> _Tensor: ...
def dist(input: _Tensor, other: _Tensor, p: _float = 2) -> _Tensor: ...
def div(input: _Any, other: _Any, *, rounding_mode: str | None = None, out: _Any = None) -> _Tensor: ...
def divide(input: _Any, other: _Any, *, rounding_mode: str | None = None, out: _Any = None) -> _Tensor: ...
def dot(input: _Tensor, tensor: _Tensor, *, out: _Any = None) -> _Tensor: ...

double: _DType

def dsplit(
    input: _Tensor, indices_or_sections: _Any = None, *, indices: _Any = None, sections: _Any = None
) -> tuple[_Tensor, ...]: ...
def dstack(tensors: _Sequence[_Tensor], *, out: _Any = None) -> _Tensor: ...

dtype = _DType
e: _float

def empty(
    *sizes: _Any,
    size: _Any = None,
    dtype: _Any = None,
    requires_grad: _bool = False,
    device: _Any = None,
    layout: _Any = None,
    memory_format: _Any = None,
    pin_memory: _bool = False,
    out: _Any = None,
) -> _Tensor: ...
def empty_like(
    input: _Tensor,
    *,
    dtype: _Any = None,
    requires_grad: _bool = False,
    device: _Any = None,
    layout: _Any = None,
    memory_format: _Any = None,
    pin_memory: _bool = False,
) -> _Tensor: ...
def eq(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def erf(input: _Any, *, out: _Any = None) -> _Tensor: ...
def erf_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def erfc(input: _Any, *, out: _Any = None) -> _Tensor: ...
def erfc_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def erfinv(input: _Any, *, out: _Any = None) -> _Tensor: ...
def exp(input: _Any, *, out: _Any = None) -> _Tensor: ...
def exp2(input: _Any, *, out: _Any = None) -> _Tensor: ...
def exp2_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def exp_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def expand_copy(input: _Tensor, *args: _Any, **kwargs: _Any) -> _Any: ...
def expm1(input: _Any, *, out: _Any = None) -> _Tensor: ...
def expm1_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def eye(
    n: _int,
    m: _int | None = None,
    *,
    dtype: _Any = None,
    requires_grad: _bool = False,
    device: _Any = None,
    layout: _Any = None,
    out: _Any = None,
) -> _Tensor: ...
def fill_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def fix(input: _Any, *, out: _Any = None) -> _Tensor: ...
def fix_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...

float: _DType
float16: _DType
float32: _DType
float64: _DType

def float_power(input: _Any, exponent: _Any, *, out: _Any = None) -> _Tensor: ...
def floor(input: _Any, *, out: _Any = None) -> _Tensor: ...
def floor_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def floor_divide(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def fmax(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def fmin(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def fmod(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def frac(input: _Any, *, out: _Any = None) -> _Tensor: ...
def frac_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def frexp(input: _Tensor, *, out: _Any = None) -> _Frexp: ...
def full(
    size: _Any,
    fill_value: _Any,
    *,
    dtype: _Any = None,
    requires_grad: _bool = False,
    device: _Any = None,
    layout: _Any = None,
    pin_memory: _bool = False,
    out: _Any = None,
) -> _Tensor: ...
def gcd(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def gcd_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def ge(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def geqrf(input: _Tensor, *, out: _Any = None) -> _Any: ...
def ger(input: _Tensor, vec2: _Tensor, *, out: _Any = None) -> _Tensor: ...
def get_default_dtype() -> _DType: ...
def grad(outputs: _Any, inputs: _Any = 0, *args: _Any, **kwargs: _Any) -> _Any: ...
def greater(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def greater_equal(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def grid_sampler_2d(
    input: _Tensor, grid: _Tensor, interpolation_mode: _int, padding_mode: _int, align_corners: _bool
) -> _Tensor: ...
def grid_sampler_3d(
    input: _Tensor, grid: _Tensor, interpolation_mode: _int, padding_mode: _int, align_corners: _bool
) -> _Tensor: ...
def gt(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...

half: _DType

def hardshrink(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def histc(
    input: _Tensor, bins: _int = 100, min: _float = 0, max: _float = 0, *, out: _Any = None
) -> _Tensor: ...
def histogram(
    input: _Tensor,
    bins: _Any = 100,
    *,
    range: tuple[_float, _float] | None = None,
    weight: _Tensor | None = None,
    density: _bool = False,
    out: _Any = None,
) -> _Any: ...
def hsplit(
    input: _Tensor, indices_or_sections: _Any = None, *, indices: _Any = None, sections: _Any = None
) -> tuple[_Tensor, ...]: ...
def hstack(tensors: _Sequence[_Tensor], *, out: _Any = None) -> _Tensor: ...
def hypot(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def i0(input: _Any, *, out: _Any = None) -> _Tensor: ...
def i0_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def igamma(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def igammac(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def index_put_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...

inf: _float

def inner(input: _Tensor, other: _Tensor, *, out: _Any = None) -> _Tensor: ...

int: _DType
int16: _DType
int32: _DType
int64: _DType
int8: _DType

def inverse(input: _Tensor, *, out: _Any = None) -> _Tensor: ...
def isfinite(input: _Any) -> _Tensor: ...
def isinf(input: _Any) -> _Tensor: ...
def isnan(input: _Any) -> _Tensor: ...
def isneginf(input: _Tensor, *, out: _Any = None) -> _Tensor: ...
def isposinf(input: _Tensor, *, out: _Any = None) -> _Tensor: ...
def jacobian(
    function: _Callable[..., _Any],
    argnums: _Argnums = 0,
    *,
    has_aux: _bool = False,
    chunk_size: _int | None = None,
) -> _Callable[..., _Any]: ...
def kron(input: _Tensor, other: _Tensor, *, out: _Any = None) -> _Tensor: ...
def kthvalue(
    input: _Tensor, k: _int, dim: _int = -1, keepdim: _bool = False, *, out: _Any = None
) -> _Any: ...
def lcm(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def lcm_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def ldexp(input: _Tensor, other: _Tensor, *, out: _Any = None) -> _Tensor: ...
def ldexp_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def le(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def lerp(input: _Tensor, end: _Tensor, weight: _Any, *, out: _Any = None) -> _Tensor: ...
def less(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def less_equal(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def lgamma(input: _Any, *, out: _Any = None) -> _Tensor: ...
def linspace(
    start: _Any,
    end: _Any,
    steps: _int,
    *,
    dtype: _Any = None,
    requires_grad: _bool = False,
    device: _Any = None,
    layout: _Any = None,
    out: _Any = None,
) -> _Tensor: ...
def log(input: _Any, *, out: _Any = None) -> _Tensor: ...
def log10(input: _Any, *, out: _Any = None) -> _Tensor: ...
def log10_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def log1p(input: _Any, *, out: _Any = None) -> _Tensor: ...
def log1p_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def log2(input: _Any, *, out: _Any = None) -> _Tensor: ...
def log2_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def log_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def logaddexp(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def logaddexp2(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def logcumsumexp(input: _Tensor, dim: _int, *, out: _Any = None) -> _Tensor: ...
def logical_and(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def logical_not(input: _Any, *, out: _Any = None) -> _Tensor: ...
def logical_or(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def logical_xor(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def logit(input: _Tensor, eps: _float | None = None, *, out: _Any = None) -> _Tensor: ...
def logit_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def logspace(
    start: _Any,
    end: _Any,
    steps: _int,
    base: _float = 10.0,
    *,
    dtype: _Any = None,
    requires_grad: _bool = False,
    device: _Any = None,
    layout: _Any = None,
    out: _Any = None,
) -> _Tensor: ...
def logsumexp(input: _Tensor, dim: _Any, keepdim: _bool = False, *, out: _Any = None) -> _Tensor: ...

long: _DType

def lt(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def lu(A: _Tensor, pivot: _bool = True, get_infos: _bool = False) -> _Any: ...
def lu_solve(b: _Tensor, LU_data: _Tensor, LU_pivots: _Tensor, *, out: _Any = None) -> _Tensor: ...
def lu_unpack(
    LU_data: _Tensor,
    LU_pivots: _Tensor,
    unpack_data: _bool = True,
    unpack_pivots: _bool = True,
    *,
    out: _Any = None,
) -> _Any: ...
def matmul(input: _Tensor, other: _Tensor, *, out: _Any = None) -> _Tensor: ...
def matrix_power(input: _Tensor, n: _int, *, out: _Any = None) -> _Tensor: ...
def max(
    input: _Tensor, dim: _Any = None, keepdim: _bool = False, *, other: _Any = None, out: _Any = None
) -> _Any: ...
def max_pool1d(
    input: _Tensor,
    kernel_size: _Any,
    stride: _Any = None,
    padding: _Any = 0,
    dilation: _Any = 1,
    ceil_mode: _bool = False,
    return_indices: _bool = False,
) -> _Any: ...
def max_pool2d(
    input: _Tensor,
    kernel_size: _Any,
    stride: _Any = None,
    padding: _Any = 0,
    dilation: _Any = 1,
    ceil_mode: _bool = False,
    return_indices: _bool = False,
) -> _Any: ...
def max_pool3d(
    input: _Tensor,
    kernel_size: _Any,
    stride: _Any = None,
    padding: _Any = 0,
    dilation: _Any = 1,
    ceil_mode: _bool = False,
    return_indices: _bool = False,
) -> _Any: ...
def maximum(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def mean(
    input: _Tensor, dim: _Any = None, keepdim: _bool = False, *, dtype: _Any = None, out: _Any = None
) -> _Tensor: ...
def median(input: _Tensor, dim: _int | None = None, keepdim: _bool = False, *, out: _Any = None) -> _Any: ...
def min(
    input: _Tensor, dim: _Any = None, keepdim: _bool = False, *, other: _Any = None, out: _Any = None
) -> _Any: ...
def minimum(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def mm(input: _Tensor, mat2: _Tensor, *, out: _Any = None) -> _Tensor: ...
def mode(input: _Tensor, dim: _int = -1, keepdim: _bool = False, *, out: _Any = None) -> _Any: ...
def moveaxis(input: _Tensor, source: _Any, destination: _Any) -> _Tensor: ...
def msort(input: _Tensor, *, out: _Any = None) -> _Tensor: ...
def mul(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def multiply(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def mv(input: _Tensor, vec: _Tensor, *, out: _Any = None) -> _Tensor: ...
def mvlgamma(input: _Tensor, p: _int, *, out: _Any = None) -> _Tensor: ...

nan: _float

def nan_to_num(
    input: _Tensor,
    nan: _float = 0.0,
    posinf: _float | None = None,
    neginf: _float | None = None,
    *,
    out: _Any = None,
) -> _Tensor: ...
def nan_to_num_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def nanmean(
    input: _Tensor, dim: _Any = None, keepdim: _bool = False, *, dtype: _Any = None, out: _Any = None
) -> _Tensor: ...
def nanmedian(
    input: _Tensor, dim: _int | None = None, keepdim: _bool = False, *, out: _Any = None
) -> _Any: ...
def nanquantile(
    input: _Tensor,
    q: _Any,
    dim: _int | None = None,
    keepdim: _bool = False,
    *,
    interpolation: str = "linear",
    out: _Any = None,
) -> _Tensor: ...
def nansum(
    input: _Tensor,
    dim: _Any = None,
    keepdim: _bool = False,
    *,
    dtype: _Any = None,
    axis: _Any = ...,
    keepdims: _bool = ...,
) -> _Tensor: ...
def narrow_copy(input: _Tensor, *args: _Any, out: _Any = None, **kwargs: _Any) -> _Any: ...
def ne(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def neg(input: _Any, *, out: _Any = None) -> _Tensor: ...
def neg_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def negative(input: _Any, *, out: _Any = None) -> _Tensor: ...
def negative_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def nextafter(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def nonzero(input: _Tensor, *, as_tuple: _bool = False, out: _Any = None) -> _Any: ...
def norm(
    input: _Tensor,
    p: _Any = "fro",
    dim: _Any = None,
    keepdim: _bool = False,
    dtype: _Any = None,
    *,
    out: _Any = None,
) -> _Tensor: ...
def normal(
    mean: _Any = 0.0,
    std: _Any = 1.0,
    size: _Any = None,
    *,
    generator: _Generator | None = None,
    dtype: _Any = None,
    device: _Any = None,
    layout: _Any = None,
    requires_grad: _bool = False,
    out: _Any = None,
) -> _Tensor: ...
def not_equal(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def ones(
    *sizes: _Any,
    size: _Any = None,
    dtype: _Any = None,
    requires_grad: _bool = False,
    device: _Any = None,
    layout: _Any = None,
    memory_format: _Any = None,
    pin_memory: _bool = False,
    out: _Any = None,
) -> _Tensor: ...
def ones_like(
    input: _Tensor,
    *,
    dtype: _Any = None,
    requires_grad: _bool = False,
    device: _Any = None,
    layout: _Any = None,
    memory_format: _Any = None,
    pin_memory: _bool = False,
) -> _Tensor: ...
def orgqr(input: _Tensor, tau: _Tensor, *, out: _Any = None) -> _Tensor: ...
def ormqr(
    input: _Tensor,
    tau: _Tensor,
    other: _Tensor,
    left: _bool = True,
    transpose: _bool = False,
    *,
    out: _Any = None,
) -> _Tensor: ...
def outer(input: _Tensor, vec2: _Tensor, *, out: _Any = None) -> _Tensor: ...
def permute_copy(input: _Tensor, *args: _Any, **kwargs: _Any) -> _Any: ...

pi: _float

def polar(abs: _Tensor, angle: _Tensor, *, out: _Any = None) -> _Tensor: ...
def polygamma(n: _int, input: _Tensor, *, out: _Any = None) -> _Tensor: ...
def pow(input: _Any, exponent: _Any, *, out: _Any = None) -> _Tensor: ...

preserve_format: _memory_format

def prod(
    input: _Tensor,
    dim: _int | None = None,
    keepdim: _bool = False,
    *,
    dtype: _Any = None,
    axis: _Any = ...,
    keepdims: _bool = ...,
) -> _Tensor: ...
def qr(input: _Tensor, some: _bool = True, *, out: _Any = None) -> _Any: ...
def quantile(
    input: _Tensor,
    q: _Any,
    dim: _int | None = None,
    keepdim: _bool = False,
    *,
    interpolation: str = "linear",
    out: _Any = None,
) -> _Tensor: ...
def rad2deg(input: _Tensor, *, out: _Any = None) -> _Tensor: ...
def rad2deg_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def rand(
    *sizes: _Any,
    size: _Any = None,
    generator: _Generator | None = None,
    dtype: _Any = None,
    requires_grad: _bool = False,
    device: _Any = None,
    layout: _Any = None,
    memory_format: _Any = None,
    pin_memory: _bool = False,
    out: _Any = None,
) -> _Tensor: ...
def rand_like(
    input: _Tensor,
    *,
    generator: _Generator | None = None,
    dtype: _Any = None,
    requires_grad: _bool = False,
    device: _Any = None,
    layout: _Any = None,
    memory_format: _Any = None,
    pin_memory: _bool = False,
) -> _Tensor: ...
def randint(
    low: _Any = None,
    high: _Any = None,
    size: _Any = None,
    *,
    generator: _Generator | None = None,
    dtype: _Any = None,
    device: _Any = None,
    layout: _Any = None,
    requires_grad: _bool = False,
    out: _Any = None,
) -> _Tensor: ...
def randn(
    *sizes: _Any,
    size: _Any = None,
    generator: _Generator | None = None,
    dtype: _Any = None,
    requires_grad: _bool = False,
    device: _Any = None,
    layout: _Any = None,
    memory_format: _Any = None,
    pin_memory: _bool = False,
    out: _Any = None,
) -> _Tensor: ...
def randn_like(
    input: _Tensor,
    *,
    generator: _Generator | None = None,
    dtype: _Any = None,
    requires_grad: _bool = False,
    device: _Any = None,
    layout: _Any = None,
    memory_format: _Any = None,
    pin_memory: _bool = False,
) -> _Tensor: ...
def randperm(
    n: _int,
    *,
    generator: _Generator | None = None,
    dtype: _Any = None,
    device: _Any = None,
    layout: _Any = None,
    requires_grad: _bool = False,
    out: _Any = None,
) -> _Tensor: ...
def range(
    start: _Any = 0,
    end: _Any = None,
    step: _Any = 1,
    *,
    dtype: _Any = None,
    requires_grad: _bool = False,
    device: _Any = None,
    layout: _Any = None,
    out: _Any = None,
) -> _Tensor: ...
def reciprocal(input: _Any, *, out: _Any = None) -> _Tensor: ...
def reciprocal_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def relu(input: _Any) -> _Tensor: ...
def relu_(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def remainder(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def renorm(input: _Tensor, p: _float, dim: _int, maxnorm: _float, *, out: _Any = None) -> _Tensor: ...
def round(input: _Tensor, *, decimals: _int = 0, out: _Any = None) -> _Tensor: ...
def round_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def row_stack(tensors: _Sequence[_Tensor], *, out: _Any = None) -> _Tensor: ...
def rrelu_(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def rsqrt(input: _Any, *, out: _Any = None) -> _Tensor: ...
def rsqrt_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def searchsorted(
    sorted_sequence: _Tensor,
    input: _Any,
    *,
    out_int32: _bool = False,
    right: _bool = False,
    side: str | None = None,
    sorter: _Tensor | None = None,
    out: _Any = None,
) -> _Tensor: ...
def select_copy(input: _Tensor, *args: _Any, **kwargs: _Any) -> _Any: ...
def selu_(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def sgn(input: _Tensor, *, out: _Any = None) -> _Tensor: ...

short: _DType

def sigmoid(input: _Any, *, out: _Any = None) -> _Tensor: ...
def sigmoid_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def sign(input: _Any, *, out: _Any = None) -> _Tensor: ...
def signbit(input: _Tensor, *, out: _Any = None) -> _Tensor: ...
def sin(input: _Any, *, out: _Any = None) -> _Tensor: ...
def sin_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def sinc(input: _Any, *, out: _Any = None) -> _Tensor: ...
def sinc_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def sinh(input: _Any, *, out: _Any = None) -> _Tensor: ...
def sinh_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def slogdet(A: _Tensor, *, out: _Any = None) -> _Any: ...
def sort(
    input: _Tensor,
    dim: _int = -1,
    descending: _bool = False,
    *,
    stable: _bool | None = None,
    out: _Any = None,
) -> _Any: ...

sparse_coo: _layout

def split_copy(input: _Tensor, *args: _Any, **kwargs: _Any) -> _Any: ...
def split_with_sizes_copy(input: _Tensor, *args: _Any, **kwargs: _Any) -> _Any: ...
def spmm(input: _Tensor, mat2: _Tensor, *, out: _Any = None) -> _Tensor: ...
def sqrt(input: _Any, *, out: _Any = None) -> _Tensor: ...
def sqrt_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def square(input: _Any, *, out: _Any = None) -> _Tensor: ...
def square_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def squeeze_copy(input: _Tensor, *args: _Any, **kwargs: _Any) -> _Any: ...
def std(
    input: _Tensor,
    dim: _Any = None,
    unbiased: _bool = True,
    keepdim: _bool = False,
    *,
    correction: _float | None = None,
    out: _Any = None,
) -> _Tensor: ...
def std_mean(
    input: _Tensor,
    dim: _Any = None,
    unbiased: _bool = True,
    keepdim: _bool = False,
    *,
    correction: _float | None = None,
    out: _Any = None,
) -> tuple[_Tensor, _Tensor]: ...

strided: _layout

def sub(input: _Any, other: _Any, *, alpha: _Any = 1, out: _Any = None) -> _Tensor: ...
def subtract(input: _Any, other: _Any, *, alpha: _Any = 1, out: _Any = None) -> _Tensor: ...
def sum(
    input: _Tensor,
    dim: _Any = None,
    keepdim: _bool = False,
    *,
    dtype: _Any = None,
    axis: _Any = ...,
    keepdims: _bool = ...,
) -> _Tensor: ...
def svd(input: _Tensor, some: _bool = True, compute_uv: _bool = True, *, out: _Any = None) -> _Any: ...
def swapdims(input: _Tensor, dim0: _int, dim1: _int) -> _Tensor: ...
def t_copy(input: _Tensor, *args: _Any, **kwargs: _Any) -> _Any: ...
def take_along_dim(
    input: _Tensor, indices: _Tensor, dim: _int | None = None, *, out: _Any = None
) -> _Tensor: ...
def tan(input: _Any, *, out: _Any = None) -> _Tensor: ...
def tan_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def tanh(input: _Any, *, out: _Any = None) -> _Tensor: ...
def tanh_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def threshold(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def threshold_(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def topk(
    input: _Tensor, k: _int, dim: _int = -1, largest: _bool = True, sorted: _bool = True, *, out: _Any = None
) -> _Any: ...
def transpose_copy(input: _Tensor, *args: _Any, **kwargs: _Any) -> _Any: ...
def trapz(y: _Tensor, x: _Tensor | None = None, *, dx: _Any = None, dim: _int = -1) -> _Tensor: ...
def triangular_solve(
    b: _Tensor,
    A: _Tensor,
    upper: _bool = True,
    transpose: _bool = False,
    unitriangular: _bool = False,
    *,
    out: _Any = None,
) -> _Any: ...
def tril(input: _Tensor, diagonal: _int = 0, *, out: _Any = None) -> _Tensor: ...
def triu(input: _Tensor, diagonal: _int = 0, *, out: _Any = None) -> _Tensor: ...
def true_divide(
    input: _Any, other: _Any, *, rounding_mode: str | None = None, out: _Any = None
) -> _Tensor: ...
def trunc(input: _Any, *, out: _Any = None) -> _Tensor: ...
def trunc_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...

uint16: _DType
uint32: _DType
uint64: _DType
uint8: _DType

def unbind_copy(input: _Tensor, *args: _Any, **kwargs: _Any) -> _Any: ...
def unfold_copy(input: _Tensor, *args: _Any, **kwargs: _Any) -> _Any: ...
def unique(
    input: _Tensor,
    sorted: _bool = True,
    return_inverse: _bool = False,
    return_counts: _bool = False,
    dim: _int | None = None,
    *,
    axis: _Any = ...,
) -> _Any: ...
def unique_consecutive(
    input: _Tensor,
    return_inverse: _bool = False,
    return_counts: _bool = False,
    dim: _int | None = None,
    *,
    axis: _Any = ...,
) -> _Any: ...
def unsqueeze_copy(input: _Tensor, *args: _Any, **kwargs: _Any) -> _Any: ...
def var(
    input: _Tensor,
    dim: _Any = None,
    unbiased: _bool = True,
    keepdim: _bool = False,
    *,
    correction: _float | None = None,
    out: _Any = None,
) -> _Tensor: ...
def var_mean(
    input: _Tensor,
    dim: _Any = None,
    unbiased: _bool = True,
    keepdim: _bool = False,
    *,
    correction: _float | None = None,
    out: _Any = None,
) -> tuple[_Tensor, _Tensor]: ...
def vdot(input: _Tensor, other: _Tensor, *, out: _Any = None) -> _Tensor: ...
def view_copy(input: _Tensor, *args: _Any, **kwargs: _Any) -> _Any: ...
def vsplit(
    input: _Tensor, indices_or_sections: _Any = None, *, indices: _Any = None, sections: _Any = None
) -> tuple[_Tensor, ...]: ...
def vstack(tensors: _Sequence[_Tensor], *, out: _Any = None) -> _Tensor: ...
def where(condition: _Tensor, input: _Any = None, other: _Any = None, *, out: _Any = None) -> _Any: ...
def xlogy(input: _Any, other: _Any, *, out: _Any = None) -> _Tensor: ...
def xlogy_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def zero_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def zeros(
    *sizes: _Any,
    size: _Any = None,
    dtype: _Any = None,
    requires_grad: _bool = False,
    device: _Any = None,
    layout: _Any = None,
    memory_format: _Any = None,
    pin_memory: _bool = False,
    out: _Any = None,
) -> _Tensor: ...
def zeros_like(
    input: _Tensor,
    *,
    dtype: _Any = None,
    requires_grad: _bool = False,
    device: _Any = None,
    layout: _Any = None,
    memory_format: _Any = None,
    pin_memory: _bool = False,
) -> _Tensor: ...
