"""Functional transforms: `grad`, `vjp`, `jvp`, `jacrev`, `jacfwd`, `hessian`, as `torch.func`.

They compose: each works at a level of its own (`levels.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from fusegrad.eager.autograd import autograd
from fusegrad.eager.autograd.functional_call import functional_call
from fusegrad.eager.autograd.levels import (
    Argnums,
    Level,
    Pushed,
    argument_places,
    is_on_graph,
    mapped,
    open_arguments,
    outputs_of,
    pulled_back,
    tensors_of,
)
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.names import publish
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.pytree import Structure, flatten
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor

__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jvp",
    "value_and_grad",
    "vjp",
]


# Reverse mode.


def grad(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that gives the gradient of `function`, which gives a scalar; as `torch.func.grad`.

    argnums: which argument (a tensor, or a container of them) it is with respect to; a tuple of
    them gives a tuple of gradients. With has_aux, `function` gives `(value, aux)`, and the result is
    `(gradient, aux)`.

    >>> import fusegrad as fg
    >>> fg.func.grad(fg.func.grad(lambda x: x**3))(fg.tensor(2.0))
    tensor(12.)
    """

    @functools.wraps(func, updated=())
    def gradient(*args: Any, **kwargs: Any) -> Any:
        found, _, aux = _grad_and_value(func, argnums, has_aux, args, kwargs)
        return (found, aux) if has_aux else found

    return gradient


