"""Writes the .pyi files that type checkers and editors read in the place of names that are made at import.

    python tools/write_stubs.py [--check]

In: the public modules as they are when imported, and the text of the modules that they come from. Out: a
stub beside each public module, and `eager/core/tensor_methods.pyi` with what declarations attach to `Tensor`.
What has a plain `def` or `class` of its own is imported from there, and keeps its types; what a decorator or
a declaration made is written out with the signature that it has at run time:

    tanh = unary("tanh", ...)       ->      def tanh(input: Any) -> Tensor: ...

--check: write nothing, and exit with 1 if a file is not as it would be written.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import contextlib
import importlib
import inspect
import math
import pkgutil
import subprocess
import sys
import types
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import fusegrad
from fusegrad.eager.core.public import home
from fusegrad.eager.core.tensor import Tensor

ROOT = Path(__file__).resolve().parent.parent
METHODS = "fusegrad.eager.core.tensor_methods"
HEADER = '"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""\n\n'
NO_STUBS = ("fusegrad.cli", "fusegrad.__main__", "fusegrad.moved", "fusegrad.torch")  # and what is below
# Decorators that type checkers see through.
SEEN_THROUGH = {"contextlib.contextmanager", "contextmanager"}
SEEN_THROUGH |= {"attach", "internal", "method", "public", "publish"}  # declarations


class Text:
    """Words that `inspect.Signature` prints as they are."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


