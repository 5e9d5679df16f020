"""Writing functions of LLVM IR that compute with words: integers, addresses and truths.

A function is written as the Python that it is like: conditions and loops are `with` statements, values have
operators, and `return_` leaves from anywhere.

>>> f = FunctionWriter("first_above", {"numbers": "ptr", "count": "i64", "limit": "i64"}, "i64")
>>> numbers, count, limit = f.given
>>> with f.loop(count) as i, f.if_(numbers.load("i64", i) > limit):
...     f.return_(i)
>>> f.return_(-1)
>>> print(f.text().splitlines()[0])
define i64 @first_above(ptr %numbers, i64 %count, i64 %limit) nounwind {
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fusegrad.compiler.llvm.ir_writer import Writer, literal


class Word:
    """A value in a function that is being written; operators write what is done with it.

    type: LLVM's name of it. Comparisons are of signed numbers, divisions and `>>` of unsigned ones.
    """

    __slots__ = ("function", "text", "type")

    def __init__(self, function: FunctionWriter, text: str, type: str) -> None:
        self.function, self.text, self.type = function, text, type

    def __str__(self) -> str:
        return f"{self.type} {self.text}"

    def _with(self, code: str, other: Word | int, type: str = "") -> Word:
        text = other.text if isinstance(other, Word) else str(other)
        return self.function.emit(f"{code} {self}, {text}", type or self.type)

    def __add__(self, other: Word | int) -> Word:
        return self._with("add", other)

    def __sub__(self, other: Word | int) -> Word:
        return self._with("sub", other)

    def __mul__(self, other: Word | int) -> Word:
        return self._with("fmul" if self.type == "double" else "mul", other)

    def __floordiv__(self, other: Word | int) -> Word:
        return self._with("udiv", other)

    def __mod__(self, other: Word | int) -> Word:
        return self._with("urem", other)

    def __and__(self, other: Word | int) -> Word:
        return self._with("and", other)

    def __or__(self, other: Word | int) -> Word:
        return self._with("or", other)

    def __xor__(self, other: Word | int) -> Word:
        return self._with("xor", other)

    def __lshift__(self, other: Word | int) -> Word:
        return self._with("shl", other)

    def __rshift__(self, other: Word | int) -> Word:
        return self._with("lshr", other)

    def __invert__(self) -> Word:
        return self._with("xor", "true" if self.type == "i1" else -1)  # type: ignore[arg-type]

    def __eq__(self, other: Word | int) -> Word:  # type: ignore[override]
        return self._with("icmp eq", other, "i1")

    def __ne__(self, other: Word | int) -> Word:  # type: ignore[override]
        return self._with("icmp ne", other, "i1")

    def __lt__(self, other: Word | int) -> Word:
        return self._with("icmp slt", other, "i1")

    def __le__(self, other: Word | int) -> Word:
        return self._with("icmp sle", other, "i1")

    def __gt__(self, other: Word | int) -> Word:
        return self._with("icmp sgt", other, "i1")

    def __ge__(self, other: Word | int) -> Word:
        return self._with("icmp sge", other, "i1")

    __hash__ = None  # type: ignore[assignment]

    @property
    def is_null(self) -> Word:
        """Whether an address is that of nothing."""
        return self._with("icmp eq", "null", "i1")  # type: ignore[arg-type]

    def below(self, other: Word | int) -> Word:
        """Whether an unsigned number is less than another one."""
        return self._with("icmp ult", other, "i1")

    def to(self, type: str) -> Word:
        """The same number in a wider or narrower type, with its sign unless it is a truth."""
        widths = {"i1": 1, "i32": 32, "i64": 64, "i128": 128}
        if self.type == "ptr" or type == "ptr":
            code = "inttoptr" if type == "ptr" else "ptrtoint"
        elif widths[type] < widths[self.type]:
            code = "trunc"
        else:
            code = "zext" if self.type == "i1" else "sext"
        return self.function.emit(f"{code} {self} to {type}", type)

    def unsigned(self, type: str) -> Word:
        """The same number, taken for one without a sign, in a wider type or as a double."""
        return self.function.emit(f"{'uitofp' if type == 'double' else 'zext'} {self} to {type}", type)

    def bits(self, type: str) -> Word:
        """The same bits as another type of the same width."""
        return self.function.emit(f"bitcast {self} to {type}", type)

    # Memory at an address.

    def at(self, place: Word | int, element: str = "i64") -> Word:
        """The address so many elements on."""
        if isinstance(place, int) and place == 0:
            return self
        index = place if isinstance(place, Word) else self.function.number(place)
        return self.function.emit(f"getelementptr {element}, {self}, {index}", "ptr")

    def load(self, type: str = "i64", place: Word | int = 0) -> Word:
        """What lies so many elements of a type on."""
        return self.function.emit(f"load {type}, {self.at(place, type)}", type)

    def store(self, value: Word | int, place: Word | int = 0) -> None:
        """Put a value there, so many elements of its type on."""
        word = self.function.word(value)
        self.function.line(f"store {word}, {self.at(place, word.type)}")

    # Memory that other threads look at.

    def load_shared(self, order: str = "acquire") -> Word:
        """A number that others may be changing."""
        return self.function.emit(f"load atomic i64, {self} {order}, align 8", "i64")

    def store_shared(self, value: Word | int, order: str = "release") -> None:
        """A number for others to see."""
        self.function.line(f"store atomic {self.function.word(value)}, {self} {order}, align 8")

    def change_shared(self, operation: str, value: Word | int, order: str) -> Word:
        """Add, sub or and a number to one that others may be changing; gives the one before."""
        word = self.function.word(value)
        return self.function.emit(f"atomicrmw {operation} {self}, {word} {order}", "i64")

    def swap_shared(self, expected: Word | int, value: Word | int) -> Word:
        """Put a number in the place of an expected one; whether it was that."""
        numbers = f"{self.function.word(expected)}, {self.function.word(value)}"
        name = self.function.emit(f"cmpxchg {self}, {numbers} acquire monotonic", "pair")
        return self.function.emit(f"extractvalue {{ i64, i1 }} {name.text}, 1", "i1")


class Variable:
    """A word that gets other values; LLVM keeps it in a register."""

    __slots__ = ("_place", "_type")

    def __init__(self, place: Word, value: Word) -> None:
        self._place, self._type = place, value.type
        self.set(value)

    @property
    def value(self) -> Word:
        """What it is now."""
        return self._place.load(self._type)

    def set(self, value: Word | int) -> None:
        """What it is from now on."""
        self._place.store(value)


@dataclass(frozen=True)
class Repeat:
    """A loop without an end of its own."""

    function: FunctionWriter
    labels: tuple[str, str]

    def again(self) -> None:
        """`continue`"""
        self.function.jump(self.labels[0])

    def leave(self) -> None:
        """`break`"""
        self.function.jump(self.labels[1])


class FunctionWriter:
    """One function of words.

    takes: the types of its parameters, by name, which are `given`. declared: what it needs from elsewhere.
    """

    def __init__(
        self,
        name: str,
        takes: Mapping[str, str],
        gives: str = "void",
        attributes: str = "nounwind",
        private: bool = False,
    ) -> None:
        self.name, self.gives, self.attributes, self.private = name, gives, attributes, private
        self.given = [Word(self, f"%{parameter}", type) for parameter, type in takes.items()]
        self.declared: set[str] = set()
        self.called: dict[str, str] = {}  # the declarations of the functions that are called
        self._writer = Writer(self.declared)
        self._returned: list[tuple[str, str]] = []  # values, and the blocks that they come from
        self.null = Word(self, "null", "ptr")
        self.true, self.false = Word(self, "true", "i1"), Word(self, "false", "i1")

    # Values.

    def number(self, value: float, type: str = "i64") -> Word:
        """A number that is known now."""
        return Word(self, literal(value, "f64" if type == "double" else "i64"), type)

    def word(self, value: Word | int) -> Word:
        """A number that is known now, or any other word."""
        return value if isinstance(value, Word) else self.number(value)

    def symbol(self, name: str, type: str = "i8") -> Word:
        """The address of something outside that has a name."""
        self.declared.add(f"@{name} = external global {type}")
        return Word(self, f"@{name}", "ptr")

    def address_of(self, name: str) -> Word:
        """The address of a function of the same module."""
        return Word(self, f"@{name}", "ptr")

    def select(self, condition: Word, a: Word, b: Word) -> Word:
        """`a if condition else b`, of which both are computed."""
        return self.emit(f"select {condition}, {a}, {b}", a.type)

    def variable(self, value: Word | int = 0) -> Variable:
        """What can get another value."""
        word = self.word(value)
        name = self._writer.name("s")
        self._writer.entry.append(f"  {name} = alloca {word.type}")
        return Variable(Word(self, name, "ptr"), word)

    def room(self, type: str, count: Word | int) -> Word:
        """The address of so many elements on the stack."""
        return self.emit(f"alloca {type}, {self.word(count)}", "ptr")

    def stack(self, type: str, count: int) -> Word:
        """The address of so many elements on the stack, taken once at the function's start."""
        return Word(self, self._writer.stack(f"[{count} x {type}]"), "ptr")

    def emit(self, text: str, type: str) -> Word:
        """What an instruction gives."""
        assert not self._writer.ended, "what follows a return or a jump is never reached"
        return Word(self, self._writer.emit(text, "i64").text, type)

    def line(self, text: str) -> None:
        """An instruction that gives nothing."""
        assert not self._writer.ended, "what follows a return or a jump is never reached"
        self._writer.line(text)

    # Calls.

    def call(self, name: str, *args: Word | int, gives: str = "void") -> Word:
        """Call a function, or an intrinsic, by its name."""
        words = [*map(self.word, args)]
        self.called[name] = f"declare {gives} @{name}({', '.join(word.type for word in words)})"
        return self._call(f"@{name}", words, gives)

    def call_address(self, address: Word, *args: Word | int) -> None:
        """Call a function by its address, which gives nothing."""
        self._call(address.text, [*map(self.word, args)], "void")

    def _call(self, target: str, words: Sequence[Word], gives: str) -> Word:
        text = f"call {gives} {target}({', '.join(map(str, words))})"
        if gives != "void":
            return self.emit(text, gives)
        self.line(text)
        return Word(self, "", "void")

    # Control flow.

    @contextlib.contextmanager
    def if_(self, condition: Word) -> Iterator[None]:
        """`if condition:`"""
        with self._writer.when(condition.text):
            yield

    @contextlib.contextmanager
    def loop(self, count: Word | int) -> Iterator[Word]:
        """`for i in range(count):`"""
        with self._writer.loop("0", self.word(count).text) as index:
            yield Word(self, index, "i64")

    @contextlib.contextmanager
    def repeat(self) -> Iterator[Repeat]:
        """`while True:`"""
        with self._writer.repeat() as labels:
            yield Repeat(self, labels)

    def jump(self, label: str) -> None:
        """Go on at a label."""
        self._writer.jump(label)

    def return_(self, value: Word | int | None = None) -> None:
        """`return value`"""
        text = "" if value is None else self.word(value).text
        self._returned.append((text, self._writer.block))
        self.jump("leaving")

    def leaving(self, result: Word) -> Word:
        """What is done at last with whatever is returned; gives what goes out."""
        return result

    def text(self) -> str:
        """The function as LLVM reads it. To be asked for once, when all is written."""
        w = self._writer
        if not w.ended:
            assert self.gives == "void", "a value is to be returned"
            self.return_()
        w.start("leaving")
        if self.gives == "void":
            w.line("ret void")
        else:
            ways = ", ".join(f"[ {value}, %{block} ]" for value, block in self._returned)
            w.line(f"%result = phi {self.gives} {ways}")
            w.line(f"ret {self.leaving(Word(self, '%result', self.gives))}")
        takes = ", ".join(map(str, self.given))
        whole = f"{'private ' if self.private else ''}{self.gives} @{self.name}({takes})"
        return "\n".join([f"define {whole} {self.attributes} {{", "entry:", *w.entry, *w.lines, "}"])


def module_text(functions: Sequence[FunctionWriter]) -> str:
    """A module of functions, which may call each other, with the declarations of all others."""
    texts = [function.text() for function in functions]
    own = {function.name for function in functions}
    declared = {line for function in functions for line in function.declared}
    declared |= {line for function in functions for name, line in function.called.items() if name not in own}
    return "\n\n".join(["\n".join(sorted(declared)), *texts])
