"""Context managers, generators and iterators."""

import itertools

from corpus.registry import CTX_, FUNC, GEN_, JAX, MISC, PTI, SUBG, TRC, case, category


category("context_managers")


@case("ctx_no_grad_inside", "no_grad block in the middle", MISC + "test_no_grad")
def _(tt, S):
    def f(x):
        a = x * 2
        with tt.no_grad():
            b = x * 3
        return a + b, b
    S.runs(tt.jit(f), ([1., 2.],), ([3., 4.],), grad=True)


@case("ctx_first_call_no_grad", "first calls under no_grad, later calls need gradients", PTI + "114338")
def _(tt, S):
    w = tt.tensor([2., 3.], requires_grad=True)
    g = tt.jit(lambda x: x * w)
    with tt.no_grad():
        for _i in range(S.n):
            S.call(g, tt.tensor([1., 2.]))
    S.vjp(g, tt.tensor([1., 2.]), wrt=[w])


@case("ctx_is_grad_enabled", "is_grad_enabled() read as a Python bool", CTX_ + "test_nested_grad_mode_graph_break")
def _(tt, S):
    g = tt.jit(lambda x: (x * 2, tt.is_grad_enabled()) if tt.is_grad_enabled() else (x * 3, False))
    for k in [0] * S.n + [1, 0]:
        if k:
            with tt.no_grad():
                S.call(g, tt.tensor([1.]))
        else:
            S.call(g, tt.tensor([1.]))


@case("ctx_no_grad_decorator", "no_grad used as a decorator on a helper", CTX_ + "test_no_grad")
def _(tt, S):
    @tt.no_grad()
    def h(x):
        return x * 10

    g = tt.jit(lambda x: h(x) * x)
    S.runs(g, ([1., 2.],), ([3., 4.],), grad=True)


@case("ctx_return_inside_with", "return from within a with block", SUBG + "test_resume_with_no_grad1")
def _(tt, S):
    def f(x):
        with tt.no_grad():
            if x.sum() > 0:
                return x * 2
        return x * 3
    g = tt.jit(f)
    for v in [1.] * S.n + [-1., 1.]:
        S.vjp(g, tt.tensor([v], requires_grad=True))
        S.obs("mode", tt.is_grad_enabled())


category("generators_iterators")


@case("gen_inside", "generator consumed inside", GEN_ + "test_generator_simple")
def _(tt, S):
    def gen(x):
        for i in range(3):
            yield x * i

    def f(x):
        t = x
        for y in gen(x):
            t = t + y
        return t
    S.runs(tt.jit(f), ([1., 2.],), ([3., 4.],), grad=True)


@case("gen_jitted_generator_function", "the jitted function itself is a generator", JAX + "test_jit_of_generator")
def _(tt, S):
    def f(x):
        yield x * 2
        if x.sum() > 0:
            yield x * 3
    g = tt.jit(f)
    for v in [1.] * S.n + [-1., 1.]:
        S.call(lambda: list(g(tt.tensor([v]))))


@case("gen_argument_partly_consumed", "generator argument already advanced, stays advanced", GEN_ + "test_generator_as_argument")
def _(tt, S):
    def src():
        for i in range(100):
            yield float(i)
    it = src()
    next(it)
    g = tt.jit(lambda x, it: x + next(it))
    for _i in range(S.n + 2):
        S.call(g, tt.tensor([0.]), it)
    S.obs("next", next(it))


@case("gen_finally_on_close", "generator's finally runs when closed", GEN_ + "test_return_exhaust_generator")
def _(tt, S):
    log = []

    def gen(x):
        try:
            yield x
            yield x * 2
        finally:
            log.append("closed")

    def f(x):
        it = gen(x)
        y = next(it)
        it.close()
        return y + len(log)
    S.runs(tt.jit(f), ([1.],), ([2.],))
    S.obs("log", log)


@case("gen_zip_enumerate_map_filter", "zip/enumerate/map/filter over tensors", GEN_ + "test_list_zip_generator")
def _(tt, S):
    def f(xs):
        t = xs[0] * 0
        for i, (a, b) in enumerate(zip(xs, map(lambda q: q * 2, xs))):
            t = t + a * b * i
        for y in filter(lambda q: q.sum().item() > 1, xs):
            t = t + y
        return t
    g = tt.jit(f)
    for vs in [(1., 2.)] * S.n + [(2., 1.), (0., 0., 5.), (1., 2.)]:
        S.call(g, [tt.tensor([v]) for v in vs])


@case("gen_iterate_tensor", "for row in x: rows are views", TRC + "test_trace_warn", needs="inplace views")
def _(tt, S):
    def f(x):
        t = 0
        for r in x:
            r += 1
            t = t + r.sum()
        return t
    g = tt.jit(f)
    for k in [2] * S.n + [3]:
        x = tt.ones((k, 2))
        S.call(g, x)
        S.obs("x", x)


@case("gen_itertools_cycle_state", "itertools.cycle keeps position across calls", "https://github.com/pytorch/pytorch/pull/110967")
def _(tt, S):
    c = itertools.cycle([1., 2., 3.])
    g = tt.jit(lambda x: x * next(c))
    for _i in range(S.n + 4):
        S.call(g, tt.tensor([1.]))


@case("gen_late_binding", "list of lambdas over a loop variable binds late", FUNC + "test_funcdef_closure")
def _(tt, S):
    def f(x, k):
        fs = [lambda y: y * i for i in range(3)]
        return fs[k](x)
    S.runs(tt.jit(f), ([1.], 0), ([1.], 2))


@case("gen_dict_mutated_while_iterating", "RuntimeError for mutation during iteration", MISC + "test_inline_dict_mutation")
def _(tt, S):
    def f(d, x):
        for k in d:
            if x.sum() > 0:
                d[k + "x"] = 1
        return x
    g = tt.jit(f)
    for v in [-1.] * S.n + [1., -1.]:
        S.call(g, {"a": 1}, tt.tensor([v]))


@case("gen_interleaved_coroutines", "two generators drive the same jitted function alternately", GEN_ + "test_infinite_generator_2")
def _(tt, S):
    g = tt.jit(lambda x, k: x * k + 1)

    def worker(k):
        x = tt.tensor([1.])
        while True:
            x = g(x, k)
            yield x
    a, b = worker(2.), worker(3.)
    for _i in range(S.n + 2):
        S.call(next, a)
        S.call(next, b)
