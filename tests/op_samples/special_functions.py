"""Special functions."""

from __future__ import annotations

from typing import Any

from op_samples.table import add, f


def special(names: str, *inputs: Any, **options: Any) -> None:
    """Samples of functions of `torch.special`, whose ops bear that name too."""
    for name in names.split():
        add(
            f"special_{name}",
            lambda fg, *tensors, name=name: getattr(fg.special, name)(*tensors),
            *inputs,
            **options,
        )


special("i0e i1 i1e ndtr log_ndtr", f(3, 4, low=0.2))
special("i0e i1 i1e ndtr log_ndtr erfcx", f(3, 4))
special("entr", f(3, 4, low=0.2))
special("ndtri", f(3, 4, low=0.1, high=0.9))
special("xlog1py", f(3, 4), f(4, low=-0.5))
special("zeta", f(3, 4, low=1.5, high=3.0), f(4, low=0.5), gradients=False)
special(
    "bessel_j0 bessel_j1 modified_bessel_i0 modified_bessel_i1 spherical_bessel_j0 airy_ai",
    f(3, 4),
    gradients=False,
)
special(
    "bessel_y0 bessel_y1 modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 "
    "scaled_modified_bessel_k1",
    f(3, 4, low=0.2),
    gradients=False,
)
_DEGREES = f(4, low=-1.0, high=6.0)
special("hermite_polynomial_h hermite_polynomial_he", f(3, 1), _DEGREES, gradients=False)
special("laguerre_polynomial_l legendre_polynomial_p", f(3, 1), _DEGREES, gradients=False)
for _kind in "tuvw":
    for _prefix in ("", "shifted_"):
        special(f"{_prefix}chebyshev_polynomial_{_kind}", f(3, 1), _DEGREES, gradients=False)
add("special_zeta", lambda fg, q: fg.special.zeta(2.5, q), f(4, low=0.5))
add("i0", lambda fg, x: fg.i0(x), f(3, 4))
for _order in (1, 2, 3):
    add(
        "polygamma",
        lambda fg, x, n=_order: fg.polygamma(n, x),
        f(3, 4, low=0.4, high=3.0),
        single=_order == 1,
    )
for _name in ("igamma", "igammac"):
    add(_name, lambda fg, x, name=_name: getattr(fg, name)(fg.ones_like(x) * 1.5, x), f(3, 4, low=0.3))
add("lgamma", lambda fg, x: fg.mvlgamma(x, 3), f(3, 4, low=1.5, high=4.0))
