"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from typing import Any as _Any

from fusegrad.eager.devices.parallel import DataParallel as DataParallel
from fusegrad.eager.distributed.sync_batch_norm import SyncBatchNorm as SyncBatchNorm
from fusegrad.eager.nn.activations import (
    Hardshrink as Hardshrink,
    PReLU as PReLU,
    ReLU6 as ReLU6,
    Softmax2d as Softmax2d,
    Softshrink as Softshrink,
)
from fusegrad.eager.nn.containers import (
    ModuleDict as ModuleDict,
    ModuleList as ModuleList,
    ParameterDict as ParameterDict,
    ParameterList as ParameterList,
    Sequential as Sequential,
)
from fusegrad.eager.nn.convolution import (
    Conv1d as Conv1d,
    Conv2d as Conv2d,
    Conv3d as Conv3d,
    ConvTranspose1d as ConvTranspose1d,
    ConvTranspose2d as ConvTranspose2d,
    ConvTranspose3d as ConvTranspose3d,
)
from fusegrad.eager.nn.declare_layer import Declared as _Declared
from fusegrad.eager.nn.dropout import (
    AlphaDropout as AlphaDropout,
    Dropout as Dropout,
    Dropout1d as Dropout1d,
    Dropout2d as Dropout2d,
    Dropout3d as Dropout3d,
    FeatureAlphaDropout as FeatureAlphaDropout,
)
from fusegrad.eager.nn.lazy_layers import (
    LazyLinear as LazyLinear,
    _LazyConv as _LazyConv,
    _LazyConvTranspose as _LazyConvTranspose,
    _LazyNormBase as _LazyNormBase,
)
from fusegrad.eager.nn.linear import (
    Bilinear as Bilinear,
    Embedding as Embedding,
    EmbeddingBag as EmbeddingBag,
    Flatten as Flatten,
    Identity as Identity,
    Linear as Linear,
    Unflatten as Unflatten,
)
from fusegrad.eager.nn.losses import (
    AdaptiveLogSoftmaxWithLoss as AdaptiveLogSoftmaxWithLoss,
    CosineSimilarity as CosineSimilarity,
    LinearCrossEntropyLoss as LinearCrossEntropyLoss,
    PairwiseDistance as PairwiseDistance,
    TripletMarginWithDistanceLoss as TripletMarginWithDistanceLoss,
)
from fusegrad.eager.nn.module import Module as Module
from fusegrad.eager.nn.normalization import (
    BatchNorm1d as BatchNorm1d,
    BatchNorm2d as BatchNorm2d,
    BatchNorm3d as BatchNorm3d,
    GroupNorm as GroupNorm,
    InstanceNorm1d as InstanceNorm1d,
    InstanceNorm2d as InstanceNorm2d,
    InstanceNorm3d as InstanceNorm3d,
    LayerNorm as LayerNorm,
    LocalResponseNorm as LocalResponseNorm,
    RMSNorm as RMSNorm,
)
from fusegrad.eager.nn.parameter import (
    Buffer as Buffer,
    Parameter as Parameter,
    UninitializedBuffer as UninitializedBuffer,
    UninitializedParameter as UninitializedParameter,
)
from fusegrad.eager.nn.pooling import (
    AdaptiveAvgPool1d as AdaptiveAvgPool1d,
    AdaptiveAvgPool2d as AdaptiveAvgPool2d,
    AdaptiveAvgPool3d as AdaptiveAvgPool3d,
    AdaptiveMaxPool1d as AdaptiveMaxPool1d,
    AdaptiveMaxPool2d as AdaptiveMaxPool2d,
    AdaptiveMaxPool3d as AdaptiveMaxPool3d,
    AvgPool1d as AvgPool1d,
    AvgPool2d as AvgPool2d,
    AvgPool3d as AvgPool3d,
    FractionalMaxPool2d as FractionalMaxPool2d,
    FractionalMaxPool3d as FractionalMaxPool3d,
    LPPool1d as LPPool1d,
    LPPool2d as LPPool2d,
    LPPool3d as LPPool3d,
    MaxPool1d as MaxPool1d,
    MaxPool2d as MaxPool2d,
    MaxPool3d as MaxPool3d,
    MaxUnpool1d as MaxUnpool1d,
    MaxUnpool2d as MaxUnpool2d,
    MaxUnpool3d as MaxUnpool3d,
)
from fusegrad.eager.nn.recurrent import (
    GRU as GRU,
    LSTM as LSTM,
    RNN as RNN,
    GRUCell as GRUCell,
    LSTMCell as LSTMCell,
    RNNBase as RNNBase,
    RNNCell as RNNCell,
    RNNCellBase as RNNCellBase,
)
from fusegrad.eager.nn.resampling import (
    ConstantPad1d as _ConstantPad1d,
    ConstantPad2d as _ConstantPad2d,
    ConstantPad3d as _ConstantPad3d,
    Upsample as Upsample,
    UpsamplingBilinear2d as UpsamplingBilinear2d,
    UpsamplingNearest2d as UpsamplingNearest2d,
    _CircularPadNd as _CircularPadNd,
    _ConstantPadNd as _ConstantPadNd,
    _ReflectionPadNd as _ReflectionPadNd,
    _ReplicationPadNd as _ReplicationPadNd,
)
from fusegrad.eager.nn.transformer import (
    MultiheadAttention as MultiheadAttention,
    Transformer as Transformer,
    TransformerDecoder as TransformerDecoder,
    TransformerDecoderLayer as TransformerDecoderLayer,
    TransformerEncoder as TransformerEncoder,
    TransformerEncoderLayer as TransformerEncoderLayer,
)
from fusegrad.nn import (
    attention as attention,
    functional as functional,
    grad as grad,
    init as init,
    modules as modules,
    parallel as parallel,
    parameter as parameter,
    utils as utils,
)

