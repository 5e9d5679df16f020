"""Writes, views, and memory that has several names."""

from corpus.registry import AOT, AUTF, GLOB, JAX, MISC, MODS, PTI, REPRO, TRC, case, category


category("mutation_aliasing")


@case("mut_iadd_visible", "x += 1 on an argument is visible to the caller", AOT + "test_input_mutation_simple", needs="inplace")
def _(tt, S):
    def f(x):
        x += 1
        return x * 2
    g = tt.jit(f)
    x = tt.tensor([1., 2.])
    for _i in range(S.n + 1):
        o = S.call(g, x)
        S.obs("x", x)
        S.obs("alias", o is x)


@case("mut_setitem_visible", "x[0] = 5 on an argument", MISC + "test_inplace", needs="inplace")
def _(tt, S):
    def f(x, v):
        x[0] = v
        return x.sum()
    g = tt.jit(f)
    for v in [5.] * S.n + [7., 9.]:
        x = tt.tensor([1., 2., 3.])
        S.call(g, x, v)
        S.obs("x", x)


@case("mut_mul_returns_self", "x.mul_(2) returns the very same object", REPRO + "test_vc_bumped_in_inference_graph", needs="inplace")
def _(tt, S):
    g = tt.jit(lambda x: x.mul_(2))
    x = tt.tensor([1., 2.])
    for _i in range(S.n + 1):
        o = S.call(g, x)
        S.obs("same", o is x)
    S.obs("x", x)


@case("mut_row_view", "y = x[0]; y += 1 changes x", AOT + "test_input_mutation_and_output_view", needs="inplace views")
def _(tt, S):
    def f(x):
        y = x[0]
        y += 1
        return x.sum()
    g = tt.jit(f)
    for _i in range(S.n + 1):
        x = tt.tensor([[1., 2.], [3., 4.]])
        S.call(g, x)
        S.obs("x", x)


@case("mut_reshape_view", "reshape(-1) of a contiguous tensor is a view", AOT + "test_input_output_view_simple", needs="inplace views")
def _(tt, S):
    def f(x):
        y = x.reshape(-1)
        y[1] = 77.
        return x * 1
    g = tt.jit(f)
    for _i in range(S.n + 1):
        x = tt.tensor([[1., 2.], [3., 4.]])
        S.call(g, x)
        S.obs("x", x)


@case("mut_transpose_view", "x.T[0, 1] = v writes x[1, 0]", AOT + "test_input_mutation_output_view_multiple", needs="inplace views")
def _(tt, S):
    def f(x):
        t = x.T
        t[0, 1] = -1.
        return t.sum() + x[1, 0]
    g = tt.jit(f)
    for _i in range(S.n + 1):
        x = tt.tensor([[1., 2.], [3., 4.]])
        S.call(g, x)
        S.obs("x", x)


@case("mut_same_arg_twice", "f(a, a) with a += b inside", AOT + "test_input_mutation_aliases_other_input", needs="inplace")
def _(tt, S):
    def f(a, b):
        a += b
        return a * b
    g = tt.jit(f)
    for _i in range(S.n):
        a, b = tt.tensor([1., 2.]), tt.tensor([3., 4.])
        S.call(g, a, b)
    a = tt.tensor([1., 2.])
    S.call(g, a, a)
    S.obs("a", a)
    S.call(g, a, tt.tensor([1., 1.]))
    S.obs("a", a)


@case("mut_view_of_captured", "argument is a view of a captured tensor", PTI + "93363", needs="inplace views")
def _(tt, S):
    w = tt.tensor([1., 2., 3., 4.])

    def f(x):
        x *= 2
        return w + 0
    g = tt.jit(f)
    for _i in range(S.n):
        S.call(g, tt.tensor([1., 1.]))
    S.call(g, w[1:3])
    S.call(g, w[::2])
    S.obs("w", w)


@case("mut_returned_view_of_input", "caller mutates a returned view: input changes", AOT + "test_input_output_view_simple", needs="inplace views")
def _(tt, S):
    g = tt.jit(lambda x: x[1:])
    for _i in range(S.n + 1):
        x = tt.tensor([1., 2., 3.])
        v = S.call(g, x)
        v[0] = 50.
        S.obs("x", x)


@case("mut_returned_input", "caller mutates a returned input", JAX + "test_forwarding_bug", needs="inplace")
def _(tt, S):
    g = tt.jit(lambda x, y: (x, x + y))
    for _i in range(S.n + 1):
        x = tt.tensor([1., 2.])
        o, _s = S.call(g, x, tt.tensor([1., 1.]))
        o += 5
        S.obs("x", x)


@case("mut_returned_detach", "detach() shares memory with its source", AOT + "test_output_aliases_intermediate_single", needs="inplace views")
def _(tt, S):
    def f(x):
        y = x * 2
        return y, y.detach()
    g = tt.jit(f)
    for _i in range(S.n + 1):
        y, d = S.call(g, tt.tensor([1., 2.], requires_grad=True))
        d[0] = 70.
        S.obs("y", y)


