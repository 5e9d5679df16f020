"""`fusegrad.library`: users' own ops by name, with their derivatives, batches and shapes.

Source: `torch.library`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from fusegrad.eager.autograd.function import Function
from fusegrad.eager.core.op import bind
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.library.opaque import OpaqueCall, taken_apart

__all__ = ["CustomOpDef", "Library", "custom_op", "define", "impl", "opcheck"]
__all__ += ["register_autograd", "register_fake", "register_kernel", "register_vmap"]
# Each op by its qualified name, `library::op`.
OPS: dict[str, CustomOpDef] = {}


class CustomOpDef:
    """A function as an op, with a backward that is given later. Source: `torch.library.CustomOpDef`."""

    def __init__(self, name: str, function: Callable[..., Any] | None, mutates: bool = False) -> None:
        """mutates: whether it writes into its arguments; it is called like any other function then."""
        if "::" not in name:
            raise RuntimeError(f"custom_op: {name!r} is no qualified name; write library::op")
        self._qualname, self._mutates = name, mutates
        self.__name__ = name.rpartition("::")[2]
        self._op: OpaqueCall | None = None
        self._call: Callable[..., Any] | None = None
        # What was registered: the rule of shapes, the backward, what that keeps, the rule for batches.
        self._fake: Callable[..., Any] | None = None
        self._backward: Callable[..., Any] | None = None
        self._setup: Callable[..., Any] | None = None
        self._vmap: Callable[..., Any] | None = None
        if function is not None:
            self._take(function)
        OPS[name] = self

    def _take(self, function: Callable[..., Any]) -> None:
        self._call, self._signature = function, inspect.signature(function)
        self._define()

    def _define(self) -> None:
        """Make the op anew of what is known of it."""
        if self._call is not None and not self._mutates:
            self._op = OpaqueCall(self._qualname, self._call, self._backward or self._refuse, self._setup)
            self._op.fake = self._fake

    def _refuse(self, ctx: Any, *gradients: Any) -> Any:
        wrong = f"Trying to backward through {self._qualname} but no autograd formula was registered."
        raise RuntimeError(f"{wrong} Please use register_autograd to add one.")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._call is None:
            raise NotImplementedError(f"{self._qualname} has no function; give it one by register_kernel")
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = (*bound.args, *bound.kwargs.values())
        if self._vmap is not None or (self._mutates and self._backward is not None):
            return self._function().apply(*given)
        return self._run(*given)

    def _run(self, *given: Any) -> Any:
        """What the function gives, as one op where it may be one."""
        assert self._call is not None
        if self._op is None:
            return self._call(*given)
        tensors: list[Tensor] = []
        arguments = tuple([taken_apart(value, tensors) for value in given])
        if not tensors:
            return self._call(*given)
        return bind(self._op, tuple(tensors), {"arguments": arguments})

    @property
    def default(self) -> CustomOpDef:
        """The op for all its arguments, as `torch.ops` has overloads."""
        return self

    _opoverload = default

    def register_fake(self, fn: Any = None) -> Any:
        """Take the rule of shapes and dtypes: it gives tensors without values for such tensors.

        Without one, calls with the shapes of an earlier call are known to give what that gave.
        """
        if fn is None:
            return self.register_fake
        self._fake = fn
        self._define()
        return fn

    def register_vmap(self, func: Any = None) -> Any:
        """Take `func(info, in_dims, *args)`, which gives the results for a batch, and their `out_dims`."""
        if func is None:
            return self.register_vmap
        self._vmap = func
        return func

    def register_kernel(self, device_types: Any, fn: Any = None, /) -> Any:
        """Take the function for devices; it is used if the CPU is among them."""

        def take(function: Callable[..., Any]) -> Callable[..., Any]:
            kinds = [device_types] if isinstance(device_types, str) else device_types
            if kinds is None or "cpu" in kinds:
                self._take(function)
            return function

        return take if fn is None else take(fn)

    register_impl = register_kernel

    def register_autograd(self, backward: Any, /, *, setup_context: Any = None) -> None:
        """Take `backward(ctx, *grads)`, and `setup_context(ctx, inputs, output)` for what it needs."""

        def setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            names = inspect.signature(setup_context).parameters
            more: dict[str, Any] = {"keyword_only_inputs": {}} if "keyword_only_inputs" in names else {}
            setup_context(ctx=ctx, inputs=inputs, output=output, **more)

        self._backward, self._setup = backward, setup if setup_context is not None else None
        self._define()

    def _function(self) -> type[Function]:
        """The op as a `Function`, which may have a rule for batches, and write its arguments."""
        members = {
            "forward": lambda *args: self._run(*args),
            "setup_context": self._setup or (lambda ctx, inputs, output: None),
            "backward": self._backward or self._refuse,
        }
        if self._vmap is not None:
            members["vmap"] = self._vmap
        return type(self.__name__, (Function,), {n: staticmethod(f) for n, f in members.items()})

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"


def custom_op(
    name: str,
    fn: Any = None,
    /,
    *,
    mutates_args: str | Sequence[str] = (),
    device_types: Any = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """A function as an op of this name, or a decorator. Source: `torch.library.custom_op`.

    fn: of tensors, numbers, text and lists of them; it gives tensors, or a tuple of them, and must depend on
    nothing else: `jit` calls it between kernels, whatever is in it (SciPy, `numba.njit`). mutates_args: the
    names of arguments that it writes; with any, `jit` follows its Python instead.

    >>> import fusegrad as fg
    >>> @custom_op("mine::double", mutates_args=())
    ... def double(x: fg.Tensor) -> fg.Tensor:
    ...     return x * 2
    >>> double.register_autograd(lambda ctx, grad: grad * 2)
    >>> x = fg.ones(2, requires_grad=True)
    >>> double(x).sum().backward()
    >>> x.grad
    tensor([2., 2.])
    """
    if fn is None:
        return lambda function: CustomOpDef(name, function, bool(mutates_args))
    return CustomOpDef(name, fn, bool(mutates_args))


def _named(op: Any) -> CustomOpDef:
    """The op of a name, which somebody may give functions before it is defined."""
    if isinstance(op, CustomOpDef):
        return op
    name = str(op)
    return OPS.get(name) or CustomOpDef(name, None)


def register_fake(op: Any, func: Any = None, /, **options: Any) -> Any:
    """Give an op its rule of shapes. Source: `torch.library.register_fake`."""
    return _named(op).register_fake(func)


def register_vmap(op: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """Give an op its rule for batches. Source: `torch.library.register_vmap`."""
    return _named(op).register_vmap(func)


def register_autograd(op: Any, backward: Any, /, *, setup_context: Any = None, lib: Any = None) -> None:
    """Give an op its backward. Source: `torch.library.register_autograd`."""
    _named(op).register_autograd(backward, setup_context=setup_context)


def register_kernel(op: Any, device_types: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """Give an op its function for devices. Source: `torch.library.register_kernel`."""
    return _named(op).register_kernel(device_types, func)


def define(qualname: str, schema: str = "", *, lib: Any = None, tags: Any = ()) -> None:
    """Name an op, whose function comes by `impl`. Source: `torch.library.define`."""
    _named(qualname)


def impl(qualname: str, types: Any, func: Any = None, *, lib: Any = None) -> Any:
    """Give an op its function. Source: `torch.library.impl`."""
    every = {"default", "CompositeExplicitAutograd", "CompositeImplicitAutograd", "CPU", "cpu"}
    kinds = {types} if isinstance(types, str) else set(types)
    return _named(qualname).register_kernel("cpu" if kinds & every else "other", func)


class Library:
    """A namespace of ops. Source: `torch.library.Library`."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Name an op by its schema: `op(Tensor x) -> Tensor`."""
        name = schema.partition("(")[0].strip()
        _named(f"{self.ns}::{name}")
        return name

    def impl(self, op_name: Any, fn: Any, dispatch_key: str = "", **options: Any) -> None:
        """Give an op its function."""
        name = op_name if "::" in str(op_name) else f"{self.ns}::{op_name}"
        impl(name, dispatch_key or self.dispatch_key or "default", fn)

    def _register_fake(self, op_name: str, fn: Any = None, **options: Any) -> Any:
        return register_fake(op_name, fn)


def opcheck(op: Any, args: Any, kwargs: Any = None, **options: Any) -> dict[str, str]:
    """Call an op with these arguments, and say that it went well. Source: `torch.library.opcheck`."""
    op(*args, **(kwargs or {}))
    return {"test_schema": "SUCCESS"}


locate("fusegrad.library", globals(), __all__)
