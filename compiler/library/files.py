"""Files of a library: the object, the C header, and the shared library that a linker makes of the object."""

from __future__ import annotations

import _ctypes
import ctypes
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fusegrad.compiler.artefacts.form import Artefact
from fusegrad.compiler.kernel.scalar import short_name
from fusegrad.compiler.library import driver
from fusegrad.compiler.library.forms import Native, native
from fusegrad.compiler.library.plan import MEANINGS, Code
from fusegrad.compiler.llvm.llvm_jit import object_code
from fusegrad.compiler.llvm.target import LEVELS, host, written_for
from fusegrad.tracer.export.files import ExportError
from fusegrad.tracer.export.program import Program, difference
from fusegrad.tracer.ir.graph import Value, identifier, print_graph, type_text

ABI = 1
HOST = "x86-64"


class _Architecture(NamedTuple):
    """What libraries are written for.

    compiler: which links for it. levels: of instructions; empty: those that this machine has. checked_as: for
    each, the level of this machine's architecture with vectors of the same size, where its steps are checked.
    """

    compiler: str
    levels: tuple[str, ...] = ()
    checked_as: tuple[str, ...] = ()


_ARCHITECTURES = {
    HOST: _Architecture("cc"),
    "aarch64": _Architecture("aarch64-linux-gnu-gcc", ("aarch64",), ("x86-64",)),
}
C_TYPES = {
    "float32": "float",
    "float64": "double",
    "int64": "int64_t",
    "int32": "int32_t",
    "int16": "int16_t",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "bool": "uint8_t",
}
# What C and C++ have made of these words.
_RESERVED = frozenset(
    (
        "auto bool break case catch char class const continue default delete do double else enum extern "
        "false float for free goto if inline int long main malloc namespace new operator private public "
        "register restrict return short signed sizeof static struct switch template this throw true try "
        "typedef union unsigned using void volatile while "
    ).split()
)


def library_files(program: Program, path: str, architecture: str) -> dict[str, bytes]:
    """The files of a library for machines of an architecture, by suffix: that of `path` and the header.

    Raises ExportError for what a library cannot compute, and where it gives something else than eager.
    """
    if not sys.platform.startswith("linux") or os.uname().machine != "x86_64":
        raise ExportError("export: libraries are written on Linux and for x86-64 alone so far")
    if architecture not in _ARCHITECTURES:
        known = " or ".join(_ARCHITECTURES)
        raise ExportError(f"export: libraries are written for {known}, and not for {architecture!r}")
    stem, suffix = os.path.splitext(os.path.basename(path))
    name = _identifier(stem)
    for value in (*program.graph.inputs, *program.graph.outputs):
        if isinstance(value, Value) and value.dtype.name not in C_TYPES:
            raise ExportError(f"export: C has no type for {value.dtype.name}, which {value.name} has")
    natives = _natives(program, architecture)
    names = _symbols(name, program)
    told = _told(name, program, natives)

    def code_for(natives: Mapping[str, Native]) -> bytes:
        text = driver.library_text(name, natives, program.data, names, told)
        return object_code(text, driver.oldest(next(iter(natives))))

    code = code_for(natives)
    made = {suffix: code, ".h": _header(name, program, natives, names).encode()}
    linker, own = _linker(architecture), _linker()
    if suffix == ".so":
        if linker is None:
            raise ExportError(
                "export: a shared library needs a linker, and there is neither "
                f"`{_ARCHITECTURES[architecture].compiler}` nor the package ziglang: install one "
                "(pip install ziglang), or export to a .o file, which needs none"
            )
        made[suffix] = _linked(linker, code)
    if own is not None:
        # Of another architecture the same steps, with vectors of the same size, are checked on this one.
        checked_as = _ARCHITECTURES[architecture].checked_as or natives
        here = dict(zip(checked_as, natives.values(), strict=True))
        library = made[suffix] if architecture == HOST and suffix == ".so" else _linked(own, code_for(here))
        _check(name, program, here, library)
    return made


def _natives(program: Program, architecture: str) -> dict[str, Native]:
    """By level of instructions what is done there, for all levels with vectors that this machine has."""
    found = {}
    for level in _ARCHITECTURES[architecture].levels or _levels_here():
        with written_for(LEVELS[level].target):
            found[level] = native(program)
    return found


def _levels_here() -> Sequence[str]:
    """The levels of which this machine runs code, but those far below its own; the highest first."""
    return {64: ("x86-64-v4", "x86-64-v3"), 32: ("x86-64-v3",), 16: ("x86-64",)}[host().vector_bytes]


def _results(natives: Mapping[str, Native]) -> list[Value]:
    """The results, which are the same at all levels."""
    return [*next(iter(natives.values())).results]


def _symbols(name: str, program: Program) -> dict[Value, str]:
    """The names in C of what the function was exported with."""
    taken: set[str] = set()
    return {v: _unused(f"{name}_{_identifier(v.name)}", taken) for v in program.captured}


def _unused(name: str, taken: set[str]) -> str:
    """The name, with a number behind it if it is taken, as it is from now on."""
    found = identifier(name, taken)
    taken.add(found)
    return found


def _identifier(text: str) -> str:
    """A name for C that reads like `text`."""
    name = re.sub(r"\W", "_", text, flags=re.ASCII) or "_"
    return f"_{name}" if name[0].isdigit() else f"{name}_" if name in _RESERVED else name


def _told(name: str, program: Program, natives: Mapping[str, Native]) -> Artefact:
    """What the library has of itself for `fusegrad inspect`."""
    facts = {
        "abi": ABI,
        "function": name,
        "captured": program.name,
        "instructions": [*natives],
        "arguments": [f"{v.name}: {_type(program, v)}" for v in program.arguments],
        "results": [_type(program, value) for value in _results(natives)],
    }
    return Artefact("library", facts, {"graph": print_graph(program.graph).encode()})


