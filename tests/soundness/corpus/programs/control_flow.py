"""Branches and loops whose course depends on data."""

import math

import numpy as np

from corpus.registry import D, EXC_, FUNC, JAX, JAXD, JXI, MISC, MODS, PTI, REPRO, SUBG, TRC, case, category


category("control_flow")


@case("cf_if_nested_four_paths", "nested data branches: four paths from two guards", SUBG + "test_control_flow3")
def _(tt, S):
    def f(x, y):
        if x.sum() > 0:
            if y.sum() > 0:
                return x + y
            return x - y
        if y.sum() > 0:
            return x * y
        return x * 10 + y
    S.runs(tt.jit(f), ([1.], [2.]), ([1.], [-2.]), ([-1.], [2.]), ([-1.], [-2.]), grad=True)


@case("cf_elif_ladder", "elif ladder on a float taken from the tensor", MISC + "test_boolarg")
def _(tt, S):
    def f(x):
        m = x.mean().item()
        if m < -1:
            return x * 0.5
        elif m < 0:
            return -x
        elif m == 0:
            return x + 100
        elif m < 1:
            return x * x
        else:
            return tt.exp(x)
    S.runs(tt.jit(f), ([2., 2.],), ([.5, .25],), ([0., 0.],), ([-.5, -.25],), ([-3., -2.],), grad=True)


@case("cf_early_return_in_loop", "early return from inside a loop on a data condition", SUBG + "test_control_flow5")
def _(tt, S):
    def f(x):
        acc = x
        for i in range(5):
            acc = acc + i
            if acc.sum() > 6:
                return acc, i
        return acc * 0, -1
    S.runs(tt.jit(f), ([0., 1.],), ([5., 1.],), ([-50., 1.],))


@case("cf_range_of_int_tensor", "for-range over int(tensor)", JAX + "test_range_err")
def _(tt, S):
    def f(x, n):
        for _i in range(int(n)):
            x = x * 1.5
        return x
    S.runs(tt.jit(f), ([1., 2.], D(lambda: tt.tensor(2))), ([1., 2.], D(lambda: tt.tensor(4))), ([1., 2.], D(lambda: tt.tensor(0))))


@case("cf_short_circuit_and", "`and` of two tensor conditions: second has a side effect", SUBG + "test_control_flow4")
def _(tt, S):
    seen = []

    def second(y):
        seen.append(1)
        return y.sum() > 0

    def f(x, y):
        if x.sum() > 0 and second(y):
            return x + y
        return x - y
    S.runs(tt.jit(f), ([1.], [1.]), ([-1.], [1.]), ([1.], [-1.]))
    S.obs("evaluations", len(seen))


@case("cf_or_returns_operand", "`a or b` returns one of two one-element tensors", PTI + "180406 (hint on `or` between tensors)")
def _(tt, S):
    def f(a, b):
        return (a or b) * 3
    S.runs(tt.jit(f), ([1.], [5.]), ([0.], [5.]), ([0.], [0.]), grad=True)


@case("cf_and_returns_operand", "`a and b` value semantics, identity of the result", PTI + "180406")
def _(tt, S):
    def f(a, b):
        r = a and b
        return r, r is a, r is b
    S.runs(tt.jit(f), ([1.], [5.]), ([0.], [5.]))


@case("cf_not_tensor", "`not t` makes a Python bool", JAX + "test_casts")
def _(tt, S):
    def f(x):
        flag = not x.sum()
        return x + 1 if flag else x - 1, flag
    S.runs(tt.jit(f), ([1., -1.],), ([1., 1.],))


@case("cf_chained_compare", "`0 < t < 1` chained comparison on a 0-d tensor", JXI + "7969 (piecewise with 0<x<1 under jit)")
def _(tt, S):
    def f(x):
        s = x.sum()
        if 0 < s < 1:
            return x * 2
        return x * 3
    S.runs(tt.jit(f), ([.25, .25],), ([2., 2.],), ([-2., 1.],), grad=True)


