"""Functional transforms: `grad`, `vjp`, `jvp`, `jacrev`, `jacfwd`, `hessian`, as `torch.func`.

A transform calls its function on tensors of its own, which stand for the arguments. Where an
argument is on a graph outside (another transform's, or that of a backward to come), they hang on it,
so that the result can be derived again; where nothing outside needs a gradient, the result is given
without a graph.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.autograd import autograd
from fusegrad.eager.autograd.engine import reachable
from fusegrad.eager.autograd.functional_call import functional_call
from fusegrad.eager.autograd.node import Passing, place, reach, share
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.public import publish
from fusegrad.eager.core.pytree import Structure, flatten
from fusegrad.eager.core.state import enable_grad, state
from fusegrad.eager.core.tensor import Tensor

Argnums = int | tuple[int, ...]

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

# In the dictionary of a leaf that a transform made: the transform.
_MADE_BY = "_transform"


class _Level:
    """One transform at work; `with` it.

    tracked: whether anything outside may want gradients (grad mode is on there).
    ended: nobody can ask for the gradients of the leaves that it made any more.
    """

    def __init__(self) -> None:
        self.tracked = state.grad_enabled
        self.ended = False

    def __enter__(self) -> _Level:
        if state.interpreter is not None:
            state.interpreter.enter_transform()
        return self

    def __exit__(self, *exception: object) -> None:
        self.ended = True

    def stands_for(self, tensor: Any) -> Tensor:
        """A tensor of this level's for an argument."""
        if tensor.array.dtype.kind not in "fc":
            raise failure(
                RuntimeError,
                "only Tensors of floating point and complex dtype can require gradients, "
                f"this one is {tensor.array.dtype.name}",
            )
        reach(tensor)
        own = share(tensor)
        if tensor.needs_grad and self.tracked:
            return place(own, Passing(tensor), 0)
        own.needs_grad = True
        own.__dict__[_MADE_BY] = self
        return own

    def derivable(self, *tensors: Any) -> bool:
        """Whether any of `tensors` depends on something outside that a gradient may be wanted of."""
        roots = [t for t in tensors if isinstance(t, Tensor) and t.needs_grad]
        if not self.tracked or not roots:
            return False
        if state.interpreter is not None:
            for root in roots:
                state.interpreter.reach_graph(root)
        leaves = [t for t in roots if t.grad_fn is None]
        leaves += [t for node in reachable(roots) for _, t, _ in node.edges if isinstance(t, Tensor)]
        return any(self._is_outside(t) for t in leaves)

    def _is_outside(self, leaf: Tensor) -> bool:
        maker = leaf.__dict__.get(_MADE_BY)
        return maker is None or (maker is not self and not maker.ended)

    def outside(self, value: Any) -> Any:
        """`value` (nested) as the caller gets it: off the graph, unless something outside hangs on it."""
        return _mapped(value, lambda t: t if self.derivable(t) else t.detach() if t.needs_grad else t)


def _mapped(value: Any, change: Callable[[Tensor], Any]) -> Any:
    """The container with every tensor changed."""
    leaves: list[Any] = []
    structure = flatten(value, leaves)
    return structure.build(iter([change(x) if isinstance(x, Tensor) else x for x in leaves]))


def _opened(level: _Level, values: Sequence[Any]) -> tuple[list[Any], list[Tensor]]:
    """The (nested) arguments with tensors of the level's in place of theirs, and these in order."""
    inner: list[Tensor] = []

    def stand_in(tensor: Tensor) -> Tensor:
        inner.append(level.stands_for(tensor))
        return inner[-1]

    opened = [_mapped(value, stand_in) for value in values]
    if not inner:
        raise failure(ValueError, "there is no tensor to differentiate with respect to")
    return opened, inner


def _chosen(argnums: Argnums, count: int) -> list[int]:
    """`argnums` as a list of places among `count` arguments."""
    numbers = [argnums] if isinstance(argnums, int) else list(argnums)
    for n in numbers:
        if not isinstance(n, int) or not -count <= n < count:
            raise failure(RuntimeError, f"Got argnum={n}, but only {count} positional inputs")
    return [n % count for n in numbers]


