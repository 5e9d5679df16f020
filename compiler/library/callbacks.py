"""`cfunc`: a function as a C function in this process, for callers that know nothing of Python."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np

from fusegrad.compiler.base.lock import compiling
from fusegrad.compiler.library import driver
from fusegrad.compiler.library.forms import native
from fusegrad.compiler.llvm.llvm_jit import Module
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.export.api import captured
from fusegrad.tracer.export.files import ExportError
from fusegrad.tracer.export.ways import branching_program
from fusegrad.tracer.ir.graph import Value

# What numbers are that are given and come back by value: in LLVM IR, and in ctypes.
_NUMBERS: dict[str, tuple[str, Any]] = {
    "float64": ("double", ctypes.c_double),
    "float32": ("float", ctypes.c_float),
    "int64": ("i64", ctypes.c_int64),
    "int32": ("i32", ctypes.c_int32),
}
_NAME = "cfunc"


class CFunction:
    """A C function that computes what a function of tensors does.

    address: where it is. native_name: its name among the functions of the process. ctypes: it as `ctypes`
    calls it, as does SciPy's `LowLevelCallable`, and Numba in functions that it compiles. signature: in C. It
    lives as long as the process.
    """

    def __init__(self, function: Any, name: str, address: int, kind: Any, signature: str) -> None:
        self.__wrapped__, self.native_name, self.address = function, name, address
        self.ctypes, self.signature = kind(address), signature

    def __call__(self, *args: Any) -> Any:
        """What C gets."""
        return self.ctypes(*args)

    def __repr__(self) -> str:
        return f"<cfunc {self.signature}>"


def cfunc(function: Callable[..., Any], example_args: Any) -> CFunction:
    """`function` as a C function, for arguments like `example_args`; as `numba.cfunc`.

    function: a plain or jitted function, or a module; it runs once. example_args: a tuple of tensors and
    numbers. Where all are numbers (or tensors without dimensions) and one such comes back, C gives and gets
    them by value: `double f(double, double)`; where there is no answer, as for an index out of range, it gets
    NaN or 0. Other functions are given the addresses of arguments and results, which lie row by row, and give
    0, or why there are no results: `int32_t f(const T *argument, ..., T *result, ...)`.

    It takes no lock of Python's, and several threads may call it. Tensors that the function found outside are
    part of it, with the values that they have now. Gradients are results as others are.

    Raises ExportError for what has no native code, with the line.

    >>> import fusegrad as fg
    >>> wave = fg.cfunc(lambda x, rate: fg.exp(-x) * fg.sin(rate * x), (0.5, 3.0))
    >>> wave
    <cfunc double f(double, double)>
    >>> f"{wave(1.0, 2.0):.6f}"
    '0.334512'
    """
    given = (example_args,) if isinstance(example_args, (Tensor, float, int)) else tuple(example_args)
    program = captured(
        function, tuple(_tensor(argument) for argument in given), None, None, branching_program
    )
    made = native(program)
    text = driver.text(_NAME, made, program.data)
    values = [*program.arguments, *made.results]
    single = len(made.results) == 1 and all(
        not value.shape and value.dtype.name in _NUMBERS for value in values
    )
    if single:
        text += _by_value(values)
        kinds = [_NUMBERS[value.dtype.name] for value in values]
        kind = ctypes.CFUNCTYPE(kinds[-1][1], *(number for _, number in kinds[:-1]))
        named = ["int64_t" if n == "i64" else "int32_t" if n == "i32" else n for n, _ in kinds]
    else:
        kind, named = (
            ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * len(values)),
            _pointers(values, len(program.arguments)),
        )
    entry = f"{_NAME}.value" if single else _NAME
    # Of functions that are alike there is one.
    own = f"fusegrad_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    with compiling:
        (address,) = (
            Module(text.replace(f"@{_NAME}", f"@{own}"), [entry.replace(_NAME, own)]).addresses().values()
        )
    signature = f"{named[-1]} f({', '.join(named[:-1])})"
    return CFunction(function, entry.replace(_NAME, own), address, kind, signature)


def _tensor(argument: Any) -> Tensor:
    """A number as the tensor that stands for it."""
    if isinstance(argument, Tensor):
        return argument
    if type(argument) in (float, int):
        return wrap(np.array(argument))
    raise ExportError(
        f"cfunc: an argument is a {type(argument).__name__}; C gives tensors and numbers alone, "
        "so put other values into the function"
    )


def _pointers(values: list[Value], inputs: int) -> list[str]:
    """The types of arguments and of what comes back, for people."""
    named = [f"{'const ' * (i < inputs)}{value.dtype.name} *" for i, value in enumerate(values)]
    return [*named, "int32_t"]


def _by_value(values: list[Value]) -> str:
    """LLVM IR of the function that takes numbers and gives one."""
    kinds = [_NUMBERS[value.dtype.name][0] for value in values]
    *taken, made = kinds
    lines = [
        f"define {made} @{_NAME}.value({', '.join(f'{k} %x{i}' for i, k in enumerate(taken))}) nounwind {{"
    ]
    lines += ["entry:", *(f"  %p{i} = alloca {kind}, align 8" for i, kind in enumerate(kinds))]
    lines += [f"  store {kind} %x{i}, ptr %p{i}" for i, kind in enumerate(taken)]
    places = ", ".join(f"ptr %p{i}" for i in range(len(kinds)))
    lines += [f"  %code = call i32 @{_NAME}({places})", "  %done = icmp eq i32 %code, 0"]
    nothing = "0x7FF8000000000000" if values[-1].dtype.kind == "f" else "0"
    lines += [f"  %found = load {made}, ptr %p{len(taken)}"]
    lines += [f"  %given = select i1 %done, {made} %found, {made} {nothing}", f"  ret {made} %given", "}", ""]
    return "\n".join(lines)
