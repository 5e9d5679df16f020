"""In-place forms, all made from the out-of-place ops by one mechanism.

`x.add_(y)` computes `x + y`, so that autograd gets its node and the dtype rules are the op's;
writes the result into x's memory; counts the write; and moves x's place on the graph to the new
node, or the place of what x is a view of (see `eager/autograd/views.py`). What backward keeps of x before
the write is kept as a copy. Where nothing goes on the graph, NumPy computes in x's memory what it can.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fusegrad.eager.autograd import views
from fusegrad.eager.autograd.node import place, reach, share
from fusegrad.eager.core import large
from fusegrad.eager.core.dtypes import CATEGORY
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import WEAK, Pointwise, lies_apart, same_number
from fusegrad.eager.core.names import attach, publish, renamed
from fusegrad.eager.core.op import Op, wrap
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.places.meta import NO_DATA
from fusegrad.eager.core.stand_in import give_values, has_values, plain, putting_off, stands_for_batch
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.arguments import read
from fusegrad.eager.ops.by_name import in_our_names, overloaded
from fusegrad.eager.ops.forms import given, refusal


class OneOp(NamedTuple):
    """What a function does, of which there is an in-place form: an op with its operands, and no more.

    scaled: gives the second operand, of those of the function and its `alpha`.
    """

    op: Pointwise
    scaled: Callable[[Any, Any, Any], Any] | None = None


ONE_OP: dict[Any, OneOp] = {}
# By the op: what computes it in the memory of its first operand, where that is no ufunc.
IN_ITS_MEMORY: dict[Op, Callable[..., Any]] = {}
_SCALE = {"alpha"}
# Up to so many elements: larger arrays have kernels, and all cores. So do smaller ones, but for what is so
# light that memory is all it takes.
FEW, LIGHT = 1 << 20, frozenset({"add", "sub", "mul", "div", "neg", "abs", "relu"})


def begin_write(target: Tensor, name: str, others: Sequence[Any] = (), may_record: bool = True) -> bool:
    """Refuse a write that autograd could not follow; tell a recorder of one that it can. Whether it goes on
    the graph.

    others: what else the op takes. may_record: False where it is known that it is not recorded. Raises
    RuntimeError for a leaf that requires grad or a view of one (outside no_grad), for views whose origin
    stands against it, and for memory that may not be written.
    """
    if putting_off:
        give_values((target, *others))
    recorded = may_record and state.grad_enabled and recording(target, others)
    if state.interpreter is not None:
        state.interpreter.before_write(target, may_wait=not recorded)
    if recorded:
        views.check_write(target, name)
        views.begin_at_base(target)
    array = target.array
    if not array.flags.writeable and not _opened(array, views.base_of(target).array):
        raise failure(
            RuntimeError,
            f"{name}: unsupported operation: more than one element of the written-to tensor refers to "
            "a single memory location (or its memory is read-only). Please clone() the tensor first",
        )
    if target.is_inference():
        target.version.count_write()  # type: ignore[attr-defined]
    views.tell_readers(target)
    return recorded


def _opened(array: Any, base: Any) -> bool:
    """Let a part of an expanded tensor be written that has each element once, where `base` may be written."""
    apart = type(array) is np.ndarray and lies_apart(array.shape, array.strides, array.itemsize)
    if not apart or (array.size and (array is base or not base.flags.writeable)):
        return False
    try:
        array.flags.writeable = True
    except ValueError:  # NumPy does not know whose memory it is
        return False
    return True


def recording(target: Tensor, others: Sequence[Any]) -> bool:
    """Whether a write into `target` of something that comes from `others` goes on the graph in grad mode."""
    if target.needs_grad or (target.alias is not None and views.base_of(target).needs_grad):
        return True
    return bool(others) and any(isinstance(t, Tensor) and t.needs_grad for t in others)


def commit(target: Tensor, result: Tensor, name: str, recorded: bool = True) -> Tensor:
    """Write `result` into the memory of `target` and give `target` its place on the graph.

    recorded: False where `begin_write` has found that it gets none. Raises RuntimeError when the shape
    differs, or the dtype is of a higher category (int += float).
    """
    array, new = target.array, result.array
    if new.shape != array.shape:
        raise failure(
            RuntimeError,
            f"{name}: output with shape {list(array.shape)} doesn't match the broadcast shape "
            f"{list(new.shape)}",
        )
    if new.dtype != array.dtype:
        if CATEGORY[new.dtype.kind] > CATEGORY[array.dtype.kind]:
            raise failure(
                RuntimeError,
                f"{name}: result type {result.dtype.scalar} can't be cast to the desired output type "
                f"{target.dtype.scalar}",
            )
        result = ops.cast(result, array.dtype)
    store(target, ..., result)
    views.wrote(target)
    on_graph = (recorded or result.needs_grad) and state.grad_enabled and recording(target, (result,))
    if on_graph:
        views.follow(target, result, name)
    if state.interpreter is not None:
        overwrites = on_graph and views.overwrites(result, name)
        state.interpreter.wrote(target, result, None, on_graph, overwrites)
    return target


def store(target: Tensor, index: Any, value: Tensor) -> None:
    """Put the values of `value` into the memory of `target`, now or when an interpreter does."""
    interpreter = state.interpreter
    if target.is_meta:
        return  # it has no values
    if interpreter is None or not interpreter.writes_later(target, index, value):
        reach(value)
        if value.is_meta:
            raise failure(NotImplementedError, NO_DATA)
        if index is ... and type(target.array) is np.ndarray and type(value.array) is np.ndarray:
            large.overwrite(target.array, value.array)
        else:
            target.array[index] = value.array


def before(target: Tensor, others: Sequence[Any] = (), recorded: bool = True) -> Tensor:
    """`target` as it was before a write: its place on the graph, with values that the write leaves alone.

    Only where an op with `others` goes on the graph can anything keep it, so only then it is copied.
    recorded: False where `begin_write` has found that it does not.
    """
    if recorded:
        needing = [t for t in (target, *others) if isinstance(t, Tensor) and t.needs_grad]
        recorded = state.grad_enabled and bool(needing)
    batched = state.grad_enabled and stands_for_batch(target.array)
    if batched or (recorded and not has_values(target.array)):
        old = ops.clone(target)  # when it is computed
    else:
        old = wrap(np.array(target.array) if recorded else target.array)
        if recorded and state.interpreter is not None:
            state.interpreter.copied(old, target)
    old.needs_grad, old.grad_fn, old.output_index = target.needs_grad, target.grad_fn, target.output_index
    return old


def check_overlap(written: np.ndarray, target: Tensor, others: Sequence[Any], itself: bool = True) -> None:
    """Refuse to read memory of `target` elsewhere than at the place that is written, as PyTorch does.

    itself: reading just what is written is allowed.
    """
    version = target.version
    for other in others:
        if not isinstance(other, Tensor) or other.version is not version:
            continue
        read = other.array
        if (itself and read is written) or not (_dense(read) and _dense(written)) or not read.size:
            continue
        starts = [plain(a).__array_interface__["data"][0] for a in (read, written)]
        same = starts[0] == starts[1] and read.nbytes == written.nbytes
        if itself and same and _steps(read) == _steps(written):
            continue
        if same or (starts[0] < starts[1] + written.nbytes and starts[1] < starts[0] + read.nbytes):
            raise failure(
                RuntimeError,
                "unsupported operation: some elements of the input tensor and the written-to tensor refer to "
                "a single memory location. Please clone() the tensor before performing the operation.",
            )


def _steps(array: np.ndarray) -> list[tuple[int, int]]:
    """Sizes and strides of the dimensions along which an array moves."""
    return [(n, s) for n, s in zip(array.shape, array.strides, strict=True) if n > 1]


def _dense(array: np.ndarray) -> bool:
    """Whether its elements fill a stretch of memory, each place once."""
    if array.flags.c_contiguous or array.flags.f_contiguous:
        return True
    order = sorted(range(array.ndim), key=lambda d: -array.strides[d])
    return bool(array.transpose(order).flags.c_contiguous)


def apart(value: Any, target: Tensor) -> Any:
    """An argument that shares memory with `target`, as a tensor of its own.

    The node that a write makes may keep it, and `target` will hold that node: kept as it is, it
    would close a circle. Backward will find that it was written.
    """
    if isinstance(value, Tensor) and value.version is target.version and value.grad_fn is not None:
        return place(share(value), value.grad_fn, value.output_index)
    return value


def _computed_in_its_memory(
    one: OneOp, target: Tensor, args: Sequence[Any], options: Mapping[str, Any]
) -> bool:
    """Whether NumPy has done the op in the memory of its first operand: of floats, where its results are
    those that `evaluate` gives.
    """
    if len(args) != len(one.op.arguments) - 1 or (options and (one.scaled is None or {*options} != _SCALE)):
        return False
    array, dtype, op = target.array, target.array.dtype, one.op
    ufunc: Any = IN_ITS_MEMORY.get(op) or op.numpy
    if type(array) is not np.ndarray or dtype.char not in "fd" or "f" not in op.kinds or array.size > FEW:
        return False
    if (array.size >= op.large and op.name not in LIGHT) or not (op.keeps_order or op in IN_ITS_MEMORY):
        return False
    if not args:
        ufunc(array, out=array)
        return True
    (other,) = args
    if one.scaled is not None and options:
        other = one.scaled(target, other, options["alpha"])
    if isinstance(other, Tensor):
        other = other.array
        if other.dtype is not dtype or type(other) is not np.ndarray:
            return False
        if other.shape != array.shape and not _fits(other.shape, array.shape):
            return False
    elif type(other) not in WEAK:
        return False
    elif other and op.one_dtype:
        other = same_number(other, dtype)
    ufunc(array, other, out=array)
    return True


def _fits(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether a shape broadcasts to the other one."""
    missing = len(wanted) - len(shape)
    return missing >= 0 and all(n in (1, m) for n, m in zip(shape, wanted[missing:], strict=True))


