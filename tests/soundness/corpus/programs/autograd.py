"""Gradients."""

import numpy as np

from corpus.registry import AOT, HOOK, JAX, JAXM, MISC, MODS, REPRO, TRC, case, category


category("autograd")


@case("ad_basic_composite", "matmul, tanh, mean, broadcasted bias: all gradients", TRC + "test_ge_unoptimized")
def _(tt, S):
    W = tt.tensor([[.5, -.2, .1], [.3, .8, -.6]], requires_grad=True)
    b = tt.tensor([.1, .2, .3], requires_grad=True)
    g = tt.jit(lambda x: (tt.tanh(tt.matmul(x, W) + b) ** 2).mean())
    for v in [1.] * S.n + [2.]:
        x = tt.tensor([[v, 2.], [3., v]], requires_grad=True)
        S.vjp(g, x, wrt=[x, W, b])


@case("ad_accumulate_across_calls", ".grad accumulates over calls until cleared", TRC + "test_repeated_input")
def _(tt, S):
    w = tt.tensor([2., 3.], requires_grad=True)
    g = tt.jit(lambda x: (x * w).sum())
    for i in range(S.n + 3):
        g(tt.tensor([1., float(i)])).backward()
        S.obs("w.grad", w.grad)
    w.grad = None
    g(tt.tensor([1., 1.])).backward()
    S.obs("w.grad", w.grad)


@case("ad_double_backward", "create_graph: second derivative through the jitted function", TRC + "test_ge", needs="double_backward")
def _(tt, S):
    g = tt.jit(lambda x: (tt.tanh(x) * x * x).sum())
    for v in [.5] * S.n + [1.]:
        x = tt.tensor([v, 2.], requires_grad=True)
        y = S.call(g, x)
        (d1,) = tt.grad(y, [x], create_graph=True)
        S.obs("d1", d1.detach())
        (d1 * d1).sum().backward()
        S.obs("d2", x.grad)


@case("ad_maml_inner_step", "inner gradient step inside, outer gradient outside", REPRO + "test_maml_no_item_capture", needs="double_backward")
def _(tt, S):
    w = tt.tensor([.5, -.3], requires_grad=True)

    def f(x, y):
        inner = ((x * w).sum() - y) ** 2
        (d,) = tt.grad(inner, [w], create_graph=True)
        w2 = w - 0.1 * d
        return ((x * w2).sum() - y) ** 2
    g = tt.jit(f)
    for v in [1.] * S.n + [2.]:
        S.vjp(g, tt.tensor([v, 2.]), v, wrt=[w])


@case("ad_partial_inputs", "only some inputs need gradients; unused input gets None", MODS + "test_parameters3")
def _(tt, S):
    g = tt.jit(lambda a, b, c: a * b)
    for m in [(1, 1, 1)] * S.n + [(1, 0, 1), (0, 1, 0), (1, 1, 1)]:
        ts = [tt.tensor([2.], requires_grad=bool(k)) for k in m]
        S.vjp(g, *ts)


@case("ad_vector_gradient_argument", "y.backward(v) with explicit cotangent", HOOK + "test_tensor_only_register_hook_in_graph_lambda")
def _(tt, S):
    g = tt.jit(lambda x: x * x)
    for v in [1.] * S.n + [3.]:
        x = tt.tensor([1., 2.], requires_grad=True)
        y = S.call(g, x)
        y.backward(tt.tensor([v, 10.]))
        S.obs("grad", x.grad)
    S.lib(lambda: g(tt.tensor([1., 2.], requires_grad=True)).backward())


@case("ad_hook_on_input", "hook on the argument sees and changes the gradient", HOOK + "test_tensor_only_register_hook_in_graph_lambda", needs="hooks")
def _(tt, S):
    seen = []
    g = tt.jit(lambda x: (x * 3).sum())
    for k in range(S.n + 1):
        x = tt.tensor([1., 2.], requires_grad=True)
        x.register_hook(lambda gr: seen.append(float(gr.sum())))
        x.register_hook(lambda gr: gr * 2)
        g(x).backward()
        S.obs("grad", x.grad)
    S.obs("seen", seen)


