"""What a function finds of its caller: the exception that is being handled, frames, warnings that are errors.

Each function is called from several places; replays give what eager gives there, or there are none.
"""

from __future__ import annotations

import builtins
import contextlib
import gc
import inspect
import logging
import os
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import fusegrad as fg
from fusegrad.tracer.observe import attributes

Function = Callable[[Any], Any]
FUNCTIONS: dict[str, Function] = {}
COUNT = 0
list_locals, list_globals, evaluate = locals, globals, eval


def case(function: Function) -> Function:
    FUNCTIONS[function.__name__.replace("_", " ")] = function
    return function


# What is being handled.


@case
def raises_again(x: Any) -> Any:
    try:
        raise
    except ZeroDivisionError:
        return x * 3
    except RuntimeError:  # nothing is being handled
        return x * 2


def raise_again() -> None:
    raise


@case
def has_it_raised_again(x: Any) -> Any:
    try:
        raise_again()
    except ZeroDivisionError:
        return x * 3
    except Exception:
        return x * 2


@case
def raises_again_in_the_end(x: Any) -> Any:
    try:
        try:
            x = x + 1
        finally:
            if x.ndim == 1:
                raise
    except ZeroDivisionError:
        return x * 3
    except Exception:
        return x * 2
    return x


@case
def raises_its_own_again(x: Any) -> Any:
    try:
        try:
            raise KeyError
        except KeyError:
            raise
    except KeyError:
        return x * 3


@case
def raises_again_within_a_function_of_its_handler(x: Any) -> Any:
    def again() -> None:
        raise

    try:
        again()
    except ZeroDivisionError:
        return x * 3
    except Exception:
        return x * 2


@case
def exc_info(x: Any) -> Any:
    return x * (2.0 if sys.exc_info()[0] is None else 3.0)


@case
def exception(x: Any) -> Any:
    return x * (2.0 if sys.exception() is None else 3.0)


@case
def format_exc(x: Any) -> Any:
    return x * len(traceback.format_exc())


@case
def context_of_an_exception(x: Any) -> Any:
    try:
        raise ValueError
    except ValueError as error:
        return x * (2.0 if error.__context__ is None else 3.0)


@case
def context_of_an_exception_that_it_made(x: Any) -> Any:
    error = ValueError("made here")
    try:
        raise error
    except ValueError:
        return x * (2.0 if error.__context__ is None else 3.0)


@case
def traceback_of_an_exception(x: Any) -> Any:
    try:
        raise ValueError
    except ValueError as error:
        return x * (2.0 if error.__traceback__.tb_frame.f_back.f_code.co_name == "plainly" else 3.0)


@case
def suppresses(x: Any) -> Any:
    with contextlib.suppress(ZeroDivisionError, RuntimeError):
        raise
    return x * 2


# Who calls.


@case
def current_frame(x: Any) -> Any:
    frame = inspect.currentframe()
    names = []
    while frame is not None:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    return x * (2.0 if "plainly" in names else 3.0)


@case
def depth_of_the_stack(x: Any) -> Any:
    return x * (2.0 if any(f.name == "plainly" for f in traceback.extract_stack()) else 3.0)


@case
def frame_of_a_generator(x: Any) -> Any:
    def numbers() -> Iterator[Any]:
        yield made.gi_frame.f_back is None

    made = numbers()
    return x * float(next(made))


@case
def variables(x: Any) -> Any:
    return x * len(locals()) + len(vars()) + len(dir())


@case
def variables_by_another_name(x: Any) -> Any:
    return x * len(builtins.globals()) * (2.0 if "COUNT" in list_globals() else 3.0) * evaluate("COUNT + 1")


@case
def counts_in_a_global(x: Any) -> Any:
    global COUNT
    COUNT += 1
    return x * COUNT


@case
def counts_in_globals(x: Any) -> Any:
    globals()["COUNT"] += 1
    return x * COUNT


# What the caller, or the process, has set.


@case
def warns(x: Any) -> Any:
    try:
        warnings.warn("attention", UserWarning, stacklevel=1)
    except UserWarning:
        return x * 3
    return x * 2


@case
def warnings_are_looked_for(x: Any) -> Any:
    return x * (2.0 if any(f[0] == "error" for f in warnings.filters) else 3.0)


