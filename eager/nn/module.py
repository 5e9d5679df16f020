"""`Module`: PyTorch's way to hold the state of a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self

from fusegrad.eager.autograd.accumulation import gradient_of, set_gradient
from fusegrad.eager.autograd.node import reach
from fusegrad.eager.core import shared
from fusegrad.eager.core.public import home
from fusegrad.eager.core.state import no_grad
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.nn.hooks import EVERYWHERE, HOOKS, Hooked, RemovableHandle, registered
from fusegrad.eager.nn.parameter import Buffer, Moved, Parameter
from fusegrad.eager.nn.saved_state import IncompatibleKeys, Saved
from fusegrad.eager.ops.forms import given, refusal

__all__ = [
    "Buffer",
    "IncompatibleKeys",
    "Module",
    "Parameter",
    "RemovableHandle",
    "clear_gradient",
]


class Module(Hooked, Moved, Saved):
    """A network, or a part of one. Subclasses define `forward`. Source: `torch.nn.Module`.

    Parameters, buffers and submodules that are assigned as attributes are kept in `_parameters`,
    `_buffers` and `_modules`, and so are found by `parameters()`, `state_dict()` and their kin.
    """

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]
    _compiled_call_impl: Any = None  # what `compile` put in the place of `forward`
    _compiler: Callable[
        ..., Any
    ]  # `fusegrad.compile`, which stands above this room: the public package sets it

    def __init__(self) -> None:
        state = self.__dict__
        state["training"] = True
        state["_parameters"] = {}
        state["_buffers"] = {}
        state["_modules"] = {}
        state["_non_persistent_buffers_set"] = set()
        for place in HOOKS:
            state[place] = {}

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; defined by subclasses."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not (
            self._forward_hooks
            or self._forward_pre_hooks
            or self._backward_hooks
            or self._backward_pre_hooks
            or EVERYWHERE.ids
        ):
            try:
                return self.forward(*args, **kwargs)
            except AttributeError as error:
                if home(type(self)) is None:
                    raise
                refused = refusal(error, self.forward, given(*args, **kwargs), type(self).__name__)
                if refused is error:
                    raise
                raise refused from None
        return self._call_hooked(args, kwargs)

    # Attributes.

    def __getattr__(self, name: str) -> Any:
        # Called only where the ordinary look-up finds nothing.
        for place in ("_parameters", "_buffers", "_modules"):
            held = self.__dict__.get(place)
            if held is not None and name in held:
                return held[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        state = self.__dict__
        parameters, modules, buffers = (state.get(place) for place in ("_parameters", "_modules", "_buffers"))
        if isinstance(value, Parameter):
            if parameters is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, state, buffers, modules)
            self.register_parameter(name, value)
        elif parameters is not None and name in parameters:
            parameters[name] = _expected(name, value, (), "parameter", "torch.nn.Parameter")
        elif isinstance(value, Module):
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, state, parameters, buffers)
            modules[name] = registered(EVERYWHERE.module_hooks, self, name, value)
        elif modules is not None and name in modules:
            value = _expected(name, value, (), "child module", "torch.nn.Module")
            modules[name] = registered(EVERYWHERE.module_hooks, self, name, value)
        elif isinstance(value, Buffer):
            self.register_buffer(name, value, value.persistent)
        elif buffers is not None and name in buffers:
            value = _expected(name, value, Tensor, "buffer", "torch.nn.Buffer, torch.Tensor")
            buffers[name] = registered(EVERYWHERE.buffer_hooks, self, name, value)
        else:
            object.__setattr__(self, name, value)

    def _forget(self, name: str, *places: dict[str, Any] | None) -> None:
        """Take whatever had the name out of the other places."""
        for place in places:
            if place is not None:
                place.pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def __delattr__(self, name: str) -> None:
        for place in ("_parameters", "_buffers", "_modules"):
            if name in self.__dict__[place]:
                del self.__dict__[place][name]
                self.__dict__["_non_persistent_buffers_set"].discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        held = [*self._parameters, *self._buffers, *self._modules]
        return sorted({name for name in {*super().__dir__(), *held} if not name[0].isdigit()})

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        if state.pop("_compiled_call_impl", None) is not None:
            del state["forward"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Files that PyTorch wrote have other dicts here, and its older versions had fewer.
        self.__dict__.update(state)
        for place in (*HOOKS, "_parameters", "_buffers", "_modules"):
            self.__dict__[place] = dict(self.__dict__.get(place, ()))
        self.__dict__.setdefault("_non_persistent_buffers_set", set())

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter (None keeps the name without one)."""
        self._check_name(name, "parameter", "_parameters")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{type(param).__name__}' object to parameter '{name}' "
                "(torch.nn.Parameter or None required)"
            )
        if param is not None and not param.is_leaf:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created "
                f"explicitly. To express '{name}' as a function of another Tensor, compute the value in "
                "the forward() method."
            )
        if param is not None:
            param = registered(EVERYWHERE.parameter_hooks, self, name, param)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but no parameter; in `state_dict` if `persistent`."""
        self._check_name(name, "buffer", "_buffers")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' "
                "(torch Tensor or None required)"
            )
        self._buffers[name] = registered(EVERYWHERE.buffer_hooks, self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a submodule under a name."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._check_name(name, "module", "_modules")
        self._modules[name] = registered(EVERYWHERE.module_hooks, self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """Another name of `add_module`."""
        self.add_module(name, module)

    def _check_name(self, name: str, what: str, place: str) -> None:
        if place not in self.__dict__:
            raise AttributeError(f"cannot assign {what} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{what} name should be a string. Got {type(name).__name__}")
        if "." in name:
            raise KeyError(f'{what} name can\'t contain "."' + f", got: {name}" * (what == "module"))
        if not name:
            raise KeyError(f'{what} name can\'t be empty string ""')
        if hasattr(self, name) and name not in self.__dict__[place]:
            raise KeyError(f"attribute '{name}' already exists")

    # Walking.

    def children(self) -> Iterator[Module]:
        """The immediate submodules."""
        return (module for _, module in self.named_children())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The immediate submodules with their names."""
        seen: set[int] = set()
        for name, module in self._modules.items():
            if module is not None and id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below it, each once."""
        return (module for _, module in self.named_modules(remove_duplicate=remove_duplicate))

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all below it, each once, with dotted names."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(
                    memo, f"{prefix}.{name}" if prefix else name, remove_duplicate
                )

    def _named(self, place: str, prefix: str, recurse: bool, unique: bool) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=unique) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, value in module.__dict__[place].items():
                if value is None or (unique and id(value) in seen):
                    continue
                seen.add(id(value))
                yield f"{path}.{name}" if path else name, value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """All parameters with dotted names, shared ones once."""
        return self._named("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """All parameters, shared ones once."""
        return (value for _, value in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """All buffers with dotted names."""
        return self._named("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """All buffers."""
        return (value for _, value in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> Module:
        """The submodule of a dotted name; raises AttributeError where there is none."""
        module: Any = self
        for name in target.split(".") if target else ():
            module = module._found(name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def _found(self, name: str) -> Any:
        if not hasattr(self, name):
            raise AttributeError(f"{self._get_name()} has no attribute `{name}`")
        return getattr(self, name)

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a module at a dotted name; with `strict`, only where one is."""
        if not target:
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if (strict or hasattr(parent, name)) and not isinstance(parent._found(name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter of a dotted name; raises AttributeError where there is none."""
        path, _, name = target.rpartition(".")
        value = self.get_submodule(path)._found(name)
        if not isinstance(value, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return value

    def get_buffer(self, target: str) -> Tensor:
        """The buffer of a dotted name; raises AttributeError where there is none."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        value = module._found(name)
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return value

    # Changing all at once.

    def train(self, mode: bool = True) -> Self:
        """Set training mode here and below."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Set evaluation mode here and below."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set `requires_grad` of all parameters."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters (or set them to 0)."""
        for parameter in self.parameters():
            clear_gradient(parameter, set_to_none)

    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """Call `fn` on every module below, then on this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace the values of all parameters, gradients and buffers by what `fn` makes of them."""
        for module in self.children() if recurse else ():
            module._apply(fn)
        for parameter in self._parameters.values():
            if parameter is None:
                continue
            with no_grad():
                changed, gradient = fn(parameter), parameter.gradient
                reach(changed)
                if changed.array is not parameter.array:
                    shared.tell_replaced(parameter, changed.array)
                    parameter.array = changed.array
                    parameter.version = [parameter.version[0] + 1, *parameter.version[1:]]
                if gradient is not None:
                    changed = fn(gradient)
                    reach(changed)
                    gradient.array = changed.array
                    shared.watching.moved()
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def share_memory(self) -> Self:
        """Move parameters and buffers to memory that other processes can have; see `Tensor.share_memory_`."""
        for tensor in (*self.parameters(), *self.buffers()):
            tensor.share_memory_()
        return self

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile `forward` in place, as `fusegrad.compile` does, which takes the arguments.

        Names of parameters stay what they are; copies and pickles are not compiled.

        >>> import fusegrad as fg
        >>> net = fg.nn.Linear(2, 2)
        >>> net.compile()
        >>> [net(fg.ones(1, 2)).shape for _ in range(3)][-1], net.forward.stats.compiled_calls
        (torch.Size([1, 2]), 2)
        """
        if self._compiled_call_impl is not None:
            del self.__dict__["forward"]
        self.__dict__["forward"] = self.__dict__["_compiled_call_impl"] = Module._compiler(
            self.forward, *args, **kwargs
        )

    # Text.

    def extra_repr(self) -> str:
        """What stands between the parentheses of the repr; for subclasses."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): {_indented(repr(m))}" for name, m in self._modules.items()]
        if len(lines) <= 1 and not children:
            return f"{self._get_name()}({extra})"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines + children) + "\n)"


def _expected(name: str, value: Any, kinds: Any, what: str, expected: str) -> Any:
    """`value`, which must be None or of `kinds` to take the place of what `name` holds."""
    if value is not None and not isinstance(value, kinds):
        raise TypeError(
            f"cannot assign '{type(value).__name__}' as {what} '{name}' ({expected} or None expected)"
        )
    return value


def _indented(text: str) -> str:
    """The repr of a submodule, its lines after the first one moved in."""
    first, *rest = text.split("\n")
    return "\n".join([first, *("  " + line if line.strip() else "" for line in rest)])


def clear_gradient(parameter: Tensor, set_to_none: bool) -> None:
    """Drop a tensor's gradient, or set it to 0 in place."""
    if set_to_none:
        set_gradient(parameter, None)
        return
    gradient = gradient_of(parameter)
    if gradient is not None:
        gradient.detach_()
        gradient.zero_()
