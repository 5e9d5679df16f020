"""Modules and parameters held in lists and dictionaries. As in `torch.nn`."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.nn.module import Module, Parameter


class _Numbered(Module):
    """Submodules in an order, under the names "0", "1", ... (or others, in a Sequential)."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())  # type: ignore[arg-type]

    def __dir__(self) -> list[str]:
        return [key for key in super().__dir__() if not key.isdigit()]

    def _place(self, index: Any) -> int:
        """`index` counted from the start; IndexError outside."""
        return _place(index, len(self))

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, list(self._modules)[self._place(index)], module)

    def __delitem__(self, index: int | slice) -> None:
        kept = list(self._modules.values())
        del kept[index if isinstance(index, slice) else self._place(index)]
        self._renumber(kept)

    def _renumber(self, modules: list[Any]) -> None:
        """Hold just these modules, named by their places."""
        self._modules.clear()
        self.extend(modules)

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end."""
        if not isinstance(modules, Iterable):
            name = type(self).__name__
            raise TypeError(
                f"{name}.extend should be called with an iterable, but got {type(modules).__name__}"
            )
        for module in list(modules):
            self.append(module)
        return self

    def pop(self, key: int | slice) -> Any:
        """Take a module (or several) out."""
        module = self[key]  # type: ignore[index]
        del self[key]
        return module


class Sequential(_Numbered):
    """Modules one after the other. Source: `torch.nn.Sequential`."""

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], Mapping):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for place, module in enumerate(args):
                self.add_module(str(place), module)

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)  # type: ignore[misc]
        return input

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(dict(list(self._modules.items())[index]))
        return list(self._modules.values())[self._place(index)]

    def insert(self, index: int, module: Module) -> Self:
        """Put a module in before `index`."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}")
        modules: list[Any] = list(self)
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def __iadd__(self, other: Any) -> Self:
        if not isinstance(other, Sequential):
            raise ValueError(
                f"add operator supports only objects of Sequential class, but {type(other)} is given."
            )
        return self.extend(other)

    def __add__(self, other: Any) -> Sequential:
        combined = Sequential(*self)
        combined += other
        return combined

    def _repeated(self, times: Any) -> list[Module]:
        if not isinstance(times, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(times)}")
        if times <= 0:
            raise ValueError(f"Non-positive multiplication factor {times} for {type(self)}")
        return list(self) * times

    def __mul__(self, other: int) -> Sequential:
        return Sequential(*self._repeated(other))

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Self:
        return self.extend(self._repeated(other)[len(self) :])


class ModuleList(_Numbered):
    """A list of modules. Source: `torch.nn.ModuleList`."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index: int | slice) -> Any:
        modules = list(self._modules.values())
        if isinstance(index, slice):
            return type(self)(modules[index])  # type: ignore[arg-type]
        return modules[self._place(index)]

    def insert(self, index: int, module: Module) -> None:
        """Put a module in before `index`."""
        modules: list[Any] = list(self)
        modules.insert(index, module)
        self._renumber(modules)

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __repr__(self) -> str:
        """Equal neighbours in one line, as in `(0-2): 3 x Linear(...)`."""
        blocks: list[tuple[str, list[int]]] = []
        for place, text in enumerate(map(repr, self)):
            if blocks and blocks[-1][0] == text:
                blocks[-1][1].append(place)
            else:
                blocks.append((text, [place]))
        lines = [
            f"({at[0]}-{at[-1]}): {len(at)} x {text}" if len(at) > 1 else f"({at[0]}): {text}"
            for text, at in blocks
        ]
        inside = "".join("\n  " + line.replace("\n", "\n  ") for line in lines)
        return f"{self._get_name()}({inside}{chr(10) if lines else ''})"


class _Dictionary:
    """What modules and parameters by name share: they update as a dict does."""

    def update(self, values: Any) -> None:
        """Add or replace, from a mapping or from pairs."""
        if not isinstance(values, Iterable):
            name = type(self).__name__
            raise TypeError(
                f"{name}.update should be called with an iterable of key/value pairs, "
                f"but got {type(values).__name__}"
            )
        for key, value in values.items() if hasattr(values, "items") else values:
            self[key] = value  # type: ignore[index]

    def pop(self, key: str) -> Any:
        """Take one out."""
        value = self[key]  # type: ignore[index]
        del self[key]  # type: ignore[attr-defined]
        return value

    def clear(self) -> None:
        """Take all out."""
        for key in list(self):  # type: ignore[call-overload]
            del self[key]  # type: ignore[attr-defined]


class ModuleDict(_Dictionary, Module):
    """Modules by name. Source: `torch.nn.ModuleDict`."""

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._modules.keys()

    def values(self) -> Iterable[Any]:
        """The modules."""
        return self._modules.values()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names and modules."""
        return self._modules.items()


