"""The observer: a call goes in; its result, what the run read from outside and what it did there come out.

An object is *plain* (immutable, compared by value), a *tensor*, part of the arguments' *structure* (the
caller's key guards it), *outer* (reached through a read; every look at its contents is a read of its own),
*local* (made by this run) or of *unknown* origin. Whatever is not known to be one of these, or would
change something outside, makes the run open: it goes on as ever but cannot be replayed.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import itertools
import threading
from collections.abc import Callable
from types import FunctionType, GeneratorType, MethodType
from typing import Any

import numpy as np

from fusegrad.eager.core.interpreter import holders
from fusegrad.eager.core.public import home
from fusegrad.eager.core.pytree import contents, field_names, holds_tensors, is_container
from fusegrad.tracer.observe import purity, stores
from fusegrad.tracer.observe.arrays import calls as arrays
from fusegrad.tracer.observe.arrays.known import Arrays
from fusegrad.tracer.observe.conditions import Place
from fusegrad.tracer.observe.lookup import ITERATORS, MISSING, VIEWS, Found, flat_contents, instance_dict
from fusegrad.tracer.observe.loops import Loops
from fusegrad.tracer.observe.numbers import Numbers
from fusegrad.tracer.observe.reads import (
    AttributeRead,
    CellRead,
    ClassAttributeRead,
    ContentsRead,
    Effects,
    FunctionRead,
    GlobalRead,
    ItemRead,
    LengthRead,
    Read,
    TypeRead,
)
from fusegrad.tracer.observe.symbols import NUMBERS
from fusegrad.tracer.observe.values import is_plain, kept, plain_key, texts_of
from fusegrad.tracer.twin.instrument import instrument, is_twin_code, keeps_to_itself
from fusegrad.tracer.twin.sites import NOWHERE, Site, SiteTable, definition, without_hooks
from fusegrad.tracer.twin.source import Unsupported

_OWN = (tuple, list, dict, MethodType, *ITERATORS)

LOCAL, OUTER, STRUCTURE, UNKNOWN = "local", "outer", "argument", "unknown"


class _Current(threading.local):
    observer: Observer | None = None


current = _Current()


def active() -> Observer | None:
    """The observer of this thread's run, if one is going on."""
    return current.observer


@dataclasses.dataclass(frozen=True, slots=True)
class Following:
    """How an observer follows calls.

    callee: gives what to call in place of a function, so that the call is observed (see `calls.py`).
    hooks: makes the hooks of a function's twin.
    """

    callee: Callable[[Observer, Any, Site], Any]
    hooks: Callable[[FunctionType, SiteTable], object]


