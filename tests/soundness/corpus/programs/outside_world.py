"""Random numbers, clocks, printing and files."""

import io
import random
import time
import types
import warnings

import numpy as np

from corpus.registry import AUTF, EXC_, JAXD, MISC, MODS, PTI, REPRO, SUBG, TRC, UNSP, case, category


category("randomness_time")


@case("rng_python_random", "random.random() inside: a new draw per call", UNSP + "test_random_values_with_graph_break")
def _(tt, S):
    g = tt.jit(lambda x: x + random.random())
    for _i in range(S.n + 3):
        S.call(g, tt.tensor([0.]))
    S.obs("state", random.random())


@case("rng_numpy_random", "np.random.randn inside", MISC + "test_numpy_random_config_to_numpy")
def _(tt, S):
    g = tt.jit(lambda x: x + tt.tensor(np.random.randn(2).astype("float32")))
    for _i in range(S.n + 3):
        S.call(g, tt.tensor([0., 0.]))
    S.obs("state", float(np.random.rand()))


@case("rng_dropout_stream", "seeded tensor RNG: compiled and eager use the same stream", PTI + "118735", needs="rng")
def _(tt, S):
    def drop(x):
        m = (tt.rand(4) > 0.5).to(x.dtype)
        return x * m * 2
    g = tt.jit(drop)
    tt.manual_seed(0)
    for _i in range(S.n + 3):
        S.vjp(g, tt.tensor([1., 2., 3., 4.], requires_grad=True))
    S.obs("after", tt.rand(2))


@case("rng_two_draws_order", "two draws keep their order", PTI + "192635", needs="rng")
def _(tt, S):
    def f(x):
        a = tt.rand(3)
        b = tt.rand(3)
        return b * x - a
    g = tt.jit(f)
    tt.manual_seed(1)
    for _i in range(S.n + 2):
        S.call(g, tt.tensor([1., 2., 3.]))


@case("rng_dropout_training_flag", "dropout only while training; eval consumes no randomness", MODS + "test_istraining2", needs="rng")
def _(tt, S):
    m = types.SimpleNamespace(training=True)

    def f(x):
        if m.training:
            x = x * (tt.rand(2) > .3).to(x.dtype)
        return x
    g = tt.jit(f)
    tt.manual_seed(2)
    for t in [True] * S.n + [False, True, False, True]:
        m.training = t
        S.call(g, tt.tensor([1., 2.]))
    S.obs("after", tt.rand(2))


@case("rng_interleaved_functions", "two jitted functions share one stream", REPRO + "test_rng_state", needs="rng")
def _(tt, S):
    f = tt.jit(lambda x: x + tt.rand(2))
    h = tt.jit(lambda x: x - tt.rand(3)[:2])
    tt.manual_seed(4)
    for i in range(2 * S.n + 2):
        S.call(f if i % 2 else h, tt.tensor([0., 0.]))
        S.obs("eager", tt.rand(1))


@case("rng_shuffle_argument", "random.shuffle of a list inside", UNSP + "test_multiple_consecutive_random_calls_before_graph")
def _(tt, S):
    r = random.Random(5)

    def f(xs):
        r.shuffle(xs)
        t = xs[0]
        for x in xs[1:]:
            t = t * 2 - x
        return t
    g = tt.jit(f)
    xs = [tt.tensor([float(i)]) for i in range(4)]
    for _i in range(S.n + 3):
        S.call(g, xs)
        S.obs("xs", xs)


@case("rng_real_clock_monotone", "time.perf_counter() must not be frozen", JAXD + "notebooks/Common_Gotchas_in_JAX.md (impure functions)")
def _(tt, S):
    g = tt.jit(lambda x: (x + 1, time.perf_counter()))
    ts = [g(tt.tensor([1.]))[1] for _i in range(S.n + 3)]
    S.obs("strictly increasing", all(a < b for a, b in zip(ts, ts[1:])))


@case("rng_gradient_mask_matches", "backward uses the mask drawn in this forward", AUTF + "test_save_for_bwd", needs="rng")
def _(tt, S):
    def f(x):
        m = (tt.rand(4) > 0.5).to(x.dtype)
        return x * m
    g = tt.jit(f)
    tt.manual_seed(9)
    xs = [tt.tensor([1., 1., 1., 1.], requires_grad=True) for _i in range(S.n + 2)]
    outs = [S.call(g, x) for x in xs]
    for x, o in reversed(list(zip(xs, outs))):
        o.sum().backward()
        S.obs("grad==out", bool((x.grad == o.detach()).sum() == 4))


category("printing_io")


@case("io_print_in_loop", "print inside a loop between ops keeps order", SUBG + "test_extended_args")
def _(tt, S):
    def f(x):
        for i in range(x.shape[0]):
            print(i, float(x[i]))
            x = x + 1
        return x
    S.runs(tt.jit(f), ([1., 2.],), ([1., 2., 3.],))


@case("io_print_then_raise", "print before an exception is not lost", EXC_ + "test_nn_reraise")
def _(tt, S):
    def f(x):
        print("before")
        if x.sum() < 0:
            raise RuntimeError("boom")
        print("after")
        return x
    S.runs(tt.jit(f), ([1.],), ([-1.],))


@case("io_warnings_warn", "warnings.warn is seen by the caller each call", TRC + "test_trace_warn")
def _(tt, S):
    def f(x):
        if x.max() > 5:
            warnings.warn("large", UserWarning)
        return x
    g = tt.jit(f)
    for v in [1.] * S.n + [9., 1., 9.]:
        with warnings.catch_warnings(record=True) as w:
            warnings.simplefilter("always")
            S.call(g, tt.tensor([v]))
        S.obs("n", len([m for m in w if "large" in str(m.message)]))


@case("io_write_to_stream_arg", "writes into a file object given as argument", PTI + "169722")
def _(tt, S):
    def f(x, out):
        out.write(f"{x.shape[0]};")
        return x + 1
    g = tt.jit(f)
    out = io.StringIO()
    for k in [1] * S.n + [2]:
        S.call(g, tt.ones(k), out)
    S.obs("text", out.getvalue())
