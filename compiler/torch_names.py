"""PyTorch's names for compiling, `torch.compile` and what stands under `torch.jit`, on `jit`.

Functions become jitted ones, which give what the function gives, whatever their control flow. Modules that
are scripted or traced stay what they are, so that they can be parts of others; `compile` wraps them.
"""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable
from typing import Any

from fusegrad.compiler.jit import JitFunction, jit
from fusegrad.compiler.jitted_object import names, read
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.state import no_grad
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.nn.containers import ScriptModule
from fusegrad.eager.nn.module import Module


class OptimizedModule(Module):
    """A module whose calls are jitted; its parameters are those of the module, `_orig_mod`.

    What is read, set and deleted is the module's, but for what all modules have, such as hooks, and the names
    of jitted functions (`stats`, `explain()`, ...) that the module does not have. Source: `torch.compile`.
    """

    def __init__(self, module: Module) -> None:
        super().__init__()
        del self.__dict__["training"]  # the module's
        self._modules["_orig_mod"] = module
        self.__dict__["_jitted"] = JitFunction(module)

    @property
    def training(self) -> bool:
        return self._orig_mod.training

    @training.setter
    def training(self, value: bool) -> None:
        self._orig_mod.training = value

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._jitted(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        module = self.__dict__["_modules"]["_orig_mod"]
        return module if name == "_orig_mod" else read(module, self.__dict__["_jitted"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_orig_mod" or hasattr(type(self), name):
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        if name == "_orig_mod" or hasattr(type(self), name):
            super().__delattr__(name)
        else:
            delattr(self._orig_mod, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *names(self._orig_mod, self._jitted)})

    def __len__(self) -> int:
        return len(self._orig_mod)

    def __reduce__(self) -> Any:
        return OptimizedModule, (self._orig_mod,)


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """`jit` under PyTorch's name: of a function, or of a module, which stays a module.

    What chooses PyTorch's way to compile (`fullgraph`, `dynamic`, `mode`, `options`, the name of a backend)
    is taken, and changes nothing. Raises NotImplementedError for a backend that is a function.

    Source: `torch.compile`.

    >>> import fusegrad as fg
    >>> @fg.compile
    ... def double(x):
    ...     return x * 2
    >>> double(fg.tensor([1.0, 2.0]))
    tensor([2., 4.])
    """
    if model is None:
        return functools.partial(
            compile,
            fullgraph=fullgraph,
            dynamic=dynamic,
            backend=backend,
            mode=mode,
            options=options,
            disable=disable,
        )
    if callable(backend):
        raise failure(
            NotImplementedError, "compile: a backend that is a function takes PyTorch's graphs; give a name"
        )
    if not callable(model):
        raise failure(RuntimeError, f"compile takes a function or a module, not {type(model).__name__}")
    if disable:
        return model
    return OptimizedModule(model) if isinstance(model, Module) else jit(model)


def _script(obj: Any, optimize: Any = None, example_inputs: Any = None, **options: Any) -> Any:
    """A function jitted; a class or a module as it is. Source: `torch.jit.script`."""
    return obj if isinstance(obj, (type, Module)) or hasattr(obj, "__fusegrad_jit__") else jit(obj)


def _trace(func: Any, example_inputs: Any = None, *rest: Any, **options: Any) -> Any:
    """A function jitted, or a module as it is, called once with an example, so that errors come now.

    Other calls may take other ways through it: none is frozen. Source: `torch.jit.trace`.
    """
    if example_inputs is not None:
        inputs = (example_inputs,) if isinstance(example_inputs, Tensor) else tuple(example_inputs)
        with no_grad():
            func(*inputs)
    return _script(func)


def _as_it_is(function: Any = None, *args: Any, **options: Any) -> Any:
    """A decorator that leaves a function as it is: Python runs it. Source: `torch.jit.ignore`."""
    return function if callable(function) else _as_it_is


def _no() -> bool:
    """False: Python runs the function. Source: `torch.jit.is_scripting`."""
    return False


def _annotate(the_type: Any, the_value: Any) -> Any:
    """The value. Source: `torch.jit.annotate`."""
    return the_value


def _refused(name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise failure(
            NotImplementedError,
            f"jit.{name}: there are no files of scripts; save a state_dict with fusegrad.save",
        )

    return refuse


_UNDER_JIT: dict[str, Any] = {
    "script": _script,
    "trace": _trace,
    "script_method": _as_it_is,
    "ignore": _as_it_is,
    "unused": _as_it_is,
    "export": _as_it_is,
    "freeze": _as_it_is,
    "optimize_for_inference": _as_it_is,
    "is_scripting": _no,
    "is_tracing": _no,
    "annotate": _annotate,
    "save": _refused("save"),
    "load": _refused("load"),
    "ScriptModule": ScriptModule,
    "Final": typing.Final,
}
for _name, _value in _UNDER_JIT.items():
    setattr(jit, _name, _value)
locate("fusegrad", globals(), ["compile"])