# Those that fill with one value; and those that write at places that a tensor names, so that what they read
# of the tensor itself may be written by then.
_FILLING = frozenset(("fill_", "index_fill_", "masked_fill_"))
_BY_PLACES = frozenset(
    """index_add_ index_copy_ index_fill_ index_put_ index_reduce_ put_ scatter_ scatter_add_
    scatter_reduce_""".split()
)


def inplace(function: Callable[..., Tensor], name: str) -> Callable[..., Tensor]:
    """The in-place form of `function`, whose first argument is written."""

    def method(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if len(args) > 1 and not isinstance(args[0], Tensor):
            args, factors = overloaded(function, args, name, own=1)
            kwargs |= factors
        others: tuple[Any, ...] = args
        if kwargs:
            kwargs = in_our_names(function, (input, *args), kwargs)
            others = (*args, *kwargs.values())
        recorded = begin_write(input, name, others)
        if name in _FILLING:  # a tensor of a number is read first
            others = tuple([x for x in others if not (isinstance(x, Tensor) and not x.array.ndim)])
        elif others and any(isinstance(x, tuple) for x in others):
            others = tuple([y for x in others for y in (x if isinstance(x, tuple) else (x,))])
        if others:
            check_overlap(input.array, input, others, itself=name not in _BY_PLACES)
        one, keeps = ONE_OP.get(function), True
        try:
            if one is not None and state.interpreter is None and has_values(input.array):
                if not recorded and _computed_in_its_memory(one, input, args, kwargs):
                    views.wrote(input)
                    return input
                keeps = one.op.saves
            old = before(input, others, recorded and keeps)
            if old.array is not input.array:  # the op goes on the graph
                args = tuple([apart(a, input) for a in args])
                kwargs = {k: apart(a, input) for k, a in kwargs.items()}
            row, kwargs = read(function, (old, *args), kwargs)
            made = function(*row, **kwargs)
        except Exception as error:
            refused = refusal(error, function, given(input, *args, **kwargs), name, own=1)
            if refused is error:
                raise
            raise refused from None
        return commit(input, made, name, recorded)

    method.__doc__ = f"`{function.__name__}` written into the tensor itself. Source: `torch.Tensor.{name}`."
    return renamed(method, name)


# The in-place forms that PyTorch gives as functions, too.
_FUNCTIONS = frozenset(
    f"{name}_"
    for name in """abs acos acosh addmv arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh
    ceil clamp clamp_max clamp_min clip conj_physical cos cosh deg2rad erf erfc exp exp2 expm1 fill fix floor
    frac gcd i0 index_put lcm ldexp log log10 log1p log2 logit nan_to_num neg negative rad2deg reciprocal
    round rsqrt sigmoid sin sinc sinh sqrt square tan tanh trunc xlogy""".split()
)


def attach_in_place(function: Callable[..., Tensor], *names: str) -> None:
    """Make the in-place form of `function` a method, `NAME_` for each of `names`; PyTorch's functions too."""
    forms = [f"{name}_" for name in names]
    attach(inplace(function, forms[0]), *forms)
    functions = [form for form in forms if form in _FUNCTIONS]
    if functions:
        publish(inplace(function, forms[0]), *functions)


def drawn(self: Tensor, values: Tensor, name: str) -> Tensor:
    """Write random `values` over the tensor (nothing of the old values is left)."""
    begin_write(self, name)
    return commit(self, ops.cast(values, self.dtype), name)
