"""Machine code: LLVM modules through Numba's code library, and how many threads it may use.

Importing this module imports Numba, as does whatever needs `jit`; `import fusegrad` does not.
"""

from __future__ import annotations

import _thread
import functools
import hashlib
import operator
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

import llvmlite.binding as llvm
import numpy as np
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target

from fusegrad.compiler import debug
from fusegrad.compiler.emit import lanes_of, parts
from fusegrad.compiler.functions import module_text
from fusegrad.compiler.kernel import Kernel
from fusegrad.compiler.lock import compiling
from fusegrad.compiler.parallel import task_name
from fusegrad.eager.errors import failure

_codegen = cpu_target.target_context.codegen()
_addresses: dict[str, int] = {}
_since_cold: set[str] | None = None  # inside `cold()`: the kernels compiled since it began
# Numba frees the code of a library that nobody holds.
_libraries: list[Any] = []


class _Library(JITCodeLibrary):
    """Numba's code library with a pass list of our own.

    Our code comes with its vectors and its loops as they should be: what is left to do is variables into
    registers, loops turned so that they test at the end, and what is computed twice. Numba's list, or LLVM's
    own for -O2, takes five times as long and its code is no faster.
    """

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
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
        options = llvm.create_pipeline_tuning_options()
        passes.run(self._final_module, llvm.create_pass_builder(self._codegen._tm, options))


P = ParamSpec("P")
R = TypeVar("R")


