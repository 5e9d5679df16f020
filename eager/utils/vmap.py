"""`vmap`: a function of single things as one of batches, and what of `torch.func` goes with it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.pytree import Structure, contents, flatten, is_container
from fusegrad.eager.core.state import in_state, state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.nn.module import Module
from fusegrad.eager.ops.batches.batching import Batching

__all__ = ["stack_module_state", "vmap"]  # `chunk_vmap` is functorch's alone
RANDOMNESS = ("error", "different", "same")


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """`func` of each example of a batch, computed for all at once; as `torch.func.vmap`.

    in_dims: along which dimension an argument has its examples, None for one that all share; nested as the
    arguments are. out_dims: where those of results go. randomness: "error" refuses random ops, "different"
    draws for each example, "same" once for all. chunk_size: compute so many examples at a time. Raises
    ValueError for batches of different sizes, or where nothing has examples; RuntimeError where Python asks
    for values.

    >>> import fusegrad as fg
    >>> dot = fg.func.vmap(fg.dot, in_dims=(0, None))
    >>> dot(fg.ones(3, 2), fg.tensor([1.0, 2.0]))
    tensor([3., 3., 3.])
    """
    if randomness not in RANDOMNESS:
        wrong = f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}"
        raise failure(RuntimeError, wrong)
    if chunk_size is not None and not chunk_size > 0:
        wrong = f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})"
        raise failure(ValueError, wrong)

    @functools.wraps(func, updated=())
    def batched(*args: Any, **kwargs: Any) -> Any:
        return _vmapped(func, in_dims, out_dims, randomness, chunk_size, args, kwargs)

    return batched


def chunk_vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", chunks: int = 2
) -> Callable[..., Any]:
    """`vmap`, in so many parts one after the other. Source: `functorch.experimental.chunk_vmap`."""
    if chunks < 1:
        raise failure(ValueError, f"chunk_vmap: chunks should be at least 1. (got {chunks})")

    @functools.wraps(func, updated=())
    def batched(*args: Any, **kwargs: Any) -> Any:
        given: list[Any] = []
        flatten(args, given, ours=False)
        size = _size(given, _input_dims(in_dims, args, given, _Named(func, in_dims, out_dims)))
        in_each = max(1, -(-size // chunks))
        return vmap(func, in_dims, out_dims, randomness, chunk_size=in_each)(*args, **kwargs)

    return batched


class _Named:
    """How messages speak of a function."""

    def __init__(self, func: Callable[..., Any], in_dims: Any, out_dims: Any) -> None:
        self.name = getattr(func, "__name__", None) or repr(func)
        self.given = f"vmap({self.name}, in_dims={in_dims}, ...)(<inputs>)"
        self.giving = f"vmap({self.name}, ..., out_dims={out_dims})"


def _vmapped(
    func: Callable[..., Any],
    in_dims: Any,
    out_dims: Any,
    randomness: str,
    chunk_size: int | None,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    named = _Named(func, in_dims, out_dims)
    _check_out_dims(out_dims, named)
    given: list[Any] = []
    structure = flatten(args, given, ours=False)
    dims = _input_dims(in_dims, args, given, named)
    size = _size(given, dims)
    if chunk_size is None or size <= chunk_size:
        results, form, places = _run(func, named, size, dims, given, structure, out_dims, randomness, kwargs)
        return form.build(iter(results))
    parts = []
    random = ops.get_rng_state() if randomness == "same" else None
    for start in range(0, size, chunk_size):
        if random is not None:
            ops.set_rng_state(random)
        count = min(chunk_size, size - start)
        chunk = [v if d is None else ops.narrow(v, d, start, count) for v, d in zip(given, dims, strict=True)]
        results, form, places = _run(func, named, count, dims, chunk, structure, out_dims, randomness, kwargs)
        parts.append(results)
    joined = [
        rows[0] if dim is None else ops.cat(rows, dim)
        for rows, dim in zip(map(list, zip(*parts, strict=True)), places, strict=True)
    ]
    return form.build(iter(joined))


def _run(
    func: Callable[..., Any],
    named: _Named,
    size: int,
    dims: Sequence[int | None],
    given: Sequence[Any],
    structure: Structure,
    out_dims: Any,
    randomness: str,
    kwargs: dict[str, Any],
) -> tuple[list[Any], Structure, list[int | None]]:
    """The results' leaves, their structure, and where each has its examples."""
    batching = Batching(size, randomness)
    inner = [
        v if d is None else batching.of(ops.movedim(v, d, 0) if d else v, dim=d)
        for v, d in zip(given, dims, strict=True)
    ]
    with in_state(transforms=state.transforms + 1):
        made = batching.run(func, *structure.build(iter(inner)), **kwargs)
    leaves: list[Any] = []
    form = flatten(made, leaves, ours=False)
    places = _output_dims(out_dims, made, len(leaves), named)
    return [_outside(batching, x, d, named) for x, d in zip(leaves, places, strict=True)], form, places


