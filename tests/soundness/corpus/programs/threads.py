"""Several threads."""

import threading

from corpus.registry import PTI, case, category


category("threads")


def _par(fns):
    res = [None] * len(fns)

    def run(i):
        try:
            res[i] = fns[i]()
        except BaseException as e:                       # noqa: BLE001
            res[i] = ("raised", type(e).__name__)
    ts = [threading.Thread(target=run, args=(i,)) for i in range(len(fns))]
    [t.start() for t in ts]
    [t.join(60) for t in ts]
    return res


@case("thr_different_branches", "threads take different branches of one function", PTI + "118260", needs="threads")
def _(tt, S):
    g = tt.jit(lambda x: x * 2 if x.sum() > 0 else x * 3)

    def w(i):
        return [g(tt.tensor([(-1.) ** (i + j), .25])) for j in range(12)]
    S.obs("res", _par([lambda i=i: w(i) for i in range(4)]))


@case("thr_different_shapes", "threads use different shapes at once", PTI + "118260", needs="threads")
def _(tt, S):
    g = tt.jit(lambda x: x * x.shape[0])

    def w(i):
        return [g(tt.ones(1 + (i + j) % 5)) for j in range(10)]
    S.obs("res", _par([lambda i=i: w(i) for i in range(4)]))


@case("thr_grad_mode_is_local", "one thread is under no_grad, the other is not", PTI + "111569", needs="threads")
def _(tt, S):
    g = tt.jit(lambda x: x * x)
    bar = threading.Barrier(2)

    def w(ng):
        out = []
        for _j in range(6):
            x = tt.tensor([3.], requires_grad=True)
            bar.wait(30)
            if ng:
                with tt.no_grad():
                    bar.wait(30)
                    y = g(x)
            else:
                bar.wait(30)
                y = g(x)
            out.append(y.requires_grad)
        return out
    S.obs("res", _par([lambda: w(True), lambda: w(False)]))


@case("thr_trace_while_other_eager", "eager ops in another thread must not leak into a trace", PTI + "105943", needs="threads")
def _(tt, S):
    stop = []
    res = []

    def noise():
        x = tt.tensor([1.])
        k = 0
        while not stop and k < 20000:
            x = x * 1.0 + 0.0
            k += 1
        res.append(float(x))
    t = threading.Thread(target=noise)
    t.start()
    try:
        for k in range(3):
            g = tt.jit(lambda x: tt.exp(x) * k + x)
            for v in [1.] * S.n + [2.]:
                S.vjp(g, tt.tensor([v, .5], requires_grad=True))
    finally:
        stop.append(1)
        t.join(60)
    S.obs("noise", res)


@case("thr_two_functions", "two jitted functions run in two threads with shared weights", PTI + "136833", needs="threads")
def _(tt, S):
    w = tt.tensor([2., 3.], requires_grad=True)
    f, h = tt.jit(lambda x: x * w), tt.jit(lambda x: x + w)

    def run(fn):
        return [fn(tt.tensor([float(j), 1.])) for j in range(8)]
    S.obs("res", _par([lambda: run(f), lambda: run(h)]))


@case("thr_spawn_inside", "function starts a thread that uses tensors", PTI + "196208", needs="threads")
def _(tt, S):
    def f(x):
        box = []
        t = threading.Thread(target=lambda: box.append(x * 3))
        t.start()
        t.join()
        return box[0] + 1
    S.runs(tt.jit(f), ([1.],), ([2.],))


@case("thr_concurrent_backward", "several threads run forward and backward on one shared weight", PTI + "126024", needs="threads")
def _(tt, S):
    g = tt.jit(lambda x, w: (tt.tanh(x * w)).sum())

    def run(i):
        out = []
        for j in range(5):
            x = tt.tensor([.1 * i, .2 * j], requires_grad=True)
            w = tt.tensor([1., 2.], requires_grad=True)
            g(x, w).backward()
            out.append((x.grad, w.grad))
        return out
    S.obs("res", _par([lambda i=i: run(i) for i in range(3)]))
