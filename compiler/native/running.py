"""The whole way of eager's small ops, from their operands to the tensor with its node, in one native call.

It asks the very functions of NumPy that `evaluate` would ask (`eager/core/families.py`), so that results have
the same bits, and leaves to Python whatever is not plain: operands of pointwise ops that have several dtypes,
or do not lie in rows, and large ones, which have kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from fusegrad.compiler.llvm.function_writer import Variable, Word
from fusegrad.compiler.native import recording
from fusegrad.compiler.native.core import Maker, Native
from fusegrad.compiler.native.recording import Finishing, finish_words, is_plain, nested, program, seen
from fusegrad.compiler.native.ways import (
    MOST_WORDS,
    TAKEN,
    WAYS,
    add_array,
    add_way,
    params_function,
    value_function,
)
from fusegrad.eager.core import large, op as ops_of_eager
from fusegrad.eager.core.families import Pointwise, Reduction, View, _OfNumPy, same_number
from fusegrad.eager.core.interpreter import counts as reference_counts
from fusegrad.eager.core.memory_order import AS_OPERANDS, rows
from fusegrad.eager.core.op import REGISTRY, Op, wrap
from fusegrad.eager.core.settings import setting as determinism
from fusegrad.eager.core.state import state

# The table, before the words of `finish_words`: what is called; how, see below; from how many elements on an
# operand is large; where results lie, see below, and from how many dimensions on that matters; of a pointwise
# op how many leading operands may be of any dtype, whether its result lies as the first one even if the next
# do not lie in rows, or 2 where it does not matter how any do, what makes a number what it is beside floats,
# or null, and whether numbers may stand beside floats, and whole ones beside int64; the ways of large ones,
# who says whether kernels are asked, with the names of what says so, and what stands for an array that is
# made; then the dtypes that it takes.
_HEAD = ("ptr", "i64", "i64", "i64", "i64", "i64", "i64", "ptr", "i64", "i64", *["ptr"] * 6)
_LARGE, _ANSWERS = 2, 11  # the places of the number of elements, and of the first who is asked
# A pointwise op's function of NumPy, with arrays of one dtype and numbers; another op's, with all arrays and
# numbers, and the params by name; or what evaluates an op, with its arguments and params.
_POINTWISE, _OF_ARRAYS, _OF_TENSORS = range(3)
# Results lie where they are made, in rows, in rows if operands do, or by another rule.
_MADE, _ROWS, _AS_OPERANDS, _OTHERWISE = range(4)
_WORDS = len(_HEAD) + len(TAKEN)
_MOST, _MOST_ARRAYS = 8, 16  # operands, and arrays of a kernel's
_FRAMES, _IN_ROWS = 1, 1  # how many frames above `bind` who asked stands; a flag of arrays


_NAMES = "enabled", "wanted"
NOTHING = np.empty(0)
# A method that is asked for is another object each time.
_METHODS: dict[Op, Callable[..., Any]] = {}


def is_run(op: Op) -> bool:
    """Whether the native function knows all that is done for an op."""
    return bool(op.arguments) and is_plain(op)


def _words(op: Op) -> list[int]:
    taken, rest, evaluate = TAKEN, [0] * 5, type(op).evaluate
    lies = _MADE if op.order is None else _ROWS if op.order is rows else _OTHERWISE
    lies = _AS_OPERANDS if op.order in AS_OPERANDS else lies
    function: Any
    if evaluate is Pointwise.evaluate and isinstance(op, Pointwise):
        function, how = op.numpy, _POINTWISE
        taken = [dtype for dtype in TAKEN if dtype.kind in op.kinds]
        number = id(same_number) if op.one_dtype else 0
        keeps = 2 if op.order is not None else int(op.keeps_order)
        rest = [op.data, keeps, number, int("f" in op.kinds), int(op.takes_int64)]
    elif evaluate in (_OfNumPy.evaluate, View.evaluate) and isinstance(op, _OfNumPy | View):
        function, how = op.numpy, _OF_ARRAYS
    elif evaluate is Reduction.evaluate and isinstance(op, Reduction):
        function, how = _METHODS.setdefault(op, op.reduced), _OF_ARRAYS
    else:
        function, how = _METHODS.setdefault(op, op.evaluate), _OF_TENSORS
    dtypes = [*map(id, taken), *[0] * (len(TAKEN) - len(taken))]
    ways = [WAYS.setdefault(op, {}), large.answers, determinism, *_NAMES, NOTHING]
    least = large.NEVER if op.view else op.large  # to look at something large is no work
    return [id(function), how, least, lies, op.turns, *rest, *map(id, ways), *dtypes]


def _table(op: Op) -> np.ndarray:
    return np.array(_words(op) + finish_words(op, _FRAMES), np.int64)


class _Running(Finishing):
    """The function that asks NumPy, and finishes what comes of it."""

    def __init__(self) -> None:
        super().__init__("fusegrad_run", 3, _WORDS)
        words = [self.f.table.load(type, place) for place, type in enumerate(_HEAD)]
        self.function, self.how, self.large, self.lies, self.turns = words[:5]
        self.data, self.keeps_order, self.as_number, self.floats, self.whole_numbers = words[5:10]
        self.ways, self.answers, self.determinism, self.enabled, self.wanted, self.nothing = words[10:]
        self.is_pointwise = self.how == _POINTWISE
        self.dtypes = self.f.table.at(len(_HEAD))

    def decline(self) -> None:
        """Nothing was done."""
        none = self.f.object("none")
        self.f.hold(none)
        self.f.return_(none)

    def _decline_unless(self, condition: Word) -> None:
        with self.f.if_(~condition):
            self.decline()

    def leave(self) -> None:
        self.f.return_(self.array)

    def compute(self) -> Word:
        f = self.f
        self._decline_unless(f.is_a(self.given_args, "tuple"))
        self.count = count = f.call("PyTuple_Size", self.given_args, gives="i64")
        self._decline_unless((count > 0) & (count <= _MOST))
        operands = f.stack("ptr", _MOST)
        common, number, in_rows = f.variable(f.null), f.variable(-1), f.variable(f.true)
        largest, value = f.variable(0), f.variable(f.null)
        with f.loop(count) as i:
            x = self.args.load("ptr", i)
            operands.store(x, i)
            is_tensor = f.variable(self.is_tensor(x))
            with f.if_(is_tensor.value):
                array = f.tensor_array(x)
                self._decline_unless(f.is_a(array, "ndarray"))
                operands.store(array, i)
                self._check_array(i, array, common, in_rows, largest)
            with f.if_(~is_tensor.value):
                number.set(i)
        self._decline_unless(~common.value.is_null)
        with f.if_(largest.value >= self.large):
            value.set(self._by_kernel(operands, largest.value))
        with f.if_(value.value.is_null):
            made = f.variable(f.null)  # of a number
            with f.if_(self.is_pointwise & (number.value >= 0)):
                self._put_number(operands, number.value, common.value, made)
            value.set(self.whole(self._called(operands, made.value)))
        array = value.value
        with f.if_((self.lies != _MADE) & f.is_a(array, "ndarray")):
            fits = (self.lies == _ROWS) | (f.array_ndim(array) < self.turns)
            fits = fits | (in_rows.value & (self.lies == _AS_OPERANDS))
            with f.if_(~(fits & ((f.array_flags(array) & _IN_ROWS) != 0))):
                f.return_(array)
        return array

    def _by_kernel(self, operands: Word, size: Word) -> Word:
        """What a kernel gives; null where NumPy is to be asked. It is left to Python where none is known."""
        f, value = self.f, self.f.variable(self.f.null)
        words, count = f.stack("i64", MOST_WORDS), f.variable(-1)
        with (
            f.if_(self._says(self.answers, self.enabled, "true")),
            f.if_(self._says(self.determinism, self.wanted, "false")),
        ):
            count.set(self._key(operands, words))
        self._decline_unless((count.value >= 0) | (size < large.SOME))
        with f.if_(count.value >= 0):
            key = f.call("PyBytes_FromStringAndSize", words, count.value * 8, gives="ptr")
            self._must(key)
            found = f.call("PyDict_GetItemWithError", self.ways, key, gives="ptr")
            f.let_go(key)
            self._decline_unless(~found.is_null)
            way = f.tuple_items(found).load("ptr")
            is_known = f.variable(way != f.object("none")).value
            # Python runs what native code cannot: programs of several tasks, and of other memory.
            self._decline_unless(is_known | (size < large.SOME))
            with f.if_(is_known):
                value.set(self._run(way, operands))
        return value.value

    def _key(self, operands: Word, words: Word) -> Word:
        """How many words the key has, which are put down; -1 where there is none."""
        f, at = self.f, self.f.variable(0)
        with f.loop(self.count) as i:
            is_tensor = f.variable(self.is_tensor(self.args.load("ptr", i)))
            with f.if_(is_tensor.value):
                add_array(f, operands.load("ptr", i), words, at)
            with f.if_(~is_tensor.value & (at.value >= 0)):
                at.set(f.call("fusegrad_value", operands.load("ptr", i), words, at.value, gives="i64"))
        with f.if_(at.value >= 0):
            at.set(f.call("fusegrad_params", self.params, words, at.value, gives="i64"))
        return at.value

    def _says(self, owner: Word, name: Word, wanted: str) -> Word:
        """Whether an attribute is this."""
        found = self.f.call("PyObject_GetAttr", owner, name, gives="ptr")
        self._must(found)
        self.f.let_go(found)
        return found == self.f.object(wanted)

    def _run(self, way: Word, operands: Word) -> Word:
        """The result of a program on the operands that are arrays."""
        f, items = self.f, self.f.tuple_items(way)
        place, count = (f.call("PyLong_AsLongLong", items.load("ptr", i), gives="i64") for i in (1, 2))
        self._decline_unless((count <= _MOST_ARRAYS) & (count >= self.count))
        slots, next_ = f.stack("ptr", _MOST_ARRAYS), f.variable(0)
        with f.loop(self.count) as i, f.if_(self.is_tensor(self.args.load("ptr", i))):
            slots.store(operands.load("ptr", i), next_.value)
            next_.set(next_.value + 1)
        with f.loop(count) as i, f.if_(i >= next_.value):
            slots.store(self.nothing, i)
        f.hold(way)
        with f.loop(count) as i:
            f.hold(slots.load("ptr", i))
        made = f.call("PyObject_VectorcallDict", items.load("ptr"), slots, count, f.null, gives="ptr")
        with f.loop(count) as i:
            f.let_go(slots.load("ptr", i))
        f.let_go(way)
        self._must(made)
        array = f.tuple_items(made).load("ptr", place)
        f.hold(array)
        f.let_go(made)
        return array

    def _called(self, operands: Word, made: Word) -> Word:
        """What comes of a call with these operands, one of which may be made for it."""
        f = self.f
        params, number = f.variable(self.params), f.variable(self.count)
        with f.if_(self.how == _OF_TENSORS):
            operands.store(self.given_args)
            operands.store(self.params, 1)
            number.set(2)
            params.set(f.null)
        with f.loop(number.value) as i:  # a signal handler may change what tensors hold
            f.hold(operands.load("ptr", i))
        given = self.function, operands, number.value, params.value
        value = f.call("PyObject_VectorcallDict", *given, gives="ptr")
        with f.loop(number.value) as i:
            f.let_go(operands.load("ptr", i))
        with f.if_(~made.is_null):
            f.let_go(made)
        with f.if_(value.is_null):
            f.return_(f.null)
        return value

    def _check_array(
        self, i: Word, array: Word, common: Variable, all_in_rows: Variable, largest: Variable
    ) -> None:
        """Leave it to Python unless the op takes an operand like this beside those before."""
        f = self.f
        dtype, ndim, lengths = f.array_dtype(array), f.array_ndim(array), f.array_shape(array)
        size = f.variable(1)
        with f.loop(ndim) as d:
            size.set(size.value * lengths.load("i64", d))
        with f.if_(size.value > largest.value):
            largest.set(size.value)
        found = f.variable(f.false)
        with f.loop(len(TAKEN)) as k:
            found.set(found.value | (self.dtypes.load("ptr", k) == dtype))
        is_data = i < self.data
        self._decline_unless(found.value | is_data)
        in_rows = f.variable((f.array_flags(array) & _IN_ROWS) != 0).value
        all_in_rows.set(all_in_rows.value & in_rows)
        with f.if_(self.is_pointwise):
            is_first = (i == 0) & (self.count > 1)
            keeps = (self.keeps_order != 0) & ~is_first & (self.count < 3)
            self._decline_unless(in_rows | keeps | (self.keeps_order == 2))
            with f.if_(~is_data & ~common.value.is_null):
                self._decline_unless(common.value == dtype)
        with f.if_(~is_data):
            common.set(dtype)

    def _put_number(self, operands: Word, i: Word, dtype: Word, made: Variable) -> None:
        """Have a pointwise op's number be what `evaluate` makes of it beside arrays of a dtype."""
        f = self.f
        number = operands.load("ptr", i)
        self._decline_unless((self.count == 2) & (self.data == 0))
        is_int, is_float = f.is_a(number, "int"), f.is_a(number, "float")
        beside_floats = (dtype == f.object("float32")) | (dtype == f.object("float64"))
        weak = beside_floats & (self.floats != 0) & (is_int | is_float)
        whole = (dtype == f.object("int64")) & (self.whole_numbers != 0) & is_int
        self._decline_unless(weak | whole)
        with f.if_(whole):
            value = f.call("PyLong_AsLongLong", number, gives="i64")
            with f.if_((value == -1) & ~f.call("PyErr_Occurred", gives="ptr").is_null):
                f.call("PyErr_Clear")
                self.decline()
        with (
            f.if_(weak & ~self.as_number.is_null),
            f.if_(f.call("PyObject_IsTrue", number, gives="i32") == 1),
        ):
            pair = f.stack("ptr", 2)
            pair.store(number)
            pair.store(dtype, 1)
            found = f.call("PyObject_VectorcallDict", self.as_number, pair, 2, f.null, gives="ptr")
            with f.if_(found.is_null):
                f.return_(f.null)
            made.set(found)
            operands.store(found, i)


