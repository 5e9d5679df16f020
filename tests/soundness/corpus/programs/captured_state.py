"""Globals, closures, attributes and modules that functions read, and that change."""

import contextvars
import gc
import math
import os
import threading
import types

import numpy as np

from corpus.registry import CTX_, EXC_, FUNC, GLOB, MISC, MODS, NBI, PTI, REPRO, TRC, case, category


category("captured_state")


@case("cap_global_scalar", "global float changes between calls", NBI + "253")
def _(tt, S):
    ns = {"k": 2.0}
    exec("def f(x):\n    return x * k\n", ns)
    g = tt.jit(ns["f"])
    for k in [2.0] * S.n + [3.0, 2.0, 5]:
        ns["k"] = k
        S.call(g, tt.tensor([1., 2.]))


@case("cap_closure_scalar", "closure cell rebinds between calls (loop variable)", NBI + "938")
def _(tt, S):
    def f(x):
        return x * n
    g = tt.jit(f)
    for n in [1] * S.n + [2, 3, 0]:
        S.call(g, tt.tensor([1., 2.]))


@case("cap_closure_function_rebound", "helper in the closure is replaced", FUNC + "test_non_inlined_closure")
def _(tt, S):
    def h(x):
        return x + 1

    def f(x):
        return h(x) * 2
    g = tt.jit(f)
    for _i in range(S.n):
        S.call(g, tt.tensor([1.]))

    def h(x):                                            # noqa: F811
        return x * 100
    S.call(g, tt.tensor([1.]))


@case("cap_global_function_rebound", "global helper is replaced (monkeypatch)", REPRO + "test_global_fn_mutation")
def _(tt, S):
    ns = {}
    exec("def h(x):\n    return x + 1\ndef f(x):\n    return h(x) * 2\n", ns)
    g = tt.jit(ns["f"])
    for _i in range(S.n):
        S.call(g, tt.tensor([1.]))
    ns["h"] = lambda x: x * 100
    S.call(g, tt.tensor([1.]))
    exec("def h(x):\n    return x - 1\n", ns)
    S.call(g, tt.tensor([1.]))


@case("cap_layer_replaced", "layers[0] replaced by another tensor", MODS + "test_tensorlist")
def _(tt, S):
    ws = [tt.tensor([2.], requires_grad=True), tt.tensor([3.], requires_grad=True)]

    def f(x):
        return x * ws[0] + ws[1]
    g = tt.jit(f)
    for _i in range(S.n):
        S.vjp(g, tt.tensor([1.]), wrt=list(ws))
    old = ws[0]
    ws[0] = tt.tensor([7.], requires_grad=True)
    S.vjp(g, tt.tensor([1.]), wrt=list(ws))
    S.obs("old", old.grad)
    ws.reverse()
    S.vjp(g, tt.tensor([1.]), wrt=list(ws))


@case("cap_instance_shadows_class", "an instance attribute starts to shadow the class attribute", PTI + "197859")
def _(tt, S):
    class M:
        k = 2.0

        def act(self, x):
            return x + 1

        def forward(self, x):
            return self.act(x) * self.k
    m = M()
    g = tt.jit(m.forward)
    for _i in range(S.n):
        S.call(g, tt.tensor([1.]))
    m.k = 10.
    S.call(g, tt.tensor([1.]))
    m.__dict__["act"] = lambda x: x * 50
    S.call(g, tt.tensor([1.]))
    del m.k
    S.call(g, tt.tensor([1.]))


@case("cap_getattr_default", "getattr(obj, name, default): the attribute appears later", MISC + "test_config_getattr_default")
def _(tt, S):
    class C:
        pass
    c = C()
    g = tt.jit(lambda x: x + getattr(c, "seven", 0) if not hasattr(c, "off") else x - c.off)
    for _i in range(S.n):
        S.call(g, tt.tensor([1.]))
    c.seven = 7
    S.call(g, tt.tensor([1.]))
    c.off = 3
    S.call(g, tt.tensor([1.]))
    del c.seven, c.off
    S.call(g, tt.tensor([1.]))


@case("cap_config_dict", "module-level config dict mutated", GLOB + "test_store_global_dict")
def _(tt, S):
    cfg = {"n": 2, "scale": 1.0}

    def f(x):
        for _i in range(cfg["n"]):
            x = x + cfg["scale"]
        return x
    g = tt.jit(f)
    for n, s in [(2, 1.)] * S.n + [(3, 1.), (2, .5), (0, 1.), (2, 1.)]:
        cfg["n"], cfg["scale"] = n, s
        S.call(g, tt.tensor([1.]))


