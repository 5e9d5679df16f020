"""Machine code: LLVM IR goes in, addresses of its functions come out, several modules at a time.

LLVM's work is the better part of most first calls. So each module has a thread of its own, and whoever needs
the address of something in it waits for it then: LLVM works on as many modules as there are cores, and Python
goes on planning meanwhile. What an earlier process left in the cache's folder (`compiler/artefacts`) is taken
from there, and LLVM is not asked.

Importing this imports Numba, as does whatever needs `jit`; `import fusegrad` does not.
"""

from __future__ import annotations

import _thread
import atexit
import ctypes
import functools
import hashlib
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
from llvmlite.binding import ffi

from fusegrad.compiler.artefacts import folder
from fusegrad.compiler.artefacts.form import Artefact
from fusegrad.compiler.base import debug
from fusegrad.compiler.base.lock import compiling
from fusegrad.compiler.base.uninterrupted import Finished, Running, undisturbed
from fusegrad.compiler.llvm.target import Level, instructions, level_machine, target_machine
from fusegrad.eager import forks


class Statistics:
    """What compilation has cost in this process.

    modules: that were loaded; found: those of them that an earlier process had left. seconds: for which
    somebody waited for machine code.
    """

    modules = 0
    found = 0
    kernels = 0
    seconds = 0.0


# The engine.


@functools.cache
def _engine() -> Any:
    """What holds the machine code of this process, and knows where its symbols are."""
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine())


@undisturbed
def add_symbols(addresses: Mapping[str, int]) -> None:
    """Make functions and variables known by name to the modules that are compiled from now on."""
    for name, address in addresses.items():
        llvm.add_symbol(name, address)


# LLVM at work. llvmlite has one lock for all that LLVM does, since modules of one context must not be touched
# by two threads at once. Ours have contexts of their own; what takes long is called past it.


def _past_the_lock(function: Any) -> Any:
    return getattr(function, "_cfn", function)


_run_passes = _past_the_lock(ffi.lib.LLVMPY_RunNewModulePassManager)
_emit = _past_the_lock(ffi.lib.LLVMPY_TargetMachineEmitToMemory)
_ASSEMBLY, _OBJECT = 0, 1


class _Work:
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


# What processes leave for later ones.

KIND = "machine code"


def _facts() -> list[Any]:
    """What machine code depends on beside its text: who makes it, how, and for what instructions. Raises
    OSError where that cannot be told.

    Not the name that LLVM has for the processor: it decides in which order instructions stand, not which.
    """
    machine, recipe = target_machine(), Path(__file__).read_bytes()
    return [llvm.llvm_version_info, machine.triple, str(machine.target_data), instructions(), recipe]


@functools.cache
def _maker() -> bytes:
    """The digest of that; empty where it cannot be told."""
    try:
        return hashlib.sha256(repr(_facts()).encode()).digest()
    except OSError:
        return b""


def cache_key(text: str) -> str:
    """The key of the machine code of LLVM IR; empty where there is no cache."""
    return hashlib.sha256(_maker() + text.encode()).hexdigest() if folder.place() and _maker() else ""


def _left(key: str) -> Artefact | None:
    """The machine code that an earlier process left under a key."""
    artefact = folder.find(key) if key else None
    return artefact if artefact is not None and artefact.kind == KIND else None


# By keys, the module that was found for them: what has several kernels is loaded once.
_found: dict[tuple[str, ...], Module] = {}


def left_for(text: str) -> Module | None:
    """The module that has the functions of LLVM IR, maybe beside others, where an earlier process left it."""
    artefact = _left(cache_key(text))
    if artefact is None:
        return None
    keys = tuple(artefact.facts["keys"])
    with compiling:
        if keys not in _found:
            _found[keys] = Module(text, artefact.facts["symbols"], code=artefact.parts["object"])
        return _found[keys]


# From text to addresses.

_at_work: list[Module] = []
_loading = threading.Lock()
# Shut while the process forks: modules that are aside begin behind it.
_gate = threading.Lock()
_ending = False


