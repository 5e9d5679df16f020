"""Call plans as straight Python functions, for calls that come again.

    leaf0, leaf1, = args
    if not (match2(leaf0, leaf1)): return MISSED
    run0_3, run0_3_tensor, = make4(leaf0.array, leaf1.array, nothing)
    result0 = run0_3_tensor
    return result0

What is spelled out is what the interpreter does with the same steps (`steps.py`), with these differences:
calls of a few functions become Python's own syntax; a program that is one native call gets its arrays in
lines of their own; and the arrays, tensors and objects that a small program makes are made in that call.
"""

from __future__ import annotations

import functools
import math
import operator
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from fusegrad.compiler.call_plan.expressions import (
    Call,
    Constant,
    Either,
    Expression,
    Like,
    Made,
    Name,
    Row,
    like,
)
from fusegrad.compiler.call_plan.steps import Ask, Assign, Attempt, Do, Run, Step, Unless, Unpack
from fusegrad.compiler.native.making import Making
from fusegrad.compiler.placement import memory_plan
from fusegrad.compiler.placement.memory_plan import RESHAPE, Placed, viewed
from fusegrad.compiler.runtime.allocator import SMALLEST_POOLED, pool, rounded
from fusegrad.eager.core.errors import user_spot
from fusegrad.eager.core.handlers import handler_raised
from fusegrad.eager.core.op import EXPLAINED, wrap
from fusegrad.eager.core.state import state

# What is not spelled `function(arguments)`. The written function and its caller are two frames of our own.
SPELLED: dict[Any, str] = {
    operator.is_: "{0} is {1}",
    operator.is_not: "{0} is not {1}",
    operator.eq: "{0} == {1}",
    operator.getitem: "{0}[{1}]",
    np.ndarray.item: "{0}.item()",
    user_spot: "user_spot(3)",
}
for _symbol, _names in {
    "+": "add iadd", "-": "sub isub", "*": "mul imul", "/": "truediv itruediv", "//": "floordiv ifloordiv",
    "%": "mod imod", "**": "pow ipow", "<": "lt", "<=": "le", ">": "gt", ">=": "ge", "!=": "ne",
}.items():  # fmt: skip
    SPELLED |= {getattr(operator, name): f"({{0}} {_symbol} {{1}})" for name in _names.split()}


class TooDifficult(Exception):
    """Something that is not written out."""


class _Array(NamedTuple):
    """An array that a program makes: what it is called in the source, and its slot in native calls."""

    name: str
    slot: int
    shape: tuple[int, ...]
    dtype: np.dtype


@dataclass
class _Making:
    """A line of the source that runs a small program, if there is any, by the function `run`.

    given: what that takes. tensors: the numbers of the arrays that are wrapped. like: what another object
    that is made is like, and what it is called.
    """

    placed: Placed | None
    run: str
    line: int
    given: Sequence[str]
    arrays: Sequence[_Array]
    tensors: list[int] = field(default_factory=list)
    like: tuple[Any, str] | None = None

    def text(self) -> str:
        names = [array.name for array in self.arrays]
        names += [f"{self.arrays[number].name}_tensor" for number in self.tensors]
        names += [self.like[1]] if self.like is not None else []
        assigned = f"{', '.join(names)}, = " if names else ""
        return f"{assigned}{self.run}({', '.join(self.given)})"

    def made(self) -> Making:
        like = self.like[0] if self.like is not None else None
        if self.placed is None:
            return Making(None, like=like)
        arrays = [(array.slot, array.shape, array.dtype) for array in self.arrays]
        return Making(self.placed.calls, self.placed.arena_bytes, arrays, self.tensors, like)


