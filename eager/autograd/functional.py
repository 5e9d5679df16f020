"""Derivatives of functions of tensors, as `torch.autograd.functional`: older and plainer than `func`.

Functions take one tensor or a tuple of them, and give one or a tuple. Results come without a graph
unless `create_graph`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.autograd.edges import Passing
from fusegrad.eager.autograd.engine import run_backward
from fusegrad.eager.autograd.node import place, reach, share
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.state import REQUIRES_GRAD, enable_grad, refuse_transforms
from fusegrad.eager.core.tensor import Tensor

_ONE = {
    "input": "the input to the user-provided function is",
    "output": "the user-provided function returns",
}
_OUTPUTS = "outputs of the user-provided function"

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def _many(value: Any, what: str, name: str) -> tuple[bool, tuple[Tensor, ...]]:
    """Whether `value` is a tuple, and it as one."""
    found = value if isinstance(value, tuple) else tuple(value) if isinstance(value, list) else (value,)
    for i, t in enumerate(found):
        if not isinstance(t, Tensor):
            raise failure(
                TypeError,
                f"The {what} given to {name} must be either a Tensor or a tuple of Tensors but the value at "
                f"index {i} has type {type(t).__name__}.",
            )
    return isinstance(value, tuple), found


def _opened(inputs: Sequence[Tensor], create_graph: bool) -> tuple[Tensor, ...]:
    """Tensors to derive with respect to; with create_graph they hang on the inputs."""
    refuse_transforms(REQUIRES_GRAD)
    found = []
    reach(*inputs)
    for x in inputs:
        own = share(x)
        if create_graph and x.needs_grad:
            place(own, Passing(x), 0)
        else:
            own.needs_grad = True
        found.append(own)
    return tuple(found)


def _closed(tensors: Sequence[Tensor], many: bool, create_graph: bool) -> Any:
    found = tuple(t if create_graph else t.detach() for t in tensors)
    return found if many else found[0]


def _gradients(
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    cotangents: Sequence[Tensor | None] | None,
    create_graph: bool,
    strict: bool,
    name: str,
    second: bool = False,
    subject: str = "The output",
    derived: str = "",
) -> list[Tensor]:
    """Gradients that may be called for again, with zeros (or, if strict, an error) for unused inputs.

    second: the outputs are gradients with respect to the inputs themselves. subject: what errors call the
    outputs. derived: what the gradients are, where the user is going to derive them: in strict mode they must
    depend on the inputs.
    """
    given = [None] * len(outputs) if cotangents is None else list(cotangents)
    pairs = [(y, c) for y, c in zip(outputs, given, strict=True) if y.needs_grad]
    if strict and len(pairs) < len(outputs):
        raise failure(RuntimeError, _independent(name, [y.needs_grad for y in outputs].index(False), second))
    found: list[Any] = [None] * len(inputs)
    if pairs:
        found = run_backward([y for y, _ in pairs], [c for _, c in pairs], True, create_graph, inputs)
    for i, (gradient, x) in enumerate(zip(found, inputs, strict=True)):
        if gradient is None and strict:
            raise failure(
                RuntimeError,
                f"{name}: {subject} of the user-provided function is independent of input {i}. This is not "
                "allowed in strict mode.",
            )
        if gradient is not None and strict and derived and not gradient.needs_grad:
            raise failure(
                RuntimeError,
                f"{name}: The {derived} of the user-provided function is independent of input {i}. This is "
                "not allowed in strict mode when create_graph=True.",
            )
        if gradient is None:
            found[i] = wrap(np.zeros_like(x.array))
    return found


def _independent(name: str, number: int, second: bool) -> str:
    """Why strict mode does not take an output that hangs on no input."""
    if second:
        return (
            f"{name}: The jacobian of the user-provided function with respect to input {number} is "
            "independent of the input. This is not allowed in strict mode."
        )
    return (
        f"{name}: Output {number} of the user-provided function does not require gradients. The outputs must "
        "be computed in a differentiable manner from the input when running in strict mode."
    )


def _checked_v(v: Any, like: Sequence[Tensor], what: str, name: str) -> list[Tensor | None]:
    """The vector that is multiplied with; may be left out for one element."""
    if v is None:
        if len(like) != 1 or like[0].array.size != 1:
            raise failure(
                RuntimeError,
                f"{name}: The vector v can only be None if {_ONE[what]} a single Tensor with a single "
                "element.",
            )
        return [wrap(np.ones_like(like[0].array))]
    _, given = _many(v, "v", name)
    if len(given) > len(like) == 1:
        raise failure(RuntimeError, f"{name}: The given v should contain a single Tensor.")
    if len(given) != len(like):
        raise failure(
            RuntimeError,
            f"{name}: v is a tuple of invalid length: should be {len(like)}, as the {what}, but got "
            f"{len(given)}",
        )
    for i, (a, b) in enumerate(zip(given, like, strict=True)):
        if a.array.shape != b.array.shape:
            raise failure(
                RuntimeError,
                f"{name}: Entry {i} in v has invalid size: should be {b.shape} but got {a.shape}",
            )
    return list(given)


def vjp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """`(outputs, v times the Jacobian)`. Source: `torch.autograd.functional.vjp`."""
    many, given = _many(inputs, "inputs", "vjp")
    with enable_grad():
        opened = _opened(given, create_graph)
        many_outputs, outputs = _many(func(*opened), _OUTPUTS, "vjp")
        vector = _checked_v(v, outputs, "output", "vjp")
        derived = "jacobian" if create_graph else ""
        found = _gradients(outputs, opened, vector, create_graph, strict, "vjp", derived=derived)
    return _closed(outputs, many_outputs, create_graph), _closed(found, many, create_graph)


def jvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """`(outputs, the Jacobian times v)`. Source: `torch.autograd.functional.jvp`."""
    _, given = _many(inputs, "inputs", "jvp")
    vector = _checked_v(v, given, "input", "jvp")
    with enable_grad():
        opened = _opened(given, create_graph)
        many_outputs, outputs = _many(func(*opened), _OUTPUTS, "jvp")
        # What a cotangent u pulls back is linear in u; its gradient along v is the product.
        seeds = tuple(wrap(np.zeros_like(y.array)).requires_grad_() for y in outputs)
        pulled = _gradients(outputs, opened, seeds, True, strict, "jvp")
        found = _gradients(pulled, seeds, vector, create_graph, False, "jvp")
        if strict and create_graph:
            for i, tangent in enumerate(found):
                if not tangent.needs_grad:
                    raise failure(
                        RuntimeError,
                        f"jvp: The jacobian of the user-provided function is independent of input {i}. This "
                        "is not allowed in strict mode when create_graph=True.",
                    )
    return _closed(outputs, many_outputs, create_graph), _closed(found, many_outputs, create_graph)


def _scalar(name: str, output: Any) -> Tensor:
    many, outputs = _many(output, _OUTPUTS, name)
    if many:
        raise failure(RuntimeError, f"The function given to {name} should return a single Tensor")
    if outputs[0].array.size != 1:
        raise failure(
            RuntimeError,
            f"The Tensor returned by the function given to {name} should contain a single element",
        )
    return outputs[0]


def vhp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """`(output, v times the Hessian)` of a function with one value.

    Source: `torch.autograd.functional.vhp`.
    """
    return _with_hessian("vhp", func, inputs, v, create_graph, strict)


def _with_hessian(
    name: str, func: Callable[..., Any], inputs: Any, v: Any, create_graph: bool, strict: bool
) -> tuple[Any, Any]:
    """Output and product with the Hessian, from either side: it is symmetric."""
    many, given = _many(inputs, "inputs", name)
    vector = _checked_v(v, given, "input", name)
    with enable_grad():
        opened = _opened(given, create_graph)
        output = _scalar(name, func(*opened))
        first = _gradients([output], opened, None, True, strict, name)
        derived = "hessian" if create_graph else ""
        found = _gradients(first, opened, vector, create_graph, strict, name, second=True, derived=derived)
    return _closed([output], False, create_graph), _closed(found, many, create_graph)


def hvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """`(output, the Hessian times v)`, the same as `vhp`: Hessians are symmetric.

    Source: `torch.autograd.functional.hvp`.
    """
    return _with_hessian("hvp", func, inputs, v, create_graph, strict)


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian: for each output and input a tensor of the output's shape followed by the input's.

    A tuple of outputs gives a tuple, a tuple of inputs a tuple inside. vectorize: all rows at once, by one
    backward of a batch, whatever the strategy; not with `strict`.
    Source: `torch.autograd.functional.jacobian`.

    >>> import fusegrad as fg
    >>> fg.autograd.functional.jacobian(lambda x: x**2, fg.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    _check_vectorized("jacobian", strict, vectorize, strategy, create_graph)
    many, given = _many(inputs, "inputs", "jacobian")
    with enable_grad():
        opened = _opened(given, create_graph)
        many_outputs, outputs = _many(func(*opened), _OUTPUTS, "jacobian")
        if vectorize:
            blocks = [_batch_of_rows(y, opened, create_graph) for y in outputs]
        else:
            blocks = [_rows(i, y, opened, create_graph, strict) for i, y in enumerate(outputs)]
    closed = tuple(_closed(block, many, create_graph) for block in blocks)
    return closed if many_outputs else closed[0]


def _check_vectorized(name: str, strict: bool, vectorize: bool, strategy: str, create_graph: bool) -> None:
    """Refuse what goes with one way of computing alone, as PyTorch does."""
    if strategy not in ("forward-mode", "reverse-mode"):
        raise failure(
            ValueError, f'{name}: the strategy is "forward-mode" or "reverse-mode", not {strategy!r}'
        )
    if strict and vectorize:
        raise failure(
            RuntimeError, f"{name}: `strict=True` and `vectorized=True` are not supported together."
        )
    if strategy == "forward-mode" and not vectorize:
        raise failure(NotImplementedError, f"{name}: forward-mode is only implemented for `vectorize=True`.")
    if strategy == "forward-mode" and create_graph:
        raise failure(
            NotImplementedError, f"{name}: `create_graph=True` is not implemented for forward-mode."
        )


def _batch_of_rows(output: Tensor, inputs: Sequence[Tensor], create_graph: bool) -> list[Tensor]:
    """The Jacobian of an output with respect to each input, all rows in one backward."""
    shape, size = output.array.shape, output.array.size
    if not size:
        return [ops.zeros((*shape, *x.array.shape), dtype=x.dtype) for x in inputs]

    def row(one: Tensor) -> list[Tensor]:
        return _gradients([output], inputs, [one], create_graph, False, "jacobian")

    basis = ops.reshape(ops.eye(size, dtype=output.dtype), (size, *shape))
    found = ops.for_each(row, [basis])
    return [ops.reshape(rows, (*shape, *x.array.shape)) for rows, x in zip(found, inputs, strict=True)]


def _rows(
    number: int, output: Tensor, inputs: Sequence[Tensor], create_graph: bool, strict: bool
) -> list[Tensor]:
    """The Jacobian of output `number` with respect to each input."""
    if strict and not output.needs_grad:
        raise failure(RuntimeError, _independent("jacobian", number, False))
    rows = []
    for place_ in range(output.array.size):
        one = np.zeros(output.array.shape, output.array.dtype)
        one.reshape(-1)[place_] = 1
        subject, derived = f"Output {number}", "jacobian" if create_graph else ""
        given = [output], inputs, [wrap(one)], create_graph, strict, "jacobian"
        rows.append(_gradients(*given, subject=subject, derived=derived))
    shape = output.array.shape
    return [
        ops.stack([row[i] for row in rows]).reshape((*shape, *x.array.shape))
        if rows
        else wrap(np.zeros((*shape, *x.array.shape), x.array.dtype))
        for i, x in enumerate(inputs)
    ]


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Hessian of a function with one value: for inputs i and j the Jacobian of gradient i along j.

    Source: `torch.autograd.functional.hessian`.
    """
    _check_vectorized("hessian", strict, vectorize, outer_jacobian_strategy, create_graph)
    many, given = _many(inputs, "inputs", "hessian")

    def gradient(*opened: Tensor) -> Any:
        output = _scalar("hessian", func(*opened))
        if strict and not output.needs_grad:
            raise failure(RuntimeError, _independent("hessian", 0, False))
        found = _gradients([output], opened, None, True, False, "hessian")
        if strict and not all(g.needs_grad for g in found):
            which = [g.needs_grad for g in found].index(False)
            raise failure(RuntimeError, _independent("hessian", which, True))
        return tuple(found)

    found = jacobian(gradient, given, create_graph, strict, vectorize)
    return found if many else found[0][0]


locate("fusegrad.autograd.functional", globals(), __all__)
