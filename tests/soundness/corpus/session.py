"""What a program is handed: it calls functions and logs what a user could see."""

import dataclasses
import enum
from collections import deque

import numpy as np

from corpus.registry import D


def leaves_of(v):
    if isinstance(v, (list, tuple, deque)):
        for e in v:
            yield from leaves_of(e)
    elif isinstance(v, dict):
        for e in v.values():
            yield from leaves_of(e)
    elif dataclasses.is_dataclass(v) and not isinstance(v, type):
        for f in dataclasses.fields(v):
            yield from leaves_of(getattr(v, f.name))
    else:
        yield v


def snap(tt, v):
    if tt.is_tensor(v):
        return ("tensor", tt.dtype_name(v), tuple(int(d) for d in v.shape),
                bool(v.requires_grad), np.array(v.detach().numpy(), copy=True))
    if isinstance(v, np.ndarray):
        return ("ndarray", str(v.dtype), v.shape, np.array(v, copy=True))
    if isinstance(v, np.generic):
        return ("npscalar", str(v.dtype), v.item())
    if isinstance(v, enum.Enum):
        return ("enum", str(v))
    if v is None or type(v) in (bool, int, float, complex, str, bytes):
        return (type(v).__name__, v)
    if isinstance(v, tuple) and hasattr(v, "_fields"):
        return ("namedtuple", type(v).__name__, [snap(tt, e) for e in v])
    if isinstance(v, tuple):
        return ("tuple", [snap(tt, e) for e in v])
    if isinstance(v, (list, deque)):
        return (type(v).__name__, [snap(tt, e) for e in v])
    if isinstance(v, dict):
        return (type(v).__name__, [(snap(tt, k), snap(tt, e)) for k, e in v.items()])
    if isinstance(v, (set, frozenset)):
        return (type(v).__name__, sorted(map(repr, v)))
    if isinstance(v, type):
        return ("type", v.__name__)
    if dataclasses.is_dataclass(v):
        return ("dataclass", type(v).__name__,
                [(f.name, snap(tt, getattr(v, f.name))) for f in dataclasses.fields(v)])
    if isinstance(v, BaseException):
        return ("exc", type(v).__name__)
    if isinstance(v, (int, float, str)):
        return (type(v).__name__, str(v))
    if callable(v):
        return ("callable",)
    return ("obj", type(v).__name__)


class Session:
    """Handed to each program: calls functions and logs what a user could see."""

    def __init__(self, tt, n, buf):
        self.tt, self.n, self.buf, self.events, self._pos = tt, n, buf, [], 0

    def _flush(self):
        s = self.buf.getvalue()
        if len(s) > self._pos:
            self.events.append(("print", s[self._pos:]))
            self._pos = len(s)

    def obs(self, label, value):
        self._flush()
        self.events.append(("obs", label, snap(self.tt, value)))

    def _call(self, lib, f, a, k):
        try:
            out = f(*a, **k)
        except BaseException as e:                       # noqa: BLE001
            if isinstance(e, (KeyboardInterrupt, SystemExit, Timeout)):
                raise
            self._flush()
            self.events.append(("raise", "<library error>" if lib else type(e).__name__, repr(e)[:160]))
            return None
        self._flush()
        self.events.append(("ret", snap(self.tt, out)))
        return out

    def call(self, f, *a, **k):
        """Call; log the result or the exception's type name."""
        return self._call(False, f, a, k)

    def lib(self, f, *a, **k):
        """Call where the *library* must refuse: any exception type is fine."""
        return self._call(True, f, a, k)

    def _mk(self, args, grad):
        out = []
        for a in args:
            if isinstance(a, D):
                a = a.f()
            elif isinstance(a, list):
                isf = any(isinstance(e, float) for e in leaves_of(a))
                a = self.tt.tensor(a, requires_grad=True) if (grad and isf) else self.tt.tensor(a)
            out.append(a)
        return out

    def runs(self, f, *argsets, grad=False):
        """A*n (warm up), then B, C, ..., then A, then everything backwards.
        Lists become fresh tensors; D(...) is built afresh; others pass as is."""
        order = [argsets[0]] * self.n + list(argsets[1:]) + [argsets[0]] + list(reversed(argsets))
        for args in order:
            if grad:
                self.vjp(f, *self._mk(args, True))
            else:
                self.call(f, *self._mk(args, False))

    def cot(self, t):
        n = int(np.prod(t.shape)) if len(t.shape) else 1
        w = (0.5 + 0.25 * np.arange(n)).reshape(tuple(t.shape))
        return self.tt.tensor(w.astype(self.tt.dtype_name(t)))

    def vjp(self, f, *args, wrt=None, **kw):
        leaves = wrt if wrt is not None else [
            t for t in leaves_of((args, kw)) if self.tt.is_tensor(t) and t.requires_grad]
        for t in leaves:
            t.grad = None
        out = self.call(f, *args, **kw)
        self.back(out, leaves)
        return out

    def back(self, out, leaves):
        outs = [o for o in leaves_of(out) if self.tt.is_tensor(o) and o.requires_grad]
        if not outs:
            self.obs("nograd", True)
            return
        loss = None
        for o in outs:
            term = (o * self.cot(o)).sum()
            loss = term if loss is None else loss + term
        loss.backward()
        self.obs("grads", [t.grad for t in leaves])


class Timeout(BaseException):
    pass
