"""fusegrad."""
from fusegrad.eager.tensor import Tensor
from fusegrad.eager.ops.creation import tensor, zeros, ones, arange, full
from fusegrad.eager.ops.elementwise import *
from fusegrad.eager.ops.contraction import matmul
from fusegrad.eager.autograd import grad
from fusegrad.eager.dtypes import float32, float64, int64
from fusegrad.eager.state import no_grad