class Observer(Effects):
    """Observes one run of a function.

    arguments: ``(args, kwargs)`` of the call, guarded by the caller: nested containers and plain leaves by
    what they are, others by identity. following: how calls are followed. reads: what was read of outer state,
    each place once. captured_tensors: every tensor that a read yielded, by id. changed: called when something
    is changed that a replay changes, too; changed_later, if values may wait. stores: the attributes that the
    run has set, of objects from outside. loops: what is to be known of loops. numbers: Python numbers that it
    took out of tensors. compared: tensors whose identity was asked for. sets: whether it has made or met any.
    """

    def __init__(self, arguments: tuple[tuple, dict], following: Following) -> None:
        super().__init__()
        self.reads: list[Read] = []
        self.captured_tensors: dict[int, Any] = {}
        self.arguments, self._following = arguments, following
        self.changed: Callable[[str], Any] = lambda what: None
        self.changed_later = self.changed
        self.numbers, self.sets = Numbers(), False
        self.compared: set[int] = set()
        self.stores, self.loops, self.arrays = stores.Stores(), Loops(), Arrays()
        self.changed_late: dict[int, tuple[Any, str]] = {}
        self.entered: list[tuple[Any, Any]] = []  # context variables that are set, and their tokens
        self.held: list[Any] = []  # locks
        self.waiting: list[Any] = []  # references to generators that must have ended in the end
        self.late: dict[int, Place] = {}  # by the id of a list that a schedule keeps, where that is
        self._tensor = purity.tensor_class()
        self._status: dict[int, str] = {}
        self._kept: dict[int, Any] = {}  # so that ids stay valid for as long as statuses are kept
        self._inputs: set[int] = set()
        self._seen: dict[Any, Any] = {}
        self._explained: dict[int, BaseException] = {}
        self._twins: dict[int, FunctionType] = {}
        for value in (*arguments[0], *arguments[1].values()):
            self.register_argument(value)

    # ---------------------------------------------------------------------------------- running

    def run(self, function: Callable, args: tuple, kwargs: dict) -> Any:
        """Run the twin of ``function`` and return its result.

        Raises what the function raises; the traceback is as without observation, but for this frame.
        """
        outer, current.observer = current.observer, self
        try:
            for part in (function.__self__, function.__func__) if isinstance(function, MethodType) else ():
                self.reached(part)
            self.reached(function)
            return self.callee(function, Site(*definition(function)))(*args, **kwargs)
        except BaseException as error:
            error.__traceback__ = without_hooks(error.__traceback__)
            raise
        finally:
            current.observer = outer

    def release(self) -> None:
        """Forget the objects of the run (not the reads and effects); ``status`` is of no use afterwards."""
        objects = self._status, self._kept, self._inputs, self.changed_late, self.late, self._seen
        others = self._explained, self._twins, self.stores, self.arrays, self.loops, self.entered
        for table in (*objects, *others, self.waiting, self.held):
            table.clear()

    # ---------------------------------------------------------------------------------- origins

    def is_tensor(self, value: Any) -> bool:
        """Whether the value is a tensor; of a user's subclass it is not, which could have any method."""
        kind = type(value)
        if kind is self._tensor:
            return True
        if self._tensor is None or not issubclass(kind, self._tensor):
            return False
        return home(kind) is not None

    def is_input(self, value: Any) -> bool:
        """Whether the value is a tensor leaf of the arguments."""
        return id(value) in self._inputs

    def status(self, value: Any) -> str:
        """Where the object came from: LOCAL, OUTER, STRUCTURE or UNKNOWN."""
        return self._status.get(id(value), UNKNOWN)

    def is_outer(self, value: Any) -> bool:
        """Whether a read yielded the object."""
        return self.status(value) == OUTER

    def part(self, owner: Any, key: Any, value: Any) -> None:
        """Note that `value` is what `owner` has under `key`, for those who give names."""

    def local(self, value: Any) -> Any:
        """Note that the object was made by this run."""
        self._note(value, LOCAL)
        return value

    def reached(self, value: Any) -> Any:
        """Note that a read yielded the object: from now on reads of its contents are reads, too."""
        if self.is_tensor(value):
            self.captured_tensors[id(value)] = value
        elif not is_plain(value) and self.status(value) != LOCAL:
            if self.arrays.is_argument(value):
                self.open("finds an array outside that is an argument as well", NOWHERE)
            self._note(value, OUTER)
            for item in contents(value) if holds_tensors(value) else ():  # which follow from the object
                self.reached(item)
        return value

    def adopt(self, value: Any) -> Any:
        """Note that containers not seen before, nested ones included, were made by this run."""
        if self.is_tensor(value) or id(value) in self._status or is_plain(value):
            return value
        self._note(value, LOCAL)
        if type(value) in purity.CONTAINERS or isinstance(value, tuple):
            for item in flat_contents(value):
                if type(item) in purity.CONTAINERS:
                    self.adopt(item)
        return value

    def is_known(self, value: Any) -> bool:
        """Whether it is certain that a replay would meet the same object, or an equal new one."""
        if id(value) in self._status or self.is_tensor(value) or is_plain(value):
            return True
        # What a tuple holds is judged item by item.
        return type(value) is tuple or purity.is_static(value) or self.is_local_iterator(value)

    def is_local_iterator(self, value: Any) -> bool:
        """Whether an iterator was made by this run (by calling a twin that yields, for example)."""
        status = self.status(value)
        if status == UNKNOWN and type(value) is GeneratorType:
            return is_twin_code(value.gi_code)
        return status == LOCAL or (status == UNKNOWN and self.is_lost)

    def _note(self, value: Any, status: str) -> None:
        self.sets |= type(value) in purity.SETS
        if not (type(value) in ITERATORS and self.is_lost):  # they may have generators that must end in time
            self._status[id(value)] = status
            self._kept[id(value)] = kept(value, self._status, self._kept)

    def keep(self, value: Any) -> Any:
        """Keep an object alive for the run, so that its id stays its own."""
        return self._kept.setdefault(id(value), value)

    def let_go(self, *values: Any) -> None:
        """Somebody asks when these objects die: they live no longer than in a run that nobody observes."""
        for value in values:
            if self.status(value) == LOCAL:
                self.loops.let_go(value)
                del self._kept[id(value)], self._status[id(value)]

    def noted(self) -> int:
        """How many objects are kept so."""
        return len(self._kept)

    def forget(self, since: int) -> None:
        """Let go of the run's own containers and iterators that nobody else has any more, but for the first
        `since` objects: what they hold would be taken for something that is still in use.
        """
        # Those that hold others were made after them.
        for key in reversed([*itertools.islice(self._kept, since, None)]):
            own = issubclass(type(self._kept[key]), _OWN) and self._status.get(key) == LOCAL
            # Whoever keeps it has one.
            if own and holders((self._kept[key],)) == [1 + self.loops.keeps(key)]:
                del self._kept[key], self._status[key]
                self.loops.forget(key)

    def register_argument(self, value: Any) -> None:
        if self.is_tensor(value):
            self._inputs.add(id(value))
            self._kept[id(value)] = value
        elif is_plain(value):
            self._inputs.update(map(id, texts_of(value)))
        elif id(value) in self._status:
            return
        elif not is_container(value):
            self._note(value, OUTER)
        else:
            self._note(value, STRUCTURE)
            names = field_names(value)
            items = flat_contents(value) if names is None else [getattr(value, n, None) for n in names]
            for item in items:
                self.register_argument(item)

    # ---------------------------------------------------------------------------------- reads

    def restless(self, owner: Any, why: str) -> None:
        """Note that code has changed `owner` that a replay runs in the end: it cannot be read any more."""
        self.changed_late[id(owner)] = owner, why

    def look_at(self, owner: Any, site: Site) -> bool:
        """A look at an object from outside, which must be what it was; whether it is a grown list."""
        if id(owner) in self.changed_late:
            self.open(self.changed_late[id(owner)][1], site, "schedule")
        return stores.look_at(self, owner, site)

    def is_late(self, owner: Any) -> bool:
        """Whether code that a replay runs in the end has changed an object, or what leads to it."""
        return id(owner) in self.changed_late.keys() | self.late

    def read(self, key: Any, make: Callable[[], Read], value: Any = None) -> Any:
        """Record a read once; ``key`` names the place, ``make`` builds the read.

        Gives `value`, which was found there, or what stands for it if it is another number at each call.
        """
        if key in self.numbers.sources and type(value) in NUMBERS:
            read = make()
            return self.numbers.give(key, read.place(), value, read.subject())
        if key not in self._seen:
            self._seen[key] = None
            self.reads.append(make())
            self.reads[-1].source = key
        return value

    def read_global(self, function: FunctionType, name: str, value: Any, site: Site) -> Any:
        """A global or builtin name of a function."""
        owner: Any = function  # mypy's cache leaves out `__builtins__`
        namespace = function.__globals__
        found = self.read(
            ("global", id(namespace), name),
            lambda: GlobalRead(namespace, owner.__builtins__, name, value, site),
            value if name in namespace else None,
        )
        return self.reached(value) if found is None else self.reached(found)

    def read_cell(self, function: FunctionType, name: str, value: Any, site: Site) -> Any:
        """A variable of a function's closure; a function made by this run closes over its own variables."""
        if self.status(function) != LOCAL:
            made = functools.partial(CellRead, function, name, value, site)
            return self.reached(self.read(("cell", id(function), name), made, value))
        return value

    def read_function(self, function: FunctionType, site: Site) -> None:
        """Code and defaults of a function from outside that is about to be called."""
        if self.status(function) == LOCAL:
            return
        self.read(("function", id(function)), lambda: FunctionRead(function, site))
        for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self.reached(default)

    def read_attribute(self, owner: Any, name: str, found: Found, site: Site) -> Any:
        """An attribute of an object: on the object if it is outer, else on its class.

        Gives what was found, or what stands for it if it is another number at each call.
        """
        stores.fix(self, owner, name, site)
        if (owner, name) in self.stores:
            return found.raw  # it is what the run has made it
        if found.where != "class" and (name != "param_groups" or not purity.is_optimizer(owner)):
            self.look_at(owner, site)
        if self.status(owner) == OUTER:
            builtin = type(owner) in purity.CONTAINERS and instance_dict(owner) is None
            if builtin and found.where == "class":
                return found.raw  # a method of a builtin class
            value = found.raw if found.where in ("instance", "slot") else None
            made = functools.partial(AttributeRead, owner, name, found, site)
            value = self.read(("attribute", id(owner), name), made, value)
            return found.raw if value is None else value
        if found.where in ("class", "data", "absent"):
            self.read_class(type(owner), name, found.raw, site)
        return found.raw

    def read_class(self, owner: type, name: str, raw: Any, site: Site, after: type | None = None) -> None:
        """What a class defines under a name; builtin classes cannot change."""
        if purity.is_heap_type(owner):
            self.read(
                ("class", id(owner), name, id(after)),
                lambda: ClassAttributeRead(owner, name, raw, site, after),
            )

    def read_type(self, value: Any, site: Site) -> None:
        """The type of an object, where it could be assigned."""
        if self.status(value) == OUTER and purity.is_heap_type(type(value)):
            self.read(("type", id(value)), lambda: TypeRead(value, site))

    def read_item(self, owner: Any, key: Any, value: Any, site: Site) -> Any:
        """One item of an outer list, deque or dict (MISSING: a dict's absent key); see `read_attribute`."""
        key = stores.place_of(self, owner, key, site)
        if stores.is_added(self, owner, key) or self.look_at(owner, site) or (owner, key) in self.stores:
            return value
        place = ("item", id(owner), id(self.keep(key)) if plain_key(key) is MISSING else plain_key(key))
        return self.reached(self.read(place, lambda: ItemRead(owner, key, value, site), value))

    def read_length(self, owner: Any, site: Site) -> None:
        """The length of a container, if it is outer."""
        if self.status(owner) != OUTER or stores.look_at(self, owner, site):
            return
        if not isinstance(owner, (tuple, frozenset)):
            self.read(("length", id(owner)), lambda: LengthRead(owner, site))

    def read_contents(self, owner: Any, site: Site) -> None:
        """All items of a builtin container; a read if it is outer."""
        if self.status(owner) != OUTER:
            return
        seen = self.look_at(owner, site) or ("contents", id(owner)) in self._seen
        if seen or stores.look_at_others(self, owner, site):
            return
        if not isinstance(owner, (tuple, frozenset)):  # whose identity says it all
            self.read(("contents", id(owner)), lambda: ContentsRead(owner, site))
        for item in flat_contents(owner):
            self.reached(item)

    # ---------------------------------------------------------------------------------- consumption

    def consume(
        self,
        value: Any,
        site: Site,
        what: str,
        deep: bool = True,
        tensors: bool = True,
        passed_on: bool = False,
    ) -> bool:
        """Guard what a builtin or an op will look at in ``value``; opens the run if that cannot be.

        deep: the elements are operated on, too, so none of them may run code of its own.
        tensors: whether tensors are fit for it (they are not where text or identity comes out).
        passed_on: objects in containers are handed to the user's code, and not looked at before.
        Returns whether the value was fit.
        """
        problem = self._problem(value, site, deep, tensors, passed_on, set())
        if problem is not None:
            self.open(f"{what} {problem}", site)
        return problem is None

    def _problem(
        self, value: Any, site: Site, deep: bool, tensors: bool, passed_on: bool, visited: set[int]
    ) -> str | None:
        kind = type(value)
        if self.is_tensor(value):
            return None if tensors else "a tensor"
        if kind in purity.CONTAINERS or purity.is_namedtuple(value):
            if id(value) in visited:
                return None
            visited.add(id(value))
            if self.status(value) == UNKNOWN and not isinstance(value, tuple) and not is_plain(value):
                return f"a {kind.__name__} of unknown origin"
            self.read_contents(value, site)
            if deep and is_plain(value):
                self.numbers.look(value)
            elif deep:
                for item in flat_contents(value):
                    problem = self._problem(item, site, deep, tensors, passed_on, visited)
                    if problem is not None:
                        return problem
            return None
        if is_plain(value) or purity.is_static(value):
            if deep:
                self.numbers.look(value)
            return None
        if isinstance(value, np.ndarray):
            return arrays.problem_with(self, value, tensors)
        if kind in ITERATORS:
            if not tensors:
                return "an iterator"
            if kind in VIEWS and deep:
                items = iter(value)
                problems = (self._problem(item, site, deep, tensors, passed_on, visited) for item in items)
                return next((problem for problem in problems if problem is not None), None)
            return None if self.is_local_iterator(value) else "an iterator that lives outside the function"
        if isinstance(value, enum.Enum):
            return None if purity.is_simple_enum(kind) else f"a {kind.__name__}, which has methods of its own"
        if not deep or passed_on:
            return None if self.is_known(value) else f"a {kind.__name__} of unknown origin"
        if isinstance(value, (type, FunctionType, MethodType)) or callable(value):
            return f"the callable `{getattr(value, '__name__', kind.__name__)}`"
        return f"a {kind.__name__} object"

    # ---------------------------------------------------------------------------------- exceptions

    def explain(self, error: BaseException) -> None:
        """Note that the exception follows from what is guarded, so that a handler may catch it."""
        self._explained[id(error)] = error

    def is_explained(self, error: BaseException | None) -> bool:
        """Whether the exception follows from what is guarded."""
        if error is None or id(error) in self._explained:
            return error is not None
        traceback = error.__traceback__
        while traceback is not None and traceback.tb_next is not None:
            traceback = traceback.tb_next
        if traceback is None or not is_twin_code(traceback.tb_frame.f_code):
            return False
        # Raised by the twin's own instructions (assert, unpacking, an unbound local, wrong arguments):
        # follows from what they work on. A global that is missing has left no read, though.
        return not isinstance(error, NameError) or isinstance(error, UnboundLocalError)

    # ---------------------------------------------------------------------------------- twins

    def twin(self, function: FunctionType) -> FunctionType:
        """The twin of a function that runs code unasked. Raises Unsupported."""
        self.does(f"runs `{function.__name__}`", Site(*definition(function)))
        return self.followed(function)

    def followed(self, function: FunctionType) -> FunctionType:
        """The twin of a function, one per run. Raises Unsupported."""
        twin = self._twins.get(id(function))
        if twin is None:
            twin = self._twins[id(function)] = instrument(function, self._following.hooks)
            self._kept[id(function)] = function
        return twin

    def callee(self, function: Any, site: Site) -> Any:
        """What to call in place of a function, so that the call is observed."""
        return self._following.callee(self, function, site)

    def special_method(self, owner: Any, name: str, site: Site, asked: bool = False) -> Callable | None:
        """The twin of a special method, bound to its owner; None (and open) if it cannot be followed.
        asked: whether the user's code calls it as it calls functions."""
        method = purity.python_method(type(owner), name)
        if method is MISSING or not self.is_known(owner):
            self.open(f"`{name}` of a {type(owner).__name__} cannot be followed", site)
            return None
        self.read_type(owner, site)
        self.read_class(type(owner), name, method, site)
        self.reached(method)
        if not (asked and keeps_to_itself(method.__code__)):
            self.does(f"runs `{name}` of a {type(owner).__name__}", site)
        try:
            twin = self.followed(method)
        except Unsupported as refusal:
            self.open(f"`{name}` of a {type(owner).__name__} cannot be followed: {refusal.reason}", site)
            return None
        self.read_function(method, site)
        return MethodType(twin, owner)
