"""What functions of tensors give for nested ones: by ops on the values, along other dimensions than the
ragged one; over that by the examples of its places, or of the examples padded.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import Elementwise
from fusegrad.eager.core.op import REGISTRY
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.nested.nested_tensor import RULES, NestedTensor, RaggedSize, answer_others
from fusegrad.eager.ops.shape.padding import pad

PADS = "; to_padded_tensor(0.0) gives a tensor of all examples, values() one of all their elements"
_ELEMENTWISE = ("fusegrad.eager.ops.pointwise.", "fusegrad.eager.ops.nn.activation")


def rule(*names: str) -> Callable[[Any], Any]:
    """Have functions of these names answered by what is decorated, which takes the function first."""

    def note(answers: Any) -> Any:
        RULES.update(dict.fromkeys(names, answers))
        return answers

    return note


def refuse(function: Any, why: str, kind: type[Exception] = RuntimeError) -> Exception:
    """What to raise for a function."""
    name = getattr(function, "__name__", str(function)).strip("_")
    return failure(kind, f"{name}() of a nested tensor: {why}")


# Elements.


@answer_others
def elementwise(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a function of elements gives; nested tensors have the same offsets, and dense ones broadcast."""
    if not _is_elementwise(function):
        raise refuse(function, f"it is not there for these{PADS}", NotImplementedError)
    given = [a for a in (*args, *kwargs.values()) if isinstance(a, NestedTensor)]
    first = max(given, key=lambda nested: nested.ndim)
    for other in given:
        _check_alike(function, first, other)
    args = tuple([_aligned(function, first, a) for a in args])
    made = function(*args, **{name: _aligned(function, first, a) for name, a in kwargs.items()})
    return _nested(first, made)


def _is_elementwise(function: Any) -> bool:
    """Whether a function goes by elements, which where it is written says; one in place by its name."""
    name = getattr(function, "__name__", "")
    if name.endswith("_") and not name.startswith("_"):
        return name not in RULES and _is_elementwise(getattr(Tensor, name[:-1], None))
    source = inspect.unwrap(function) if callable(function) else None
    module = getattr(source, "__globals__", {}).get("__name__", "")
    if isinstance(REGISTRY.get(name), Elementwise):
        return True
    return module.startswith(_ELEMENTWISE) and "dim" not in inspect.signature(source).parameters  # type: ignore[arg-type]


def _check_alike(function: Any, one: NestedTensor, other: NestedTensor) -> None:
    if one.offsets() is not other.offsets() or one.ragged != other.ragged or one.ndim != other.ndim:
        raise refuse(
            function,
            f"cannot take those of shapes {one.shape} and {other.shape}, whose offsets are two tensors: make "
            "the other by nested_tensor_from_jagged(values, offsets) of the same offsets",
        )


def _aligned(function: Any, nested: NestedTensor, given: Any) -> Any:
    """An operand, as it meets the values of a nested tensor."""
    if isinstance(given, NestedTensor):
        return given.values()
    if not isinstance(given, Tensor) or given.ndim == 0:
        return given
    ragged, missing = nested.ragged, nested.ndim - given.ndim
    if missing < 0 or (ragged >= missing and given.shape[ragged - missing] != 1):
        raise refuse(
            function,
            f"a tensor of shape {list(given.shape)} has no element for each of {nested.shape}: it must have "
            "the size 1 in the ragged dimension",
        )
    if missing:
        return given
    if given.shape[0] == 1:
        return given[0]
    if given.shape[0] != len(nested):
        raise refuse(
            function, f"a tensor of shape {list(given.shape)} is of other examples than {nested.shape}"
        )
    return given.squeeze(ragged).index_select(0, nested.examples()).movedim(0, ragged - 1)


def _nested(like: NestedTensor, made: Any) -> Any:
    if made is like.values():
        return like
    if type(made) in (tuple, list):
        return type(made)([_nested(like, part) for part in made])
    return like.like(made)


@rule(*"clone contiguous detach dropout alpha_dropout feature_alpha_dropout type_as".split())
@rule(*"zeros_like ones_like full_like empty_like rand_like randn_like randint_like".split())
def of_values(function: Any, input: NestedTensor, *args: Any, **kwargs: Any) -> NestedTensor:
    """What goes by the values alone."""
    return input.like(function(input.values(), *args, **kwargs))