def undisturbed(function: Callable[P, R]) -> Callable[P, R]:
    """`function` in a thread of its own, where Python raises no KeyboardInterrupt; one waits for its end.

    Numba and llvmlite take their locks in Python code. One that was interrupted there would stay taken, and
    whoever compiles next would wait for ever.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if threading.get_ident() != threading.main_thread().ident:
            return function(*args, **kwargs)
        made: list[R] = []
        failed: list[BaseException] = []
        interrupts: list[BaseException] = []
        # Threads and events of `threading` are Python code as well.
        done = threading.Lock()
        done.acquire()

        def run() -> None:
            try:
                made.append(function(*args, **kwargs))
            except BaseException as error:
                failed.append(error)
            finally:
                done.release()

        _thread.start_new_thread(run, ())
        while not made and not failed:
            try:
                done.acquire()
            except KeyboardInterrupt as interrupt:
                interrupts.append(interrupt)
        for error in (*interrupts, *failed):
            raise error
        return made[0]

    return call


class Statistics:
    """What compilation has cost in this process."""

    modules = 0
    kernels = 0
    seconds = 0.0


@functools.cache
@undisturbed
def vector_bytes() -> int:
    """The width of the machine's vectors in bytes, of those that Numba compiles for.

    NUMBA_ENABLE_AVX, NUMBA_CPU_NAME and NUMBA_CPU_FEATURES may leave some out. LLVM ends the process where it
    meets an instruction by name that its target lacks.
    """
    host, told = llvm.get_host_cpu_features(), _codegen._tm_features.split(",")
    features = {name for name, there in host.items() if there and f"+{name}" in told}
    if {"avx512f", "avx512vl"} <= features:
        return 64
    return 32 if "avx2" in features else 16


# How many threads.


@functools.cache
def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def pool_size() -> int:
    """How many threads parallel loops use: 1 where the system has no POSIX threads."""
    if os.name != "posix":
        return 1
    # OpenMP takes a number for each level of nesting; what is none is ignored, as it does.
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return min(cores(), int(asked)) if asked.isdecimal() and int(asked) else cores()


_alone = False
_wanted: int | None = None  # what `set_num_threads` was told
thread_count = np.ones(1, np.int64)  # what native code reads


def _alone_in_child() -> None:
    """A forked child has no pool: its threads stay with the parent."""
    global _alone
    _alone = True
    thread_count[0] = 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_alone_in_child)


def threads() -> int:
    """The threads that a call made now may use."""
    return 1 if _alone else min(pool_size(), _wanted or pool_size())


def set_num_threads(count: int) -> None:
    """Let compiled code use at most `count` threads, from the next call on; as `torch.set_num_threads`.

    Results do not depend on it. More than the machine's cores, or than OMP_NUM_THREADS, count as so many.
    Raises TypeError for what is no int, RuntimeError for less than 1.

    >>> import fusegrad as fg
    >>> before = fg.get_num_threads()
    >>> fg.set_num_threads(1)
    >>> fg.get_num_threads()
    1
    >>> fg.set_num_threads(before)
    """
    global _wanted
    count = operator.index(count)
    if count < 1:
        raise failure(RuntimeError, f"set_num_threads expects a positive number, not {count}")
    _wanted = count
    thread_count[0] = threads()


def get_num_threads() -> int:
    """How many threads compiled code may use; as `torch.get_num_threads`."""
    return threads()


# Compiling.


@undisturbed
def add_symbols(addresses: Mapping[str, int]) -> None:
    """Make functions and variables known by name to the modules that are compiled from now on."""
    for name, address in addresses.items():
        llvm.add_symbol(name, address)


@undisturbed
def compile_module(name: str, text: str, symbols: Sequence[str]) -> list[int]:
    """Compile LLVM IR and give the addresses of `symbols` in it."""
    started = time.perf_counter()
    library = _Library(_codegen, name)
    module = llvm.parse_assembly(text)
    module.verify()
    library.add_llvm_module(module)
    with global_compiler_lock, _addresses_as_written():
        library.finalize()
        _libraries.append(library)
        Statistics.modules += 1
        Statistics.seconds += time.perf_counter() - started
        debug.show(4, "LLVM IR", lambda: text)
        # Which is made anew from the module, so with the same setting.
        debug.show(5, "assembly", library.get_asm_str)
    return [library.get_pointer_to_function(symbol) for symbol in symbols]


@contextmanager
def _addresses_as_written() -> Iterator[None]:
    """Inside, LLVM does not look for other ways to count addresses on in loops.

    The writer has put in front of a loop what can be; looking takes a tenth of the time of all that LLVM
    does. It is a setting of the process, so what Numba compiles next must find it as it is.
    """
    llvm.set_option("fusegrad", "-disable-lsr=true")
    try:
        yield
    finally:
        llvm.set_option("fusegrad", "-disable-lsr=false")


def kernel_name(kernel: Kernel) -> str:
    return f"kernel_{kernel.digest}"


def compile_kernels(kernels: Sequence[Kernel]) -> None:
    """Compile those of `kernels` that are new, several to a module; equal ones once."""
    with compiling:
        known = _addresses if _since_cold is None else _since_cold
        new = {kernel_name(k): k for k in kernels if kernel_name(k) not in known}
        if not new:
            return
        texts = []
        for name, kernel in new.items():
            debug.show(3, "kernel", functools.partial(getattr, kernel, "text"))
            texts.append(module_text(kernel, name, vector_bytes(), lanes_of(kernel, vector_bytes())))
        digest = hashlib.sha256("".join(new).encode()).hexdigest()[:16]
        symbols = [*new, *(task_name(name) for name, kernel in new.items() if parts(kernel)[1] is not None)]
        addresses = compile_module(f"fusegrad_{digest}", joined(texts), symbols)
        _addresses.update(zip(symbols, addresses, strict=True))
        if _since_cold is not None:
            _since_cold.update(new)
        Statistics.kernels += len(new)


@contextmanager
def cold() -> Iterator[None]:
    """Inside, kernels compile as if none had been compiled before: for timing first calls."""
    global _since_cold
    previous, _since_cold = _since_cold, set()
    try:
        yield
    finally:
        _since_cold = previous


# Lines that several modules may have: declarations, and functions and constants written in one line.
_SHARED = ("declare ", "define private ", "@fusegrad_")


def joined(texts: Sequence[str]) -> str:
    """Modules as one: each declaration once."""
    declared: set[str] = set()
    bodies = []
    for text in texts:
        lines = text.splitlines()
        declared |= {line for line in lines if line.startswith(_SHARED)}
        bodies.append("\n".join(line for line in lines if not line.startswith(_SHARED)))
    return "\n".join([*sorted(declared), *bodies])


def kernel_addresses(kernel: Kernel) -> tuple[int, int]:
    """Of a compiled kernel: its entry, and what computes one chunk (0 where it has no parallel loop)."""
    name = kernel_name(kernel)
    return _addresses[name], _addresses.get(task_name(name), 0)
