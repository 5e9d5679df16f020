"""Linking: what a shortcut's node holds of its call is put there natively, and looked at again.

A node holds the tensors of its call, where their gradients go, and how often their memory had been written.
To gather this, and to compare it later, was a third of what Python did in a small call and its backward.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.compiler.paths.autograd_node import NOTHING_FREED, NOTHING_PRESERVED, CompiledNode
from fusegrad.compiler.runtime import cpython_calls
from fusegrad.eager.core.tensor import Tensor

# Lists: how many items one has (-1 for anything else, or nothing), and where an item is; the counter of a
# tensor, which is a list, or null.
_LISTS = """
declare void @Py_DecRef(ptr)

define private i64 @fusegrad_size(ptr %list) nounwind alwaysinline {{
entry:
  %nothing = icmp eq ptr %list, null
  br i1 %nothing, label %no, label %kind
kind:
  %type.at = getelementptr i8, ptr %list, i64 {TYPE}
  %type = load ptr, ptr %type.at
  %listed = icmp eq ptr %type, @fusegrad_list
  br i1 %listed, label %yes, label %no
yes:
  %size.at = getelementptr i8, ptr %list, i64 {SIZE}
  %size = load i64, ptr %size.at
  ret i64 %size
no:
  ret i64 -1
}}

define private ptr @fusegrad_item(ptr %list, i64 %i) nounwind alwaysinline {{
  %items.at = getelementptr i8, ptr %list, i64 {LIST}
  %items = load ptr, ptr %items.at
  %at = getelementptr ptr, ptr %items, i64 %i
  ret ptr %at
}}

define private ptr @fusegrad_counter(ptr %tensor) nounwind alwaysinline {{
  %version.at = getelementptr i8, ptr %tensor, i64 {version}
  %version = load ptr, ptr %version.at
  %size = call i64 @fusegrad_size(ptr %version)
  %some = icmp sgt i64 %size, 0
  %counter = select i1 %some, ptr %version, ptr null
  ret ptr %counter
}}
"""

# Rows of what is given, by words that say which.
_ROWS = """
declare ptr @PyTuple_New(i64)
declare ptr @PyList_New(i64)
declare ptr @PyErr_Occurred()

define private void @fusegrad_put(ptr %object, i64 %place, ptr %value) nounwind {{
  call void @Py_IncRef(ptr %value)
  %at = getelementptr i8, ptr %object, i64 %place
  %old = load ptr, ptr %at
  store ptr %value, ptr %at
  call void @Py_DecRef(ptr %old)
  ret void
}}

; The same for a new object, of which nobody else has a reference.
define private void @fusegrad_put_new(ptr %object, i64 %place, ptr %value) nounwind {{
  call void @fusegrad_put(ptr %object, i64 %place, ptr %value)
  call void @Py_DecRef(ptr %value)
  ret void
}}

define private void @fusegrad_set_item(ptr %tuple, i64 %i, ptr %item) nounwind alwaysinline {{
  %empty = icmp eq ptr %item, null
  %known = select i1 %empty, ptr @fusegrad_none, ptr %item
  call void @Py_IncRef(ptr %known)
  %items = getelementptr i8, ptr %tuple, i64 {ITEMS}
  %at = getelementptr ptr, ptr %items, i64 %i
  store ptr %known, ptr %at
  ret void
}}

define private ptr @fusegrad_given(ptr %given, ptr %row) nounwind alwaysinline {{
  %which = load i64, ptr %row
  %at = getelementptr ptr, ptr %given, i64 %which
  %object = load ptr, ptr %at
  ret ptr %object
}}

