"""`out=`: a result written into a tensor that is there, for every function that takes it in PyTorch.

The functions that users call by name get it; methods, operators and the engine's own calls stay as they are.
What users get of the others is made when they first ask for it (`eager/core/public.py`): of a declared op a
function that it was declared with, of any other one that calls it.
"""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure, type_name
from fusegrad.eager.core.names import PUBLIC, internal
from fusegrad.eager.core.public import MAKERS
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.forms import calling, named_like, refusing, with_parameters
from fusegrad.eager.ops.pointwise.declare_pointwise import WRITING
from fusegrad.eager.ops.shape.joining import written_out

# Those of each public module, after PyTorch's signatures, but for those that have an `out` of their own. What
# `fusegrad.linalg` has takes it under each of its names.
_TAKING = {
    "fusegrad": """
        abs acos acosh add addbmm addcdiv addcmul addmm addmv addr all amax amin aminmax angle any arange
        asin asinh atan atan2 atanh baddbmm bitwise_and bitwise_left_shift bitwise_not bitwise_or
        bitwise_right_shift bitwise_xor bmm bucketize ceil chain_matmul cholesky cholesky_inverse
        cholesky_solve clamp clip column_stack complex conj_physical copysign cos cosh cross cummax cummin
        cumprod cumsum deg2rad det diag diff digamma div divide dot dstack empty eq erf erfc erfinv exp exp2
        expm1 eye fix float_power floor floor_divide fmax fmin fmod frac frexp full gcd ge geqrf ger greater
        greater_equal gt histc histogram hstack hypot i0 igamma igammac inner inverse isneginf
        isposinf kron kthvalue lcm ldexp le lerp less less_equal lgamma linspace log log10 log1p log2
        logaddexp logaddexp2 logcumsumexp logical_and logical_not logical_or logical_xor logit logspace
        logsumexp lt lu_solve lu_unpack matmul matrix_power max maximum mean median min minimum mm mode
        msort mul multiply mv mvlgamma nan_to_num nanmean nanmedian nanquantile narrow_copy ne neg negative
        nextafter nonzero norm normal not_equal ones orgqr ormqr outer polar polygamma pow qr quantile
        rad2deg rand randint randn randperm range reciprocal remainder renorm round row_stack rsqrt
        searchsorted sgn sigmoid sign signbit sin sinc sinh slogdet sort sqrt square std std_mean sub
        subtract svd take_along_dim tan tanh topk triangular_solve tril triu trunc var var_mean vdot vstack
        where xlogy zeros
    """,
    "fusegrad.fft": """
        fft fft2 fftfreq fftn hfft hfft2 hfftn ifft ifft2 ifftn ihfft ihfft2 ihfftn irfft irfft2 irfftn rfft
        rfft2 rfftfreq rfftn
    """,
    "fusegrad.linalg": """
        cholesky cholesky_ex cond cross det eig eigh eigvals eigvalsh householder_product inv inv_ex
        ldl_factor ldl_factor_ex ldl_solve lu lu_factor lu_factor_ex lu_solve matmul matrix_norm
        matrix_power matrix_rank multi_dot norm pinv qr slogdet solve solve_ex solve_triangular svd svdvals
        tensorinv tensorsolve vecdot vector_norm
    """,
    "fusegrad.special": """
        airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 chebyshev_polynomial_t chebyshev_polynomial_u
        chebyshev_polynomial_v chebyshev_polynomial_w digamma entr erf erfc erfcx erfinv exp2 expit expm1
        gammainc gammaincc gammaln hermite_polynomial_h hermite_polynomial_he i0 i0e i1 i1e
        laguerre_polynomial_l legendre_polynomial_p log1p log_ndtr logit logsumexp modified_bessel_i0
        modified_bessel_i1 modified_bessel_k0 modified_bessel_k1 multigammaln ndtr ndtri polygamma psi round
        scaled_modified_bessel_k0 scaled_modified_bessel_k1 shifted_chebyshev_polynomial_t
        shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w sinc
        spherical_bessel_j0 xlog1py xlogy zeta
    """,
}

# Those of `fusegrad` whose result has its own dtype, and no other that it could be cast to.
_EXACT = frozenset(
    """abs all amax amin any ceil conj_physical diag fix float_power floor frac heaviside histc inner inverse
    isneginf isposinf logcumsumexp matmul mm msort nan_to_num nanquantile neg negative nonzero quantile round
    searchsorted sgn sign signbit tril triu trunc""".split()
)

