"""Functions of NumPy and SciPy in the middle of a run, of arrays in the memory of tensors: ops of the graph.

    rows, columns = linear_sum_assignment(cost.detach().numpy())
    kernel = fg.from_numpy(scipy.linalg.expm(h.detach().numpy()))

A replay calls the function between what is computed before it and after, as it calls NumPy for a sort; what
comes lies in the memory of tensors again, which `of_tensors.py` follows. It must give arrays of the types
that it gave, or the replay stops there, and the function runs. That is no harm: what such a function gives
follows from its arguments, and it changes nothing. Of the call that is recorded this is looked at: an
argument that was written, or a generator of random numbers that went on, opens the run. Replays lend memory
that cannot be written, or copies, which they compare.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fusegrad.eager.core.dtypes import float64, int64
from fusegrad.eager.core.memory_order import Order, arranged, as_operands
from fusegrad.eager.core.op import Op, Params, TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.pytree import Structure, flatten
from fusegrad.eager.core.shared import owner
from fusegrad.eager.core.state import no_grad, state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.create.creation import from_numpy
from fusegrad.tracer.observe import purity
from fusegrad.tracer.observe.arrays import known, of_tensors
from fusegrad.tracer.observe.arrays.into_tensors import brought
from fusegrad.tracer.observe.lookup import MISSING, flat_contents
from fusegrad.tracer.observe.numbers import Taken, standing_for
from fusegrad.tracer.observe.symbols import NUMBERS
from fusegrad.tracer.observe.values import is_plain, plain_key
from fusegrad.tracer.twin.sites import Site

if TYPE_CHECKING:
    from fusegrad.tracer.observe.observer import Observer

_PACKAGES = ("numpy.linalg", "numpy.fft", "scipy")
# Keywords by which a function writes what it is given, or draws.
_DANGEROUS = frozenset("out output rng random_state seed callback workers".split())


def is_foreign(function: Any) -> bool:
    """Whether a function is one of a module of SciPy's, or of NumPy's linear algebra."""
    if type(function) is np.ufunc:
        return any(function is other for other in vars(sys.modules.get("scipy.special", sys)).values())
    if type(function) not in _KINDS and type(function).__name__ not in _DISPATCHERS:
        return False
    module = getattr(function, "__module__", None) or ""
    return any(module == package or module.startswith(package + ".") for package in _PACKAGES)


_KINDS = (FunctionType, BuiltinFunctionType)
_DISPATCHERS = ("_ArrayFunctionDispatcher", "_Function")  # of NumPy, and of `scipy.fft`


# ---------------------------------------------------------------------------------- the op


class Call:
    """A function with its constant operands: arrays go in, those in what it gives come out."""

    def __init__(self, function: known.Applied, given: Sequence[np.ndarray], result: Any, site: Site) -> None:
        """given, result: of the call that was recorded, which is not made again for its op."""
        self._site = site
        self._function, self._copies, self._text = function, False, f"{function!r}"
        self._given = tuple([(a.shape, a.dtype, as_operands(a.shape, (a,))) for a in given])
        self.structure, leaves = taken_apart(result)
        made, self.places = placed(leaves)
        self.orders = [as_operands(x.shape, (x,)) for x in made]
        self._key = self.structure, kinds(leaves), self.places, kinds(made)
        self._first: tuple[np.ndarray, ...] | None = self._turned(made)
        self.types = tuple([TensorType(x.shape, x.dtype) for x in self._first])

    def __repr__(self) -> str:
        """What tells it from others: equations with the same are the same to a compiler."""
        return self._text

    def infer(self, given: Sequence[Any]) -> tuple[TensorType, ...]:
        """The types of what comes. Raises RuntimeError for operands of other types, of which nobody knows."""
        if [(tuple(x.shape), x.dtype) for x in given] != [(shape, dtype) for shape, dtype, _ in self._given]:
            raise RuntimeError(f"{self!r} was recorded for operands of other types")
        return self.types

    def arrays(self, given: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """What comes, in row-major order of `orders`. Raises what the function raises, and RuntimeError where
        that is of other types than it was.
        """
        if self._first is not None:
            first, self._first = self._first, None
            return first
        lent = [arranged(a, order) for a, (_, _, order) in zip(given, self._given, strict=True)]
        structure, leaves = taken_apart(self._called(lent))
        made, places = placed(leaves)
        if (structure, kinds(leaves), places, kinds(made)) != self._key:
            _varies.add((self._site.file, self._site.line, self._text))
            raise RuntimeError(f"{self!r} gives something else than it gave")
        return self._turned(made)

    def _called(self, given: Sequence[np.ndarray]) -> Any:
        if not self._copies:
            lent = [array.view() for array in given]
            for array in lent:
                array.flags.writeable = False
            try:
                return self._function(*lent)
            except ValueError as error:
                if "read-only" not in str(error):
                    raise
                self._copies = True  # it does not take such memory
        lent = [array.copy("K") for array in given]
        result = self._function(*lent)
        if not all(map(_same_bytes, lent, given)):
            raise RuntimeError(f"{self!r} writes its arguments")
        return result

    def _turned(self, made: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        turned = zip(made, self.orders, strict=True)
        return tuple([np.asarray(x if o is None else x.transpose(o), order="C") for x, o in turned])


class ForeignOp(Op):
    """Operands: the arrays that a call takes. Results: those that it gives. Params: `call`."""

    family = "opaque"
    refuses = "buifc"
    large = 1 << 62  # eager has no kernel for it

    def evaluate(self, args: Sequence[Any], params: Params) -> Any:
        return params["call"].arrays([a.array for a in args])

    def infer(self, types: Sequence[Any], params: Params) -> Any:
        return params["call"].infer(types)


FOREIGN = ForeignOp("foreign", "*operands", None)


def taken_apart(result: Any) -> tuple[Structure, list[Any]]:
    leaves: list[Any] = []
    return flatten(result, leaves, False), leaves


def _is_number(leaf: Any) -> bool:
    return isinstance(leaf, (np.number, np.bool_)) or type(leaf) in (bool, int, float)


class _Place(NamedTuple):
    """Where a leaf lies: the number of the memory, and how it is a view of that, if it is one."""

    number: int
    view: tuple[tuple[int, ...], tuple[int, ...], int] | None


def placed(leaves: Sequence[Any]) -> tuple[list[np.ndarray], tuple[_Place, ...]]:
    """The memory that arrays and numbers lie in, which becomes tensors, and where in it each lies."""
    made: dict[int, np.ndarray] = {}
    places = []
    for leaf in leaves:
        if type(leaf) is not np.ndarray and not _is_number(leaf):
            continue
        array = np.asarray(leaf)
        base = owner(array) if type(leaf) is np.ndarray else array
        step, view = array.itemsize, None
        if (
            base is not array
            and base.dtype == array.dtype
            and is_dense(base)
            and min((0, *array.strides)) == 0
        ):
            start = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
            view = array.shape, tuple([s // step for s in array.strides]), start // step
        else:
            base = array
        made.setdefault(id(base), base)
        places.append(_Place([*made].index(id(base)), view))
    return [*made.values()], tuple(places)


def is_dense(array: np.ndarray) -> bool:
    return arranged(array, as_operands(array.shape, (array,))) is array


def kinds(leaves: Sequence[Any]) -> list[Any]:
    """What must be the same again of what a call gives."""
    return [
        (type(x), np.shape(x), np.asarray(x).dtype)
        if type(x) is np.ndarray or _is_number(x)
        else plain_key(x)
        for x in leaves
    ]


def _same_bytes(one: np.ndarray, other: np.ndarray) -> bool:
    return one.tobytes() == other.tobytes()


# Calls, by the lines where they stand, that have given arrays of several sizes: each would be a path.
_varies: set[tuple[str, int, str]] = set()


# ---------------------------------------------------------------------------------- recording


def call(
    observer: Observer, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any], site: Site
) -> Any:
    """What a function gives that gets arrays in the memory of tensors; MISSING, with nothing done, where it
    gets others. Raises what the function raises.
    """
    recorder: Any = state.interpreter
    named = [*kwargs.values()]
    if not any_of_tensors(observer, (*args, *named)) or getattr(recorder, "hosts", None) is None:
        return MISSING
    if any(name in _DANGEROUS or name.startswith("overwrite") for name in kwargs):
        return MISSING
    if type(function) is np.ufunc and len(args) > function.nin:  # `out`
        return MISSING
    if not all(is_fit(observer, value) for value in (*args, *named)):
        return MISSING
    operands = Operands(observer, site)
    template = operands.template(tuple(args)), {name: operands.template(x) for name, x in kwargs.items()}
    applied = known.Applied(function, *template, (*operands.keys, *kwargs))
    for tensor in operands.tensors:
        recorder.reach(tensor)
    given = [tensor.array for tensor in operands.tensors]
    before, random_before = [a.tobytes() for a in given], _random_state()
    try:
        result = function(*args, **kwargs)
    except Exception:
        observer.open("gets an error by a NumPy array", site)
        raise
    words = f"calls `{applied.__name__}` of a NumPy array"
    if (site.file, site.line, repr(applied)) in _varies:
        observer.open(f"{words}, which gives arrays of other sizes from call to call", site)
        return result
    if [a.tobytes() for a in given] != before or _random_state() != random_before:
        observer.open(f"{words}, which changes something", site)
        return result
    if (view := _view_of(observer, operands.tensors, result, words, site)) is not MISSING:
        return view
    leaves = taken_apart(result)[1]
    made, plain = placed(leaves)[0], [x for x in leaves if type(x) is not np.ndarray]
    apart = all(not np.may_share_memory(a, b) for i, a in enumerate(made) for b in (*given, *made[:i]))
    fits = all(known.is_numbers(x) and is_dense(x) for x in made) and all(map(is_plain, plain))
    if not (made and apart and fits):
        observer.open(f"{words}, which gives what is not followed", site)
        return result
    made_by = Call(applied, given, result, site)
    return _followed(observer, made_by, leaves, operands.tensors, words, site)


def any_of_tensors(observer: Observer, values: Sequence[Any]) -> bool:
    """Whether an array in the memory of a tensor is among values, or in lists and tuples of them."""
    return observer.numbers.any_followed and any(
        of_tensors.owner_of(observer, value) is not None
        or _is_out_of_tensor(observer, value)
        or (type(value) in (list, tuple) and any_of_tensors(observer, value))
        for value in values
    )


def _is_out_of_tensor(observer: Observer, value: Any) -> bool:
    """Whether a number of Python's is followed that comes out of a tensor."""
    taken = observer.numbers.of(value) if type(value) in NUMBERS else None
    return taken is not None and taken.value is not None


