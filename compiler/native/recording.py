"""Eager's ops natively: what NumPy is asked for, the tensor around what it gives, and the node on the graph.

In eager's small ops Python's part is most of the time, and most of that is the node: a dozen tuples and
slots. One native function makes what `evaluate` and `record` make (`eager/core/op.py`,
`eager/autograd/node.py`), and leaves to them whatever is not plain: results that are no arrays, watchers,
files that nobody knows yet. Another one is the whole way of a pointwise op (`running.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fusegrad.compiler.llvm.function_writer import FunctionWriter, Variable, Word
from fusegrad.compiler.native.core import Maker, Native
from fusegrad.compiler.native.making import like_function, tensor_like
from fusegrad.compiler.native.object_writer import Objects, ObjectWriter
from fusegrad.eager.autograd import node as nodes
from fusegrad.eager.autograd.node import Node, PartNode
from fusegrad.eager.autograd.writes.written import Refusal
from fusegrad.eager.core import op as ops_of_eager
from fusegrad.eager.core.errors import known_files
from fusegrad.eager.core.interpreter import counts as reference_counts
from fusegrad.eager.core.op import REGISTRY, Op, wrap
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor

# The dtypes whose results can have gradients, but for float16 and bfloat16.
FLOATS = "float32", "float64", "complex64", "complex128"
# How many frames above `evaluate` that of who asked for the op is: `bind` is between.
_FRAMES = 2

# The table: what new tensors are like, where their slots end, and what their counters are like; the classes
# of tensors and nodes; the op; what else is asked: the counter of nodes, `sys._getframe` and its argument,
# whose files are known, `co_filename`, who watches, -1, the class of nodes that take no gradient; whether the
# op gives a part of its one input; how many arguments may have rules, and how many words on the next one's
# are; then for each of these whether it has one, whether that needs the output, and, as bits, which inputs it
# saves.
_HEAD = ("ptr", "i64", *["ptr"] * 13, "i64", "i64", "i64")
_ROW = 3
_HELD = _FRAMES, -1, "co_filename"  # objects that tables have the addresses of


def finish_words(op: Op, frames: int = _HELD[0]) -> list[int]:
    """The table's words for an op. frames: how many above the one that calls stands who asked for it."""
    tensor, version = tensor_like()
    objects = [version, Tensor, Node, PartNode, op, nodes.sequence, sys._getframe, frames, known_files]
    objects += [_HELD[2], nodes.watchers, _HELD[1], Refusal]
    rules, is_part = op.rules or (), op.part and op.keeps_nothing
    step = 0 if op.variadic else _ROW  # all inputs of a variadic op share one rule
    words = [id(tensor), Tensor.__basicsize__, *map(id, objects), int(is_part), len(rules), step]
    for rule in rules:
        saves = sum(1 << place for place in rule.saves) if rule else 0
        words += [int(rule is not None), int(rule is not None and rule.needs_output), saves]
    return words


def _table(op: Op) -> np.ndarray:
    return np.array(finish_words(op), np.int64)


def is_plain(op: Op) -> bool:
    """Whether the native function knows all that is done for an op."""
    if op.variadic and op.rules is not None:
        rule = op.rules[0]
        if rule is not None and (rule.saves or rule.saves_all or rule.needs_output):
            return False
    return op.leads is None and len(op.rules or ()) < 32


class _Given:
    """The words of the table, by names."""

    def __init__(self, f: FunctionWriter, table: Word) -> None:
        words = [table.load(type, place) for place, type in enumerate(_HEAD)]
        self.like, self.end, self.version, self.tensor, self.node, self.part_node, self.op = words[:7]
        self.sequence, self.getframe, self.frames, self.files, self.filename = words[7:12]
        self.watchers, self.minus_one, self.refusal, self.is_part, self.rules, self._step = words[12:]
        self._rows = table.at(len(_HEAD))

    def has_rule(self, place: Word) -> Word:
        return self._rows.load("i64", place * self._step) != 0

    def needs_output(self, place: Word) -> Word:
        return self._rows.load("i64", place * self._step + 1) != 0

    def saves(self, place: Word) -> Word:
        return self._rows.load("i64", place * self._step + 2)


def _pack(count: int) -> FunctionWriter:
    """`fusegrad_pack2(a, b)`: a tuple that takes over these references; null where one is null."""
    f = Objects(f"fusegrad_pack{count}", {f"x{i}": "ptr" for i in range(count)}, "ptr", private=True)
    for given in f.given:
        with f.if_(given.is_null):
            f.return_(f.null)
    made = f.call("PyTuple_New", count, gives="ptr")
    with f.if_(~made.is_null):
        for i, given in enumerate(f.given):
            f.tuple_items(made).store(given, i)
    f.return_(made)
    return f


