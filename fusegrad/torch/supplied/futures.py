"""`torch.futures`: results that come later, of one process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

__all__ = ["Future", "collect_all", "wait_all"]
T = TypeVar("T")


class Future(Generic[T]):
    """A result that somebody sets, and others wait for. Source: `torch.futures.Future`.

    >>> future = Future()
    >>> after = future.then(lambda f: f.wait() + 1)
    >>> future.set_result(1)
    >>> future.done(), after.wait()
    (True, 2)
    """

    def __init__(self, *, devices: Any = None) -> None:
        self._set, self._lock = threading.Event(), threading.Lock()
        self._result: Any = None
        self._error: BaseException | None = None
        self._after: list[Callable[[Future[T]], Any]] = []

    def done(self) -> bool:
        """Whether there is a result, or an error."""
        return self._set.is_set()

    def wait(self) -> T:
        """The result, when it is there. Raises the error that was set."""
        self._set.wait()
        return self.value()

    def value(self) -> T:
        """The result. Raises RuntimeError where there is none yet, and the error that was set."""
        if not self.done():
            raise RuntimeError("the future has no value yet; wait() for it")
        if self._error is not None:
            raise self._error
        return self._result

    def set_result(self, result: T) -> None:
        """Give the result. Raises RuntimeError where there is one."""
        self._finish(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Give an error in place of a result."""
        self._finish(None, result)

    def _finish(self, result: Any, error: BaseException | None) -> None:
        with self._lock:
            if self._set.is_set():
                raise RuntimeError("Future can only be marked completed once")
            self._result, self._error = result, error
            self._set.set()
        for callback in self._after:
            callback(self)

    def add_done_callback(self, callback: Callable[[Future[T]], Any]) -> None:
        """Have `callback` called with this future when it is done."""
        with self._lock:
            if not self._set.is_set():
                self._after.append(callback)
                return
        callback(self)

    def then(self, callback: Callable[[Future[T]], Any]) -> Future[Any]:
        """The future of what `callback` makes of this one when it is done."""
        after: Future[Any] = Future()

        def call(done: Future[T]) -> None:
            try:
                result = callback(done)
            except Exception as error:
                after.set_exception(error)
            else:
                after.set_result(result)

        self.add_done_callback(call)
        return after


def collect_all(futures: Iterable[Future[Any]]) -> Future[list[Future[Any]]]:
    """The future of all of these being done. Source: `torch.futures.collect_all`."""
    waited = list(futures)
    done: Future[list[Future[Any]]] = Future()
    left = [len(waited)]
    lock = threading.Lock()

    def one_more(_: Any) -> None:
        with lock:
            left[0] -= 1
            last = left[0] == 0
        if last:
            done.set_result(waited)

    if not waited:
        done.set_result([])
    for future in waited:
        future.add_done_callback(one_more)
    return done


def wait_all(futures: Iterable[Future[Any]]) -> list[Any]:
    """The results of all. Source: `torch.futures.wait_all`."""
    return [future.wait() for future in collect_all(futures).wait()]