def is_fit(observer: Observer, value: Any) -> bool:
    """Whether a replay can give the same operand, or that of now."""
    if type(value) in (list, tuple):
        is_known = type(value) is tuple or observer.is_known(value)
        return is_known and all(is_fit(observer, item) for item in flat_contents(value))
    if of_tensors.owner_of(observer, value) is not None:
        return type(value) is np.ndarray or isinstance(value, np.number)
    if type(value) is np.ndarray:
        return value in observer.arrays or known.symbol_of(observer, value) is not None
    if isinstance(value, type):
        return purity.is_static(value)
    return is_plain(value) and (_is_out_of_tensor(observer, value) or not observer.numbers.has(value))


class Operands:
    """The operands of a call, apart: tensors, and keys that tell the others from others."""

    def __init__(self, observer: Observer, site: Site) -> None:
        self._observer, self._site = observer, site
        self.tensors: list[Tensor] = []
        self.keys: list[Any] = []

    def template(self, value: Any) -> Any:
        """A value with the arrays in it that vary left out."""
        tensor = self._tensor_of(value)
        if tensor is not None:
            self.tensors.append(tensor)
            varies = known.varies_as(type(value))
            self.keys.append(varies)
            return varies
        if type(value) in (list, tuple):
            self._observer.read_contents(value, self._site)
            self.keys.append((type(value), len(value)))
            return type(value)([self.template(item) for item in value])
        if type(value) is np.ndarray:
            value = value.copy()  # what the run does with it later is nothing to replays
        key = plain_key(value)
        self.keys.append(id(value) if key is MISSING else key)
        return value

    def varies(self, value: Any) -> bool:
        """Whether a number of Python's is another one at each call."""
        return _is_out_of_tensor(self._observer, value)

    def _tensor_of(self, value: Any) -> Tensor | None:
        observer = self._observer
        owner = of_tensors.owner_of(observer, value)
        if self.varies(value):
            with no_grad():
                one = ops.ones((), dtype=float64 if type(value) is float else int64)
                return ops.mul(one, standing_for(value, observer.numbers))
        if owner is not None or type(value) is not np.ndarray or known.symbol_of(observer, value) is None:
            return owner
        found: Tensor = brought(observer, from_numpy, (value,), {}, self._site, lambda: from_numpy(value))
        return found