@rule("is_floating_point", "is_complex", "element_size", "register_hook", "retain_grad", "item")
def asked_of_values(function: Any, input: NestedTensor, *args: Any, **kwargs: Any) -> Any:
    """What is asked of the values, or told to them."""
    return function(input.values(), *args, **kwargs)


@rule("is_contiguous")
def is_contiguous(function: Any, input: NestedTensor, *_: Any, **__: Any) -> bool:
    """Whether examples lie on end."""
    return input.values().is_contiguous()


@rule("tolist", "numpy", "array")
def refused(function: Any, input: NestedTensor, *_: Any, **__: Any) -> Any:
    """What wants a box."""
    raise refuse(function, f"its examples have different lengths{PADS}")


# Last dimensions.


def _check_whole(function: Any, input: NestedTensor, last: int) -> None:
    """The last dimensions are no ragged ones."""
    if input.ragged >= input.ndim - last:
        raise refuse(
            function, f"dimension {input.ragged} of {input.shape} is ragged; transpose it away before"
        )


@rule("linear")
def linear(function: Any, input: NestedTensor, weight: Tensor, bias: Tensor | None = None) -> NestedTensor:
    """Of each element along the ragged dimension."""
    _check_whole(function, input, 1)
    return input.like(function(input.values(), weight, bias))


@rule("embedding")
def embedding(function: Any, input: NestedTensor, weight: Tensor, *args: Any, **kwargs: Any) -> NestedTensor:
    """Of numbers of any shape."""
    return input.like(function(input.values(), weight, *args, **kwargs))


@rule("layer_norm", "rms_norm")
def normalized(function: Any, input: NestedTensor, normalized_shape: Any, *args: Any, **kwargs: Any) -> Any:
    """Over the last dimensions."""
    last = 1 if isinstance(normalized_shape, int) else len(normalized_shape)
    _check_whole(function, input, last)
    return input.like(function(input.values(), normalized_shape, *args, **kwargs))


@rule("matmul", "bmm", "mm")
def matmul(function: Any, input: Any, other: Any) -> Any:
    """The product with a matrix, with one for each example, or over the ragged dimension."""
    if isinstance(input, NestedTensor) and isinstance(other, Tensor):
        _check_whole(function, input, 1)
        if other.ndim <= 2:
            return input.like(ops.matmul(input.values(), other))
        return from_padded(ops.matmul(padded(input, 0.0), other), input)
    if isinstance(input, NestedTensor) and isinstance(other, NestedTensor):
        last = input.ndim - 1
        if input.offsets() is other.offsets() and input.ragged == last and other.ragged == last - 1:
            return ops.matmul(padded(input, 0.0), padded(other, 0.0))
    raise refuse(
        function,
        f"products of such shapes are not there{PADS}; attention is scaled_dot_product_attention",
        NotImplementedError,
    )


# Shapes. A dimension of the values is one less.


def dimension(function: Any, input: NestedTensor, dim: int, more: int = 0) -> int:
    """Which dimension `dim` is, counted from the front, of one that has so many more."""
    count = input.ndim + more
    if not -count <= dim < count:
        raise failure(
            IndexError,
            f"Dimension out of range (expected to be in range of [{-count}, {count - 1}], but got {dim})",
        )
    return dim % count


def _inner(function: Any, input: NestedTensor, dim: int, more: int = 0) -> int:
    """The same, of a dimension that each example has."""
    found = dimension(function, input, dim, more)
    if found == 0:
        raise refuse(function, f"not supported on dim=0, which are the examples{PADS}; unbind() gives them")
    return found


def _regular(function: Any, input: NestedTensor, dim: int) -> int:
    """The same, of one that has the same size for all examples."""
    found = _inner(function, input, dim)
    if found == input.ragged:
        raise refuse(function, f"not supported along the ragged dimension {found}{PADS}")
    return found


@rule("transpose", "swapaxes", "swapdims")
def transpose(function: Any, input: NestedTensor, dim0: int, dim1: int) -> NestedTensor:
    """Two dimensions exchanged."""
    one, other = _inner(function, input, dim0), _inner(function, input, dim1)
    ragged = {one: other, other: one}.get(input.ragged, input.ragged)
    return input.like(input.values().transpose(one - 1, other - 1), ragged)


