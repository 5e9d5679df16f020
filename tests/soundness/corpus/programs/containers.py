"""Lists, dicts, tuples and objects of tensors, as arguments and as results."""

import dataclasses
from collections import namedtuple

from corpus.registry import D, EXPO, FUNC, JAX, MISC, PTI, TRC, case, category


category("containers")
Pt = namedtuple("Pt", "x y")


@dataclasses.dataclass
class Box:
    w: object
    scale: float = 1.0


@case("pt_dict_arg_order", "dict argument whose insertion order changes", TRC + "test_input_dict_insertion_order")
def _(tt, S):
    def f(d):
        out = None
        for k in d:
            out = d[k] * 2 if out is None else out - d[k]
        return out
    g = tt.jit(f)
    a, b = tt.tensor([1.]), tt.tensor([5.])
    for d in [{"a": a, "b": b}] * S.n + [{"b": b, "a": a}, {"a": a}, {"a": a, "b": b, "c": a}, {"a": a, "b": b}]:
        S.call(g, d)


@case("pt_dict_missing_key", "KeyError must surface, and a later good call must work", TRC + "test_input_dict_remembers_keys")
def _(tt, S):
    g = tt.jit(lambda d: d["x"] * 2)
    x = tt.tensor([1., 2.])
    for d in [{"x": x}] * S.n + [{"y": x}, {"x": x, "y": x}, {"x": x}]:
        S.call(g, d)


@case("pt_nested_containers", "dict of lists of tuples in, same shape out", TRC + "test_input_dict_of_lists")
def _(tt, S):
    def f(d):
        return {k: [(a + b, a * b) for a, b in v] for k, v in d.items()}
    g = tt.jit(f)
    for s in [1.] * S.n + [2., 3.]:
        x = tt.tensor([s, 2.], requires_grad=True)
        y = tt.tensor([3., s], requires_grad=True)
        S.vjp(g, {"p": [(x, y)], "q": [(y, y), (x, x)]})


@case("pt_tuple_vs_list", "isinstance(list) branch: tuple and list of equal content", MISC + "test_size_input")
def _(tt, S):
    def f(x, s):
        return x + len(s) if isinstance(s, list) else x - len(s)
    S.runs(tt.jit(f), ([1.], D(lambda: [1, 2])), ([1.], (1, 2)), ([1.], D(lambda: [1, 2, 3])))


@case("pt_namedtuple_vs_tuple", "branch on type(p) is tuple", TRC + "test_trace_namedtuple")
def _(tt, S):
    def f(p):
        if type(p) is tuple:
            return p[0] - p[1]
        return p.x + p.y
    g = tt.jit(f)
    a, b = tt.tensor([1.]), tt.tensor([2.])
    for p in [Pt(a, b)] * S.n + [(a, b), Pt(a, b)]:
        S.call(g, p)


@case("pt_dataclass_arg", "dataclass with tensor and float field; float changes", MISC + "test_object_setattr")
def _(tt, S):
    def f(b, x):
        return x * b.w * b.scale
    g = tt.jit(f)
    for s in [1.] * S.n + [2., 1.]:
        S.vjp(g, Box(tt.tensor([2.], requires_grad=True), s), tt.tensor([3.], requires_grad=True))


@case("pt_dataclass_return", "returns a fresh dataclass", MISC + "test_object_setattr")
def _(tt, S):
    g = tt.jit(lambda x, s: Box(x + 1, s * 2))
    S.runs(g, ([1.], 2.), ([2.], 3.), grad=True)


@case("pt_returns_none", "function returns None", MISC + "test_cell_output1")
def _(tt, S):
    def f(x):
        y = x + 1                                        # noqa: F841
    S.runs(tt.jit(f), ([1.],), ([2.],))


@case("pt_returns_mixed", "returns tensor, None, int, str, float and bool together", EXPO + "test_dupes_and_bypass_with_non_tensor_output")
def _(tt, S):
    def f(x, k):
        return x * k, None, k, "s" * k, k / 2, k > 1, (x, [k])
    S.runs(tt.jit(f), ([1.], 1), ([1.], 2), ([2.], 3))