class Source:
    """What the text of a module says: its statements, what it assigns, and where its names come from."""

    def __init__(self, module: str) -> None:
        self.module = module
        tree = ast.parse(Path(inspect.getfile(importlib.import_module(module))).read_text())
        self.statements = {n.name: n for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
        self.imports: dict[str, str] = {}
        for node in ast.walk(tree):  # also those for type checkers alone
            if isinstance(node, ast.ImportFrom):
                self.imports |= {
                    a.asname or a.name: f"from {node.module} import {a.name}" for a in node.names
                }
            elif isinstance(node, ast.Import):
                self.imports |= {a.asname or a.name: f"import {a.name}" for a in node.names}

    def has_plain(self, name: str) -> bool:
        """Whether a statement gives the name its types, so that a type checker needs nothing else."""
        node = self.statements.get(name)
        if isinstance(node, ast.FunctionDef):
            called = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
            return all(ast.unparse(d) in SEEN_THROUGH for d in called)
        return node is not None


source_of = cache(Source)


class Stub(ast.NodeTransformer):
    """The lines of one stub, and the imports that they need, under names with an underscore."""

    def __init__(self, shadowed: Iterable[str]) -> None:
        self.shadowed, self.lines = set(shadowed), list[str]()
        self.imports: dict[str, str] = {}
        self.source: Source | None = None

    def imported(self, line: str, name: str) -> str:
        """The name under which the stub has what an import statement gives."""
        alias = "_" + name.lstrip("_")
        line = f"{line} as {alias}"
        if self.imports.setdefault(alias, line) != line:
            raise ValueError(f"two things are called {alias}: {self.imports[alias]!r} and {line!r}")
        return alias

    def builtin(self, name: str) -> str:
        """The name under which the stub has what Python calls so."""
        return self.imported(f"from builtins import {name}", name) if name in self.shadowed else name

    def visit_Name(self, node: ast.Name) -> ast.Name:
        """A name of the source as the stub has it."""
        source, name = self.source, node.id
        assert source is not None
        if name in source.imports:
            return ast.Name(self.imported(source.imports[name], name))
        if hasattr(builtins, name):
            return ast.Name(self.builtin(name))
        return ast.Name(self.imported(f"from {source.module} import {name}", name))

    def annotation(self, words: Any, source: Source) -> Text:
        """An annotation of a function in `source`, as the stub writes it."""
        if isinstance(words, Text):
            words = words.text
        if not isinstance(words, str):
            words = "None" if words is None else words.__name__
        self.source = source
        return Text(ast.unparse(self.visit(ast.parse(words, mode="eval")).body))

    def kind(self, kind: type) -> str:
        """The name under which the stub has a class."""
        return self.imported(f"from {home(kind)} import {kind.__name__}", kind.__name__)

    def any(self) -> Text:
        return Text(self.imported("from typing import Any", "Any"))

    def tensor(self) -> Text:
        return Text(self.imported("from fusegrad.eager.core.tensor import Tensor", "Tensor"))

    def signature(self, function: Callable[..., Any], bound: bool = False) -> str:
        """The signature as a `def` has it; bound: as a method, whose first parameter is `self`."""
        given, source = inspect.signature(function), source_of(_code_of(function).__globals__["__name__"])
        parameters = []
        for parameter in given.parameters.values():
            words = parameter.annotation
            written = self.any() if words is inspect.Parameter.empty else self.annotation(words, source)
            parameters.append(parameter.replace(annotation=written, default=_default(parameter.default)))
        if bound:
            first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
            several = parameters[0].kind is inspect.Parameter.VAR_POSITIONAL
            first = first if several else first.replace(kind=parameters[0].kind)
            parameters[: 0 if several else 1] = [first]
        words = given.return_annotation
        result = self.tensor() if words is inspect.Parameter.empty else self.annotation(words, source)
        return str(inspect.Signature(parameters, return_annotation=result))

    def constructor(self, kind: type) -> str:
        """The signature of a declared class of layers."""
        first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        parameters = [first]
        for p in inspect.signature(kind).parameters.values():
            plain = type(p.default) in (bool, str)
            kind = Text(self.builtin(type(p.default).__name__)) if plain else self.any()
            parameters.append(p.replace(annotation=kind, default=_default(p.default)))
        return str(inspect.Signature(parameters, return_annotation=Text("None")))

    def text(self) -> str:
        """The stub, as ruff lays it out."""
        exports = [line for line in self.lines if line.startswith("from ")]
        others = [line for line in self.lines if not line.startswith("from ")]
        text = HEADER + "\n".join([*self.imports.values(), *exports, "", *others, ""])
        for command in (["check", "--fix", "--select", "F401,I,UP"], ["format"]):
            command = [
                sys.executable,
                "-m",
                "ruff",
                *command,
                "-q",
                "--stdin-filename",
                "fusegrad/stub.pyi",
                "-",
            ]
            text = subprocess.run(
                command, input=text, capture_output=True, text=True, cwd=ROOT, check=True
            ).stdout
        return text


def _code_of(function: Any) -> Any:
    """The function whose signature a decorated one shows."""
    return inspect.unwrap(function)


def _default(value: Any) -> Any:
    """A default as a stub writes it: numbers and words as they are, anything else as `...`."""
    parts = value if isinstance(value, tuple) else (value,)
    plain = all(type(v) in (bool, int, str, float, type(None)) for v in parts)
    finite = all(math.isfinite(v) for v in parts if isinstance(v, float))
    return value if value is inspect.Parameter.empty or (plain and finite) else Text("...")


def _home(value: Any, name: str) -> tuple[str, str] | None:
    """The module and the name of the statement that defines a function or class, if one gives its types."""
    if isinstance(value, type):
        module, written = home(value) or value.__module__, value.__name__
    else:
        module, written = value.__globals__["__name__"], value.__code__.co_name
    for found in (written, name):
        if getattr(sys.modules[module], found, None) is value and source_of(module).has_plain(found):
            return module, found
    return None


def _standard_home(value: Any, name: str) -> str:
    """The package of the standard library that gives a value under a name, if it is one's that we hand on."""
    module = getattr(value, "__name__" if isinstance(value, types.ModuleType) else "__module__", None) or ""
    top = module.partition(".")[0]
    given = top in sys.stdlib_module_names and top != "builtins"
    return top if given and getattr(importlib.import_module(top), name, None) is not None else ""


def public_stub(name: str) -> str:
    """The stub of a public module."""
    module = importlib.import_module(name)
    names = list(module.__all__)
    stub = Stub(names)
    if module is fusegrad:
        stub.lines.append(f"__version__: {stub.builtin('str')}")
    for public in names:
        value = getattr(module, public)
        standard = _standard_home(value, public)
        if standard:
            stub.lines.append(f"from {standard} import {public} as {public}")
        elif isinstance(value, types.ModuleType) and type(value) is types.ModuleType:
            stub.lines.append(f"from {name} import {public} as {public}")
        elif isinstance(value, type):
            stub.lines.append(_class_line(stub, public, value))
        elif isinstance(value, types.FunctionType):
            home = _home(value, public)
            imported = home is not None and home[1] == public
            signature = "" if imported else stub.signature(value)
            stub.lines.append(
                f"from {home[0]} import {public} as {public}" if imported else f"def {public}{signature}: ..."
            )
        else:
            kind = type(value)
            builtin = kind.__module__ == "builtins"
            named = "None" if value is None else stub.builtin(kind.__name__) if builtin else stub.kind(kind)
            stub.lines.append(f"{public}: {named}")
    return stub.text()


def _class_line(stub: Stub, public: str, kind: type) -> str:
    """A class: imported if a statement defines it, written out if a declaration does."""
    home = _home(kind, public)
    if home is None:
        base = stub.kind(kind.__base__)
        if kind.__init__ is object.__init__:  # made by its `__new__`
            return f"class {public}({base}): ..."
        return f"class {public}({base}):\n    def __init__{stub.constructor(kind)}: ..."
    if home[1] == public:
        return f"from {home[0]} import {public} as {public}"
    return f"{public} = {stub.kind(kind)}"


def methods_stub() -> str:
    """The stub of what declarations attach to `Tensor`: methods, operators and properties."""
    body = source_of("fusegrad.eager.core.tensor").statements["Tensor"].body
    written = {n.name for n in body if isinstance(n, ast.FunctionDef)}
    written |= {t.id for n in body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)}
    written |= {n.target.id for n in body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
    attached = {n: v for n, v in sorted(vars(Tensor).items()) if n not in written}
    stub = Stub(vars(Tensor))
    for name, value in attached.items():
        if isinstance(value, property):
            stub.lines.append(f"    @property\n    def {name}{stub.signature(value.fget, bound=True)}: ...")
        elif isinstance(value, types.FunctionType):
            stub.lines.append(f"    def {name}{_method(stub, name, value)}: ...{_OVERRIDES.get(name, '')}")
    stub.lines.insert(0, "class Methods:")
    return stub.text()


_OVERRIDES = dict.fromkeys(("__eq__", "__ne__"), "  # type: ignore[override]")


def _method(stub: Stub, name: str, function: Any) -> str:
    """The signature of a method; operators, which may decline an operand, give tensors."""
    signature = stub.signature(function, bound=True)
    declines = name.startswith("__") and function.__code__.co_argcount == 2 and name != "__reduce_ex__"
    return f"{signature.rpartition(' -> ')[0]} -> {stub.tensor()}" if declines else signature


def stubs() -> dict[Path, str]:
    """All stubs, by the files that they belong in."""
    folder = ROOT / "fusegrad"
    found: dict[Path, str] = {ROOT / "eager" / "core" / "tensor_methods.pyi": methods_stub()}
    names = ["fusegrad", *(m.name for m in pkgutil.walk_packages([str(folder)], "fusegrad."))]
    for name in names:
        if not name.startswith(NO_STUBS):
            file = Path(inspect.getfile(importlib.import_module(name)))
            found[file.with_suffix(".pyi")] = public_stub(name)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="write the stubs, or see whether they are current")
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = []
    for path, text in stubs().items():
        before = ""
        with contextlib.suppress(FileNotFoundError):
            before = path.read_text()
        if before != text:
            stale.append(str(path.relative_to(ROOT)))
            if not check:
                path.write_text(text)
    print("\n".join([*stale, f"{len(stale)} stubs {'are not current' if check else 'written'}"]))
    sys.exit(check and bool(stale))


if __name__ == "__main__":
    main()
