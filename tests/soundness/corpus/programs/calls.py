"""Ways to call: methods, partials, defaults, keywords, decorators."""

import functools
import operator

from corpus.registry import FUNC, JAX, MISC, MODS, TRC, case, category


category("call_conventions")


@case("call_partial", "functools.partial objects with different frozen values", FUNC + "test_partials_recompilation")
def _(tt, S):
    def f(a, x, b=1):
        return x * a + b
    p, q = tt.jit(functools.partial(f, 2)), tt.jit(functools.partial(f, 3, b=5))
    for _i in range(S.n + 1):
        S.call(p, tt.tensor([1.]))
        S.call(q, tt.tensor([1.]))
        S.call(p, tt.tensor([1.]), b=9)


@case("call_partial_as_argument", "partials given as arguments", FUNC + "test_partials_as_input_partials_lambda")
def _(tt, S):
    mul = lambda x, y: x * y
    g = tt.jit(lambda fa, fb, x: fa(x) + fb(x))
    P = functools.partial
    w = tt.tensor([5.])
    for a, b in [(P(mul, y=3), P(mul, y=2))] * S.n + [(P(mul, y=2), P(mul, y=3)), (P(mul, y=w), P(mul, 7)), (mul.__get__(4.), P(mul, y=3))]:
        S.call(g, a, b, tt.tensor([1.]))


@case("call_function_argument", "functions and builtins as arguments", MISC + "test_user_function_variable_supports_function_argument")
def _(tt, S):
    g = tt.jit(lambda x, h: h(x) + 1)
    for h in [tt.exp] * S.n + [tt.tanh, lambda x: x * 3, operator.neg, abs, tt.exp]:
        S.call(g, tt.tensor([-1., .5]), h)


@case("call_kwargs_order", "**kwargs insertion order is observable", TRC + "test_input_dict_insertion_order")
def _(tt, S):
    def f(**kw):
        t = None
        for k, v in kw.items():
            t = v if t is None else t * 2 - v
        return t, list(kw)
    g = tt.jit(f)
    a, b = tt.tensor([1.]), tt.tensor([5.])
    for _i in range(S.n):
        S.call(g, a=a, b=b)
    S.call(g, b=b, a=a)
    S.call(g, a=b, b=a)
    S.call(g, a=a)


@case("call_positional_vs_keyword", "same parameter given by position or by keyword", JAX + "test_jit_kwargs")
def _(tt, S):
    def f(x, y, k=2):
        return x - y * k
    g = tt.jit(f)
    a, b = tt.tensor([1.]), tt.tensor([5.])
    for _i in range(S.n):
        S.call(g, a, b)
    S.call(g, y=a, x=b)
    S.call(g, a, y=b)
    S.call(g, a, b, 3)
    S.call(g, a, b, k=2)
    S.call(g, k=3, x=a, y=b)


@case("call_kwonly_posonly", "keyword-only and positional-only parameters", JAX + "test_jit_with_static_argnames")
def _(tt, S):
    def f(x, /, y, *, k=1, **kw):
        return x * y + k + sum(kw.values())
    g = tt.jit(f)
    a, b = tt.tensor([2.]), tt.tensor([3.])
    for _i in range(S.n):
        S.call(g, a, b)
    S.call(g, a, b, k=5)
    S.call(g, a, y=b, x=7)
    S.call(g, x=a, y=b)


@case("call_default_tensor", "default argument is a tensor that is later mutated", MISC + "test_nested_closure", needs="inplace")
def _(tt, S):
    w = tt.tensor([2.])

    def f(x, w=w):
        return x * w
    g = tt.jit(f)
    for _i in range(S.n):
        S.call(g, tt.tensor([3.]))
    w += 5
    S.call(g, tt.tensor([3.]))
    S.call(g, tt.tensor([3.]), tt.tensor([10.]))
    S.call(g, tt.tensor([3.]))


@case("call_sentinel_default", "sentinel object as default, None is a real value", MODS + "test_isnonelayer")
def _(tt, S):
    miss = object()

    def f(x, y=miss):
        if y is miss:
            return x
        return x * 2 if y is None else x + y
    S.runs(tt.jit(f), ([1.],), ([1.], None), ([1.], [5.]))


@case("call_wrapped_metadata", "__name__ and __doc__ survive", JAX + "test_jit_wrapped_attributes")
def _(tt, S):
    def my_func(x):
        "the doc"
        return x
    g = tt.jit(my_func)
    S.obs("meta", (g.__name__, g.__doc__))
    S.call(g, tt.tensor([1.]))


@case("call_jit_twice", "jit(jit(f))", MISC + "test_nested_optimize")
def _(tt, S):
    n = []

    def f(x):
        n.append(1)
        return x * 2 if x.sum() > 0 else x * 3
    S.runs(tt.jit(tt.jit(f)), ([1.],), ([-1.],), grad=True)
    S.obs("n", len(n))


@case("call_jit_builtin_callable", "jit of a bound builtin method", JAX + "test_jit_python_builtin")
def _(tt, S):
    g = tt.jit(operator.mul)
    S.runs(g, ([2.], [3.]), ([4.], [5.]), grad=True)


@case("call_argument_names_clash", "parameters called self, args, fn, tt", "pytorch test/dynamo/test_misc.py::test_callpacked")
def _(tt, S):
    def f(self, args, fn=2, kwargs=3):
        return self * args + fn * kwargs
    g = tt.jit(f)
    for k in [2] * S.n + [5]:
        S.call(g, tt.tensor([1.]), args=tt.tensor([2.]), fn=k)


@case("call_callable_object_state", "callable object whose state changes", MODS + "test_self_mutating1")
def _(tt, S):
    class C:
        def __init__(self):
            self.n = 0

        def __call__(self, x):
            self.n += 1
            return x * self.n
    c = C()
    g = tt.jit(c)
    for _i in range(S.n + 2):
        S.call(g, tt.tensor([1.]))
    S.obs("n", c.n)


@case("call_jitted_as_argument", "a jitted function is passed to a jitted function", JAX + "test_jit_shallow_copy")
def _(tt, S):
    a, b = tt.jit(lambda x: x * 2), tt.jit(lambda x: x + 100)
    g = tt.jit(lambda h, x: h(x) + h(x * 2))
    for h in [a] * S.n + [b, a]:
        S.call(g, h, tt.tensor([1.]))


@case("call_deepcopy_of_model", "copy.deepcopy of an object with a jitted method", MISC + "test_module_deepcopy", needs="inplace")
def _(tt, S):
    class M:
        def __init__(self):
            self.w = tt.tensor([2.])

        @tt.jit
        def forward(self, x):
            return x * self.w
    a = M()
    for _i in range(S.n):
        S.call(a.forward, tt.tensor([3.]))
    b = M()
    b.w = a.w.clone()
    b.w += 1
    S.call(b.forward, tt.tensor([3.]))
    S.call(a.forward, tt.tensor([3.]))


@case("call_type_arguments", "class / dtype objects as arguments", MISC + "test_user_defined_class_python_type")
def _(tt, S):
    class A:
        k = 2

    class B:
        k = 3

    def f(x, c, dt):
        return (x * c.k).to(dt)
    g = tt.jit(f)
    for c, dt in [(A, tt.float32)] * S.n + [(B, tt.float32), (A, tt.float64), (A, tt.int64), (A, tt.float32)]:
        S.call(g, tt.tensor([1.5]), c, dt)
