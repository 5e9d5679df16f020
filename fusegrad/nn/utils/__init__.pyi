"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.eager.nn.utils.clip import (
    clip_grad_norm as clip_grad_norm,
    clip_grad_norm_ as clip_grad_norm_,
    clip_grad_value_ as clip_grad_value_,
    clip_grads_with_norm_ as clip_grads_with_norm_,
    get_total_norm as get_total_norm,
    parameters_to_vector as parameters_to_vector,
    vector_to_parameters as vector_to_parameters,
)
from fusegrad.eager.nn.utils.fusion import (
    fuse_conv_bn_eval as fuse_conv_bn_eval,
    fuse_conv_bn_weights as fuse_conv_bn_weights,
    fuse_linear_bn_eval as fuse_linear_bn_eval,
    fuse_linear_bn_weights as fuse_linear_bn_weights,
)
from fusegrad.eager.nn.utils.init import skip_init as skip_init
from fusegrad.eager.nn.utils.spectral_norm import (
    remove_spectral_norm as remove_spectral_norm,
    spectral_norm as spectral_norm,
)
from fusegrad.eager.nn.utils.weight_norm import (
    remove_weight_norm as remove_weight_norm,
    weight_norm as weight_norm,
)
from fusegrad.nn.utils import (
    fusion as fusion,
    init as init,
    parametrizations as parametrizations,
    parametrize as parametrize,
    prune as prune,
    rnn as rnn,
    stateless as stateless,
)