define private ptr @fusegrad_row(ptr %given, ptr %words, i64 %step, i64 %count) nounwind {{
entry:
  %made = call ptr @PyTuple_New(i64 %count)
  %none = icmp eq ptr %made, null
  br i1 %none, label %done, label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i1, %item ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %item, label %done
item:
  %place = mul i64 %i, %step
  %row = getelementptr i64, ptr %words, i64 %place
  %object = call ptr @fusegrad_given(ptr %given, ptr %row)
  call void @fusegrad_set_item(ptr %made, i64 %i, ptr %object)
  %i1 = add i64 %i, 1
  br label %next
done:
  ret ptr %made
}}
"""

# The edges, and whether those end at leaves that must.
_EDGES = """
define private ptr @fusegrad_edges(ptr %given, ptr %rows, i64 %count, ptr %ending) nounwind {{
entry:
  %made = call ptr @PyTuple_New(i64 %count)
  %none = icmp eq ptr %made, null
  br i1 %none, label %fail, label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i1, %fill ]
  %ends = phi i64 [ 1, %entry ], [ %ends1, %fill ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %edge.make, label %done
edge.make:
  %edge = call ptr @PyTuple_New(i64 3)
  %no.edge = icmp eq ptr %edge, null
  br i1 %no.edge, label %drop, label %fill
fill:
  %row = getelementptr [3 x i64], ptr %rows, i64 %i
  %x = call ptr @fusegrad_given(ptr %given, ptr %row)
  %number.at = getelementptr ptr, ptr %row, i64 1
  %number = load ptr, ptr %number.at
  %must.at = getelementptr i64, ptr %row, i64 2
  %must = load i64, ptr %must.at
  %above.at = getelementptr i8, ptr %x, i64 {grad_fn}
  %above = load ptr, ptr %above.at
  %is.none = icmp eq ptr %above, @fusegrad_none
  %is.empty = icmp eq ptr %above, null
  %is.leaf = or i1 %is.none, %is.empty
  %target = select i1 %is.leaf, ptr %x, ptr %above
  %output.at = getelementptr i8, ptr %x, i64 {output_index}
  %output = load ptr, ptr %output.at
  call void @fusegrad_set_item(ptr %edge, i64 0, ptr %number)
  call void @fusegrad_set_item(ptr %edge, i64 1, ptr %target)
  call void @fusegrad_set_item(ptr %edge, i64 2, ptr %output)
  %items = getelementptr i8, ptr %made, i64 {ITEMS}
  %at = getelementptr ptr, ptr %items, i64 %i
  store ptr %edge, ptr %at
  %may = xor i64 %must, 1
  %leaf.long = zext i1 %is.leaf to i64
  %well = or i64 %may, %leaf.long
  %ends1 = and i64 %ends, %well
  %i1 = add i64 %i, 1
  br label %next
done:
  store i64 %ends, ptr %ending
  ret ptr %made
drop:
  call void @Py_DecRef(ptr %made)
  br label %fail
fail:
  ret ptr null
}}
"""

# The counters of tensors and their numbers, put into the node; whether all have one.
_NOTE = """
define private i1 @fusegrad_note(ptr %node, ptr %given, ptr %words, i64 %count) nounwind {{
entry:
  %counters = call ptr @PyList_New(i64 %count)
  %no.counters = icmp eq ptr %counters, null
  br i1 %no.counters, label %no, label %counters.put
counters.put:
  call void @fusegrad_put_new(ptr %node, i64 {counters}, ptr %counters)
  %numbers = call ptr @PyList_New(i64 %count)
  %no.numbers = icmp eq ptr %numbers, null
  br i1 %no.numbers, label %no, label %numbers.put
numbers.put:
  call void @fusegrad_put_new(ptr %node, i64 {numbers}, ptr %numbers)
  br label %next
next:
  %i = phi i64 [ 0, %numbers.put ], [ %i1, %put ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %find, label %yes
find:
  %row = getelementptr i64, ptr %words, i64 %i
  %tensor = call ptr @fusegrad_given(ptr %given, ptr %row)
  %counter = call ptr @fusegrad_counter(ptr %tensor)
  %no.counter = icmp eq ptr %counter, null
  br i1 %no.counter, label %no, label %put
put:
  %number.at = call ptr @fusegrad_item(ptr %counter, i64 0)
  %number = load ptr, ptr %number.at
  call void @Py_IncRef(ptr %counter)
  call void @Py_IncRef(ptr %number)
  %counter.at = call ptr @fusegrad_item(ptr %counters, i64 %i)
  store ptr %counter, ptr %counter.at
  %noted.at = call ptr @fusegrad_item(ptr %numbers, i64 %i)
  store ptr %number, ptr %noted.at
  %i1 = add i64 %i, 1
  br label %next
yes:
  ret i1 true
no:
  ret i1 false
}}
"""

# `self` is an array: how many of what is given are leaves of the arguments, inputs with gradients, tensors
# with counters, and results; what adds to `.grad` for the node, if anything does. Then for each leaf which it
# is; for each input which it is, its number, and whether it must be a leaf of the graph for that; for each
# tensor which it is; for each result which it is, and its number. The numbers are objects.
_LINK = """
define ptr @fusegrad_link(ptr %self, ptr %items, i64 %count) nounwind {{
entry:
  {TABLE}
  {fields}
  %leaf.words = getelementptr i64, ptr %table, i64 5
  %edge.rows = getelementptr i64, ptr %leaf.words, i64 %leaves
  %edge.size = mul i64 %wanted, 3
  %counted.words = getelementptr i64, ptr %edge.rows, i64 %edge.size
  %result.rows = getelementptr i64, ptr %counted.words, i64 %counted
  %node = load ptr, ptr %items
  %given = getelementptr ptr, ptr %items, i64 1
  %ending = alloca i64
  %leaves.row = call ptr @fusegrad_row(ptr %given, ptr %leaf.words, i64 1, i64 %leaves)
  %no.leaves = icmp eq ptr %leaves.row, null
  br i1 %no.leaves, label %fail, label %types.make
types.make:
  call void @fusegrad_put_new(ptr %node, i64 {leaves}, ptr %leaves.row)
  %types.row = call ptr @fusegrad_row(ptr %given, ptr %edge.rows, i64 3, i64 %wanted)
  %no.types = icmp eq ptr %types.row, null
  br i1 %no.types, label %fail, label %edges.make
edges.make:
  call void @fusegrad_put_new(ptr %node, i64 {types}, ptr %types.row)
  %edges.row = call ptr @fusegrad_edges(ptr %given, ptr %edge.rows, i64 %wanted, ptr %ending)
  %no.edges = icmp eq ptr %edges.row, null
  br i1 %no.edges, label %fail, label %adding.find
adding.find:
  call void @fusegrad_put_new(ptr %node, i64 {edges}, ptr %edges.row)
  %some = icmp ne ptr %adding, null
  %ends = load i64, ptr %ending
  %ended = icmp ne i64 %ends, 0
  %adds = and i1 %some, %ended
  br i1 %adds, label %adding.put, label %counting
adding.put:
  call void @fusegrad_put(ptr %node, i64 {adding}, ptr %adding)
  br label %counting
counting:
  %noted = call i1 @fusegrad_note(ptr %node, ptr %given, ptr %counted.words, i64 %counted)
  br i1 %noted, label %result, label %error
result:
  %i = phi i64 [ 0, %counting ], [ %i1, %result.put ]
  %more = icmp slt i64 %i, %results
  br i1 %more, label %result.put, label %yes
result.put:
  %row = getelementptr [2 x i64], ptr %result.rows, i64 %i
  %made = call ptr @fusegrad_given(ptr %given, ptr %row)
  %number.at = getelementptr ptr, ptr %row, i64 1
  %number = load ptr, ptr %number.at
  call void @fusegrad_put(ptr %made, i64 {needs_grad}, ptr @fusegrad_true)
  call void @fusegrad_put(ptr %made, i64 {grad_fn}, ptr %node)
  call void @fusegrad_put(ptr %made, i64 {output_index}, ptr %number)
  %i1 = add i64 %i, 1
  br label %result
error:
  %raised = call ptr @PyErr_Occurred()
  %memory = icmp ne ptr %raised, null
  br i1 %memory, label %fail, label %no
{YES_NO}
fail:
  ret ptr null
}}
"""

# `self` is an array: what must be in four slots of a node. Whether it is, and nothing has been written.
_INTACT = """
define ptr @fusegrad_intact(ptr %self, ptr %items, i64 %count) nounwind {{
entry:
  {TABLE}
  %node = load ptr, ptr %items
  {slots}
  %counters.at = getelementptr i8, ptr %node, i64 {counters}
  %counters = load ptr, ptr %counters.at
  %numbers.at = getelementptr i8, ptr %node, i64 {numbers}
  %numbers = load ptr, ptr %numbers.at
  %counters.size = call i64 @fusegrad_size(ptr %counters)
  %numbers.size = call i64 @fusegrad_size(ptr %numbers)
  %sizes = icmp eq i64 %counters.size, %numbers.size
  %listed = icmp sge i64 %counters.size, 0
  %lists = and i1 %sizes, %listed
  %begin = and i1 %lists, %same
  br i1 %begin, label %next, label %no
next:
  %i = phi i64 [ 0, %entry ], [ %i1, %compare ]
  %more = icmp slt i64 %i, %counters.size
  br i1 %more, label %look, label %yes
look:
  %counter.at = call ptr @fusegrad_item(ptr %counters, i64 %i)
  %counter = load ptr, ptr %counter.at
  %size = call i64 @fusegrad_size(ptr %counter)
  %some = icmp sgt i64 %size, 0
  br i1 %some, label %compare, label %no
compare:
  %now.at = call ptr @fusegrad_item(ptr %counter, i64 0)
  %now = load ptr, ptr %now.at
  %then.at = call ptr @fusegrad_item(ptr %numbers, i64 %i)
  %then = load ptr, ptr %then.at
  %unwritten = icmp eq ptr %now, %then
  %i1 = add i64 %i, 1
  br i1 %unwritten, label %next, label %no
{YES_NO}
}}
"""

# Counts a write into the memory of each tensor, done at a place in the user's program if that is not None; or
# counts none, if one has no counter of its own, or anybody else has to be told where the place is noted.
_COUNT = """
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyTuple_Pack(i64, ...)

define private void @fusegrad_swap(ptr %list, i64 %i, ptr %item) nounwind {{
  %at = call ptr @fusegrad_item(ptr %list, i64 %i)
  %old = load ptr, ptr %at
  store ptr %item, ptr %at
  call void @Py_DecRef(ptr %old)
  ret void
}}

define private i1 @fusegrad_countable(ptr %tensor, i1 %noting) nounwind {{
entry:
  %counter = call ptr @fusegrad_counter(ptr %tensor)
  %size = call i64 @fusegrad_size(ptr %counter)
  %counts = icmp sgt i64 %size, 0
  %pair = icmp eq i64 %size, 2
  %alias.at = getelementptr i8, ptr %tensor, i64 {alias}
  %alias = load ptr, ptr %alias.at
  %alone = icmp eq ptr %alias, @fusegrad_none
  %plain = and i1 %pair, %alone
  %found = select i1 %noting, i1 %plain, i1 %counts
  ret i1 %found
}}

define ptr @fusegrad_count(ptr %self, ptr %items, i64 %count) nounwind {{
entry:
  %spot = load ptr, ptr %items
  %noting = icmp ne ptr %spot, @fusegrad_none
  br label %ask
ask:
  %j = phi i64 [ 1, %entry ], [ %j1, %asked ]
  %asking = icmp slt i64 %j, %count
  br i1 %asking, label %asked, label %next
asked:
  %asked.at = getelementptr ptr, ptr %items, i64 %j
  %asked.tensor = load ptr, ptr %asked.at
  %countable = call i1 @fusegrad_countable(ptr %asked.tensor, i1 %noting)
  %j1 = add i64 %j, 1
  br i1 %countable, label %ask, label %no
next:
  %i = phi i64 [ 1, %ask ], [ %i1, %counted ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %add, label %yes
add:
  %item.at = getelementptr ptr, ptr %items, i64 %i
  %tensor = load ptr, ptr %item.at
  %counter = call ptr @fusegrad_counter(ptr %tensor)
  %number.at = call ptr @fusegrad_item(ptr %counter, i64 0)
  %number = load ptr, ptr %number.at
  %known = call i64 @PyLong_AsLongLong(ptr %number)
  %more.by.one = add i64 %known, 1
  %new = call ptr @PyLong_FromLongLong(i64 %more.by.one)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %fail, label %put
put:
  br i1 %noting, label %pack, label %swap
pack:
  %write = call ptr (i64, ...) @PyTuple_Pack(i64 2, ptr %new, ptr %spot)
  %no.write = icmp eq ptr %write, null
  br i1 %no.write, label %drop, label %note
note:
  call void @fusegrad_swap(ptr %counter, i64 1, ptr %write)
  br label %swap
swap:
  call void @fusegrad_swap(ptr %counter, i64 0, ptr %new)
  br label %counted
counted:
  %i1 = add i64 %i, 1
  br label %next
{YES_NO}
drop:
  call void @Py_DecRef(ptr %new)
  br label %fail
fail:
  ret ptr null
}}
"""

# The first words of the table, as `fusegrad_link` calls them.
_FIELDS = [("leaves", "i64"), ("wanted", "i64"), ("counted", "i64"), ("results", "i64"), ("adding", "ptr")]
# Which slots of a node say that nothing has happened to it, in the order of the table of `fusegrad_intact`.
_TELLING = ("inputs", "freed", "preserved", "filled")


def _compared() -> str:
    """LLVM IR that compares these slots with the words of the table."""
    lines, before = [], "true"
    for number, name in enumerate(_TELLING):
        until = "%same" if name == _TELLING[-1] else f"%until.{name}"
        lines += [
            f"%{name}.at = getelementptr i8, ptr %node, i64 {{{name}}}",
            f"%{name} = load ptr, ptr %{name}.at",
            f"%{name}.known.at = getelementptr ptr, ptr %table, i64 {number}",
            f"%{name}.known = load ptr, ptr %{name}.known.at",
            f"%{name}.same = icmp eq ptr %{name}, %{name}.known",
            f"{until} = and i1 {before}, %{name}.same",
        ]
        before = until
    return "\n  ".join(lines)


def _places() -> dict[str, int]:
    """Where the slots of nodes and tensors are."""
    node = ("adding", "counters", "edges", "leaves", "numbers", "types", *_TELLING)
    return cpython_calls.slots_of(CompiledNode, node) | cpython_calls.slots_of(
        Tensor, ("grad_fn", "output_index")
    )


class Linking:
    """Puts nodes on the graph, between the tensors of a call.

    link(node, *given): the node, which is new, gets its leaves, types and edges, its counters and their
    numbers, and what adds for it; the results become its outputs. Gives False, and may have done half of it,
    where a tensor has no counter of its own.
    """

    __slots__ = ("_alive", "link")

    link: Callable[..., bool]

    def __init__(
        self,
        leaves: Sequence[int],
        wanted: Sequence[int],
        counted: Sequence[int],
        results: Sequence[tuple[int, int]],
        adding: Any = None,
        ends: Sequence[int] = (),
    ) -> None:
        """Which of `given` are the leaves of the arguments, get gradients, and have counters; results: which,
        and the number of the output. adding: the node's, where the edges of the numbers `ends` end at leaves.
        """
        numbers = [*range(len(wanted))]
        table = [len(leaves), len(wanted), len(counted), len(results), 0 if adding is None else id(adding)]
        table += leaves
        for number, which in enumerate(wanted):
            table += [which, id(numbers[number]), int(number in ends)]
        table += counted
        for which, number in results:
            table += [which, id(number)]
        self._alive = adding, numbers, results
        self.link = cpython_calls.native_function("link")(np.array(table, np.int64))


@functools.cache
def intact(filled: bool) -> Callable[[CompiledNode], bool]:
    """What asks whether nothing has been freed of a node, nor written of what it counts; it may say no where
    that is so, but never the other way.

    filled: what the node's `filled` must be.
    """
    known = ((), NOTHING_FREED, NOTHING_PRESERVED, filled)  # which stay: each is one object for good
    return cpython_calls.native_function("intact")(np.array([id(value) for value in known], np.int64))


@functools.cache
def count_writes() -> Callable[..., bool]:
    """What counts writes natively, called with (spot, *tensors): one into the memory of each, at `spot` as
    `views.count_writes` notes it, if that is not None. Gives False, and counts none, where a tensor has no
    counter of its own, or more is to be done than to note that.
    """
    return cpython_calls.native_function("count")(np.empty(0, np.int64))


_LINKING = _LISTS + _ROWS + _EDGES + _NOTE + _LINK.replace("{fields}", cpython_calls.loads(_FIELDS))
cpython_calls.TEXTS["link"] = cpython_calls.Text(_LINKING, places=_places)
cpython_calls.TEXTS["intact"] = cpython_calls.Text(
    _LISTS + _INTACT.replace("{slots}", _compared()), places=_places
)
cpython_calls.TEXTS["count"] = cpython_calls.Text(
    _LISTS + _COUNT, places=lambda: cpython_calls.slots_of(Tensor, ("alias",))
)
