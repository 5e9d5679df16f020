"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from builtins import bool as _bool, float as _float, int as _int
from collections.abc import Callable as _Callable, Sequence as _Sequence
from typing import Any as _Any

from fusegrad import (
    autograd as autograd,
    fft as fft,
    func as func,
    linalg as linalg,
    masked as masked,
    nn as nn,
    optim as optim,
    random as random,
    special as special,
    utils as utils,
)
from fusegrad.compiler.compare.compare import compare as compare
from fusegrad.compiler.jit import jit as jit
from fusegrad.compiler.runtime.threads import (
    get_num_threads as get_num_threads,
    set_num_threads as set_num_threads,
)
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
from fusegrad.eager.core.determinism import (
    are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled,
    is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled,
    use_deterministic_algorithms as use_deterministic_algorithms,
)
from fusegrad.eager.core.dtypes import (
    DType as _DType,
    can_cast as can_cast,
    finfo as finfo,
    iinfo as iinfo,
    promote_types as promote_types,
    set_default_dtype as set_default_dtype,
)
from fusegrad.eager.core.state import (
    enable_grad as enable_grad,
    inference_mode as inference_mode,
    is_grad_enabled as is_grad_enabled,
    is_inference_mode_enabled as is_inference_mode_enabled,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)
from fusegrad.eager.core.tensor import (
    Size as Size,
    Tensor as Tensor,
    Tensor as _Tensor,
    device as device,
    layout as _layout,
    layout as layout,
)
from fusegrad.eager.io.interop import from_dlpack as from_dlpack
from fusegrad.eager.io.printing import set_printoptions as set_printoptions
from fusegrad.eager.io.serialization import load as load, save as save
from fusegrad.eager.io.storage import TypedStorage as TypedStorage, UntypedStorage as UntypedStorage
from fusegrad.eager.ops.create.creation import (
    arange as arange,
    as_tensor as as_tensor,
    asarray as asarray,
    eye as eye,
    from_numpy as from_numpy,
    frombuffer as frombuffer,
    full as full,
    full_like as full_like,
    is_tensor as is_tensor,
    linspace as linspace,
    logspace as logspace,
    numel as numel,
    range as range,
    scalar_tensor as scalar_tensor,
    tensor as tensor,
)
from fusegrad.eager.ops.create.questions import (
    is_inference as is_inference,
    is_nonzero as is_nonzero,
    is_same_size as is_same_size,
    is_signed as is_signed,
)
from fusegrad.eager.ops.index.indexing import argwhere as argwhere, nonzero as nonzero
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
    take_along_dim as take_along_dim,
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
from fusegrad.eager.ops.linalg.contraction import (
    addmm as addmm,
    bmm as bmm,
    dot as dot,
    matmul as matmul,
    mm as mm,
    mv as mv,
)
from fusegrad.eager.ops.linalg.einsum import einsum as einsum
from fusegrad.eager.ops.linalg.least_squares import pinverse as pinverse
from fusegrad.eager.ops.linalg.low_rank import pca_lowrank as pca_lowrank, svd_lowrank as svd_lowrank
from fusegrad.eager.ops.linalg.lu import lu_unpack as lu_unpack
from fusegrad.eager.ops.linalg.matrix_functions import (
    chain_matmul as chain_matmul,
    matrix_exp as matrix_exp,
    matrix_power as matrix_power,
)
from fusegrad.eager.ops.linalg.orthogonal import geqrf as geqrf, ormqr as ormqr
from fusegrad.eager.ops.linalg.products import (
    addbmm as addbmm,
    addmv as addmv,
    addr as addr,
    baddbmm as baddbmm,
    inner as inner,
    outer as outer,
    tensordot as tensordot,
    vdot as vdot,
)
from fusegrad.eager.ops.linalg.solving import (
    cholesky_inverse as cholesky_inverse,
    cholesky_solve as cholesky_solve,
    det as det,
    inverse as inverse,
    logdet as logdet,
    slogdet as slogdet,
    triangular_solve as triangular_solve,
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
from fusegrad.eager.ops.pointwise.comparison import where as where
from fusegrad.eager.ops.pointwise.complex_numbers import (
    angle as angle,
    complex as complex,
    conj as conj,
    conj_physical as conj_physical,
    imag as imag,
    is_complex as is_complex,
    is_conj as is_conj,
    is_floating_point as is_floating_point,
    is_neg as is_neg,
    isreal as isreal,
    polar as polar,
    real as real,
    resolve_conj as resolve_conj,
    resolve_neg as resolve_neg,
    sgn as sgn,
    view_as_complex as view_as_complex,
    view_as_real as view_as_real,
)
from fusegrad.eager.ops.pointwise.elementwise import (
    add as add,
    clone as clone,
    div as div,
    positive as positive,
    result_type as result_type,
    round as round,
    rsub as rsub,
    sub as sub,
)
from fusegrad.eager.ops.pointwise.numbers import (
    deg2rad as deg2rad,
    frexp as frexp,
    heaviside as heaviside,
    isneginf as isneginf,
    isposinf as isposinf,
    rad2deg as rad2deg,
)
from fusegrad.eager.ops.pointwise.powers import float_power as float_power, ldexp as ldexp, pow as pow
from fusegrad.eager.ops.pointwise.special import (
    addcdiv as addcdiv,
    addcmul as addcmul,
    allclose as allclose,
    clamp as clamp,
    clamp_max as clamp_max,
    clamp_min as clamp_min,
    equal as equal,
    isclose as isclose,
    lerp as lerp,
    logit as logit,
    masked_fill as masked_fill,
    nan_to_num as nan_to_num,
    signbit as signbit,
)
from fusegrad.eager.ops.pointwise.special_functions import mvlgamma as mvlgamma, polygamma as polygamma
from fusegrad.eager.ops.reduce.counting import (
    bucketize as bucketize,
    histogramdd as histogramdd,
    isin as isin,
    searchsorted as searchsorted,
)
from fusegrad.eager.ops.reduce.differences import (
    cumulative_trapezoid as cumulative_trapezoid,
    gradient as gradient,
    trapezoid as trapezoid,
)
from fusegrad.eager.ops.reduce.softmax import log_softmax as log_softmax, softmax as softmax
from fusegrad.eager.ops.shape.diagonals import (
    diag as diag,
    diag_embed as diag_embed,
    diagflat as diagflat,
    diagonal as diagonal,
    diagonal_scatter as diagonal_scatter,
    trace as trace,
    tril as tril,
    tril_indices as tril_indices,
    triu as triu,
    triu_indices as triu_indices,
    vander as vander,
)
from fusegrad.eager.ops.shape.joining import (
    block_diag as block_diag,
    broadcast_shapes as broadcast_shapes,
    broadcast_tensors as broadcast_tensors,
    cartesian_prod as cartesian_prod,
    cat as cat,
    column_stack as column_stack,
    combinations as combinations,
    dstack as dstack,
    hstack as hstack,
    kron as kron,
    meshgrid as meshgrid,
    repeat_interleave as repeat_interleave,
    stack as stack,
    tile as tile,
    vstack as vstack,
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
    normal as normal,
    poisson as poisson,
    randint as randint,
    randint_like as randint_like,
    randperm as randperm,
)
from fusegrad.tracer.export.api import export as export

__version__: str

def abs(input: _Any) -> _Tensor: ...
def abs_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def absolute(input: _Any) -> _Tensor: ...
def acos(input: _Any) -> _Tensor: ...
def acos_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def acosh(input: _Any) -> _Tensor: ...
def acosh_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def adaptive_avg_pool1d(input: _Tensor, output_size: _Any) -> _Tensor: ...
def adaptive_max_pool1d(input: _Tensor, output_size: _Any, return_indices: _bool = False) -> _Any: ...
def addmv_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def alias_copy(input: _Tensor, *args: _Any, **kwargs: _Any) -> _Any: ...
def all(
    input: _Tensor, dim: _Any = None, keepdim: _bool = False, *, axis: _Any = ..., keepdims: _bool = ...
) -> _Tensor: ...
def amax(
    input: _Tensor, dim: _Any = (), keepdim: _bool = False, *, axis: _Any = ..., keepdims: _bool = ...
) -> _Tensor: ...
def amin(
    input: _Tensor, dim: _Any = (), keepdim: _bool = False, *, axis: _Any = ..., keepdims: _bool = ...
) -> _Tensor: ...
def aminmax(
    input: _Tensor,
    *,
    dim: _int | None = None,
    keepdim: _bool = False,
    axis: _Any = ...,
    keepdims: _bool = ...,
) -> _Any: ...
def any(
    input: _Tensor, dim: _Any = None, keepdim: _bool = False, *, axis: _Any = ..., keepdims: _bool = ...
) -> _Tensor: ...
def arccos(input: _Any) -> _Tensor: ...
def arccos_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def arccosh(input: _Any) -> _Tensor: ...
def arccosh_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def arcsin(input: _Any) -> _Tensor: ...
def arcsin_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def arcsinh(input: _Any) -> _Tensor: ...
def arcsinh_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def arctan(input: _Any) -> _Tensor: ...
def arctan2(input: _Any, other: _Any) -> _Tensor: ...
def arctan_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def arctanh(input: _Any) -> _Tensor: ...
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
def asin(input: _Any) -> _Tensor: ...
def asin_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def asinh(input: _Any) -> _Tensor: ...
def asinh_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def atan(input: _Any) -> _Tensor: ...
def atan2(input: _Any, other: _Any) -> _Tensor: ...
def atan_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def atanh(input: _Any) -> _Tensor: ...
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
def bincount(input: _Tensor, weights: _Tensor | None = None, minlength: _int = 0) -> _Tensor: ...
def bitwise_and(input: _Any, other: _Any) -> _Tensor: ...
def bitwise_left_shift(input: _Any, other: _Any) -> _Tensor: ...
def bitwise_not(input: _Any) -> _Tensor: ...
def bitwise_or(input: _Any, other: _Any) -> _Tensor: ...
def bitwise_right_shift(input: _Any, other: _Any) -> _Tensor: ...
def bitwise_xor(input: _Any, other: _Any) -> _Tensor: ...

bool: _DType

def broadcast_to(input: _Tensor, *sizes: _Any, size: _Any = None) -> _Tensor: ...

cdouble: _DType

def ceil(input: _Any) -> _Tensor: ...
def ceil_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def celu(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def celu_(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...

cfloat: _DType

def cholesky(input: _Tensor, upper: _bool = False) -> _Tensor: ...
def clamp_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def clamp_max_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def clamp_min_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def clip(input: _Tensor, min: _Any = None, max: _Any = None) -> _Tensor: ...
def clip_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...

complex128: _DType
complex64: _DType

def concat(tensors: _Sequence[_Tensor], dim: _int = 0, *, out: _Tensor | None = None) -> _Tensor: ...
def concatenate(tensors: _Sequence[_Tensor], dim: _int = 0, *, out: _Tensor | None = None) -> _Tensor: ...
def conj_physical_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
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
def copysign(input: _Any, other: _Any) -> _Tensor: ...
def corrcoef(input: _Tensor) -> _Tensor: ...
def cos(input: _Any) -> _Tensor: ...
def cos_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def cosh(input: _Any) -> _Tensor: ...
def cosh_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def count_nonzero(input: _Tensor, dim: _Any = None, *, axis: _Any = ...) -> _Tensor: ...
def cov(
    input: _Tensor, *, correction: _int = 1, fweights: _Tensor | None = None, aweights: _Tensor | None = None
) -> _Tensor: ...
def cross(input: _Tensor, other: _Tensor, dim: _int | None = None) -> _Tensor: ...
def cummax(input: _Tensor, dim: _int, *, axis: _Any = ...) -> _Any: ...
def cummin(input: _Tensor, dim: _int, *, axis: _Any = ...) -> _Any: ...
def cumprod(input: _Tensor, dim: _int, *, dtype: _Any = None, axis: _Any = ...) -> _Tensor: ...
def cumsum(input: _Tensor, dim: _int, *, dtype: _Any = None, axis: _Any = ...) -> _Tensor: ...

default_generator: _Generator

def deg2rad_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def detach_(self: _Tensor) -> _Tensor: ...
def detach_copy(input: _Tensor, *args: _Any, **kwargs: _Any) -> _Any: ...
def diagonal_copy(input: _Tensor, *args: _Any, **kwargs: _Any) -> _Any: ...
def diff(
    input: _Tensor,
    n: _int = 1,
    dim: _int = -1,
    prepend: _Tensor | None = None,
    append: _Tensor | None = None,
    *,
    axis: _Any = ...,
) -> _Tensor: ...
def digamma(input: _Any) -> _Tensor: ...
def dist(input: _Tensor, other: _Tensor, p: _float = 2) -> _Tensor: ...
def divide(input: _Any, other: _Any, *, rounding_mode: str | None = None) -> _Tensor: ...

double: _DType

def dsplit(
    input: _Tensor, indices_or_sections: _Any = None, *, indices: _Any = None, sections: _Any = None
) -> tuple[_Tensor, ...]: ...

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
) -> _Tensor: ...
def empty_like(input: _Tensor, *, dtype: _Any = None, **options: _Any) -> _Tensor: ...
def eq(input: _Any, other: _Any) -> _Tensor: ...
def erf(input: _Any) -> _Tensor: ...
def erf_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def erfc(input: _Any) -> _Tensor: ...
def erfc_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def erfinv(input: _Any) -> _Tensor: ...
def exp(input: _Any) -> _Tensor: ...
def exp2(input: _Any) -> _Tensor: ...
def exp2_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def exp_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def expand_copy(input: _Tensor, *args: _Any, **kwargs: _Any) -> _Any: ...
def expm1(input: _Any) -> _Tensor: ...
def expm1_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def fill_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def fix(input: _Any) -> _Tensor: ...
def fix_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...

float: _DType
float16: _DType
float32: _DType
float64: _DType

def floor(input: _Any) -> _Tensor: ...
def floor_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def floor_divide(input: _Any, other: _Any) -> _Tensor: ...
def fmax(input: _Any, other: _Any) -> _Tensor: ...
def fmin(input: _Any, other: _Any) -> _Tensor: ...
def fmod(input: _Any, other: _Any) -> _Tensor: ...
def frac(input: _Any) -> _Tensor: ...
def frac_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def gcd(input: _Any, other: _Any) -> _Tensor: ...
def gcd_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def ge(input: _Any, other: _Any) -> _Tensor: ...
def ger(input: _Tensor, vec2: _Tensor) -> _Tensor: ...
def get_default_dtype() -> _DType: ...
def grad(outputs: _Any, inputs: _Any = 0, *args: _Any, **kwargs: _Any) -> _Any: ...
def greater(input: _Any, other: _Any) -> _Tensor: ...
def greater_equal(input: _Any, other: _Any) -> _Tensor: ...
def grid_sampler_2d(
    input: _Tensor, grid: _Tensor, interpolation_mode: _int, padding_mode: _int, align_corners: _bool
) -> _Tensor: ...
def grid_sampler_3d(
    input: _Tensor, grid: _Tensor, interpolation_mode: _int, padding_mode: _int, align_corners: _bool
) -> _Tensor: ...
def gt(input: _Any, other: _Any) -> _Tensor: ...

half: _DType

def hardshrink(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def histc(input: _Tensor, bins: _int = 100, min: _float = 0, max: _float = 0) -> _Tensor: ...
def histogram(
    input: _Tensor,
    bins: _Any,
    *,
    range: tuple[_float, _float] | None = None,
    weight: _Tensor | None = None,
    density: _bool = False,
) -> _Any: ...
def hsplit(
    input: _Tensor, indices_or_sections: _Any = None, *, indices: _Any = None, sections: _Any = None
) -> tuple[_Tensor, ...]: ...
def hypot(input: _Any, other: _Any) -> _Tensor: ...
def i0(input: _Any) -> _Tensor: ...
def i0_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def igamma(input: _Any, other: _Any) -> _Tensor: ...
def igammac(input: _Any, other: _Any) -> _Tensor: ...
def index_put_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...

inf: _float
int: _DType
int16: _DType
int32: _DType
int64: _DType
int8: _DType

def isfinite(input: _Any) -> _Tensor: ...
def isinf(input: _Any) -> _Tensor: ...
def isnan(input: _Any) -> _Tensor: ...
def jacobian(
    function: _Callable[..., _Any],
    argnums: _Argnums = 0,
    *,
    has_aux: _bool = False,
    chunk_size: _int | None = None,
) -> _Callable[..., _Any]: ...
def kthvalue(
    input: _Tensor,
    k: _int,
    dim: _int = -1,
    keepdim: _bool = False,
    *,
    axis: _Any = ...,
    keepdims: _bool = ...,
) -> _Any: ...
def lcm(input: _Any, other: _Any) -> _Tensor: ...
def lcm_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def ldexp_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def le(input: _Any, other: _Any) -> _Tensor: ...
def less(input: _Any, other: _Any) -> _Tensor: ...
def less_equal(input: _Any, other: _Any) -> _Tensor: ...
def lgamma(input: _Any) -> _Tensor: ...
def log(input: _Any) -> _Tensor: ...
def log10(input: _Any) -> _Tensor: ...
def log10_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def log1p(input: _Any) -> _Tensor: ...
def log1p_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def log2(input: _Any) -> _Tensor: ...
def log2_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def log_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def logaddexp(input: _Any, other: _Any) -> _Tensor: ...
def logaddexp2(input: _Any, other: _Any) -> _Tensor: ...
def logcumsumexp(input: _Tensor, dim: _int, *, axis: _Any = ...) -> _Tensor: ...
def logical_and(input: _Any, other: _Any) -> _Tensor: ...
def logical_not(input: _Any) -> _Tensor: ...
def logical_or(input: _Any, other: _Any) -> _Tensor: ...
def logical_xor(input: _Any, other: _Any) -> _Tensor: ...
def logit_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def logsumexp(
    input: _Tensor, dim: _Any, keepdim: _bool = False, *, axis: _Any = ..., keepdims: _bool = ...
) -> _Tensor: ...

long: _DType

def lt(input: _Any, other: _Any) -> _Tensor: ...
def lu(A: _Tensor, pivot: _bool = True, get_infos: _bool = False) -> _Any: ...
def lu_solve(b: _Tensor, LU_data: _Tensor, LU_pivots: _Tensor) -> _Tensor: ...
def max(
    input: _Tensor,
    dim: _Any = None,
    keepdim: _bool = False,
    *,
    other: _Any = None,
    axis: _Any = ...,
    keepdims: _bool = ...,
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
def maximum(input: _Any, other: _Any) -> _Tensor: ...
def mean(
    input: _Tensor,
    dim: _Any = None,
    keepdim: _bool = False,
    *,
    dtype: _Any = None,
    axis: _Any = ...,
    keepdims: _bool = ...,
) -> _Tensor: ...
def median(
    input: _Tensor,
    dim: _int | None = None,
    keepdim: _bool = False,
    *,
    axis: _Any = ...,
    keepdims: _bool = ...,
) -> _Any: ...
def min(
    input: _Tensor,
    dim: _Any = None,
    keepdim: _bool = False,
    *,
    other: _Any = None,
    axis: _Any = ...,
    keepdims: _bool = ...,
) -> _Any: ...
def minimum(input: _Any, other: _Any) -> _Tensor: ...
def mode(
    input: _Tensor, dim: _int = -1, keepdim: _bool = False, *, axis: _Any = ..., keepdims: _bool = ...
) -> _Any: ...
def moveaxis(input: _Tensor, source: _Any, destination: _Any) -> _Tensor: ...
def msort(input: _Tensor) -> _Tensor: ...
def mul(input: _Any, other: _Any) -> _Tensor: ...
def multiply(input: _Any, other: _Any) -> _Tensor: ...

nan: _float

def nan_to_num_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def nanmean(
    input: _Tensor,
    dim: _Any = None,
    keepdim: _bool = False,
    *,
    dtype: _Any = None,
    axis: _Any = ...,
    keepdims: _bool = ...,
) -> _Tensor: ...
def nanmedian(
    input: _Tensor,
    dim: _int | None = None,
    keepdim: _bool = False,
    *,
    axis: _Any = ...,
    keepdims: _bool = ...,
) -> _Any: ...
def nanquantile(
    input: _Tensor,
    q: _Any,
    dim: _int | None = None,
    keepdim: _bool = False,
    *,
    interpolation: str = "linear",
    axis: _Any = ...,
    keepdims: _bool = ...,
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
def narrow_copy(input: _Tensor, *args: _Any, **kwargs: _Any) -> _Any: ...
def ne(input: _Any, other: _Any) -> _Tensor: ...
def neg(input: _Any) -> _Tensor: ...
def neg_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def negative(input: _Any) -> _Tensor: ...
def negative_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def nextafter(input: _Any, other: _Any) -> _Tensor: ...
def norm(
    input: _Tensor,
    p: _Any = "fro",
    dim: _Any = None,
    keepdim: _bool = False,
    dtype: _Any = None,
    *,
    axis: _Any = ...,
    keepdims: _bool = ...,
) -> _Tensor: ...
def not_equal(input: _Any, other: _Any) -> _Tensor: ...
def ones(
    *sizes: _Any,
    size: _Any = None,
    dtype: _Any = None,
    requires_grad: _bool = False,
    device: _Any = None,
    layout: _Any = None,
    memory_format: _Any = None,
    pin_memory: _bool = False,
) -> _Tensor: ...
def ones_like(input: _Tensor, *, dtype: _Any = None, **options: _Any) -> _Tensor: ...
def orgqr(input: _Tensor, tau: _Tensor) -> _Tensor: ...
def permute_copy(input: _Tensor, *args: _Any, **kwargs: _Any) -> _Any: ...

pi: _float

def prod(
    input: _Tensor,
    dim: _int | None = None,
    keepdim: _bool = False,
    *,
    dtype: _Any = None,
    axis: _Any = ...,
    keepdims: _bool = ...,
) -> _Tensor: ...
def qr(input: _Tensor, some: _bool = True) -> _Any: ...
def quantile(
    input: _Tensor,
    q: _Any,
    dim: _int | None = None,
    keepdim: _bool = False,
    *,
    interpolation: str = "linear",
    axis: _Any = ...,
    keepdims: _bool = ...,
) -> _Tensor: ...
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
) -> _Tensor: ...
def rand_like(input: _Tensor, *, dtype: _Any = None, **options: _Any) -> _Tensor: ...
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
) -> _Tensor: ...
def randn_like(input: _Tensor, *, dtype: _Any = None, **options: _Any) -> _Tensor: ...
def reciprocal(input: _Any) -> _Tensor: ...
def reciprocal_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def relu(input: _Any) -> _Tensor: ...
def relu_(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def remainder(input: _Any, other: _Any) -> _Tensor: ...
def renorm(input: _Tensor, p: _float, dim: _int, maxnorm: _float, *, axis: _Any = ...) -> _Tensor: ...
def round_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def row_stack(tensors: _Sequence[_Tensor]) -> _Tensor: ...
def rrelu_(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def rsqrt(input: _Any) -> _Tensor: ...
def rsqrt_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def select_copy(input: _Tensor, *args: _Any, **kwargs: _Any) -> _Any: ...
def selu_(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...

short: _DType

def sigmoid(input: _Any) -> _Tensor: ...
def sigmoid_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def sign(input: _Any) -> _Tensor: ...
def sin(input: _Any) -> _Tensor: ...
def sin_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def sinc(input: _Any) -> _Tensor: ...
def sinc_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def sinh(input: _Any) -> _Tensor: ...
def sinh_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def sort(
    input: _Tensor,
    dim: _int = -1,
    descending: _bool = False,
    *,
    stable: _bool | None = None,
    axis: _Any = ...,
) -> _Any: ...
def split_copy(input: _Tensor, *args: _Any, **kwargs: _Any) -> _Any: ...
def split_with_sizes_copy(input: _Tensor, *args: _Any, **kwargs: _Any) -> _Any: ...
def sqrt(input: _Any) -> _Tensor: ...
def sqrt_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def square(input: _Any) -> _Tensor: ...
def square_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def squeeze_copy(input: _Tensor, *args: _Any, **kwargs: _Any) -> _Any: ...
def std(
    input: _Tensor,
    dim: _Any = None,
    unbiased: _bool = True,
    keepdim: _bool = False,
    *,
    correction: _float | None = None,
    axis: _Any = ...,
    keepdims: _bool = ...,
) -> _Tensor: ...
def std_mean(
    input: _Tensor,
    dim: _Any = None,
    unbiased: _bool = True,
    keepdim: _bool = False,
    *,
    correction: _float | None = None,
    axis: _Any = ...,
    keepdims: _bool = ...,
) -> tuple[_Tensor, _Tensor]: ...

strided: _layout

def subtract(input: _Any, other: _Any, *, alpha: _Any = 1) -> _Tensor: ...
def sum(
    input: _Tensor,
    dim: _Any = None,
    keepdim: _bool = False,
    *,
    dtype: _Any = None,
    axis: _Any = ...,
    keepdims: _bool = ...,
) -> _Tensor: ...
def svd(input: _Tensor, some: _bool = True, compute_uv: _bool = True) -> _Any: ...
def swapdims(input: _Tensor, dim0: _int, dim1: _int) -> _Tensor: ...
def t_copy(input: _Tensor, *args: _Any, **kwargs: _Any) -> _Any: ...
def tan(input: _Any) -> _Tensor: ...
def tan_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def tanh(input: _Any) -> _Tensor: ...
def tanh_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...
def threshold(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def threshold_(input: _Tensor, *values: _Any, **given: _Any) -> _Tensor: ...
def topk(
    input: _Tensor, k: _int, dim: _int = -1, largest: _bool = True, sorted: _bool = True, *, axis: _Any = ...
) -> _Any: ...
def transpose_copy(input: _Tensor, *args: _Any, **kwargs: _Any) -> _Any: ...
def trapz(y: _Tensor, x: _Tensor | None = None, *, dx: _Any = None, dim: _int = -1) -> _Tensor: ...
def true_divide(input: _Any, other: _Any, *, rounding_mode: str | None = None) -> _Tensor: ...
def trunc(input: _Any) -> _Tensor: ...
def trunc_(self: _Tensor, *args: _Any, **kwargs: _Any) -> _Tensor: ...

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
    axis: _Any = ...,
    keepdims: _bool = ...,
) -> _Tensor: ...
def var_mean(
    input: _Tensor,
    dim: _Any = None,
    unbiased: _bool = True,
    keepdim: _bool = False,
    *,
    correction: _float | None = None,
    axis: _Any = ...,
    keepdims: _bool = ...,
) -> tuple[_Tensor, _Tensor]: ...
def view_copy(input: _Tensor, *args: _Any, **kwargs: _Any) -> _Any: ...
def vsplit(
    input: _Tensor, indices_or_sections: _Any = None, *, indices: _Any = None, sections: _Any = None
) -> tuple[_Tensor, ...]: ...
def xlogy(input: _Any, other: _Any) -> _Tensor: ...
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
) -> _Tensor: ...
def zeros_like(input: _Tensor, *, dtype: _Any = None, **options: _Any) -> _Tensor: ...
