"""Gradients against differences: `gradcheck` and `gradgradcheck`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.autograd.engine import run_backward
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.state import enable_grad
from fusegrad.eager.core.tensor import Tensor

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """A gradient that differences do not confirm."""


def _tensors(value: Any) -> list[Tensor]:
    found = [value] if isinstance(value, Tensor) else list(value)
    return [t for t in found if isinstance(t, Tensor)]


def _differentiable(value: Any) -> list[Tensor]:
    return [t for t in _tensors(value) if t.array.dtype.kind in "fcV" and t.needs_grad]


def _numerical(
    function: Callable[..., Any], inputs: Sequence[Any], x: Tensor, eps: float, which: list[int]
) -> list[np.ndarray]:
    """Central differences of each output: [element of x, step (real, imaginary), element of output]."""
    steps = [eps, 1j * eps] if x.array.dtype.kind == "c" else [eps]
    rows: list[list[list[np.ndarray]]] = [[] for _ in which]
    with enable_grad():
        known = [(y.array.shape, y.array.dtype) for y in _tensors(function(*inputs))]
    for index in np.ndindex(x.array.shape):
        kept = x.array[index]
        columns: list[list[np.ndarray]] = [[] for _ in which]
        for step in steps:
            ends = []
            for end in (kept + step, kept - step):
                x.array[index] = end
                with enable_grad():  # the function may look whether its results need gradients
                    outputs = _tensors(function(*inputs))
                made = [(y.array.shape, y.array.dtype) for y in outputs]
                _check_alike(known, made, index)
                ends.append([outputs[i].array.reshape(-1).astype(np.complex128) for i in which])
            for column, high, low in zip(columns, *ends, strict=True):
                column.append((high - low) / (2 * eps))
        x.array[index] = kept
        for row, column in zip(rows, columns, strict=True):
            row.append(column)
    return [np.array(row) for row in rows]


def _check_alike(known: list[Any], made: list[Any], index: tuple[int, ...]) -> None:
    """Refuse a function whose outputs are of other kinds where an input is changed a little."""
    for what, before, now in zip(
        ("shape", "dtype"), zip(*known, strict=True), zip(*made, strict=True), strict=False
    ):
        if before != now:
            raise failure(
                AssertionError,
                f"Expected `func` to return outputs with the same {what} when inputs are perturbed on index "
                f"{index}, but got {list(map(str, now))} rather than {list(map(str, before))}",
            )


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    **ignored: Any,
) -> bool:
    """Whether the gradients of `func` at `inputs` agree with central differences; as
    `torch.autograd.gradcheck`.

    Inputs that need gradients should be float64. Raises GradcheckError, a RuntimeError, where they
    differ (or, without raise_exception, gives False).

    >>> import fusegrad as fg
    >>> fg.autograd.gradcheck(lambda x: fg.tanh(x) * x, fg.randn(3, dtype=fg.float64, requires_grad=True))
    True
    """
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    try:
        _check(func, given, eps, atol, rtol, nondet_tol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _check(
    func: Callable[..., Any], inputs: tuple[Any, ...], eps: float, atol: float, rtol: float, nondet_tol: float
) -> None:
    checked = [t for t in inputs if isinstance(t, Tensor) and t.needs_grad]
    if not checked:
        raise failure(
            ValueError,
            "gradcheck expects at least one input tensor to require gradient, but none of them does",
        )
    with enable_grad():
        outputs = _tensors(func(*inputs))
    which = [i for i, y in enumerate(outputs) if y.needs_grad]
    if not which:
        _check_constant(func, inputs, checked, outputs, eps, atol)
    for number, x in enumerate(checked):
        numerical = _numerical(func, inputs, x, eps, which)
        for o, output_number in enumerate(which):
            analytical = _analytical(outputs[output_number], x)
            again = _analytical(outputs[output_number], x) if nondet_tol == 0 else analytical
            if not np.allclose(analytical, again, rtol=0, atol=nondet_tol):
                raise GradcheckError(
                    "Backward is not reentrant: run twice on one input, it gives different values"
                )
            expected = _as_analytical(numerical[o], x, outputs[output_number])
            for part, found, right in _parts(outputs[output_number], analytical, expected):
                if not np.allclose(found, right, rtol=rtol, atol=atol, equal_nan=True):
                    raise GradcheckError(
                        f"{part}Jacobian mismatch for output {output_number} with respect to input {number},"
                        f"\nnumerical:{right}\nanalytical:{found}\n"
                    )


def _parts(
    output: Tensor, found: np.ndarray, right: np.ndarray
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """What is compared: the columns, or those of the imaginary and of the real parts of a complex output."""
    if output.array.dtype.kind != "c":
        yield "", found, right
        return
    half = output.array.size
    for part, columns in (("imaginary", slice(half, None)), ("real", slice(half))):
        words = f"While considering the {part} part of complex outputs only, "
        yield words, found[:, columns], right[:, columns]


def _check_constant(
    func: Callable[..., Any],
    inputs: tuple[Any, ...],
    checked: Sequence[Tensor],
    outputs: Sequence[Tensor],
    eps: float,
    atol: float,
) -> None:
    """Outputs that need no gradients must not depend on the inputs."""
    which = [i for i, y in enumerate(outputs) if y.array.dtype.kind in "fcV"]
    for x in checked:
        for found in _numerical(func, inputs, x, eps, which):
            if not np.allclose(found, 0, rtol=0, atol=atol):
                raise GradcheckError("gradcheck: Numerical gradient for function expected to be zero")


def _analytical(output: Tensor, x: Tensor) -> np.ndarray:
    """Rows: elements of x; columns: elements of the output (real, then imaginary parts where complex)."""
    columns = []
    units = [1.0, 1j] if output.array.dtype.kind == "c" else [1.0]
    for unit in units:
        for place in range(output.array.size):
            one = np.zeros(output.array.shape, output.array.dtype)
            one.reshape(-1)[place] = unit
            (found,) = run_backward([output], [wrap(one)], True, False, [x])
            columns.append(np.zeros(x.array.size) if found is None else found.array.reshape(-1))
    return np.array(columns).T.reshape(x.array.size, len(columns))


def _as_analytical(numerical: np.ndarray, x: Tensor, output: Tensor) -> np.ndarray:
    """Differences in the layout of `_analytical`.

    The gradient for a real part p of the output is dp/d(real x) + i dp/d(imaginary x).
    """
    if not numerical.size:
        return np.zeros((x.array.size, output.array.size))
    parts = [numerical.real, numerical.imag] if output.array.dtype.kind == "c" else [numerical.real]
    if x.array.dtype.kind == "c":
        return np.concatenate([p[:, 0] + 1j * p[:, 1] for p in parts], axis=1)
    return np.concatenate([p[:, 0] for p in parts], axis=1)


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    **ignored: Any,
) -> bool:
    """Whether the gradients of the gradients agree with central differences.

    Source: `torch.autograd.gradgradcheck`.
    """
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    with enable_grad():
        outputs = _differentiable(func(*given))
    if grad_outputs is None:
        chance = np.random.default_rng(0)
        seeds = [wrap(_random_like(chance, y.array)).requires_grad_() for y in outputs]
    else:
        seeds = _tensors(grad_outputs)

    def gradients(*everything: Any) -> tuple[Tensor, ...]:
        arguments, vectors = everything[: len(given)], everything[len(given) :]
        wanted = [a for a in arguments if isinstance(a, Tensor) and a.needs_grad]
        with enable_grad():
            values = _differentiable(func(*arguments))
            found = run_backward(values, list(vectors), True, True, wanted)
        return tuple(g for g in found if g is not None)

    return gradcheck(
        gradients,
        (*given, *seeds),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
    )


def _random_like(chance: np.random.Generator, array: np.ndarray) -> np.ndarray:
    real = chance.standard_normal(array.shape)
    values = real + 1j * chance.standard_normal(array.shape) if array.dtype.kind == "c" else real
    return values.astype(array.dtype)


locate("fusegrad.autograd", globals(), __all__)