# Those that make so many numbers, and fill an `out` of so many in its own shape and order.
_COUNTED = frozenset("arange linspace logspace range".split())
# Those that give an `out` of another size theirs, and say nothing of it, as PyTorch's do.
_RESIZING = frozenset("empty eye full linspace logspace ones rand randint randn randperm range zeros".split())

_OUT = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None)


def give_forms(path: str, namespace: dict[str, Any]) -> None:
    """Have the functions of a public module made what users get, once they are asked for.

    Those that write into tensors take `out=`, and all say what they cannot take. (What is declared by its
    operands does so by itself.)
    """
    own = {function for function in PUBLIC.values() if function in WRITING}
    for name in _TAKING.get(path, "").split():
        MAKERS[namespace[name]] = _taking
    for name, function in namespace.items():
        helper = getattr(function, "__module__", "").startswith("fusegrad.eager.core.")
        if isinstance(function, FunctionType) and not (helper or name.startswith("_") or function in own):
            MAKERS.setdefault(function, refusing)


def _taking(function: Any) -> FunctionType:
    """`function` with `out=`."""
    shown = inspect.signature(function)
    made: Any = named_like(WRITING.get(function) or _calling(function, "dtype" in shown.parameters), function)
    made.__signature__ = with_parameters(shown, [_OUT])
    form: FunctionType = made
    return form


def _calling(function: Any, typed: bool) -> FunctionType:
    """A function of the same parameters, and `out`, that calls `function`; typed: that takes a `dtype`.

    if out is None: return function(n, m, dtype=dtype)
    dtype = dtype_for(out, dtype)
    return written(function(n, m, dtype=dtype), out, 'eye')
    """
    lines = ["if out is None: return {call}", "return written({call}, out, {name})"]
    shown = inspect.signature(function, follow_wrapped=False).parameters.values()
    if any(p.kind is p.VAR_POSITIONAL for p in shown):
        if typed:
            lines.insert(1, "kwargs['dtype'] = dtype_for(out, kwargs.get('dtype'))")
    elif any(p.name == "dtype" for p in shown):
        lines.insert(1, "dtype = dtype_for(out, dtype)")
    return calling(function, [_OUT], lines, {"written": written, "dtype_for": _dtype_for})


def _dtype_for(out: Any, dtype: Any) -> Any:
    """The dtype that a function is asked for whose result goes into `out`."""
    return out.dtype if dtype is None and isinstance(out, Tensor) else dtype


def _scalar(tensor: Any) -> str:
    """PyTorch's word for the dtype of a tensor: Float, Long, ..."""
    return tensor.type().removeprefix("torch.").removesuffix("Tensor")


@internal
def written(result: Any, out: Any, name: str) -> Any:
    """`result` in `out`, of which there is one for each of several results."""
    several = isinstance(result, tuple)
    results, outs = (result, out) if several else ((result,), (out,))
    if not isinstance(outs, (tuple, list)) or not all(isinstance(o, Tensor) for o in outs):
        wanted = f"tuple of {len(results)} Tensors" if several else "Tensor"
        raise failure(TypeError, f"{name}(): argument 'out' must be {wanted}, not {type_name(out)}")
    if len(outs) != len(results):
        raise failure(TypeError, f"{name}(): expected {len(results)} tensors as out, got {len(outs)}")
    exact, wide = name in _EXACT, name in ("all", "any")  # which may write bytes, too
    made = []
    for one, target in zip(results, outs, strict=True):
        if exact and one.dtype is not target.dtype and not (wide and target.dtype is dtypes.uint8):
            raise failure(
                RuntimeError,
                f"{name}: Expected out tensor to have scalar type {_scalar(one)} but got scalar type "
                f"{_scalar(target)}",
            )
        view = np.may_share_memory(one.array, target.array) and not one.needs_grad  # of an operand
        if name in _COUNTED and one.array.size == target.array.size:
            one = one.reshape(target.array.shape)
        one = one.clone() if view else one
        made.append(written_out(one, target, (), exact=False, telling=name not in _RESIZING))
    if not several:
        return made[0]
    return type(result)(*made) if hasattr(result, "_fields") else tuple(made)
