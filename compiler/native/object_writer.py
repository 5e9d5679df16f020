"""Writing native functions: what is in Python's objects, by names.

    def _written() -> list[FunctionWriter]:
        f = ObjectWriter("fusegrad_is_array", borrowed=True)
        f.require(f.type_of(f.items.load("ptr")) == f.object("ndarray"))
        f.return_(f.object("true"))
        return [f]

A word that stands for an object is its address. None of this counts references, but where it says so.
"""

from __future__ import annotations

from fusegrad.compiler.llvm.function_writer import FunctionWriter, Word
from fusegrad.compiler.native.layouts import layouts, slot_of
from fusegrad.eager.core.tensor import Tensor


class Objects(FunctionWriter):
    """A function that looks into objects."""

    def object(self, name: str) -> Word:
        """One that is known by name (`core.py`): none, true, list, ndarray, float32 and so on."""
        return self.symbol(f"fusegrad_{name}")

    def type_of(self, owner: Word) -> Word:
        """Its class."""
        return owner.at(layouts().type, "i8").load("ptr")

    def is_a(self, owner: Word, name: str) -> Word:
        """Whether it is of a class that is known by name, and of no subclass."""
        return self.type_of(owner) == self.object(name)

    def slot(self, owner: Word, name: str, kind: type = Tensor) -> Word:
        """The address of a slot of an object, which has null where the slot is empty."""
        return owner.at(slot_of(kind, name), "i8")

    def tensor_array(self, tensor: Word) -> Word:
        """The array of a tensor, or null."""
        return self.slot(tensor, "array").load("ptr")

    def array_data(self, array: Word) -> Word:
        """The address of an array's memory."""
        return array.at(layouts().array_data, "i8").load("ptr")

    def array_ndim(self, array: Word) -> Word:
        """How many dimensions an array has."""
        return array.at(layouts().array_ndim, "i8").load("i32").to("i64")

    def array_shape(self, array: Word) -> Word:
        """Where the lengths of an array are."""
        return array.at(layouts().array_shape, "i8").load("ptr")

    def array_strides(self, array: Word) -> Word:
        """Where the strides of an array are."""
        return array.at(layouts().array_strides, "i8").load("ptr")

    def array_dtype(self, array: Word) -> Word:
        """The dtype of an array."""
        return array.at(layouts().array_dtype, "i8").load("ptr")

    def array_flags(self, array: Word) -> Word:
        """The flags of an array, as bits."""
        return array.at(layouts().array_flags, "i8").load("i32").to("i64")

    def tuple_items(self, row: Word) -> Word:
        """Where the items of a tuple are."""
        return row.at(layouts().tuple_items, "i8")

    def referent(self, reference: Word) -> Word:
        """What a weak reference refers to; None where that is gone."""
        return reference.at(layouts().referent, "i8").load("ptr")

    def class_version(self, kind: Word) -> Word:
        """The version of a class, 0 if it has none."""
        return kind.at(layouts().class_version, "i8").load("i32").unsigned("i64")

    # References.

    def hold(self, owner: Word) -> None:
        """Have a reference more to an object."""
        self.call("Py_IncRef", owner)

    def let_go(self, owner: Word) -> None:
        """Have a reference less to an object, which may be the last one."""
        self.call("Py_DecRef", owner)


class ObjectWriter(Objects):
    """A function that CPython calls: with a table of words, and with the objects that it is called with.

    borrowed: whether it returns objects to which it has no reference of its own; null is an exception.
    """

    def __init__(self, name: str, borrowed: bool, private: bool = False) -> None:
        super().__init__(name, {"of": "ptr", "items": "ptr", "count": "i64"}, "ptr", private=private)
        table, self.items, self.count = self.given
        self.table, self._borrowed = self.array_data(table), borrowed

    def words(self, *types: str) -> list[Word]:
        """The first words of the table."""
        return [self.table.load(type, place) for place, type in enumerate(types)]

    def require(self, condition: Word) -> None:
        """Answer no unless it holds."""
        with self.if_(~condition):
            self.return_(self.object("false"))

    def leaving(self, result: Word) -> Word:
        if self._borrowed:
            self.hold(result)
        return result