def _type_function() -> FunctionWriter:
    """`fusegrad_type(array)`: its shape and dtype."""
    f = Objects("fusegrad_type", {"array": "ptr"}, "ptr", private=True)
    (array,) = f.given
    ndim, lengths = f.array_ndim(array), f.array_shape(array)
    shape = f.call("PyTuple_New", ndim, gives="ptr")
    with f.if_(shape.is_null):
        f.return_(f.null)
    with f.loop(ndim) as i:
        f.tuple_items(shape).store(f.call("PyLong_FromLongLong", lengths.load("i64", i), gives="ptr"), i)
    dtype = f.array_dtype(array)
    f.hold(dtype)
    f.return_(f.call("fusegrad_pack2", shape, dtype, gives="ptr"))
    return f


def _spot_function() -> FunctionWriter:
    """`fusegrad_spot(getframe, frames, filename, files)`: where the user's program is, or null, without an
    exception, where only Python finds out.
    """
    takes = {"getframe": "ptr", "frames": "ptr", "filename": "ptr", "files": "ptr"}
    f = Objects("fusegrad_spot", takes, "ptr", private=True)
    getframe, frames, filename, files = f.given
    frame = f.variable(f.call("PyObject_CallOneArg", getframe, frames, gives="ptr"))
    with f.repeat() as upwards:
        with f.if_(frame.value.is_null):
            f.call("PyErr_Clear")
            f.return_(f.null)
        code = f.call("PyFrame_GetCode", frame.value, gives="ptr")
        name = f.call("PyObject_GetAttr", code, filename, gives="ptr")
        own = f.variable(f.null)
        with f.if_(~name.is_null):
            own.set(f.call("PyDict_GetItemWithError", files, name, gives="ptr"))
            f.let_go(name)
        with f.if_(own.value == f.object("false")):
            last = f.call("PyFrame_GetLasti", frame.value, gives="i32").to("i64")
            f.let_go(frame.value)
            place = f.call("PyLong_FromLongLong", last, gives="ptr")
            f.return_(f.call("fusegrad_pack2", code, place, gives="ptr"))
        f.let_go(code)
        above = f.variable(f.null)
        with f.if_(own.value == f.object("true")):
            above.set(f.call("PyFrame_GetBack", frame.value, gives="ptr"))
        f.let_go(frame.value)
        frame.set(above.value)
        upwards.again()
    f.return_(f.null)
    return f


def _number_function() -> FunctionWriter:
    """`fusegrad_writes(tensor)`: how many writes the counter of a tensor has seen."""
    f = Objects("fusegrad_writes", {"tensor": "ptr"}, "ptr", private=True)
    count = f.call("PyList_GetItem", f.slot(f.given[0], "version").load("ptr"), 0, gives="ptr")
    with f.if_(~count.is_null):
        f.hold(count)
    f.return_(count)
    return f


