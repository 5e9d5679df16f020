"""Complex numbers; samples take and give real ones."""

from __future__ import annotations

from op_samples.table import add, f

for _call in (
    lambda fg, x, y: fg.view_as_real(fg.complex(x, y)),
    lambda fg, x, y: fg.view_as_real(fg.polar(x, y)),
):
    add("complex_of", _call, f(3, 4, low=0.1), f(3, 4))
    add("complex_of", _call, f(3, 1, low=0.1), f(4))
add("view_as_real", lambda fg, x: fg.view_as_real(fg.complex(x, x * 2)), f(2, 3))
add("view_as_complex", lambda fg, x: fg.view_as_real(fg.view_as_complex(x) * 2), f(3, 2))
add("conj", lambda fg, x, y: fg.view_as_real(fg.complex(x, y).conj().resolve_conj()), f(3), f(3))
add("real", lambda fg, x, y: fg.complex(x, y).real * x, f(3), f(3))
add("imag", lambda fg, x, y: fg.complex(x, y).imag * x, f(3), f(3))
add("angle", lambda fg, x, y: fg.angle(fg.complex(x, y)), f(3, 4), f(3, 4))
add("angle", lambda fg, x: fg.angle(x), f(3, 4), second=False)
add("abs", lambda fg, x, y: fg.complex(x, y).abs(), f(3, 4), f(3, 4))
add("sgn", lambda fg, x, y: fg.view_as_real(fg.sgn(fg.complex(x, y))), f(3, 4), f(3, 4))
add("sign", lambda fg, x: fg.sgn(x), f(3, 4))
