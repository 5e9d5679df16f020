"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.autograd import (
    function as function,
    functional as functional,
    grad_mode as grad_mode,
    graph as graph,
    profiler as profiler,
)
from fusegrad.eager.autograd.anomaly import (
    detect_anomaly as detect_anomaly,
    set_detect_anomaly as set_detect_anomaly,
)
from fusegrad.eager.autograd.autograd import backward as backward, grad as grad
from fusegrad.eager.autograd.engine import run_backward as run_backward
from fusegrad.eager.autograd.function import Function as Function
from fusegrad.eager.autograd.gradcheck import (
    GradcheckError as GradcheckError,
    gradcheck as gradcheck,
    gradgradcheck as gradgradcheck,
)
from fusegrad.eager.autograd.node import (
    Node as Node,
    filled as filled,
    place as place,
    record as record,
    share as share,
)
from fusegrad.eager.autograd.variable import Variable as Variable
from fusegrad.eager.core.state import (
    enable_grad as enable_grad,
    inference_mode as inference_mode,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)

FREED: str
