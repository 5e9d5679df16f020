"""`Parameter` and `Buffer`: tensors that a module knows as its own, and how it converts them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partialmethod
from typing import Any, Self

import numpy as np

from fusegrad.eager.autograd.node import reach, share
from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure, warn
from fusegrad.eager.core.memory_order import LAST
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.places.device import CPU, device, made_on, on_cpu, on_its_device, place_of
from fusegrad.eager.core.places.meta import NO_DATA
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor, require_grad
from fusegrad.eager.ops.overrides.protocol import answers, disabled

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "UninitializedTensorMixin",
    "is_lazy",
]


def _sharing(cls: type[Tensor], data: Any) -> Any:
    """A tensor of a class of its own with the memory of `data` (an empty one, for None)."""
    if data is None:
        tensor = wrap(np.zeros(0, dtypes.default_float().numpy))
    else:
        reach(data)
        tensor = share(data)
    tensor.__class__ = cls
    return tensor


class _Trained(type):
    """The class of `Parameter`, which tensors of users' classes are instances of that it was called with."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return cls is Parameter and isinstance(instance, Tensor) and "_is_param" in instance.__dict__


class Parameter(Tensor, metaclass=_Trained):
    """A tensor that a module trains: assigned to an attribute, it is among its parameters.

    Shares the memory of `data`, and stays of its class if that has a `__torch_function__`. Source:
    `torch.nn.Parameter`. Raises RuntimeError for such a class whose `detach` gives another one.
    """

    __slots__ = ()
    __torch_function__ = staticmethod(disabled)

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Parameter:
        if answers(data):
            tensor = require_grad(data.detach(), requires_grad)
            if type(tensor) is not type(data):
                name = type(data).__name__
                raise failure(
                    RuntimeError,
                    f"Creating a Parameter from an instance of type {name} requires that detach() returns an "
                    f"instance of the same type, but return type {type(tensor).__name__} was found instead.",
                )
            tensor._is_param = True
            return tensor
        return require_grad(_sharing(cls, data), requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        # Without gradient and attributes, as in PyTorch.
        copied = memo[id(self)] = type(self)(self.detach().clone(), self.requires_grad)
        return copied

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


class Buffer(Tensor):
    """A tensor that a module keeps but does not train: assigned to an attribute, it is among its buffers.

    Shares the memory of `data`; in `state_dict` if `persistent`. Source: `torch.nn.Buffer`.
    """

    __slots__ = ()
    __torch_function__ = staticmethod(disabled)
    persistent: bool

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Buffer:
        tensor = _sharing(cls, data)
        tensor.persistent = persistent
        return tensor


class Moved:
    """What a module has to convert its tensors, and to have them elsewhere."""

    _apply: Callable[..., Self]
    parameters: Callable[..., Iterator[Tensor]]
    buffers: Callable[..., Iterator[Tensor]]

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Convert floating-point parameters and buffers to a dtype, and have all on a device.

        Raises TypeError for a dtype that is neither floating-point nor complex, NotImplementedError for meta
        tensors to the CPU, RuntimeError for `copy=True`.
        """
        if kwargs.get("copy"):
            raise failure(RuntimeError, ".to() does not accept copy argument: deepcopy the module before")
        probe = wrap(np.zeros((), np.float32)).to(*args, **{**kwargs, "memory_format": None})
        given = (
            any(isinstance(a, (dtypes.DType, type, Tensor)) for a in args) or kwargs.get("dtype") is not None
        )
        there = any(isinstance(a, (str, device)) for a in args) or kwargs.get("device") is not None
        if there or any(isinstance(a, Tensor) for a in args):
            self._move(probe.device)
        made = self._converted(probe.dtype) if given else self
        form = kwargs.get("memory_format")
        if form is None:
            return made
        return made._apply(lambda t: t.to(memory_format=form) if t.dim() in LAST.values() else t)

    def _move(self, place: device) -> None:
        if all(t.device is place for t in (*self.parameters(), *self.buffers())):
            return
        if place is CPU:
            raise failure(
                NotImplementedError,
                f"{NO_DATA} Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to() "
                "when moving module from meta to a different device.",
            )
        self._apply(lambda t: t.to(place))

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Give all parameters and buffers other memory, on a device, with no values of theirs."""
        with made_on(place_of(device)):
            return self._apply(lambda t: ops.empty(t.shape, dtype=t.dtype), recurse)

    def _converted(self, dtype: dtypes.DType) -> Self:
        if not dtype.is_floating_point and not dtype.is_complex:
            raise failure(
                TypeError,
                "nn.Module.to only accepts floating point or complex dtypes, but got desired "
                f"dtype={dtype!r}",
            )
        if dtype.is_complex:
            warn(
                "Complex modules are a new feature; some modules might not work as expected when using "
                "complex tensors as parameters or buffers."
            )
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() or t.is_complex() else t)

    def type(self, dst_type: Any) -> Self:
        """All parameters and buffers, integer ones too, in a dtype."""
        return self._apply(lambda t: t.to(dtypes.as_dtype(dst_type)))

    def _floating(self, dtype: dtypes.DType) -> Self:
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def float(self) -> Self:
        """Floating-point parameters and buffers as float32."""
        return self._floating(dtypes.float32)

    def double(self) -> Self:
        """Floating-point parameters and buffers as float64."""
        return self._floating(dtypes.float64)

    def half(self) -> Self:
        """Floating-point parameters and buffers as float16."""
        return self._floating(dtypes.float16)

    def bfloat16(self) -> Self:
        """Floating-point parameters and buffers as bfloat16."""
        return self._floating(dtypes.bfloat16)

    def cuda(self, device: Any = None) -> Self:
        """Raises RuntimeError: there is no other device than the CPU."""
        on_cpu("cuda")
        return self

    def cpu(self) -> Self:
        """On the CPU. Raises NotImplementedError for meta tensors."""
        self._move(CPU)  # not by `to`, which may be a user's that calls this
        return self


