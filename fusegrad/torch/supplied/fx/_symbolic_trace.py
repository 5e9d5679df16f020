"""`torch.fx._symbolic_trace`: a module is called with what stands for values; its calls become a graph."""

from __future__ import annotations

import builtins
import contextlib
import dis
import functools as functools
import inspect
import math
import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import FunctionType, ModuleType
from typing import Any

from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.nn.module import Module
from fusegrad.torch.supplied.fx.graph import Graph
from fusegrad.torch.supplied.fx.graph_module import GraphModule
from fusegrad.torch.supplied.fx.node import Node
from fusegrad.torch.supplied.fx.proxy import Proxy, TraceError, TracerBase
from fusegrad.torch.supplied.top import _assert

__all__ = ["TraceError", "Tracer", "symbolic_trace", "wrap"]
# Functions that are a step each where they are called with values: the names in a module's globals.
_WRAPPED: dict[tuple[int, str], dict[str, Any]] = {}
_TRACING: list[bool] = []
_orig_module_call, _orig_module_getattr = Module.__call__, Module.__getattr__


class ScriptObject:
    """What nothing is: an object of a scripted class. Source: `torch.ScriptObject`."""


def compatibility(is_backward_compatible: bool) -> Callable[[Any], Any]:
    """A decorator that leaves things as they are. Source: `torch.fx._compatibility.compatibility`."""
    return lambda function: function


def is_fx_tracing() -> bool:
    """Whether a module's calls are being written into a graph. Source: `torch.fx._symbolic_trace`."""
    return bool(_TRACING)


is_fx_symbolic_tracing = is_fx_tracing


