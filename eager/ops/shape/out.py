"""`out=`: a result written into a tensor that is there, for every function that takes it in PyTorch.

The functions that users call by name get it; methods, operators and the engine's own calls stay as they are.
What users get is made when they first ask for it (`eager/core/public.py`): of a declared op a function that
it was declared with, of any other one that calls it.
"""

from __future__ import annotations

import functools
import inspect
from types import FunctionType
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure, type_name
from fusegrad.eager.core.public import MAKERS
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.by_name import WRITERS
from fusegrad.eager.ops.forms import calling, named_like
from fusegrad.eager.ops.pointwise.declare_pointwise import FORMS
from fusegrad.eager.ops.shape.joining import written_out

# Those of each public module, after PyTorch's signatures, but for those that have an `out` of their own. What
# `fusegrad.linalg` has takes it under each of its names.
_TAKING = {
    "fusegrad": """
        abs acos acosh add addbmm addcdiv addcmul addmm addmv addr alias_copy all amax amin aminmax
        angle any arange argmax argmin as_strided_copy asin asinh atan atan2 atanh baddbmm
        bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor bmm
        bucketize ceil chain_matmul cholesky cholesky_inverse cholesky_solve clamp clamp_max
        clamp_min clip column_stack complex conj_physical copysign cos cosh cross cummax cummin
        cumprod cumsum deg2rad det detach_copy diag diagonal_copy diff digamma div divide dot dstack
        empty eq erf erfc erfinv exp exp2 expand_copy expm1 eye fix float_power floor floor_divide
        fmax fmin fmod frac frexp full gcd ge geqrf ger greater greater_equal gt hardshrink
        heaviside histc histogram hstack hypot i0 igamma igammac index_add index_copy index_reduce
        inner inverse isin isneginf isposinf kron kthvalue lcm ldexp le lerp less less_equal lgamma
        linspace log log10 log1p log2 log_softmax logaddexp logaddexp2 logcumsumexp logical_and
        logical_not logical_or logical_xor logit logspace logsumexp lt lu_solve lu_unpack matmul
        matrix_power max maximum mean median min minimum mm mode msort mul multiply mv mvlgamma
        nan_to_num nanmean nanmedian nanquantile nansum narrow_copy ne neg negative nextafter
        nonzero nonzero_static norm normal not_equal ones orgqr ormqr outer permute_copy polar
        polygamma pow prod qr quantile rad2deg rand randint randn randperm range reciprocal
        remainder renorm round row_stack rsqrt scatter scatter_add scatter_reduce searchsorted
        select_copy sgn sigmoid sign signbit sin sinc sinh slice_scatter slogdet softmax sort
        split_copy split_with_sizes_copy sqrt square squeeze_copy std std_mean sub subtract sum svd
        t_copy take_along_dim tan tanh tensordot threshold topk transpose_copy triangular_solve tril
        triu trunc unbind_copy unfold_copy unsqueeze_copy var var_mean vdot view_copy vstack where
        xlogy zeros
    """,
    "fusegrad.fft": """
        fft fft2 fftfreq fftn hfft hfft2 hfftn ifft ifft2 ifftn ihfft ihfft2 ihfftn irfft irfft2 irfftn rfft
        rfft2 rfftfreq rfftn
    """,
    "fusegrad.linalg": """
        cholesky cholesky_ex cond cross det eig eigh eigvals eigvalsh householder_product inv inv_ex
        ldl_factor ldl_factor_ex ldl_solve lstsq lu lu_factor lu_factor_ex lu_solve matmul matrix_norm
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
    """abs alias_copy all amax amin any argmax argmin as_strided_copy ceil conj_physical detach_copy diag
    diagonal_copy expand_copy fix float_power floor frac hardshrink heaviside histc inner inverse
    isin isneginf isposinf log_softmax logcumsumexp matmul mm msort nan_to_num nanquantile neg
    negative nonzero permute_copy quantile round searchsorted select_copy sgn sign signbit
    slice_scatter softmax split_copy split_with_sizes_copy squeeze_copy t_copy tensordot
    transpose_copy tril triu trunc unbind_copy unfold_copy unsqueeze_copy view_copy""".split()
)

# Those that make so many numbers, and fill an `out` of so many in its own shape and order.
_COUNTED = frozenset("arange linspace logspace range".split())
# Those that give an `out` of another size theirs, and say nothing of it, as PyTorch's do.
_RESIZING = frozenset("empty eye full linspace logspace ones rand randint randn randperm range zeros".split())

_OUT = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None)


def give_forms(path: str, namespace: dict[str, Any]) -> None:
    """Have the functions of a public module made what users get, once they are asked for.

    Those that write into tensors take `out=`, and all say what they cannot take.
    """
    for name in _TAKING.get(path, "").split():
        WRITERS.setdefault(namespace[name], functools.partial(_writing, namespace[name]))
    for name, function in namespace.items():
        helper = getattr(function, "__module__", "").startswith("fusegrad.eager.core.")
        if isinstance(function, FunctionType) and not (helper or name.startswith("_")):
            MAKERS.setdefault(function, _form)


def _form(function: Any) -> FunctionType:
    """What users get in the place of a function."""
    made: Any = named_like(FORMS.get(function) or calling(function), function)
    if function in WRITERS:
        made.__signature__ = _with_out(inspect.signature(function))
    form: FunctionType = made
    return form


def _with_out(shown: inspect.Signature) -> inspect.Signature:
    """A signature with `out`."""
    parameters = [*shown.parameters.values()]
    last = next((i for i, p in enumerate(parameters) if p.kind is p.VAR_KEYWORD), len(parameters))
    return shown.replace(parameters=[*parameters[:last], _OUT, *parameters[last:]])


def _writing(function: Any, args: tuple[Any, ...], named: dict[str, Any], out: Any) -> Any:
    """What `function` gives, in `out`."""
    name, takes_dtype = function.__name__, "dtype" in inspect.signature(function).parameters
    if takes_dtype and name not in _EXACT and isinstance(out, Tensor):
        dtype = named.get("dtype")
        if dtype is not None and dtypes.as_dtype(dtype) is not out.dtype:
            asked = dtypes.as_dtype(dtype).name
            raise failure(
                RuntimeError, f"dtype {asked} does not match dtype of out parameter ({out.dtype.name})"
            )
        named = named | {"dtype": out.dtype}
    return written(function(*args, **named), out, name)


def _scalar(tensor: Any) -> str:
    """PyTorch's word for the dtype of a tensor: Float, Long, ..."""
    return tensor.type().removeprefix("torch.").removesuffix("Tensor")


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
