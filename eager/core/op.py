"""Ops: what a declaration holds, and `bind`, the one way to run one.

An op is declared once (see `eager/ops/`). Its *family*, a subclass of `Op`, owns what all its
members share: how arrays are prepared, the shape and dtype rule, how a gradient is fitted to
its operand. The declaration owns the rest: how NumPy evaluates it, its dtype rule, its gradient
rules, its scalar expression. An op that lacks one of these is refused when it is declared.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from fusegrad.eager.core import dtypes, large
from fusegrad.eager.core.errors import NoMemoryError, located
from fusegrad.eager.core.large import LARGE
from fusegrad.eager.core.memory_order import Order, Orders, arranged, rows
from fusegrad.eager.core.places.meta import MetaArray
from fusegrad.eager.core.shared import Untracked, owner
from fusegrad.eager.core.sizes import unequal
from fusegrad.eager.core.stand_in import StandIn, Waits, give_values, putting_off
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor, mark_inference

Params = dict[str, Any]
NO_PARAMS: Params = {}
REGISTRY: dict[str, Op] = {}


class TensorType(NamedTuple):
    """What is known of a tensor without its values: shape and (NumPy) dtype."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)


_OUTPUTS = ("out", "out1", "out2")


class Rule:
    """A gradient rule for one argument of an op.

    The function's parameter names say what it needs, and so what backward keeps: `g` is the
    gradient of the output (a list, for an op with several); an argument's name, that input (kept
    alive); `out`, the output, `out1` and `out2`, those after it (kept alive); `NAME_type`, only that
    input's `TensorType`; anything else, a parameter. The one rule of a variadic op may also ask
    for `index`, which input it is about, all `types`, and all `inputs` and `outputs` (kept alive).
    """

    __slots__ = ("function", "is_of_inputs", "needs_output", "outputs", "saves", "saves_all", "sources")

    def __init__(self, arguments: Sequence[str], variadic: bool, function: Callable[..., Any]) -> None:
        self.function = function
        self.sources: list[tuple[str, Any]] = []
        code = function.__code__
        for name in code.co_varnames[1 : code.co_argcount]:
            if name in arguments:
                self.sources.append(("input", arguments.index(name)))
            elif name in _OUTPUTS:
                self.sources.append(("output", _OUTPUTS.index(name)))
            elif name.endswith("_type") and name[:-5] in arguments:
                self.sources.append(("type", arguments.index(name[:-5])))
            elif variadic and name in ("index", "types", "inputs", "outputs"):
                self.sources.append((name, None))
            else:
                self.sources.append(("param", name))
        self.saves = tuple(where for kind, where in self.sources if kind == "input")
        # Whether inputs are all that it asks for, as most rules do.
        self.is_of_inputs = len(self.saves) == len(self.sources)
        self.saves_all = ("inputs", None) in self.sources
        self.needs_output = any(kind in ("output", "outputs") for kind, _ in self.sources)
        self.outputs = tuple(where for kind, where in self.sources if kind == "output")

    def saved(self, number: int) -> Sequence[int]:
        """Which of so many inputs backward keeps."""
        return range(number) if self.saves_all else self.saves

    def saved_outputs(self, number: int) -> Sequence[int]:
        """Which of so many outputs backward keeps."""
        return range(number) if ("outputs", None) in self.sources else self.outputs


def _keeps_nothing(rules: Any) -> bool:
    return all(r is not None and not r.saves and not r.needs_output for r in rules)


