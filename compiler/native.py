"""Machine code: LLVM modules through Numba's code library, its thread pool, and calling in.

Importing this module imports Numba; nothing before the first `jit` call does.
"""

from __future__ import annotations

import _thread
import ctypes
import functools
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

import llvmlite.binding as llvm
import numpy as np
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target

from fusegrad.compiler import debug
from fusegrad.compiler.emit import lanes_of
from fusegrad.compiler.functions import module_text
from fusegrad.compiler.kernel import Kernel
from fusegrad.compiler.lock import compiling
from fusegrad.compiler.memory import data_address

_codegen = cpu_target.target_context.codegen()
_addresses: dict[str, int] = {}
_since_cold: set[str] | None = None  # inside `cold()`: the kernels compiled since it began
# Numba frees the code of a library that nobody holds.
_libraries: list[Any] = []


class _Library(JITCodeLibrary):
    """Numba's code library with a pass list for code that is vectors already.

    Numba's own list vectorises and unrolls loops, which makes our code three times as long to
    compile and no faster.
    """

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        options = llvm.create_pipeline_tuning_options(speed_level=2)
        options.loop_vectorization = options.slp_vectorization = False
        options.loop_unrolling = options.loop_interleaving = False
        builder = llvm.create_pass_builder(self._codegen._tm, options)
        builder.getModulePassManager().run(self._final_module, builder)


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
    """The width of the machine's vectors in bytes."""
    features = llvm.get_host_cpu_features()
    if features.get("avx512f") and features.get("avx512vl"):
        return 64
    if features.get("avx2"):
        return 32
    return 16


# The thread pool.


@functools.cache
def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def pool_size() -> int:
    """How many threads parallel loops use: 1 where Numba has no OpenMP pool.

    Its workqueue layer is never used: it is slow, and two threads that enter it end the process.
    """
    try:
        # An extension module, unknown to mypy.
        from numba.np.ufunc import omppool  # type: ignore[attr-defined]
    except ImportError:
        return 1
    count = min(cores(), int(os.environ.get("OMP_NUM_THREADS", "") or cores()))
    ctypes.CFUNCTYPE(None, ctypes.c_int)(omppool.launch_threads)(count)
    add_symbol("numba_parallel_for", omppool.parallel_for)
    return count


_alone = False


def _alone_in_child() -> None:
    """A forked child has no pool: OpenMP's threads stay with the parent."""
    global _alone
    _alone = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_alone_in_child)


def threads() -> int:
    """The threads that a call made now may use."""
    return 1 if _alone else pool_size()


# Compiling.


@undisturbed
def add_symbol(name: str, address: int) -> None:
    """Make a function known to the modules that are compiled from now on."""
    llvm.add_symbol(name, address)


def compile_module(name: str, text: str, symbols: Sequence[str]) -> list[int]:
    """Compile LLVM IR and give the addresses of `symbols` in it."""
    if pool_size() == 1:
        # No loop asks for the pool then, but the symbol must be there to link.
        add_symbol("numba_parallel_for", ctypes.cast(_no_pool, ctypes.c_void_p).value or 0)
    return _compiled(name, text, symbols)


@undisturbed
def _compiled(name: str, text: str, symbols: Sequence[str]) -> list[int]:
    started = time.perf_counter()
    library = _Library(_codegen, name)
    module = llvm.parse_assembly(text)
    module.verify()
    library.add_llvm_module(module)
    with global_compiler_lock:
        library.finalize()
    _libraries.append(library)
    Statistics.modules += 1
    Statistics.seconds += time.perf_counter() - started
    debug.show(4, "LLVM IR", lambda: text)
    debug.show(5, "assembly", library.get_asm_str)
    return [library.get_pointer_to_function(symbol) for symbol in symbols]


@ctypes.CFUNCTYPE(None)
def _no_pool() -> None:
    raise AssertionError("a parallel loop was started without a thread pool")


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
        addresses = compile_module(f"fusegrad_{digest}", joined(texts), list(new))
        _addresses.update(zip(new, addresses, strict=True))
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


def kernel_address(kernel: Kernel) -> int:
    """The entry of a compiled kernel."""
    return _addresses[kernel_name(kernel)]


# Calling in.