class BCELoss(_Declared):
    def __init__(
        self, weight: _Any = None, size_average: _Any = None, reduce: _Any = None, reduction: str = "mean"
    ) -> None: ...

class BCEWithLogitsLoss(_Declared):
    def __init__(
        self,
        weight: _Any = None,
        size_average: _Any = None,
        reduce: _Any = None,
        reduction: str = "mean",
        pos_weight: _Any = None,
    ) -> None: ...

class CELU(_Declared):
    def __init__(self, alpha: _Any = 1.0, inplace: bool = False) -> None: ...

class CTCLoss(_Declared):
    def __init__(self, blank: _Any = 0, reduction: str = "mean", zero_infinity: bool = False) -> None: ...

class ChannelShuffle(_Declared):
    def __init__(self, groups: _Any) -> None: ...

class CircularPad1d(_CircularPadNd):
    def __init__(self, padding: _Any) -> None: ...

class CircularPad2d(_CircularPadNd):
    def __init__(self, padding: _Any) -> None: ...

class CircularPad3d(_CircularPadNd):
    def __init__(self, padding: _Any) -> None: ...

class ConstantPad1d(_ConstantPadNd):
    def __init__(self, padding: _Any, value: _Any) -> None: ...

class ConstantPad2d(_ConstantPadNd):
    def __init__(self, padding: _Any, value: _Any) -> None: ...

class ConstantPad3d(_ConstantPadNd):
    def __init__(self, padding: _Any, value: _Any) -> None: ...

class CosineEmbeddingLoss(_Declared):
    def __init__(
        self, margin: _Any = 0.0, size_average: _Any = None, reduce: _Any = None, reduction: str = "mean"
    ) -> None: ...

class CrossEntropyLoss(_Declared):
    def __init__(
        self,
        weight: _Any = None,
        size_average: _Any = None,
        ignore_index: _Any = -100,
        reduce: _Any = None,
        reduction: str = "mean",
        label_smoothing: _Any = 0.0,
    ) -> None: ...

class ELU(_Declared):
    def __init__(self, alpha: _Any = 1.0, inplace: bool = False) -> None: ...

class Fold(_Declared):
    def __init__(
        self, output_size: _Any, kernel_size: _Any, dilation: _Any = 1, padding: _Any = 0, stride: _Any = 1
    ) -> None: ...

class GELU(_Declared):
    def __init__(self, approximate: str = "none") -> None: ...

class GLU(_Declared):
    def __init__(self, dim: _Any = -1) -> None: ...

class GaussianNLLLoss(_Declared):
    def __init__(self, *, full: bool = False, eps: _Any = 1e-06, reduction: str = "mean") -> None: ...

class Hardsigmoid(_Declared):
    def __init__(self, inplace: bool = False) -> None: ...

class Hardswish(_Declared):
    def __init__(self, inplace: bool = False) -> None: ...

class Hardtanh(_Declared):
    def __init__(self, min_val: _Any = -1.0, max_val: _Any = 1.0, inplace: bool = False) -> None: ...

class HingeEmbeddingLoss(_Declared):
    def __init__(
        self, margin: _Any = 1.0, size_average: _Any = None, reduce: _Any = None, reduction: str = "mean"
    ) -> None: ...

class HuberLoss(_Declared):
    def __init__(self, reduction: str = "mean", delta: _Any = 1.0) -> None: ...

