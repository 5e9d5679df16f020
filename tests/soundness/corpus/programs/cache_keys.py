"""Arguments that are alike and not the same."""

import enum
import math

import numpy as np

from corpus.registry import JAX, MISC, MODS, UNSP, case, category


category("cache_keys")


@case("key_int_float_bool", "1, 1.0 and True are equal and hash alike, results differ", JAX + "test_jit_static_argnums_requires_type_equality")
def _(tt, S):
    def f(x, k):
        return x * k, type(k).__name__, k
    g = tt.jit(f)
    for k in [1] * S.n + [1.0, True, 1, 0, 0.0, False, 1.0]:
        S.call(g, tt.tensor([2, 3]), k)


@case("key_negative_zero_scalar", "0.0 then -0.0 as Python argument", "https://github.com/pytorch/pytorch/pull/192604")
def _(tt, S):
    g = tt.jit(lambda x, k: x / (x * 0 + k))
    S.runs(g, ([1., 2.], 0.0), ([1., 2.], -0.0), ([1., 2.], 1.0))


@case("key_negative_zero_branch", "copysign-based branch on a signed zero argument", "https://github.com/pytorch/pytorch/pull/192604")
def _(tt, S):
    g = tt.jit(lambda x, k: x * 2 if math.copysign(1, k) > 0 else x * 3)
    S.runs(g, ([1.], 0.0), ([1.], -0.0), ([1.], 0))


@case("key_complex_nan", "complex argument with a NaN part", "https://github.com/pytorch/pytorch/pull/192604")
def _(tt, S):
    g = tt.jit(lambda x, c: x * c.real)
    S.runs(g, ([1.], complex(5., math.nan)), ([1.], complex(7., math.nan)), ([1.], complex(5., 1.)))


@case("key_nan_in_tuple", "tuple argument containing NaN", MISC + "test_nan")
def _(tt, S):
    g = tt.jit(lambda x, t: x + t[0] + t[1])
    S.runs(g, ([1.], (1., math.nan)), ([1.], (2., math.nan)), ([1.], (2., 3.)))


@case("key_huge_int", "ints beyond int32 / int64", JAX + "test_large_python_ints")
def _(tt, S):
    g = tt.jit(lambda x, k: x + k)
    S.runs(g, ([1, 2], 2 ** 40), ([1, 2], -2 ** 62), ([1, 2], 3))
    S.lib(g, tt.tensor([1, 2]), 2 ** 70)
    S.call(g, tt.tensor([1., 2.]), 2 ** 31)


@case("key_string", "string argument steers ops", MODS + "test_stringmember")
def _(tt, S):
    def f(x, mode):
        return {"relu": tt.relu, "tanh": tt.tanh}.get(mode, lambda y: y)(x) * len(mode)
    S.runs(tt.jit(f), ([1., -1.], "relu"), ([1., -1.], "tanh"), ([1., -1.], "none"), ([1., -1.], ""))


class _Color(enum.Enum):
    RED = 1
    BLUE = 2


class _Num(enum.IntEnum):
    ONE = 1
    TWO = 2


@case("key_intenum_vs_int", "IntEnum equals int but is not int", JAX + "test_jit_enum_as_dict_keys_fails")
def _(tt, S):
    def f(x, c):
        return x * int(c), isinstance(c, enum.Enum)
    S.runs(tt.jit(f), ([1.], 1), ([1.], _Num.ONE), ([1.], True), ([1.], _Num.TWO))


@case("key_none_false_zero", "None, False, 0, '' and () are all falsy, all different", MISC + "test_boolarg")
def _(tt, S):
    def f(x, k):
        if k is None:
            return x
        if k is False:
            return x + 1
        return x + 2 if isinstance(k, int) else x + 3
    S.runs(tt.jit(f), ([1.], None), ([1.], False), ([1.], 0), ([1.], ""), ([1.], ()))


@case("key_numpy_scalars", "np.float64 / np.int64 scalars vs Python numbers", UNSP + "test_no_recompilations")
def _(tt, S):
    g = tt.jit(lambda x, k: x * k)
    S.runs(g, ([1., 2.], 2), ([1., 2.], np.float64(2)), ([1., 2.], np.int64(3)), ([1., 2.], np.bool_(True)), ([1., 2.], 2.0))


@case("key_numpy_scalar_type_branch", "isinstance(k, np.generic) branch", MISC + "test_numpy_variable_isinstance")
def _(tt, S):
    g = tt.jit(lambda x, k: x + 1 if isinstance(k, np.generic) else x - 1)
    S.runs(g, ([1.], 2), ([1.], np.int64(2)), ([1.], 2.0), ([1.], np.float64(2.0)))


@case("key_always_equal_object", "argument class with __eq__ always True and constant hash", JAX + "test_static_args_equality")
def _(tt, S):
    class E:
        def __init__(self, v):
            self.v = v

        def __eq__(self, o):
            return True

        def __hash__(self):
            return 7
    g = tt.jit(lambda x, e: x * e.v)
    for v in [1] * S.n + [2, 3, 1]:
        S.call(g, tt.tensor([1.]), E(v))


@case("key_unhashable_argument", "unhashable dict/list/set arguments", JAX + "test_cpp_jit_raises_on_non_hashable_static_argnum")
def _(tt, S):
    def f(x, cfg):
        return x * cfg["k"] + len(cfg["l"])
    g = tt.jit(f)
    for k, lst in [(1, [])] * S.n + [(2, []), (1, [0]), (1, [])]:
        S.call(g, tt.tensor([1.]), {"k": k, "l": lst})


@case("key_int_subclass", "int subclass with overridden arithmetic", JAX + "test_is_subclass")
def _(tt, S):
    class Weird(int):
        def scale(self):
            return int(self) * 10
    g = tt.jit(lambda x, k: x * (k.scale() if hasattr(k, "scale") else k))
    S.runs(g, ([1.], 3), ([1.], Weird(3)), ([1.], Weird(4)))


@case("key_scalar_precision", "a double scalar is not rounded before use", UNSP + "test_unspec_float_precision")
def _(tt, S):
    g = tt.jit(lambda x, k: (x * k, k * 3.0 - 0.3))
    g64 = tt.jit(lambda x, k: (x + k) * 1e12)
    S.runs(g, ([1., 2.], 0.1), ([1., 2.], 0.1 + 2 ** -55), ([1., 2.], 1 / 3))
    for k in [0.1] * S.n + [0.1 + 1e-13, 1 / 3]:
        S.call(g64, tt.tensor([1., 2.], dtype=tt.float64), k)


@case("key_int_counter_arg", "step counter as int argument (learning-rate warm-up)", MODS + "test_nn_module_unspec_int_attr")
def _(tt, S):
    g = tt.jit(lambda x, step: x * min(1.0, (step + 1) / 5))
    for i in range(12):
        S.call(g, tt.tensor([1., 2.]), i)
