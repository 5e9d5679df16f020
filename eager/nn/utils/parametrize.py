"""Parameters that are computed from others at every use. Source: `torch.nn.utils.parametrize`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from typing import Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.state import no_grad
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.nn.containers import ModuleDict, ModuleList
from fusegrad.eager.nn.module import Module, Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

# Inside `cached`: what was computed of a module under a name, by the module's id; how often it was entered.
_values: dict[tuple[int, str], Tensor] = {}
_entered = [0]


@contextmanager
def cached() -> Iterator[None]:
    """Inside, a parametrized tensor is computed once. Source: `torch.nn.utils.parametrize.cached`.

    >>> import fusegrad as fg
    >>> layer = fg.nn.utils.parametrizations.weight_norm(fg.nn.Linear(3, 2))
    >>> with fg.nn.utils.parametrize.cached():
    ...     layer.weight is layer.weight
    True
    """
    _entered[0] += 1
    try:
        yield
    finally:
        _entered[0] -= 1
        if not _entered[0]:
            _values.clear()


class ParametrizationList(ModuleList):
    """The modules that make one parameter, and the tensors (`original`, or `original0`, ...) that they
    make it from. Source: `torch.nn.utils.parametrize.ParametrizationList`."""

    def __init__(self, modules: list[Module], original: Tensor) -> None:
        super().__init__(modules)
        value: Any = original
        with no_grad():
            for module in reversed(modules):
                if hasattr(module, "right_inverse"):
                    with suppress(NotImplementedError):  # it starts from the value itself
                        value = module.right_inverse(value)
        _check_inverse(original, value)
        self.is_tensor = isinstance(value, Tensor)
        kind = Parameter if isinstance(original, Parameter) else None
        if self.is_tensor:
            self._keep("original", original, kind, value)
            self.names = ["original"]
        else:
            self.names = [f"original{i}" for i in range(len(value))]
            for name, part in zip(self.names, value, strict=True):
                fresh = part.detach()
                self._keep(name, Parameter(fresh, original.requires_grad) if kind else fresh, kind, part)

    def _keep(self, name: str, tensor: Tensor, kind: Any, value: Tensor) -> None:
        if value is not tensor:
            tensor.data = value.detach()
        if kind is None:
            self.register_buffer(name, tensor)
        else:
            setattr(self, name, tensor)

    def right_inverse(self, value: Tensor) -> None:
        """Set the originals so that they make `value`. Raises RuntimeError where a module has no inverse."""
        found: Any = value
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise failure(
                        RuntimeError,
                        f"parametrization {type(module).__name__} does not implement right_inverse: what it "
                        "makes cannot be assigned",
                    )
                found = module.right_inverse(found)
            parts = [found] if self.is_tensor else found
            for name, part in zip(self.names, parts, strict=True):
                getattr(self, name).data = part.detach()

    def forward(self) -> Tensor:
        first, *others = list(self)
        value = first(*(getattr(self, name) for name in self.names))
        for module in others:
            value = module(value)
        return value


def _check_inverse(original: Tensor, value: Any) -> None:
    """Refuse what a `right_inverse` may not give."""
    if isinstance(value, Tensor):
        if value.dtype is not original.dtype:
            raise failure(
                ValueError,
                "When `right_inverse` outputs one tensor, it may not change the dtype: "
                f"{original.dtype} became {value.dtype}",
            )
        return
    if not isinstance(value, Sequence):
        raise failure(
            ValueError,
            f"'right_inverse' must return a Tensor or a Sequence of tensors. Got {type(value).__name__}",
        )
    for i, part in enumerate(value):
        if not isinstance(part, Tensor):
            raise failure(
                ValueError,
                f"'right_inverse' must return a Tensor or a Sequence of tensors. Got element {i} of the "
                f"sequence with type {type(part).__name__}",
            )


def _check_made(made: Any, before: Tensor) -> None:
    """Refuse what a parametrization may not make of a tensor."""
    if not isinstance(made, Tensor):
        raise failure(ValueError, f"A parametrization must return a tensor. Got {type(made).__name__}")
    for what, old, new in (
        ("dtype", before.dtype, made.dtype),
        ("shape", list(before.array.shape), list(made.array.shape)),
    ):
        if new != old:
            raise failure(
                ValueError,
                f"Registering a parametrization may not change the {what} of the tensor, unless the `unsafe` "
                f"flag is enabled: {old} became {new}",
            )


def _check_back(found: Any, value: Tensor) -> None:
    """Refuse a `right_inverse` that is put before another one and gives something else than that takes."""
    if not isinstance(found, Tensor):
        raise failure(
            ValueError,
            "parametrization.right_inverse must return a tensor if the tensor is parametrized already. Got "
            f"{type(found).__name__}",
        )
    for what, old, new in (
        ("dtype", value.dtype, found.dtype),
        ("shape", list(value.array.shape), list(found.array.shape)),
    ):
        if new != old:
            raise failure(
                ValueError,
                f"The tensor returned by parametrization.right_inverse must have the same {what} as "
                f"the parametrized one, unless the `unsafe` flag is enabled: {old} became {new}",
            )


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Have `module.tensor_name` be what `parametrization` makes of it; gives `module`.

    parametrization: a module whose `right_inverse`, where it has one, gives the tensors to start from;
    a second one is put behind the first, on the value that is there.
    unsafe: skip the check that shape and dtype stay. Source:
    `torch.nn.utils.parametrize.register_parametrization`. Raises ValueError where there is no such
    parameter or buffer, or the check fails.

    >>> import fusegrad as fg
    >>> class Symmetric(fg.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).T
    >>> layer = fg.nn.Linear(3, 3)
    >>> _ = fg.nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
    >>> fg.equal(layer.weight, layer.weight.T)
    True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            with no_grad():
                value = getattr(module, tensor_name)
                made = parametrization(value)
                _check_made(made, value)
                if hasattr(parametrization, "right_inverse"):
                    _check_back(parametrization.right_inverse(made), value)
        module.parametrizations[tensor_name].append(parametrization)
        return module
    original = module._parameters.get(tensor_name)
    if original is None:
        original = module._buffers.get(tensor_name)  # type: ignore[assignment]
    if original is None:
        raise failure(
            ValueError,
            f"Module '{type(module).__name__}' does not have a parameter, a buffer, or a parametrized "
            f"element with name '{tensor_name}'",
        )
    before = original.detach()
    made = ParametrizationList([parametrization], original)
    if not unsafe:
        try:
            with no_grad():
                _check_made(made(), before)
        except Exception:
            original.data = before
            raise
    delattr(module, tensor_name)
    if not is_parametrized(module):
        kind = type(module)
        members = {"__module__": kind.__module__, "__getstate__": _refuse_pickling, "__deepcopy__": _copied}
        module.__class__ = type(f"Parametrized{kind.__name__}", (kind,), members)
        module.parametrizations = ModuleDict()
    setattr(type(module), tensor_name, _computed(tensor_name))
    module.parametrizations[tensor_name] = made.train(module.training)
    return module


def _computed(name: str) -> property:
    """The attribute of a parametrized tensor: computed when it is read; assigning sets the originals."""

    def read(self: Any) -> Tensor:
        if not _entered[0]:
            return self.parametrizations[name]()
        key = id(self), name
        if key not in _values:
            _values[key] = self.parametrizations[name]()
        return _values[key]

    def write(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(read, write)


def _refuse_pickling(self: Module) -> Any:
    raise failure(
        RuntimeError,
        "Serialization of parametrized modules is only supported through state_dict(), since their classes "
        "are made at run time",
    )


def _copied(self: Module, memo: dict[int, Any]) -> Module:
    """A deep copy, with a class of its own: its attributes may become other ones."""
    kind = type(self)
    made: Any = object.__new__(type(kind.__name__, kind.__bases__, dict(vars(kind))))
    memo[id(self)] = made
    made.__dict__.update(deepcopy(self.__dict__, memo))
    return made


def type_before_parametrizations(module: Module) -> type:
    """The class that a module had before it was parametrized.

    Source: `torch.nn.utils.parametrize.type_before_parametrizations`.
    """
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Parametrize `to_module` as `from_module` is (or one tensor of it), with its originals.

    Source: `torch.nn.utils.parametrize.transfer_parametrizations_and_params`.
    """
    names = list(from_module.parametrizations) if tensor_name is None else [tensor_name]
    for name in names:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach()))
        known = from_module.parametrizations[name]
        for parametrization in known:
            register_parametrization(to_module, name, parametrization)
        for original in known.names:
            setattr(to_module.parametrizations[name], original, getattr(known, original))
    return to_module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether the module has parametrizations (of that name). Source: `torch.nn.utils.parametrize`."""
    known = module._modules.get("parametrizations")
    if not isinstance(known, ModuleDict):
        return False
    return tensor_name in known if tensor_name is not None else len(known) > 0


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make a parametrized tensor an ordinary one again; gives `module`.

    leave_parametrized: keep the computed value; otherwise the original one, if there is just one.
    Source: `torch.nn.utils.parametrize.remove_parametrizations`.
    """
    if not is_parametrized(module, tensor_name):
        raise failure(ValueError, f"Module {module} does not have a parametrization on {tensor_name}")
    made = module.parametrizations[tensor_name]
    if not leave_parametrized and not made.is_tensor:
        raise failure(
            ValueError,
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms "
            "of a sequence of tensors.",
        )
    original = getattr(made, made.names[0])
    trained = isinstance(original, Parameter)
    if leave_parametrized:
        with no_grad():
            value = made().detach().clone()
        if made.is_tensor:
            original.data = value
        else:
            original = Parameter(value, original.requires_grad) if trained else value
    del module.parametrizations[tensor_name]
    delattr(type(module), tensor_name)
    if trained:
        module.register_parameter(tensor_name, original)
    else:
        module.register_buffer(tensor_name, original)
    if not len(module.parametrizations):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


locate("fusegrad.nn.utils.parametrize", globals(), __all__)
