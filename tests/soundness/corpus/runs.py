"""Running a program, and comparing two runs."""

import contextlib
import io
import random
import signal
import threading
import warnings

import numpy as np

from corpus.session import Session, Timeout


def run_case(c, tt, warm=3, timeout=120):
    getattr(tt, "_reset", lambda: None)()
    random.seed(1234)
    np.random.seed(1234)
    tt.manual_seed(1234)
    buf = io.StringIO()
    S = Session(tt, warm, buf)

    def onalarm(*_):
        raise Timeout("timeout")
    old = None
    if threading.current_thread() is threading.main_thread() and hasattr(signal, "SIGALRM"):
        old = signal.signal(signal.SIGALRM, onalarm)
        signal.alarm(timeout)
    try:
        with contextlib.redirect_stdout(buf), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            c.func(tt, S)
            S._flush()
    except Timeout:
        S.events.append(("raise", "<timeout>", ""))
    except BaseException as e:                           # noqa: BLE001
        if isinstance(e, KeyboardInterrupt):
            raise
        S._flush()
        S.events.append(("raise", "<program> " + type(e).__name__, repr(e)[:300]))
    finally:
        if old is not None:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, old)
    try:
        S.events.append(("end", "grad mode", bool(tt.is_grad_enabled())))
        tt.is_grad_enabled() or tt.no_grad().__exit__(None, None, None)
    except Exception:
        pass
    return S.events


def _same(a, b, opt):
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        if a.shape != b.shape:
            return False
        if a.dtype.kind in "fc" or b.dtype.kind in "fc":
            tol = 1e-9 if a.dtype.itemsize == 8 and b.dtype.itemsize == 8 else opt["rtol"]
            return bool(np.allclose(a, b, rtol=tol, atol=tol * .1, equal_nan=True))
        return bool(np.array_equal(a, b))
    if isinstance(a, float):
        return (a != a and b != b) or a == b or abs(a - b) <= opt["rtol"] * max(abs(a), abs(b))
    if isinstance(a, complex):
        return _same(a.real, b.real, opt) and _same(a.imag, b.imag, opt)
    if isinstance(a, tuple) and a and a[0] == "tensor" and b and b[0] == "tensor":
        if not opt["dtype"]:
            a, b = ("tensor", "", *a[2:]), ("tensor", "", *b[2:])
        return len(a) == len(b) and all(_same(x, y, opt) for x, y in zip(a[1:], b[1:]))
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(_same(x, y, opt) for x, y in zip(a, b))
    return a == b


def compare(ref, got, opt):
    """-> (verdict, text).  pass | wrong (silent) | raises (loud) | missing_error | timeout"""
    for i in range(max(len(ref), len(got))):
        r = ref[i] if i < len(ref) else ("<nothing>",)
        q = got[i] if i < len(got) else ("<nothing>",)
        if r[0] == "raise" and q[0] == "raise":
            if r[1] == q[1]:
                continue
            return "raises", f"event {i}: expected {r[1]}, got {q[1:]}"
        if r[0] != q[0] or not _same(r, q, opt):
            if q[0] == "raise":
                return ("timeout" if q[1] == "<timeout>" else "raises"), f"event {i}: expected {str(r)[:150]} got {q[1:]}"
            if r[0] == "raise":
                return "missing_error", f"event {i}: expected {r[1]}, got {str(q)[:200]}"
            return "wrong", f"event {i}: expected {str(r)[:220]} got {str(q)[:220]}"
    return "pass", ""