@case("pt_return_input_identity", "returning the argument itself keeps identity", JAX + "test_jit_forwarding_correctness")
def _(tt, S):
    g = tt.jit(lambda x, y: (y, x + y, x))
    for _i in range(S.n + 1):
        x, y = tt.tensor([1., 2.]), tt.tensor([3., 4.])
        o = S.call(g, x, y)
        S.obs("id", (o[0] is y, o[2] is x))


@case("pt_two_equal_results", "two separately computed equal tensors are two objects", PTI + "114338 (CSE aliases distinct outputs)")
def _(tt, S):
    g = tt.jit(lambda x: (x + 1, x + 1))
    for _i in range(S.n + 1):
        a, b = S.call(g, tt.tensor([1., 2.]))
        S.obs("distinct", a is b)
        a[0] = 99.
        S.obs("b", b)


@case("pt_range_argument", "range object as an argument", MISC + "test_range_input")
def _(tt, S):
    def f(x, r):
        for i in r:
            x = x * 2 + i
        return x
    S.runs(tt.jit(f), ([1.], range(2)), ([1.], range(3)), ([1.], range(4, 0, -2)), ([1.], range(0)))


@case("pt_object_with_getitem", "user class with __len__/__getitem__ iterated by old protocol", FUNC + "test_len_constant_misc_iterables")
def _(tt, S):
    class Seq:
        def __init__(self, k):
            self.k = k

        def __len__(self):
            return self.k

        def __getitem__(self, i):
            if i >= self.k:
                raise IndexError
            return float(i + 1)

    def f(x, s):
        for v in s:
            x = x * v
        return x + len(s)
    g = tt.jit(f)
    for k in [2] * S.n + [3, 0, 2]:
        S.call(g, tt.tensor([1., 2.]), Seq(k))


@case("pt_key_types", "dict keys 1, '1' and True-like are kept apart", FUNC + "test_dict_param_keys")
def _(tt, S):
    def f(d, x):
        return x * d.get(1, 10) + d.get("1", 20)
    g = tt.jit(f)
    for d in [{1: 2}] * S.n + [{"1": 3}, {1: 2, "1": 3}, {True: 4}, {1.0: 5}, {1: 2}]:
        S.call(g, d, tt.tensor([1.]))


@case("pt_same_tensor_in_two_slots", "list holds one tensor twice: gradient accumulates", TRC + "test_repeated_input")
def _(tt, S):
    def f(xs):
        return xs[0] * xs[1]
    g = tt.jit(f)
    for _i in range(S.n):
        S.vjp(g, [tt.tensor([2.], requires_grad=True), tt.tensor([3.], requires_grad=True)])
    a = tt.tensor([2.], requires_grad=True)
    S.vjp(g, [a, a], wrt=[a])
    b = tt.tensor([3.], requires_grad=True)
    S.vjp(g, [a, b], wrt=[a, b])


@case("pt_returned_dict_view", "list built from dict views after insertion", MISC + "test_dict_reconstruct_keeps_original_order")
def _(tt, S):
    def f(x):
        d = {"c": x, "a": x + 1}
        d["b"] = x + 2
        d["c"] = d.pop("c")
        return list(d), list(d.values())
    S.runs(tt.jit(f), ([1.],), ([2.],))


@case("pt_returns_lambda", "returns a closure over a computed tensor", MISC + "test_return_nested_function")
def _(tt, S):
    def f(x):
        y = x * 2
        return lambda z: y + z
    g = tt.jit(f)
    for s in [1.] * S.n + [5.]:
        h = S.call(g, tt.tensor([s]))
        S.call(h, tt.tensor([10.]))


@case("pt_tuple_unpack_star", "a, *rest, z = tensors", FUNC + "test_unpack_ex1")
def _(tt, S):
    def f(*xs):
        a, *rest, z = xs
        for r in rest:
            a = a * r
        return a + z
    S.runs(tt.jit(f), ([1.], [2.], [3.]), ([1.], [2.]), ([1.], [2.], [3.], [4.]), grad=True)
