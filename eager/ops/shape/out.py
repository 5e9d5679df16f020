"""`out=`: a result written into a tensor that is there, for every function that takes it in PyTorch.

The functions that users call by name get it; methods, operators and the engine's own calls stay as they are.
What users get is made when they first ask for it (`eager/core/public.py`): of a declared op a function that
it was declared with, of any other one that calls it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from types import FunctionType
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure, type_name
from fusegrad.eager.core.families import Pointwise, is_dense, layout_of
from fusegrad.eager.core.op import REGISTRY
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.public import MAKERS
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.by_name import WRITERS
from fusegrad.eager.ops.forms import calling, named_like
from fusegrad.eager.ops.pointwise.declare_pointwise import FORMS
from fusegrad.eager.ops.shape.joining import check_once, written_out
from fusegrad.eager.ops.shape.slicing import once, repeating

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
        nonzero nonzero_static norm normal not_equal nuclear_norm ones orgqr ormqr outer permute_copy polar
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
    """abs addbmm addmm addmv alias_copy all amax amin any argmax argmin as_strided_copy baddbmm
    bitwise_not bmm ceil cholesky conj_physical det detach_copy diag diagonal_copy dot eigvalsh
    expand_copy fix float_power floor frac hardshrink heaviside histc ihfft inner inv inverse isin isneginf
    isposinf lerp log_softmax logcumsumexp lu_solve matmul matrix_norm mm msort multi_dot mv nan_to_num
    nanquantile narrow_copy neg negative nonzero norm nuclear_norm permute_copy quantile renorm round
    searchsorted select_copy sgn sign signbit slice_scatter softmax solve split_copy split_with_sizes_copy
    squeeze_copy svdvals t_copy take_along_dim tensordot transpose_copy tril triu trunc unbind_copy
    unfold_copy unsqueeze_copy vdot vecdot vector_norm view_copy where""".split()
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
        made.__signature__ = _with_out(inspect.signature(made))
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
    by_element = isinstance(REGISTRY.get(name), Pointwise) or name in _BY_ELEMENT
    if by_element or name in _READ_LATE:
        for one in out if isinstance(out, (tuple, list)) else (out,):
            if by_element and isinstance(one, Tensor) and name not in _FILLED:
                check_once(one)
            _check_apart(one, (*args, *named.values()), name in _APART)
    return written(function(*args, **named), out, name)


# Those that go through elements one by one, beside ops that are declared so: they look where `out` lies.
_BY_ELEMENT = frozenset(
    """addr angle clamp_max clamp_min complex conj_physical deg2rad diff float_power ger igamma igammac
    ihfft isneginf isposinf ldexp outer polar polygamma rad2deg sgn""".split()
)
# Those that look only whether it lies in an operand, and those to which no operand may lie there at all, as
# they write before they have read all.
_APART = frozenset("cross diff ger kron outer take_along_dim".split())
_READ_LATE = _APART | frozenset(
    """addbmm addmm addmv baddbmm chain_matmul cumprod cumsum logcumsumexp matrix_power msort normal
    renorm""".split()
)


def _check_apart(out: Any, operands: Sequence[Any], wholly: bool) -> None:
    """Refuse an `out` that lies where an operand lies, but not in just its places. wholly: even then."""
    for operand in operands:
        if isinstance(operand, (tuple, list)):
            _check_apart(out, operand, wholly)
        elif isinstance(operand, Tensor) and isinstance(out, Tensor) and _overlap(out, operand, wholly):
            raise failure(
                RuntimeError,
                "unsupported operation: some elements of the input tensor and the written-to tensor refer to "
                "single memory location. Please clone() the tensor before performing the operation.",
            )


def _overlap(out: Tensor, operand: Tensor, wholly: bool) -> bool:
    """As PyTorch has it: of tensors with gaps nothing is known, and they are taken to lie apart."""
    a, b = out.array, operand.array
    if not type(a) is type(b) is np.ndarray or not np.may_share_memory(a, b):
        return False
    if not (is_dense(*layout_of(a)[:2]) and is_dense(*layout_of(b)[:2])):
        return False
    return wholly or byte_bounds(a) != byte_bounds(b) or a.strides != b.strides


# What PyTorch says of an `out` of another dtype, where it is not what ops of one element each say.
_SAYS = dict.fromkeys(
    """abs addbmm addmm addmv addr amax amin argmax argmin baddbmm bmm cholesky cholesky_ex cummax cummin det
    eigh eigvalsh geqrf inv inv_ex inverse kthvalue ldl_factor lu lu_factor lu_solve matmul max min mm msort
    mv norm qr renorm select_copy slogdet solve solve_ex solve_triangular sort svd svdvals topk
    triangular_solve tril triu vector_norm matrix_norm""".split(),
    "Expected out tensor to have dtype {c}, but got {other_c} instead",
)
_SAYS |= dict.fromkeys(
    """cholesky_inverse cholesky_solve cond lstsq matrix_rank orgqr householder_product ormqr pinv tensorinv
    tensorsolve""".split(),
    "Expected result to be safely castable from {scalar} dtype, but got result with dtype {other}",
)
_SAYS |= dict.fromkeys(
    ("eig", "eigvals"),
    "Expected {part} to be safely castable from {scalar} dtype, but got {part} with dtype {other}",
)
_SAYS["nuclear_norm"] = "linalg.matrix_norm expected out tensor dtype {scalar} but got: {other}"
_SAYS["multi_dot"] = "expected out tensor to have dtype {scalar}, but got {other}"
_SAYS |= dict.fromkeys(("all", "any"), "{name} only supports bool tensor for result, got: {other}")
_SAYS |= dict.fromkeys(
    ("cummax", "cummin", "logcumsumexp"), "expected scalar_type {scalar} but found {other}"
)
_SAYS |= dict.fromkeys(
    ("complex", "polar"),
    "Expected object of scalar type {scalar} but got scalar type {other} for argument 'out'",
)
_SAYS["ihfft"] = "Found dtype {other} but expected {scalar}"
# C's words for dtypes.
_C = {"Float": "float", "Double": "double", "Int": "int", "Long": "long int", "Short": "short int"}
_C |= {"Char": "signed char", "Byte": "unsigned char", "Bool": "bool", "Half": "c10::Half"}
_C |= {"ComplexFloat": "c10::complex<float>", "ComplexDouble": "c10::complex<double>"}


def _check_dtype(dtype: dtypes.DType, out: dtypes.DType, name: str, part: str) -> None:
    """Refuse an `out` that cannot take a result, in PyTorch's words. part: which of several it is."""
    if dtype is out or (name in ("all", "any") and out is dtypes.uint8):  # which may write bytes, too
        return
    if name == "lerp" and not dtypes.can_cast(dtype, out):
        return  # which is said first, in the words for ops of one element each
    if name in _EXACT or (name in _SAYS and not dtypes.can_cast(dtype, out)):
        text = _SAYS.get(name, "Expected out tensor to have scalar type {scalar} but got scalar type {other}")
        scalar, other = dtype.scalar, out.scalar
        c, other_c = _C.get(scalar, scalar), _C.get(other, other)
        said = text.format(name=name, part=part, scalar=scalar, other=other, c=c, other_c=other_c)
        raise failure(RuntimeError, f"{name}: {said}")


