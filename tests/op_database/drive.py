"""One entry of PyTorch's op database against fusegrad: values, gradients, second gradients, errors.

Everything is found by name: `nn.functional.conv2d` is `fg.nn.functional.conv2d`, and what is no
function of fusegrad is looked for among the methods of `Tensor`. Samples come as torch tensors;
`converted` gives their fusegrad twins.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import fusegrad as fg

torch = pytest.importorskip("torch")
common_utils = pytest.importorskip("torch.testing._internal.common_utils")

# PyTorch looks for its own test on the whole stack, source and all, for each set of samples: half the time.
common_utils.extract_test_fn = lambda: None
torch.set_num_threads(1)  # sums in one order, on every machine

DTYPES = (torch.float32, torch.float64, torch.int64, torch.bool)
TOLERANCE = {
    torch.float32: {"rtol": 2e-5, "atol": 2e-5},
    torch.float64: {"rtol": 1e-7, "atol": 1e-7},
}
# Where tensors lie and how they are laid out says nothing about a CPU engine on NumPy.
PLACEMENT = ("device", "layout", "memory_format", "pin_memory")
# Values are random or whatever was in memory: only shapes and dtypes are compared.
UNSPECIFIED = frozenset(
    """bernoulli cauchy empty empty_like empty_permuted empty_strided exponential geometric log_normal
    multinomial new_empty new_empty_strided nn.functional.alpha_dropout nn.functional.dropout
    nn.functional.dropout2d nn.functional.dropout3d nn.functional.feature_alpha_dropout
    nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d
    nn.functional.multi_head_attention_forward nn.functional.rrelu
    normal rand_like randint randint_like randn randn_like resize_ resize_as_ uniform""".split()
)


# Vectors that are only defined up to a factor of size 1 (or a rotation), which is LAPACK's choice. What
# the samples themselves make of them for gradient checks is compared: it does not depend on the choice.
UP_TO_PHASE = frozenset("linalg.eig linalg.eigh linalg.svd pca_lowrank svd svd_lowrank".split())

# Entries whose own function takes its arguments otherwise than the function of that name; some entries
# have a variant with a function of its own.
ADAPTED: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "normal (in_place)": lambda _: lambda x, *given: x.detach().normal_(*given),
    "normal (number_mean)": lambda normal: lambda std, mean, *size, **kw: normal(mean, std, *size, **kw),
    "resize_": lambda resize_: lambda x, size: resize_(x.clone().detach(), size),
    "resize_as_": lambda resize_as_: lambda x, other: resize_as_(x.clone().detach(), other),
    "zero_": lambda zero_: lambda x: zero_(x.clone()),
    "polygamma": lambda polygamma: lambda x, n: polygamma(n, x),
    "special.polygamma": lambda polygamma: lambda x, n: polygamma(n, x),
    "where": lambda where: lambda x, condition, other: where(condition, x, other),
    "einsum": lambda einsum: lambda tensors, equation: einsum(equation, tensors),
    "linalg.lstsq (grad_oriented)": lambda lstsq: lambda a, b, driver: lstsq(a, b, driver=driver)[:2],
    "linalg.pinv (singular)": lambda pinv: lambda a, b: pinv(a @ b.mT),
    "pca_lowrank": lambda pca: lambda a, b, **given: pca(a @ b.mT, **given),
    "svd_lowrank": lambda svd: lambda a, b, **given: svd(a @ b.mT, **given),
    "nn.functional.embedding": lambda embedding: lambda w, i, **given: embedding(i, w, **given),
    "nn.functional.embedding_bag": lambda bag: lambda w, i, **given: bag(i, w, **given),
    # The samples' own distance is a module of torch's.
    "nn.functional.triplet_margin_with_distance_loss": lambda loss: (
        lambda *args, distance_function=None, **given: loss(
            *args, distance_function=distance_function and fg.nn.functional.pairwise_distance, **given
        )
    ),
}


@dataclass
class Outcome:
    """What became of the samples of one entry: how many ran, and each failure's text.

    op: the op's name; an op may have several entries, whose names say the variant too.
    """

    op: str
    name: str
    samples: int = 0
    failures: list[str] = field(default_factory=list)


# Entries of methods that exist in place only; the database names them without the underscore.
IN_PLACE = frozenset("cauchy exponential geometric log_normal uniform".split())


def found(name: str) -> Callable[..., Any] | None:
    """fusegrad's function (or method of Tensor) under PyTorch's dotted name."""
    if name in IN_PLACE:
        drawing = getattr(fg.Tensor, f"{name}_", None)
        return drawing and (lambda x, *args, **given: drawing(x.detach(), *args, **given))
    thing: Any = fg
    for part in name.split("."):
        thing = getattr(thing, part, None)
    if thing is None and "." not in name:
        thing = getattr(fg.Tensor, name, None)
    if isinstance(thing, property):
        return thing.fget
    return thing if callable(thing) and not isinstance(thing, fg.dtype) else getattr(fg.Tensor, name, None)


def converted(value: Any) -> Any:
    """`value` with fusegrad's tensors, dtypes and sizes in place of torch's."""
    if isinstance(value, torch.Tensor):
        twin = fg.from_numpy(numpy(value)).to(converted(value.dtype))
        return twin.requires_grad_() if value.requires_grad else twin
    if isinstance(value, torch.dtype):
        return getattr(fg, str(value).removeprefix("torch."))
    if isinstance(value, torch.Size):
        return tuple(value)
    if isinstance(value, (list, tuple)):
        parts = [converted(v) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, dict):
        return {k: converted(v) for k, v in value.items()}
    return value


def tensors_in(value: Any) -> Iterator[Any]:
    """All tensors (of either library) in nested lists, tuples and dicts."""
    if isinstance(value, (torch.Tensor, fg.Tensor)):
        yield value
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from tensors_in(v)
    elif isinstance(value, dict):
        for v in value.values():
            yield from tensors_in(v)


def numpy(tensor: Any) -> np.ndarray:
    """Its values; those of bfloat16, which NumPy lacks, as float32."""
    if isinstance(tensor, torch.Tensor):
        tensor = tensor.resolve_conj().resolve_neg()
    if tensor.dtype in (torch.bfloat16, fg.bfloat16):
        tensor = tensor.float()
    return tensor.detach().numpy(force=True)


def compare(ours: Any, theirs: Any, what: str, values: bool = True) -> None:
    """Raise AssertionError where two results (nested) differ."""
    if not isinstance(theirs, torch.Tensor):
        if isinstance(theirs, (list, tuple)):
            assert isinstance(ours, (list, tuple)), f"{what}: {type(ours).__name__} for a sequence"
            assert len(ours) == len(theirs), f"{what}: {len(ours)} parts for {len(theirs)}"
            for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
                compare(a, b, f"{what}[{i}]", values)
        elif isinstance(theirs, (bool, int, float, complex, str)):
            assert ours == theirs or theirs != theirs, f"{what}: {ours} for {theirs}"
        return
    assert isinstance(ours, fg.Tensor), f"{what}: {type(ours).__name__} for a tensor"
    assert ours.dtype == converted(theirs.dtype), f"{what}: dtype {ours.dtype} for {theirs.dtype}"
    a, b = numpy(ours), numpy(theirs)
    assert a.shape == b.shape, f"{what}: shape {list(a.shape)} for {list(b.shape)}"
    if values:
        single = theirs.dtype in (torch.float32, torch.complex64, torch.float16, torch.bfloat16)
        tolerance = TOLERANCE[torch.float32 if single else torch.float64]
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(a, b, err_msg=what, **tolerance)


def differentiable(result: Any, like: list[bool] | None = None) -> list[Any]:
    """The tensors of a result that gradients flow from (those that `like` marks)."""
    parts = list(tensors_in(result))
    marks = like if like is not None else [p.requires_grad for p in parts]
    return [p for p, mark in zip(parts, marks, strict=True) if mark]


def weighted(parts: list[Any], library: Any, seed: int) -> Any:
    """A scalar of `parts`: their sum under fixed random weights."""
    generator = np.random.default_rng(seed)
    total: Any = None
    for part in parts:
        array = numpy(part)
        weights = generator.uniform(0.5, 1.5, array.shape).astype(array.dtype)
        term = (part * library.tensor(weights)).sum()
        if array.dtype.kind == "c":
            term = library.real(term) + library.imag(term)
        total = term if total is None else total + term.to(total.dtype)
    return total


def gradients(loss: Any, leaves: list[Any], library: Any, higher: bool) -> list[Any]:
    return list(library.autograd.grad(loss, leaves, create_graph=higher, allow_unused=True))


def compare_gradients(ours: list[Any], theirs: list[Any], leaves: list[Any], what: str) -> None:
    """No gradient and a gradient of zeros are the same to a user."""
    for i, (a, b, leaf) in enumerate(zip(ours, theirs, leaves, strict=True)):
        if a is None and b is None:
            continue
        zeros = np.zeros(tuple(leaf.shape), numpy(leaf).dtype)
        one = zeros if a is None else numpy(a)
        other = zeros if b is None else numpy(b)
        single = other.dtype in (np.float32, np.complex64)
        tolerance = TOLERANCE[torch.float32 if single else torch.float64]
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(one, other, err_msg=f"{what} of input {i}", **tolerance)


def run_sample(entry: Any, function: Callable[..., Any], sample: Any, dtype: torch.dtype) -> None:
    """One sample through both libraries; raises where they differ."""
    kwargs = {k: v for k, v in sample.kwargs.items() if k not in PLACEMENT}
    arguments = [sample.input, *sample.args]
    twins, twin_kwargs = converted(arguments), converted(kwargs)
    theirs = entry.op(*arguments, **sample.kwargs)
    ours = function(*twins, **twin_kwargs)
    unspecified = entry.name in UNSPECIFIED or sample.kwargs.get("dropout_p")
    if entry.name in UP_TO_PHASE:
        kept = sample.output_process_fn_grad
        compare(kept(ours), kept(theirs), "value")
    else:
        compare(ours, theirs, "value", not unspecified)
    leaves = [t for t in tensors_in([arguments, kwargs]) if t.requires_grad]
    twin_leaves = [t for t in tensors_in([twins, twin_kwargs]) if t.requires_grad]
    if not leaves or not entry.supports_autograd or unspecified:
        return
    theirs = sample.output_process_fn_grad(theirs)
    ours = sample.output_process_fn_grad(ours)
    marks = [t.requires_grad for t in tensors_in(theirs)]
    if not any(marks):
        return
    second = dtype == torch.float64 and entry.supports_gradgrad
    outputs, twin_outputs = differentiable(theirs, marks), differentiable(ours, marks)
    first = gradients(weighted(outputs, torch, 1), leaves, torch, second)
    twin_first = gradients(weighted(twin_outputs, fg, 1), twin_leaves, fg, second)
    compare_gradients(twin_first, first, leaves, "gradient")
    if second and any(g is not None and g.requires_grad for g in first):
        both = [(a, b) for a, b in zip(first, twin_first, strict=True) if a is not None and a.requires_grad]
        try:
            twice = gradients(weighted([a for a, _ in both], torch, 2), leaves, torch, False)
        except RuntimeError:  # PyTorch cannot derive its own gradient here: nothing to compare with
            return
        # A gradient that depends on nothing has a second gradient of zeros: PyTorch's must be too.
        terms = [converted(torch.zeros_like(a.detach())) if b is None else b for a, b in both]
        loss = weighted(terms, fg, 2)
        twin_twice = (
            gradients(loss, twin_leaves, fg, False) if loss.requires_grad else [None] * len(twin_leaves)
        )
        compare_gradients(twin_twice, twice, leaves, "second gradient")


def refused(entry: Any) -> Iterator[tuple[Any, list[Any], dict[str, Any]]]:
    """The entry's error samples, with arguments for fusegrad.

    Left out is what PyTorch takes after all on this machine, and what cannot be said to fusegrad:
    other devices, dtypes that NumPy lacks, tensors of more than 64 dimensions.
    """
    for error in entry.error_inputs("cpu"):
        sample = error.sample_input
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                entry.op(sample.input, *sample.args, **sample.kwargs)
            continue
        except Exception:
            kwargs = {k: v for k, v in sample.kwargs.items() if k not in PLACEMENT}
        try:
            yield error, converted([sample.input, *sample.args]), converted(kwargs)
        except (TypeError, RuntimeError, ValueError):
            continue


def run_error(function: Callable[..., Any], error: Any, arguments: list[Any], kwargs: dict[str, Any]) -> None:
    """An input that PyTorch refuses must be refused with the same type."""
    try:
        function(*arguments, **kwargs)
    except error.error_type:
        return
    except Exception as other:
        kind = type(other).__name__
        raise AssertionError(f"raises {kind} for {error.error_type.__name__}: {other}") from other
    raise AssertionError(f"takes what PyTorch refuses with: {error.error_regex}")


def describe(value: Any) -> str:
    """A sample's argument in a line."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(describe(v) for v in value) + ")"
    return repr(value)


