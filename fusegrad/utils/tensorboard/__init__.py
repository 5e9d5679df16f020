"""What TensorBoard shows, as `torch.utils.tensorboard`."""

from fusegrad.eager.utils.tensorboard import *
from fusegrad.eager.utils.tensorboard import __all__ as _writers
from fusegrad.utils.tensorboard import writer as writer

__all__ = [*_writers, "writer"]
