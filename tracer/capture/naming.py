"""Names: the path by which a run read a tensor goes in, its name in the graph comes out (`layers_0_bias`)."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from fusegrad.tracer.observe.lookup import Found, flat_contents
from fusegrad.tracer.observe.observer import OUTER, Following, Observer
from fusegrad.tracer.observe.values import is_plain
from fusegrad.tracer.twin.sites import Site

# Steps of a path that say nothing: a module keeps its parts in tables that its users do not see.
_SILENT = {"_parameters", "_buffers", "_modules"}


class NamingObserver(Observer):
    """An observer that remembers by which path each tensor, and each object on the way to it, was read first.

    roots: names of objects among the arguments, by object; what is read of them starts there.

    A name is known when the tensor is first used, and depends on nothing that comes after: runs
    that begin alike give the same names.
    """

    def __init__(
        self, arguments: tuple[tuple, dict], following: Following, roots: list[tuple[str, Any]]
    ) -> None:
        super().__init__(arguments, following)
        self._paths: dict[int, str] = {}
        for name, value in roots:
            self._name(value, "" if name == "self" else name)

    def name_of(self, value: Any) -> str:
        """The path by which the object was read, as a name; empty if it is not known."""
        path = self._paths.get(id(value), "")
        return f"_{path}" if path[:1].isdigit() else path

    def release(self) -> None:
        super().release()
        self._paths.clear()

    def read_global(self, function: FunctionType, name: str, value: Any, site: Site) -> Any:
        self._name(value, name)
        return super().read_global(function, name, value, site)

    def read_cell(self, function: FunctionType, name: str, value: Any, site: Site) -> Any:
        self._name(value, name)
        return super().read_cell(function, name, value, site)

    def read_function(self, function: FunctionType, site: Site) -> None:
        code, defaults = function.__code__, function.__defaults__ or ()
        names = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
        for name, value in [*zip(names, defaults, strict=False), *(function.__kwdefaults__ or {}).items()]:
            self._name(value, name)
        super().read_function(function, site)

    def read_attribute(self, owner: Any, name: str, found: Found, site: Site) -> Any:
        # What the run has set has another name, and need not be kept.
        if self.status(owner) == OUTER and (owner, name) not in self.stores:
            self._part(owner, name, found.raw)
        return super().read_attribute(owner, name, found, site)

    def read_class(self, owner: type, name: str, raw: Any, site: Site, after: type | None = None) -> None:
        self._name(raw, name)
        super().read_class(owner, name, raw, site, after)

    def read_item(self, owner: Any, key: Any, value: Any, site: Site) -> Any:
        self._part(owner, key, value)
        return super().read_item(owner, key, value, site)

    def read_contents(self, owner: Any, site: Site) -> None:
        if self.status(owner) == OUTER:
            items = dict.items(owner) if isinstance(owner, dict) else enumerate(flat_contents(owner))
            for key, value in items:
                self._part(owner, key, value)
        super().read_contents(owner, site)

    def part(self, owner: Any, key: Any, value: Any) -> None:
        self._part(owner, key.replace(".", "_"), value)

    def _part(self, owner: Any, key: Any, value: Any) -> None:
        """Name what was found at `key` of `owner`: after the owner, where it has a name."""
        step = str(key) if type(key) in (str, int) and key not in _SILENT else ""
        self._name(value, "_".join(p for p in (self._paths.get(id(owner), ""), step) if p))

    def _name(self, value: Any, name: str) -> None:
        if not is_plain(value):
            self._paths.setdefault(id(self.keep(value)), name)
