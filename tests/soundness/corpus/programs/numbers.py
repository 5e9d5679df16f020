"""NumPy's arrays, and what arithmetic must not change."""

import math

import numpy as np

from corpus.registry import FUNC, JAX, MISC, PTI, REPRO, TRC, UNSP, case, category


category("numpy_interop")


@case("np_array_argument", "numpy array argument whose contents change", MISC + "test_numpy_recompilation_scalar")
def _(tt, S):
    g = tt.jit(lambda x, a: x * tt.tensor(a) + float(a.sum()))
    for v in [1.] * S.n + [2., 1.]:
        S.call(g, tt.tensor([1., 2.]), np.array([v, 3.], dtype=np.float32))


@case("np_array_as_branch", "branch on a numpy array value", MISC + "test_numpy_gt")
def _(tt, S):
    g = tt.jit(lambda x, a: x * 2 if (a > 0).all() else x * 3)
    for a in [[1, 2]] * S.n + [[1, -2], [0, 1], [1, 2]]:
        S.call(g, tt.tensor([1.]), np.array(a))


@case("np_same_array_mutated", "one numpy array, mutated in place by the caller", MISC + "test_numpy_as_global")
def _(tt, S):
    a = np.zeros(2, dtype=np.float32)
    g = tt.jit(lambda x, a: x + tt.tensor(a))
    for i in range(S.n + 3):
        a += i
        S.call(g, tt.tensor([1., 1.]), a)


@case("np_output_shares_memory", "returned .numpy() of an argument shares memory", MISC + "test_numpy_force", needs="numpy_share")
def _(tt, S):
    g = tt.jit(lambda x: (x.numpy(), x * 1))
    for _i in range(S.n + 1):
        x = tt.tensor([1., 2.])
        a, _y = S.call(g, x)
        a[0] = 44.
        S.obs("x", x)


@case("np_readonly_and_strided", "read-only, reversed, Fortran and 0-d numpy inputs", MISC + "test_numpy_readonly")
def _(tt, S):
    g = tt.jit(lambda x, a: x + tt.tensor(np.ascontiguousarray(a)))
    base = np.arange(6, dtype=np.float32)
    ro = base[:2].copy()
    ro.flags.writeable = False
    for a in [base[:2]] * S.n + [ro, base[::-1][:2], np.asfortranarray(base.reshape(2, 3))[:, 1], np.float32(3), base[:2]]:
        S.call(g, tt.tensor([1., 1.]), a)


@case("np_ufunc_on_scalar_items", "np functions on items, returned as Python floats", UNSP + "test_builtin_max_min")
def _(tt, S):
    g = tt.jit(lambda x: x * float(np.clip(x[0].item(), -1, 1)))
    S.runs(g, ([.5, 2.],), ([5., 2.],), ([-5., 2.],), grad=True)


category("numerics")


@case("num_nan_through_relu_max", "NaN propagates through relu, max, where", PTI + "143978")
def _(tt, S):
    g = tt.jit(lambda x: (tt.relu(x), x.max(), tt.where(x > 0, x, x * 0)))
    S.runs(g, ([1., -2.],), ([1., math.nan],), ([-math.inf, math.inf],))


@case("num_no_algebraic_folding", "x-x, x*0, x/x, x==x with inf and NaN must not be folded", PTI + "143978 (-ffast-math flags)")
def _(tt, S):
    g = tt.jit(lambda x: (x - x, x * 0, x / x, x == x, 0.0 * (x + 1)))
    S.runs(g, ([1., 2., 3.],), ([math.inf, math.nan, 0.],))


@case("num_signed_zero_add", "-0.0 + 0.0 is +0.0: x + 0 is not x", PTI + "189799")
def _(tt, S):
    g = tt.jit(lambda x: (1.0 / (x + 0.0), 1.0 / (x * 1.0), 1.0 / (-x), 1.0 / (0.0 - x)))
    S.runs(g, ([0., 1.],), ([-0., 2.],))


@case("num_sigmoid_tanh_extremes", "saturated sigmoid/tanh/exp, values and gradients", PTI + "150165")
def _(tt, S):
    g = tt.jit(lambda x: (tt.sigmoid(x), tt.tanh(x), tt.exp(x * .5)))
    S.runs(g, ([0., 1.],), ([100., -100.],), ([1000., -1000.],), ([math.inf, -math.inf],), grad=True)