@case("cf_ternary_value", "conditional expression selecting between two computed values", FUNC + "test_constant3")
def _(tt, S):
    def f(x):
        y, z = x * 2, x * 3
        return y if y.sum() < z.sum() else z
    S.runs(tt.jit(f), ([1.],), ([-1.],), grad=True)


@case("cf_assert_tensor", "assert on a tensor condition must keep firing", MISC + "test_assert")
def _(tt, S):
    def f(x):
        assert x.max() < 10, "too big"
        return x + 1
    S.runs(tt.jit(f), ([1., 2.],), ([1., 20.],))


@case("cf_for_else", "for/else with a data-dependent break", SUBG + "test_restore_range")
def _(tt, S):
    def f(x):
        for i in range(3):
            if x[i] > 5:
                r = x * i
                break
        else:
            r = x - 100
        return r
    S.runs(tt.jit(f), ([1., 2., 9.],), ([9., 2., 3.],), ([1., 2., 3.],), grad=True)


@case("cf_expert_choice", "mixture of experts: Python list indexed by int(tensor)", MODS + "test_modulelist")
def _(tt, S):
    ws = [tt.tensor([[float(i + 1), 0.], [0., 2. * i]], requires_grad=True) for i in range(3)]

    def f(x, gate):
        return tt.matmul(x, ws[int(gate)])
    g = tt.jit(f)
    for k in [0] * S.n + [2, 1, 0, 2]:
        S.vjp(g, tt.tensor([[1., 2.]], requires_grad=True), tt.tensor(k))
        S.obs("w", [w.grad for w in ws])


@case("cf_item_in_tuple", "membership test of .item() in a tuple", MISC + "test_item_changes")
def _(tt, S):
    def f(x):
        return x * 2 if x.sum().item() in (1, 2, 3) else x * -1
    S.runs(tt.jit(f), ([1., 1.],), ([2., 2.],), ([1.5, 1.5],))


@case("cf_match_statement", "structural match on an int from a tensor", PTI + "140539")
def _(tt, S):
    def f(x, k):
        match int(k):
            case 0:
                return x + 1
            case 1 | 2:
                return x * 2
            case n if n > 10:
                return x * n
            case _:
                return x
    S.runs(tt.jit(f), *[([1., 2.], D(lambda k=k: tt.tensor(k))) for k in (0, 1, 2, 11, 5)])


@case("cf_sorted_key_item", "sorted() of tensors by .item() changes the op order", REPRO + "test_reformer_sorting")
def _(tt, S):
    def f(a, b, c):
        p, q, r = sorted([a, b, c], key=lambda t: t.item())
        return p + 10 * q + 100 * r
    g = tt.jit(f)
    for v in [(1., 2., 3.)] * S.n + [(3., 2., 1.), (2., 3., 1.), (1., 2., 3.)]:
        S.vjp(g, *[tt.tensor(e, requires_grad=True) for e in v])


@case("cf_any_all", "any()/all() over a generator of tensor comparisons", FUNC + "test_list_truth")
def _(tt, S):
    def f(xs):
        if all(x > 0 for x in xs):
            return xs[0] + xs[1]
        if any(x > 0 for x in xs):
            return xs[0] - xs[1]
        return xs[0] * xs[1]
    g = tt.jit(f)
    for v in [(1., 2.)] * S.n + [(1., -2.), (-1., -2.), (1., 2.)]:
        S.call(g, [tt.tensor(e) for e in v])


@case("cf_elementwise_python_loop", "piecewise function written with a Python loop over elements", JAXD + "notebooks/Common_Gotchas_in_JAX.md (control flow)")
def _(tt, S):
    def f(x):
        return tt.stack([e * 2 if e > 0 else e * e for e in x])
    S.runs(tt.jit(f), ([1., -2., 3.],), ([-1., 2., -3.],), ([0., 0., 0.],), grad=True)


