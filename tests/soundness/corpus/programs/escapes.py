"""Values of tensors that leave for Python and come back."""

import math

import numpy as np

from corpus.registry import D, FUNC, HOPS, JAX, MISC, MODS, PTI, REPRO, TRC, UNSP, case, category


category("escape_to_python")


@case("esc_float_normalise", "divide by float(x.sum())", TRC + "test_trace_warn")
def _(tt, S):
    def f(x):
        return x / float(x.sum())
    S.runs(tt.jit(f), ([1., 3.],), ([2., 8.],), grad=True)


@case("esc_int_reshape", "reshape by int(tensor)", PTI + "33443")
def _(tt, S):
    def f(x, n):
        return x.reshape(int(n), -1) * 2
    S.runs(tt.jit(f), ([1., 2., 3., 4.], D(lambda: tt.tensor(2))), ([1., 2., 3., 4.], D(lambda: tt.tensor(4))), ([1., 2., 3., 4.], D(lambda: tt.tensor(1))))


@case("esc_int_slice", "slice bound from a tensor", TRC + "test_trace_slice")
def _(tt, S):
    def f(x, n):
        return x[:int(n)].sum(), x[int(n):]
    S.runs(tt.jit(f), ([1., 2., 3.], D(lambda: tt.tensor(1))), ([1., 2., 3.], D(lambda: tt.tensor(2))), ([1., 2., 3.], D(lambda: tt.tensor(0))))


@case("esc_dunder_index", "tensor used directly as a Python index (__index__)", TRC + "test_trace_warn")
def _(tt, S):
    names = ["a", "b", "c"]

    def f(x, k):
        return names[k], x * 2
    S.runs(tt.jit(f), *[([1.], D(lambda k=k: tt.tensor(k))) for k in (0, 2, 1)])


@case("esc_tolist", "values leave through .numpy().tolist()", HOPS + "test_tensor_to_list_closure")
def _(tt, S):
    def f(x):
        vals = x.numpy().tolist()
        return x * sum(vals), vals
    S.runs(tt.jit(f), ([1., 2.],), ([3., 4.],))


@case("esc_numpy_roundtrip", "compute with numpy in the middle", UNSP + "test_numpy_correctness")
def _(tt, S):
    def f(x):
        y = x * 2
        z = tt.tensor(np.sin(y.detach().numpy()))
        return y + z
    S.runs(tt.jit(f), ([1., 2.],), ([3., 4.],), grad=True)


@case("esc_shape_scalar", "divide by x.shape[0] with changing shapes", FUNC + "test_shape1")
def _(tt, S):
    def f(x):
        return x.sum() / x.shape[0] + len(x)
    S.runs(tt.jit(f), ([1., 2.],), ([1., 2., 3.],), ([5.],), grad=True)


@case("esc_int_truncates", "int() of a negative float tensor truncates toward zero", JAX + "test_cast_int")
def _(tt, S):
    def f(x):
        return x * int(x[0]), int(x[1])
    S.runs(tt.jit(f), ([1.7, 2.9],), ([-1.7, -2.9],), ([.5, -.5],))


@case("esc_int_of_nan", "int(nan) must raise as eager does", PTI + "158087")
def _(tt, S):
    def f(x):
        return x + int(x.sum())
    S.runs(tt.jit(f), ([1., 2.],), ([1., math.nan],), ([1., math.inf],))


@case("esc_big_int_item", "int64 item above 2**53 keeps all its digits", JAX + "test_large_python_ints")
def _(tt, S):
    def f(x):
        v = x.item()
        return v + 1, x + 1
    g = tt.jit(f)
    for v in [2 ** 60 + 1] * S.n + [2 ** 53 + 1, -2 ** 62 - 1]:
        S.call(g, tt.tensor(v, dtype=tt.int64))


@case("esc_tensor_from_item", "tt.tensor(x.item()): fresh tensor built from data", TRC + "test_constant")
def _(tt, S):
    def f(x):
        c = tt.tensor([x.max().item(), 2.0])
        return x * c
    S.runs(tt.jit(f), ([1., 2.],), ([3., 4.],), grad=True)


@case("esc_tensor_from_arg_list", "tt.tensor(list argument) with changing list", TRC + "test_constant")
def _(tt, S):
    def f(x, lst):
        return x * tt.tensor(lst)
    S.runs(tt.jit(f), ([1., 2.], (1., 2.)), ([1., 2.], (3., 4.)))


@case("esc_running_max_attr", "Python float attribute updated from data each call", MODS + "test_self_mutating1")
def _(tt, S):
    class M:
        def __init__(self):
            self.m = 0.0

        def __call__(self, x):
            self.m = max(self.m, x.max().item())
            return x / self.m
    m = M()
    g = tt.jit(lambda x: m(x))
    for v in [1., 1., 1., 5., 2., 7., 1.]:
        S.call(g, tt.tensor([v, v / 2]))
        S.obs("m", m.m)


@case("esc_item_gradient_is_const", "the part behind .item() must get no gradient", MISC + "test_tensor_item_no_capture")
def _(tt, S):
    def f(x):
        s = x.sum()
        return s * s.item() + s
    S.runs(tt.jit(f), ([1., 2.],), ([3., 4.],), grad=True)


@case("esc_compare_items", "comparison of two items, not of tensors", MISC + "test_item_changes_new_shape")
def _(tt, S):
    def f(x, y):
        return x - y if x.sum().item() >= y.sum().item() else y - x
    S.runs(tt.jit(f), ([1.], [0.]), ([0.], [1.]), ([1., 1.], [0., 0.]), grad=True)


@case("esc_unpack_tensor", "a, b = x unpacks and uses Python floats", MISC + "test_unpack4")
def _(tt, S):
    def f(x):
        a, b = x
        return a * float(b), b * float(a)
    S.runs(tt.jit(f), ([1., 2.],), ([3., 4.],), grad=True)


@case("esc_argmax_by_python", "Python-level argmax, then index", REPRO + "test_do_paste_mask")
def _(tt, S):
    def f(x):
        vals = [x[i].item() for i in range(x.shape[0])]
        return x[vals.index(max(vals))] * 2
    S.runs(tt.jit(f), ([1., 5., 2.],), ([9., 5., 2.],), ([1., 5., 7.],), grad=True)


@case("esc_item_selects_fn", "float chooses a function object", MODS + "test_fnmember")
def _(tt, S):
    def f(x):
        act = tt.tanh if x.mean().item() > 0 else tt.sigmoid
        return act(x)
    S.runs(tt.jit(f), ([1., 2.],), ([-1., -2.],), grad=True)
