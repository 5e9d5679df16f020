"""LLVM at work: LLVM IR goes in, an object comes out, or assembly.

Importing this imports llvmlite and Numba. Whoever finds all machine code in the cache does not.
"""

from __future__ import annotations

import ctypes
import functools
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import llvmlite.binding as llvm
from llvmlite.binding import ffi

from fusegrad.compiler.llvm import image
from fusegrad.compiler.llvm.target import Level, level_machine, target_machine

# Where there are no images: what holds the machine code of this process.


@functools.cache
def engine() -> Any:
    """What loads objects, and knows where their symbols are."""
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine())


def loaded(code: bytes, symbols: Sequence[str]) -> dict[str, int]:
    """The addresses of functions of an object."""
    for name, address in image.symbols().items():
        llvm.add_symbol(name, address)
    engine().add_object_file(llvm.ObjectFileRef.from_data(code))
    engine().finalize_object()
    return {name: engine().get_function_address(name) for name in symbols}


# llvmlite has one lock for all that LLVM does, since modules of one context must not be touched by two
# threads at once. Ours have contexts of their own; what takes long is called past it.


def _past_the_lock(function: Any) -> Any:
    return getattr(function, "_cfn", function)


_run_passes = _past_the_lock(ffi.lib.LLVMPY_RunNewModulePassManager)
_emit = _past_the_lock(ffi.lib.LLVMPY_TargetMachineEmitToMemory)
ASSEMBLY, OBJECT = 0, 1
lock = ffi.lib._lock


class Work:
    """LLVM IR to be made machine code in three parts, of which `run` takes long.

    Python is asked for as little as possible meanwhile: it lets a thread wait for milliseconds where another
    one computes.
    """

    def __init__(self, text: str, kind: int, machine: Any = None) -> None:
        """kind: whether object code or assembly. machine: LLVM's idea of the one that it is for (None: this).
        Raises RuntimeError for what is no LLVM IR.
        """
        self._kind = kind
        self._machine = machine = machine or target_machine()
        self._context = context = llvm.create_context()
        self._module = module = llvm.parse_assembly(text, context)
        # A module must go before its context; Python may collect them in any order.
        self._close = weakref.finalize(self, _close, module, context)
        self._close.atexit = False  # which is before one has waited for what LLVM is doing
        module.data_layout, module.triple = str(machine.target_data), machine.triple
        module.verify()
        self._passes = _passes()
        self._builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options())
        self._message = ffi.OutputString()
        self._buffer: Any = None

    def run(self) -> None:
        """Let LLVM do its work."""
        with _addresses_as_written():
            _run_passes(self._passes, self._module, self._builder)
            self._buffer = _emit(self._machine, self._module, self._kind, self._message)

    def code(self) -> bytes:
        """What came of it, once. Raises RuntimeError where LLVM could not do it."""
        buffer, self._buffer = self._buffer, None
        with self._message:
            if not buffer:
                raise RuntimeError(f"LLVM gives no machine code: {self._message}")
            try:
                start = ffi.lib.LLVMPY_GetBufferStart(buffer)
                return ctypes.string_at(start, ffi.lib.LLVMPY_GetBufferSize(buffer))
            finally:
                ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)
                self._close()


def _close(*things: Any) -> None:
    for thing in things:
        thing.close()


def _passes() -> Any:
    """A pass list of our own.

    Our code comes with its vectors and its loops as they should be: what is left to do is variables into
    registers, loops turned so that they test at the end, and what is computed twice. Numba's list, or LLVM's
    own for -O2, takes five times as long and its code is no faster.
    """
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    passes.add_loop_simplify_pass()
    passes.add_lcssa_pass()
    passes.add_loop_rotate_pass()
    passes.add_new_gvn_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    return passes


_setting = threading.Lock()
_compiling_now = 0


@contextmanager
def _addresses_as_written() -> Iterator[None]:
    """Inside, LLVM does not look for other ways to count addresses on in loops.

    The writer has put in front of a loop what can be; looking takes a tenth of the time of all that LLVM
    does. It is a setting of the process, so what Numba compiles next must find it as it is.
    """
    _count(1)
    try:
        yield
    finally:
        _count(-1)


def _count(change: int) -> None:
    global _compiling_now
    with _setting:
        before, _compiling_now = _compiling_now, _compiling_now + change
        if not (before and _compiling_now):
            llvm.set_option("fusegrad", f"-disable-lsr={'true' if _compiling_now else 'false'}")


def object_work(text: str) -> Work:
    """LLVM IR to be made an object for this process. Raises RuntimeError for what is no LLVM IR."""
    return Work(text, OBJECT)


def assembly(text: str) -> bytes:
    """The machine code of LLVM IR for people to read."""
    work = Work(text, ASSEMBLY)
    work.run()
    return work.code()


def object_for(text: str, level: Level) -> bytes:
    """The object of LLVM IR for all machines of a level, to be linked."""
    llvm.initialize_native_asmparser()  # for what is written as instructions
    work = Work(text, OBJECT, level_machine(level))
    work.run()
    return work.code()