class Finishing:
    """The function that makes the tensor and its node, of a value or of what is computed first."""

    def __init__(self, name: str, takes: int, before: int = 0) -> None:
        """takes: how many objects, of which the last are args, params and whether nodes are made. before: how
        many words of the table come before those of `finish_words`.
        """
        self.f = f = ObjectWriter(name, borrowed=False)
        self.given = _Given(f, f.table.at(before))
        args, self.params, self.recording = (f.items.load("ptr", i + takes - 3) for i in range(3))
        self.given_args, self.args = args, f.tuple_items(args)

    def functions(self) -> list[FunctionWriter]:
        f = self.f
        self.array = self.compute()
        self._leave_unless(f.is_a(self.array, "ndarray") & f.is_a(self.given_args, "tuple"))
        self.count = f.call("PyTuple_Size", self.given_args, gives="i64")
        edges, saved, keeps = (f.variable(0) for _ in range(3))
        with f.if_((self.recording == f.object("true")) & (self.given.rules != 0)):
            self._look(edges, saved, keeps)
        spot = f.variable(f.null)
        with f.if_(edges.value != 0):
            self._leave_unless(self._is_float())
            self._leave_unless(f.call("PyList_Size", self.given.watchers, gives="i64") == 0)
            place = self.given.getframe, self.given.frames, self.given.filename, self.given.files
            spot.set(f.call("fusegrad_spot", *place, gives="ptr"))
            self._leave_unless(~spot.value.is_null)
        version = f.call("PyList_GetSlice", self.given.version, 0, 2, gives="ptr")
        tensor = self._tensor(version)
        with f.if_(edges.value != 0):
            self._put_on_graph(tensor, edges.value, saved.value, keeps.value, spot.value)
        f.return_(tensor)
        helpers = [_pack(2), _pack(3), _type_function(), _spot_function(), _number_function()]
        return [like_function(), *helpers, f]

    def compute(self) -> Word:
        """The array, with a reference of ours."""
        value = self.f.items.load("ptr")
        self.f.hold(value)
        return self.whole(value)

    def whole(self, value: Word) -> Word:
        """The array in the place of a value, with the reference to that: NumPy gives numbers for arrays
        without dimensions.
        """
        f = self.f
        array, kind = f.variable(value), f.type_of(value)
        with f.if_(f.call("PyType_IsSubtype", kind, f.object("generic"), gives="i32") != 0):
            array.set(f.call("PyObject_CallOneArg", f.object("asarray"), value, gives="ptr"))
            f.let_go(value)
            self._must(array.value)
        return array.value

    def _leave_unless(self, condition: Word) -> None:
        """Leave it to Python."""
        f = self.f
        with f.if_(~condition):
            self.leave()

    def leave(self) -> None:
        """Give what says that all is left to Python; the reference to the array goes."""
        self.f.let_go(self.array)
        none = self.f.object("none")
        self.f.hold(none)
        self.f.return_(none)

    def _must(self, *made: Word) -> None:
        """There is no memory where one of these is null."""
        for thing in made:
            with self.f.if_(thing.is_null):
                self.f.return_(self.f.null)

    def is_tensor(self, x: Word) -> Word:
        kind = self.f.type_of(x)
        return self.f.call("PyType_IsSubtype", kind, self.given.tensor, gives="i32") != 0

    def _is_float(self) -> Word:
        dtype = self.f.array_dtype(self.array)
        found = self.f.false
        for name in FLOATS:
            found = found | (dtype == self.f.object(name))
        return found

    def _look(self, edges: Variable, saved: Variable, keeps: Variable) -> None:
        """Count the inputs that need gradients; what is saved for them, as bits; whether the output is."""
        f, given = self.f, self.given
        with f.loop(self.count) as i:
            x = self.args.load("ptr", i)
            with f.if_(self.is_tensor(x)):
                array, version = f.tensor_array(x), f.slot(x, "version").load("ptr")
                self._leave_unless(f.is_a(array, "ndarray") & f.is_a(version, "list"))
                with f.if_(self._needs_gradient(i, x)):
                    maker = f.slot(x, "maker").load("ptr")
                    with f.if_((maker != f.object("none")) & (f.type_of(maker) != given.node)):
                        kind = f.type_of(maker)
                        is_node = f.call("PyType_IsSubtype", kind, given.node, gives="i32") != 0
                        self._leave_unless(is_node & (kind != given.refusal))
                    edges.set(edges.value + 1)
                    saved.set(saved.value | given.saves(i))
                    keeps.set(keeps.value | given.needs_output(i).to("i64"))

    def _tensor(self, version: Word) -> Word:
        """A tensor around the array, with this counter; it takes over the references to both."""
        f = self.f
        tensor = f.call("fusegrad_like", self.given.like, self.given.end, gives="ptr")
        self._must(tensor, version)
        f.slot(tensor, "version").store(version)
        f.slot(tensor, "array").store(self.array)
        return tensor

    # The node.

    def _put_on_graph(self, tensor: Word, edges: Word, saved: Word, keeps: Word, spot: Word) -> None:
        f, given = self.f, self.given
        kind = f.variable(given.node)
        with f.if_(given.is_part != 0):
            maker = f.slot(self.args.load("ptr"), "maker").load("ptr")
            kind.set(f.select(maker == f.object("none"), given.part_node, given.node))
        node = f.call("PyType_GenericAlloc", kind.value, 0, gives="ptr")
        self._must(node)
        for name, thing in (("op", given.op), ("params", self.params), ("extra", f.object("none"))):
            f.hold(thing)
            self._set(node, name, thing)
        self._set(node, "spot", spot)
        self._set(node, "sequence", f.call("PyIter_Next", given.sequence, gives="ptr"))
        self._set(node, "edges", self._edges(edges))
        self._set(node, "types", self._types())
        self._set(node, "inputs", self._inputs(saved))
        own = f.call("fusegrad_type", self.array, gives="ptr")
        types = f.call("PyTuple_New", 1, gives="ptr")
        self._must(own, types)
        f.tuple_items(types).store(own)
        self._set(node, "output_types", types)
        self._keep(node, tensor, saved, keeps)
        f.hold(f.object("true"))
        self._replace(tensor, "needs_grad", f.object("true"))
        self._replace(tensor, "maker", node)

    def _set(self, node: Word, name: str, value: Word) -> None:
        """Fill an empty slot of a node, which takes over the reference."""
        self._must(value)
        self.f.slot(node, name, Node).store(value)

    def _replace(self, tensor: Word, name: str, value: Word) -> None:
        """Put something else into a slot of a tensor, which takes over the reference."""
        slot = self.f.slot(tensor, name)
        before = slot.load("ptr")
        slot.store(value)
        self.f.let_go(before)

    def _number(self, value: Word | int) -> Word:
        return self.f.call("PyLong_FromLongLong", value, gives="ptr")

    def _needs_gradient(self, i: Word, x: Word) -> Word:
        """Whether an input that is a tensor gets a gradient."""
        needs = self.f.slot(x, "needs_grad").load("ptr") == self.f.object("true")
        return needs & self.given.has_rule(i)

    def _edges(self, count: Word) -> Word:
        f = self.f
        edges = f.call("PyTuple_New", count, gives="ptr")
        self._must(edges)
        place = f.variable(0)
        with f.loop(self.count) as i:
            x = self.args.load("ptr", i)
            with f.if_(self.is_tensor(x)), f.if_(self._needs_gradient(i, x) & (place.value < count)):
                maker, index = f.slot(x, "maker").load("ptr"), f.slot(x, "output_index").load("ptr")
                target, output = f.variable(maker), f.variable(index)
                f.hold(index)
                with f.if_(maker == f.object("none")):
                    f.let_go(index)
                    target.set(x)
                    output.set(self._number(0))
                f.hold(target.value)
                edge = f.call("fusegrad_pack3", self._number(i), target.value, output.value, gives="ptr")
                self._must(edge)
                f.tuple_items(edges).store(edge, place.value)
                place.set(place.value + 1)
        # What Python's collector of garbage calls may have changed an input since they were counted.
        with f.if_(place.value != count):
            f.return_(f.null)
        return edges

    def _types(self) -> Word:
        f = self.f
        types = f.call("PyTuple_New", self.count, gives="ptr")
        self._must(types)
        with f.loop(self.count) as i:
            x, type_ = self.args.load("ptr", i), f.variable(f.object("none"))
            with f.if_(self.is_tensor(x)):
                type_.set(f.call("fusegrad_type", f.tensor_array(x), gives="ptr"))
                self._must(type_.value)
            with f.if_(type_.value == f.object("none")):
                f.hold(type_.value)
            f.tuple_items(types).store(type_.value, i)
        return types

    def _inputs(self, saved: Word) -> Word:
        """What is saved of the inputs, and all numbers; nothing for an op that saves none."""
        f = self.f
        any_saved = f.variable(0)
        with f.loop(self.given.rules) as i:
            any_saved.set(any_saved.value | self.given.saves(i))
        count = f.select(any_saved.value == 0, f.number(0), self.count)
        inputs = f.call("PyTuple_New", count, gives="ptr")
        self._must(inputs)
        with f.loop(count) as i:
            x = self.args.load("ptr", i)
            kept = f.variable(x)
            with f.if_(self.is_tensor(x)), f.if_((saved >> i) & 1 == 0):
                kept.set(f.object("none"))
            f.hold(kept.value)
            f.tuple_items(inputs).store(kept.value, i)
        return inputs

    def _keep(self, node: Word, tensor: Word, saved: Word, keeps: Word) -> None:
        """The outputs that are kept, and how many writes there were into each of what is kept."""
        f = self.f
        count, place = f.variable(keeps), f.variable(0)
        with f.if_(saved != 0), f.loop(self.count) as i:  # an op of many inputs, more than bits, saves none
            count.set(count.value + ((saved >> i) & self.is_tensor(self.args.load("ptr", i)).to("i64")))
        versions = f.call("PyTuple_New", count.value, gives="ptr")
        self._must(versions)
        with f.if_(saved != 0), f.loop(self.count) as i:
            x = self.args.load("ptr", i)
            with f.if_(((saved >> i) & 1 == 1) & self.is_tensor(x)):
                self._note(versions, place.value, self._number(i), x)
                place.set(place.value + 1)
        outputs = f.variable(f.object("none"))
        f.hold(outputs.value)
        with f.if_(keeps != 0):
            f.let_go(outputs.value)
            f.hold(self.given.minus_one)
            self._note(versions, place.value, self.given.minus_one, tensor)
            counter = f.slot(tensor, "version").load("ptr")
            f.hold(counter)
            outputs.set(f.call("PyTuple_New", 1, gives="ptr"))
            self._must(outputs.value)
            f.hold(self.array)
            f.tuple_items(outputs.value).store(self._tensor(counter))
        self._set(node, "outputs", outputs.value)
        self._set(node, "versions", versions)

    def _note(self, versions: Word, place: Word, number: Word, tensor: Word) -> None:
        writes = self.f.call("fusegrad_writes", tensor, gives="ptr")
        pair = self.f.call("fusegrad_pack2", number, writes, gives="ptr")
        self._must(pair)
        self.f.tuple_items(versions).store(pair, place)


