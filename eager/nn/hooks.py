"""What users hang on a module: functions called before and after its forward, and on its state.

`Hooked` has those of one module, `EVERYWHERE` those of all modules, which come before them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fusegrad.eager.autograd import hooks as tensor_hooks
from fusegrad.eager.core.errors import failure, warn
from fusegrad.eager.nn.backward_hooks import BackwardHooks, watch_last_node


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
        others = dict(hooks) if prepend else {}
        if prepend:
            hooks.clear()
        super().__init__(hooks, hook, extra_dict=options)
        hooks.update(others)
        for place in options:
            place[self.id] = True


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


class Everywhere:
    """The hooks of all modules, by what they are called at.

    ids: of those that a call of a module looks for. full: whether the backward hooks are full ones; None
    while there were none.
    """

    def __init__(self) -> None:
        self.ids: dict[int, bool] = {}
        self.forward_pre_hooks: dict[int, Callable[..., Any]] = {}
        self.forward_hooks: dict[int, Callable[..., Any]] = {}
        self.forward_hooks_with_kwargs: dict[int, bool] = {}
        self.forward_hooks_always_called: dict[int, bool] = {}
        self.backward_pre_hooks: dict[int, Callable[..., Any]] = {}
        self.backward_hooks: dict[int, Callable[..., Any]] = {}
        self.full: bool | None = None
        self.parameter_hooks: dict[int, Callable[..., Any]] = {}
        self.buffer_hooks: dict[int, Callable[..., Any]] = {}
        self.module_hooks: dict[int, Callable[..., Any]] = {}


EVERYWHERE = Everywhere()


def registered(hooks: dict[int, Callable[..., Any]], module: Any, name: str, value: Any) -> Any:
    """What is to be kept under `name` of a module: `value`, or what a hook of all modules gave for it."""
    for hook in tuple(hooks.values()):
        replaced = hook(module, name, value)
        value = value if replaced is None else replaced
    return value


class Hooked:
    """The hooks of a module. `Module` builds on it."""

    _is_full_backward_hook: bool | None = None  # whether `_backward_hooks` are full ones
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
        self._is_full_backward_hook = one_kind(self._is_full_backward_hook, True, "on a single Module")
        return RemovableHandle(self._backward_hooks, hook, prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` after the backward of the last op of a forward.

        The gradients are those of that op, not of the module: `register_full_backward_hook` gives these.
        """
        self._is_full_backward_hook = one_kind(self._is_full_backward_hook, False, "on a single Module")
        return RemovableHandle(self._backward_hooks, hook)

    def _call_hooked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """`forward` with the hooks around it."""
        result, called = None, set()
        try:
            args, kwargs = self._before(args, kwargs)
            before = (*EVERYWHERE.backward_pre_hooks.values(), *self._backward_pre_hooks.values())
            full, backward = self._backward_hooks_of(True), None
            if before or full:
                backward = BackwardHooks(self, before, full)
                args = backward.watch_inputs(args)
            result = self.forward(*args, **kwargs)
            for key, hook in (*EVERYWHERE.forward_hooks.items(), *self._forward_hooks.items()):
                called.add(key)
                result = self._after(key, hook, args, kwargs, result)
            if backward is not None:
                result = backward.watch_outputs(result)
            watch_last_node(self, self._backward_hooks_of(False), args, result)
            return result
        except Exception:
            for key, hook in (*EVERYWHERE.forward_hooks.items(), *self._forward_hooks.items()):
                always = self._forward_hooks_always_called, EVERYWHERE.forward_hooks_always_called
                if key in called or not any(key in keys for keys in always):
                    continue
                try:
                    result = self._after(key, hook, args, kwargs, result)
                except Exception as error:
                    warn(
                        "module forward hook with ``always_call=True`` raised an exception that was silenced "
                        f"as another error was raised in forward: {error}"
                    )
            raise

    def _backward_hooks_of(self, full: bool) -> tuple[Callable[..., Any], ...]:
        """The backward hooks that are full ones, or those that are not."""
        everywhere = EVERYWHERE.backward_hooks.values() if EVERYWHERE.full is full else ()
        own = self._backward_hooks.values() if self._is_full_backward_hook is full else ()
        return (*everywhere, *own)

    def _before(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        for key, hook in (*EVERYWHERE.forward_pre_hooks.items(), *self._forward_pre_hooks.items()):
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
        with_kwargs = self._forward_hooks_with_kwargs, EVERYWHERE.forward_hooks_with_kwargs
        given = (args, kwargs) if any(key in keys for keys in with_kwargs) else (args,)
        replaced = hook(self, *given, result)
        return result if replaced is None else replaced


def one_kind(known: bool | None, full: bool, where: str) -> bool:
    """The kind of backward hooks that there are once a hook of the kind `full` has come."""
    if known is not None and known is not full:
        raise failure(
            RuntimeError,
            f"Cannot use both regular backward hooks and full backward hooks {where}. Please use only one of "
            "them.",
        )
    return full


# For all modules.


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, args)` before each forward of any module; what it gives replaces the arguments.

    Source: `torch.nn.modules.module.register_module_forward_pre_hook`.
    """
    return RemovableHandle(EVERYWHERE.forward_pre_hooks, hook, options=(EVERYWHERE.ids,))


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call `hook(module, args, result)` after each forward of any module, before the module's own hooks.

    What it gives replaces the result. with_kwargs: call `hook(module, args, kwargs, result)`. always_call:
    also when forward raises. Source: `torch.nn.modules.module.register_module_forward_hook`.

    >>> import fusegrad as fg
    >>> names = []
    >>> from fusegrad.nn.modules.module import register_module_forward_hook
    >>> with register_module_forward_hook(lambda module, args, result: names.append(type(module).__name__)):
    ...     _ = fg.nn.Sequential(fg.nn.Tanh(), fg.nn.ReLU())(fg.ones(2))
    >>> names
    ['Tanh', 'ReLU', 'Sequential']
    """
    options: tuple[dict[int, bool], ...] = (EVERYWHERE.ids,)
    if with_kwargs:
        options += (EVERYWHERE.forward_hooks_with_kwargs,)
    if always_call:
        options += (EVERYWHERE.forward_hooks_always_called,)
    return RemovableHandle(EVERYWHERE.forward_hooks, hook, options=options)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_output)` when the gradients of any module's outputs are known.

    What it gives replaces them. Source: `torch.nn.modules.module.register_module_full_backward_pre_hook`.
    """
    return RemovableHandle(EVERYWHERE.backward_pre_hooks, hook, options=(EVERYWHERE.ids,))


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` when the gradients of any module's inputs are known.

    What it gives replaces `grad_input`. Source: `torch.nn.modules.module.register_module_full_backward_hook`.
    """
    EVERYWHERE.full = one_kind(EVERYWHERE.full, True, "as a global Module hook")
    return RemovableHandle(EVERYWHERE.backward_hooks, hook, options=(EVERYWHERE.ids,))


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` after the backward of the last op of any module.

    The gradients are those of that op; `register_module_full_backward_hook` gives the module's.
    Source: `torch.nn.modules.module.register_module_backward_hook`.
    """
    EVERYWHERE.full = one_kind(EVERYWHERE.full, False, "as a global Module hook")
    return RemovableHandle(EVERYWHERE.backward_hooks, hook, options=(EVERYWHERE.ids,))


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, parameter)` when any module gets a parameter; what it gives is kept instead.

    Source: `torch.nn.modules.module.register_module_parameter_registration_hook`.
    """
    return RemovableHandle(EVERYWHERE.parameter_hooks, hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, buffer)` when any module gets a buffer; what it gives is kept instead.

    Source: `torch.nn.modules.module.register_module_buffer_registration_hook`.
    """
    return RemovableHandle(EVERYWHERE.buffer_hooks, hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, submodule)` when any module gets a submodule; what it gives is kept instead.

    Source: `torch.nn.modules.module.register_module_module_registration_hook`.
    """
    return RemovableHandle(EVERYWHERE.module_hooks, hook)
