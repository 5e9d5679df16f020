"""What writes TensorBoard's files, as `torch.utils.tensorboard.writer`."""

from fusegrad.eager.utils.tensorboard import *
from fusegrad.eager.utils.tensorboard import __all__ as __all__