# The trials.


def nested(frames: int, function: Callable[..., Any], *given: Any) -> Any:
    """What a function gives that is called below so many frames of fusegrad's own."""
    return function(*given) if not frames else nested(frames - 1, function, *given)


_PROGRAM = "def call(nested, *given):\n    return nested(*given)\n"


def seen(tensor: Tensor) -> list[Any]:
    """All that is made, but for which number the node has, and what `evaluate` notes of views."""
    found = [type(tensor), tensor.needs_grad, tensor.gradient, tensor.output_index, list(tensor.version)]
    node = tensor.grad_fn
    found.append(type(node))
    if node is not None:
        kept = [
            (share.array is tensor.array, share.version is tensor.version) for share in node.outputs or ()
        ]
        edges = [(index, id(target), output) for index, target, output in node.edges]
        found += [node.op, id(node.params), node.extra, node.spot, edges, node.types, node.output_types]
        found += [[*map(id, node.inputs)], sorted(node.versions), kept]
    return found


def program() -> Callable[..., Any]:
    """A function of a program's own that calls another one."""
    namespace: dict[str, Any] = {}
    exec(compile(_PROGRAM, "<a program>", "exec"), namespace)
    return namespace["call"]


def _trials(made: Maker) -> Iterator[tuple[Any, Any]]:
    call = program()
    x, y, plain = (wrap(np.full((2, 3), 2.0, np.float32)) for _ in range(3))
    number = wrap(np.full((), 3.0, np.float32))
    x.needs_grad = y.needs_grad = number.needs_grad = True
    made_of_x = ops_of_eager.evaluate(REGISTRY["neg"], (x,), {})
    index = {"index": (0,)}
    cases: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        ("mul", (x, y), {}), ("mul", (x, plain), {}), ("mul", (plain, made_of_x), {}), ("mul", (x, 2.5), {}),
        ("exp", (made_of_x,), {}), ("add", (x, made_of_x), {}), ("neg", (plain,), {}), ("lt", (x, y), {}),
        ("getitem", (x,), index), ("getitem", (made_of_x,), index), ("div", (2.5, x), {}),
        ("mul", (number, number), {}), ("stack", (x, plain, made_of_x), {"dim": 0}),
    ]  # fmt: skip
    given = [x, y, plain, number, made_of_x, made_of_x.grad_fn, index]
    for recording in (True, False):
        for name, args, params in cases:
            op = REGISTRY[name]
            value = op.evaluate(args, params)
            native = made(_table(op))

            def natively(value: Any = value, native: Any = native, rest: Any = (args, params)) -> Any:
                return seen(call(nested, _FRAMES, native, value, *rest, recording))  # noqa: B023

            def plainly(value: Any = value, op: Op = op, rest: Any = (args, params)) -> Any:
                before, state.grad_enabled = state.grad_enabled, recording  # noqa: B023
                try:
                    evaluated = ops_of_eager.evaluate
                    return seen(call(nested, _FRAMES, evaluated, op, *rest, value))
                finally:
                    state.grad_enabled = before

            wanted = plainly()  # it also finds out whose file the program is
            yield natively(), wanted
            counted = reference_counts((*given, value))
            natively()
            yield reference_counts((*given, value)), counted


FINISH = Native("fusegrad_finish", lambda: Finishing("fusegrad_finish", 4).functions(), _trials)


def install() -> None:
    """Have native functions do what they know of ops: all, or what is left once there is an array."""
    for op in [*REGISTRY.values()]:  # another thread may declare some
        if is_plain(op):
            op.finish = FINISH.of(_table(op))