def _random_state() -> Any:
    of_numpy: Any = np.random.get_state(legacy=False)
    state = of_numpy["state"]
    return random.getstate(), state["key"].tobytes(), state["pos"], of_numpy["has_gauss"], of_numpy["gauss"]


def _view_of(observer: Observer, tensors: Sequence[Tensor], result: Any, words: str, site: Site) -> Any:
    """The result, followed, if it is an array in the memory of an operand; else MISSING."""
    shared = [t for t in tensors if type(result) is np.ndarray and np.may_share_memory(t.array, result)]
    if not shared:
        return MISSING
    (owner, *others), step = shared, result.itemsize
    start = result.__array_interface__["data"][0] - owner.array.__array_interface__["data"][0]
    odd = any(n % step for n in (start, *result.strides)) or min((0, *result.strides)) < 0
    if others or odd or result.dtype != owner.dtype.numpy:
        observer.open(f"{words}, which gives its memory", site)
        return result
    with no_grad():
        strides = [s // step for s in result.strides]
        view = ops.as_strided(owner, [*result.shape], strides, owner.storage_offset() + start // step)
    return observer.numbers.follow(Taken(result, _opening(observer, words, site), tensor=view))


def _followed(
    observer: Observer, call: Call, leaves: Sequence[Any], operands: Sequence[Tensor], words: str, site: Site
) -> Any:
    """The result of a call, with these leaves, recorded as an op."""
    recorder: Any = state.interpreter
    with no_grad():
        made = recorder.later.at_once(lambda: bind(FOREIGN, tuple(operands), {"call": call}))
    return followed(observer, call, made, leaves, words, site)


def followed(
    observer: Observer, call: Call, made: Sequence[Tensor], leaves: Sequence[Any], words: str, site: Site
) -> Any:
    """The result of a call with these leaves, of which the arrays are what was `made`."""
    with no_grad():
        whole = [_turned_back(t, order) for t, order in zip(made, call.orders, strict=True)]
        rest = iter([_part_of(whole[place.number], place.view) for place in call.places])
    opens = _opening(observer, words, site)
    given = [
        _leaf(observer, leaf, next(rest), opens) if type(leaf) is np.ndarray or _is_number(leaf) else leaf
        for leaf in leaves
    ]
    return observer.adopt(call.structure.build(iter(given)))


def _turned_back(tensor: Tensor, order: Order) -> Tensor:
    return tensor if order is None else ops.permute(tensor, np.argsort(order).tolist())


def _part_of(tensor: Tensor, view: Any) -> Tensor:
    return tensor if view is None else ops.as_strided(tensor, *view)


def _leaf(observer: Observer, leaf: Any, tensor: Tensor, opens: Callable[[], Any]) -> Any:
    if type(leaf) in (bool, int, float):
        return observer.numbers.take(tensor.item)
    if isinstance(leaf, np.bool_):
        return np.bool_(bool(tensor))
    return observer.numbers.follow(Taken(leaf, opens, tensor=tensor))


def _opening(observer: Observer, words: str, site: Site) -> Callable[[], None]:
    def opens() -> None:
        observer.open(f"{words}, and uses what that gives in a way that is not followed", site)

    return opens