@case("ad_hook_calls_jitted", "hook calls the jitted function again (re-entrancy)", HOOK + "test_tensor_register_global_hook", needs="hooks")
def _(tt, S):
    g = tt.jit(lambda x: x * 3 + 1)
    for v in [1.] * S.n + [2.]:
        x = tt.tensor([v], requires_grad=True)
        y = g(x)
        y.register_hook(lambda gr: g(gr))
        (y * 2).sum().backward()
        S.obs("grad", x.grad)


@case("ad_all_detached", "output that needs no gradient at all", TRC + "test_trace_detach_redispatch")
def _(tt, S):
    def f(x):
        y = x * 2
        assert y.requires_grad == x.requires_grad
        return y.detach()
    S.runs(tt.jit(f), ([1., 2.],), ([3., 4.],), grad=True)


@case("ad_same_tensor_as_two_args", "f(x, x): gradient is the sum", TRC + "test_repeated_input")
def _(tt, S):
    g = tt.jit(lambda a, b: a * b + a)
    for _i in range(S.n):
        S.vjp(g, tt.tensor([2.], requires_grad=True), tt.tensor([3.], requires_grad=True))
    x = tt.tensor([4.], requires_grad=True)
    S.vjp(g, x, x, wrt=[x])
    S.vjp(g, tt.tensor([2.], requires_grad=True), tt.tensor([3.], requires_grad=True))


@case("ad_backward_inside", "loss.backward() inside the jitted train step", MISC + "test_grad")
def _(tt, S):
    w = tt.tensor([2., 3.], requires_grad=True)

    def step(x):
        w.grad = None
        loss = ((x * w) ** 2).sum()
        loss.backward()
        return loss.detach(), w.grad * 1
    g = tt.jit(step)
    for v in [1.] * S.n + [2., 3.]:
        S.call(g, tt.tensor([v, 1.]))
        S.obs("w.grad", w.grad)


@case("ad_grad_read_inside", ".grad of an argument read inside", MISC + "test_source_non_input_grad_access")
def _(tt, S):
    g = tt.jit(lambda x: x.detach() - 0.1 * x.grad if x.grad is not None else x.detach())
    for k in [1] * S.n + [0, 1]:
        x = tt.tensor([1., 2.], requires_grad=True)
        if k:
            (x * x).sum().backward()
        S.call(g, x)


@case("ad_grad_assigned_inside", ".grad assigned inside", REPRO + "test_grad")
def _(tt, S):
    def f(x, y):
        x.grad = y + 1
        return x.grad * 2
    g = tt.jit(f)
    for v in [1.] * S.n + [2.]:
        x = tt.tensor([1., 2.], requires_grad=True)
        S.call(g, x, tt.tensor([v, v]))
        S.obs("grad", x.grad)


@case("ad_zero_grad_none_vs_zero", "grad None, zeros, and accumulation", MISC + "test_intermediary_tensor_grad_access", needs="inplace")
def _(tt, S):
    w = tt.tensor([2.], requires_grad=True)
    g = tt.jit(lambda x: (x * w).sum())
    for mode in ["none"] * S.n + ["keep", "zero", "none"]:
        if mode == "none":
            w.grad = None
        elif mode == "zero":
            w.grad.mul_(0)
        g(tt.tensor([3.])).backward()
        S.obs("grad", w.grad)


@case("ad_weight_changed_before_backward", "weight updated in place between forward and backward must raise", REPRO + "test_data_attr_mutation_after_saved_for_bw", needs="inplace version_check")
def _(tt, S):
    w = tt.tensor([2.], requires_grad=True)
    g = tt.jit(lambda x: (x * w).sum())
    for k in [0] * S.n + [1, 0]:
        x = tt.tensor([3.], requires_grad=True)
        y = g(x)
        if k:
            with tt.no_grad():
                w += 1
            S.lib(y.backward)
        else:
            S.call(y.backward)
        S.obs("x.grad", x.grad)


