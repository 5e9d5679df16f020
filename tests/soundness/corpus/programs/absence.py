"""What is not there yet or no longer, and precision."""

import functools
import gc
import logging
import types
import weakref

from corpus.registry import EXC_, GLOB, JAX, MISC, MODS, REPRO, UNSP, case, category


category("absence_and_precision")


@case("abs_dict_get", "d.get(k, default): the key appears later", EXC_ + "test_key_error")
def _(tt, S):
    d = {"a": 1}
    g = tt.jit(lambda x: x * d.get("b", 2))
    for _i in range(S.n):
        S.call(g, tt.tensor([1.]))
    d["b"] = 50
    S.call(g, tt.tensor([1.]))
    del d["b"]
    S.call(g, tt.tensor([1.]))


@case("abs_in_dict_and_set", "`k in d` / `k in s` turns true later", MODS + "test_nn_moduledict_contains")
def _(tt, S):
    d, s = {"a": 1}, {1, 2}
    g = tt.jit(lambda x: x * (10 if "b" in d else 2) + (5 if 7 in s else 0))
    for _i in range(S.n):
        S.call(g, tt.tensor([1.]))
    d["b"] = 1
    S.call(g, tt.tensor([1.]))
    s.add(7)
    S.call(g, tt.tensor([1.]))
    d.clear()
    s.discard(7)
    S.call(g, tt.tensor([1.]))


@case("abs_global_defined_later", "NameError is caught until the global gets defined", GLOB + "test_store_global_new")
def _(tt, S):
    ns = {}
    exec("def f(x):\n    try:\n        k = LATER\n    except NameError:\n        k = 2\n    return x * k\n", ns)
    g = tt.jit(ns["f"])
    for _i in range(S.n):
        S.call(g, tt.tensor([1.]))
    ns["LATER"] = 70
    S.call(g, tt.tensor([1.]))
    del ns["LATER"]
    S.call(g, tt.tensor([1.]))


@case("abs_attribute_error_caught", "AttributeError is caught until the attribute exists", EXC_ + "test_atrribute_error")
def _(tt, S):
    m = types.SimpleNamespace()

    def f(x):
        try:
            return x * m.k
        except AttributeError:
            return x * 2
    g = tt.jit(f)
    for _i in range(S.n):
        S.call(g, tt.tensor([1.]))
    m.k = 9.
    S.call(g, tt.tensor([1.]))
    del m.k
    S.call(g, tt.tensor([1.]))


@case("abs_class_gets_method", "hasattr(obj, name) turns true because the class got a method", REPRO + "test_hasattr_builtin")
def _(tt, S):
    class M:
        pass
    m = M()
    g = tt.jit(lambda x: m.act(x) if hasattr(m, "act") else x * 2)
    for _i in range(S.n):
        S.call(g, tt.tensor([1.]))
    M.act = lambda self, x: x * 30
    S.call(g, tt.tensor([1.]))
    del M.act
    S.call(g, tt.tensor([1.]))


@case("abs_list_index_error", "IndexError is caught until the list is long enough", EXC_ + "test_stop_iteration")
def _(tt, S):
    ks = [3.]

    def f(x):
        try:
            return x * ks[1]
        except IndexError:
            return x * ks[0]
    g = tt.jit(f)
    for _i in range(S.n):
        S.call(g, tt.tensor([1.]))
    ks.append(40.)
    S.call(g, tt.tensor([1.]))
    ks.pop()
    S.call(g, tt.tensor([1.]))


@case("abs_logger_level", "logger.isEnabledFor() steers the computation", "pytorch test/dynamo/test_reorder_logs.py")
def _(tt, S):
    lg = logging.getLogger("soundness_cases.level")
    lg.setLevel(logging.ERROR)
    g = tt.jit(lambda x: x * 100 if lg.isEnabledFor(logging.DEBUG) else x * 2)
    for lv in [logging.ERROR] * S.n + [logging.DEBUG, logging.ERROR]:
        lg.setLevel(lv)
        S.call(g, tt.tensor([1.]))


@case("abs_cached_property", "functools.cached_property computed once, then invalidated", MODS + "test_module_property")
def _(tt, S):
    log = []

    class M:
        k = 2.

        @functools.cached_property
        def scale(self):
            log.append(self.k)
            return self.k * 10
    m = M()
    g = tt.jit(lambda x: x * m.scale)
    for _i in range(S.n):
        S.call(g, tt.tensor([1.]))
    m.k = 3.
    S.call(g, tt.tensor([1.]))
    del m.scale
    S.call(g, tt.tensor([1.]))
    S.obs("log", log)


@case("abs_f64_closure_scalar", "float64 data with closure, item and attribute scalars at full precision", UNSP + "test_unspec_float_precision")
def _(tt, S):
    m = types.SimpleNamespace(k=0.1)
    g = tt.jit(lambda x: (x * m.k - 0.1) * 1e12)
    h = tt.jit(lambda x, y: (x * y.item() - 0.1) * 1e12)
    for k in [0.1] * S.n + [0.1 + 1e-13]:
        m.k = k
        S.call(g, tt.tensor([1., 1.], dtype=tt.float64))
        S.call(h, tt.tensor([1., 1.], dtype=tt.float64), tt.tensor(k, dtype=tt.float64))


@case("abs_python_float_result", "Python float argument returned and used in Python arithmetic keeps 53 bits", UNSP + "test_unspec_float_precision")
def _(tt, S):
    g = tt.jit(lambda x, k: (x + 1, (k - 0.1) * 1e17, k == 0.1))
    S.runs(g, ([1.], 0.1), ([1.], 0.1 + 2 ** -55), ([1.], 0.3 - 0.2))


@case("abs_big_int_scalar_times_float", "int scalar above 2**24 with a float64 tensor", JAX + "test_large_python_ints")
def _(tt, S):
    g = tt.jit(lambda x, k: x * k - k + 1)
    for k in [2 ** 24] * S.n + [2 ** 24 + 1, 2 ** 53 - 1, -2 ** 31 - 1]:
        S.call(g, tt.tensor([1., 2.], dtype=tt.float64), k)


@case("abs_input_released_after_backward", "input and saved values are free after backward", MISC + "test_release_input_memory")
def _(tt, S):
    g = tt.jit(lambda x: (tt.exp(x) * x).sum())
    for _i in range(S.n + 1):
        x = tt.tensor([1., 2.], requires_grad=True)
        r = weakref.ref(x)
        y = g(x)
        y.backward()
        del x, y
        gc.collect()
        S.obs("freed", r() is None)


@case("abs_input_released_after_error", "input is not kept alive by a failed call", JAX + "test_jit_reference_dropping")
def _(tt, S):
    def f(x, bad):
        y = x * 2
        if bad:
            raise ValueError("bad")
        return y
    g = tt.jit(f)
    for b in [False] * S.n + [True, False]:
        x = tt.tensor([1., 2.])
        r = weakref.ref(x)
        try:
            g(x, b)
        except ValueError:
            pass
        del x
        gc.collect()
        S.obs("freed", r() is None)