class KLDivLoss(_Declared):
    def __init__(
        self,
        size_average: _Any = None,
        reduce: _Any = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None: ...

class L1Loss(_Declared):
    def __init__(self, size_average: _Any = None, reduce: _Any = None, reduction: str = "mean") -> None: ...

class LazyBatchNorm1d(_LazyNormBase):
    def __init__(
        self,
        eps: _Any = 1e-05,
        momentum: _Any = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: _Any = None,
        dtype: _Any = None,
        *,
        bias: bool = True,
    ) -> None: ...

class LazyBatchNorm2d(_LazyNormBase):
    def __init__(
        self,
        eps: _Any = 1e-05,
        momentum: _Any = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: _Any = None,
        dtype: _Any = None,
        *,
        bias: bool = True,
    ) -> None: ...

class LazyBatchNorm3d(_LazyNormBase):
    def __init__(
        self,
        eps: _Any = 1e-05,
        momentum: _Any = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: _Any = None,
        dtype: _Any = None,
        *,
        bias: bool = True,
    ) -> None: ...

class LazyConv1d(_LazyConv):
    def __init__(
        self,
        out_channels: _Any,
        kernel_size: _Any,
        stride: _Any = 1,
        padding: _Any = 0,
        dilation: _Any = 1,
        groups: _Any = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: _Any = None,
        dtype: _Any = None,
    ) -> None: ...

class LazyConv2d(_LazyConv):
    def __init__(
        self,
        out_channels: _Any,
        kernel_size: _Any,
        stride: _Any = 1,
        padding: _Any = 0,
        dilation: _Any = 1,
        groups: _Any = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: _Any = None,
        dtype: _Any = None,
    ) -> None: ...

class LazyConv3d(_LazyConv):
    def __init__(
        self,
        out_channels: _Any,
        kernel_size: _Any,
        stride: _Any = 1,
        padding: _Any = 0,
        dilation: _Any = 1,
        groups: _Any = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: _Any = None,
        dtype: _Any = None,
    ) -> None: ...

class LazyConvTranspose1d(_LazyConvTranspose):
    def __init__(
        self,
        out_channels: _Any,
        kernel_size: _Any,
        stride: _Any = 1,
        padding: _Any = 0,
        output_padding: _Any = 0,
        groups: _Any = 1,
        bias: bool = True,
        dilation: _Any = 1,
        padding_mode: str = "zeros",
        device: _Any = None,
        dtype: _Any = None,
    ) -> None: ...

class LazyConvTranspose2d(_LazyConvTranspose):
    def __init__(
        self,
        out_channels: _Any,
        kernel_size: _Any,
        stride: _Any = 1,
        padding: _Any = 0,
        output_padding: _Any = 0,
        groups: _Any = 1,
        bias: bool = True,
        dilation: _Any = 1,
        padding_mode: str = "zeros",
        device: _Any = None,
        dtype: _Any = None,
    ) -> None: ...

class LazyConvTranspose3d(_LazyConvTranspose):
    def __init__(
        self,
        out_channels: _Any,
        kernel_size: _Any,
        stride: _Any = 1,
        padding: _Any = 0,
        output_padding: _Any = 0,
        groups: _Any = 1,
        bias: bool = True,
        dilation: _Any = 1,
        padding_mode: str = "zeros",
        device: _Any = None,
        dtype: _Any = None,
    ) -> None: ...

class LazyInstanceNorm1d(_LazyNormBase):
    def __init__(
        self,
        eps: _Any = 1e-05,
        momentum: _Any = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: _Any = None,
        dtype: _Any = None,
        *,
        bias: bool = True,
    ) -> None: ...

class LazyInstanceNorm2d(_LazyNormBase):
    def __init__(
        self,
        eps: _Any = 1e-05,
        momentum: _Any = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: _Any = None,
        dtype: _Any = None,
        *,
        bias: bool = True,
    ) -> None: ...

class LazyInstanceNorm3d(_LazyNormBase):
    def __init__(
        self,
        eps: _Any = 1e-05,
        momentum: _Any = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: _Any = None,
        dtype: _Any = None,
        *,
        bias: bool = True,
    ) -> None: ...

class LeakyReLU(_Declared):
    def __init__(self, negative_slope: _Any = 0.01, inplace: bool = False) -> None: ...

class LogSigmoid(_Declared):
    def __init__(self) -> None: ...

class LogSoftmax(_Declared):
    def __init__(self, dim: _Any = None) -> None: ...

class MSELoss(_Declared):
    def __init__(self, size_average: _Any = None, reduce: _Any = None, reduction: str = "mean") -> None: ...

class MarginRankingLoss(_Declared):
    def __init__(
        self, margin: _Any = 0.0, size_average: _Any = None, reduce: _Any = None, reduction: str = "mean"
    ) -> None: ...

class Mish(_Declared):
    def __init__(self, inplace: bool = False) -> None: ...

class MultiLabelMarginLoss(_Declared):
    def __init__(self, size_average: _Any = None, reduce: _Any = None, reduction: str = "mean") -> None: ...

class MultiLabelSoftMarginLoss(_Declared):
    def __init__(
        self, weight: _Any = None, size_average: _Any = None, reduce: _Any = None, reduction: str = "mean"
    ) -> None: ...

class MultiMarginLoss(_Declared):
    def __init__(
        self,
        p: _Any = 1,
        margin: _Any = 1.0,
        weight: _Any = None,
        size_average: _Any = None,
        reduce: _Any = None,
        reduction: str = "mean",
    ) -> None: ...

class NLLLoss(_Declared):
    def __init__(
        self,
        weight: _Any = None,
        size_average: _Any = None,
        ignore_index: _Any = -100,
        reduce: _Any = None,
        reduction: str = "mean",
    ) -> None: ...

class PixelShuffle(_Declared):
    def __init__(self, upscale_factor: _Any) -> None: ...

class PixelUnshuffle(_Declared):
    def __init__(self, downscale_factor: _Any) -> None: ...

class PoissonNLLLoss(_Declared):
    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: _Any = None,
        eps: _Any = 1e-08,
        reduce: _Any = None,
        reduction: str = "mean",
    ) -> None: ...