# Where CPython keeps the items of a tuple, and NumPy the data of an array, counted from the
# object's address. Reading them costs nothing; `ndarray.ctypes.data` costs 840 ns.
_TUPLE_ITEMS = tuple.__basicsize__
_ARRAY_DATA = object.__basicsize__

_DRIVER = """
define void @fusegrad_run(ptr %items, i64 %arrays, ptr %slots, ptr %calls, i64 %count) nounwind {{
entry:
  br label %fill
fill:
  %i = phi i64 [ 0, %entry ], [ %i1, %copy ]
  %more = icmp slt i64 %i, %arrays
  br i1 %more, label %copy, label %calling
copy:
  %item = getelementptr ptr, ptr %items, i64 %i
  %array = load ptr, ptr %item
  %field = getelementptr i8, ptr %array, i64 {data}
  %memory = load ptr, ptr %field
  %i1 = add i64 %i, 1
  %slot = getelementptr ptr, ptr %slots, i64 %i1
  store ptr %memory, ptr %slot
  br label %fill
calling:
  %c = phi i64 [ 0, %fill ], [ %c1, %call ]
  %left = icmp slt i64 %c, %count
  br i1 %left, label %call, label %done
call:
  %twice = shl i64 %c, 1
  %entry.at = getelementptr ptr, ptr %calls, i64 %twice
  %function = load ptr, ptr %entry.at
  %block.at = getelementptr ptr, ptr %entry.at, i64 1
  %block = load ptr, ptr %block.at
  call void %function(ptr %slots, ptr %block)
  %c1 = add i64 %c, 1
  br label %calling
done:
  ret void
}}
"""


@functools.cache
def driver() -> Callable[[int, int, int, int, int], None]:
    """`run(items, arrays, slots, calls, count)`: fill the slots from ndarrays and call the kernels.

    items: address of the first of `arrays` object pointers to ndarrays; slots: slot 0 holds the
    number of threads, the arrays' memory goes to the slots from 1. The GIL is released.
    """
    with compiling:
        (address,) = compile_module("fusegrad_driver", _DRIVER.format(data=_ARRAY_DATA), ["fusegrad_run"])
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 5)
    return prototype(address)


@functools.cache
def layouts_known() -> bool:
    """Whether tuples and arrays lie in memory as the driver expects; another Python may differ."""
    array = np.arange(3)
    pair = (None, array)
    item = ctypes.c_void_p.from_address(id(pair) + _TUPLE_ITEMS + ctypes.sizeof(ctypes.c_void_p)).value
    data = ctypes.c_void_p.from_address(id(array) + _ARRAY_DATA).value
    return item == id(array) and data == array.__array_interface__["data"][0]


def new_slots(count: int) -> np.ndarray:
    """Room for the addresses of `count` buffers behind the number of threads."""
    slots = np.zeros(count + 1, np.int64)
    slots[0] = threads()
    return slots


class Calls:
    """Native functions with their blocks, called one after the other in one go."""

    __slots__ = ("_blocks", "_known", "_run", "_table", "count", "table_address")

    def __init__(self, calls: Sequence[tuple[int, Sequence[int]]]) -> None:
        self._blocks = [np.array(block, np.int64) for _, block in calls]
        entries = [(address, data_address(b)) for (address, _), b in zip(calls, self._blocks, strict=True)]
        self._table = np.array(entries, np.int64).reshape(-1)
        self.table_address = data_address(self._table)
        self.count = len(calls)
        self._run, self._known = driver(), layouts_known()

    def run(self, arrays: tuple[np.ndarray, ...], slots: np.ndarray) -> None:
        """Call all, with the memory of `arrays` in the slots from 1."""
        self.run_at(arrays, data_address(slots))

    def run_at(self, arrays: tuple[np.ndarray, ...], slots_address: int) -> None:
        """`run` with the address of the slots, which the caller keeps alive."""
        if self._known:
            items, count = id(arrays) + _TUPLE_ITEMS, len(arrays)
        else:
            items = count = 0
            room = (ctypes.c_int64 * len(arrays)).from_address(slots_address + 8)
            room[:] = [data_address(a) for a in arrays]
        self._run(items, count, slots_address, self.table_address, self.count)
