"""Writing LLVM IR as text: typed values, vectors, blocks, loops, and vector arithmetic."""

from __future__ import annotations

import contextlib
import functools
import math
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from fusegrad.compiler.kernel.dtypes import DTYPES, is_float
from fusegrad.compiler.llvm.target import Target
from fusegrad.eager.core.dtypes import CUT_IN, FROM_SHORT

RARE = "!0"  # what says of a branch that it is rare
LINE = 64  # bytes that a cache fetches at a time

# What depends on nothing but its operands, and may be done where it turns out not to be needed. Integer
# division may not; what reads memory has a `ptr` among its operands, but for the address itself.
_PURE = re.compile(
    r"getelementptr|(?:[fl]?add|f?sub|f?mul|fdiv|fneg|and|x?or|shl|[al]shr|[fi]cmp|select|bitcast|[sz]ext|trunc|fpext|"
    r"fptrunc|[us]itofp|fptosi|insertelement|extractelement|shufflevector|call [^@]*@llvm\.)(?!.*\bptr\b)"
)
_NAMES = re.compile(r"%\w+")
# Integer arithmetic that gives its first operand back.
_NOTHING_DONE = {("add", "0"), ("sub", "0"), ("mul", "1"), ("shl", "0")}


@dataclass(frozen=True, slots=True)
class Val:
    """An SSA value: its text (`%12` or a literal), its dtype, and its lanes (0: a scalar)."""

    text: str
    dtype: str
    lanes: int = 0

    @property
    def type(self) -> str:
        return vector_type(DTYPES[self.dtype].register, self.lanes)

    def __str__(self) -> str:
        return f"{self.type} {self.text}"


@functools.cache
def vector_type(element: str, lanes: int) -> str:
    return f"<{lanes} x {element}>" if lanes else element


@functools.lru_cache(maxsize=4096)
def _repeated(value: Val, lanes: int) -> Val:
    """A constant in every lane."""
    return Val("<" + ", ".join([str(value)] * lanes) + ">", value.dtype, lanes)


def literal(value: Any, dtype: str) -> str:
    """A number as LLVM writes a constant of `dtype`."""
    if dtype == "bool":
        return "true" if value else "false"
    if not is_float(dtype):
        return str(int(value))
    if dtype == "f32":
        # LLVM writes floats as the bits of the equal double.
        with contextlib.suppress(OverflowError):
            value = struct.unpack("<f", struct.pack("<f", value))[0]
            return "0x" + struct.pack(">d", value).hex().upper()
        value = math.copysign(math.inf, value)
    return "0x" + struct.pack(">d", value).hex().upper()


