"""Guards that fail when something has been written, printed or counted already."""

import io
import itertools
import random

from corpus.registry import MISC, MODS, PTI, REPRO, SUBG, UNSP, case, category


category("guard_fails_after_side_effect")


def _flip(S, g, mk, extra=lambda: None):
    for v in [1.] * S.n + [-1., 1., -1., -1., 1.]:
        S.call(g, mk(v))
        e = extra()
        if e is not None:
            S.obs("state", e)


@case("rb_append_before_guard", "list append, then a branch that differs from the trace", REPRO + "test_guard_ordering_shape_fail")
def _(tt, S):
    log = []

    def f(x):
        log.append("in")
        if x.sum() > 0:
            log.append("pos")
            return x * 2
        log.append("neg")
        return x * 3
    _flip(S, tt.jit(f), lambda v: tt.tensor([v, 0.]), lambda: list(log))


@case("rb_print_before_guard", "print, then the guard fails: printed once", SUBG + "test_stack_state1")
def _(tt, S):
    def f(x):
        print("start")
        y = x * 2
        if y.sum() > 0:
            print("pos")
        else:
            print("neg", y.shape[0])
        return y
    _flip(S, tt.jit(f), lambda v: tt.tensor([v, 0.]))


@case("rb_python_rng_before_guard", "random.random() drawn before the failing guard", UNSP + "test_random_values_with_graph_break")
def _(tt, S):
    def f(x):
        r = random.random()
        if x.sum() > 0:
            return x * r
        return x - r - random.random()
    _flip(S, tt.jit(f), lambda v: tt.tensor([v, 0.]), lambda: random.getstate()[1][-1])


@case("rb_tensor_rng_before_guard", "tensor RNG drawn before the failing guard", REPRO + "test_rng_state", needs="rng")
def _(tt, S):
    def f(x):
        r = tt.rand(2)
        y = x + r
        if x.sum() > 0:
            return y
        return y * tt.rand(2)
    tt.manual_seed(7)
    _flip(S, tt.jit(f), lambda v: tt.tensor([v, 0.]))
    S.obs("after", tt.rand(3))


@case("rb_next_before_guard", "iterator advanced before the failing guard", SUBG + "test_restore_range_iter")
def _(tt, S):
    it = itertools.count()

    def f(x):
        k = next(it)
        return x + k if x.sum() > 0 else x - 10 * k
    _flip(S, tt.jit(f), lambda v: tt.tensor([v, 0.]))
    S.obs("next", next(it))


@case("rb_stringio_before_guard", "write to a file-like object before the failing guard", PTI + "169722")
def _(tt, S):
    out = io.StringIO()

    def f(x):
        out.write("a")
        if x.sum() > 0:
            out.write("b")
            return x
        return x * 2
    _flip(S, tt.jit(f), lambda v: tt.tensor([v, 0.]), out.getvalue)


@case("rb_guard_in_callee", "caller side effect, guard fails inside a helper", MISC + "test_inline_list_mutation")
def _(tt, S):
    log = []

    def h(x):
        log.append("h")
        return x * 2 if x.sum() > 0 else x * 3

    def f(x):
        log.append("f")
        y = h(x + 0)
        log.append("g")
        return h(y) + 1
    _flip(S, tt.jit(f), lambda v: tt.tensor([v, 0.]), lambda: list(log))


@case("rb_param_update_before_guard", "optimizer step before the failing guard", MISC + "test_inplace_param_update", needs="inplace")
def _(tt, S):
    w = tt.tensor([2., 3.], requires_grad=True)

    def f(x):
        with tt.no_grad():
            w.mul_(0.5)
        return (x * w).sum() if x.sum() > 0 else (x * w).sum() * 7
    _flip(S, tt.jit(f), lambda v: tt.tensor([v, 0.]), lambda: w)


@case("rb_attr_before_item_guard", "self.step += 1 before an .item() comparison fails", MODS + "test_nn_module_unspec_int_attr")
def _(tt, S):
    class M:
        step = 0

        def __call__(self, x):
            self.step += 1
            if x.mean().item() > 0:
                return x * self.step
            return x - self.step
    m = M()
    _flip(S, tt.jit(lambda x: m(x)), lambda v: tt.tensor([v, 0.]), lambda: m.step)