def _called(function: Callable[..., Any], has_aux: bool, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """What `function` gives, and what it gives beside."""
    with enable_grad():
        result = function(*args, **kwargs)
    if not has_aux:
        return result, None
    if not (isinstance(result, tuple) and len(result) == 2):
        raise failure(
            RuntimeError, "with has_aux=True the function must return a tuple of two: (output, aux)"
        )
    return result


# Reverse mode.


def grad(function: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that gives the gradient of `function`, which gives a scalar; as `torch.func.grad`.

    argnums: which argument (a tensor, or a container of them) it is with respect to; a tuple of
    them gives a tuple of gradients. With has_aux, `function` gives `(value, aux)`, and the result is
    `(gradient, aux)`.

    >>> import fusegrad as fg
    >>> fg.func.grad(fg.func.grad(lambda x: x**3))(fg.tensor(2.0))
    tensor(12.)
    """

    @functools.wraps(function, updated=())
    def gradient(*args: Any, **kwargs: Any) -> Any:
        found, _, aux = _grad_and_value(function, argnums, has_aux, args, kwargs)
        return (found, aux) if has_aux else found

    return gradient


def grad_and_value(
    function: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives `(gradient, value)`, or `(gradient, (value, aux))`.

    Source: `torch.func.grad_and_value`.
    """

    @functools.wraps(function, updated=())
    def both(*args: Any, **kwargs: Any) -> Any:
        found, value, aux = _grad_and_value(function, argnums, has_aux, args, kwargs)
        return (found, (value, aux)) if has_aux else (found, value)

    return both


def value_and_grad(
    function: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives `(value, gradient)`, or `((value, aux), gradient)`; as `jax.value_and_grad`.

    >>> import fusegrad as fg
    >>> fg.value_and_grad(lambda p: (p["w"] * p["x"]).sum())({"w": fg.tensor(2.0), "x": fg.tensor(3.0)})
    (tensor(6.), {'w': tensor(3.), 'x': tensor(2.)})
    """

    @functools.wraps(function, updated=())
    def both(*args: Any, **kwargs: Any) -> Any:
        found, value, aux = _grad_and_value(function, argnums, has_aux, args, kwargs)
        return ((value, aux), found) if has_aux else (value, found)

    return both


def _grad_and_value(
    function: Callable[..., Any],
    argnums: Argnums,
    has_aux: bool,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[Any, Any, Any]:
    with _Level() as level:
        return _derived(level, function, argnums, has_aux, args, kwargs)


def _derived(
    level: _Level,
    function: Callable[..., Any],
    argnums: Argnums,
    has_aux: bool,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[Any, Any, Any]:
    numbers = _chosen(argnums, len(args))
    opened, inner = _opened(level, [args[n] for n in numbers])
    given = list(args)
    for n, value in zip(numbers, opened, strict=True):
        given[n] = value
    value, aux = _called(function, has_aux, *given, **kwargs)
    if not isinstance(value, Tensor) or value.array.ndim:
        what = f"tensor with {value.array.ndim} dims" if isinstance(value, Tensor) else type(value).__name__
        raise failure(
            RuntimeError,
            f"grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got {what}. "
            "Maybe you wanted to use the vjp or jacrev APIs instead?",
        )
    derivable = level.derivable(value)
    pulled = _pulled([value], inner, None, derivable, retain=level.derivable(*_tensors(aux)))
    gradients = iter([level.outside(g) for g in pulled] if derivable else pulled)
    results = [_mapped(args[n], lambda _: next(gradients)) for n in numbers]
    found = results[0] if isinstance(argnums, int) else tuple(results)
    return found, value if derivable else value.detach(), level.outside(aux)


def _tensors(value: Any) -> list[Tensor]:
    leaves: list[Any] = []
    flatten(value, leaves)
    return [x for x in leaves if isinstance(x, Tensor)]


def _pulled(
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    cotangents: Sequence[Tensor] | None,
    derivable: bool,
    retain: bool = False,
) -> list[Tensor]:
    """The gradients of `inputs`, zeros where there is none."""
    pairs = list(zip(outputs, [None] * len(outputs) if cotangents is None else cotangents, strict=True))
    pairs = [(y, c) for y, c in pairs if y.needs_grad]
    if not pairs:
        return [wrap(np.zeros_like(x.array)) for x in inputs]
    roots, seeds = zip(*pairs, strict=True)
    with enable_grad():
        found = autograd.grad(
            roots,
            inputs,
            seeds,
            retain_graph=derivable or retain,
            create_graph=derivable,
            materialize_grads=True,
        )
    return list(found)  # type: ignore[arg-type]


def vjp(function: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """`(output, vjp_function)` (and aux), as `torch.func.vjp`.

    vjp_function takes the gradient of the output (in its structure) and gives the tuple of the
    gradients of `primals`; it can be called again.

    >>> import fusegrad as fg
    >>> output, pull = fg.vjp(lambda x, y: x * y, fg.tensor(2.0), fg.tensor(3.0))
    >>> pull(fg.tensor(1.0))
    (tensor(3.), tensor(2.))
    """
    with _Level() as level:
        opened, inner = _opened(level, primals)
        output, aux = _called(function, has_aux, *opened)
        flat: list[Any] = []
        structure = flatten(output, flat)
        _check_outputs("vjp", flat)
        derivable = level.derivable(*flat)

    def pull(cotangents: Any) -> tuple[Any, ...]:
        given: list[Any] = []
        if flatten(cotangents, given) != structure:
            raise failure(
                RuntimeError, "Expected pytree structure of cotangents to be the same as that of the outputs"
            )
        further = state.grad_enabled and any(c.needs_grad for c in given)
        found = _pulled(flat, inner, given, derivable or further, retain=True)
        gradients = iter([level.outside(g) for g in found])
        return tuple(_mapped(p, lambda _: next(gradients)) for p in primals)

    result = level.outside(output), pull
    return (*result, level.outside(aux)) if has_aux else result


def _check_outputs(name: str, flat: Sequence[Any]) -> None:
    for y in flat:
        if not isinstance(y, Tensor):
            raise failure(
                RuntimeError, f"{name}(f, ...): Expected f to return tensors, got {type(y).__name__}"
            )


# Forward mode, as the gradient of a gradient, which is linear in what it is given.


def jvp(
    function: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False
) -> Any:
    """`(output, tangent of the output)` (and aux) for `tangents` of `primals`; as `torch.func.jvp`.

    strict: raise RuntimeError where an output does not depend on the primals, instead of zeros.

    >>> import fusegrad as fg
    >>> fg.jvp(fg.sin, (fg.tensor(0.0),), (fg.tensor(2.0),))
    (tensor(0.), tensor(2.))
    """
    if not isinstance(primals, tuple) or not isinstance(tangents, tuple) or len(primals) != len(tangents):
        raise failure(RuntimeError, "jvp takes primals and tangents as tuples of one length")
    with _Level() as level:
        output, tangent, aux = _forward(level, function, primals, tangents, strict, has_aux)
    return (output, tangent, aux) if has_aux else (output, tangent)


def _forward(
    level: _Level, function: Callable[..., Any], primals: Any, tangents: Any, strict: bool, has_aux: bool
) -> tuple[Any, Any, Any]:
    opened, inner = _opened(level, primals)
    given = _tensors(tangents)
    for x, t in zip(inner, given, strict=True):
        if x.array.shape != t.array.shape:
            raise failure(
                RuntimeError, f"a tangent has shape {list(t.array.shape)}, its primal {list(x.array.shape)}"
            )
    output, aux = _called(function, has_aux, *opened)
    flat: list[Any] = []
    structure = flatten(output, flat)
    _check_outputs("jvp", flat)
    if strict and not all(y.needs_grad for y in flat):
        raise failure(
            RuntimeError, "jvp(f, primals, tangents, strict=True): an output is independent of the primals"
        )
    derivable = level.derivable(*flat) or (level.tracked and any(t.needs_grad for t in given))
    found = [level.outside(t) for t in _pushed(flat, inner, given, derivable)]
    return level.outside(output), structure.build(iter(found)), level.outside(aux)


def _pushed(
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    tangents: Sequence[Tensor],
    derivable: bool,
    retain: bool = False,
) -> list[Tensor]:
    """The tangents of `outputs`: the gradient, with respect to u, of what u pulls back."""
    live = [y for y in outputs if y.needs_grad]
    made: Iterator[Tensor] = iter(())
    if live:
        seeds = [wrap(np.zeros_like(y.array)) for y in live]
        for u in seeds:
            u.needs_grad = True
        with enable_grad():
            pulled = autograd.grad(live, inputs, seeds, create_graph=True, materialize_grads=True)
            linear = [(g, t) for g, t in zip(pulled, tangents, strict=True) if g is not None and g.needs_grad]
            made = iter(_pulled([g for g, _ in linear], seeds, [t for _, t in linear], derivable, retain))
    return [next(made) if y.needs_grad else wrap(np.zeros_like(y.array)) for y in outputs]


# Whole matrices.


def jacrev(
    function: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function that gives the Jacobian of `function`, one row after the other; as `torch.func.jacrev`.

    Its result has the structure of the output, each tensor replaced by the structure of the argument
    (a tuple of them for several `argnums`), with tensors of the output's shape followed by the input's.

    >>> import fusegrad as fg
    >>> fg.func.jacrev(lambda x: x**2)(fg.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """

    @functools.wraps(function, updated=())
    def jacobian(*args: Any) -> Any:
        partial, primals = _partial(function, argnums, args)
        output, pull, *aux = vjp(partial, *primals, has_aux=has_aux)
        flat: list[Any] = []
        structure = flatten(output, flat)
        rows = [
            [_tensors(pull(structure.build(iter(cotangents)))) for cotangents in _basis(flat, i)]
            for i in range(len(flat))
        ]
        inputs = _tensors(primals)
        blocks = [
            [
                _stacked([row[j] for row in rows[i]], (*y.array.shape, *x.array.shape), x)
                for j, x in enumerate(inputs)
            ]
            for i, y in enumerate(flat)
        ]
        return _with_aux(_nested(structure, blocks, primals, argnums), aux)

    return jacobian


def jacfwd(
    function: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """A function that gives the Jacobian of `function`, one column after the other.

    Source: `torch.func.jacfwd`.
    """

    @functools.wraps(function, updated=())
    def jacobian(*args: Any) -> Any:
        partial, primals = _partial(function, argnums, args)
        inputs = _tensors(primals)
        structure_in = flatten(primals, [])
        columns: list[list[list[Tensor]]] = []
        output: Any = None
        aux: list[Any] = []
        for j in range(len(inputs)):
            columns.append([])
            for tangents in _basis(inputs, j):
                output, tangent, *aux = jvp(
                    partial, primals, structure_in.build(iter(tangents)), has_aux=has_aux
                )
                columns[j].append(_tensors(tangent))
        flat: list[Any] = []
        if not any(columns):
            output = partial(*primals)
            output, *aux = output if has_aux else (output,)
        structure = flatten(output, flat)
        blocks = [
            [
                _stacked([c[i] for c in columns[j]], (*x.array.shape, *y.array.shape), y).movedim(
                    tuple(range(x.array.ndim)), tuple(range(y.array.ndim, y.array.ndim + x.array.ndim))
                )
                for j, x in enumerate(inputs)
            ]
            for i, y in enumerate(flat)
        ]
        return _with_aux(_nested(structure, blocks, primals, argnums), aux)

    return jacobian


def hessian(function: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """A function that gives the matrix of second derivatives; as `torch.func.hessian`.

    >>> import fusegrad as fg
    >>> fg.hessian(lambda x: (x**3).sum())(fg.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(function, argnums), argnums)


jacobian = jacrev


def _partial(
    function: Callable[..., Any], argnums: Argnums, args: tuple[Any, ...]
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """`function` as one of the chosen arguments alone, and these."""
    numbers = _chosen(argnums, len(args))

    def partial(*chosen: Any) -> Any:
        given = list(args)
        for n, value in zip(numbers, chosen, strict=True):
            given[n] = value
        return function(*given)

    return partial, tuple(args[n] for n in numbers)


def _basis(tensors: Sequence[Tensor], chosen: int) -> Iterator[list[Tensor]]:
    """For each element of one of `tensors`: a one there, zeros in all the rest."""
    zeros = [wrap(np.zeros_like(t.array)) for t in tensors]
    like = tensors[chosen].array
    for place_ in range(like.size):
        one = np.zeros(like.shape, like.dtype)
        one.reshape(-1)[place_] = 1
        yield [wrap(one) if i == chosen else z for i, z in enumerate(zeros)]


def _stacked(parts: list[Tensor], shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Rows as one tensor of `shape`."""
    if not parts:
        return wrap(np.zeros(shape, like.array.dtype))
    return joining.stack(parts).reshape(shape)


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


from fusegrad.eager.ops.shape import joining  # noqa: E402

publish("fusegrad", {**globals(), "grad": grad_of}, "grad hessian jacobian jvp value_and_grad vjp".split())
publish("fusegrad.func", globals(), __all__)
