"""Native calls: a function that LLVM compiles once, and the block of numbers that says where and how much."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fusegrad.compiler.llvm import llvm_jit

TASKS = 0  # where a block has how many tasks there are


class NativeCall(NamedTuple):
    """A call of a function of (slots, block).

    code: gives the module of the function, the same one each time. work: about how many multiplications.
    written: gives the function's symbol and LLVM IR, where that needs nothing from outside.
    """

    code: Callable[[], llvm_jit.Module]
    block: list[int]
    work: int
    written: Callable[[], tuple[str, str]] | None = None

    def begin(self) -> None:
        """Begin to compile the function."""
        self.code()

    def address(self) -> int:
        """That of the function."""
        (found,) = self.code().addresses().values()
        return found

    @property
    def is_shared(self) -> bool:
        """Whether several threads can share its tasks."""
        return self.block[TASKS] > 1
