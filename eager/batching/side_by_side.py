"""Examples side by side: each runs in a coroutine, which stops where it asks for values.

When all have stopped or come to their end, what waits is done in groups, and they go on, in their order. A
coroutine has its own grad mode, its own interpreter inside, and all else that a thread has of the engine.
What is raised is what would be raised one by one: later examples than the one that fails are unwound, earlier
ones go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fusegrad.eager.batching.batcher import Batcher
from fusegrad.eager.core.state import state

# So many examples are at work at a time at most: each has a stack of its own.
MOST = 1024


def has_coroutines() -> bool:
    """Whether examples can run side by side: greenlet, the extra `batching`, is there."""
    try:
        import greenlet  # noqa: F401
    except ImportError:
        return False
    return True


class _Example:
    """An example in its coroutine."""

    def __init__(self, number: int, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        import greenlet

        self.number, self._function, self._args = number, function, args
        self.value: Any = None
        self.error: BaseException | None = None
        self._coroutine = greenlet.greenlet(self._run)
        self._state: dict[str, Any] | None = (
            None  # what its thread has of the engine, while others are at work
        )

    def _run(self) -> None:
        import greenlet

        try:
            self.value = self._function(*self._args)
        except greenlet.GreenletExit:
            pass
        except BaseException as error:
            self.error = error

    @property
    def is_over(self) -> bool:
        return bool(self._coroutine.dead)

    def go_on(self) -> None:
        """Let it run to its next question, or its end."""
        self._switched(self._coroutine.switch)

    def unwind(self) -> None:
        """Have it end here: what it has in `finally` runs."""
        if self._coroutine:
            self._switched(self._coroutine.throw)

    def park(self) -> None:
        """Called in the coroutine: let others go on."""
        self._coroutine.parent.switch()

    def _switched(self, switch: Callable[[], Any]) -> None:
        outside = dict(vars(state))
        if self._state is not None:
            _put(self._state)
        try:
            switch()
        finally:
            self._state = dict(vars(state))
            _put(outside)


def _put(values: dict[str, Any]) -> None:
    own = vars(state)
    own.clear()
    own.update(values)


def run(batcher: Batcher, function: Callable[..., Any], examples: Sequence[tuple[Any, ...]]) -> list[Any]:
    """What `function` gives for each example. The batcher is in charge already."""
    found: list[Any] = []
    for start in range(0, len(examples), MOST):
        found += _side_by_side(batcher, function, examples[start : start + MOST], start)
    return found


def _side_by_side(
    batcher: Batcher, function: Callable[..., Any], examples: Sequence[tuple[Any, ...]], start: int
) -> list[Any]:
    going = [_Example(start + i, function, args) for i, args in enumerate(examples)]
    begun, failed = 0, None
    try:
        while begun < len(going) and failed is None:
            failed = _step(batcher, going[begun])
            begun += 1
        while True:
            # Those behind one that has failed would not have run.
            for later in going[begun if failed is None else failed.number - start + 1 :]:
                _unwind(batcher, later)
            if failed is not None:
                going = going[: failed.number - start + 1]
            parked = [example for example in going[:begun] if not example.is_over]
            if not parked:
                break
            batcher.report.costs.asked(len(parked))
            batcher.execute("all examples asked for values")
            for example in parked:
                failed = _step(batcher, example) or failed
                if failed is not None and failed.number <= example.number:
                    break
        if failed is not None:
            assert failed.error is not None
            raise failed.error
        return [example.value for example in going]
    finally:
        for example in going:
            _unwind(batcher, example)
        batcher.parks = None


def _step(batcher: Batcher, example: _Example) -> _Example | None:
    """Let an example go on; it, if it has failed."""
    batcher.goes_on_with(example.number, example.park)
    example.go_on()
    return example if example.error is not None else None


def _unwind(batcher: Batcher, example: _Example) -> None:
    batcher.goes_on_with(example.number, None)
    example.unwind()