class Op:
    """One operation. Families subclass this; `evaluate`, `infer` and `fit` are theirs.

    arguments: the inputs' names, or `*NAME` for an op that takes any number.
    vjp: a gradient rule per argument name (None for one without gradient), or None for an op
    that is not differentiable; it cannot be left out.
    grad_name: PyTorch's name of the backward node, printed as `grad_fn=<NAME>`.
    order: the rule (of each result, if they differ) by which PyTorch lays results out, see `memory_order.py`;
    None for views, and where `evaluate` sees to it.
    refuses: the kinds of result dtype (NumPy's letters) for which it may refuse its input because of values;
    it must be computed then, even if nobody looks at the result.
    positions: where this depends on nothing but whole numbers among its operands, which count along a
    dimension: `positions(operands, params)` gives (number of the operand, least, end) of each, of which all
    must be at least the one and less than the other; None where it depends on more. `operands`: types, and
    Python numbers.
    """

    family = "op"
    refuses = ""
    positions: Callable[[Sequence[Any], Params], Sequence[tuple[int, int, int]] | None] | None = None
    order: Orders | None = None
    turns = 2  # from so many dimensions on a result in row-major order may have to lie in another
    view = False  # whether the result shares memory with the first input
    part = False  # whether that is some or all of its elements, each once
    large = LARGE  # from so many elements of the first operand, or of a gradient, on kernels are asked
    # Whether expression, or composition, and gradients ask nothing about numbers among its parameters but
    # whether one is 1, and do the same then; or the op that has them as operands behind its own.
    numbers_vary: bool | Op = False
    special: tuple[float, ...] = ()  # the numbers for which that one does something else
    by_values = False  # whether NumPy's function refuses operands for their values, where a kernel would not
    fills = True  # whether gradient rules get zeros for outputs whose gradient nobody gave, or None
    # For each output the inputs that its gradient goes to, of an op where that is not all of them.
    leads: Callable[[Params], Sequence[Collection[int]]] | None = None
    # Does natively all that `evaluate` does, once that is worth it: gives the tensor, or what the op gave, to
    # be finished, or None where nothing was done.
    run: Callable[[tuple[Any, ...], Params, bool], Any] | None = None
    # Does natively what `evaluate` does with an array that the op gave, once that is worth it; gives None
    # where it cannot.
    finish: Callable[[Any, tuple[Any, ...], Params, bool], Any] | None = None
    # Of which argument a tensor, not a number, makes PyTorch's node that of its second overload.
    second_if_tensor: str = ""
    # Gives the results by the ops that it stands for, each on the graph, of an op that stands for others.
    written_out: Callable[[Sequence[Any], Params], tuple[Any, ...]] | None = None

    def __init__(
        self,
        name: str,
        arguments: str,
        vjp: dict[str, Callable[..., Any] | None] | None,
        grad_name: str | Callable[[Params], str] | None = None,
    ) -> None:
        self.name = name
        self.variadic = arguments.startswith("*")
        self.arguments = tuple(arguments.lstrip("*").split())
        if name in REGISTRY:
            raise ValueError(f"op {name!r} is declared twice")
        if vjp is not None and set(vjp) != set(self.arguments):
            raise ValueError(f"op {name!r}: gradient rules for {sorted(vjp)}, arguments {self.arguments}")
        self.rules: tuple[Rule | None, ...] | None = None
        if vjp is not None:
            rules = (vjp[a] for a in self.arguments)
            self.rules = tuple(r and Rule(self.arguments, self.variadic, r) for r in rules)
        # Whether any rule asks for an input: if none does, backward keeps no list of them.
        self.saves = any(r is not None and (r.saves or r.saves_all) for r in self.rules or ())
        # Whether there is one input, and nothing is kept for its gradient: so it is for most views.
        self.keeps_nothing = len(self.rules or ()) == 1 and not self.variadic and _keeps_nothing(self.rules)
        # `title` has a capital behind each digit, too, as PyTorch's names have.
        self._grad_name = grad_name or name.title().replace("_", "") + "Backward0"
        if grad_name is None and vjp and all(r is None or hasattr(r, "is_unknown") for r in vjp.values()):
            self._grad_name = "NotImplemented"
        REGISTRY[name] = self
        if dtypes.HalfType.is_used:
            _take_halves(self)

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (REGISTRY.__getitem__, (self.name,))

    def grad_name(self, params: Params) -> str:
        """The name of the backward node, as PyTorch prints it."""
        return self._grad_name if isinstance(self._grad_name, str) else self._grad_name(params)

    def node_name(self, params: Params, types: Sequence[Any]) -> str:
        """`grad_name`, where PyTorch names nodes also by the inputs' ranks, or by which are tensors."""
        name = self.grad_name(params)
        second = self.second_if_tensor and types[self.arguments.index(self.second_if_tensor)] is not None
        return f"{name[:-1]}1" if second else name

    def rule(self, index: int) -> Rule | None:
        """The gradient rule of input `index` (all inputs of a variadic op share one)."""
        return None if self.rules is None else self.rules[0 if self.variadic else index]

    def evaluate(self, args: Sequence[Any], params: Params) -> Any:
        """The result array (or tuple of arrays) for tensors and Python numbers `args`."""
        raise NotImplementedError

    def orders(self, shapes: Sequence[tuple[int, ...]], args: Sequence[Any], params: Params) -> list[Order]:
        """In which order the elements of each result lie in memory, from their shapes and the arguments."""
        rules = self.order if isinstance(self.order, tuple) else (self.order,) * len(shapes)
        arrays = [a.array for a in args if isinstance(a, Tensor)]
        pairs = zip(rules, shapes, strict=True)
        return [None if rule is None else rule(shape, arrays, params) for rule, shape in pairs]

    def arranged(self, value: Any, args: Sequence[Any], params: Params) -> Any:
        """What `evaluate` gave, in that order."""
        if type(value) is not tuple and value.ndim < self.turns and value.flags.c_contiguous:
            return value
        made = value if type(value) is tuple else (value,)
        found = tuple(map(arranged, made, self.orders([np.shape(m) for m in made], args, params)))
        return found if type(value) is tuple else found[0]

    def infer(self, types: Sequence[Any], params: Params) -> Any:
        """The result's `TensorType` (or a tuple), from the inputs' types (or Python numbers).

        Unless a family knows better, NumPy evaluates on empty stand-ins, so the rule cannot
        differ from what `evaluate` does. Raises what `evaluate` would raise for these types.
        """
        raise NotImplementedError

    def fit(self, gradient: Tensor, shape: tuple[int, ...], dtype: np.dtype) -> Tensor:
        """`gradient` brought to an operand's shape and dtype."""
        return gradient

    def gradient(
        self,
        index: int,
        g: Any,
        inputs: Sequence[Any],
        outputs: Sequence[Tensor],
        types: Sequence[Any],
        params: Params,
    ) -> Tensor | None:
        """Run the gradient rule of input `index`: through public ops, so it can be traced and derived. None
        where none of the gradients goes there.
        """
        rule = self.rule(index)
        assert rule is not None
        values: list[Any] = []
        if rule.is_of_inputs:
            values = [inputs[where] for where in rule.saves]
        else:
            for kind, where in rule.sources:
                if kind == "input":
                    values.append(inputs[where])
                elif kind == "output":
                    values.append(outputs[where])
                elif kind == "type":
                    values.append(TensorType(*types[where]))
                elif kind == "param":
                    values.append(params[where])
                else:
                    named = {"index": index, "types": types, "inputs": inputs, "outputs": outputs}
                    values.append(named[kind])
        gradient: Tensor | None = rule.function(g, *values)
        if gradient is None:
            return None
        shape, dtype = types[index]
        array = gradient.array
        if array.shape != shape or array.dtype is not dtype:
            gradient = self.fit(gradient, shape, dtype)
        return gradient


