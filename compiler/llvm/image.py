"""Images: object code goes in; code that may lie anywhere comes out, and, mapped, where its functions are.

LLVM gives objects (ELF for x86-64, position independent). `linked` puts their code and constants together
once and for all, with a table through which they reach what is outside, so that `loaded` has no more to do
than to copy an image, fill the table, and make the copy executable, which nobody can write to from then on.
It is in Python: a process that finds its machine code in the cache loads no LLVM.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import mmap
import os
import platform
import struct
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Unlinkable(Exception):
    """Why an object is no image: it is of another kind, or has something that is not known here."""


@dataclass(frozen=True)
class Image:
    """Code that may lie anywhere.

    code: the bytes, of which the last are the table. symbols: where its functions are. inside: the places of
    addresses in it that are in itself, which are counted from its start. outside: the place of each address
    that is found by name.
    """

    code: bytes
    symbols: Mapping[str, int] = field(default_factory=dict)
    inside: tuple[int, ...] = ()
    outside: tuple[tuple[int, str], ...] = ()

    def facts(self) -> dict[str, Any]:
        """All but the code, as JSON has it."""
        return {"symbols": {**self.symbols}, "inside": self.inside, "outside": self.outside}

    @classmethod
    def again(cls, facts: Mapping[str, Any], code: bytes) -> Image:
        """The image of which these are the facts."""
        outside = tuple((place, name) for place, name in facts["outside"])
        return cls(code, facts["symbols"], tuple(facts["inside"]), outside)


def are_used() -> bool:
    """Whether machine code is made into images here: elsewhere LLVM loads its objects."""
    return sys.platform == "linux" and platform.machine() == "x86_64"


# Objects. The names are those of the ELF specification and its supplement for x86-64.

_EHDR, _SHDR, _SYM, _RELA = (
    struct.Struct(f"<{f}") for f in ("16xHHIQQQIHHHHHH", "IIQQQQIIQQ", "IBBHQQ", "QQq")
)
_RELOCATABLE, _X86_64 = 1, 62
_WRITE, _ALLOC = 1, 2
_SYMTAB, _RELA_TYPE, _NOBITS = 2, 4, 8
_UNDEFINED, _FIRST_SPECIAL = 0, 0xFF00
_R_64, _R_PC32, _R_PLT32, _R_PC64 = 1, 2, 4, 24
_BY_TABLE = {9, 41, 42}  # GOTPCREL, GOTPCRELX, REX_GOTPCRELX
_JUMP = b"\xff\x25"  # jmp *displacement(%rip)
_WORD = struct.Struct("<Q")
_NUMBER = struct.Struct("<i")


class _Section(NamedTuple):
    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int


class _Symbol(NamedTuple):
    name: str
    section: int
    value: int


class _Object:
    """An object's sections and symbols. Raises Unlinkable."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        if data[:6] != b"\x7fELF\x02\x01":
            raise Unlinkable("it is no little-endian ELF of 64 bits")
        kind, machine, _, _, _, start, *_, count, names = _EHDR.unpack_from(data)
        if (kind, machine) != (_RELOCATABLE, _X86_64):
            raise Unlinkable("it is no object for x86-64")
        found = [_SHDR.unpack_from(data, start + _SHDR.size * number) for number in range(count)]
        at = found[names][4]
        self.sections = [
            _Section(self._text(at + name), kind, flags, offset, size, link, info, max(1, alignment))
            for name, kind, flags, _, offset, size, link, info, alignment, _ in found
        ]

    def _text(self, at: int) -> str:
        return self.data[at : self.data.index(b"\0", at)].decode()

    def symbols(self) -> list[_Symbol]:
        for table in self.sections:
            if table.kind == _SYMTAB:
                names = self.sections[table.link].offset
                found = _SYM.iter_unpack(self.data[table.offset : table.offset + table.size])
                return [_Symbol(self._text(names + name), of, value) for name, _, _, of, value, _ in found]
        return []


def linked(data: bytes, symbols: Sequence[str]) -> Image:
    """The image of an object, in which these functions are to be found. Raises Unlinkable."""
    return _Linking(_Object(data)).image(symbols)


