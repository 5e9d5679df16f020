"""The processor and the compilers that are installed: what LLVM would look at, read without loading it."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

from fusegrad.compiler.llvm import image

# A function of (leaf, subleaf, four numbers) for the instruction `cpuid`, and one of (two numbers) for
# `xgetbv`, which says what of it the system lets programs use.
_CPUID = bytes.fromhex(
    "53"  # push rbx
    "49 89 d0"  # mov r8, rdx
    "89 f8 89 f1"  # mov eax, edi; mov ecx, esi
    "0f a2"  # cpuid
    "41 89 00 41 89 58 04 41 89 48 08 41 89 50 0c"  # mov [r8], eax ... [r8 + 12], edx
    "5b c3"  # pop rbx; ret
)
_XGETBV = bytes.fromhex(
    "31 c9 0f 01 d0"  # xor ecx, ecx; xgetbv
    "89 07 89 57 04 c3"  # mov [rdi], eax; mov [rdi + 4], edx; ret
)
_EAX, _EBX, _ECX, _EDX = range(4)
# Of which leaves LLVM reads what instructions there are, and which of their registers do not say that: they
# number the core that is asked, or tell how much memory is in use.
_LEAVES = {
    (0, 0): (),
    (1, 0): (_EBX,),
    **dict.fromkeys([(7, 0), (7, 1), (0x14, 0), (0x19, 0), (0x1E, 1), (0x24, 0)], ()),
    (0xD, 1): (_EBX,),
    **dict.fromkeys([(0x80000000, 0), (0x80000001, 0), (0x80000008, 0)], ()),
}
_XSAVE_IS_ON = 1 << 27  # in register ecx of leaf 1


def _registers() -> list[Any]:
    """What the processor says of its instructions."""
    place = image.loaded(image.Image(_CPUID + _XGETBV, {"cpuid": 0, "xgetbv": len(_CPUID)}))
    number, pointer = ctypes.c_uint32, ctypes.c_void_p
    cpuid = ctypes.CFUNCTYPE(None, number, number, pointer)(place["cpuid"])
    found = (number * 4)()
    read: dict[tuple[int, int], list[int]] = {}
    for (leaf, subleaf), passed in _LEAVES.items():
        highest = read.get((leaf & 0x80000000, 0), [leaf])[_EAX]
        if leaf <= highest:  # what there is not gives another leaf's
            cpuid(leaf, subleaf, found)
            read[leaf, subleaf] = [0 if place in passed else word for place, word in enumerate(found)]
    if read[1, 0][_ECX] & _XSAVE_IS_ON:
        ctypes.CFUNCTYPE(None, pointer)(place["xgetbv"])(found)
    return [[*key, *words] for key, words in read.items()] + [*found]


def seen() -> list[Any] | None:
    """All that decides what LLVM says of this machine; None where that cannot be told."""
    if not image.are_used():
        return None
    try:
        return [_registers(), *map(_of_package, ("numba", "llvmlite")), _settings()]
    except (OSError, AttributeError, image.Unlinkable):
        return None


def _of_package(name: str) -> list[Any]:
    """Which version of a package there is, though it is not imported. Raises OSError."""
    spec = importlib.util.find_spec(name)
    folder = Path(spec.origin or "").parent if spec is not None else None
    if folder is None:
        raise FileNotFoundError(name)
    sizes = [path.stat().st_size for path in sorted(folder.glob("binding/*.so"))]
    return [(folder / "_version.py").read_text(), sizes]


def _settings() -> list[Any]:
    """What Numba is told by its users."""
    told = sorted(pair for pair in os.environ.items() if pair[0].startswith("NUMBA_"))
    file = Path(".numba_config.yaml")
    loaded = sys.modules.get("numba.core.config")  # programs set these as well
    named = [str(getattr(loaded, name, "")) for name in ("ENABLE_AVX", "CPU_NAME", "CPU_FEATURES")]
    return [told, file.read_text() if file.exists() else "", named]
