"""`fusegrad.export`, a module to be called, with the formats of native code: `.so` and `.o` beside `.h`."""

from __future__ import annotations

from types import ModuleType

from fusegrad.eager.core.public import locate
from fusegrad.tracer.export.api import SEVERAL, ExportError, export, save
from fusegrad.tracer.export.dims import Dim
from fusegrad.tracer.export.exported import Exported
from fusegrad.tracer.export.graph_file import load
from fusegrad.tracer.export.program import Program

__all__ = ["Dim", "ExportError", "Exported", "export", "load", "save"]


class Exporting(ModuleType):
    """The module `fusegrad.export` as `fusegrad` has it; called, it is its own `export`."""

    __call__ = export = staticmethod(export)
    save, load = staticmethod(save), staticmethod(load)
    Dim, Exported, ExportError = Dim, Exported, ExportError


def _files(program: Program, path: str, architecture: str) -> dict[str, bytes]:
    """The files of a library for machines of an architecture, by suffix."""
    from fusegrad.compiler.library.files import library_files  # imports Numba, which other formats do without

    return library_files(program, path, architecture)


SEVERAL[".so"] = ("a shared library and a C header", _files)
SEVERAL[".o"] = ("an object to link, and a C header", _files)
locate("fusegrad.export", globals(), __all__)
