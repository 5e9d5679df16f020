"""The target: what LLVM and the system say of the machine goes in, what the compiler asks of it comes out.

Whoever plans or writes code for a machine is given a `Target`, or takes the `host`'s. Nobody else asks which
instructions there are, so code for any machine can be written on any other.

LLVM is asked once on a machine: what it says is left in the cache, by what it looks at (`processor.py`).
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from fusegrad.compiler.artefacts import folder
from fusegrad.compiler.artefacts.form import Artefact
from fusegrad.compiler.base.uninterrupted import undisturbed
from fusegrad.compiler.llvm import image, processor


@dataclass(frozen=True, slots=True)
class Target:
    """A machine that code is written for.

    vector_bytes: the width of its vectors: 16, 32 (AVX2) or 64 (AVX-512).
    avx512: whether the code may use instructions of AVX-512 by name. LLVM ends the process where it meets one
    that the machine of its own lacks.
    cache_bytes: the size of the last cache; infinite where nobody tells.

    >>> Target(32).lanes(4), Target(64, avx512=True).vector_registers
    (8, 32)
    """

    vector_bytes: int
    avx512: bool = False
    cache_bytes: float = math.inf

    def lanes(self, itemsize: int) -> int:
        """How many numbers of so many bytes a vector has."""
        return self.vector_bytes // itemsize

    @property
    def vector_registers(self) -> int:
        """How many vectors are at hand at a time: what a tile of a product may fill."""
        return 32 if self.vector_bytes == 64 else 16

    @property
    def most_interleaved(self) -> int:
        """How many vectors a long body takes side by side: each is computed while others are waited for."""
        return 4 if self.vector_bytes >= 32 else 2

    @property
    def multiplies_by_tiles(self) -> bool:
        """Whether vectors are so long that our own kernel for products pays."""
        return self.vector_bytes >= 32

    @property
    def blas_core(self) -> str:
        """Whose kernels OpenBLAS is told to take ("": none); left alone it takes slower ones of AVX2."""
        return "SkylakeX" if self.vector_bytes == 64 else ""

    @property
    def function_attributes(self) -> str:
        """What LLVM is told of functions whose vectors are the machine's."""
        # Told nothing of the stack, LLVM leaves it as it is, and most vectors that it keeps there lie across
        # two lines of the cache: each takes twice as long to be read.
        return f"{vector_width(8 * self.vector_bytes)} alignstack({self.vector_bytes}) nounwind"


class Level(NamedTuple):
    """All machines of an architecture that have certain instructions, as LLVM calls them."""

    architecture: str
    cpu: str
    target: Target

    @property
    def triple(self) -> str:
        """What LLVM calls such a machine with its system."""
        return f"{self.architecture}-unknown-linux-gnu"


# By the names that programs ask for, the oldest machines of an architecture first.
LEVELS = {
    "x86-64": Level("x86_64", "x86-64", Target(16)),
    "x86-64-v3": Level("x86_64", "x86-64-v3", Target(32)),
    "x86-64-v4": Level("x86_64", "x86-64-v4", Target(64, avx512=True)),
    "aarch64": Level("aarch64", "generic", Target(16)),
}


def vector_width(bits: int) -> str:
    """What LLVM is told of a function whose vectors have so many bits."""
    return f'"prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}"'


_other: ContextVar[Target | None] = ContextVar("_other", default=None)


@contextmanager
def written_for(target: Target) -> Iterator[None]:
    """Inside, what is planned and written is for another machine; nothing may be compiled to be run here."""
    token = _other.set(target)
    try:
        yield
    finally:
        _other.reset(token)


def host() -> Target:
    """The machine that code is written for: this process's, unless it is `written_for` another."""
    return _other.get() or _host()


@functools.cache
def _host() -> Target:
    """The machine that this process runs on, with no more than Numba compiles for.

    NUMBA_ENABLE_AVX, NUMBA_CPU_NAME and NUMBA_CPU_FEATURES may leave some out.
    """
    features = {*_machine()["present"]}
    avx512 = {"avx512f", "avx512vl"} <= features
    return Target(64 if avx512 else 32 if "avx2" in features else 16, avx512, _cache_bytes())


def _cache_bytes() -> float:
    """The size of the last cache, in bytes; infinite where the system does not tell."""
    sizes = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    found = [0]
    for cache in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            text = (cache / "size").read_text().strip()
            found.append(int(text[:-1]) * sizes[text[-1]])
        except (OSError, ValueError, KeyError, IndexError):
            continue
    return max(found) or math.inf


# What LLVM and Numba say.

KIND = "machine"


@functools.cache
def _machine() -> Mapping[str, Any]:
    """What LLVM says of this machine, now or to an earlier process."""
    key = _key_of_machine()
    artefact = folder.find(key) if key else None
    if artefact is not None and artefact.kind == KIND:
        return artefact.facts
    facts = undisturbed(_asked)()
    if key:
        folder.keep([key], Artefact(KIND, facts))
    return facts


def _key_of_machine() -> str:
    """The digest of all that it depends on; empty where there is no cache, or it cannot be told."""
    seen = processor.seen() if folder.place() else None
    if seen is None:
        return ""
    return hashlib.sha256(repr([seen, Path(__file__).read_bytes()]).encode()).hexdigest()


def _asked() -> dict[str, Any]:
    """version, triple, layout: LLVM's, of the system and its data; instructions: what there is and what there
    is not, of all that LLVM knows of such machines; present: of these, what the processor has.
    """
    import llvmlite.binding as llvm

    machine, instructions = target_machine(), str(_codegen()._tm_features)
    told = {*instructions.split(",")}
    present = [n for n, there in llvm.get_host_cpu_features().items() if there and f"+{n}" in told]
    version, layout = [*llvm.llvm_version_info], str(machine.target_data)
    return {
        "version": version,
        "triple": str(machine.triple),
        "layout": layout,
        "instructions": instructions,
        "present": sorted(present),
    }


def host_facts() -> list[Any]:
    """What machine code for this process depends on beside its text."""
    return [_machine()[name] for name in ("version", "triple", "layout", "instructions")]


@functools.cache
def _codegen() -> Any:
    """What Numba compiles for this machine."""
    from numba.core.registry import cpu_target

    return cpu_target.target_context.codegen()


def target_machine() -> Any:
    """LLVM's idea of the machine: Numba's, which knows the settings of its users."""
    import llvmlite.binding as llvm

    options: dict[str, Any] = {"opt": 3}
    _codegen()._customize_tm_options(options)
    if image.are_used():  # which lie anywhere, each with its constants beside its code
        options |= {"reloc": "pic", "codemodel": "small"}
    return llvm.Target.from_default_triple().create_target_machine(**options)


def level_machine(level: Level) -> Any:
    """LLVM's idea of all machines of a level, for code that may lie anywhere."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(level.triple)
    return target.create_target_machine(cpu=level.cpu, features="", opt=3, reloc="pic", codemodel="default")