_take_halves: Callable[[Op], None]


def take_halves_by(take: Callable[[Op], None]) -> None:
    """Have `take` prepare ops for half types: all when one is first used, and later ones."""
    global _take_halves
    _take_halves = take

    def take_all() -> None:
        for op in REGISTRY.values():
            take(op)

    dtypes.BEFORE_HALVES.append(take_all)


# What puts an op that ran on the autograd graph, and what notes whose view a tensor is. Autograd, which is
# built on ops, hands them over (`eager/autograd/views.py`).
record: Callable[[Op, tuple[Any, ...], Params, tuple[Tensor, ...]], None]
taken: Callable[[Tensor, Tensor, Op, Params, bool], None]


# What answers ops of tensors without values (`meta_ops.py`), in a row of one; None for other ops.
on_meta: Callable[[Op, tuple[Any, ...], Params], tuple[Any] | None]


def keep_graph(recorder: Any, noter: Any) -> None:
    """Have every op that runs on tensors that need gradients recorded by `recorder`, and views by `noter`."""
    global record, taken
    record, taken = recorder, noter


def answer_meta(answer: Any) -> None:
    """Have ops asked about by `answer` wherever there may be tensors without values."""
    global on_meta
    on_meta = answer


def bind(op: Op, args: tuple[Any, ...], params: Params = NO_PARAMS) -> Any:
    """Run `op` on tensors and Python numbers `args`: the one road for eager, recorder and compiler."""
    interpreter = state.interpreter
    if putting_off:
        if isinstance(interpreter, Waits):
            made = interpreter.waits_at_once(op, args, params)
            if made is not None:
                return made
        give_values(args)
        made = on_meta(op, args, params)
        if made is not None:
            return made[0]
    if interpreter is not None:
        return interpreter.bind(op, args, params)
    run = op.run
    if run is None:
        return evaluate(op, args, params)
    recording = state.grad_enabled
    try:
        made = run(args, params, recording)
    except EXPLAINED as error:
        raise _explained(op, args, params, error) from None
    if type(made) is not Tensor:
        value = made if made is None or op.order is None else op.arranged(made, args, params)
        return evaluate(op, args, params, value)
    if op.view and _is_untracked_view(made, op, args, params, recording):
        return made
    if not recording and state.inference:
        mark_inference((made,))
    return made


