"""Helpers for training and for layers. Laid out as `torch.nn.utils`."""

from fusegrad.eager.core.public import gather
from fusegrad.eager.nn.utils.clip import (
    clip_grad_norm,
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
    parameters_to_vector,
    vector_to_parameters,
)
from fusegrad.eager.nn.utils.fusion import (
    fuse_conv_bn_eval,
    fuse_conv_bn_weights,
    fuse_linear_bn_eval,
    fuse_linear_bn_weights,
)
from fusegrad.eager.nn.utils.init import skip_init
from fusegrad.eager.nn.utils.spectral_norm import remove_spectral_norm, spectral_norm
from fusegrad.eager.nn.utils.weight_norm import remove_weight_norm, weight_norm

__all__ = gather("fusegrad.nn.utils", globals())