@rule("permute")
def permute(function: Any, input: NestedTensor, *dims: Any) -> NestedTensor:
    """Dimensions in another order, of which the first stays."""
    order = [dimension(function, input, d) for d in (dims[0] if len(dims) == 1 else dims)]
    if order[:1] != [0]:
        raise refuse(function, "the examples, dim=0, stay in front")
    return input.like(input.values().permute([d - 1 for d in order[1:]]), order.index(input.ragged))


@rule("unsqueeze")
def unsqueeze(function: Any, input: NestedTensor, dim: int) -> NestedTensor:
    """One more dimension."""
    place = _inner(function, input, dim, 1)
    return input.like(input.values().unsqueeze(place - 1), input.ragged + (place <= input.ragged))


@rule("squeeze")
def squeeze(function: Any, input: NestedTensor, dim: int) -> NestedTensor:
    """Without a dimension of one element."""
    place = _regular(function, input, dim)
    if input.values().shape[place - 1] != 1:
        return input
    return input.like(input.values().squeeze(place - 1), input.ragged - (place < input.ragged))


@rule("unflatten")
def unflatten(function: Any, input: NestedTensor, dim: int, sizes: Sequence[int]) -> NestedTensor:
    """A dimension as several."""
    place = _regular(function, input, dim)
    ragged = input.ragged + (len(sizes) - 1 if place < input.ragged else 0)
    return input.like(input.values().unflatten(place - 1, sizes), ragged)


@rule("flatten")
def flatten(function: Any, input: NestedTensor, start_dim: int = 0, end_dim: int = -1) -> NestedTensor:
    """Several dimensions as one."""
    first, last = _inner(function, input, start_dim), _inner(function, input, end_dim)
    if first <= input.ragged <= last and first < last:
        raise refuse(function, f"not supported over the ragged dimension{PADS}")
    ragged = input.ragged - (last - first if last < input.ragged else 0)
    return input.like(input.values().flatten(first - 1, last - 1), ragged)


@rule("view", "reshape")
def view(function: Any, input: NestedTensor, *shape: Any) -> NestedTensor:
    """Another shape, in which the ragged dimension is -1, or its size."""
    sizes = [*(shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)]
    before = input.values().shape[: input.ragged - 1]
    places = [i for i, n in enumerate(sizes) if isinstance(n, RaggedSize)] or [
        i for i, n in enumerate(sizes) if n == -1
    ]
    count = input.values().shape[input.ragged - 1]
    if len(places) != 1 or sizes[0] not in (len(input), -1) or places == [0]:
        raise refuse(
            function, f"{sizes} must begin with {len(input)}, and be -1 where {input.shape} is ragged"
        )
    ragged = places[0]
    made = input.values().reshape([*sizes[1:ragged], count, *sizes[ragged + 1 :]])
    if made.shape[: ragged - 1].numel() != before.numel():
        raise refuse(function, f"{sizes} would mix the ragged dimension of {input.shape} with others")
    return input.like(made, ragged)


@rule(
    "select", "narrow", "chunk", "split", "tensor_split", "split_with_sizes", "index_select", "flip", "cumsum"
)
def along(function: Any, input: NestedTensor, *args: Any, **kwargs: Any) -> Any:
    """What goes along a dimension that is not ragged."""
    bound = inspect.signature(inspect.unwrap(function)).bind(input, *args, **kwargs)
    bound.apply_defaults()
    name = "dim" if "dim" in bound.arguments else "dims"
    place = _regular(function, input, bound.arguments[name])
    first = next(iter(bound.arguments))
    bound.arguments |= {first: input.values(), name: place - 1}
    made = function(*bound.args, **bound.kwargs)
    return _along(input, made, place)


def _along(input: NestedTensor, made: Any, place: int) -> Any:
    if not isinstance(made, Tensor):
        return type(made)([_along(input, part, place) for part in made])
    gone = made.ndim < input.values().ndim and place < input.ragged
    return input.like(made, input.ragged - gone)