def wrap(fn_or_name: str | Callable[..., Any]) -> Any:
    """Have a function be one step of a graph, and give it back; call this at module level.

    Source: `torch.fx.wrap`. Raises RuntimeError for anything but a function or the name of one.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    caller = frame.f_back
    if caller.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _WRAPPED[id(caller.f_globals), name] = caller.f_globals
    return fn_or_name


class Tracer(TracerBase):
    """Writes the calls of a module or function into a graph. Source: `torch.fx.Tracer`.

    autowrap_modules: modules of Python whose functions are a step each, as those of `math`.
    autowrap_functions: functions that are.
    """

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        self._autowrap_function_ids = {
            id(f): f
            for module in autowrap_modules
            for name, f in vars(module).items()
            if not name.startswith("_") and callable(f)
        } | {id(f): f for f in autowrap_functions}
        self._autowrap_search = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.root: Any = None
        self.traced_func_name = "forward"
        self.tensor_attrs: dict[int, str] = {}
        self.submodule_paths: dict[Module, str] = {}

    def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
        """Whether a module is one step: those of PyTorch's own, but for `Sequential`."""
        own = type(m).__module__.startswith(("torch.nn", "torch.ao.nn", "fusegrad"))
        return own and type(m).__name__ != "Sequential"

    def path_of_module(self, mod: Any) -> str:
        """The name of a module in the root. Raises NameError for one that is not there."""
        if not self.submodule_paths:
            self.submodule_paths = {module: name for name, module in self.root.named_modules()}
        if mod not in self.submodule_paths:
            raise NameError("module is not installed as a submodule")
        return self.submodule_paths[mod]

    def call_module(self, m: Any, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """A module is called: a step if it is a leaf, else what it calls."""
        name = self.path_of_module(m)
        if self.is_leaf_module(m, name):
            return self.create_proxy("call_module", name, args, kwargs)
        return forward(*args, **kwargs)

    def create_arg(self, a: Any) -> Any:
        """As the base class has it; parameters, buffers and tensors become steps that read them, and named
        tuples steps that make them.
        """
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            return self.create_node("call_function", type(a), tuple(map(self.create_arg, a)), {})
        if isinstance(a, (tuple, list)):
            return type(a)(map(self.create_arg, a))
        if isinstance(a, dict):
            return {key: self.create_arg(part) for key, part in a.items()}
        return super().create_arg(a)

    def _create_one(self, a: Any) -> Any:
        if isinstance(a, Tensor):
            return self._read_of(a)
        if isinstance(a, Module):
            return self.create_node("get_attr", self.path_of_module(a), (), {})
        return super()._create_one(a)

    def _read_of(self, tensor: Tensor) -> Node:
        name = self.tensor_attrs.get(id(tensor))
        if name is None:
            count = 0
            while hasattr(self.root, f"_tensor_constant{count}"):
                count += 1
            name = f"_tensor_constant{count}"
            self.tensor_attrs[id(tensor)] = name
            setattr(self.root, name, tensor)
        return self.create_node("get_attr", name, (), {})

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """The parts of a value that is taken apart into names: as many as there are names."""
        frame = inspect.currentframe()
        while frame is not None and frame.f_code.co_filename in (__file__, _PROXY):
            frame = frame.f_back
        if frame is not None:
            steps = {step.offset: step for step in dis.get_instructions(frame.f_code)}
            order = sorted(steps)
            at = order.index(frame.f_lasti)
            step = steps[frame.f_lasti]
            if step.opname == "CACHE" or step.opname != "UNPACK_SEQUENCE":
                step = steps[order[min(at + 1, len(order) - 1)]]
            if step.opname == "UNPACK_SEQUENCE":
                return (obj[part] for part in range(step.argval))  # type: ignore[index]
        return super().iter(obj)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """What a module's attribute is while it is traced: parameters and buffers are steps."""
        if isinstance(attr_val, Tensor) and (name := self.tensor_attrs.get(id(attr_val))) is not None:
            if name not in parameter_proxy_cache:
                parameter_proxy_cache[name] = self.create_proxy("get_attr", name, (), {})
            return parameter_proxy_cache[name]
        return attr_val

    def trace(self, root: Any, concrete_args: dict[str, Any] | None = None) -> Graph:
        """The graph of a module's `forward`, or of a function.

        concrete_args: arguments that have these values, and are not given to the graph.
        """
        function = self._begin(root)
        self.graph = Graph(self.root, type(self))
        call, args, kwargs = self._arguments(function, isinstance(root, Module), concrete_args or {})
        cache: dict[str, Any] = {}
        _TRACING.append(True)
        try:
            with self._followed_modules(cache), self._followed_functions(function):
                result = call(*args, **kwargs)
        finally:
            _TRACING.pop()
        kind = getattr(function, "__annotations__", {}).get("return")
        self.create_node("output", "output", (self.create_arg(result),), {}, type_expr=kind)
        return self.graph

    def _begin(self, root: Any) -> Callable[..., Any]:
        self.submodule_paths, self.tensor_attrs = {}, {}
        if not isinstance(root, Module):
            self.root = Module()
            function: Callable[..., Any] = root
            return function
        self.root = root
        for prefix, module in root.named_modules():
            for name, value in [*vars(module).items(), *module._parameters.items(), *module._buffers.items()]:
                if isinstance(value, Tensor):
                    self.tensor_attrs.setdefault(id(value), f"{prefix}.{name}" if prefix else name)
        forward: Callable[..., Any] = getattr(type(root), self.traced_func_name)
        return forward

    def _arguments(
        self, function: Any, is_method: bool, known: dict[str, Any]
    ) -> tuple[Callable[..., Any], list[Any], dict[str, Any]]:
        """The function, and what stands for each of its arguments: for `*args` one thing."""
        given = [*inspect.signature(inspect.unwrap(function)).parameters.values()]
        args: list[Any] = [self.root] if is_method else []
        kwargs: dict[str, Any] = {}
        stars = []
        starred = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        for parameter in sorted(given[is_method:], key=lambda p: p.kind in starred):
            value = self._known(parameter, known) if parameter.name in known else self._placeholder(parameter)
            if parameter.kind in starred:
                stars.append(value)
            elif parameter.kind is parameter.KEYWORD_ONLY:
                kwargs[parameter.name] = value
            else:
                args.append(value)
        if not stars:
            return function, args, kwargs
        args += [*kwargs.values(), *stars]
        return _without_stars(inspect.unwrap(function), len(args)), args, {}

    def create_args_for_root(
        self, root_fn: Any, is_module: bool, concrete_args: dict[str, Any] | None = None
    ) -> tuple[Callable[..., Any], list[Any]]:
        """A function of positional arguments, and what stands for each of these."""
        call, args, kwargs = self._arguments(root_fn, is_module, concrete_args or {})
        return (partial(call, **kwargs) if kwargs else call), args

    def _known(self, parameter: inspect.Parameter, known: dict[str, Any]) -> Any:
        """A value that the graph is written for; the graph says so if it is given another."""
        value = known[parameter.name]
        default = () if parameter.default is parameter.empty else (parameter.default,)
        given = self.create_proxy("placeholder", f"{parameter.name}_1", default, {})
        text = f"{parameter.name} has been specialized to have value {value} but got another value"
        if value is None:
            self.create_proxy("call_function", _assert_is_none, (given, text), {})
        elif isinstance(value, (bool, int, float, str)):
            self.create_proxy("call_function", _assert, (given == value, text), {})
        return value

    def _placeholder(self, parameter: inspect.Parameter) -> Proxy:
        kind: Any = parameter.kind
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(kind, "")
        default = () if parameter.default is parameter.empty else (parameter.default,)
        kind = None if parameter.annotation is parameter.empty else parameter.annotation
        return self.create_proxy(
            "placeholder",
            stars + parameter.name,
            default,
            {},
            type_expr=None if isinstance(kind, str) else kind,
        )

    @contextlib.contextmanager
    def _followed_modules(self, cache: dict[str, Any]) -> Iterator[None]:
        """Calls of modules, and reads of their parameters, come to this tracer."""
        call, read = Module.__call__, Module.__getattr__
        tracer = self

        def traced_call(module: Any, *args: Any, **kwargs: Any) -> Any:
            def forward(*args: Any, **kwargs: Any) -> Any:
                return call(module, *args, **kwargs)

            return tracer.call_module(module, forward, args, kwargs)

        def traced_read(module: Any, name: str) -> Any:
            return tracer.getattr(name, read(module, name), cache)

        Module.__call__, Module.__getattr__ = traced_call, traced_read  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            Module.__call__, Module.__getattr__ = call, read  # type: ignore[method-assign]

    @contextlib.contextmanager
    def _followed_functions(self, function: Any) -> Iterator[None]:
        """Functions that are a step each say so while the tracer is at work."""
        with _Patcher() as patcher:
            _patch_wrapped_functions(patcher)
            globals_of = getattr(inspect.unwrap(function), "__globals__", {})
            for place in (globals_of, *(vars(module) for module in self._autowrap_search)):
                _autowrap_check(patcher, place, self._autowrap_function_ids)
            yield


class _Patcher:
    """Puts things in the places of others for a `with`: functions in modules, methods of classes."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], Any]] = []

    def patch(self, frame_dict: dict[str, Any], name: str, new_fn: Any, deduplicate: bool = True) -> None:
        """Put something into a dict."""
        before = frame_dict.get(name, _NOTHING)
        self._undo.append(
            partial(frame_dict.pop, name)
            if before is _NOTHING
            else partial(frame_dict.__setitem__, name, before)
        )
        frame_dict[name] = new_fn

    def patch_method(self, cls: Any, name: str, new_fn: Any, deduplicate: bool = True) -> None:
        """Put a method onto a class."""
        own = vars(cls).get(name, _NOTHING)
        undo = partial(delattr, cls, name) if own is _NOTHING else partial(setattr, cls, name, own)
        self._undo.append(undo)
        setattr(cls, name, new_fn)

    def __enter__(self) -> _Patcher:
        return self

    def __exit__(self, *error: Any) -> None:
        while self._undo:
            self._undo.pop()()


def _patch_wrapped_functions(patcher: _Patcher) -> None:
    """Have functions that `wrap` was told of be a step each."""
    for (_, name), place in _WRAPPED.items():
        original = place.get(name, getattr(builtins, name, None))
        if original is not None:
            patcher.patch(place, name, _as_a_step(original))


def _autowrap_check(patcher: _Patcher, frame_dict: dict[str, Any], function_ids: Any) -> None:
    """Have functions among these globals be a step each that a tracer was told of."""
    for name, value in list(frame_dict.items()):
        if id(value) in function_ids and not name.startswith("__"):
            patcher.patch(frame_dict, name, _as_a_step(value))


def _without_stars(function: Any, count: int) -> Callable[..., Any]:
    """The function with `*args` and `**kwargs` as plain parameters behind the others."""
    code = function.__code__
    flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    plain = code.replace(co_flags=flags, co_argcount=count, co_kwonlyargcount=0, co_posonlyargcount=0)
    return FunctionType(plain, function.__globals__, function.__name__, None, function.__closure__)


def _assert_is_none(value: Any, msg: str) -> None:
    """Raise AssertionError for anything but None."""
    assert value is None, msg


_NOTHING = object()
_PROXY = sys.modules[Proxy.__module__].__file__


def _as_a_step(original: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which is a step where it is called with what stands for a value."""

    def called(*args: Any, **kwargs: Any) -> Any:
        found = _first_proxy((args, kwargs))
        if found is None:
            return original(*args, **kwargs)
        return found.tracer.create_proxy("call_function", original, args, kwargs)

    if isinstance(original, FunctionType):
        called.__name__, called.__module__ = original.__name__, original.__module__
    return called


def _first_proxy(given: Any) -> Proxy | None:
    if isinstance(given, Proxy):
        return given
    if isinstance(given, (tuple, list)):
        return next((p for p in map(_first_proxy, given) if p is not None), None)
    return _first_proxy(list(given.values())) if isinstance(given, dict) else None


def symbolic_trace(root: Any, concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """A module that does what a module or function does, by its graph. Source: `torch.fx.symbolic_trace`.

    Raises TraceError where the program decides by values.

    >>> import fusegrad as fg
    >>> traced = symbolic_trace(lambda x: fg.relu(x) + 1)
    >>> traced(fg.tensor([-1.0, 2.0]))
    tensor([1., 3.])
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
