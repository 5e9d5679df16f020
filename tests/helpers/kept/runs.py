"""Programs that run in one process after another, as far as captures are concerned: a source goes in, what it
gives comes out.

A program is a module that is executed anew, from a file of its own, with nothing left of the one before but
the cache. It has `f`, which is jitted as `jit`, and `calls`, a list of the arguments that it is called with;
a function `left` gives what its calls have left in the world. What stands behind a line `# other module` is a
module `kept_other`, which is there before.
"""

from __future__ import annotations

import itertools
import linecache
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler import jit as jit_module
from fusegrad.eager.core.pytree import flatten

_numbers = itertools.count()
NAME, OTHER = "kept_program", "kept_other"


def run(source: str, folder: Path, jit: Any = None) -> ModuleType:
    """The program, executed and called; `answers` has what it gave. jit: the decorator; None: fusegrad's."""
    *others, source = source.split("# other module\n")
    modules = [_module(NAME, folder, jit), *(_module(OTHER, folder, jit) for _ in others)]
    module = modules[0]
    default = fg.get_default_dtype()
    try:
        fg.manual_seed(0)
        for each, text in reversed([*zip(modules, (source, *others), strict=True)]):
            path = Path(each.__file__ or "")
            path.write_text(text)
            linecache.checkcache(str(path))
            exec(compile(text, str(path), "exec", dont_inherit=True), each.__dict__)
        module.__dict__["answers"] = [_said(module.f, call) for call in module.calls]
        leaves: list[Any] = []
        module.answers.append([flatten(module.__dict__.get("left", tuple)(), leaves).key, *leaves])
    finally:
        fg.set_default_dtype(default)
        fg.set_grad_enabled(True)
        module.__dict__.get("ended", lambda: None)()
        for name in (NAME, OTHER):
            sys.modules.pop(name, None)
    return module


def _module(name: str, folder: Path, jit: Any) -> ModuleType:
    module = sys.modules[name] = ModuleType(name)
    module.__file__ = str(folder / f"program{next(_numbers)}.py")
    module.__dict__.update(fg=fg, nn=fg.nn, jit=fg.jit if jit is None else jit)
    return module


def eager(source: str, folder: Path) -> list[Any]:
    """What the program gives without `jit`."""
    answers: list[Any] = run(source, folder, lambda function: function).answers
    return answers


def _said(function: Callable[..., Any], call: tuple[Any, ...]) -> list[Any]:
    """Result and gradients of a call."""
    leaves: list[Any] = []
    given = [t for t in call if isinstance(t, fg.Tensor)]
    said: list[Any] = [flatten(function(*call), leaves).key]
    for leaf in leaves:
        said.append(leaf)
        if isinstance(leaf, fg.Tensor) and leaf.requires_grad and not leaf.dtype.is_complex:
            for tensor in given:
                tensor.grad = None
            with fg.enable_grad():
                leaf.sum().backward(retain_graph=True)
            said += [tensor.grad for tensor in given if tensor.requires_grad]
    return said


def alike(ours: Any, others: Any) -> bool:
    """Whether answers are the same but for rounding."""
    if isinstance(ours, list):
        same = isinstance(others, list) and len(ours) == len(others)
        return same and all(map(alike, ours, others))
    if not (isinstance(ours, fg.Tensor) and isinstance(others, fg.Tensor)):
        return type(ours) is type(others) and repr(ours) == repr(others)
    facts = [(t.dtype, t.shape, t.requires_grad) for t in (ours, others)]
    return facts[0] == facts[1] and bool(
        np.allclose(*(t.detach().numpy() for t in (ours, others)), 1e-4, 1e-6)
    )


def forbid_tracing(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on recording a run is an error."""

    def fails(*_: Any, **__: Any) -> Any:
        raise AssertionError("a run was recorded")

    monkeypatch.setattr(jit_module, "capture", fails)


def entries(module: ModuleType) -> list[Any]:
    """What the jitted function of a program knows."""
    return list(module.f.entries.values())