# What PyTorch writes into an `out` that shows elements several times: what comes to one, joined; a number.
_JOINED, _FILLED = ("all", "amax", "amin", "any", "nansum", "prod", "sum"), ("full", "ones", "zeros")


def _repeated(result: Tensor, out: Tensor, name: str) -> Tensor:
    """`result` in an expanded `out`."""
    for dim in repeating(out.array):
        result = ops.narrow(result, dim, 0, 1) if name in _FILLED else getattr(ops, name)(result, dim, True)
    written_out(result, once(out), (), exact=False)
    return out


def written(result: Any, out: Any, name: str) -> Any:
    """`result` in `out`, of which there is one for each of several results."""
    several = isinstance(result, tuple)
    if several and name == "nonzero":
        raise failure(RuntimeError, "nonzero does not support the out kwarg when as_tuple is True")
    results, outs = (result, out) if several else ((result,), (out,))
    if not isinstance(outs, (tuple, list)) or not all(isinstance(o, Tensor) for o in outs):
        wanted = f"tuple of {len(results)} Tensors" if several else "Tensor"
        raise failure(TypeError, f"{name}(): argument 'out' must be {wanted}, not {type_name(out)}")
    if len(outs) != len(results):
        raise failure(TypeError, f"{name}(): expected {len(results)} tensors as out, got {len(outs)}")
    made = []
    parts = getattr(result, "_fields", ("eigenvalues",) * len(results))
    for one, target, part in zip(results, outs, parts, strict=True):
        _check_dtype(one.dtype, target.dtype, name, part)
        view = np.may_share_memory(one.array, target.array) and not one.needs_grad  # of an operand
        if name in _COUNTED and one.array.size == target.array.size:
            one = one.reshape(target.array.shape)
        one = one.clone() if view else one
        if one.array.shape == target.array.shape and name in (*_JOINED, *_FILLED) and repeating(target.array):
            made.append(_repeated(one, target, name))
            continue
        made.append(written_out(one, target, (), exact=False, telling=name not in _RESIZING))
    if not several:
        return made[0]
    return type(result)(*made) if hasattr(result, "_fields") else tuple(made)