@case
def level_of_a_logger(x: Any) -> Any:
    return x * logging.getLogger("fusegrad.tests").getEffectiveLevel()


@case
def enabled_for(x: Any) -> Any:
    return x * (2.0 if logging.getLogger("fusegrad.tests").isEnabledFor(logging.DEBUG) else 3.0)


@case
def environment(x: Any) -> Any:
    return (
        x * float(os.environ.get("FUSEGRAD_TESTED", 2.0)) * (1.0 if "FUSEGRAD_TESTED" in os.environ else 5.0)
    )


@case
def name_of_the_thread(x: Any) -> Any:
    return x * len(threading.current_thread().name)


@case
def collector(x: Any) -> Any:
    return x * (2.0 if gc.isenabled() else 3.0)


@case
def arguments_of_the_program(x: Any) -> Any:
    return x * (len(sys.argv) + len(sys.path) + sys.getrecursionlimit())


# Where it is called.

Call = Callable[[], Any]


def plainly(call: Call) -> Any:
    return call()


def handling_a_division(call: Call) -> Any:
    try:
        1 / 0  # noqa: B018
    except ZeroDivisionError:
        return call()


def handling_a_key(call: Call) -> Any:
    try:
        {}["no"]
    except KeyError:
        return call()


def where_warnings_are_errors(call: Call) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return call()


def with_a_logger_that_listens(call: Call) -> Any:
    logger = logging.getLogger("fusegrad.tests")
    before = logger.level
    logger.setLevel(logging.DEBUG)
    try:
        return call()
    finally:
        logger.setLevel(before)


def in_another_environment(call: Call) -> Any:
    os.environ["FUSEGRAD_TESTED"] = "7"
    sys.argv.append("more")
    gc.disable()
    try:
        return call()
    finally:
        gc.enable()
        sys.argv.pop()
        del os.environ["FUSEGRAD_TESTED"]


def in_a_thread(call: Call) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(call()), name="a thread with a longer name")
    thread.start()
    thread.join()
    return found[0]


PLACES = [
    plainly, handling_a_division, handling_a_key, where_warnings_are_errors, with_a_logger_that_listens,
    in_another_environment, in_a_thread,
]  # fmt: skip


def seen(function: Function, wrap: Callable[[Function], Function]) -> list[Any]:
    global COUNT
    COUNT, wrapped, found = 0, wrap(function), []

    def call() -> Any:
        try:
            return wrapped(fg.ones(1)).tolist()
        except Exception as error:
            return type(error)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for place in (plainly, *PLACES, plainly):
            found += [place(call) for _ in range(3)]
    return found


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_replays_see_what_eager_sees(name: str, deterministic: bool) -> None:
    fg.use_deterministic_algorithms(deterministic)
    try:
        assert seen(FUNCTIONS[name], fg.jit) == seen(FUNCTIONS[name], lambda function: function)
    finally:
        fg.use_deterministic_algorithms(False)


def test_exceptions_are_raised_while_none_of_ours_is_handled() -> None:
    def fails(x: Any, scale: float) -> Any:
        if scale > 2:
            raise ValueError(f"{scale} is too large")
        return x * scale

    jitted = fg.jit(fails)
    for scale in (1.0, 1.0, 1.0, 2.0, 1.5, 3.0, 3.0, 4.0):
        try:
            jitted(fg.ones(1), scale)
        except ValueError as error:
            assert error.__context__ is None
    with pytest.raises(ValueError) as caught:
        jitted(fg.ones(1), 5.0)
    assert caught.value.__context__ is None


def test_properties_run_while_none_of_ours_is_handled() -> None:
    class Kind:
        @property
        def scale(self) -> float:
            return 2.0 if sys.exc_info()[0] is None and not locals().get("none") else 3.0

        @scale.setter
        def scale(self, value: float) -> None:
            vars(self)["found"] = sys.exc_info()[0]

    def read(x: Any) -> Any:
        kind = Kind()
        kind.scale = 1.0
        return x * kind.scale if kind.found is None else x

    assert fg.jit(read)(fg.ones(1)).tolist() == [2.0]


def test_what_is_the_callers_and_replayed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attributes, "_OF_ITS_OWN", attributes._OF_ITS_OWN | {"__context__"})
    function = FUNCTIONS["context of an exception that it made"]
    assert seen(function, fg.jit) != seen(function, lambda function: function)
