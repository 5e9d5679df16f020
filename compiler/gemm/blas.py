"""BLAS and LAPACK, single-threaded: the addresses of their routines, from the library that is there.

The copy of OpenBLAS is private where the wheel `scipy-openblas32` is installed (extra "blas"), with the
kernels that fit the machine; otherwise it is the one inside SciPy, set to one thread.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import glob
import importlib.util
import os
from typing import Any

from fusegrad.compiler.llvm.target import host
from fusegrad.eager.core.loading import environment

# For float32 and float64; those of BLAS, then those of LAPACK.
_BLAS = tuple(letter + name for letter in "sd" for name in ("gemm", "trsm", "trsv"))
_LAPACK = tuple(letter + name for letter in "sd" for name in ("getrf", "getrs", "potrf"))
_LIBRARY = "libscipy_openblas*"


@functools.cache
def routines() -> dict[str, int]:
    """Addresses of single-threaded routines (Fortran interface) by name."""
    return _private_routines() or _scipy_routines()


def _private_routines() -> dict[str, int] | None:
    # The wheel's own module is left alone: it asks for metadata, which takes longer than loading the library.
    wheel = importlib.util.find_spec("scipy_openblas32")
    folders = wheel.submodule_search_locations if wheel is not None else None
    found = [path for folder in folders or () for path in glob.glob(f"{glob.escape(folder)}/lib/{_LIBRARY}")]
    if not found:
        return None
    # OpenBLAS takes AVX2 kernels on many AVX-512 machines, at half the speed, unless told. It
    # reads its settings when it is loaded.
    core = {"OPENBLAS_CORETYPE": host().blas_core} if host().blas_core else {}
    with environment(OPENBLAS_NUM_THREADS="1", **core):
        library = ctypes.CDLL(found[0])
    library.scipy_openblas_set_num_threads(1)
    _keep.append(library)
    return {name: _address(library, f"scipy_{name}_") for name in (*_BLAS, *_LAPACK)}


_keep: list[Any] = []


def _address(library: ctypes.CDLL, symbol: str) -> int:
    return ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value or 0


def _scipy_routines() -> dict[str, int]:
    import scipy
    from scipy.linalg import cython_blas, cython_lapack

    folder = os.path.join(os.path.dirname(os.path.dirname(scipy.__file__)), "scipy.libs")
    for path in glob.glob(os.path.join(folder, _LIBRARY)):
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(path).scipy_openblas_set_num_threads(1)
    found = {name: _of_cython(cython_blas, name) for name in _BLAS}
    return found | {name: _of_cython(cython_lapack, name) for name in _LAPACK}


def _of_cython(module: Any, name: str) -> int:
    """The address of a function that a module of Cython's gives others."""
    given, python = module.__pyx_capi__[name], ctypes.pythonapi
    python.PyCapsule_GetName.restype, python.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer = python.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return pointer(given, python.PyCapsule_GetName(given)) or 0