@case("num_log_edge", "log of 0, negative, denormal", JAX + "test_jit_nan_times_zero")
def _(tt, S):
    g = tt.jit(lambda x: tt.log(x))
    S.runs(g, ([1., 2.],), ([0., -1.],), ([1e-40, 3e38],))


@case("num_div_zero", "division by zero of floats and the sign of infinity", JAX + "test_jit_nan_times_zero")
def _(tt, S):
    g = tt.jit(lambda a, b: a / b)
    S.runs(g, ([1., -1.], [2., 4.]), ([1., -1.], [0., 0.]), ([0., 0.], [0., -0.]), grad=True)


@case("num_pow_edge", "powers: 0**0, negative base, fractional exponent", PTI + "150114")
def _(tt, S):
    g = tt.jit(lambda x, p: x ** p)
    S.runs(g, ([1., 2.], 2), ([0., -2.], 3), ([0., 2.], 0), ([4., 2.], .5), ([-1., 2.], .5), ([0., 2.], -1))


@case("num_float_floor_mod", "float // and % with negative operands", REPRO + "test_negative_floor_div_solve")
def _(tt, S):
    g = tt.jit(lambda a, b: (a // b, a % b))
    S.runs(g, ([7., 8.], [2., 3.]), ([-7., 7.], [2., -2.]), ([-7.5, 7.5], [2., 2.]))


@case("num_int_overflow_wrap", "int64 / int32 arithmetic wraps", JAX + "test_integer_overflow")
def _(tt, S):
    g = tt.jit(lambda x: (x + 1, x * 2))
    for v, dt in [(5, tt.int64)] * S.n + [(2 ** 63 - 1, tt.int64), (2 ** 31 - 1, tt.int32), (-2 ** 31, tt.int32)]:
        S.call(g, tt.tensor([v], dtype=dt))


@case("num_bool_arithmetic", "bool + bool, bool * float, sum of bools", JAX + "test_sum_of_closed_over_bools")
def _(tt, S):
    def f(x):
        m = x > 1
        return m + m, m * 2.5, m.sum(), m * m
    S.runs(tt.jit(f), ([1., 2., 3.],), ([0., 0., 0.],))


@case("num_int_sum_mean", "sum of ints is int64; sum of float32 stays float32", TRC + "test_trace_casts")
def _(tt, S):
    g = tt.jit(lambda x: (x.sum(), x.sum(0), x.max()))
    for v in [[1, 2]] * S.n + [[2 ** 40, 1]]:
        S.call(g, tt.tensor(v))
    S.call(g, tt.tensor([1, 2], dtype=tt.int32))
    S.call(g, tt.tensor([True, True]))
    S.call(g, tt.tensor([1., 2.]))


@case("num_relu_grad_at_zero", "gradient of relu at 0 and of max with one maximum", "pytorch test/test_autograd.py (relu at zero)")
def _(tt, S):
    g = tt.jit(lambda x: (tt.relu(x), x.max()))
    S.runs(g, ([0., 1., -1.],), ([-0., -1., 2.],), grad=True)


@case("num_comparison_with_nan", "all six comparisons with NaN", MISC + "test_nan")
def _(tt, S):
    g = tt.jit(lambda a, b: (a < b, a <= b, a > b, a >= b, a == b, a != b))
    S.runs(g, ([1., 2.], [2., 1.]), ([math.nan, 1.], [1., math.nan]), ([math.inf, 0.], [math.inf, -0.]))


@case("num_scalar_first_ops", "reflected operators: 2 - x, 1 / x, 2 ** x", MISC + "test_dunder_methods")
def _(tt, S):
    g = tt.jit(lambda x, k: (k - x, k / x, k ** x))
    S.runs(g, ([1., 2.], 2), ([3., .5], 3.0), ([1., 2.], 2.0), grad=True)


@case("num_python_sum_start", "sum([...]) begins from int 0", FUNC + "test_map_sum")
def _(tt, S):
    g = tt.jit(lambda xs: sum(x * 2 for x in xs))
    for k in [2] * S.n + [3, 1]:
        S.vjp(g, [tt.tensor([float(i + 1)], requires_grad=True) for i in range(k)])
    S.call(g, [])


@case("num_int_division_types", "int / int tensor is float", FUNC + "test_dtype")
def _(tt, S):
    g = tt.jit(lambda a, b: (a / b, a * 1.0, a ** 2))
    S.runs(g, ([1, 2], [2, 4]), ([7, 8], [2, 3]))