class Writer:
    """Appends instructions to one function: each where it is done least often, and none a second time.

    LLVM would move and unite them as well, for up to a third of all its time.
    declared: intrinsics and symbols that the module needs. target: the machine; None where its code is the
    same for all.
    """

    def __init__(self, declared: set[str], target: Target | None = None) -> None:
        self.target = target
        self.calls_functions = False  # whether elementary functions are called, not written out
        self.contracts = False  # whether LLVM may round a product and the sum that it goes into once
        self.lines: list[str] = []
        self.entry: list[str] = []
        self.declared = declared
        self._count = 0
        self.block = "entry"
        self.ended = False  # whether a jump has left the block: nothing more belongs in it
        self._before: list[list[str]] = []  # of each loop around: what is done once, before it begins
        self._depth: dict[str, int] = {}  # in how many of these loops a name is computed anew
        # The names of what was computed, by its text: in the function, and in each loop and condition around.
        self._known: list[dict[str, str]] = [{}]
        self._loops: list[dict[str, str]] = []  # those of them that are of loops
        # Of each loop around: what else is counted on, its type, start, and what it is the next time.
        self._counters: list[list[tuple[str, str, str, str]]] = []

    def name(self, prefix: str = "v") -> str:
        self._count += 1
        name = f"%{prefix}{self._count}"
        self._depth[name] = len(self._before)
        return name

    def line(self, text: str) -> None:
        self.lines.append("  " + text)

    def emit(self, text: str, dtype: str, lanes: int = 0) -> Val:
        """`%new = text`, before the outermost loop that has no part in it; or the name that it has."""
        if not _PURE.match(text):
            name = self.name()
            self.line(f"{name} = {text}")
            return Val(name, dtype, lanes)
        for known in self._known:
            if text in known:
                return Val(known[text], dtype, lanes)
        name = self.name()
        depth = max(map(self.depth, _NAMES.findall(text)), default=0)
        if depth < len(self._before):
            self._before[depth].append(f"  {name} = {text}")
            self._depth[name] = depth
            self._loops[depth][text] = name
        else:
            self.line(f"{name} = {text}")
            self._known[-1][text] = name
        return Val(name, dtype, lanes)

    def depth(self, name: str) -> int:
        """In how many of the loops around a name, or a number, is computed anew."""
        return self._depth.get(name, 0)

    def stack(self, type_: str) -> str:
        """Room on the stack, taken once at the function's start."""
        name = self.name("s")
        self.entry.append(f"  {name} = alloca {type_}, align 64")
        return name

    # Control flow.

    def start(self, label: str) -> None:
        """A block that may be come to from anywhere."""
        self._known[-1].clear()
        self._begin(label)

    def _begin(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.block, self.ended = label, False

    def jump(self, label: str) -> None:
        """Go on at a block, unless the one that is being written has been left before."""
        if not self.ended:
            self.line(f"br label %{label}")
        self.ended = True

    @contextlib.contextmanager
    def loop(self, start: str, stop: str, step: str = "1") -> Iterator[str]:
        """`for i in range(start, stop, step)`; gives the i64 name of i."""
        number = self._count = self._count + 1
        head, body, done = f"head{number}", f"body{number}", f"done{number}"
        before = self.block
        once: list[str] = []
        first = len(self.lines)
        self.lines.append("")  # what is done once, when all of it is known
        self._before.append(once)
        self._known.append({})
        self._loops.append(self._known[-1])
        self._counters.append([])
        index, following = self.name("i"), self.name("n")
        self.line(f"br label %{head}")
        self._begin(head)
        place = len(self.lines)
        self.lines.append("")  # the phi, once the last block of the body is known
        test = self.name()
        self.line(f"{test} = icmp slt i64 {index}, {stop}")
        self.line(f"br i1 {test}, label %{body}, label %{done}")
        self._begin(body)
        yield index
        self.line(f"{following} = add nsw i64 {index}, {step}")
        self.line(f"br label %{head}")
        self.lines[place : place + 1] = [
            f"  {name} = phi {type_} [ {begin}, %{before} ], [ {then}, %{self.block} ]"
            for name, type_, begin, then in ((index, "i64", start, following), *self._counters[-1])
        ]
        self.lines[first : first + 1] = once
        for stack in (self._before, self._known, self._loops, self._counters):
            stack.pop()
        self._begin(done)

    def counter(self, start: str, step: str, element: str = "") -> str:
        """What is `start` in the first round of the loop around, and `step` more in each further one: an
        integer, or the address of an `element`, that many elements on. Asked for before any condition in it.
        """
        number, name = len(self._before), self.name("c")
        type_ = "ptr" if element else "i64"
        following = self.offset(name, step, element) if element else self.index("add", name, step)
        assert self.depth(start) < number and self.depth(step) < number, "known before the loop"
        self._counters[-1].append((name, type_, start, following))
        return name

    @contextlib.contextmanager
    def when(self, condition: str, rare: bool = False) -> Iterator[None]:
        """`if condition:`, without else and without values that leave it.

        rare: it hardly ever holds; else LLVM computes what is short in any case, and picks from it.
        """
        number = self._count = self._count + 1
        then, after = f"then{number}", f"after{number}"
        if rare:
            self.declared.add(f'{RARE} = !{{!"branch_weights", i32 1, i32 2000}}')
        self.line(f"br i1 {condition}, label %{then}, label %{after}" + (f", !prof {RARE}" if rare else ""))
        self._begin(then)
        self._known.append({})
        yield
        self._known.pop()
        self.jump(after)
        self._begin(after)

    @contextlib.contextmanager
    def repeat(self) -> Iterator[tuple[str, str]]:
        """`while True:`; gives the labels of its beginning and of what comes after it, to jump to."""
        number = self._count = self._count + 1
        again, after = f"again{number}", f"after{number}"
        self.jump(again)
        self._begin(again)
        self._known.append({})
        yield again, after
        self._known.pop()
        self.jump(again)
        self._begin(after)

    # Integers for addresses.

    def index(self, op: str, a: str, b: str) -> str:
        """Integer arithmetic on i64 names or literals."""
        return a if (op, b) in _NOTHING_DONE else self.emit(f"{op} i64 {a}, {b}", "i64").text

    def load_index(self, pointer: str, place: int) -> str:
        """`((i64*)pointer)[place]`."""
        return self.emit(f"load i64, ptr {self.offset(pointer, str(place), 'i64')}", "i64").text

    def offset(self, pointer: str, index: str, element: str = "i8") -> str:
        """The address `index` elements after `pointer`."""
        if index == "0":
            return pointer
        return self.emit(f"getelementptr {element}, ptr {pointer}, i64 {index}", "i64").text

    def prefetch(self, address: str) -> None:
        """Have the line at an address fetched into the nearest cache; there need not be one."""
        self.declared.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        self.line(f"call void @llvm.prefetch.p0(ptr {address}, i32 0, i32 3, i32 1)")

    # Values.

    def constant(self, value: Any, dtype: str, lanes: int = 0) -> Val:
        return self.splat(Val(literal(value, dtype), dtype), lanes)

    def splat(self, value: Val, lanes: int) -> Val:
        """A scalar in every lane."""
        if value.lanes or not lanes:
            return value
        vector = vector_type(DTYPES[value.dtype].register, lanes)
        if not value.text.startswith("%"):
            return _repeated(value, lanes)
        first = self.emit(f"insertelement {vector} poison, {value}, i32 0", value.dtype, lanes)
        zeros = f"<{lanes} x i32> zeroinitializer"
        return self.emit(f"shufflevector {first}, {vector} poison, {zeros}", value.dtype, lanes)

    def lane_numbers(self, lanes: int, dtype: str = "i64") -> Val:
        """0, 1, 2 and so on, one in each lane."""
        return Val("<" + ", ".join(f"{dtype} {i}" for i in range(lanes)) + ">", dtype, lanes)

    def first_lanes(self, count: str, lanes: int) -> Val:
        """True in the first `count` (i64) lanes, of which there may be more, or less than none."""
        number = Val(count, "i64")
        if lanes > 4:
            # Short integers are compared in as many vectors as floats fill; of long ones it takes two, and
            # to put them together six instructions.
            number = self.call("llvm.smin", [number, self.constant(lanes, "i64")])
            number = self.convert(self.call("llvm.smax", [number, self.constant(0, "i64")]), "i32")
        return self.compare("gt", self.splat(number, lanes), self.lane_numbers(lanes, number.dtype))

    def shuffled(self, a: Val, b: Val, places: list[int]) -> Val:
        """The lanes at `places` of two vectors of one width, counted through both."""
        order = ", ".join(f"i32 {place}" for place in places)
        return self.emit(f"shufflevector {a}, {b}, <{len(places)} x i32> <{order}>", a.dtype, len(places))

    def call(self, name: str, args: list[Val], dtype: str | None = None) -> Val:
        """An intrinsic overloaded on its first argument's type, or a library function."""
        lanes = args[0].lanes
        result = dtype or args[0].dtype
        suffix = f"v{lanes}" if lanes else ""
        symbol = f"{name}.{suffix}{args[0].dtype}" if name.startswith("llvm.") else name
        result_type = vector_type(DTYPES[result].register, lanes)
        self.declared.add(f"declare {result_type} @{symbol}({', '.join(a.type for a in args)})")
        return self.emit(f"call {result_type} @{symbol}({', '.join(map(str, args))})", result, lanes)

    def function(
        self, symbol: str, operands: list[Val], body: Callable[..., Val], attributes: str = ""
    ) -> str:
        """The symbol of a function of so many values, which the module has once and which is not inlined.

        body: given a writer and the parameters, writes what it computes. It stands in one line, among the
        declarations, so that modules that are joined have it once.
        """
        mark = f"@{symbol}("
        if not any(mark in text for text in self.declared if text.startswith("define private ")):
            inner = Writer(self.declared, self.target)
            given = [Val(f"%a{i}", o.dtype, o.lanes) for i, o in enumerate(operands)]
            result = body(inner, *given)
            parameters = ", ".join(map(str, given))
            head = f"define private {result.type} {mark}{parameters}) noinline nounwind {attributes}"
            lines = ["{ entry:", *inner.entry, *inner.lines, f"ret {result}", "}"]
            self.declared.add(" ".join([head, *(line.strip() for line in lines)]))
        return symbol

    def binary(self, op: str, a: Val, b: Val) -> Val:
        return self.emit(f"{op} {a}, {b.text}", a.dtype, a.lanes)

    def negated(self, value: Val) -> Val:
        """`not value`, of booleans."""
        return self.binary("xor", value, self.constant(True, "bool", value.lanes))

    def compare(self, condition: str, a: Val, b: Val) -> Val:
        """`condition` is eq, ne, lt, le, gt or ge; comparisons with NaN are false, ne true."""
        if is_float(a.dtype):
            code = "fcmp une" if condition == "ne" else f"fcmp o{condition}"
        elif condition in ("eq", "ne"):
            code = f"icmp {condition}"
        else:
            code = f"icmp {'u' if a.dtype in ('u8', 'bool') else 's'}{condition}"
        return self.emit(f"{code} {a}, {b.text}", "bool", a.lanes)

    def select(self, condition: Val, a: Val, b: Val) -> Val:
        return self.emit(f"select {condition}, {a}, {b}", a.dtype, a.lanes)

    def bits(self, value: Val, dtype: str) -> Val:
        """The same bits read as another dtype of the same width."""
        target = vector_type(DTYPES[dtype].register, value.lanes)
        return self.emit(f"bitcast {value} to {target}", dtype, value.lanes)

    def convert(self, value: Val, dtype: str) -> Val:
        """A value as another dtype, as a C cast does it; what C leaves open is in eager's `CUT_IN`."""
        source, lanes = value.dtype, value.lanes
        if source == dtype:
            return value
        target = vector_type(DTYPES[dtype].register, lanes)
        if dtype == "bool":
            return self.compare("ne", value, self.constant(0, source, lanes))
        if is_float(source) and is_float(dtype):
            code = "fpext" if DTYPES[dtype].size > DTYPES[source].size else "fptrunc"
        elif is_float(source):
            return self._cut(value, dtype)
        elif is_float(dtype):
            code = "uitofp" if source in ("u8", "bool") else "sitofp"
        elif DTYPES[dtype].size == DTYPES[source].size and source != "bool":
            return Val(value.text, dtype, lanes)
        elif DTYPES[dtype].size > DTYPES[source].size or source == "bool":
            code = "zext" if source in ("u8", "bool") else "sext"
        else:
            code = "trunc"
        return self.emit(f"{code} {value} to {target}", dtype, lanes)

    def _cut(self, value: Val, dtype: str) -> Val:
        """A float as an integer, as eager's `CUT_IN` says.

        What LLVM gives for one that does not fit is poison, of which it may make anything. That is
        not chosen, and the choice is the float's own.
        """
        wide = CUT_IN[FROM_SHORT[dtype]].short
        limit = 2.0 ** (8 * DTYPES[wide].size - 1)
        size = self.call("llvm.fabs", [value])
        fits = self.compare("lt", size, self.constant(limit, value.dtype, value.lanes))
        register = vector_type(DTYPES[wide].register, value.lanes)
        whole = self.emit(f"fptosi {value} to {register}", wide, value.lanes)
        smallest = self.constant(-int(limit), wide, value.lanes)
        return self.convert(self.select(fits, whole, smallest), dtype)

    def fold(self, value: Val, combine: Any) -> Val:
        """The lanes of a vector combined in pairs, halves on halves."""
        lanes = value.lanes
        while lanes > 1:
            half = lanes // 2
            low = ", ".join(f"i32 {i}" for i in range(half))
            high = ", ".join(f"i32 {i}" for i in range(half, lanes))
            undefined = f"{value.type} poison"
            a = self.emit(f"shufflevector {value}, {undefined}, <{half} x i32> <{low}>", value.dtype, half)
            b = self.emit(f"shufflevector {value}, {undefined}, <{half} x i32> <{high}>", value.dtype, half)
            value, lanes = combine(a, b), half
        return self.emit(f"extractelement {value}, i32 0", value.dtype)
