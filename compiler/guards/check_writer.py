"""Writing a check: classes, owners and conditions in a source that one generated function becomes.

What each kind of read becomes is in `guard_source.py`; what is asked is in `guards.py`.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import is_
from types import ModuleType
from typing import Any

from fusegrad.compiler.native.classes import Classes
from fusegrad.compiler.native.items import Items, is_by_identity
from fusegrad.eager.core.handlers import handler_raised
from fusegrad.tracer.observe.conditions import Condition
from fusegrad.tracer.observe.lookup import MISSING
from fusegrad.tracer.observe.purity import is_heap_type
from fusegrad.tracer.observe.reads import Read
from fusegrad.tracer.observe.values import Expected, Strong, hold, name_of

classes_of: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
namespace_of: Callable[[type], Any] = type.__dict__["__dict__"].__get__


class TooDifficult(Exception):
    """A read that no line is written for: it is left to `Read.holds`."""


@dataclass(eq=False)
class Namespace:
    """What must be true of one class's own attributes, apart from its bases'.

    variable: the class in the source. number: of the first read that asks. absent: names that it must
    not define; same: what it must define; kinds: names under which it must define something of a type.
    """

    kind: type
    variable: str
    number: int
    absent: dict[str, None] = field(default_factory=dict)
    same: dict[str, Expected] = field(default_factory=dict)
    kinds: dict[str, type] = field(default_factory=dict)


@dataclass(eq=False)
class _Together:
    """What is asked of one dict, as one line. number: of the first read that asks."""

    items: str
    number: int
    rows: list[tuple[str, Expected]] = field(default_factory=list)


class Writer:
    """Collects the lines of a check: first classes, then owners and reads in order.

    Lines are conditions that are true where something differs.
    """

    def __init__(self) -> None:
        own = {"classes_of": classes_of, "namespace_of": namespace_of, "matches": Expected.matches}
        builtins = {f.__name__: f for f in (all, dict, float, int, is_, len, list, map, str, tuple, type)}
        self._constants: dict[str, Any] = {**own, **builtins, "__builtins__": {}}
        self._count = itertools.count(1)
        self._number = 0
        self._namespaces: dict[int, Namespace] = {}
        # Classes whose bases are looked at, by id: the class, its bases, and the first read that asks.
        self._ordered: dict[int, tuple[type, tuple[type, ...], int]] = {}
        self.known: dict[Any, Any] = {}  # variables by what they stand for
        self._alive: list[Any] = []  # so that ids stay their own
        self._lines: list[str | _Together] = []
        self._asking: list[_Together] = []  # the dicts that the latest read asks

    # What comes out.

    def text(self) -> str:
        """The source of the function."""
        lines = [line if isinstance(line, str) else self._items_line(line) for line in self._lines]
        return "\n    ".join(["def first_to_differ():", *self._class_lines(), *lines, "return None\n"])

    def _items_line(self, together: _Together) -> str:
        if len(together.rows) == 1:  # for which Python is as fast
            ((name, expected),) = together.rows
            wrong = self._differs_under(together.items, repr(name), expected)
        else:
            items = Items(together.rows)
            self.constant("table", items)  # which keeps alive what its native function looks at
            wrong = f"not {self.constant('items', items.holds)}({together.items})"
        return f"if {wrong}: return {together.number}"

    def function(self, text: str) -> Callable[[], int | None]:
        """The function; its globals are its constants, without itself."""
        exec(compile(text, "<guards>", "exec"), self._constants)
        return self._constants.pop("first_to_differ")

    def add(self, number: int, read: Read, write: Callable[[Writer, Condition], list[str]]) -> None:
        """One read, by lines that return its number."""
        self._number = number
        self._asking.clear()
        lines, known = len(self._lines), dict(self.known)
        try:
            for condition in read.conditions():
                for wrong in write(self, condition):
                    self.check(wrong)
        except Exception:  # what cannot be written is asked as ever
            if handler_raised():
                raise
            del self._lines[lines:]
            self.known = known
            for together in self._asking:
                together.rows.pop()
            self.check(f"not {self.constant('holds', read.asked_often())}()")
        about = f"# {read.describe()}  ({read.site.file}:{read.site.line})"
        about = about.replace("\n", " ").encode("utf-8", "backslashreplace").decode()
        last = self._lines[-1] if len(self._lines) > lines else None
        if isinstance(last, str):
            self._lines[-1] = f"{last}  {about}"
        else:
            self._lines.append(about)

    # Pieces of lines.

    def check(self, wrong: str) -> None:
        """A line that leaves the function where `wrong` is true; what two reads ask is asked once."""
        if ("checked", wrong) not in self.known:
            self.known["checked", wrong] = None
            self._lines.append(f"if {wrong}: return {self._number}")

    def constant(self, stem: str, value: Any) -> str:
        """A name in the source for a value that is known now."""
        name = self.variable(stem)
        self._constants[name] = value
        return name

    def variable(self, stem: str) -> str:
        """A new name for what is only known when the check runs."""
        stem = re.sub(r"\W", "", stem, flags=re.ASCII)
        return f"{stem if stem.isidentifier() else 'object'}_{next(self._count)}"

    def differs(self, expression: str, expected: Expected) -> str:
        """A condition that is true where the value of `expression` is not the expected one."""
        value = expected.reference()
        if expected.key is MISSING and not isinstance(expected.reference, Strong):
            # A dead reference gives None, which then equals nothing.
            reference = self.constant("reference", expected.reference)
            return f"(value := {reference}()) is None or {expression} is not value"
        kind, name = type(value), self.constant("value", value)
        if expected.key is MISSING or value is None or kind is bool:
            return f"{expression} is not {name}"
        other = f"not {self.constant('same', expected.matches)}(value)"
        if kind is int or kind is str or (kind is float and value != 0 and not math.isnan(value)):
            # For these, to be equal and of one type is to be the same.
            other = f"(type(value) is not {kind.__name__} or value != {name})"
        return f"(value := {expression}) is not {name} and {other}"

    def differs_under(self, items: str, name: Any, expected: Expected) -> list[str]:
        """Conditions that are true where a dict does not hold the expected under a name.

        items: what the dict is called; it is one, and of no subclass. Of one dict all that is by identity is
        asked in one go.
        """
        if not is_by_identity(name, expected):
            key = repr(name) if type(name) in (int, str) else self.constant("key", name)
            return [self._differs_under(items, key, expected)]
        together = self.known.get(("items", items))
        if together is None:
            together = self.known["items", items] = _Together(items, self._number)
            self._lines.append(together)
        together.rows.append((name, expected))
        self._asking.append(together)
        return []

    def _differs_under(self, items: str, key: str, expected: Expected) -> str:
        if expected.reference() is MISSING:
            return f"{key} in {items}"
        return self.differs(f"{items}[{key}]", expected)

    def held(self, reference: Callable[[], Any], stem: str = "") -> str:
        """A name for a held object (None if it is gone)."""
        value = reference()
        if value is None:
            raise TooDifficult
        name = self.known.get(id(value))
        if name is None:
            self._alive.append(value)
            stem = stem or name_of(type(value))
            if isinstance(reference, Strong):
                name = self.constant(stem, value)
            else:
                name = self.variable(stem)
                self._lines.append(f"{name} = {self.constant('reference', reference)}()")
            self.known[id(value)] = name
        return name

    def owner(self, reference: Callable[[], Any], stem: str = "") -> str:
        """A name for a held object, which is still of the class that it is of now."""
        name, kind = self.held(reference, stem), type(reference())
        can_change = is_heap_type(kind) or not isinstance(reference, Strong)
        if can_change and ("type", name) not in self.known:
            self.known["type", name] = name
            self.check(f"type({name}) is not {self.class_name(kind)}")
        return name

    def part(self, expression: str, stem: str, kind: type | None = None) -> str:
        """A name for a part of an owner (its dict, a closure), of exactly the builtin type `kind`."""
        name = self.known.get(expression)
        if name is None:
            name = self.known[expression] = self.variable(stem)
            self._lines.append(f"{name} = {expression}")
        if kind is not None and ("type", name) not in self.known:
            self.known["type", name] = name
            self.check(f"type({name}) is not {self.class_name(kind)}")
        return name

    # Classes.

    def class_name(self, kind: type) -> str:
        """A class in the source; one that nobody can change is a constant."""
        if is_heap_type(kind):
            return self.namespace(kind).variable
        if self._constants.get(kind.__name__) is kind:
            return kind.__name__
        return self.constant("builtin", kind)

    def namespace(self, kind: type) -> Namespace:
        """What is noted about a class that can change."""
        known = self._namespaces.get(id(kind))
        if known is None:
            known = Namespace(kind, self.variable(name_of(kind)), self._number)
            self._namespaces[id(kind)] = known
        return known

    def found_in(self, kind: type, name: str, after: type | None = None) -> tuple[type | None, Any]:
        """Which of a class and its bases defines a name first, and as what; noted to stay that one.

        What it defines there is for the caller to note.
        """
        skipped = after is not None
        for base in self._bases(kind):
            namespace = namespace_of(base)
            if not skipped and name in namespace:
                return base, namespace[name]
            if not skipped and is_heap_type(base):
                self.namespace(base).absent[name] = None
            skipped = skipped and base is not after
        return None, MISSING

    def _bases(self, kind: type) -> tuple[type, ...]:
        """A class and its bases, noted to stay these."""
        if not is_heap_type(kind):
            return classes_of(kind)
        known = self._ordered.get(id(kind))
        if known is None:
            known = self._ordered[id(kind)] = kind, classes_of(kind), self._number
        return known[1]

    def expect(self, kind: type, name: str, expected: Expected, after: type | None = None) -> Any:
        """A class defines, or inherits, just what is expected; gives it."""
        base, raw = self.found_in(kind, name, after)
        if not expected.matches(raw):
            raise TooDifficult
        if base is not None and is_heap_type(base):
            self.namespace(base).same.setdefault(name, expected)
        return raw

    def expect_kind(self, kind: type, name: str) -> tuple[type | None, Any]:
        """What a class defines or inherits stays of its type, which nobody can change; gives `found_in`."""
        base, raw = self.found_in(kind, name)
        # A module may get another class without a change of what has it.
        if is_heap_type(type(raw)) or type(raw) is ModuleType:
            if base is not None:
                raise TooDifficult
        elif base is not None and is_heap_type(base):
            noted = self.namespace(base).kinds.setdefault(name, type(raw))
            if noted is not type(raw):
                raise TooDifficult
        return base, raw

    def _class_lines(self) -> list[str]:
        """What is asked about classes, before all reads: whether they are as they were when it was asked."""
        for base in (base for _, bases, _ in self._ordered.values() for base in bases):
            if is_heap_type(base):
                self.namespace(base)
        lines = [
            f"{known.variable} = {self.constant('reference', hold(known.kind))}()"
            for known in self._namespaces.values()
        ]
        asked = [*self._order_lines(), *self._namespace_lines()]
        kinds = [kind for kind, _, _ in self._ordered.values()]
        if not asked or not kinds:
            return lines + asked
        classes, names = Classes(kinds), ", ".join(map(self.class_name, kinds))
        versions, note = self.constant("versions", classes.versions), self.constant("note", classes.note)
        lines.append(f"if not {self.constant('unchanged', classes.unchanged)}({names}):")
        lines += [f"    {line}" for line in (f"now = {versions}({names})", *asked, f"{note}(now)")]
        return lines

    def _order_lines(self) -> list[str]:
        lines = []
        for kind, bases, number in self._ordered.values():
            names = [f"base{i}" for i in range(len(bases))]
            lines.append(f"{', '.join(names)}, = classes_of({self.class_name(kind)})")
            wrong = [f"{n} is not {self.class_name(b)}" for n, b in zip(names, bases, strict=True)]
            lines.append(f"if {' or '.join(wrong)}: return {number}  # bases of {name_of(kind)}")
        return lines

    def _namespace_lines(self) -> list[str]:
        lines = []
        for known in self._namespaces.values():
            wrong = self._namespace_wrong(known)
            if wrong:
                lines.append(f"namespace = namespace_of({known.variable})")
                about = f"class {name_of(known.kind)}"
                lines.append(f"if {' or '.join(wrong)}: return {known.number}  # {about}")
        return lines

    def _namespace_wrong(self, known: Namespace) -> list[str]:
        wrong = [f"{name!r} in namespace" for name in known.absent]
        if len(wrong) > 4:
            names = self.constant("names", frozenset(known.absent))
            wrong = [f"not namespace.keys().isdisjoint({names})"]
        for name, kind in known.kinds.items():
            wrong.append(f"type(namespace[{name!r}]) is not {self.constant('builtin', kind)}")
        for name, expected in known.same.items():
            wrong.append(f"({self.differs(f'namespace[{name!r}]', expected)})")
        return wrong
