"""What is raised, caught, and left behind."""

import contextlib

from corpus.registry import CTX_, EXC_, JAXD, MISC, MLI, UNSP, case, category


category("exceptions")


@case("exc_raise_on_data", "raises for some data, later calls fine", EXC_ + "test_raise_custom_exception")
def _(tt, S):
    def f(x):
        if x.sum() < 0:
            raise ValueError("negative")
        return x * 2
    S.runs(tt.jit(f), ([1.],), ([-1.],), ([2.],), grad=True)


@case("exc_try_inside", "try/except inside on data", EXC_ + "test_exception")
def _(tt, S):
    def chk(x):
        if x.max() > 5:
            raise OverflowError
        return x

    def f(x):
        try:
            y = chk(x) * 2
        except OverflowError:
            y = x / 2
        return y
    S.runs(tt.jit(f), ([1.],), ([9.],), grad=True)


@case("exc_finally_state", "finally block mutates state also on error", EXC_ + "test_exception3")
def _(tt, S):
    log = []

    def f(x):
        try:
            log.append("try")
            if x.sum() < 0:
                raise KeyError("k")
            return x + 1
        finally:
            log.append("fin")
    g = tt.jit(f)
    for v in [1.] * S.n + [-1., 1.]:
        S.call(g, tt.tensor([v]))
        S.obs("log", list(log))


class _CustomError(Exception):
    def __init__(self, code, t=None):
        super().__init__(code)
        self.code, self.t = code, t


@case("exc_custom_payload", "custom exception carries Python and tensor payload", EXC_ + "test_raise_custom_exception_with_args")
def _(tt, S):
    def f(x):
        if x.sum() > 3:
            raise _CustomError(x.shape[0], x * 2)
        return x
    g = tt.jit(f)

    def outer(x):
        try:
            return g(x)
        except _CustomError as e:
            return ("caught", e.code, e.t)
    for v in [[1.]] * S.n + [[4.], [2., 2.], [1.]]:
        S.call(outer, tt.tensor(v))


@case("exc_during_first_call", "very first call raises: tracer must be clean afterwards", MLI + "pull/3635")
def _(tt, S):
    state = {"bad": True}

    def f(x):
        y = x * 2
        if state["bad"]:
            raise RuntimeError("first")
        return y + 1
    g = tt.jit(f)
    S.call(g, tt.tensor([1., 2.], requires_grad=True))
    S.obs("eager ok", tt.tensor([1.]) * 3)
    state["bad"] = False
    for _i in range(S.n + 1):
        S.vjp(g, tt.tensor([1., 2.], requires_grad=True))
    state["bad"] = True
    S.call(g, tt.tensor([1., 2.]))
    state["bad"] = False
    S.call(g, tt.tensor([3., 4.]))


@case("exc_keyerror_dict", "KeyError inside caught with a default", EXC_ + "test_key_error")
def _(tt, S):
    def f(x, d):
        try:
            a = d["b"]
        except KeyError:
            a = 2
        return x * a
    g = tt.jit(f)
    for d in [{"a": 1}] * S.n + [{"b": 5}, {}, {"b": tt.tensor([7.])}]:
        S.call(g, tt.tensor([1.]), d)


@case("exc_zero_division_item", "ZeroDivisionError from a Python division of items", UNSP + "test_numpy_correctness")
def _(tt, S):
    def f(x):
        return x * (1.0 / x[0].item())
    S.runs(tt.jit(f), ([2., 1.],), ([0., 1.],))


@case("exc_shape_mismatch_later", "a later call has mismatching shapes: error, then recovery", "pytorch test/dynamo/test_modules.py::test_lazy_module4")
def _(tt, S):
    g = tt.jit(lambda a, b: tt.matmul(a, b) + 1)
    for _i in range(S.n):
        S.call(g, tt.ones((2, 3)), tt.ones((3, 2)))
    S.lib(g, tt.ones((2, 3)), tt.ones((4, 2)))
    S.call(g, tt.ones((2, 3)), tt.ones((3, 4)))


@case("exc_catch_shape_error_inside", "library error caught inside the jitted function", EXC_ + "test_exception2")
def _(tt, S):
    def f(a, b):
        try:
            return a + b
        except Exception:
            return a * 0 - 1
    g = tt.jit(f)
    for k in [3] * S.n + [2, 3]:
        S.call(g, tt.ones(3), tt.ones(k))


@case("exc_reraise", "bare raise after cleanup", EXC_ + "test_exception_with_another_exception2")
def _(tt, S):
    log = []

    def f(x):
        try:
            if x.sum() < 0:
                raise IndexError("i")
            return x
        except IndexError:
            log.append("clean")
            raise
    S.runs(tt.jit(f), ([1.],), ([-1.],))
    S.obs("log", log)


@case("exc_raise_from", "raise ... from keeps the cause", EXC_ + "test_raise_from_None")
def _(tt, S):
    def f(x):
        try:
            {}["k"]
        except KeyError as e:
            if x.sum() > 0:
                raise LookupError("outer") from e
        return x
    g = tt.jit(f)

    def run(v):
        try:
            return g(tt.tensor([v]))
        except LookupError as e:
            return type(e).__name__, type(e.__cause__).__name__
    for v in [-1.] * S.n + [1., -1.]:
        S.call(run, v)


@case("exc_contextmanager_suppresses", "with suppress(...): body stops halfway", CTX_ + "test_generic_context_manager")
def _(tt, S):
    def f(x):
        y = x
        with contextlib.suppress(ValueError):
            y = y + 1
            if x.sum() > 5:
                raise ValueError
            y = y + 10
        return y
    S.runs(tt.jit(f), ([1.],), ([9.],), grad=True)


@case("exc_stop_iteration", "StopIteration from an exhausted iterator", EXC_ + "test_stop_iteration")
def _(tt, S):
    it = iter([1., 2., 3., 4.])

    def f(x):
        try:
            return x * next(it)
        except StopIteration:
            return x * -1
    g = tt.jit(f)
    for _i in range(7):
        S.call(g, tt.tensor([1.]))


class _Stop(BaseException):
    pass


@case("exc_base_exception", "BaseException subclass passes through untouched", EXC_ + "test_foo")
def _(tt, S):
    def f(x):
        if x.sum() < 0:
            raise _Stop
        return x
    S.runs(tt.jit(f), ([1.],), ([-1.],))


@case("exc_index_out_of_range", "tensor index out of range must raise and end iteration", MISC + "test_check_assert_error_at_runtime_when_predicate_false_and_message_has_closure")
def _(tt, S):
    g = tt.jit(lambda x, i: x[i] * 2)
    S.runs(g, ([1., 2., 3.], 2), ([1., 2., 3.], 0), ([1., 2., 3., 4.], 3))
    S.lib(g, tt.tensor([1., 2.]), 2)
    S.call(g, tt.tensor([1., 2., 3.]), -1)


@case("exc_nan_raises", "user-level NaN check raises at the right call", JAXD + "debugging (checkify)")
def _(tt, S):
    def f(x):
        y = tt.log(x)
        if (y != y).sum() > 0:
            raise FloatingPointError("nan")
        return y
    S.runs(tt.jit(f), ([1., 2.],), ([1., -2.],), ([3., 4.],))