# Parameters and buffers of which nobody knows the shape yet: a layer learns it from its first input.


class _NoElements:
    """What such a tensor has for an array: who asks for more than its dtype and its device is refused."""

    __slots__ = ("dtype", "place")

    def __init__(self, dtype: Any, place: Any) -> None:
        self.dtype, self.place = dtype, place

    def __getattr__(self, name: str) -> Any:
        raise failure(
            ValueError,
            "Attempted to use an uninitialized parameter. This error happens when you are using a "
            "`LazyModule` or explicitly manipulating `torch.nn.parameter.UninitializedParameter` objects. "
            "When using LazyModules Call `forward` with a dummy batch to initialize the parameters before "
            "calling torch functions",
        )


class UninitializedTensorMixin:
    """What both have. Source: `torch.nn.parameter.UninitializedTensorMixin`."""

    __slots__ = ()
    cls_to_become: Any
    array: Any

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become a parameter, or a tensor, of a shape, whose values are still to be drawn."""
        if state.interpreter is not None:
            state.interpreter.effect("gives a parameter its shape", "once")
        kind = dtypes.as_dtype(self.array.dtype if dtype is None else dtype)
        with made_on(self.array.place if device is None else place_of(device)):
            self.array = ops.empty(tuple(shape), dtype=kind).array
        self.__class__ = self.cls_to_become

    @property
    def is_meta(self) -> bool:
        return bool(self.array.place.type == "meta")

    @property
    def shape(self) -> Any:
        raise failure(
            RuntimeError,
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call "
            "`forward` to initialize the parameters before accessing their attributes.",
        )

    @property
    def data(self) -> Any:
        return self

    @data.setter
    def data(self, value: Any) -> None:
        self.array = value.array

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """One of another dtype, which is all that there is to convert."""
        like = wrap(np.zeros((), self.array.dtype)).to(*args, **kwargs)
        kind: Any = type(self)
        return kind(self.requires_grad, self.array.place, like.dtype)  # type: ignore[attr-defined]

    def cpu(self) -> Any:
        """It is there already."""
        return self

    half, float, double = (
        partialmethod(to, dtypes.float16),
        partialmethod(to, dtypes.float32),
        partialmethod(to, dtypes.float64),
    )
    char, short = partialmethod(to, dtypes.int8), partialmethod(to, dtypes.int16)
    int, long = partialmethod(to, dtypes.int32), partialmethod(to, dtypes.int64)

    def share_memory_(self) -> Any:
        """Raises RuntimeError: there is none."""
        raise failure(
            RuntimeError,
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the "
            "parameters before calling `module.share_memory()`.",
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), (self.requires_grad,)  # type: ignore[attr-defined]

    def __deepcopy__(self, memo: dict[Any, Any]) -> Any:
        kind: Any = type(self)
        given = self.requires_grad, self.array.place, dtypes.as_dtype(self.array.dtype)  # type: ignore[attr-defined]
        copied = memo[id(self)] = kind(*given)
        return copied


def _without_elements(tensor: Any, dtype: Any, requires_grad: bool) -> Any:
    like = ops.empty(0, dtype=dtype)
    require_grad(tensor, requires_grad)
    tensor.array = _NoElements(like.dtype.numpy, like.device)
    return tensor


class UninitializedParameter(UninitializedTensorMixin, Parameter):  # type: ignore[misc]
    """A parameter without a shape, until `materialize(shape)`.

    Source: `torch.nn.parameter.UninitializedParameter`.

    >>> import fusegrad as fg
    >>> weight = fg.nn.parameter.UninitializedParameter()
    >>> weight.materialize((2, 3))
    >>> type(weight).__name__, weight.shape
    ('Parameter', torch.Size([2, 3]))
    """

    __slots__ = ()
    cls_to_become = Parameter

    @on_its_device
    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Any:
        return _without_elements(Parameter.__new__(cls), dtype, requires_grad)


class UninitializedBuffer(UninitializedTensorMixin, Tensor):  # type: ignore[misc]
    """A buffer without a shape, until `materialize(shape)`.

    Source: `torch.nn.parameter.UninitializedBuffer`.
    """

    __slots__ = ()
    cls_to_become = Tensor

    @on_its_device
    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> Any:
        tensor: Any = wrap(np.zeros(0, np.float32))
        tensor.__class__ = cls
        tensor.persistent = persistent
        return _without_elements(tensor, dtype, requires_grad)


def is_lazy(param: Any) -> bool:
    """Whether a parameter or buffer has no shape yet. Source: `torch.nn.parameter.is_lazy`."""
    return isinstance(param, UninitializedTensorMixin)