@case("mut_two_outputs_alias", "two returned views of one intermediate share memory", AOT + "test_output_aliases_intermediate_single", needs="inplace views")
def _(tt, S):
    def f(x):
        y = x + 1
        return y[0], y
    g = tt.jit(f)
    for _i in range(S.n + 1):
        a, b = S.call(g, tt.tensor([[1., 2.], [3., 4.]]))
        b[0] = 9.
        S.obs("a", a)


@case("mut_leaf_requires_grad", "in-place on a leaf that requires grad must refuse", AUTF + "test_mark_dirty_on_view_preserves_error", needs="inplace version_check")
def _(tt, S):
    def f(x):
        x += 1
        return x.sum()
    g = tt.jit(f)
    for _i in range(S.n):
        S.call(g, tt.tensor([1., 2.]))
    x = tt.tensor([1., 2.], requires_grad=True)
    S.lib(g, x)
    S.obs("x", x)
    S.call(g, tt.tensor([1., 2.]))


@case("mut_no_grad_param_update", "in-place update of a leaf under no_grad (SGD)", MISC + "test_inplace_param_update", needs="inplace")
def _(tt, S):
    def f(p, gr):
        with tt.no_grad():
            p -= 0.1 * gr
        return p
    g = tt.jit(f)
    p = tt.tensor([1., 2.], requires_grad=True)
    for _i in range(S.n + 2):
        o = S.call(g, p, tt.tensor([1., 1.]))
        S.obs("same", o is p)


@case("mut_intermediate_iadd_grad", "y = x*2; y += 3; y *= y: gradient through in-place", TRC + "test_inplace_transplant", needs="inplace")
def _(tt, S):
    def f(x):
        y = x * 2
        y += 3
        z = y * x
        return z
    S.runs(tt.jit(f), ([1., 2.],), ([3., 4.],), grad=True)


@case("mut_setitem_grad_zero", "y[0] = 0 cuts the gradient of that element", TRC + "test_trace_indexed_assignment", needs="inplace")
def _(tt, S):
    def f(x):
        y = x * 2
        y[0] = 0.
        return y * y
    S.runs(tt.jit(f), ([1., 2.],), ([3., 4.],), grad=True)


@case("mut_rebind_vs_inplace", "x = x + 1 does not touch the argument, x += 1 does", MISC + "test_inplace", needs="inplace")
def _(tt, S):
    def f(x, y):
        x = x + 1
        y += 1
        return x + y
    g = tt.jit(f)
    for _i in range(S.n + 1):
        x, y = tt.tensor([1.]), tt.tensor([1.])
        S.call(g, x, y)
        S.obs("xy", (x, y))


@case("mut_out_argument", "out[:] = result, returns None", TRC + "test_inplace_copy", needs="inplace")
def _(tt, S):
    def f(x, out):
        out[:] = x * 2 + 1
    g = tt.jit(f)
    out = tt.zeros(2)
    for v in [1.] * S.n + [5.]:
        S.call(g, tt.tensor([v, 2.]), out)
        S.obs("out", out)


@case("mut_accumulator", "acc += x over many calls, read by the caller", MODS + "test_self_mutating1", needs="inplace")
def _(tt, S):
    acc = tt.zeros(2)

    def f(x):
        nonlocal acc
        acc += x
        return acc.sum()
    g = tt.jit(f)
    for i in range(S.n + 3):
        S.call(g, tt.tensor([float(i), 1.]))
        S.obs("acc", acc)


@case("mut_buffer_then_rebind", "self.cache is mutated, then rebound by the caller", PTI + "115774", needs="inplace")
def _(tt, S):
    class M:
        def __init__(self):
            self.cache = tt.zeros(2)

        def step(self, x, pos):
            self.cache[pos] = x
            return self.cache + 0
    m = M()
    g = tt.jit(m.step)
    for _i in range(S.n):
        S.call(g, 2., 0)
    m.cache = tt.zeros(2)
    S.call(g, 1., 1)
    S.obs("cache", m.cache)


@case("mut_attr_rebound_inside", "self.buf = self.buf * self.buf dropped by naive tracers", PTI + "140539")
def _(tt, S):
    class M:
        def __init__(self):
            self.acc = tt.zeros(1)

        def __call__(self, x):
            self.acc = self.acc + x
            out = self.acc * 2
            self.acc = self.acc * self.acc
            return out
    m = M()
    g = tt.jit(lambda x: m(x))
    for _i in range(S.n + 2):
        S.call(g, tt.tensor([1.]))
    S.obs("acc", m.acc)


@case("mut_int_iadd_float_error", "int tensor += float must raise, then int works", MISC + "test_inplace", needs="inplace")
def _(tt, S):
    def f(x, v):
        x += v
        return x
    g = tt.jit(f)
    for _i in range(S.n):
        S.call(g, tt.tensor([1., 2.]), 1.5)
    S.lib(g, tt.tensor([1, 2]), 1.5)
    S.call(g, tt.tensor([1, 2]), 1)