@rule("cat", "concat", "concatenate")
def cat(function: Any, tensors: Sequence[Any], dim: int = 0, **kwargs: Any) -> NestedTensor:
    """Along a dimension that is not ragged."""
    first = next(t for t in tensors if isinstance(t, NestedTensor))
    if not all(isinstance(t, NestedTensor) for t in tensors):
        raise refuse(function, "the others must be nested, too")
    for other in tensors:
        _check_alike(function, first, other)
    place = _regular(function, first, dim)
    return first.like(function([t.values() for t in tensors], place - 1, **kwargs))


@rule("unbind")
def unbind(function: Any, input: NestedTensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The examples."""
    if dimension(function, input, dim):
        raise refuse(function, "only along dim=0, the examples")
    made: tuple[Tensor, ...] = ops.split(input.values(), input.offsets().diff().tolist(), input.ragged - 1)
    return made


@rule("getitem")
def getitem(function: Any, input: NestedTensor, index: Any) -> Any:
    """An example, or a part of each."""
    if isinstance(index, int):
        count = len(input)
        if not -count <= index < count:
            raise failure(
                IndexError, f"index {index} is out of bounds for a nested tensor of {count} examples"
            )
        begin, end = input.offsets()[index % count : index % count + 2].tolist()
        return input.values().narrow(input.ragged - 1, begin, end - begin)
    parts = [*index] if isinstance(index, tuple) else [index]
    if ... in parts:
        place = parts.index(...)
        parts[place : place + 1] = [slice(None)] * (input.ndim - len(parts) + 1)
    parts += [slice(None)] * (input.ndim - len(parts))
    if any(not isinstance(part, (int, slice)) for part in parts) or len(parts) != input.ndim:
        raise refuse(function, f"an index is of numbers and slices here, one a dimension{PADS}")
    if parts[0] != slice(None) or parts[input.ragged] != slice(None):
        raise refuse(function, f"the examples and the ragged dimension are taken whole{PADS}")
    gone = sum(isinstance(part, int) for part in parts[1 : input.ragged])
    return input.like(input.values()[tuple(parts[1:])], input.ragged - gone)


# Padding.


def longest(input: NestedTensor) -> int:
    """The length of the longest example."""
    return int(input.offsets().diff().max())


def _places(input: NestedTensor, length: int) -> Tensor:
    """Where each place along the ragged dimension is, in examples of one length on end."""
    of = input.examples()
    return of * length + (ops.arange(of.shape[0]) - input.offsets().index_select(0, of))


def padded(input: NestedTensor, padding: Any, length: int | None = None) -> Tensor:
    """All examples, made as long as the longest."""
    length = longest(input) if length is None else length
    values = input.in_front()
    rest = values.shape[1:]
    whole = ops.full((len(input) * length, *rest), padding, dtype=input.dtype)
    made = whole.index_copy(0, _places(input, length), values).reshape(len(input), length, *rest)
    return made if input.ragged == 1 else made.movedim(1, input.ragged)


def from_padded(whole: Tensor, like: NestedTensor) -> NestedTensor:
    """The elements of padded examples that are none of the padding."""
    front = whole if like.ragged == 1 else whole.movedim(like.ragged, 1)
    length = front.shape[1]
    values = front.reshape(-1, *front.shape[2:]).index_select(0, _places(like, length))
    return like.like(values.movedim(0, like.ragged - 1))


@rule("to_padded_tensor")
def to_padded_tensor(function: Any, input: NestedTensor, padding: float, output_size: Any = None) -> Tensor:
    """All examples as one tensor, with a number behind those that are shorter."""
    if output_size is None:
        return padded(input, padding)
    sizes = [*output_size]
    if len(sizes) != input.ndim or sizes[0] != len(input) or sizes[input.ragged] < longest(input):
        raise refuse(function, f"output_size {sizes} has no room for {input.shape}")
    made = padded(input, padding, sizes[input.ragged])
    grown = [after - before for before, after in zip(made.shape, sizes, strict=True)]
    if min(grown) < 0:
        raise refuse(function, f"output_size {sizes} has no room for {input.shape}")
    if not any(grown):
        return made
    return pad(made, [n for more in reversed(grown) for n in (0, more)], value=padding)
