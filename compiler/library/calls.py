"""The functions of parts, in LLVM IR: each takes the addresses of its inputs and results, and gives a code.

What a part needs for a call it takes from `malloc` and gives back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from fusegrad.compiler.library.forms import Form, Native
from fusegrad.compiler.library.parts import Choice, Loop, Part, Piece, Stretch
from fusegrad.compiler.library.plan import Code, Plan
from fusegrad.compiler.library.size_code import SizeCode, block_of
from fusegrad.compiler.runtime.allocator import aligned
from fusegrad.tracer.ir.graph import Value


def entry_function(name: str, native: Native, data: Sequence[str], team: str = "") -> list[str]:
    """`NAME(size..., argument..., result...)`, with all that it calls. data: the addresses of what the graph
    takes behind the arguments. team: where it stands how many threads share tasks, if any do.
    """
    given = [f"%a{i}" for i in range(native.arguments)]
    results = [f"%r{i}" for i in range(len(native.results))]
    sizes = [f"%s{i}" for i in range(len(native.ranges))]
    functions = []
    lines = [f"define i32 @{name}({_parameters(sizes, [*given, *results])}) {{", "entry:"]
    missing = "false"
    for number, address in enumerate((*given, *results)):
        lines.append(f"  %null{number} = icmp eq ptr {address}, null")
        lines.append(f"  %missing{number} = or i1 {missing}, %null{number}")
        missing = f"%missing{number}"
    inside = "true"
    for number, (size, (least, most)) in enumerate(zip(sizes, native.ranges, strict=True)):
        lines += [
            f"  %enough{number} = icmp sge i64 {size}, {least}",
            f"  %few{number} = icmp sle i64 {size}, {most}",
            f"  %within{number} = and i1 %enough{number}, %few{number}",
            f"  %inside{number} = and i1 {inside}, %within{number}",
        ]
        inside = f"%inside{number}"
    passed = _parameters(sizes, [*given, *data, *results])
    lines += [
        f"  br i1 {missing}, label %missed, label %there",
        "missed:",
        f"  ret i32 {Code.NO_ADDRESS:d}",
        "there:",
        f"  br i1 {inside}, label %try0, label %other",
    ]
    for number, form in enumerate(native.forms):
        functions += [*_part_functions(f"{name}.form{number}", form.part, form.sizes, team)]
        functions += _holds_function(f"{name}.holds{number}", form)
        following = f"%try{number + 1}" if number + 1 < len(native.forms) else "%other"
        lines += [
            f"try{number}:",
            f"  %holds{number} = call i1 @{name}.holds{number}({_parameters(sizes, [])})",
            f"  br i1 %holds{number}, label %work{number}, label {following}",
            f"work{number}:",
            f"  %code{number} = call i32 @{name}.form{number}({passed})",
            f"  ret i32 %code{number}",
        ]
    return [*functions, *lines, "other:", f"  ret i32 {Code.OTHER_SIZES:d}", "}"]


def _holds_function(name: str, form: Form) -> list[str]:
    """Whether a form is right for some sizes."""
    code = SizeCode(form.sizes)
    found = code.holds(form.holds)
    head = f"define internal i1 @{name}({_parameters([f'%s{i}' for i in range(len(form.sizes))], [])}) {{"
    return [head, "entry:", *code.lines, f"  ret i1 {found}", "}"]


def _parameters(sizes: Sequence[str], addresses: Sequence[str]) -> str:
    return ", ".join([*(f"i64 {size}" for size in sizes), *(f"ptr {address}" for address in addresses)])


def _part_functions(name: str, part: Part, sizes: Sequence[str], team: str) -> Iterator[str]:
    """The function of a part, and those of its pieces."""
    plan = part.straight()
    if plan is not None:
        yield from _stretch_function(name, plan, sizes, team)
        return
    for number, piece in enumerate(part.pieces):
        own = f"{name}.{number}"
        if isinstance(piece, Stretch):
            yield from _stretch_function(own, piece.plan, sizes, team)
        elif isinstance(piece, Choice):
            yield from _part_functions(f"{own}.then", piece.then, sizes, team)
            yield from _part_functions(f"{own}.otherwise", piece.otherwise, sizes, team)
        else:
            yield from _part_functions(own, piece.body, sizes, team)
    yield from _Pieces(name, part, sizes).function()


def _begun(name: str, inputs: int, outputs: int, memory: Any, code: SizeCode) -> list[str]:
    """The head of a function up to where it has memory, `%arena`, at a line of the caches.

    code: computes the numbers that the function has of open sizes.
    """
    given = [f"%a{i}" for i in range(inputs)] + [f"%r{i}" for i in range(outputs)]
    bytes_ = code.of(memory + 64)
    return [
        f"define internal i32 @{name}({_parameters(code.sizes, given)}) {{",
        "entry:",
        *code.lines,
        f"  %taken = call ptr @malloc(i64 {bytes_})",
        "  %none = icmp eq ptr %taken, null",
        "  br i1 %none, label %full, label %work",
        "full:",
        f"  ret i32 {Code.NO_MEMORY:d}",
        "work:",
        "  %number = ptrtoint ptr %taken to i64",
        "  %more = add i64 %number, 63",
        "  %even = and i64 %more, -64",
        "  %arena = inttoptr i64 %even to ptr",
    ]


def _copied(to: str, source: str, size: str) -> str:
    return f"  call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {source}, i64 {size}, i1 false)"


def _stretch_function(name: str, plan: Plan, sizes: Sequence[str], team: str) -> list[str]:
    """The native functions of a plan in a row."""
    code = SizeCode(sizes)
    blocks: dict[tuple[Any, ...], str] = {}
    constants, lines = [], []
    for step in plan.steps:
        if tuple(step.block) not in blocks:
            block = f"@{name}.block{len(blocks)}"
            numbers = ", ".join(f"i64 {number if isinstance(number, int) else 0}" for number in step.block)
            constants.append(f"{block} = private constant [{len(step.block)} x i64] [{numbers}]")
            if not all(isinstance(number, int) for number in step.block):
                lines += block_of(code, step.block, f"%block{len(blocks)}", block)
                block = f"%block{len(blocks)}"
            blocks[tuple(step.block)] = block
    slots = plan.arrays + 2
    lines.append(f"  %slots = alloca [{slots} x ptr], align 16")
    memory = {array: f"%a{array}" for array in range(len(plan.inputs))}
    for array, start in plan.own.items():
        memory[array] = f"%own{array}"
        lines.append(f"  %own{array} = getelementptr i8, ptr %arena, i64 {code.of(start)}")
    for number, result in enumerate(plan.results):
        if result.direct:
            memory[result.array] = f"%r{number}"
    slotted = {0: "null", slots - 1: "%arena", **{array + 1: address for array, address in memory.items()}}
    for slot, address in sorted(slotted.items()):
        lines.append(f"  %slot{slot} = getelementptr ptr, ptr %slots, i64 {slot}")
        lines.append(f"  store ptr {address}, ptr %slot{slot}")
    calls = [(step.symbol, blocks[tuple(step.block)]) for step in plan.steps]
    alone = [f"  call void @{symbol}(ptr %slots, ptr {block})" for symbol, block in calls]
    shared = team and any(step.is_shared for step in plan.steps)
    lines += _shared(calls, alone, team) if shared else alone
    for number, result in enumerate(plan.results):
        if not result.direct:
            start, size = code.of(result.start), code.of(result.size)
            lines.append(f"  %from{number} = getelementptr i8, ptr {memory[result.array]}, i64 {start}")
            lines.append(_copied(f"%r{number}", f"%from{number}", size))
    sound = "true"
    for number, check in enumerate(plan.checks):
        width, start = f"i{8 * check.dtype.itemsize}", code.of(check.start)
        lines.append(f"  %at{number} = getelementptr i8, ptr {memory[check.array]}, i64 {start}")
        lines.append(f"  %seen{number} = load {width}, ptr %at{number}")
        lines.append(f"  %right{number} = icmp eq {width} %seen{number}, {check.expected}")
        lines.append(f"  %sound{number} = and i1 {sound}, %right{number}")
        sound = f"%sound{number}"
    lines.append("  call void @free(ptr %taken)")
    lines += [f"  %code = select i1 {sound}, i32 {Code.OK:d}, i32 {Code.REFUSED:d}", "  ret i32 %code", "}"]
    head = _begun(name, len(plan.inputs), len(plan.results), plan.memory, code)
    return [*constants, *head, *lines]


def _shared(calls: Sequence[tuple[str, str]], alone: Sequence[str], team: str) -> list[str]:
    """Calls whose tasks threads share, if there are some; `alone` without."""
    lines = [
        f"  %threads = load i64, ptr {team}",
        "  %several = icmp sgt i64 %threads, 1",
        f"  %table = alloca [{2 * len(calls)} x ptr], align 16",
        "  br i1 %several, label %together, label %alone",
        "together:",
    ]
    for number, word in enumerate(word for symbol, block in calls for word in (f"@{symbol}", block)):
        lines.append(f"  %entry{number} = getelementptr ptr, ptr %table, i64 {number}")
        lines.append(f"  store ptr {word}, ptr %entry{number}")
    return [
        *lines,
        f"  call void @fusegrad_team(ptr %table, i64 {len(calls)}, ptr %slots, i64 %threads)",
        "  br label %computed",
        "alone:",
        *alone,
        "  br label %computed",
        "computed:",
    ]


class _Pieces:
    """The function of a part of several pieces: it calls theirs, and decides between them."""

    def __init__(self, name: str, part: Part, sizes: Sequence[str]) -> None:
        self.name, self.part, self.code = name, part, SizeCode(sizes)
        self.lines: list[str] = []
        self.memory: Any = 0
        self.places = {value: f"%a{i}" for i, value in enumerate(part.inputs)}
        for number, value in enumerate(part.outputs):
            self.places.setdefault(value, f"%r{number}")

    def function(self) -> list[str]:
        """Its lines."""
        for number, piece in enumerate(self.part.pieces):
            for value in piece.outputs:
                if value not in self.places:
                    self.places[value] = self._room(value)
            if isinstance(piece, Stretch):
                self._call(f"{self.name}.{number}", self._addresses(piece), f"done{number}")
            elif isinstance(piece, Choice):
                self._choice(number, piece)
            else:
                self._loop(number, piece)
        for number, value in enumerate(self.part.outputs):
            if self.places[value] != f"%r{number}":
                self.lines.append(_copied(f"%r{number}", self.places[value], self._size(value)))
        return [
            *_begun(self.name, len(self.part.inputs), len(self.part.outputs), self.memory, self.code),
            "  %said = alloca i32, align 4",
            f"  store i32 {Code.OK:d}, ptr %said",
            *self.lines,
            "  br label %end",
            "end:",
            "  call void @free(ptr %taken)",
            "  %code = load i32, ptr %said",
            "  ret i32 %code",
            "}",
        ]

    def _room(self, value: Value) -> str:
        """Memory for a value between two pieces."""
        return self._bytes(_bytes_of(value))

    def _bytes(self, count: Any) -> str:
        place = f"%own{len(self.lines)}"
        self.lines.append(f"  {place} = getelementptr i8, ptr %arena, i64 {self.code.of(self.memory)}")
        self.memory = self.memory + aligned(count)
        return place

    def _size(self, value: Value) -> str:
        return self.code.of(_bytes_of(value))

    def _addresses(self, piece: Piece, first: int = 0) -> list[str]:
        """Of what a piece takes, from an input on, and of what it gives."""
        return [self.places[value] for value in (*piece.inputs[first:], *piece.outputs)]

    def _call(self, function: str, addresses: Sequence[str], label: str) -> None:
        """A call of a function, behind which the next lines follow if all is well."""
        self.lines += [
            f"  %{label}.code = call i32 @{function}({_parameters(self.code.sizes, addresses)})",
            f"  store i32 %{label}.code, ptr %said",
            f"  %{label}.well = icmp eq i32 %{label}.code, {Code.OK:d}",
            f"  br i1 %{label}.well, label %{label}, label %end",
            f"{label}:",
        ]

    def _choice(self, number: int, piece: Choice) -> None:
        own, join = f"{self.name}.{number}", f"joined{number}"
        self.lines += [
            f"  %test{number} = load i8, ptr {self.places[piece.inputs[0]]}",
            f"  %is{number} = icmp ne i8 %test{number}, 0",
            f"  br i1 %is{number}, label %then{number}, label %otherwise{number}",
        ]
        for side in ("then", "otherwise"):
            self.lines.append(f"{side}{number}:")
            self._call(f"{own}.{side}", self._addresses(piece, 1), f"{side}{number}.done")
            self.lines.append(f"  br label %{join}")
        self.lines.append(f"{join}:")

    def _loop(self, number: int, piece: Loop) -> None:
        """Rounds that write by turns into the results and into memory of their own."""
        carried, sizes = piece.carried, [self._size(v) for v in piece.outputs[: piece.carried]]
        results = [self.places[value] for value in piece.outputs]
        given = [self.places[value] for value in piece.inputs]
        others = [self._room(value) for value in piece.outputs[:carried]]
        kept = piece.outputs[carried + 1 :] if piece.tested else ()
        for value, address, place in zip(kept, given, results[carried + 1 :], strict=False):
            self.lines.append(_copied(place, address, self._size(value)))
        for address, place, size in zip(given, results, sizes, strict=False):
            self.lines.append(_copied(place, address, size))
        test = self._bytes(1) if piece.tested else ""
        self.lines += [f"  br label %begin{number}", f"begin{number}:", f"  br label %loop{number}"]
        self.lines.append(f"loop{number}:")
        count = f"%count{number}"
        self.lines.append(f"  {count} = phi i64 [0, %begin{number}], [{count}.next, %next{number}]")
        now = [f"%now{number}.{i}" for i in range(carried)]
        after = [f"%after{number}.{i}" for i in range(carried)]
        for one, two, result, other in zip(now, after, results, others, strict=False):
            self.lines.append(f"  {one} = phi ptr [{result}, %begin{number}], [{two}, %next{number}]")
            self.lines.append(f"  {two} = phi ptr [{other}, %begin{number}], [{one}, %next{number}]")
        self.lines.append(f"  {count}.more = icmp slt i64 {count}, {self.code.of(piece.rounds)}")
        self.lines.append(f"  br i1 {count}.more, label %round{number}, label %left{number}")
        self.lines.append(f"round{number}:")
        taken = [*now, *self._rows(number, piece, given), *given[carried + piece.rows :]]
        made = [*after, test] if piece.tested else [*after, *self._appended(number, piece, results)]
        self._call(f"{self.name}.{number}", [*taken, *made], f"round{number}.done")
        if piece.tested:
            self.lines += [
                f"  {count}.test = load i8, ptr {test}",
                f"  {count}.goes = icmp ne i8 {count}.test, 0",
                f"  br i1 {count}.goes, label %next{number}, label %left{number}",
            ]
        else:
            self.lines.append(f"  br label %next{number}")
        self.lines += [
            f"next{number}:",
            f"  {count}.next = add i64 {count}, 1",
            f"  br label %loop{number}",
            f"left{number}:",
        ]
        for result, last, size in zip(results, now, sizes, strict=False):
            self.lines.append(_copied(result, last, size))
        if piece.tested:
            self.lines.append(f"  store i64 {count}, ptr {results[carried]}")

    def _rows(self, number: int, piece: Loop, given: Sequence[str]) -> list[str]:
        """The addresses of what a round gets of its own."""
        rows = range(piece.carried, piece.carried + piece.rows)
        return [self._row(number, piece, f"row{number}.{i}", given[i], piece.inputs[i]) for i in rows]

    def _appended(self, number: int, piece: Loop, results: Sequence[str]) -> list[str]:
        """The addresses of what a round gives of its own."""
        rows = range(piece.carried, len(results))
        return [self._row(number, piece, f"gives{number}.{i}", results[i], piece.outputs[i]) for i in rows]

    def _row(self, number: int, piece: Loop, name: str, address: str, value: Value) -> str:
        index = f"%count{number}"
        if piece.backwards:
            self.lines.append(f"  %{name}.back = sub i64 {self.code.of(piece.rounds - 1)}, {index}")
            index = f"%{name}.back"
        size = math.prod(value.shape[1:]) * value.dtype.itemsize
        self.lines.append(f"  %{name}.start = mul i64 {index}, {self.code.of(size)}")
        self.lines.append(f"  %{name} = getelementptr i8, ptr {address}, i64 %{name}.start")
        return f"%{name}"


def _bytes_of(value: Value) -> Any:
    return math.prod(value.shape) * value.dtype.itemsize
