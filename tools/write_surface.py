"""Writes `fusegrad/torch/surface.txt`: the modules of PyTorch's that there are, and which names each has.

    python tools/write_surface.py [FOLDER]

In: the PyTorch that is installed; FOLDER: packages (wheels, archives, sources), of whose source those
private and imported names are taken that it asks for; without it those that the file has. Out: names, with
nothing behind them. Each line that begins a module says whether `import torch` loads it (`*`), and the lines
below it what it has:

    class NAME...            classes that are defined there, or NAME(CONSTANT=LITERAL,...), error NAME(BASE)
                             those that are exceptions, layer NAME those that are modules, enum
                             NAME(MEMBER,MEMBER)
    function NAME...         all that can be called and is no class
    value NAME=LITERAL       what is written out; `value NAME...` what is not
    from MODULE NAME...      what another module of PyTorch's defines
    module NAME=MODULE       other modules
    library MODULE NAME...   what Python's own library defines
"""

from __future__ import annotations

import contextlib
import enum
import importlib
import io
import itertools
import pkgutil
import re
import sys
import types
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from asked_names import asked_in

SURFACE = Path(__file__).resolve().parent.parent / "fusegrad" / "torch" / "surface.txt"
LONGEST_LITERAL = 40


def is_private(path: str) -> bool:
    """Whether a part of a dotted name is private."""
    return any(part.startswith("_") for part in path.split("."))


def public_modules(package: Any = torch) -> Iterator[str]:
    """All modules of PyTorch's that are public and can be imported."""
    yield package.__name__
    for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if is_private(found.name):
            continue
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            module = importlib.import_module(found.name)
        if found.ispkg and "__path__" in vars(module):
            yield from public_modules(module)
        else:
            yield found.name


def defined_in(value: Any) -> str | None:
    """The module that says it defines a class or function, if it does."""
    module, name = getattr(value, "__module__", None), getattr(value, "__name__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        return None
    found = getattr(sys.modules.get(module), name, None)
    return module if found is value or isinstance(value, types.BuiltinFunctionType) else None


def is_literal(value: Any) -> bool:
    """Whether a value is written out."""
    plain = value is None or type(value) in (bool, int, float, str)
    text = repr(value)
    return plain and len(text) <= LONGEST_LITERAL and re.fullmatch(r"\S+", text) is not None


def described(module: str, name: str, value: Any, kept: set[str]) -> tuple[str, str] | None:
    """The kind of line that has a name, and how it stands there; None for what is left out."""
    if isinstance(value, types.ModuleType):
        own = value.__name__ == "torch" or value.__name__.startswith("torch.")
        if own and (value.__name__ in kept or not is_private(value.__name__)):
            return "module", f"{name}={value.__name__}"
        standard = value.__name__.partition(".")[0] in sys.stdlib_module_names
        return ("module", f"{name}={value.__name__}") if standard else None
    home = defined_in(value) if callable(value) else None
    if home is not None and home.partition(".")[0] in sys.stdlib_module_names and home != "builtins":
        shown = name if value.__name__ == name else f"{name}={value.__name__}"
        return f"library {home}", shown
    if home is not None and home.startswith("torch") and home != module:
        if is_private(home) and home not in kept:
            return kind_of(value), shown_as(name, value, kept)
        return f"from {home}", name if value.__name__ == name else f"{name}={value.__name__}"
    if callable(value):
        return kind_of(value), shown_as(name, value, kept)
    return ("value", f"{name}={value!r}") if is_literal(value) else ("value", name)


def kind_of(value: Any) -> str:
    """What kind of thing something is that can be called."""
    if not isinstance(value, type):
        return "function"
    for kind, base in (("error", BaseException), ("enum", enum.Enum), ("layer", torch.nn.Module)):
        if issubclass(value, base):
            return kind
    return "enum" if isinstance(vars(value).get("__members__"), property) else "class"  # one of C++'s


def shown_as(name: str, value: Any, kept: set[str]) -> str:
    """A name, with what of a class is more than its name."""
    kind = kind_of(value)
    if kind == "error":
        base = value.__base__
        while base.__module__ != "builtins" and (base.__module__ not in kept or is_private(base.__module__)):
            base = base.__base__
        own = base.__module__ != "builtins"
        return f"{name}({base.__module__}.{base.__name__})" if own else f"{name}({base.__name__})"
    if kind == "enum":
        return f"{name}({','.join(filter(None, value.__members__))})"
    if kind == "class" and (found := constants(value)):
        return f"{name}({','.join(f'{key}={constant!r}' for key, constant in found.items())})"
    return name


def constants(kind: type) -> dict[str, Any]:
    """What stands written out in a class, by names with capitals: programs that never make an object compare
    with it.
    """
    return {
        key: value
        for key, value in sorted(vars(kind).items())
        if key[0].isupper() and value is not None and is_literal(value) and "," not in repr(value)
    }


def lines_of(module: str, asked: set[str], kept: set[str]) -> list[str]:
    """What the file says of a module."""
    groups: dict[str, list[str]] = defaultdict(list)
    behind = importlib.import_module(module)
    listed = {*getattr(behind, "__all__", ())} | ({*vars(behind)} if hasattr(behind, "__path__") else set())
    for name, value in sorted(vars(behind).items()):
        path = f"{module}.{name}"
        found = None if name.startswith("__") else described(module, name, value, kept)
        if found is None or (is_private(path) and path not in asked):
            continue
        # What a module only imports is nobody's to take from there, unless somebody does.
        foreign = found[0].startswith(("library", "from")) or (
            found[0] == "module" and "torch" not in found[1]
        )
        by_the_way = foreign and (name not in listed or not found[0].startswith("from"))
        if not by_the_way or path in asked:
            groups[found[0]].append(found[1])
    return [f"  {kind} {' '.join(names)}" for kind, names in sorted(groups.items())]


def known() -> set[str]:
    """The names that the file has, and its private modules."""
    found: set[str] = set()
    module = ""
    for line in SURFACE.read_text().splitlines() if SURFACE.exists() else []:
        if not line.startswith(" "):
            module = line.rstrip("*")
            found |= {module} if is_private(module) else set()
            continue
        for word in line.split():
            found.add(f"{module}.{re.split('[=(]', word)[0]}")
    return found


def with_their_packages(names: set[str]) -> set[str]:
    """The private modules among these names, and those that they lie in."""
    found = set()
    for name in filter(is_private, names):
        parts = name.split(".")
        for path in itertools.accumulate(parts, "{}.{}".format):
            with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
                importlib.import_module(path)
            if isinstance(sys.modules.get(path), types.ModuleType) and is_private(path):
                found.add(path)
    return found


def main() -> None:
    warnings.simplefilter("ignore")
    at_once = {name for name in sys.modules if name.partition(".")[0] == "torch"}
    asked = set(asked_in(Path(sys.argv[1]))) if sys.argv[1:] else known()
    private = with_their_packages(asked)
    kept = private | set(public_modules())
    for module in kept:  # what others show of a private module is asked for, too
        shown = [v for v in list(vars(importlib.import_module(module)).values()) if callable(v)]
        homes = {(defined_in(value), getattr(value, "__name__", "")) for value in shown}
        asked |= {f"{home}.{name}" for home, name in homes if home in private}
    lines = []
    for module in sorted(kept):
        lines += [module + "*" * (module in at_once), *lines_of(module, asked, kept)]
    SURFACE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
