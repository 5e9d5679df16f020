"""Machine code of kernels: compiled once each, however many programs use them, and processes."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from fusegrad.compiler.base import background, debug
from fusegrad.compiler.base.lock import compiling
from fusegrad.compiler.codegen.functions import module_text
from fusegrad.compiler.codegen.kernel_parts import parts
from fusegrad.compiler.kernel.ir import Kernel
from fusegrad.compiler.llvm.ir_writer import RARE
from fusegrad.compiler.llvm.llvm_jit import Module, Statistics, left_for, said_key
from fusegrad.compiler.llvm.target import host
from fusegrad.compiler.llvm.tasks import task_name
from fusegrad.compiler.runtime import threads

_modules: dict[str, Module] = {}  # by name of a kernel, the module that it is in
_since_cold: set[str] | None = None  # inside `cold()`: the kernels compiled since it began


def kernel_name(kernel: Kernel) -> str:
    return f"kernel_{kernel.digest}"


# Each module takes LLVM some milliseconds, whatever is in it: as much as for so many characters of LLVM IR.
LEAST_MODULE = 4096
# So much text goes to LLVM while Python still writes the rest. Each module has copies of the elementary
# functions, some 30,000 characters, so that many small ones are twice the work.
LARGE_MODULE = 1 << 19
# As many modules as there are cores are LLVM's at a time; of a long program there are more. Those of what is
# compiled beside the program have turns of their own, so that no call waits behind them.
_turns: dict[bool, threading.Semaphore] = {}


def _begin_turns() -> None:
    _turns.update({aside: threading.Semaphore(threads.cores()) for aside in (False, True)})


_begin_turns()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_turns)  # it has none of the threads that took them


def compile_kernels(kernels: Sequence[Kernel]) -> None:
    """Begin to compile what is new of `kernels`, equal ones once; `kernel_addresses` waits for them."""
    new = {kernel_name(k): k for k in kernels if not _is_known(kernel_name(k))}
    texts: dict[str, str] = {}
    for name, kernel in new.items():
        debug.show(3, "kernel", functools.partial(getattr, kernel, "text"))
        write = functools.partial(module_text, kernel, name, host())
        if _is_left(name, kernel, write):
            continue
        text = write()
        if texts and sum(map(len, texts.values())) + len(text) > LARGE_MODULE:
            _begin(new, texts)
            texts = {}
        texts[name] = text
    for names in _shares({name: len(text) for name, text in texts.items()}, threads.cores()):
        _begin(new, {name: texts[name] for name in names})


def _begin(kernels: Mapping[str, Kernel], texts: Mapping[str, str]) -> None:
    """Have LLVM begin with kernels, whose texts these are, in one module."""
    with compiling:
        # Another thread may have been faster.
        new = {name: text for name, text in texts.items() if not _is_known(name)}
        if not new:
            return
        tasks = [task_name(name) for name in new if parts(kernels[name])[1] is not None]
        aside = background.here()
        keys = [*filter(None, (_key(kernels[name]) for name in new))]
        module = Module(joined([*new.values()]), [*new, *tasks], _turns[aside], aside, keys)
        _modules.update(dict.fromkeys(new, module))
        if _since_cold is not None:
            _since_cold.update(new)
        Statistics.kernels += len(new)


def _key(kernel: Kernel) -> str:
    """By which other processes find a kernel, whose text says all of it; empty where they are not to."""
    return said_key("kernel", kernel.text) if _since_cold is None else ""


def _is_left(name: str, kernel: Kernel, write: Callable[[], str]) -> bool:
    """Whether an earlier process has compiled a kernel, which is then known here as well."""
    module = left_for(_key(kernel), write)
    if module is not None:
        with compiling:
            _modules[name] = module
    return module is not None


def found(kernel: Kernel) -> bool | None:
    """Whether an earlier process had compiled a kernel; None where it has not been asked for here."""
    module = _modules.get(kernel_name(kernel))
    return module.found if module is not None else None


def _is_known(name: str) -> bool:
    """Whether a kernel has been compiled, or is about to be; not where a call would have to wait behind what
    is compiled beside the program.
    """
    module = _modules.get(name)
    if module is None or module.failed or not (module.begun or background.here()):
        return False
    return _since_cold is None or name in _since_cold


def _shares(sizes: Mapping[str, int], most: int) -> list[list[str]]:
    """Names in at most so many groups of about the same size; one more only for what is worth a module."""
    besides_the_largest = sum(sizes.values()) - max(sizes.values(), default=0)
    count = min(most, len(sizes), 1 + besides_the_largest // LEAST_MODULE)
    shares: list[list[str]] = [[] for _ in range(count)]
    filled = [0] * count
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        least = filled.index(min(filled))
        shares[least].append(name)
        filled[least] += sizes[name]
    return shares


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
_SHARED = ("declare ", "define private ", "@fusegrad_", f"{RARE} = ")


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
    """Of a kernel, once it is compiled: its entry, and what computes one chunk (0 where it has no parallel
    loop). Raises what LLVM has against it.
    """
    name = kernel_name(kernel)
    addresses = _modules[name].addresses()
    return addresses[name], addresses.get(task_name(name), 0)
