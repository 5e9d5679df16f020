"""How long memory lives, and jitted functions that call each other."""

import gc
import weakref

from corpus.registry import JAX, MISC, PTI, TGI, case, category


category("buffers_lifetime")


@case("buf_outputs_kept", "results of ten calls are all kept and stay right", TGI + "2417")
def _(tt, S):
    g = tt.jit(lambda x: x * 2 + 1)
    outs = [g(tt.tensor([float(i), 1.])) for i in range(10)]
    S.obs("outs", outs)


@case("buf_compare_two_results", "f(a) == f(b) on two live results", TGI + "7020")
def _(tt, S):
    g = tt.jit(lambda x: x + 1)
    for _i in range(S.n):
        g(tt.tensor([0.]))
    S.obs("eq", g(tt.tensor([1.1])) == g(tt.tensor([1.2])))


@case("buf_output_fed_back", "output is the next input (state update)", TGI + "14689")
def _(tt, S):
    g = tt.jit(lambda buf, new: (tt.cat([buf[1:], new]), buf.sum()))
    b = tt.zeros(4)
    for i in range(S.n + 5):
        b, s = S.call(g, b, tt.tensor([float(i)]))
    S.obs("b", b)


@case("buf_output_mutated", "caller mutates a result; the next call is unaffected", TGI + "13364", needs="inplace")
def _(tt, S):
    g = tt.jit(lambda x: x * 2)
    for _i in range(S.n + 2):
        y = g(tt.tensor([1., 2.]))
        S.obs("y", y)
        y += 1000


@case("buf_constant_result_fresh", "tt.zeros inside returns a fresh tensor each call", JAX + "test_xla_constant_dedup", needs="inplace")
def _(tt, S):
    def f(x):
        z = tt.zeros(2)
        z += x
        return z, tt.ones(2)
    g = tt.jit(f)
    for _i in range(S.n + 2):
        z, o = S.call(g, tt.tensor([1., 2.]))
        o += 5
        z += 5


@case("buf_numpy_view_of_output", "numpy view of an old result survives later calls", TGI + "2417", needs="numpy_share")
def _(tt, S):
    g = tt.jit(lambda x: x * 3)
    views = [g(tt.tensor([float(i), 2.])).numpy() for i in range(S.n + 4)]
    gc.collect(0)
    for i in range(5):
        g(tt.tensor([99., 99.]))
    S.obs("views", views)


@case("buf_captured_object_released", "model object can be collected after use", MISC + "test_release_module_memory")
def _(tt, S):
    class M:
        def __init__(self):
            self.w = tt.tensor([2.])

        def forward(self, x):
            return x * self.w

    def run():
        m = M()
        g = tt.jit(m.forward)
        for _i in range(S.n + 1):
            S.call(g, tt.tensor([1.]))
        return weakref.ref(m)
    r = run()
    gc.collect()
    S.obs("freed", r() is None)


@case("buf_escaped_intermediate", "an intermediate escapes into a global list and stays valid", JAX + "test_escaped_tracer_omnistaging")
def _(tt, S):
    keep = []

    def f(x):
        y = x * 2
        keep.append(y)
        return y + 1
    g = tt.jit(f)
    for i in range(S.n + 2):
        x = tt.tensor([float(i)], requires_grad=True)
        S.vjp(g, x)
        S.obs("keep", keep[-1])
    S.obs("all", keep)


@case("buf_escaped_used_later", "escaped intermediate is used in a later call", JAX + "test_leaked_tracer_issue_7613")
def _(tt, S):
    st = {"prev": None}

    def f(x):
        y = x * 2
        out = y if st["prev"] is None else y + st["prev"]
        st["prev"] = y
        return out
    g = tt.jit(f)
    for i in range(S.n + 3):
        S.call(g, tt.tensor([float(i)]))


category("nested_jit")


@case("nest_inner_branch", "inner jitted function takes another branch", JAX + "test_inner_jit_function_retracing")
def _(tt, S):
    inner = tt.jit(lambda x: x * 2 if x.sum() > 0 else x * 3)
    outer = tt.jit(lambda x: inner(x) + inner(-x))
    S.runs(outer, ([1.],), ([-1.],), ([2.],), grad=True)


@case("nest_eager_between", "jit, eager, jit, with the same function on both sides", MISC + "test_nested_disable_decorator")
def _(tt, S):
    g = tt.jit(lambda x: x * 2 + 1)

    def run(x):
        return g(g(x) - 5) * g(x)
    S.runs(run, ([1.],), ([2.],), grad=True)


@case("nest_same_inner_other_closure", "outer calls helpers that share code but differ in captured flag", PTI + "192905")
def _(tt, S):
    class L:
        def __init__(self, flag):
            self.flag = flag
    inner = tt.jit(lambda layer, x: tt.tanh(x) if layer.flag else tt.sigmoid(x))
    outer = tt.jit(lambda layer, x: inner(layer, x) + 1.0)
    ls = [L(True), L(False), L(True), L(False)]

    def f(x):
        t = outer(ls[0], x)
        for q in ls[1:]:
            t = t * 2 + outer(q, x)
        return t
    S.runs(tt.jit(f), ([1., 2.],), ([3., 4.],), grad=True)