# Parameters. Other values are held too, as ordinary attributes.


def _place(index: Any, size: int) -> int:
    index = operator.index(index)
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of range")
    return index % size


def _as_parameter(value: Any) -> Any:
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


_TYPES = {  # how PyTorch calls the types of tensors
    "float16": "Half", "bfloat16": "BFloat16", "float32": "Float", "float64": "Double", "int64": "Long",
    "int32": "Int",
    "int16": "Short", "int8": "Char", "uint8": "Byte", "bool": "Bool",
}  # fmt: skip


def _text(key: Any, value: Any, kind: str) -> str:
    """A line of the repr; `kind` is how the list or dict names the type of a tensor's elements."""
    if not isinstance(value, Tensor):
        return f"  ({key}): Object of type: {type(value).__name__}"
    name = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"  ({key}): {name} containing: [{kind} of size {'x'.join(map(str, value.array.shape))}]"


class ParameterList(Module):
    """A list of parameters; tensors are made parameters. Source: `torch.nn.ParameterList`."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(len(self))])

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)([self[i] for i in range(*index.indices(len(self)))])
        return getattr(self, str(_place(index, len(self))))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, str(_place(index, len(self))), _as_parameter(value))

    def append(self, value: Any) -> Self:
        """Add a value at the end."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Add values at the end."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(
                f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}"
            )
        for value in list(values):
            self.append(value)
        return self

    __iadd__ = extend

    def extra_repr(self) -> str:
        return "\n".join(_text(i, p, repr(getattr(p, "dtype", ""))) for i, p in enumerate(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(_Dictionary, Module):
    """Parameters by name; tensors are made parameters. Source: `torch.nn.ParameterDict`."""

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def update(self, parameters: Any) -> None:
        """Add or replace, from a mapping (a plain one in the order of its names) or from pairs."""
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            parameters = sorted(parameters.items())
        super().update(parameters)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def __getitem__(self, key: str) -> Any:
        return getattr(self, _checked_key(key))

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, _checked_key(key), _as_parameter(value))
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._keys.keys()

    def values(self) -> Iterable[Any]:
        """The values."""
        return [self[key] for key in self]

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names and values."""
        return [(key, self[key]) for key in self]

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a name, or `default`."""
        return self[key] if key in self else default  # noqa: SIM401  (this is get itself)

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of a name, which is made `default` if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def popitem(self) -> tuple[str, Any]:
        """Take the last name and value out."""
        key = next(reversed(self))
        return key, self.pop(key)

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A dict with one value for all names."""
        return ParameterDict((key, default) for key in keys)

    def copy(self) -> ParameterDict:
        """A dict with the same values."""
        return ParameterDict(self)

    def __or__(self, other: Any) -> ParameterDict:
        combined = self.copy()
        combined.update(other)
        return combined

    def __ior__(self, other: Any) -> Self:
        self.update(other)
        return self

    def extra_repr(self) -> str:
        return "\n".join(_text(key, value, _type_name(value)) for key, value in self.items())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")


def _type_name(value: Any) -> str:
    kind = getattr(getattr(value, "dtype", None), "name", "")
    return f"torch.{_TYPES.get(kind, '')}Tensor"


def _checked_key(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(
            f"Index given to ParameterDict cannot be used as a key as it is not a string "
            f"(type is {type(key).__name__!r})."
        )
    return key


class ScriptModule(Module):
    """What scripted modules derive from: programs may, too, and ask whether a module is one.

    Source: `torch.jit.ScriptModule`, with scripting switched off.
    """