@case("mut_list_of_tensors_elem", "lst[0] *= 2 through a list argument", REPRO + "test_slice_into_list_mutable", needs="inplace")
def _(tt, S):
    def f(lst):
        lst[0] *= 2
        lst[1] = lst[1] * 3
        return lst[0] + lst[1]
    g = tt.jit(f)
    for _i in range(S.n + 1):
        a, b = tt.tensor([1.]), tt.tensor([2.])
        lst = [a, b]
        S.call(g, lst)
        S.obs("state", (a, b, lst, lst[0] is a, lst[1] is b))


@case("mut_dict_ops", "setitem, pop, update, setdefault on a dict argument", MISC + "test_dict_mutation_side_effect")
def _(tt, S):
    def f(d):
        d["c"] = d["a"] + d.pop("b")
        d.update(z=d["c"] * 2)
        d.setdefault("q", d["a"])
        return d
    g = tt.jit(f)
    for v in [1.] * S.n + [4.]:
        d = {"a": tt.tensor([v]), "b": tt.tensor([2.])}
        o = S.call(g, d)
        S.obs("d", (d, o is d, d["q"] is d["a"]))


@case("mut_nested_list", "mutation deep inside nested containers", MISC + "test_recursive_inline_list_mutation")
def _(tt, S):
    def f(d, x):
        d["a"][1].append(x * 2)
        d["a"][0]["n"] += 1
        return d["a"][0]["n"]
    g = tt.jit(f)
    d = {"a": [{"n": 0}, []]}
    for i in range(S.n + 2):
        S.call(g, d, tt.tensor([float(i)]))
    S.obs("d", d)


@case("mut_list_iadd_argument", "a += [b] mutates, a = a + [b] does not", MISC + "test_list_iadd_side_effect")
def _(tt, S):
    def f(a, b, x):
        a += [x]
        b = b + [x]
        return len(a) + len(b)
    g = tt.jit(f)
    a, b = [], []
    for i in range(S.n + 1):
        S.call(g, a, b, tt.tensor([float(i)]))
    S.obs("ab", (a, b))


@case("mut_object_attr_of_arg", "sets attributes on an argument object", MISC + "test_setattr_mutation1")
def _(tt, S):
    class O:
        pass

    def f(o, x):
        o.last = x * 2
        o.count = getattr(o, "count", 0) + 1
        return o.last + o.count
    g = tt.jit(f)
    o = O()
    for i in range(S.n + 2):
        S.call(g, o, tt.tensor([float(i)]))
        S.obs("o", (o.last, o.count))


@case("mut_by_local_class_method", "method of a class defined outside but instantiated inside mutates a closure list", PTI + "197896")
def _(tt, S):
    log, d = [], {"n": 0}

    class Helper:
        def touch(self, x):
            log.append(tuple(x.shape))
            d["n"] += 1
            return x * 2

    def f(x):
        return Helper().touch(x) + 1
    g = tt.jit(f)
    for _i in range(S.n + 2):
        S.call(g, tt.tensor([1., 2.]))
    S.obs("log", (log, d))


@case("mut_global_rebound_inside", "global counter and global tensor are stored", GLOB + "test_store_global_1")
def _(tt, S):
    ns = {"k": 1, "last": None}
    exec("def f(x):\n    global k, last\n    v = x + k\n    k += 1\n    last = v * 2\n    return v\n", ns)
    g = tt.jit(ns["f"])
    for i in range(S.n + 2):
        S.call(g, tt.tensor([float(i)]))
        S.obs("k", (ns["k"], ns["last"]))


@case("mut_nonlocal_counter", "nonlocal int counter increments once per call", MISC + "test_write_to_closures_in_inlining")
def _(tt, S):
    n = 0

    def f(x):
        nonlocal n
        n += 1
        return x * n
    g = tt.jit(f)
    for _i in range(S.n + 3):
        S.call(g, tt.tensor([1., 2.]))
        S.obs("n", n)


@case("mut_between_calls_view_base", "caller mutates the base between calls", AOT + "test_input_mutation_simple", needs="inplace views")
def _(tt, S):
    base = tt.tensor([1., 2., 3., 4.])
    v = base[1:3]
    g = tt.jit(lambda x: x * 10)
    for i in range(S.n + 2):
        base[1] = float(i)
        S.call(g, v)


@case("mut_chained_inplace", "x.add_(1).mul_(2) chain on a view", MISC + "test_inplace_view_on_graph_input", needs="inplace views")
def _(tt, S):
    def f(x):
        x[0].add_(1).mul_(3)
        return x.sum()
    g = tt.jit(f)
    for _i in range(S.n + 1):
        x = tt.tensor([[1., 2.], [3., 4.]])
        S.call(g, x)
        S.obs("x", x)


@case("mut_read_after_write_order", "old value read before, new value after the write", AOT + "test_input_mutation_and_output_view", needs="inplace")
def _(tt, S):
    def f(x):
        a = x * 2
        b = x[0] + 0
        x[0] = 100.
        c = x * 2
        return a, b, c
    g = tt.jit(f)
    for v in [1.] * S.n + [3.]:
        S.call(g, tt.tensor([v, 2.]))
