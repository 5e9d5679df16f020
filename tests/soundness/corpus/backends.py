"""Libraries that run the programs, and ways to compile."""

import functools
import logging
import types
import warnings


def torch_module(jit, name="tt"):
    import torch
    m = types.ModuleType(name)
    for n in ("tensor zeros ones arange exp log tanh sigmoid relu where matmul stack cat no_grad "
              "manual_seed rand is_grad_enabled is_tensor Tensor float32 float64 int32 int64 bool").split():
        setattr(m, n, getattr(torch, n))
    m.grad = torch.autograd.grad
    m.dtype_name = lambda t: str(t.dtype).split(".")[-1]
    m.jit = jit
    m._reset = lambda: None
    return m


def backend_torch():
    return torch_module(lambda f: f)


def backend_compile(backend="eager", **kw):
    import torch
    import torch._dynamo
    logging.getLogger("torch._dynamo").setLevel(logging.CRITICAL)
    logging.getLogger("torch._subclasses").setLevel(logging.CRITICAL)
    stats = {"graphs": 0, "graph_calls": 0}
    if backend == "eager":
        def be(gm, inputs):                              # the "eager" backend, counted
            stats["graphs"] += 1

            def run(*a):
                stats["graph_calls"] += 1
                return gm.forward(*a)
            return run
    else:
        be = backend
    m = torch_module(lambda f: torch.compile(f, backend=be, **kw))
    m._stats = stats

    def reset():
        torch._dynamo.reset()
        stats.update(graphs=0, graph_calls=0)
    m._reset = reset
    return m


class _Traced:
    """torch.jit.trace used the way a @jit decorator would use it: the first
    call is the tracing run itself (its own eager result is returned, so no
    side effect is doubled), every later call replays the trace."""

    def __init__(self, f, stats):
        import torch
        self.torch, self.f, self.stats, self.ts = torch, f, stats, None
        try:
            functools.update_wrapper(self, f)
        except Exception:
            pass

    def __get__(self, obj, tp=None):
        return self if obj is None else functools.partial(self, obj)

    def __call__(self, *a, **k):
        torch = self.torch
        if self.ts is None:
            def ok(v):
                if torch.is_tensor(v):
                    return True
                if type(v) in (list, tuple):
                    return len(v) > 0 and all(map(ok, v))
                if type(v) is dict:
                    return len(v) > 0 and all(map(ok, v.values()))
                return False
            if k or not all(map(ok, a)):
                self.stats["na"] += 1
                self.ts = False
            else:
                box = []

                def run(*a):
                    box.append(self.f(*a))
                    return box[-1]
                with warnings.catch_warnings(record=True) as w:
                    warnings.simplefilter("always")
                    try:
                        self.ts = torch.jit.trace(run, a, check_trace=False)
                    except Exception as e:
                        if not box:
                            raise
                        self.stats["na"] += 1
                        self.stats["why"] = repr(e)[:120]
                        self.ts = False
                self.stats["warn"] += sum(issubclass(x.category, torch.jit.TracerWarning) for x in w)
                self.stats["traced"] += self.ts is not False
                return box[0]
        if self.ts is False:
            return self.f(*a, **k)
        return self.ts(*a, **k)


def backend_trace():
    stats = {"na": 0, "warn": 0, "traced": 0, "why": ""}
    m = torch_module(lambda f: _Traced(f, stats))
    m._trace_stats = stats

    def reset():
        stats.update(na=0, warn=0, traced=0, why="")
    m._reset = reset
    return m


def wrap_jit(make):
    def jit(f):
        call = make(f)

        def w(*a, **k):
            return call(*a, **k)
        try:
            functools.update_wrapper(w, f)
        except Exception:
            pass
        return w
    return jit


def map_tensors(fn, v):
    import torch
    if torch.is_tensor(v):
        return fn(v)
    if type(v) in (list, tuple):
        return type(v)(map_tensors(fn, e) for e in v)
    if type(v) is dict:
        return {k: map_tensors(fn, e) for k, e in v.items()}
    return v


def poor_key(v, by_eq):
    """A deliberately poor cache key."""
    import torch
    if torch.is_tensor(v):
        return ("T", tuple(v.shape), str(v.dtype))
    if isinstance(v, (list, tuple)):
        return tuple(poor_key(e, by_eq) for e in v)
    if isinstance(v, dict):
        return tuple(sorted((str(k), poor_key(e, by_eq)) for k, e in v.items()))
    if v is None or isinstance(v, (int, float, str, bool)):
        return v if by_eq else type(v).__name__
    return type(v).__name__


def with_identity_jit(tt):
    """The library's own eager mode as the oracle."""
    m = types.ModuleType("tt_eager")
    for n in dir(tt):
        if not n.startswith("__"):
            setattr(m, n, getattr(tt, n))
    m.jit = lambda f: f
    return m