def _type(program: Program, value: Value) -> str:
    """`f32[batch, 8]`."""
    shape = ", ".join(str(n) if program.open is None else program.open.size_text(n) for n in value.shape)
    return f"{short_name(value.dtype)}[{shape}]"


def _header(name: str, program: Program, natives: Mapping[str, Native], names: Mapping[Value, str]) -> str:
    """The C header."""
    big, taken = name.upper(), {name, *names.values()}
    sizes = [_unused(_identifier(n), taken) for n in (program.open.names if program.open else ())]
    given = [(_c_type(v), _unused(_identifier(v.name), taken), v) for v in program.arguments]
    made = [(_c_type(v), _unused(f"result{i}", taken), v) for i, v in enumerate(_results(natives))]
    parameters = [f"int64_t {n}" for n in sizes]
    parameters += [f"const {kind} *{n}" for kind, n, _ in given] + [f"{kind} *{n}" for kind, n, _ in made]
    lines = [
        f"/* {program.name}, compiled by fusegrad for {' and '.join(natives)}.",
        "",
        " * Arrays lie row by row, aligned as their elements are. Results may not overlap with each",
        " * other, nor with arguments. Several threads may call at a time. A call takes memory from malloc",
        f" * and gives it back. It gives {big}_OK or says why there are no results. */",
        f"#ifndef {big}_H",
        f"#define {big}_H",
        "#include <stdint.h>",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        f"#define {big}_ABI {ABI}",
        "enum {",
        *(f"    {big}_{code.name} = {code:d}, /* {MEANINGS[code]} */" for code in Code),
        "};",
        "",
    ]
    for n, (least, most) in zip(sizes, program.open.ranges if program.open else (), strict=True):
        lines.append(f"/* {n}: from {least} to {most} */")
    for _, n, value in (*given, *made):
        lines.append(f"/* {n}: {_type(program, value)} */")
    lines += [f"int32_t {name}({', '.join(parameters) or 'void'});", ""]
    lines += [
        "/* From now on so many threads share what is large in a call: the one that makes it, and others,",
        " * which wait for it. 1 ends these, as is to be done before the library is unloaded. Gives how many",
        f" * there are. Meanwhile nobody may call {name}. */",
        f"int32_t {name}_threads(int32_t count);",
        "",
    ]
    if names:
        lines.append("/* What the function was exported with, to be written anew between calls. */")
    for value, symbol in names.items():
        lines.append(
            f"extern {_c_type(value)} {symbol}[{max(1, _count(value))}]; /* {type_text(value.type)} */"
        )
    return "\n".join([*lines, "#ifdef __cplusplus", "}", "#endif", "#endif", ""])


def _count(value: Value) -> int:
    return int(np.prod(value.shape, dtype=np.int64))


def _c_type(value: Value) -> str:
    return C_TYPES[value.dtype.name]


# Linking.


def _linker(architecture: str = HOST) -> Sequence[str] | None:
    """The command of a C compiler for an architecture."""
    own = os.environ.get("CC", "cc") if architecture == HOST else ""
    found = shutil.which(own) or shutil.which(_ARCHITECTURES[architecture].compiler)
    if found is not None:
        return [found]
    if importlib.util.find_spec("ziglang") is None:
        return None
    return [sys.executable, "-m", "ziglang", "cc", "-target", f"{architecture.replace('-', '_')}-linux-gnu"]


def _linked(linker: Sequence[str], code: bytes) -> bytes:
    """The shared library that is made of an object. Raises ExportError with what the linker says."""
    with tempfile.TemporaryDirectory() as folder:
        object_, library = os.path.join(folder, "o.o"), os.path.join(folder, "l.so")
        with open(object_, "wb") as file:
            file.write(code)
        command = [
            *linker,
            "-shared",
            "-Wl,-z,noexecstack",
            "-o",
            library,
            object_,
            "-Wl,--as-needed",
            "-lm",
            "-lpthread",
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise ExportError(f"export: {linker[-1]} cannot link the library:\n{done.stderr.strip()}")
        with open(library, "rb") as file:
            return file.read()


def _check(name: str, program: Program, natives: Mapping[str, Native], library: bytes) -> None:
    """Call the library with the examples, at each level. Raises ExportError where it gives others."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, f"{name}.so")
        with open(path, "wb") as file:
            file.write(library)
        loaded = ctypes.CDLL(path)
        for function in (name, *(driver.level_name(name, level) for level in natives)):

            def compare(closed: Program, function: str = function) -> None:
                wrong = _difference(loaded[function], program, closed)
                if wrong:
                    raise ExportError(
                        f"export: {function} of {program.name} gives something else than eager: {wrong}"
                    )

            program.try_each(compare)
        _ctypes.dlclose(loaded._handle)


def _difference(function: Any, program: Program, closed: Program) -> str | None:
    """How what a library gives for a program's examples differs from eager's results; None if it does not.

    closed: the program at the sizes of its examples.
    """
    expected = [e for e in closed.expected if isinstance(e, np.ndarray)]
    given = [np.ascontiguousarray(t.array) for t in closed.examples]
    results = [np.empty(e.shape, e.dtype) for e in expected]
    sizes = [] if program.open is None else program.open.told(given, program.arguments)
    code = function(
        *map(ctypes.c_int64, sizes), *(ctypes.c_void_p(a.ctypes.data) for a in (*given, *results))
    )
    if code:
        return f"the code {code}, {MEANINGS[Code(code)]}"
    found = map(difference, results, expected)
    return next(filter(None, found), None)