# The trials.


def _trials(made: Maker) -> Iterator[tuple[Any, Any]]:
    call = program()
    x, y, plain, columns = (wrap(np.full((2, 3), 2.0, np.float32)) for _ in range(4))
    number, whole = wrap(np.full((), 3.0, np.float32)), wrap(np.arange(6).reshape(2, 3))
    columns.array = np.asfortranarray(columns.array)
    x.needs_grad = y.needs_grad = number.needs_grad = True
    made_of_x = ops_of_eager.evaluate(REGISTRY["neg"], (x,), {})
    along = {"dim": (1,), "keepdim": False}
    cases: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        ("mul", (x, y), {}), ("mul", (plain, made_of_x), {}), ("mul", (x, 2.5), {}), ("add", (whole, 3), {}),
        ("exp", (made_of_x,), {}), ("neg", (plain,), {}), ("lt", (x, y), {}), ("div", (2.5, x), {}),
        ("div", (x, 0), {}), ("mul", (number, number), {}), ("add", (x, number), {}), ("sum", (x,), along),
        ("add", (plain, columns), {}), ("mean", (plain,), along), ("softmax", (x,), {"dim": 1}),
        ("amax", (whole,), along), ("sigmoid", (x,), {}), ("cat", (x, plain, made_of_x), {"dim": 0}),
    ]  # fmt: skip
    left: list[tuple[str, tuple[Any, ...]]] = [
        ("add", (whole, plain)), ("add", (whole, 2**70)), ("add", (columns, plain)), ("add", (x, True)),
        ("exp", (whole,)), ("mul", (2.5, 3)),
    ]  # fmt: skip
    given = [x, y, plain, number, whole, columns, made_of_x, made_of_x.grad_fn, along]

    def natively(name: str, args: tuple[Any, ...], params: dict[str, Any], recording: bool) -> Any:
        return call(nested, _FRAMES, made(_table(REGISTRY[name])), args, params, recording)

    def plainly(name: str, args: tuple[Any, ...], params: dict[str, Any], recording: bool) -> Any:
        before, state.grad_enabled = state.grad_enabled, recording
        try:
            return call(nested, _FRAMES, ops_of_eager.evaluate, REGISTRY[name], args, params)
        finally:
            state.grad_enabled = before

    for name, args in left:
        yield natively(name, args, {}, True), None
    yield from _trials_of_ways(made)
    for recorded in (True, False):
        for name, args, params in cases:
            wanted = plainly(name, args, params, recorded)  # it also finds out whose file the program is
            found = natively(name, args, params, recorded)
            yield seen(found), seen(wanted)
            arrays = [(t.array.tolist(), t.array.strides, t.array.dtype) for t in (found, wanted)]
            yield arrays[0], arrays[1]
            del found, wanted
            counted = reference_counts(given)
            natively(name, args, params, recorded)
            yield reference_counts(given), counted


