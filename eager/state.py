"""What the engine keeps per thread: whether gradients are recorded, and who interprets ops."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, Protocol


class Interpreter(Protocol):
    """Something that takes over every `bind` of a thread: a recorder, or abstract evaluation."""

    def bind(self, op: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Give the result of `op`; see `eager.op.bind`."""

    def leave(self, tensor: Any, door: str, value: Any) -> None:
        """A tensor's `value` reaches Python through `door` ("bool", "item", "repr", ...)."""

    def effect(self, reason: str) -> None:
        """The engine does something that a replay could not repeat."""

    def constant(self, tensor: Any) -> None:
        """`tensor` was made from Python data, not by an op."""

    def check(self, tensor: Any, message: str) -> None:
        """The 0-d bool `tensor` must be true, or the op that follows raises with `message`."""


class _State(threading.local):
    grad_enabled: bool = True
    interpreter: Interpreter | None = None


state = _State()


class _GradMode:
    """A context manager and decorator that sets grad mode for the current thread."""

    enable: bool

    def __init__(self) -> None:
        self._previous: list[bool] = []

    def __enter__(self) -> None:
        self._previous.append(state.grad_enabled)
        state.grad_enabled = self.enable

    def __exit__(self, *exception: object) -> None:
        state.grad_enabled = self._previous.pop()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with type(self)():
                return function(*args, **kwargs)

        return wrapped


class no_grad(_GradMode):
    """Ops inside record no gradients. Context manager or decorator; as `torch.no_grad`.

    >>> import fusegrad as fg
    >>> x = fg.tensor([1.0], requires_grad=True)
    >>> with fg.no_grad():
    ...     (x * 2).requires_grad
    False
    """

    enable = False


class enable_grad(_GradMode):
    """Ops inside record gradients again, also within `no_grad`; as `torch.enable_grad`."""

    enable = True


def is_grad_enabled() -> bool:
    """Whether ops of this thread record gradients."""
    return state.grad_enabled


class set_grad_enabled(_GradMode):
    """Set grad mode at once; used in `with`, it is restored at the end; as `torch.set_grad_enabled`."""

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self.enable = bool(mode)
        self._outer = state.grad_enabled
        state.grad_enabled = self.enable

    def __enter__(self) -> None:
        self._previous.append(self._outer)
        state.grad_enabled = self.enable

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        state.grad_enabled = self._outer
        mode = self.enable

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with set_grad_enabled(mode):
                return function(*args, **kwargs)

        return wrapped