@case("cf_recursion_on_data", "recursion depth depends on data", REPRO + "test_recursive_map")
def _(tt, S):
    def f(x):
        if x.max() < 1:
            return x
        return f(x - 1) * 2
    S.runs(tt.jit(f), ([1.5, .2],), ([3.5, .2],), ([.5, .2],), grad=True)


@case("cf_returns_python_bool", "returns bool(tensor): the result itself must not be frozen", TRC + "test_trace_warn")
def _(tt, S):
    def f(x):
        return bool(x.sum() > 0), x
    S.runs(tt.jit(f), ([1.],), ([-1.],))


@case("cf_returns_python_string", "returns a string chosen by data", FUNC + "test_fstrings1")
def _(tt, S):
    def f(x):
        return ("pos" if x.sum() > 0 else "neg"), x * 2
    S.runs(tt.jit(f), ([1.],), ([-1.],))


@case("cf_nan_guard", "NaN test by x != x steers control flow", MISC + "test_nan")
def _(tt, S):
    def f(x):
        s = x.sum()
        if s != s:
            return x * 0 + 7
        return x * 2
    S.runs(tt.jit(f), ([1., 2.],), ([1., math.nan],), ([math.inf, -math.inf],))


@case("cf_eq_two_tensors", "== of two 0-d tensors used as a condition", JAX + "test_static_args_equality")
def _(tt, S):
    def f(a, b):
        return a + b if a == b else a - b
    g = tt.jit(f)
    for p, q in [(1., 1.)] * S.n + [(1., 2.), (0., -0.), (math.nan, math.nan), (1., 1.)]:
        S.call(g, tt.tensor(p), tt.tensor(q))


@case("cf_beam_search", "beam-search-like loop: ranks, prunes, stops early", MODS + "test_constloop (grown to a search)")
def _(tt, S):
    W = tt.tensor([[.1, .9, .3], [.7, .2, .4], [.5, .5, .6]])

    def f(x, width):
        beams = [((), x)]
        while len(beams[0][0]) < 3:
            cand = []
            for seq, h in beams:
                h2 = tt.tanh(tt.matmul(W, h))
                for j in range(3):
                    cand.append((seq + (j,), h2 * (1 + .1 * j), (h2[j] * (1 + .1 * j)).item()))
            cand.sort(key=lambda c: -c[2])
            beams = [(s, h) for s, h, _ in cand[:width]]
            if beams[0][1].sum() > 2.4:
                break
        return [b[0] for b in beams], beams[0][1]
    S.runs(tt.jit(f), ([.1, .2, .3], 2), ([3., -1., 2.], 2), ([.1, .2, .3], 1), ([-1., -1., -1.], 3))


@case("cf_rnn_varlen", "RNN over T steps, T differs per call, shared weights get grads", TRC + "test_large_nbr_kernel_args")
def _(tt, S):
    Wx = tt.tensor([[.5, -.2], [.1, .3]], requires_grad=True)
    Wh = tt.tensor([[.2, .1], [-.1, .4]], requires_grad=True)

    def f(xs):
        h = tt.zeros((1, 2))
        for t in range(xs.shape[0]):
            h = tt.tanh(tt.matmul(xs[t:t + 1], Wx) + tt.matmul(h, Wh))
        return h
    g = tt.jit(f)
    for T in [3] * S.n + [1, 5, 2, 3]:
        x = tt.tensor((np.arange(2 * T).reshape(T, 2) * .1).astype("float32"), requires_grad=True)
        S.vjp(g, x, wrt=[x, Wx, Wh])


@case("cf_rare_branch", "one call in thirty takes the other path", MISC + "test_item_changes")
def _(tt, S):
    def f(x):
        if x.max() > 100:
            return x * 0
        return x + 1
    g = tt.jit(f)
    for i in range(31):
        S.vjp(g, tt.tensor([float(i), 1000. if i == 17 else 1.], requires_grad=True))


