"""Parameters that are computed from others at every use. Source: `torch.nn.utils.parametrize`."""

from __future__ import annotations

from typing import Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.state import no_grad
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.nn.containers import ModuleDict, ModuleList
from fusegrad.eager.nn.module import Module, Parameter

__all__ = ["ParametrizationList", "is_parametrized", "register_parametrization", "remove_parametrizations"]


class ParametrizationList(ModuleList):
    """The modules that make one parameter, and the tensors (`original`, or `original0`, ...) that they
    make it from. Source: `torch.nn.utils.parametrize.ParametrizationList`."""

    def __init__(self, modules: list[Module], original: Tensor) -> None:
        super().__init__(modules)
        value: Any = original
        with no_grad():
            for module in reversed(modules):
                if hasattr(module, "right_inverse"):
                    value = module.right_inverse(value)
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

    def forward(self) -> Tensor:
        first, *others = list(self)
        value = first(*(getattr(self, name) for name in self.names))
        for module in others:
            value = module(value)
        return value


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
    before = original.array.shape, original.array.dtype
    made = ParametrizationList([parametrization], original)
    if not unsafe:
        with no_grad():
            after = made()
        if (after.array.shape, after.array.dtype) != before:
            raise failure(
                ValueError,
                "Registering a parametrization may not change the shape or the dtype of the tensor, unless "
                f"the `unsafe` flag is enabled: {before[1].name}{list(before[0])} became "
                f"{after.array.dtype.name}{list(after.array.shape)}",
            )
    delattr(module, tensor_name)
    if not is_parametrized(module):
        kind = type(module)
        module.__class__ = type(f"Parametrized{kind.__name__}", (kind,), {"__module__": kind.__module__})
        module.parametrizations = ModuleDict()
    setattr(type(module), tensor_name, property(lambda self: self.parametrizations[tensor_name]()))
    module.parametrizations[tensor_name] = made.train(module.training)
    return module


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
