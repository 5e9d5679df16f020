"""Special functions under the names of `torch.special`."""

from fusegrad.eager.core.public import gather
from fusegrad.eager.ops.pointwise.elementwise import round
from fusegrad.eager.ops.pointwise.polynomials import (
    chebyshev_polynomial_t,
    chebyshev_polynomial_u,
    chebyshev_polynomial_v,
    chebyshev_polynomial_w,
    hermite_polynomial_h,
    hermite_polynomial_he,
    laguerre_polynomial_l,
    legendre_polynomial_p,
    shifted_chebyshev_polynomial_t,
    shifted_chebyshev_polynomial_u,
    shifted_chebyshev_polynomial_v,
    shifted_chebyshev_polynomial_w,
)
from fusegrad.eager.ops.pointwise.special import logit, xlog1py, xlogy
from fusegrad.eager.ops.pointwise.special_functions import (
    airy_ai,
    bessel_j0,
    bessel_j1,
    bessel_y0,
    bessel_y1,
    digamma,
    digamma as psi,
    entr,
    erfcx,
    i0,
    i0e,
    i1,
    i1e,
    igamma as gammainc,
    igammac as gammaincc,
    lgamma as gammaln,
    log_ndtr,
    modified_bessel_i0,
    modified_bessel_i1,
    modified_bessel_k0,
    modified_bessel_k1,
    mvlgamma as multigammaln,
    ndtr,
    ndtri,
    polygamma,
    scaled_modified_bessel_k0,
    scaled_modified_bessel_k1,
    spherical_bessel_j0,
    zeta,
)
from fusegrad.eager.ops.pointwise.transcendental import (
    erf,
    erfc,
    erfinv,
    exp2,
    expm1,
    log1p,
    sigmoid as expit,
    sinc,
)
from fusegrad.eager.ops.reduce.reduction import logsumexp
from fusegrad.eager.ops.reduce.softmax import log_softmax, softmax
from fusegrad.eager.ops.shape.out import give_forms as _give_forms

_give_forms("fusegrad.special", globals())
__all__ = gather("fusegrad.special", globals())
