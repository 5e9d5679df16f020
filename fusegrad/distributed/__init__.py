"""Several processes that compute together, as `torch.distributed`: one, or as many as MPI has."""

from fusegrad.distributed import fsdp as fsdp, nn as nn, rpc as rpc
from fusegrad.eager.distributed.collectives import *
from fusegrad.eager.distributed.collectives import __all__ as _collectives
from fusegrad.eager.distributed.messages import *
from fusegrad.eager.distributed.messages import __all__ as _messages
from fusegrad.eager.distributed.objects import *
from fusegrad.eager.distributed.objects import __all__ as _objects
from fusegrad.eager.distributed.world import *
from fusegrad.eager.distributed.world import __all__ as _world

__all__ = [*_collectives, *_messages, *_objects, *_world, "fsdp", "nn", "rpc"]