def _trials_of_ways(made: Maker) -> Iterator[tuple[Any, Any]]:
    """What Python notes is found, and nothing else."""
    op, x = REGISTRY["mul"], wrap(np.ones((2, 3), np.float32))
    table = _table(op)
    said, ways = SimpleNamespace(enabled=True, wanted=False), WAYS[op]
    table[_LARGE], table[_ANSWERS : _ANSWERS + 2] = 1, id(said)
    native, result = made(table), np.zeros((2, 3), np.float32)
    params = {"dim": (1, None), "keepdim": False, "eps": 1e-5, "count": 70000}
    other = {**params, "keepdim": 0}
    before = dict(ways)
    ways.clear()
    try:
        add_way(op, (x.array, 2.5), params, None)
        (found,) = ways
        run: Callable[..., Any] = lambda *arrays: (arrays, result)  # noqa: E731
        ways[found] = (run, 1, 3, None), params
        yield native((x, 2.5), dict(params), False).array is result, True
        for args, given in (((x, 2), params), ((x, 2.5), other), ((x, 2.5), {}), ((2.5, x), params)):
            yield native(args, given, False), None
        for said.enabled, said.wanted in ((False, False), (True, True)):  # NumPy is asked
            yield native((x, 2.5), {}, False).array.tolist(), [[2.5] * 3] * 2
    finally:
        ways.clear()
        ways.update(before)


RUN = Native("fusegrad_run", lambda: [value_function(), params_function(), *_Running().functions()], _trials)
_tables: dict[Op, np.ndarray] = {}


def install() -> None:
    """Have native functions do eager's ops, as far as they know these."""
    recording.install()
    for op in [*REGISTRY.values()]:  # another thread may declare some
        if is_run(op):
            _tables[op] = _table(op)
            op.run = RUN.of(_tables[op])
    take_small()


def take_small() -> None:
    """Have kernels asked for arrays of any size where NumPy has no loop of its own for an op: they are there,
    and so is native code, for which that is no more work than to ask NumPy.
    """
    if large.answers.kernels is None:
        return
    for op, table in [*_tables.items()]:
        if op.run is not None:
            op.large = 1 if op.large == large.SOME and not op.by_values else op.large
            table[_LARGE] = large.NEVER if op.view else op.large
