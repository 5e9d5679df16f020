"""Which sizes stay open: what a user writes of them goes in, and names by leaf and axis come out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fusegrad.eager.core.pytree import contents, flatten, is_container
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.capture.signatures import plain_function
from fusegrad.tracer.export.files import ExportError

LARGEST = 1 << 40


class _AnyName:
    """An axis that stays open under a name of its own."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Dim.{self.name}"


class Dim:
    """A size that stays open; axes with one name are of one size. Source: `torch.export.Dim`.

    min, max: the least and the largest size that the file need hold for, which are tried when it is written.

    >>> Dim("batch")
    Dim('batch')
    """

    AUTO = _AnyName("AUTO")
    DYNAMIC = _AnyName("DYNAMIC")

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        if not name.isidentifier():
            raise ValueError(f"Dim: a name of letters, digits and underscores, not {name!r}")
        self.__name__, self.min, self.max = name, min, max

    def __repr__(self) -> str:
        return f"Dim({self.__name__!r})"


class OpenAxes:
    """The names of open sizes by leaf of the arguments and axis."""

    def __init__(self, names: dict[int, dict[int, str]], dims: Mapping[str, Dim]) -> None:
        """dims: those by whose names there is one."""
        self._names, self._dims = names, dims

    def range(self, name: str) -> tuple[int, int]:
        """The least and the largest size that a name stands for."""
        dim = self._dims.get(name)
        least = dim.min if dim and dim.min is not None else 1
        return max(1, least), dim.max if dim and dim.max is not None else LARGEST

    def of(self, leaf: int) -> Mapping[int, str]:
        """The names by axis."""
        return self._names.get(leaf, {})

    def hints(self, leaves: Sequence[Any]) -> dict[str, int]:
        """The size that each name has in the examples. Raises ExportError where it has two."""
        found: dict[str, int] = {}
        for place, names in self._names.items():
            shape = leaves[place].shape
            for axis, name in names.items():
                if found.setdefault(name, shape[axis]) != shape[axis]:
                    raise ExportError(
                        f"export: the size {name!r} is {found[name]} in one of the examples and "
                        f"{shape[axis]} in another; give them other names, or examples that agree"
                    )
        return found


def open_axes(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], given: Any
) -> OpenAxes:
    """Read `dynamic_shapes`: by parameter's name or by position, and as arguments are nested, for each tensor
    the open axes with their names. Raises ExportError for what fits no argument.
    """
    # A module's call has `forward`'s arguments.
    plain, bound = plain_function(getattr(function, "forward", function), args)
    try:
        arguments = inspect.signature(plain).bind(*bound, **kwargs).arguments
    except TypeError as error:
        raise ExportError(f"export: the examples do not fit the function: {error}") from error
    own = list(arguments.items())[len(bound) - len(args) :]
    if own and not isinstance(given, Mapping) and own[-1][1] == args[len(own) - 1 :]:
        own = [*own[:-1], *[(own[-1][0], value) for value in own[-1][1]]]  # `*args` by position
    if isinstance(given, Mapping):
        unknown = [name for name in given if name not in dict(own)]
        if unknown:
            listed = ", ".join(name for name, _ in own)
            raise ExportError(f"export: dynamic_shapes names {unknown[0]!r}; the arguments are {listed}")
        pairs = [(value, given[name]) for name, value in own if name in given]
    else:
        if len(given) > len(own):
            raise ExportError(
                f"export: dynamic_shapes for {len(given)} arguments, of which there are {len(own)}"
            )
        pairs = [(value, spec) for (_, value), spec in zip(own, given, strict=False)]
    leaves: list[Any] = []
    flatten((args, dict(kwargs)), leaves)
    reading = _Reading(leaves)
    for value, spec in pairs:
        reading.read(value, spec)
    return OpenAxes(reading.names, reading.dims)


def axes_of_inputs(
    function: Callable[..., Any],
    args: Any,
    kwargs: Mapping[str, Any],
    given: Mapping[str, Any],
    input_names: Sequence[str],
) -> OpenAxes:
    """Read `dynamic_axes`: by the name of an input, which is one of `input_names` or the argument's, a dict
    of axes and names or a list of axes. Names of outputs are passed over: their sizes follow.
    """
    args = (args,) if isinstance(args, Tensor) else tuple(args)
    leaves: list[Any] = []
    flatten((args, dict(kwargs)), leaves)
    tensors = [place for place, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    places = dict(zip(input_names, tensors, strict=False))
    plain, bound = plain_function(getattr(function, "forward", function), args)
    arguments = inspect.signature(plain).bind(*bound, **kwargs).arguments
    own = {id(value): name for name, value in arguments.items()}
    for place in tensors:
        if id(leaves[place]) in own:
            places.setdefault(own[id(leaves[place])], place)
    reading = _Reading(leaves)
    for name, axes in given.items():
        if name in places:
            numbered = {axis: f"{name}_dynamic_axes_{n}" for n, axis in enumerate(axes, 1)}
            reading.read(leaves[places[name]], axes if isinstance(axes, Mapping) else numbered)
    if not reading.names:
        raise ExportError(f"export: dynamic_axes names no input; the inputs are {', '.join(places)}")
    return OpenAxes(reading.names, reading.dims)


class _Reading:
    """What is read of open axes, argument by argument."""

    def __init__(self, leaves: Sequence[Any]) -> None:
        self.names: dict[int, dict[int, str]] = {}
        self.dims: dict[str, Dim] = {}
        self._places = {id(leaf): place for place, leaf in enumerate(leaves)}

    def read(self, value: Any, spec: Any) -> None:
        """Note the open axes of an argument, or of all tensors in it."""
        if spec is None:
            return
        if isinstance(value, Tensor):
            axes = dict(enumerate(spec)) if isinstance(spec, (tuple, list)) else spec
            if not isinstance(axes, Mapping):
                raise ExportError(
                    f"export: dynamic_shapes has {spec!r} for a tensor; write {{axis: Dim(name)}}"
                )
            for axis, dim in axes.items():
                if dim is not None:
                    self._axis(value, axis, dim)
        elif is_container(value):
            items = [spec.get(key) for key in value] if isinstance(value, dict) else spec
            for item, part in zip(contents(value), items, strict=True):
                self.read(item, part)
        else:
            kind = type(value).__name__
            raise ExportError(f"export: dynamic_shapes has {spec!r} for a {kind}; only tensors have sizes")

    def _axis(self, tensor: Tensor, axis: Any, dim: Any) -> None:
        if type(axis) is not int or not -tensor.ndim <= axis < tensor.ndim:
            shape = list(tensor.shape)
            raise ExportError(f"export: dynamic_shapes has the axis {axis!r} of a tensor of shape {shape}")
        place, axis = self._places[id(tensor)], axis % tensor.ndim
        name = dim if isinstance(dim, str) else getattr(dim, "__name__", None)
        if isinstance(dim, _AnyName):
            name = f"size{place}_{axis}"
        if not isinstance(name, str):
            raise ExportError(f"export: dynamic_shapes has {dim!r} for an axis; give a Dim, a name or None")
        if isinstance(dim, Dim):
            self.dims[name] = dim
        self.names.setdefault(place, {})[axis] = name