class _Linking:
    """An object that is being put together."""

    def __init__(self, made: _Object) -> None:
        self._object, self._symbols = made, made.symbols()
        self._places: dict[int, int] = {}  # by number of a section, where it lies
        self._slots: dict[int, int] = {}  # by number of a symbol, its place in the table
        self._jumps: dict[int, int] = {}  # by number of a symbol outside, what jumps there
        self._inside: list[int] = []
        self._outside: list[tuple[int, str]] = []

    def image(self, symbols: Sequence[str]) -> Image:
        code = self._laid_out()
        for section in self._object.sections:
            if section.kind == _RELA_TYPE and section.info in self._places:
                self._reserve(section, code)
        for section in self._object.sections:
            if section.kind == _RELA_TYPE and section.info in self._places:
                self._relocate(section, code)
        by_name = {s.name: s for s in self._symbols if s.section in self._places}
        if not by_name.keys() >= {*symbols}:
            raise Unlinkable("it lacks a function")
        found = {name: self._address(by_name[name]) for name in symbols}
        return Image(bytes(code), found, tuple(self._inside), tuple(self._outside))

    def _laid_out(self) -> bytearray:
        """Code and constants, each section in its place."""
        code = bytearray()
        for number, section in enumerate(self._object.sections):
            if not section.flags & _ALLOC or not section.size or section.name == ".eh_frame":
                continue
            written = section.flags & _WRITE and not section.name.startswith(".data.rel.ro")
            if written or section.kind == _NOBITS:
                raise Unlinkable("it has variables of its own")
            code += bytes(-len(code) % section.alignment)
            self._places[number] = len(code)
            code += self._object.data[section.offset : section.offset + section.size]
        return code

    def _relocations(self, section: _Section) -> list[tuple[int, int, int, int]]:
        data = self._object.data[section.offset : section.offset + section.size]
        base = self._places[section.info]
        return [(base + at, i & 0xFFFFFFFF, i >> 32, plus) for at, i, plus in _RELA.iter_unpack(data)]

    def _is_outside(self, number: int) -> bool:
        return self._symbols[number].section == _UNDEFINED

    def _address(self, symbol: _Symbol) -> int:
        if symbol.section >= _FIRST_SPECIAL or symbol.section not in self._places:
            raise Unlinkable(f"it refers to `{symbol.name}`, which has no place")
        return self._places[symbol.section] + symbol.value

    def _reserve(self, section: _Section, code: bytearray) -> None:
        """Places in the table for what is reached through it, and jumps for calls."""
        for _, kind, number, _ in self._relocations(section):
            called = kind == _R_PLT32 and self._is_outside(number)
            if (called or kind in _BY_TABLE) and number not in self._slots:
                code += bytes(-len(code) % 8)
                self._slots[number] = len(code)
                code += bytes(8)
                if self._is_outside(number):
                    self._outside.append((self._slots[number], self._symbols[number].name))
                else:
                    self._inside.append(self._slots[number])
                    _WORD.pack_into(code, self._slots[number], self._address(self._symbols[number]))
            if called and number not in self._jumps:
                self._jumps[number] = len(code)
                code += _JUMP + _NUMBER.pack(self._slots[number] - len(code) - 6) + bytes(2)

    def _relocate(self, section: _Section, code: bytearray) -> None:
        for at, kind, number, plus in self._relocations(section):
            if kind in _BY_TABLE:
                _NUMBER.pack_into(code, at, self._slots[number] + plus - at)
            elif self._is_outside(number):
                if kind == _R_PLT32:
                    _NUMBER.pack_into(code, at, self._jumps[number] + plus - at)
                elif kind == _R_64 and not plus:
                    self._outside.append((at, self._symbols[number].name))
                else:
                    raise Unlinkable(f"it refers to what is outside in way {kind}")
            else:
                target = self._address(self._symbols[number]) + plus
                if kind in (_R_PC32, _R_PLT32):
                    _NUMBER.pack_into(code, at, target - at)
                elif kind == _R_PC64:
                    struct.pack_into("<q", code, at, target - at)
                elif kind == _R_64:
                    self._inside.append(at)
                    _WORD.pack_into(code, at, target)
                else:
                    raise Unlinkable(f"it has a relocation of type {kind}")


# Names outside.

_known: dict[str, int] = {}


def add_symbols(addresses: Mapping[str, int]) -> None:
    """Make functions and variables known by name to the images that are loaded from now on."""
    _known.update(addresses)


def symbols() -> Mapping[str, int]:
    """Those that were made known."""
    return _known


@functools.cache
def _process() -> Any:
    """The libraries of this process, of which the functions of C are found."""
    return ctypes.CDLL(None)


def _outside(name: str) -> int:
    """The address of what is outside. Raises Unlinkable."""
    known = _known.get(name)
    if known is None:
        with contextlib.suppress(AttributeError):
            known = ctypes.cast(getattr(_process(), name), ctypes.c_void_p).value
    if not known:
        raise Unlinkable(f"nothing is known of `{name}`")
    return known


def check(image: Image) -> None:
    """Whether an image can be loaded here. Raises Unlinkable."""
    for _, name in image.outside:
        _outside(name)


# Memory.


@functools.cache
def _calls() -> tuple[Any, Any]:
    """The system's `mmap` and `mprotect`: what Python maps by itself goes when the process ends, before all
    of its threads have.
    """
    place, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    library = ctypes.CDLL(None, use_errno=True)
    map_, protect = library.mmap, library.mprotect
    map_.restype, map_.argtypes = place, [place, size, number, number, number, ctypes.c_long]
    protect.restype, protect.argtypes = number, [place, size, number]
    return map_, protect


def loaded(image: Image) -> dict[str, int]:
    """The addresses of an image's functions, in memory that nobody writes to any more. Raises Unlinkable
    where something outside is not there, and OSError.
    """
    code = bytearray(image.code)
    outside = [(place, _outside(name)) for place, name in image.outside]
    map_, protect = _calls()
    base = map_(
        None, len(code), mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0
    )
    if base is None or base == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    for place in image.inside:
        _WORD.pack_into(code, place, _WORD.unpack_from(code, place)[0] + base)
    for place, address in outside:
        _WORD.pack_into(code, place, address)
    ctypes.memmove(base, bytes(code), len(code))
    if protect(base, len(code), mmap.PROT_READ | mmap.PROT_EXEC):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return {name: base + place for name, place in image.symbols.items()}