@case("cap_nested_attr", "a.b.c changes and a.b is replaced", MISC + "test_config_obj")
def _(tt, S):
    a = types.SimpleNamespace(b=types.SimpleNamespace(c=2.))
    g = tt.jit(lambda x: x * a.b.c)
    for _i in range(S.n):
        S.call(g, tt.tensor([1.]))
    a.b.c = 3.
    S.call(g, tt.tensor([1.]))
    a.b = types.SimpleNamespace(c=4.)
    S.call(g, tt.tensor([1.]))


@case("cap_weight_inplace_optimizer", "weights updated in place between calls (SGD loop)", "pytorch test/dynamo/test_optimizers.py", needs="inplace")
def _(tt, S):
    W = tt.tensor([[.5, -.3], [.2, .8]], requires_grad=True)
    b = tt.tensor([.1, -.1], requires_grad=True)

    def loss(x, y):
        p = tt.tanh(tt.matmul(x, W) + b)
        return ((p - y) ** 2).mean()
    g = tt.jit(loss)
    for i in range(S.n + 5):
        W.grad = b.grad = None
        lo = S.call(g, tt.tensor([[1., 2.], [3., float(i)]]), tt.tensor([[0., 1.], [1., 0.]]))
        lo.backward()
        with tt.no_grad():
            W -= 0.1 * W.grad
            b -= 0.1 * b.grad
        S.obs("p", (W, b))


@case("cap_weight_dtype_change", "captured weight changes dtype", MODS + "test_parameters1")
def _(tt, S):
    m = types.SimpleNamespace(w=tt.tensor([2., 3.]))
    g = tt.jit(lambda x: x * m.w)
    for _i in range(S.n):
        S.call(g, tt.tensor([1., 1.]))
    m.w = tt.tensor([2., 3.], dtype=tt.float64)
    S.call(g, tt.tensor([1., 1.]))
    m.w = tt.tensor([2, 3])
    S.call(g, tt.tensor([1., 1.]))


@case("cap_numpy_array_mutated", "captured numpy array is mutated between calls", MISC + "test_numpy_as_global")
def _(tt, S):
    a = np.array([1., 2.], dtype=np.float32)
    g = tt.jit(lambda x: x * tt.tensor(a) + float(a[0]))
    for v in [1.] * S.n + [5., 1.]:
        a[0] = v
        S.call(g, tt.tensor([1., 1.]))


@case("cap_two_instances", "one jitted method, two instances with different state", MISC + "test_id_guarded_object")
def _(tt, S):
    class M:
        def __init__(self, w, k):
            self.w, self.k = w, k

        @tt.jit
        def forward(self, x):
            return x * self.w if self.k else x + self.w
    a, b = M(tt.tensor([2.]), 1), M(tt.tensor([3.]), 0)
    for m in [a] * S.n + [b, a, b, b, a]:
        S.call(m.forward, tt.tensor([1.]))
    c = M(5.0, 1)
    S.call(c.forward, tt.tensor([1.]))


@case("cap_factory_closures", "two closures of one code object, each jitted", NBI + "6093")
def _(tt, S):
    def mk(k, h):
        def inner(x):
            return h(x) * k
        return tt.jit(inner)
    p, q, r = mk(2, tt.exp), mk(3, tt.exp), mk(2, tt.tanh)
    for _i in range(S.n + 1):
        for fn in (p, q, r):
            S.call(fn, tt.tensor([.5, 1.]))


@case("cap_defaults_differ", "same code, different __defaults__", PTI + "178365")
def _(tt, S):
    fs = []
    for k in (1, 2, 3):
        def f(x, k=k):
            return x * k
        fs.append(f)

    def outer(fn, x):
        return fn(x) + 1
    g = tt.jit(outer)
    for i in [0] * S.n + [1, 2, 0]:
        S.call(g, fs[i], tt.tensor([1.]))
    jf = tt.jit(fs[0])
    S.call(jf, tt.tensor([1.]))
    fs[0].__defaults__ = (9,)
    S.call(fs[0], tt.tensor([1.]))


@case("cap_deleted_attribute", "a captured attribute is deleted: AttributeError, then restored", EXC_ + "test_atrribute_error")
def _(tt, S):
    m = types.SimpleNamespace(k=2.)
    g = tt.jit(lambda x: x * m.k)
    for _i in range(S.n):
        S.call(g, tt.tensor([1.]))
    del m.k
    S.call(g, tt.tensor([1.]))
    m.k = 3.
    S.call(g, tt.tensor([1.]))


