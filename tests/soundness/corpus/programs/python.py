"""What Python itself promises."""

import functools
import operator
import sys
import types

from corpus.registry import D, FUNC, GEN_, MISC, PTI, REPRO, UNSP, case, category


category("python_semantics")


@case("py_isinstance_hasattr", "isinstance / hasattr / callable on arguments", REPRO + "test_hasattr_builtin")
def _(tt, S):
    def f(x, m):
        if isinstance(m, (list, tuple)):
            return x * len(m)
        if hasattr(m, "k"):
            return x * m.k
        return m(x) if callable(m) else x + m
    S.runs(tt.jit(f), ([1.], (1, 2)), ([1.], types.SimpleNamespace(k=5.)), ([1.], tt.exp), ([1.], 4))


@case("py_class_defined_inside", "class defined inside the function", PTI + "161562")
def _(tt, S):
    def f(x):
        class P:
            k = 3

            def go(self, y):
                return y * self.k
        return P().go(x) + 1
    S.runs(tt.jit(f), ([1.],), ([2.],), grad=True)


@case("py_import_inside", "import statement inside", FUNC + "test_import1")
def _(tt, S):
    def f(x, n):
        import math as m
        from operator import add
        return add(x, m.factorial(n))
    S.runs(tt.jit(f), ([1.], 3), ([1.], 4))


@case("py_del_and_rebind", "del, augmented tuple, chained assignment, swap", FUNC + "test_del")
def _(tt, S):
    def f(a, b):
        x = y = a * 2
        a, b = b, a
        t = (x,)
        t += (y, b)
        del x
        try:
            x                                            # noqa: F821
        except NameError:
            return t[0] + t[1] - t[2] * a
        return a
    S.runs(tt.jit(f), ([1.], [2.]), ([3.], [4.]), grad=True)


@case("py_reduce_partial_ops", "functools.reduce / operator functions", FUNC + "test_reduce")
def _(tt, S):
    def f(xs):
        return functools.reduce(operator.add, xs) * functools.reduce(lambda a, b: a - b, xs)
    g = tt.jit(f)
    for k in [2] * S.n + [4, 1]:
        S.vjp(g, [tt.tensor([float(i + 1)], requires_grad=True) for i in range(k)])


@case("py_string_formatting", "%, format and f-string of shapes and scalars", FUNC + "test_fstrings3")
def _(tt, S):
    def f(x, n):
        return "%d-%s" % (x.shape[0], n), "{:>4}|{!r}".format(n, tuple(x.shape)), f"{len(x)=}", x * 2
    S.runs(tt.jit(f), ([1.], "a"), ([1., 2.], "bc"))


@case("py_frame_introspection", "function name from the running frame", MISC + "test_update_locals_and_stack_uses_shared_cache")
def _(tt, S):
    def helper():
        return sys._getframe(1).f_code.co_name

    def my_named_fn(x):
        return x * 2, helper()
    S.runs(tt.jit(my_named_fn), ([1.],), ([2.],))


@case("py_global_import_alias", "tensor library reached through an alias that changes", FUNC + "test_viatorch")
def _(tt, S):
    ns = types.SimpleNamespace(act=tt.tanh)
    g = tt.jit(lambda x: ns.act(x))
    for a in [tt.tanh] * S.n + [tt.sigmoid, tt.exp, tt.tanh]:
        ns.act = a
        S.vjp(g, tt.tensor([.5, 1.], requires_grad=True))


@case("py_while_true_with_queue", "worklist algorithm with set/dict bookkeeping", UNSP + "test_random_call_with_while_loop")
def _(tt, S):
    def f(x, graph):
        seen, work, t = set(), [0], x
        while work:
            n = work.pop(0)
            if n in seen:
                continue
            seen.add(n)
            t = t * 2 + n
            work.extend(graph.get(n, ()))
        return t, sorted(seen)
    S.runs(tt.jit(f), ([1.], D(lambda: {0: [1, 2], 1: [2]})), ([1.], D(lambda: {0: [2], 2: [5]})), ([1.], D(lambda: {})))


@case("py_function_attributes", "attribute stored on the function object itself", MISC + "test_nesteduserfunction_setattr")
def _(tt, S):
    def f(x):
        helper.count = getattr(helper, "count", 0) + 1
        return x * helper.count

    def helper():
        pass
    g = tt.jit(f)
    for _i in range(S.n + 2):
        S.call(g, tt.tensor([1.]))
    helper.count = 100
    S.call(g, tt.tensor([1.]))


@case("py_id_and_is_on_weights", "`w is self.best` bookkeeping", MISC + "test_id_tensor")
def _(tt, S):
    m = types.SimpleNamespace(best=None)

    def f(x, ws):
        m.best = max(ws, key=lambda w: (x * w).sum().item())
        return [w is m.best for w in ws], x * m.best
    g = tt.jit(f)
    ws = [tt.tensor([1., 0.]), tt.tensor([0., 1.])]
    for v in [[1., 2.]] * S.n + [[3., 1.], [1., 2.]]:
        S.call(g, tt.tensor(v), ws)
    S.obs("best", m.best is ws[1])


@case("py_async_function_caller", "jitted function called from interleaved asyncio tasks", GEN_ + "test_infinite_generator_3", needs="threads")
def _(tt, S):
    import asyncio
    g = tt.jit(lambda x, k: x * k)

    async def w(k):
        out = []
        for j in range(4):
            out.append(g(tt.tensor([float(j)]), k))
            await asyncio.sleep(0)
        return out

    async def main():
        return await asyncio.gather(w(1.), w(2.), w(3.))
    S.obs("res", asyncio.run(main()))