def _outside(batching: Batching, value: Any, dim: int | None, named: _Named) -> Any:
    """A result as the caller gets it."""
    physical, batched = batching.physical(value)
    if dim is None:
        if batched:
            wrong = f"`{named.name}` can not return a BatchedTensor when out_dim is None"
            raise failure(ValueError, f"vmap({named.name}, ...): {wrong}")
        return physical
    if not isinstance(value, Tensor):
        wrong = f"`{named.name}` must only return Tensors, got type {type(value)}."
        raise failure(
            ValueError,
            f"vmap({named.name}, ...): {wrong} Did you mean to set out_dims= to None for output?",
        )
    whole = batching.with_batch(value)
    rank = whole.array.ndim
    if not -rank <= dim < rank:
        raise failure(
            IndexError,
            f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})",
        )
    return ops.movedim(whole, 0, dim) if dim else whole


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters and the buffers of models of one kind, by name, those of all models stacked.

    With `vmap` and `functional_call` all models are called at once. Source: `torch.func.stack_module_state`.

    >>> import fusegrad as fg
    >>> models = [fg.nn.Linear(2, 3) for _ in range(4)]
    >>> params, buffers = fg.func.stack_module_state(models)
    >>> def call(params, x):
    ...     return fg.func.functional_call(models[0], params, (x,))
    >>> fg.vmap(call, (0, None))(params, fg.ones(5, 2)).shape
    torch.Size([4, 5, 3])
    """
    if not models:
        raise failure(RuntimeError, "stack_module_state: Expected at least one model, got 0.")
    if not all(m.training for m in models) and any(m.training for m in models):
        wrong = "Expected all models to have the same training/eval mode."
        raise failure(RuntimeError, f"stack_module_state: {wrong}")
    if not all(type(m) is type(models[0]) for m in models):
        wrong = "Expected all models to be of the same class."
        raise failure(RuntimeError, f"stack_module_state: {wrong}")
    found = []
    for kind in ("named_parameters", "named_buffers"):
        named: list[dict[str, Tensor]] = [dict(getattr(model, kind)()) for model in models]
        found.append({name: _stacked([part[name] for part in named]) for name in named[0]})
    return found[0], found[1]


def _stacked(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors of several models as one leaf."""
    needs = [t.requires_grad for t in tensors]
    if any(needs) and not all(needs):
        raise failure(
            RuntimeError,
            "stack_module_state: Expected parameters from each model to have the same .requires_grad",
        )
    made = ops.stack(list(tensors)).detach()
    return made.requires_grad_() if needs[0] else made


# Where arguments and results have their examples.


def _spread(dims: Any, value: Any, found: list[Any]) -> bool:
    """Add for each leaf of `value` what `dims`, nested as far as it is, says; whether it fits."""
    if not is_container(dims):
        leaves: list[Any] = []
        flatten(value, leaves, ours=False)
        found += [dims] * len(leaves)
        return True
    if not is_container(value) or type(dims) is not type(value):
        return False
    if isinstance(value, dict) and [*value] != [*dims]:
        return False
    inner, parts = contents(dims), contents(value)
    return len(inner) == len(parts) and all(_spread(d, v, found) for d, v in zip(inner, parts, strict=True))


def _input_dims(in_dims: Any, args: tuple[Any, ...], given: list[Any], named: _Named) -> list[int | None]:
    """For each leaf of the arguments the dimension that has its examples."""
    if not isinstance(in_dims, (int, tuple)):
        raise failure(
            ValueError,
            f"{named.given}: expected `in_dims` to be int or a (potentially nested) tuple matching the "
            f"structure of inputs, got: {type(in_dims)}.",
        )
    if not args:
        raise failure(
            ValueError,
            f"vmap({named.name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying "
            "to vmap over a function with no inputs. The latter is unsupported.",
        )
    dims: list[Any] = []
    if not _spread(in_dims, args, dims):
        raise failure(ValueError, f"{named.given}: in_dims is not compatible with the structure of `inputs`.")
    for i, (value, dim) in enumerate(zip(given, dims, strict=True)):
        if dim is None:
            continue
        if not isinstance(dim, int):
            wrong = f"Got in_dim={dim} for an input but in_dim must be either an integer dimension or None."
            raise failure(ValueError, f"{named.given}: {wrong}")
        if not isinstance(value, Tensor):
            wrong = f"Got in_dim={dim} for an input but the input is of type {type(value)}."
            more = "We cannot vmap over non-Tensor arguments, please use None as the respective in_dim"
            raise failure(ValueError, f"{named.given}: {wrong} {more}")
        rank = value.array.ndim
        if not -rank <= dim < rank:
            wrong = f"Got in_dim={dim} for some input, but that input is a Tensor of dimensionality {rank}"
            expected = f"so expected in_dim to satisfy -{rank} <= in_dim < {rank}."
            raise failure(ValueError, f"{named.given}: {wrong} {expected}")
        dims[i] = dim % rank
    return dims


def _check_out_dims(out_dims: Any, named: _Named) -> None:
    leaves: list[Any] = []
    flatten(out_dims, leaves, ours=False)
    if not all(leaf is None or isinstance(leaf, int) for leaf in leaves):
        raise failure(
            ValueError,
            f"{named.giving}: `out_dims` must be an int, None or a python collection of ints representing "
            "where in the outputs the vmapped dimension should appear.",
        )


def _output_dims(out_dims: Any, made: Any, leaves: int, named: _Named) -> list[int | None]:
    """For each leaf of the results where its examples go."""
    if isinstance(made, Tensor) and isinstance(out_dims, tuple) and len(out_dims) == 1:
        out_dims = out_dims[0]
    dims: list[Any] = []
    if not _spread(out_dims, made, dims) or len(dims) != leaves:
        raise failure(
            ValueError,
            f"{named.giving}(<inputs>): out_dims is not compatible with the structure of `outputs`.",
        )
    return dims


def _size(given: list[Any], dims: list[int | None]) -> int:
    """How many examples there are."""
    sizes = [value.shape[dim] for value, dim in zip(given, dims, strict=True) if dim is not None]
    if not sizes:
        raise failure(ValueError, "vmap: Expected at least one Tensor to vmap over")
    if len({*sizes}) > 1:
        raise failure(
            ValueError,
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension",
        )
    return int(sizes[0])


locate("fusegrad.func", globals(), __all__)