@case("cap_monkeypatched_math", "a function in a module namespace is patched", FUNC + "test_import1")
def _(tt, S):
    ns = types.SimpleNamespace(sq=math.sqrt)
    g = tt.jit(lambda x, v: x * ns.sq(v))
    for _i in range(S.n):
        S.call(g, tt.tensor([1.]), 4.0)
    ns.sq = lambda v: v * 1000
    S.call(g, tt.tensor([1.]), 4.0)


@case("cap_tensor_id_reuse", "weights are freed and re-created: ids may repeat", MISC + "test_id_tensor")
def _(tt, S):
    m = types.SimpleNamespace(w=None)
    g = tt.jit(lambda x: x * m.w)
    for i in range(S.n + 6):
        m.w = None
        gc.collect(0)
        m.w = tt.tensor([float(i)], requires_grad=bool(i % 2))
        S.vjp(g, tt.tensor([3.], requires_grad=True))


@case("cap_object_id_reuse", "config objects are freed and re-created", MISC + "test_id_guarded_object")
def _(tt, S):
    class C:
        def __init__(self, k):
            self.k = k
    g = tt.jit(lambda x, c: x * c.k)
    for i in range(S.n + 6):
        S.call(g, tt.tensor([1.]), C(i))


@case("cap_environ", "os.environ read inside", EXC_ + "test_raise_from_None")
def _(tt, S):
    key = "_SOUNDNESS_CASES_K"
    g = tt.jit(lambda x: x * float(os.environ.get(key, "1")))
    try:
        for v in [None] * S.n + ["5", "6", None]:
            os.environ.pop(key, None)
            if v:
                os.environ[key] = v
            S.call(g, tt.tensor([1., 2.]))
    finally:
        os.environ.pop(key, None)


@case("cap_kwdefaults_changed", "function.__kwdefaults__ changes between calls", PTI + "178365")
def _(tt, S):
    def h(x, *, k=2):
        return x * k
    g = tt.jit(lambda x: h(x))
    for _i in range(S.n):
        S.call(g, tt.tensor([1.]))
    h.__kwdefaults__["k"] = 50
    S.call(g, tt.tensor([1.]))


@case("cap_module_attribute", "attribute of a module object changes", FUNC + "test_globalmodule")
def _(tt, S):
    mod = types.ModuleType("fakecfg")
    mod.k = 2.
    g = tt.jit(lambda x: x * mod.k)
    for k in [2.] * S.n + [3.]:
        mod.k = k
        S.call(g, tt.tensor([1.]))


@case("cap_threadlocal", "threading.local value changes", MISC + "test_thread_local_setattr")
def _(tt, S):
    loc = threading.local()
    loc.k = 2.

    def f(x):
        loc.last = x
        return x * loc.k
    g = tt.jit(f)
    for k in [2.] * S.n + [3.]:
        loc.k = k
        x = tt.tensor([1.])
        S.call(g, x)
        S.obs("last", loc.last is x)


@case("cap_contextvar", "ContextVar value changes", CTX_ + "test_generic_context_manager")
def _(tt, S):
    cv = contextvars.ContextVar("cv", default=2.)
    g = tt.jit(lambda x: x * cv.get())
    for k in [2.] * S.n + [3., 2.]:
        cv.set(k)
        S.call(g, tt.tensor([1.]))


@case("cap_dunder_class_changed", "obj.__class__ reassigned", PTI + "174050")
def _(tt, S):
    class A:
        def k(self):
            return 2

    class B:
        def k(self):
            return 30
    o = A()
    g = tt.jit(lambda x: x * o.k())
    for _i in range(S.n):
        S.call(g, tt.tensor([1.]))
    o.__class__ = B
    S.call(g, tt.tensor([1.]))


@case("cap_same_weight_two_names", "tied weights: one tensor under two names", TRC + "test_shared_param", needs="inplace")
def _(tt, S):
    m = types.SimpleNamespace()
    m.a = m.b = tt.tensor([2.], requires_grad=True)
    g = tt.jit(lambda x: x * m.a + m.b)
    for _i in range(S.n):
        S.vjp(g, tt.tensor([3.]), wrt=[m.a])
    m.b = tt.tensor([5.], requires_grad=True)
    S.vjp(g, tt.tensor([3.]), wrt=[m.a, m.b])
    with tt.no_grad():
        m.a += 1
    S.vjp(g, tt.tensor([3.]), wrt=[m.a, m.b])
