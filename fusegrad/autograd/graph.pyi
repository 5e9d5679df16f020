"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.eager.autograd.edges import (
    GradientEdge as GradientEdge,
    get_gradient_edge as get_gradient_edge,
    increment_version as increment_version,
)
from fusegrad.eager.autograd.graph import (
    register_multi_grad_hook as register_multi_grad_hook,
    save_on_cpu as save_on_cpu,
    saved_tensors_hooks as saved_tensors_hooks,
)
from fusegrad.eager.autograd.node import Node as Node