def evaluate(op: Op, args: tuple[Any, ...], params: Params, value: Any = None) -> Any:
    """Run `op` with NumPy now, and put it on the autograd graph where a gradient may be asked for.

    value: what it gives, if there is something already (stand-ins for arrays).
    """
    if value is None:
        try:
            operand = args[0] if args else None
            if not isinstance(operand, Tensor) and args:
                operand = args[-1]  # a number comes first
            # A view of something large, such as a row of a data set, is no work.
            is_large = isinstance(operand, Tensor) and operand.array.size >= op.large and not op.view
            value = large.evaluate(op, args, params) if is_large else op.evaluate(args, params)
            order = op.order
            if order is not None and (
                order is not rows or type(value) is tuple or not value.flags.c_contiguous
            ):
                value = op.arranged(value, args, params)
        except EXPLAINED as error:
            raise _explained(op, args, params, error) from None
    recording = state.grad_enabled
    finish = op.finish
    result = None if finish is None else finish(value, args, params, recording)
    if result is None:
        return _finished(op, value, args, params, recording)
    if op.view and _is_untracked_view(result, op, args, params, recording):
        return result
    if not recording and state.inference:
        mark_inference((result,))
    return result


# After each so many ops that Python has finished it is asked whether native code is worth having, which does
# small ones in half of the time (`compiler/native/running.py`); it is after so many where what compiles it
# has to be loaded.
OPS, WORTH_LOADING = 1 << 10, 1 << 16
_done = itertools.count()


class _Natively:
    """Who does ops natively. load: begins to compile that, beside the program, once."""

    load: Callable[[], object] | None = None

    def noted(self, ops: int) -> None:
        """So many ops were finished in Python."""
        is_loaded = "fusegrad.compiler.llvm.llvm_jit" in sys.modules
        if self.load is not None and ops and (ops >= WORTH_LOADING or is_loaded):
            load, self.load = self.load, None
            load()
            if ops >= WORTH_LOADING:
                large.answers.begin()  # kernels, which native code runs for small arrays, too


natively = _Natively()


