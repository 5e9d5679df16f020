"""The native core: whether it is used, and how its functions come to be.

CPython calls a native function as it calls those of its own modules (METH_FASTCALL): with the objects as they
are, into which it looks. Each is compiled when it is first needed, and tried on live objects, against its
plain-Python twin, before it is first used. Where anything is off, the core is, for as long as the process
lives: whoever asks for a native function then gets none, and takes the twin. FUSEGRAD_NATIVE_CORE=0 turns it
off from the beginning.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from fusegrad.compiler.base import debug
from fusegrad.compiler.base.lock import compiling
from fusegrad.compiler.llvm import llvm_jit
from fusegrad.compiler.llvm.function_writer import FunctionWriter, module_text
from fusegrad.compiler.native.layouts import Unknown, layouts
from fusegrad.compiler.runtime import threads
from fusegrad.compiler.runtime.allocator import data_address
from fusegrad.eager.core.handlers import handler_raised

SWITCH = "FUSEGRAD_NATIVE_CORE"

# Makes of a table the function that reads it.
Maker = Callable[[np.ndarray], Callable[..., Any]]

_off: list[str] = []  # why, once the core is


@functools.cache
def _probed() -> None:
    """Look at the switch and at Python's objects, once."""
    if os.environ.get(SWITCH, "1") == "0":
        _off.append(f"{SWITCH}=0")
        return
    try:
        layouts()
    except Exception as error:  # whatever it is, Python's own way is there
        if handler_raised():
            raise
        turn_off(str(error) or repr(error))


def is_on() -> bool:
    """Whether native functions are used."""
    _probed()
    return not _off


def why_off() -> str:
    """Why the native core is off; empty where it is on."""
    return "" if is_on() else _off[0]


def turn_off(reason: str) -> None:
    """Have everybody take the plain-Python way from now on."""
    _off.append(reason)
    debug.show(1, "the native core is off", lambda: reason)


class Native:
    """A native function.

    write: gives the functions of its module, of which it is the last. trials: gives, for what makes it of a
    table, pairs of what it and its twin answer. besides: other functions of the module for the trials, which
    get their addresses after what makes it.
    """

    def __init__(
        self,
        name: str,
        write: Callable[[], Sequence[FunctionWriter]],
        trials: Callable[..., Iterator[tuple[Any, Any]]],
        besides: Sequence[str] = (),
    ) -> None:
        self.symbol, self._write, self.trials, self._besides = name, write, trials, besides
        self._maker: Maker | None = None
        # A signal handler may need it while it is tried: there may be several, all of which stay.
        self._made: list[Maker] = []

    def of(self, table: np.ndarray) -> Callable[..., Any] | None:
        """The function that reads this table; None where the core is off."""
        maker = self._maker if self._maker is not None else self._tried()
        return maker(table) if is_on() and maker is not None else None

    def prepare(self) -> None:
        """Begin to compile it."""
        if self._maker is None and is_on():
            _module(self)

    def _tried(self) -> Maker | None:
        # Whoever forks waits for what is done under this lock: LLVM has locks of its own.
        with compiling:
            # Another thread may have been faster. What is made must stay: CPython keeps the addresses of the
            # methods in the functions that are made of them.
            if self._maker is None and is_on():
                try:
                    maker, besides = self._compiled()
                except Unknown as error:
                    turn_off(f"{self.symbol}: {error}")
                    return None
                try:
                    for native, plain in self.trials(maker, *besides):
                        if native != plain:
                            raise ArithmeticError(f"{native!r}, and not {plain!r}")
                    self._maker = maker
                except Exception as error:  # whatever it is, Python's own way is there
                    if handler_raised():
                        raise
                    turn_off(f"{self.symbol}: {error!r}")
            return self._maker

    def _compiled(self) -> tuple[Maker, list[int]]:
        address, *besides = _module(self).addresses().values()
        maker = _maker(self.symbol.encode(), address)
        self._made.append(maker)
        return maker, besides

    def module(self) -> llvm_jit.Module:
        """Its module, which is being compiled from now on."""
        functions = self._write()
        return llvm_jit.Module(module_text(functions), [self.symbol, *self._besides])


@llvm_jit.remembered
def _module(native: Native) -> llvm_jit.Module:
    """The module of a function, which is being compiled from the first time that it is asked for."""
    _add_symbols()
    return native.module()


# The functions of CPython that native ones call, and the objects that they know by name.
_FUNCTIONS = (
    "PyEval_SaveThread", "PyEval_RestoreThread", "Py_IncRef", "Py_DecRef", "PyTuple_New", "PyList_GetSlice",
    "PyType_GenericAlloc", "PyDict_GetItemWithError", "PyErr_Occurred", "PyErr_Clear", "PyTuple_Size",
    "PyList_Size", "PyList_GetItem", "PyType_IsSubtype", "PyLong_FromLongLong", "PyIter_Next",
    "PyLong_AsLongLong", "PyDict_SetItem", "PyList_Append",
    "PyObject_CallOneArg", "PyObject_VectorcallDict", "PyObject_IsTrue", "PyObject_GetAttr",
    "PyDict_Next", "PyBytes_FromStringAndSize", "PyFloat_AsDouble",
    "PyGC_Disable", "PyGC_Enable",
    "PyFrame_GetCode", "PyFrame_GetBack", "PyFrame_GetLasti",
)  # fmt: skip
_OBJECTS: dict[str, Any] = {
    "none": None,
    "true": True,
    "false": False,
    "list": list,
    "tuple": tuple,
    "ndarray": np.ndarray,
    "float": float,
    "int": int,
    "str": str,
}
_OBJECTS |= {"generic": np.generic, "asarray": np.asarray}
_OBJECTS |= {name: np.dtype(name) for name in ("float32", "float64", "complex64", "complex128", "int64")}


@functools.cache
def _add_symbols() -> None:
    symbols = {n: ctypes.cast(getattr(ctypes.pythonapi, n), ctypes.c_void_p).value or 0 for n in _FUNCTIONS}
    symbols |= {f"fusegrad_{name}": id(value) for name, value in _OBJECTS.items()}
    symbols |= {"fusegrad_new_array": layouts().new_array}
    symbols |= {"fusegrad_threads": data_address(threads.thread_count)}
    llvm_jit.add_symbols(symbols)


class _Method(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("text", ctypes.c_char_p),
    )


_FASTCALL = 0x80


def _maker(name: bytes, address: int) -> Maker:
    """Makes Python functions of the native one; each keeps its table."""
    method = _Method(name, address, _FASTCALL, None)
    # For ever: functions point to it, and the collector looks at them when a process ends, without modules.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(method))
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]

    def made(table: np.ndarray) -> Callable[..., Any]:
        return new(ctypes.addressof(method), table, None)

    return made
