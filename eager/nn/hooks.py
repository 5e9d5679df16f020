"""What users hang on a module: functions called before and after its forward, and on its state."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from fusegrad.eager.autograd import hooks as tensor_hooks
from fusegrad.eager.core.errors import failure
from fusegrad.eager.nn.backward_hooks import BackwardHooks


class RemovableHandle(tensor_hooks.RemovableHandle):
    """Takes a hook away again: `handle.remove()`; as a context manager, at its end.

    options: dictionaries with more about the hook under the same key, which go with it.
    """

    def __init__(
        self,
        hooks: dict[int, Any],
        hook: Any,
        prepend: bool = False,
        options: tuple[dict[int, Any], ...] = (),
    ) -> None:
        self._options = options
        others = dict(hooks) if prepend else {}
        if prepend:
            hooks.clear()
        super().__init__(hooks, hook)
        hooks.update(others)
        for place in options:
            place[self.id] = True

    def remove(self) -> None:
        """Remove the hook; removing it again does nothing."""
        super().remove()
        for place in self._options:
            place.pop(self.id, None)


HOOKS = (
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_backward_pre_hooks",
    "_backward_hooks",
    "_state_dict_pre_hooks",
    "_state_dict_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


class Hooked:
    """The hooks of a module. `Module` builds on it."""

    forward: Callable[..., Any]
    _forward_pre_hooks: dict[int, Callable[..., Any]]
    _forward_pre_hooks_with_kwargs: dict[int, bool]
    _forward_hooks: dict[int, Callable[..., Any]]
    _forward_hooks_with_kwargs: dict[int, bool]
    _forward_hooks_always_called: dict[int, bool]
    _backward_pre_hooks: dict[int, Callable[..., Any]]
    _backward_hooks: dict[int, Callable[..., Any]]

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before each forward; what it gives replaces the arguments.

        prepend: before the hooks that are there. with_kwargs: call `hook(module, args, kwargs)`, which
        gives None or both anew.
        """
        options = (self._forward_pre_hooks_with_kwargs,) if with_kwargs else ()
        return RemovableHandle(self._forward_pre_hooks, hook, prepend, options)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call `hook(module, args, result)` after each forward; what it gives replaces the result.

        prepend: before the hooks that are there. with_kwargs: call `hook(module, args, kwargs, result)`.
        always_call: also when forward raises (with the result so far, or None).
        """
        options: tuple[dict[int, Any], ...] = ()
        if with_kwargs:
            options += (self._forward_hooks_with_kwargs,)
        if always_call:
            options += (self._forward_hooks_always_called,)
        return RemovableHandle(self._forward_hooks, hook, prepend, options)

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, grad_output)` when the gradients of the outputs are known.

        What it gives replaces them.
        """
        return RemovableHandle(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` when the gradients of the inputs are known.

        Both are tuples, with None for what needs no gradient; what the hook gives replaces `grad_input`.
        """
        return RemovableHandle(self._backward_hooks, hook, prepend)

    def _call_hooked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """`forward` with the hooks around it."""
        result, called = None, set()
        try:
            args, kwargs = self._before(args, kwargs)
            backward = None
            if self._backward_hooks or self._backward_pre_hooks:
                backward = BackwardHooks(self)
                args = backward.watch_inputs(args)
            result = self.forward(*args, **kwargs)
            for key, hook in tuple(self._forward_hooks.items()):
                called.add(key)
                result = self._after(key, hook, args, kwargs, result)
            return result if backward is None else backward.watch_outputs(result)
        except Exception:
            for key, hook in tuple(self._forward_hooks.items()):
                if key not in self._forward_hooks_always_called or key in called:
                    continue
                try:
                    result = self._after(key, hook, args, kwargs, result)
                except Exception as error:
                    warnings.warn(
                        "module forward hook with ``always_call=True`` raised an exception that was silenced "
                        f"as another error was raised in forward: {error}",
                        stacklevel=3,
                    )
            raise

    def _before(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        for key, hook in tuple(self._forward_pre_hooks.items()):
            if key not in self._forward_pre_hooks_with_kwargs:
                replaced = hook(self, args)
                if replaced is not None:
                    args = replaced if isinstance(replaced, tuple) else (replaced,)
                continue
            replaced = hook(self, args, kwargs)
            if replaced is None:
                continue
            if not isinstance(replaced, tuple) or len(replaced) != 2:
                raise failure(
                    RuntimeError,
                    "forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got "
                    f"{replaced}.",
                )
            args, kwargs = replaced
        return args, kwargs

    def _after(
        self, key: int, hook: Callable[..., Any], args: Any, kwargs: dict[str, Any], result: Any
    ) -> Any:
        given = (args, kwargs) if key in self._forward_hooks_with_kwargs else (args,)
        replaced = hook(self, *given, result)
        return result if replaced is None else replaced