class Writer:
    """A function that is being written.

    missed: what it gives for a call that it does not answer.
    """

    def __init__(self, missed: Any) -> None:
        self.lines: list[str] = []
        self.used: set[str] = set()  # the variables that lines read
        self.runs: dict[str, list[str]] = {}  # what the arrays are called of programs that are written out
        self.making: list[_Making] = []  # small programs that run
        self.shaped: dict[str, Sequence[Any]] = {}  # of their arrays, those made in the shape of these views
        self.constants: dict[str, Any] = {
            "MISSED": missed,
            "EXPLAINED": EXPLAINED,
            "state": state,
            "placement": memory_plan,
            "user_spot": user_spot,
            "pooled": pool.array,
            "ndarray": np.ndarray,
            "block": pool.block,
            "nothing": memory_plan.NOTHING,
        }
        self._named: dict[int, str] = {id(value): name for name, value in self.constants.items()}

    # The function.

    def write(self, steps: Iterable[Step]) -> None:
        """Lines for steps."""
        for step in steps:
            _STEPS[type(step)](self, step)

    def returns(self, value: Expression) -> None:
        """A line that gives the value."""
        self.lines.append(f"return {self.text_of(value)}")

    def text(self, arguments: str) -> str:
        """The source of the function."""
        for making in self.making:
            self.lines[making.line] = making.text()
            made = self.constants[f"{making.run}_alive"] = making.made()
            self.constants[making.run] = made.run
        return "\n    ".join([f"def answer({arguments}):", *filter(None, self.lines)]) + "\n"

    def function(self, text: str, name: str) -> Any:
        """The function of this source; its globals are its constants, without itself.

        name: what it is. Its file counts as fusegrad's own, so that messages name the user's line behind it.
        """
        exec(_compiled(text, os.path.join(os.path.dirname(__file__), f"<{name}>")), self.constants)
        return self.constants.pop("answer")

    # Expressions.

    def text_of(self, value: Expression) -> str:
        """An expression in the source."""
        return _EXPRESSIONS[type(value)](self, value)

    def constant(self, stem: str, value: Any) -> str:
        """A name in the source for a value that is known now."""
        name = self._named.get(id(value))
        if name is None:
            name = self._named[id(value)] = f"{stem}{len(self.constants)}"
            self.constants[name] = value
        return name

    def _name(self, name: Name) -> str:
        self.used.add(name.name)
        return name.name

    def _constant(self, value: Constant) -> str:
        known = value.value
        if known is None or known is True or known is False or type(known) is int or type(known) is str:
            return repr(known)
        stem = getattr(known, "__name__", type(known).__name__)
        return self.constant(stem if stem.isidentifier() else "constant", known)

    def _call(self, call: Call) -> str:
        if call.function is wrap:
            return self._tensor(call)
        arguments = [self.text_of(argument) for argument in call.arguments]
        if call.function is getattr or call.function is setattr:
            (name,) = (a.value for a in call.arguments[1:2] if isinstance(a, Constant))
            assigned = f" = {arguments[2]}" if call.function is setattr else ""
            return f"{arguments[0]}.{name}{assigned}"
        spelled = SPELLED.get(call.function) if isinstance(call.function, _HASHABLE) else None
        if spelled is not None:
            return spelled.format(*arguments)
        stem = getattr(call.function, "__name__", "call").strip("_")
        return (
            f"{self.constant(stem if stem.isidentifier() else 'call', call.function)}({', '.join(arguments)})"
        )

    def _tensor(self, call: Call) -> str:
        """A new tensor; it is made natively where its array is, once."""
        (array,) = map(self.text_of, call.arguments)
        for making in self.making:
            for number, made in enumerate(making.arrays):
                if made.name == array and number not in making.tensors:
                    making.tensors.append(number)
                    return f"{array}_tensor"
        return f"{self.constant('wrap', wrap)}({array})"

    def _row(self, row: Row) -> str:
        items = "".join(f"{self.text_of(item)}, " for item in row.items)
        return f"[{items}]" if row.kind is list else f"({items})"

    def _either(self, either: Either) -> str:
        return f"({self.text_of(either.first)} or {self.text_of(either.second)})"

    def _made(self, made: Made) -> str:
        names = self.runs.get(made.run)
        array = f"{made.run}[{made.index}]" if names is None else names[made.index]
        if not made.views or self.shaped.get(array) is made.views:
            return array
        return f"{self.constant('viewed', viewed)}({array}, {self.constant('views', made.views)})"

    def _like(self, value: Like) -> str:
        return f"{self.constant('like', like)}({self.constant('template', value.template)})"

    # Steps.

    def _assign(self, step: Assign) -> None:
        if isinstance(step.value, Like):
            # The latest native call makes it, or one of its own.
            latest = self.making[-1] if self.making else None
            making = latest if latest is not None and latest.like is None else self._make(None, [], [])
            making.like = step.value.template, step.name
            return
        self.lines.append(f"{step.name} = {self.text_of(step.value)}")

    def _attempt(self, step: Attempt) -> None:
        line = f"    {step.name} = {self.text_of(step.value)}"
        self.lines += ["try:", line, *self.unless_it_raises()]

    def _unpack(self, step: Unpack) -> None:
        names = f"{', '.join(step.names)}," if step.names else "()"
        self.lines.append(f"{names} = {self.text_of(step.value)}")

    def _do(self, step: Do) -> None:
        self.lines.append(self.text_of(step.value))

    def _unless(self, step: Unless) -> None:
        line = f"if not ({self.text_of(step.condition)}): return MISSED"
        if step.refuses:
            self.lines += ["try:", f"    {line}", *self.unless_it_raises()]
        else:
            self.lines.append(line)

    def unless_it_raises(self) -> list[str]:
        """The lines behind a `try:` that leaves the function where it raises something."""
        raised = self.constant("handler_raised", handler_raised)
        return ["except Exception:", f"    if {raised}(): raise", "    return MISSED"]

    def _ask(self, step: Ask) -> None:
        self.used.add("leaves")
        given = ", ".join(["leaves", *map(self.text_of, step.numbers)])
        self.lines.append(f"{step.name} = {self.constant('ask', step.host.array)}({given})")
        self.lines.append(f"if {step.name} is None: return MISSED")
        if step.copied:
            self.lines.append(f"{step.name} = {self.constant('copied', np.array)}({step.name})")

    # Programs.

    def _run(self, step: Run) -> None:
        placed = step.program.placed()
        self.constant("placed", placed)  # which keeps alive what its native calls read
        inputs = [self.text_of(value) for value in step.inputs]
        if placed.calls is None:
            assert not step.begin, "what NumPy runs may stop"
            run = self.constant("run", step.program.run)
            self.lines += ["try:", f"    {step.name} = {run}([{', '.join(inputs)}])"]
            self.lines += ["except EXPLAINED: return MISSED"]
            return
        names = [*inputs, *["nothing"] * (len(placed.arrays) - len(inputs))]
        small = self._small_arrays(step, placed, names)
        made_natively = placed.is_small and not step.begin
        if not made_natively:
            for array in small:
                layout = self.constant("shape", array.shape), self.constant("dtype", array.dtype)
                self.lines.append(f"{array.name} = placement.small_array({', '.join(layout)})")
        self._large_arrays(step, placed, names)
        self.runs[step.name] = names
        if made_natively:
            given = ["nothing" if name in (array.name for array in small) else name for name in names]
            self._make(placed, given, small)
        else:
            self._native_run(placed, names, step.begin)
        # Indices within bounds, as `Program.run` tests them.
        for check in step.program.checks:
            self.lines.append(f"if not {names[step.program.arrays[check]]}: return MISSED")

    def _small_arrays(self, step: Run, placed: Placed, names: list[str]) -> list[_Array]:
        """The small arrays that a program needs for its results, put into `names`."""
        small = []
        for index, shape, dtype in placed.small:
            name = names[index] = f"{step.name}_{index}"
            views = [chain for spot, chain in step.seen if spot == index]
            if len(views) == 1 and views[0] and all(view.op is RESHAPE for view in views[0]):
                # Native code asks for memory only.
                self.shaped[name], shape = views[0], views[0][-1].params["shape"]
            small.append(_Array(name, index + 1, shape, dtype))
        return small

    def _large_arrays(self, step: Run, placed: Placed, names: list[str]) -> None:
        """Lines that get the other arrays, whose names are put into `names`."""
        for index, shape, dtype, strides in placed.large:
            name = names[index] = f"{step.name}_{index}"
            layout = [self.constant("layout", x) for x in (shape, dtype, strides)]
            size = math.prod(shape) * dtype.itemsize
            made = f"pooled({', '.join(layout)})"
            if size >= SMALLEST_POOLED:  # what `Pool.array` does then
                made = f"ndarray({layout[0]}, {layout[1]}, block({rounded(size)}), 0, {layout[2]})"
            self.lines.append(f"{name} = {made}")

    def _make(self, placed: Placed | None, given: Sequence[str], arrays: Sequence[_Array]) -> _Making:
        """A line that runs a small program, which is written when it is known what it makes."""
        run = f"make{len(self.constants)}"
        self.constants[run] = None
        making = _Making(placed, run, len(self.lines), given, arrays)
        self.making.append(making)
        self.lines.append("")
        return making

    def _native_run(self, placed: Placed, names: Sequence[str], begin: Sequence[Step]) -> None:
        """Lines that run a program with all of its arrays, for which other threads of Python do not wait."""
        arena = "nothing"
        if placed.arena_bytes:
            arena = "arena"
            self.lines.append(f"arena = {self.constant('taken', placed.take_arena)}()")
        self.write(begin)
        assert placed.calls is not None
        self.lines.append(f"{self.constant('run', placed.calls.run)}({', '.join(names)}, {arena})")
        if placed.arena_bytes:
            self.lines.append(f"{self.constant('arenas', placed.arenas)}.append(arena)")


@functools.lru_cache(1 << 10)
def _compiled(text: str, file: str) -> CodeType:
    """The code of a source: of programs that differ in sizes alone, which are constants, it is the same."""
    return compile(text, file, "exec")


_HASHABLE = (type(operator.is_), type(np.ndarray.item), type(user_spot))
_EXPRESSIONS: dict[type, Callable[[Writer, Any], str]] = {
    Name: Writer._name,
    Constant: Writer._constant,
    Call: Writer._call,
    Row: Writer._row,
    Either: Writer._either,
    Made: Writer._made,
    Like: Writer._like,
}
_STEPS: dict[type, Callable[[Writer, Any], None]] = {
    Assign: Writer._assign,
    Attempt: Writer._attempt,
    Unpack: Writer._unpack,
    Do: Writer._do,
    Unless: Writer._unless,
    Ask: Writer._ask,
    Run: Writer._run,
}