def _finished(op: Op, value: Any, args: tuple[Any, ...], params: Params, recording: bool) -> Any:
    """The tensor, or tensors, of what an op gave, on the graph if that is to be."""
    number = next(_done)
    if not number % OPS:
        natively.noted(number)
    result: Any
    if type(value) is tuple:
        result = outputs = tuple([wrap(v) for v in value])
    else:
        result = wrap(value)
        outputs = (result,)
        if op.view and _is_untracked_view(result, op, args, params, recording):
            return result
    if recording:
        if op.rules is not None:
            for a in args:
                if isinstance(a, Tensor) and a.needs_grad:
                    record(op, args, params, outputs)
                    break
    elif state.inference:
        mark_inference(outputs)
    return result


def _is_untracked_view(view: Tensor, op: Op, args: tuple[Any, ...], params: Params, recording: bool) -> bool:
    """Note that what a view op gave shares memory, if it does. Whether it is a view of an inference tensor:
    then it is one, too, and on no graph.
    """
    source = args[0]
    if op.part or _shares(view.array, source.array):
        version = view.version = source.version
        if type(version) is Untracked:
            return True
        if op.rules is not None:
            taken(view, source, op, params, recording)
    return False


def _shares(view: np.ndarray, base: np.ndarray) -> bool:
    """Whether a view op gave the base's memory: a reshape of what is not contiguous may have copied, and
    `as_strided` may have gone where the base has no elements.
    """
    return base.flags.c_contiguous or np.may_share_memory(view, base) or owner(view) is owner(base)


# What NumPy and the ops' own rules raise for operands that do not fit.
EXPLAINED = (ValueError, TypeError, IndexError, RuntimeError, OverflowError, ZeroDivisionError, MemoryError)


def wrap_foreign(array: np.ndarray) -> Tensor:
    """A tensor of an array that another process made, perhaps the first here of its dtype."""
    assert array.dtype in dtypes.FROM_NUMPY
    return wrap(array)


def wrap(array: Any) -> Tensor:
    """A tensor around `array` (no copy); NumPy scalars become 0-d arrays."""
    tensor = _make(Tensor)  # `Tensor` itself is a constructor for users
    plain = type(array) is _ndarray or isinstance(array, WITHOUT_VALUES)
    tensor.array = array if plain else np.asarray(array)
    tensor.needs_grad = False
    tensor.gradient = None
    tensor.maker = None
    tensor.output_index = 0
    tensor.version = [0, 0]
    tensor.alias = None
    return tensor


_ndarray = np.ndarray
WITHOUT_VALUES = (StandIn, MetaArray)
_make = object.__new__


def describe(value: Any) -> str:
    """An operand for an error message: `float32[3, 4]` or the Python number."""
    if isinstance(value, Tensor):
        return f"{value.array.dtype.name}{list(value.array.shape)}"
    return repr(value)


class OpError(RuntimeError):
    """An op that could not be done; the message names the op, the operands and the user's line."""


# Types that PyTorch raises too; whatever else an op fails with becomes an OpError.
_KEPT = {kind: kind for kind in (IndexError, TypeError, NotImplementedError)} | {MemoryError: NoMemoryError}


def _explained(op: Op, args: tuple[Any, ...], params: Params, error: Exception) -> Exception:
    """`error` with the op, the operands and the user's line in its message."""
    if getattr(error, "fusegrad_located", False):
        return error
    if str(error).startswith(("operands could not be broadcast", "shape mismatch: objects cannot be")):
        error = type(error)(unequal([a.array.shape for a in args if isinstance(a, Tensor)]) or str(error))
    operands = ", ".join(describe(a) for a in args)
    given = "".join(f", {k}={v!r}" for k, v in params.items())
    kind = next((kept for k, kept in _KEPT.items() if isinstance(error, k)), OpError)
    explained = kind(located(f"{op.name}({operands}{given}): {error}"))
    explained.fusegrad_located = True  # type: ignore[union-attr]
    return explained


def explaining(op: Op, args: tuple[Any, ...], params: Params, function: Callable[..., Any]) -> Any:
    """What `function` gives in the place of `op`: what it raises is explained as `evaluate` explains it."""
    try:
        return function(*args, **params)
    except EXPLAINED as error:
        raise _explained(op, args, params, error) from None
