"""Machine code of kernels, and how many threads it may use."""

from __future__ import annotations

import functools
import operator
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from fusegrad.compiler import debug
from fusegrad.compiler.emit import lanes_of, parts
from fusegrad.compiler.functions import module_text
from fusegrad.compiler.kernel import Kernel
from fusegrad.compiler.lock import compiling
from fusegrad.compiler.machine_code import Module, Statistics, vector_bytes
from fusegrad.compiler.parallel import task_name
from fusegrad.eager.errors import failure

_modules: dict[str, Module] = {}  # by name of a kernel, the module that it is in
_since_cold: set[str] | None = None  # inside `cold()`: the kernels compiled since it began


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


def kernel_name(kernel: Kernel) -> str:
    return f"kernel_{kernel.digest}"


# Each module takes LLVM some milliseconds, whatever is in it: as much as for so many characters of LLVM IR.
LEAST_MODULE = 4096


def compile_kernels(kernels: Sequence[Kernel]) -> None:
    """Begin to compile what is new of `kernels`, equal ones once; `kernel_addresses` waits for them."""
    with compiling:
        new = {kernel_name(k): k for k in kernels if not _is_known(kernel_name(k))}
        texts = {}
        for name, kernel in new.items():
            debug.show(3, "kernel", functools.partial(getattr, kernel, "text"))
            texts[name] = module_text(kernel, name, vector_bytes(), lanes_of(kernel, vector_bytes()))
        for names in _shares({name: len(text) for name, text in texts.items()}, cores()):
            tasks = [task_name(name) for name in names if parts(new[name])[1] is not None]
            module = Module(joined([texts[name] for name in names]), [*names, *tasks])
            _modules.update(dict.fromkeys(names, module))
        if _since_cold is not None:
            _since_cold.update(new)
        Statistics.kernels += len(new)


def _is_known(name: str) -> bool:
    """Whether a kernel has been compiled, or is about to be."""
    return name in _modules and not _modules[name].failed and (_since_cold is None or name in _since_cold)


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
    """Of a kernel, once it is compiled: its entry, and what computes one chunk (0 where it has no parallel
    loop). Raises what LLVM has against it.
    """
    name = kernel_name(kernel)
    addresses = _modules[name].addresses()
    return addresses[name], addresses.get(task_name(name), 0)
