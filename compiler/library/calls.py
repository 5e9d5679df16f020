"""The functions of parts, in LLVM IR: each takes the addresses of its inputs and results, and gives a code.

What a part needs for a call it takes from `malloc` and gives back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from fusegrad.compiler.library.parts import Choice, Loop, Part, Piece, Stretch
from fusegrad.compiler.library.plan import Code, Plan
from fusegrad.compiler.runtime.allocator import aligned
from fusegrad.tracer.ir.graph import Value


def entry_function(
    name: str, part: Part, arguments: Sequence[Value], places: Mapping[Value, str]
) -> list[str]:
    """`NAME(argument..., result...)`, with all that it calls. places: of inputs that are no arguments."""
    given = [f"%a{i}" for i in range(len(arguments))]
    results = [f"%r{i}" for i in range(len(part.outputs))]
    lines = [f"define i32 @{name}({_pointers([*given, *results])}) {{", "entry:"]
    missing = "false"
    for number, address in enumerate((*given, *results)):
        lines.append(f"  %null{number} = icmp eq ptr {address}, null")
        lines.append(f"  %missing{number} = or i1 {missing}, %null{number}")
        missing = f"%missing{number}"
    known = {**dict(zip(arguments, given, strict=True)), **places}
    taken = [known[value] for value in part.inputs]
    lines += [
        f"  br i1 {missing}, label %missed, label %work",
        "missed:",
        f"  ret i32 {Code.NO_ADDRESS:d}",
        "work:",
        f"  %code = call i32 @{name}.part({_pointers([*taken, *results])})",
        "  ret i32 %code",
        "}",
    ]
    return [*_part_functions(f"{name}.part", part), *lines]


def _part_functions(name: str, part: Part) -> Iterator[str]:
    """The function of a part, and those of its pieces."""
    plan = part.straight()
    if plan is not None:
        yield from _stretch_function(name, plan)
        return
    for number, piece in enumerate(part.pieces):
        own = f"{name}.{number}"
        if isinstance(piece, Stretch):
            yield from _stretch_function(own, piece.plan)
        elif isinstance(piece, Choice):
            yield from _part_functions(f"{own}.then", piece.then)
            yield from _part_functions(f"{own}.otherwise", piece.otherwise)
        else:
            yield from _part_functions(own, piece.body)
    yield from _Pieces(name, part).function()


def _pointers(addresses: Sequence[str]) -> str:
    return ", ".join(f"ptr {address}" for address in addresses)


def _begun(name: str, inputs: int, outputs: int, memory: int) -> list[str]:
    """The head of a function up to where it has memory, `%arena`, at a line of the caches."""
    given = [f"%a{i}" for i in range(inputs)] + [f"%r{i}" for i in range(outputs)]
    return [
        f"define internal i32 @{name}({_pointers(given)}) {{",
        "entry:",
        f"  %taken = call ptr @malloc(i64 {memory + 64})",
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


def _copied(to: str, source: str, size: int) -> str:
    return f"  call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {source}, i64 {size}, i1 false)"


def _stretch_function(name: str, plan: Plan) -> list[str]:
    """The native functions of a plan in a row."""
    blocks: dict[tuple[int, ...], str] = {}
    constants = []
    for step in plan.steps:
        if tuple(step.block) not in blocks:
            blocks[tuple(step.block)] = block = f"@{name}.block{len(blocks)}"
            numbers = ", ".join(f"i64 {number}" for number in step.block)
            constants.append(f"{block} = private constant [{len(step.block)} x i64] [{numbers}]")
    lines = _begun(name, len(plan.inputs), len(plan.results), plan.memory)
    slots = plan.arrays + 2
    lines.append(f"  %slots = alloca [{slots} x ptr], align 16")
    memory = {array: f"%a{array}" for array in range(len(plan.inputs))}
    for array, start in plan.own.items():
        memory[array] = f"%own{array}"
        lines.append(f"  %own{array} = getelementptr i8, ptr %arena, i64 {start}")
    for number, result in enumerate(plan.results):
        if result.direct:
            memory[result.array] = f"%r{number}"
    slotted = {0: "null", slots - 1: "%arena", **{array + 1: address for array, address in memory.items()}}
    for slot, address in sorted(slotted.items()):
        lines.append(f"  %slot{slot} = getelementptr ptr, ptr %slots, i64 {slot}")
        lines.append(f"  store ptr {address}, ptr %slot{slot}")
    for step in plan.steps:
        lines.append(f"  call void @{step.symbol}(ptr %slots, ptr {blocks[tuple(step.block)]})")
    for number, result in enumerate(plan.results):
        if not result.direct and result.size:
            lines.append(
                f"  %from{number} = getelementptr i8, ptr {memory[result.array]}, i64 {result.start}"
            )
            lines.append(_copied(f"%r{number}", f"%from{number}", result.size))
    sound = "true"
    for number, check in enumerate(plan.checks):
        width = f"i{8 * check.dtype.itemsize}"
        lines.append(f"  %at{number} = getelementptr i8, ptr {memory[check.array]}, i64 {check.start}")
        lines.append(f"  %seen{number} = load {width}, ptr %at{number}")
        lines.append(f"  %right{number} = icmp eq {width} %seen{number}, {check.expected}")
        lines.append(f"  %sound{number} = and i1 {sound}, %right{number}")
        sound = f"%sound{number}"
    lines.append("  call void @free(ptr %taken)")
    lines += [f"  %code = select i1 {sound}, i32 {Code.OK:d}, i32 {Code.REFUSED:d}", "  ret i32 %code", "}"]
    return [*constants, *lines]


class _Pieces:
    """The function of a part of several pieces: it calls theirs, and decides between them."""

    def __init__(self, name: str, part: Part) -> None:
        self.name, self.part = name, part
        self.lines: list[str] = []
        self.memory = 0
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
                self.lines.append(_copied(f"%r{number}", self.places[value], _bytes_of(value)))
        return [
            *_begun(self.name, len(self.part.inputs), len(self.part.outputs), self.memory),
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
        place = f"%own{self.memory}"
        self.lines.append(f"  {place} = getelementptr i8, ptr %arena, i64 {self.memory}")
        self.memory += max(64, aligned(_bytes_of(value)))
        return place

    def _addresses(self, piece: Piece, first: int = 0) -> list[str]:
        """Of what a piece takes, from an input on, and of what it gives."""
        return [self.places[value] for value in (*piece.inputs[first:], *piece.outputs)]

    def _call(self, function: str, addresses: Sequence[str], label: str) -> None:
        """A call of a function, behind which the next lines follow if all is well."""
        self.lines += [
            f"  %{label}.code = call i32 @{function}({_pointers(addresses)})",
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
        carried, sizes = piece.carried, [_bytes_of(v) for v in piece.outputs[: piece.carried]]
        results = [self.places[value] for value in piece.outputs]
        given = [self.places[value] for value in piece.inputs]
        others = [self._room(value) for value in piece.outputs[:carried]]
        kept = piece.outputs[carried + 1 :] if piece.tested else ()
        for value, address, place in zip(kept, given, results[carried + 1 :], strict=False):
            self.lines.append(_copied(place, address, _bytes_of(value)))
        for address, place, size in zip(given, results, sizes, strict=False):
            self.lines.append(_copied(place, address, size))
        test = self._test() if piece.tested else ""
        self.lines += [f"  br label %begin{number}", f"begin{number}:", f"  br label %loop{number}"]
        self.lines.append(f"loop{number}:")
        count = f"%count{number}"
        self.lines.append(f"  {count} = phi i64 [0, %begin{number}], [{count}.next, %next{number}]")
        now = [f"%now{number}.{i}" for i in range(carried)]
        after = [f"%after{number}.{i}" for i in range(carried)]
        for one, two, result, other in zip(now, after, results, others, strict=False):
            self.lines.append(f"  {one} = phi ptr [{result}, %begin{number}], [{two}, %next{number}]")
            self.lines.append(f"  {two} = phi ptr [{other}, %begin{number}], [{one}, %next{number}]")
        self.lines.append(f"  {count}.more = icmp slt i64 {count}, {piece.rounds}")
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

    def _test(self) -> str:
        """Memory for a truth."""
        place = f"%own{self.memory}"
        self.lines.append(f"  {place} = getelementptr i8, ptr %arena, i64 {self.memory}")
        self.memory += 64
        return place

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
            self.lines.append(f"  %{name}.back = sub i64 {piece.rounds - 1}, {index}")
            index = f"%{name}.back"
        size = _bytes_of(value) // max(1, value.shape[0])
        self.lines.append(f"  %{name}.start = mul i64 {index}, {size}")
        self.lines.append(f"  %{name} = getelementptr i8, ptr {address}, i64 %{name}.start")
        return f"%{name}"


def _bytes_of(value: Value) -> int:
    return math.prod(value.shape) * value.dtype.itemsize
