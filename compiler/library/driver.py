"""The function that C calls, in LLVM IR: it finds memory, calls the steps in order, and says how it went.

    int32_t NAME(const T *argument..., T *result...)

It has no state of its own but the data, so several threads may call it at a time. What it needs for a call
it takes from `malloc` and gives back. It is written for the oldest machine of its kind, and asks first
whether this one has the instructions that the steps are compiled for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from fusegrad.compiler.artefacts.form import Artefact, packed
from fusegrad.compiler.codegen.kernel_cache import joined
from fusegrad.compiler.library.calls import entry_function
from fusegrad.compiler.library.forms import Native
from fusegrad.compiler.library.plan import Code
from fusegrad.compiler.library.pool import pool_text, running
from fusegrad.compiler.llvm.target import LEVELS, Level
from fusegrad.tracer.ir.graph import Value

# What is asked of the processor: leaf, subleaf, register (of eax, ebx, ecx, edx) and the bits that must be 1.
_PRESENT = {
    "aarch64": [],
    "x86-64": [],
    "x86-64-v3": [
        (1, 0, 2, 1 << 12 | 1 << 22 | 1 << 27 | 1 << 28 | 1 << 29),
        (7, 0, 1, 1 << 3 | 1 << 5 | 1 << 8),
    ],
}
_PRESENT["x86-64-v4"] = [
    *_PRESENT["x86-64-v3"],
    (7, 0, 1, 1 << 16 | 1 << 17 | 1 << 28 | 1 << 30 | 1 << 31),
]
# What the system must keep of the registers when it switches threads.
_KEPT = {"aarch64": 0, "x86-64": 0, "x86-64-v3": 0x6, "x86-64-v4": 0xE6}


def library_text(
    name: str,
    natives: Mapping[str, Native],
    data: Mapping[Value, np.ndarray],
    names: Mapping[Value, str],
    told: Artefact,
) -> str:
    """LLVM IR of a whole library, for the oldest machine of its kind.

    natives: by level of instructions, the highest first; each is a function `NAME_vN`, and a call takes the
    first that the machine can run. data: of the inputs that are no arguments. names: the symbols of what of
    that may be replaced. told: what the library has of itself.
    """
    places, constants = _data(name, data, names)
    levels = [
        _of_level(_function(level_name(name, level), native, places, running(name)), level)
        for level, native in natives.items()
    ]
    lines = [
        *constants,
        f"@{name}.fusegrad = private constant {_bytes(packed(told))}, align 8",
        f'@llvm.used = appending global [1 x ptr] [ptr @{name}.fusegrad], section "llvm.metadata"',
        *(_machine(level_name(name, level), level) for level in natives),
    ]
    pool = pool_text(name, LEVELS[next(iter(natives))].architecture)
    return "\n".join([joined(levels), pool, *lines, _chosen(name, natives), ""])


def level_name(name: str, level: str) -> str:
    """The function of a level: `NAME_v3`, `NAME_aarch64`."""
    return f"{name}_{level.removeprefix('x86-64-')}" if level != "x86-64" else f"{name}_v1"


def oldest(level: str) -> Level:
    """The oldest machines of the architecture of a level."""
    return next(known for known in LEVELS.values() if known.architecture == LEVELS[level].architecture)


def _for_oldest(level: str) -> str:
    return f'"target-cpu"="{oldest(level).cpu}" nounwind'


def text(name: str, native: Native, data: Mapping[Value, np.ndarray]) -> str:
    """LLVM IR of a function for this machine, its steps and their data."""
    places, constants = _data(name, data, {})
    return "\n".join([_function(name, native, places), *constants, ""])


def _data(
    name: str, data: Mapping[Value, np.ndarray], names: Mapping[Value, str]
) -> tuple[dict[Value, str], list[str]]:
    """The addresses of data, and the lines that put it there."""
    places = {value: f"@{names.get(value, f'{name}.data{i}')}" for i, value in enumerate(data)}
    lines = []
    for value, array in data.items():
        kind = "global" if value in names else "private constant"
        lines.append(f"{places[value]} = {kind} {_bytes(np.ascontiguousarray(array).tobytes())}, align 64")
    return places, lines


def _function(name: str, native: Native, places: Mapping[Value, str], team: str = "") -> str:
    """The function of one level, with all that it calls. places: the addresses of data; team: where it stands
    how many threads share tasks.
    """
    own = re.sub(r"(?m)^define void @", "define internal void @", joined(native.texts))
    lines = [own, "declare ptr @malloc(i64)", "declare void @free(ptr)"]
    if "@llvm.memcpy.p0.p0.i64(" not in own:
        lines.append("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
    return "\n".join([*lines, *entry_function(name, native, [*places.values()], team), ""])


def _of_level(text: str, level: str) -> str:
    """Functions compiled for a level of instructions, with names that no other level has."""
    own = {*re.findall(r"(?m)^define (?:internal|private)[^@]*@([\w.]+)\(", text)}
    own |= {*re.findall(r"(?m)^@([\w.]+) = ", text)}
    renamed = re.sub(r"@([\w.]+)", lambda found: found[0] + f".{level}" * (found[1] in own), text)
    renamed = re.sub(r"(?m)^(define [^{\n]*)\{", rf'\1"target-cpu"="{LEVELS[level].cpu}" {{', renamed)
    # What is private has no name in the file; whoever reads its instructions would take them for another's.
    renamed = renamed.replace("define private ", "define internal ")
    return renamed.replace(f".{level}", "." + level.replace("-", "_"))


def _chosen(name: str, natives: Mapping[str, Native]) -> str:
    """The function that takes the best of those that the machine can run."""
    best, native = next(iter(natives.items()))
    count, sizes = native.arguments + len(native.results), len(native.ranges)
    given = ", ".join([*(f"i64 %s{i}" for i in range(sizes)), *(f"ptr %x{i}" for i in range(count))])
    lines = [f"define i32 @{name}({given}) {_for_oldest(best)} {{", "entry:"]
    for number, level in enumerate(natives):
        own = level_name(name, level)
        lines += [
            f"  %able{number} = call i1 @{own}.machine()",
            f"  br i1 %able{number}, label %do{number}, label %no{number}",
        ]
        lines += [
            f"do{number}:",
            f"  %code{number} = call i32 @{own}({given})",
            f"  ret i32 %code{number}",
            f"no{number}:",
        ]
    return "\n".join([*lines, f"  ret i32 {Code.OTHER_MACHINE:d}", "}"])


def _bytes(data: bytes) -> str:
    """Bytes as a constant; there is one at least, so that it has a place."""
    data = data or b"\0"
    return f'[{len(data)} x i8] c"' + "".join(_ESCAPED[byte] for byte in data) + '"'


_ESCAPED = [f"\\{byte:02X}" for byte in range(256)]


def _machine(name: str, level: str) -> str:
    """`NAME.machine()`: whether the processor and the system have what the steps are compiled for."""
    lines = [f"define internal i1 @{name}.machine() {_for_oldest(level)} {{", "entry:"]
    all_there = "true"
    four = "{ i32, i32, i32, i32 }"

    def also(value: str, bits: int, number: int) -> None:
        nonlocal all_there
        lines.append(f"  %some{number} = and i32 {value}, {bits}")
        lines.append(f"  %there{number} = icmp eq i32 %some{number}, {bits}")
        lines.append(f"  %all{number} = and i1 {all_there}, %there{number}")
        all_there = f"%all{number}"

    for number, (leaf, subleaf, register, bits) in enumerate(_PRESENT[level]):
        asked = 'asm sideeffect "cpuid", "={ax},={bx},={cx},={dx},{ax},{cx}"'
        lines.append(f"  %id{number} = call {four} {asked}(i32 {leaf}, i32 {subleaf})")
        lines.append(f"  %found{number} = extractvalue {four} %id{number}, {register}")
        also(f"%found{number}", bits, number)
    if _KEPT[level]:
        # The system may not let one ask, where it keeps nothing.
        lines += [f"  br i1 {all_there}, label %ask, label %no", "no:", "  ret i1 false", "ask:"]
        lines.append('  %kept = call { i32, i32 } asm sideeffect "xgetbv", "={ax},={dx},{cx}"(i32 0)')
        lines.append("  %low = extractvalue { i32, i32 } %kept, 0")
        all_there = "true"
        also("%low", _KEPT[level], 99)
    return "\n".join([*lines, f"  ret i1 {all_there}", "}"])