def text_of(sample: Any) -> str:
    given = [describe(a) for a in (sample.input, *sample.args)]
    return ", ".join(given + [f"{k}={describe(v)}" for k, v in sample.kwargs.items()])


def seeded() -> None:
    """The same samples, and the same draws by random ops, whatever ran before."""
    torch.manual_seed(0)
    fg.manual_seed(0)
    random.seed(0)
    np.random.seed(0)


def samples_of(entry: Any, dtype: torch.dtype) -> Iterator[Any]:
    """The entry's samples; small by PyTorch's choice."""
    seeded()
    differentiates = dtype.is_floating_point and entry.supports_autograd
    yield from entry.sample_inputs("cpu", dtype, requires_grad=differentiates)


def run_entry(entry: Any) -> Outcome:
    """All samples and error samples of one entry of the database."""
    variant = f" ({entry.variant_test_name})" if entry.variant_test_name else ""
    outcome = Outcome(entry.name, entry.name + variant)
    function = found(entry.name)
    assert function is not None
    function = ADAPTED.get(outcome.name, ADAPTED.get(entry.name, lambda f: f))(function)

    def attempt(text: str, run: Callable[[], None]) -> None:
        outcome.samples += 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                run()
        except Exception as error:
            what = " ".join(str(error).split()) if isinstance(error, AssertionError) else repr(error)
            outcome.failures.append(f"{text}: {what[:300]}")

    for dtype in DTYPES:
        if dtype in entry.dtypes:
            for sample in samples_of(entry, dtype):
                attempt(text_of(sample), lambda s=sample, d=dtype: run_sample(entry, function, s, d))
    if entry.error_inputs_func is not None:
        seeded()
        for error, arguments, kwargs in refused(entry):
            text = "error " + text_of(error.sample_input)
            attempt(text, lambda e=error, a=arguments, k=kwargs: run_error(function, e, a, k))
    return outcome


def entries(only: list[str] | None = None) -> list[Any]:
    """The entries of PyTorch's database that fusegrad has something for."""
    from torch.testing._internal.common_methods_invocations import op_db

    return [
        entry
        for entry in op_db
        if (not only or any(entry.name == o or (o[-1] == "." and entry.name.startswith(o)) for o in only))
        and any(d in entry.dtypes for d in DTYPES)
        and found(entry.name) is not None
    ]