class Module:
    """LLVM IR that is being compiled, or has been. To be made under the lock of compiling.

    turn: what its thread waits for before LLVM begins, where there may be many. aside: whether it is of what
    is compiled beside the program; who forks or ends the process does not wait for such a one to begin.
    keys: by which later processes are to find it, where it has been looked for by them. code: its machine
    code, where that is known. Raises RuntimeError for what is no LLVM IR.
    """

    def __init__(
        self,
        text: str,
        symbols: Sequence[str],
        turn: threading.Semaphore | None = None,
        aside: bool = False,
        keys: Sequence[str] | None = None,
        code: bytes | None = None,
    ) -> None:
        if keys is None and code is None:
            keys = [*filter(None, [cache_key(text)])]
            left = _left(keys[0]) if keys else None
            code = left.parts["object"] if left is not None else None
        self._text, self._symbols = text, symbols
        self._addresses: dict[str, int] | None = None
        self.lost = self._shown = False
        self.found = code is not None
        self.begun = self.found or not aside
        self._keys = keys or ()
        self.running: Running[None] | Finished[None] = Finished(None)
        if code is not None:
            self._code: Callable[[], bytes] = lambda: code
            return
        work = undisturbed(_Work)(text, _OBJECT)
        self._code = work.code

        def run() -> None:
            with turn or nullcontext():
                with _gate if aside else nullcontext():
                    if aside and _ending:
                        raise RuntimeError("the process ends")
                    self.begun = True
                work.run()

        self.running = Running(run)
        _at_work[:] = [*(m for m in _at_work if not m.running.finished), self]

    @property
    def failed(self) -> bool:
        """Whether LLVM has failed, or its thread is another process's."""
        return self.lost or self.running.failed

    def addresses(self) -> dict[str, int]:
        """Where its symbols are, for which one waits. Raises what LLVM failed with."""
        if self._addresses is not None and self._shown:
            return self._addresses
        started = time.perf_counter()
        self.running.result()  # not under the lock: others may compile meanwhile
        with compiling:
            found = undisturbed(self._load)()
            Statistics.seconds += time.perf_counter() - started
            if not self._shown:
                debug.show(4, "LLVM IR", lambda: self._text)
                debug.show(5, "assembly", lambda: assembly(self._text))
            self._shown, self._text = True, ""
            return found

    def _load(self) -> dict[str, int]:
        """The addresses; done once, though whoever asked first may have been interrupted."""
        with _loading:
            if self._addresses is None:
                try:
                    engine, code = _engine(), self._code()
                    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
                    engine.finalize_object()
                    self._addresses = {name: engine.get_function_address(name) for name in self._symbols}
                except BaseException:
                    self.lost = True
                    raise
                Statistics.modules += 1
                Statistics.found += self.found
                del self._code
                if self._keys:
                    folder.keep(self._keys, Artefact(KIND, {"symbols": [*self._symbols]}, {"object": code}))
            return self._addresses


def remembered(make: Callable[..., Module]) -> Callable[..., Module]:
    """`make`, which begins to compile a module, done once for the same arguments, unless LLVM fails."""
    known: dict[tuple[Any, ...], Module] = {}

    @functools.wraps(make)
    def module(*args: Any) -> Module:
        with compiling:
            if args not in known or known[args].failed:
                known[args] = make(*args)
            return known[args]

    return module


def compile_module(text: str, symbols: Sequence[str]) -> list[int]:
    """Compile LLVM IR and give the addresses of `symbols` in it."""
    with compiling:
        return list(Module(text, symbols).addresses().values())


@undisturbed
def assembly(text: str) -> str:
    """The machine code of LLVM IR for people to read."""
    work = _Work(text, _ASSEMBLY)
    work.run()
    return work.code().decode()


@undisturbed
def object_code(text: str, level: Level) -> bytes:
    """The object of LLVM IR for all machines of a level, to be linked."""
    with compiling:
        llvm.initialize_native_asmparser()  # for what is written as instructions
        work = _Work(text, _OBJECT, level_machine(level))
        work.run()
        return work.code()


def _wait_for_all() -> None:
    waited = [module.running.wait() for module in list(_at_work) if module.begun]
    if any(waited):
        _thread.interrupt_main()


def _before_fork() -> None:
    """A child has only the thread that forks: LLVM must have been left by all others, and llvmlite's lock
    given back. Any thread takes that in which an object of llvmlite's goes, if only to the garbage collector.
    """
    compiling.__enter__()
    _gate.acquire()
    _wait_for_all()
    ffi.lib._lock.__enter__()


def _after_fork() -> None:
    ffi.lib._lock.__exit__()
    _gate.release()
    compiling.__exit__(None, None, None)


def _after_fork_in_child() -> None:
    for module in _at_work:
        module.lost = module.lost or not module.running.finished
    _after_fork()


def _at_exit() -> None:
    """LLVM must not be taken down while it works: nobody else comes to it any more."""
    global _ending
    compiling.__enter__()
    with _gate:
        _ending = True
    _wait_for_all()


forks.around_forks(_before_fork, _after_fork, _after_fork_in_child)
atexit.register(_at_exit)