@case("cf_output_list_length_by_data", "number of returned tensors depends on data", REPRO + "test_seq_append_list")
def _(tt, S):
    def f(x):
        out = []
        while x.max() > 1:
            x = x - 1
            out.append(x)
        return out
    S.runs(tt.jit(f), ([2.5, 0.],), ([5.5, 0.],), ([.5, 0.],))


@case("cf_bool_mask_index", "x[mask]: output shape depends on data", JAXD + "errors.rst (NonConcreteBooleanIndexError)", needs="mask_index")
def _(tt, S):
    def f(x):
        return x[x > 0].sum(), x[x > 0].shape[0]
    S.runs(tt.jit(f), ([1., -1., 2.],), ([1., 1., 2.],), ([-1., -1., -2.],), grad=True)


@case("cf_walrus", "walrus binding of a tensor inside a condition", MISC + "test_assert")
def _(tt, S):
    def f(x):
        if (s := x.sum()) > 0:
            return x / s
        return s
    S.runs(tt.jit(f), ([1., 3.],), ([-1., -3.],), grad=True)


@case("cf_optional_tensor", "argument is sometimes None, sometimes a tensor", FUNC + "test_is_not_null")
def _(tt, S):
    def f(x, m=None):
        if m is not None:
            x = x * m
        return x + 1
    S.runs(tt.jit(f), ([1., 2.],), ([1., 2.], [3., 4.]), ([1., 2.], None), grad=True)


@case("cf_arg_identity", "branch on `a is b`", PTI + "196173")
def _(tt, S):
    def f(a, b):
        return a * 2 if a is b else a + b
    g = tt.jit(f)
    x, y = tt.tensor([1., 2.]), tt.tensor([1., 2.])
    for p in [(x, y)] * S.n + [(x, x), (y, x), (y, y)]:
        S.call(g, *p)


@case("cf_condition_on_intermediate", "guard on a value computed halfway, after other ops", MISC + "test_inline_func_jump_on_tensor_condition")
def _(tt, S):
    def f(x):
        y = tt.exp(x)
        z = y * 2
        if z.mean() > 3:
            z = z - y
        return z / (1 + y)
    S.runs(tt.jit(f), ([1., 2.],), ([-1., -2.],), grad=True)


@case("cf_condition_in_callee", "the branch lives three calls down", MISC + "test_inline_func_jump_on_tensor_condition")
def _(tt, S):
    def c(x):
        return x * 3 if x.sum() > 0 else x * 4

    def b(x):
        return c(x) + 1

    def f(x):
        return b(x) - 1
    S.runs(tt.jit(f), ([1., 2.],), ([-1., -2.],), grad=True)


@case("cf_unused_condition", "condition computed, both arms equal, result must still match", EXC_ + "test_exception_else")
def _(tt, S):
    def f(x):
        if x.sum() > 0:
            pass
        return x + 1
    S.runs(tt.jit(f), ([1.],), ([-1.],))


@case("cf_comparison_gets_value", "comparison result used as data and as control", PTI + "100466")
def _(tt, S):
    def f(x):
        m = x > 0
        y = x * m
        if m.sum() > 1:
            y = y + 1
        return y, m
    S.runs(tt.jit(f), ([1., 2.],), ([1., -2.],), ([-1., -2.],), grad=True)


@case("cf_zip_lengths_change", "loop over zip of two lists whose lengths vary", EXC_ + "test_stop_iteration")
def _(tt, S):
    def f(xs, ys):
        t = tt.zeros(1)
        for a, b in zip(xs, ys):
            t = t + a * b
        return t
    mk = lambda *v: [tt.tensor([float(e)]) for e in v]
    g = tt.jit(f)
    for a, b in [((1, 2), (3, 4))] * S.n + [((1, 2, 3), (3, 4)), ((1,), (3, 4)), ((), ()), ((1, 2), (3, 4))]:
        S.call(g, mk(*a), mk(*b))