@case("ad_output_mutated_before_backward", "caller mutates an output that backward needs", AOT + "test_output_aliases_intermediate_single", needs="inplace version_check")
def _(tt, S):
    g = tt.jit(lambda x: tt.exp(x))
    for _i in range(S.n + 1):
        x = tt.tensor([1., 2.], requires_grad=True)
        y = g(x)
        y += 1
        S.lib(lambda: y.sum().backward())


@case("ad_hidden_state_bptt", "hidden state carried over calls, detached each second call", "pytorch test/dynamo/test_misc.py::test_nested_closure_mutation")
def _(tt, S):
    w = tt.tensor([.5], requires_grad=True)
    st = {"h": tt.tensor([0.])}

    def cell(x):
        st["h"] = tt.tanh(st["h"] * w + x)
        return st["h"]
    g = tt.jit(cell)
    for i in range(2 * S.n + 2):
        y = S.call(g, tt.tensor([.1 * i]))
        if i % 2:
            w.grad = None
            y.sum().backward()
            S.obs("grad", w.grad)
            st["h"] = st["h"].detach()


@case("ad_recompute_in_backward", "same jitted function recomputed under a fresh graph (checkpoint style)", JAX + "test_remat_basic")
def _(tt, S):
    g = tt.jit(lambda x: tt.tanh(x * 2) * x)
    for v in [1.] * S.n + [2.]:
        x = tt.tensor([v, .5], requires_grad=True)
        with tt.no_grad():
            y0 = g(x)
        x2 = x.detach().requires_grad_(True)
        y1 = g(x2)
        y1.backward(y0 * 0 + 2.0)
        S.obs("grad", (y0, x2.grad))


@case("ad_integer_output_no_grad", "integer and bool outputs are not differentiable", JAX + "test_grad_of_int")
def _(tt, S):
    g = tt.jit(lambda x: (x * 2, (x > 1), (x * 3).to(tt.int64)))
    S.runs(g, ([1., 2.],), ([3., .4],), grad=True)


@case("ad_grad_flows_past_jit", "jitted block between eager ops on both sides", JAX + "test_grad_of_jit")
def _(tt, S):
    g = tt.jit(lambda x: x * x + 1)
    for v in [1.] * S.n + [2.]:
        x = tt.tensor([v, 2.], requires_grad=True)
        y = tt.exp(g(tt.sigmoid(x)) * 2) + g(x)
        y.sum().backward()
        S.obs("grad", x.grad)


@case("ad_view_output_grad", "gradient through a returned view", AOT + "test_output_aliases_input_multi_output_view", needs="views")
def _(tt, S):
    g = tt.jit(lambda x: (x.reshape(-1), x[0], x.T))
    S.runs(g, ([[1., 2.], [3., 4.]],), ([[5., 6.], [7., 8.]],), grad=True)


@case("ad_size_zero_grad", "gradient of zero-size input", JAX + "test_lax_empty_batching_bug")
def _(tt, S):
    g = tt.jit(lambda x, w: x * w)
    for k in [2] * S.n + [0, 2]:
        S.vjp(g, tt.tensor(np.ones((k, 3), dtype="float32"), requires_grad=True), tt.tensor([1., 2., 3.], requires_grad=True))


@case("ad_grad_mutated_by_user", "user edits .grad between backward calls", JAXM + "test_grad_mutable_array", needs="inplace")
def _(tt, S):
    w = tt.tensor([2., 3.], requires_grad=True)
    g = tt.jit(lambda x: (x * w).sum())
    for i in range(S.n + 2):
        g(tt.tensor([1., 1.])).backward()
        w.grad *= 0.5
        S.obs("grad", w.grad)