class RReLU(_Declared):
    def __init__(
        self, lower: _Any = 0.125, upper: _Any = 0.3333333333333333, inplace: bool = False
    ) -> None: ...

class ReLU(_Declared):
    def __init__(self, inplace: bool = False) -> None: ...

class ReflectionPad1d(_ReflectionPadNd):
    def __init__(self, padding: _Any) -> None: ...

class ReflectionPad2d(_ReflectionPadNd):
    def __init__(self, padding: _Any) -> None: ...

class ReflectionPad3d(_ReflectionPadNd):
    def __init__(self, padding: _Any) -> None: ...

class ReplicationPad1d(_ReplicationPadNd):
    def __init__(self, padding: _Any) -> None: ...

class ReplicationPad2d(_ReplicationPadNd):
    def __init__(self, padding: _Any) -> None: ...

class ReplicationPad3d(_ReplicationPadNd):
    def __init__(self, padding: _Any) -> None: ...

class SELU(_Declared):
    def __init__(self, inplace: bool = False) -> None: ...

class SiLU(_Declared):
    def __init__(self, inplace: bool = False) -> None: ...

class Sigmoid(_Declared):
    def __init__(self) -> None: ...

class SmoothL1Loss(_Declared):
    def __init__(
        self, size_average: _Any = None, reduce: _Any = None, reduction: str = "mean", beta: _Any = 1.0
    ) -> None: ...

class SoftMarginLoss(_Declared):
    def __init__(self, size_average: _Any = None, reduce: _Any = None, reduction: str = "mean") -> None: ...

class Softmax(_Declared):
    def __init__(self, dim: _Any = None) -> None: ...

class Softmin(_Declared):
    def __init__(self, dim: _Any = None) -> None: ...

class Softplus(_Declared):
    def __init__(self, beta: _Any = 1.0, threshold: _Any = 20.0) -> None: ...

class Softsign(_Declared):
    def __init__(self) -> None: ...

class Tanh(_Declared):
    def __init__(self) -> None: ...

class Tanhshrink(_Declared):
    def __init__(self) -> None: ...

class Threshold(_Declared):
    def __init__(self, threshold: _Any, value: _Any, inplace: bool = False) -> None: ...

class TripletMarginLoss(_Declared):
    def __init__(
        self,
        margin: _Any = 1.0,
        p: _Any = 2.0,
        eps: _Any = 1e-06,
        swap: bool = False,
        size_average: _Any = None,
        reduce: _Any = None,
        reduction: str = "mean",
    ) -> None: ...

class Unfold(_Declared):
    def __init__(
        self, kernel_size: _Any, dilation: _Any = 1, padding: _Any = 0, stride: _Any = 1
    ) -> None: ...

class ZeroPad1d(_ConstantPad1d):
    def __init__(self, padding: _Any) -> None: ...

class ZeroPad2d(_ConstantPad2d):
    def __init__(self, padding: _Any) -> None: ...

class ZeroPad3d(_ConstantPad3d):
    def __init__(self, padding: _Any) -> None: ...