def grad_and_value(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives `(gradient, value)`, or `(gradient, (value, aux))`.

    Source: `torch.func.grad_and_value`.
    """

    @functools.wraps(func, updated=())
    def both(*args: Any, **kwargs: Any) -> Any:
        found, value, aux = _grad_and_value(func, argnums, has_aux, args, kwargs)
        return (found, (value, aux)) if has_aux else (found, value)

    return both


@publish
def value_and_grad(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives `(value, gradient)`, or `((value, aux), gradient)`; as `jax.value_and_grad`.

    >>> import fusegrad as fg
    >>> fg.value_and_grad(lambda p: (p["w"] * p["x"]).sum())({"w": fg.tensor(2.0), "x": fg.tensor(3.0)})
    (tensor(6.), {'w': tensor(3.), 'x': tensor(2.)})
    """

    @functools.wraps(func, updated=())
    def both(*args: Any, **kwargs: Any) -> Any:
        found, value, aux = _grad_and_value(func, argnums, has_aux, args, kwargs)
        return ((value, aux), found) if has_aux else (value, found)

    return both


def _grad_and_value(
    function: Callable[..., Any],
    argnums: Argnums,
    has_aux: bool,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[Any, Any, Any]:
    with Level() as level:
        return _derived(level, function, argnums, has_aux, args, kwargs)


def _derived(
    level: Level,
    function: Callable[..., Any],
    argnums: Argnums,
    has_aux: bool,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[Any, Any, Any]:
    numbers = argument_places(argnums, len(args))
    opened, inner = open_arguments(level, [args[n] for n in numbers])
    given = list(args)
    for n, value in zip(numbers, opened, strict=True):
        given[n] = value
    value, aux = outputs_of("grad_and_value(f)(*args)", function, has_aux, *given, **kwargs)
    if not isinstance(value, Tensor) or value.array.ndim:
        what = f"tensor with {value.array.ndim} dims" if isinstance(value, Tensor) else type(value).__name__
        raise failure(
            RuntimeError,
            f"grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got {what}. "
            "Maybe you wanted to use the vjp or jacrev APIs instead?",
        )
    derivable = level.derivable(value)
    pulled = pulled_back([value], inner, None, derivable, retain=level.derivable(*tensors_of(aux)))
    gradients = iter([level.outside(g) for g in pulled] if derivable else pulled)
    results = [mapped(args[n], lambda _: next(gradients)) for n in numbers]
    found = results[0] if isinstance(argnums, int) else tuple(results)
    return found, value if derivable else value.detach(), level.outside(aux)


@publish
def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """`(output, vjp_function)` (and aux), as `torch.func.vjp`.

    vjp_function takes the gradient of the output (in its structure) and gives the tuple of the
    gradients of `primals`; it can be called again.

    >>> import fusegrad as fg
    >>> output, pull = fg.vjp(lambda x, y: x * y, fg.tensor(2.0), fg.tensor(3.0))
    >>> pull(fg.tensor(1.0))
    (tensor(3.), tensor(2.))
    """
    with Level() as level:
        opened, inner = open_arguments(level, primals)
        output, aux = outputs_of("vjp(f, *primals)", func, has_aux, *opened)
        flat: list[Any] = []
        structure = flatten(output, flat)
        _check_outputs("vjp(f, *primals)", flat)
        derivable = level.derivable(*flat)

    result = level.outside(output), _Pull(level, primals, inner, flat, structure, derivable)
    return (*result, level.outside(aux)) if has_aux else result


class _Pull:
    """What `vjp` gives: from the gradient of the output to those of the primals."""

    def __init__(
        self,
        level: Level,
        primals: tuple[Any, ...],
        inner: list[Tensor],
        flat: list[Any],
        structure: Structure,
        derivable: bool,
    ) -> None:
        self._level, self._primals, self._inner = level, primals, inner
        self._flat, self._structure, self._derivable = flat, structure, derivable

    def __call__(self, cotangents: Any) -> tuple[Any, ...]:
        given: list[Any] = []
        if flatten(cotangents, given) != self._structure:
            raise failure(
                RuntimeError, "Expected pytree structure of cotangents to be the same as that of the outputs"
            )
        further = self._derivable or any(map(is_on_graph, given))
        found = pulled_back(self._flat, self._inner, given, further and state.grad_enabled, retain=True)
        gradients = iter([self._level.outside(g) for g in found])
        return tuple(mapped(p, lambda _: next(gradients)) for p in self._primals)


def _check_outputs(name: str, flat: Sequence[Any]) -> None:
    if not flat or flat == [None]:
        raise failure(RuntimeError, f"{name}: Expected f to be a function that has non-empty output")
    for y in flat:
        if not isinstance(y, Tensor):
            raise failure(
                RuntimeError, f"{name}: expected f(*primals) to return only tensors, got {type(y).__name__}"
            )


# Forward mode, as the gradient of a gradient, which is linear in what it is given.

_JVP = "jvp(f, primals, tangents)"


@publish
def jvp(
    func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False
) -> Any:
    """`(output, tangent of the output)` (and aux) for `tangents` of `primals`; as `torch.func.jvp`.

    strict: raise RuntimeError where an output does not depend on the primals, instead of zeros.

    >>> import fusegrad as fg
    >>> fg.jvp(fg.sin, (fg.tensor(0.0),), (fg.tensor(2.0),))
    (tensor(0.), tensor(2.))
    """
    if not isinstance(primals, tuple):
        raise failure(
            RuntimeError, f"{_JVP}: Expected primals to be a tuple, so that f(*primals) can be called"
        )
    leaves: list[Any] = []
    if flatten(primals, leaves) != flatten(tangents, leaves):
        raise failure(
            RuntimeError, f"{_JVP}: Expected primals and tangents to have the same python structure"
        )
    if not leaves:
        raise failure(RuntimeError, f"{_JVP}: Expected primals to contain at least one Tensor")
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise failure(
                RuntimeError, f"{_JVP}: Expected to only contain Tensors, got {type(leaf).__name__}"
            )
    with Level() as level:
        output, tangent, aux = _forward(level, func, primals, tangents, strict, has_aux)
    return (output, tangent, aux) if has_aux else (output, tangent)


def _forward(
    level: Level, function: Callable[..., Any], primals: Any, tangents: Any, strict: bool, has_aux: bool
) -> tuple[Any, Any, Any]:
    opened, inner = open_arguments(level, primals, written=True)
    given = tensors_of(tangents)
    for x, t in zip(inner, given, strict=True):
        if x.array.shape != t.array.shape:
            raise failure(
                RuntimeError, f"a tangent has shape {list(t.array.shape)}, its primal {list(x.array.shape)}"
            )
    output, aux = outputs_of(_JVP, function, has_aux, *opened)
    flat: list[Any] = []
    structure = flatten(output, flat)
    _check_outputs(_JVP, flat)
    if strict and not all(y.needs_grad for y in flat):
        raise failure(
            RuntimeError, "jvp(f, primals, tangents, strict=True): an output is independent of the primals"
        )
    derivable = level.derivable(*flat) or (level.tracked and any(map(is_on_graph, given)))
    found = [level.outside(t) for t in Pushed(flat, inner)(given, derivable)]
    return level.outside(output), structure.build(iter(found)), level.outside(aux)


# Whole matrices.


def jacrev(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function that gives the Jacobian of `function` by backward; as `torch.func.jacrev`.

    All rows go backward as one batch; chunk_size: so many at a time.
    Its result has the structure of the output, each tensor replaced by the structure of the argument
    (a tuple of them for several `argnums`), with tensors of the output's shape followed by the input's.

    >>> import fusegrad as fg
    >>> fg.func.jacrev(lambda x: x**2)(fg.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """

    @functools.wraps(func, updated=())
    def jacobian(*args: Any) -> Any:
        return _by_rows(func, argnums, has_aux, chunk_size, args)

    return jacobian


def _by_rows(
    function: Callable[..., Any],
    argnums: Argnums,
    has_aux: bool,
    chunk_size: int | None,
    args: tuple[Any, ...],
) -> Any:
    if chunk_size is not None and chunk_size <= 0:
        raise failure(ValueError, f"jacrev: `chunk_size` should be greater than 0. (got {chunk_size})")
    partial, primals = _partial(function, argnums, args)
    _check_real("jacrev", primals, "inputs")
    output, pull, *aux = vjp(partial, *primals, has_aux=has_aux)
    _check_real("jacrev", output, "outputs")
    flat: list[Any] = []
    structure = flatten(output, flat)

    def pulled(*cotangents: Tensor) -> list[Tensor]:
        return tensors_of(pull(structure.build(iter(cotangents))))

    inputs = tensors_of(primals)
    blocks = [
        [
            found.reshape((*y.array.shape, *x.array.shape))
            for x, found in zip(inputs, _each_of(pulled, flat, i, inputs, chunk_size), strict=True)
        ]
        for i, y in enumerate(flat)
    ]
    return _with_aux(_nested(structure, blocks, primals, argnums), aux)


def jacfwd(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """A function that gives the Jacobian of `function` by forward derivatives, all columns as one batch.

    Source: `torch.func.jacfwd`.
    """

    @functools.wraps(func, updated=())
    def jacobian(*args: Any) -> Any:
        return _by_columns(func, argnums, has_aux, args)

    return jacobian


def _by_columns(function: Callable[..., Any], argnums: Argnums, has_aux: bool, args: tuple[Any, ...]) -> Any:
    partial, primals = _partial(function, argnums, args)
    _check_real("jacfwd", primals, "inputs")
    inputs = tensors_of(primals)
    with Level() as level:
        opened, inner = open_arguments(level, primals, written=True)
        output, aux = outputs_of(_JVP, partial, has_aux, *opened)
        _check_real("jacfwd", output, "outputs")
        flat: list[Any] = []
        structure = flatten(output, flat)
        _check_outputs(_JVP, flat)
        derivable = level.derivable(*flat)
        push = Pushed(flat, inner)

        def pushed(*tangents: Tensor) -> list[Tensor]:
            return push(tangents, derivable, retain=True)

        columns = [_each_of(pushed, inputs, j, flat, None) for j in range(len(inputs))]
        columns = [[level.outside(c) for c in column] for column in columns]
    blocks = [[_last(columns[j][i], x, y) for j, x in enumerate(inputs)] for i, y in enumerate(flat)]
    return _with_aux(_nested(structure, blocks, primals, argnums), [level.outside(aux)] if has_aux else [])


def _last(columns: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Columns [elements of x, *y] as [*y, *x]."""
    found = columns.reshape((*x.array.shape, *y.array.shape))
    count, rank = x.array.ndim, y.array.ndim
    return found.movedim(tuple(range(count)), tuple(range(rank, rank + count)))


@publish
def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """A function that gives the matrix of second derivatives; as `torch.func.hessian`.

    >>> import fusegrad as fg
    >>> fg.hessian(lambda x: (x**3).sum())(fg.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """

    @functools.wraps(func, updated=())
    def second(*args: Any) -> Any:
        return _second(func, argnums, args)

    return second


def _second(function: Callable[..., Any], argnums: Argnums, args: tuple[Any, ...]) -> Any:
    return _by_columns(jacrev(function, argnums), argnums, False, args)


jacobian = publish(jacrev, "jacobian")


def _partial(
    function: Callable[..., Any], argnums: Argnums, args: tuple[Any, ...]
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """`function` as one of the chosen arguments alone, and these."""
    numbers = argument_places(argnums, len(args))

    def partial(*chosen: Any) -> Any:
        given = list(args)
        for n, value in zip(numbers, chosen, strict=True):
            given[n] = value
        return function(*given)

    return partial, tuple(args[n] for n in numbers)


def _check_real(name: str, values: Any, what: str) -> None:
    """Refuse complex numbers, whose Jacobians are no matrices of complex numbers."""
    for i, tensor in enumerate(tensors_of(values)):
        if tensor.is_complex():
            raise failure(
                RuntimeError,
                f"{name}: Expected all {what} to be real but received complex tensor at flattened index {i}",
            )


def _each_of(
    linear: Callable[..., Sequence[Tensor]],
    tensors: Sequence[Tensor],
    chosen: int,
    results: Sequence[Tensor],
    chunk_size: int | None,
) -> list[Tensor]:
    """What a linear function of `tensors` gives for each element of one of them, 1 there and 0 elsewhere.

    results: what it gives is like these, where there is no element.
    """
    like = tensors[chosen]
    size = like.array.size
    if not size:
        return [ops.zeros((0, *r.array.shape), dtype=r.dtype) for r in results]

    def of_one(one: Tensor) -> Sequence[Tensor]:
        return linear(*[one if i == chosen else ops.zeros_like(t) for i, t in enumerate(tensors)])

    basis = ops.reshape(ops.eye(size, dtype=like.dtype), (size, *like.array.shape))
    step = chunk_size or size
    parts = [ops.for_each(of_one, [basis[start : start + step]]) for start in range(0, size, step)]
    return [rows[0] if len(rows) == 1 else ops.cat(list(rows)) for rows in zip(*parts, strict=True)]


def _nested(structure: Structure, blocks: Any, primals: tuple[Any, ...], argnums: Argnums) -> Any:
    """Blocks [output][input] in the output's structure of the arguments' structures."""

    def row(found: list[Tensor]) -> Any:
        made = flatten(primals, []).build(iter(found))
        return made[0] if isinstance(argnums, int) else made

    return structure.build(iter([row(found) for found in blocks]))


def _with_aux(result: Any, aux: list[Any]) -> Any:
    return (result, aux[0]) if aux else result


def grad_of(outputs: Any, inputs: Any = 0, *args: Any, **kwargs: Any) -> Any:
    """`fg.grad`: of tensors, the gradients; of a function, the function that gives its gradient.

    `grad(outputs, inputs, ...)` is `autograd.grad`: the tuple of gradients of tensors with respect to
    tensors. `grad(function, argnums=0, has_aux=False)` is `func.grad`: a function of the same
    arguments. PyTorch has the two as `torch.autograd.grad` and `torch.func.grad`.

    >>> import fusegrad as fg
    >>> x = fg.tensor(3.0, requires_grad=True)
    >>> fg.grad(x * x, x)
    (tensor(6.),)
    >>> fg.grad(lambda x: x * x)(fg.tensor(3.0))
    tensor(6.)
    """
    if callable(outputs):
        return grad(outputs, kwargs.pop("argnums", inputs), *args, **kwargs)
    return autograd.grad(outputs, inputs, *args, **kwargs)


grad_of.__name__ = grad_of.__qualname__ = "grad"
publish(grad_of)

locate("fusegrad.func", globals(), __all__)
