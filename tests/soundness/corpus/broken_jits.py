"""Deliberately broken jits: is the corpus sharp enough to notice them?"""

import contextlib
import copy
import enum
import io
import types

import numpy as np

from corpus.backends import map_tensors, poor_key, torch_module, wrap_jit


def broken_jit(name):
    """Deliberately unsound jits, to measure how much of the corpus notices each."""
    import torch

    def result_cache(f):                 # ignores tensor values: first result per signature
        memo = {}

        def call(*a, **k):
            key = (poor_key(a, True), poor_key(k, True))
            if key not in memo:
                memo[key] = f(*a, **k)
            return memo[key]
        return call

    def double_run(f):                   # traces by running, then runs again
        n = [0]

        def call(*a, **k):
            n[0] += 1
            if n[0] == 1:
                try:
                    f(*map_tensors(lambda t: t.detach().clone().requires_grad_(t.requires_grad and t.is_leaf), a), **k)
                except Exception:
                    pass
            return f(*a, **k)
        return call

    def copy_args(f):                    # functionalised: argument mutation and identity are lost
        return lambda *a, **k: f(*map_tensors(lambda t: t * 1 if t.is_floating_point() else t.clone(), list(a)), **k)

    def cut_grad(f):
        return lambda *a, **k: map_tensors(lambda t: t.detach(), f(*a, **k))

    def fresh_out(f):                    # outputs never alias inputs or each other
        return lambda *a, **k: map_tensors(lambda t: t.clone(), f(*a, **k))

    def reuse_out(f):                    # one output buffer per shape (TinyJit style)
        bufs = {}

        def one(i, t):
            if t.requires_grad or not t.is_floating_point():
                return t
            b = bufs.setdefault((i, tuple(t.shape), t.dtype), torch.empty_like(t))
            b.copy_(t)
            return b

        def call(*a, **k):
            o = f(*a, **k)
            if torch.is_tensor(o):
                return one(0, o)
            if type(o) is tuple:
                return tuple(one(i, t) if torch.is_tensor(t) else t for i, t in enumerate(o))
            return o
        return call

    def frozen_closure(f):               # closure, globals, defaults and self are frozen at the first call
        box = []

        def call(*a, **k):
            if not box:
                fn, obj = getattr(f, "__func__", f), getattr(f, "__self__", None)
                code = getattr(fn, "__code__", None)
                g = None
                if code is not None:
                    def cp(v):
                        if torch.is_tensor(v) or callable(v) or isinstance(v, types.ModuleType):
                            return v
                        try:
                            return copy.copy(v)
                        except Exception:
                            return v

                    def cell(c):
                        try:
                            return types.CellType(cp(c.cell_contents))
                        except ValueError:
                            return c
                    ours = fn.__globals__.get("__name__", "").startswith("corpus.")
                    seen = fn.__globals__ if ours else dict(fn.__globals__)
                    g = types.FunctionType(code, seen, fn.__name__, fn.__defaults__,
                                           tuple(map(cell, fn.__closure__)) if fn.__closure__ else None)
                    g.__kwdefaults__ = fn.__kwdefaults__
                    if obj is not None:
                        g = types.MethodType(g, cp(obj) if not isinstance(obj, type) else obj)
                box.append(g or f)
            return box[0](*a, **k)
        return call

    def eq_key(f):                       # first-seen equal scalar wins: True == 1 == 1.0, 0.0 == -0.0
        seen = {}

        def sub(v):
            if isinstance(v, (bool, int, float)) and not isinstance(v, enum.Enum):
                return seen.setdefault(v, v)
            if type(v) is tuple:
                return tuple(map(sub, v))
            return v
        return lambda *a, **k: f(*map(sub, a), **{n: sub(v) for n, v in k.items()})

    def first_grad_mode(f):              # grad mode of the first call is used for ever
        mode = []

        def call(*a, **k):
            if not mode:
                mode.append(torch.is_grad_enabled())
            with torch.set_grad_enabled(mode[0]):
                return f(*a, **k)
        return call

    def mute(f):                         # Python side output only on the first call
        n = [0]

        def call(*a, **k):
            n[0] += 1
            if n[0] == 1:
                return f(*a, **k)
            with contextlib.redirect_stdout(io.StringIO()):
                return f(*a, **k)
        return call

    def keep_alive(f):
        keep = []

        def call(*a, **k):
            o = f(*a, **k)
            keep.append((a, k, o))
            return o
        return call

    def retry_eager(f):                  # "guard failed": the prefix already ran once, then everything runs again
        n = [0]

        def call(*a, **k):
            n[0] += 1
            if n[0] == 4:
                f(*a, **k)
            return f(*a, **k)
        return call

    def f32_scalars(f):                  # Python floats are rounded to float32
        def sub(v):
            return float(np.float32(v)) if type(v) is float else v
        return lambda *a, **k: f(*map(sub, a), **{n: sub(v) for n, v in k.items()})

    def swallow(f):                      # exceptions become the last good result
        last = []

        def call(*a, **k):
            try:
                o = f(*a, **k)
            except Exception:
                if last:
                    return last[-1]
                raise
            last[:] = [o]
            return o
        return call

    def contiguous_args(f):              # assumes dense row-major inputs
        return lambda *a, **k: f(*map_tensors(lambda t: t if t.is_contiguous() or t.numel() == 0 else
                                         t.detach().as_strided(t.shape, torch.empty(t.shape).stride()), list(a)), **k)

    def last_saved(f):                   # backward reads the values of the latest forward
        slot = {}

        class Fn(torch.autograd.Function):
            @staticmethod
            def forward(ctx, *ts):
                with torch.enable_grad():
                    xs = [t.detach().requires_grad_(t.requires_grad) for t in ts]
                    slot["x"], slot["o"] = xs, f(*xs)
                return slot["o"].detach()

            @staticmethod
            def backward(ctx, g):
                xs = [x for x in slot["x"] if x.requires_grad]
                gs = iter(torch.autograd.grad(slot["o"], xs, g, retain_graph=True, allow_unused=True))
                return tuple(next(gs) if x.requires_grad else None for x in slot["x"])

        def call(*a, **k):
            if k or not a or not torch.is_grad_enabled() or not all(
                    torch.is_tensor(t) and t.is_floating_point() for t in a) or not any(t.requires_grad for t in a):
                return f(*a, **k)
            try:
                return Fn.apply(*a)
            except AttributeError:       # output was not one tensor
                return f(*a, **k)
        return call

    table = {k: v for k, v in locals().items() if callable(v) and k not in ("torch",)}
    if name is None:
        return sorted(table)
    return torch_module(wrap_jit(table[name]))
