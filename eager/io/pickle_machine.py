"""Reading pickles without running what they say: a machine for those instructions that build plain values.

In: bytes, and what the names stand for that a pickle may use. Out: the value. A name that is not listed is an
error when it comes; nothing is imported, and only what is listed or allowed is called. Sizes that the bytes
claim are looked at before memory is taken, and what a memo is asked to hold stands in a dict, whatever its
numbers.
"""

from __future__ import annotations

import pickle
import struct
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any

MOST_NESTED_KEYS = 20  # tuples in tuples as a dict's key: hashing goes down the stack of C
_LONGEST_NAME = 1000


class Damaged(Exception):
    """What was read is no pickle, or says what makes no sense."""


class Maker:
    """A function that a pickle may have called, with what arguments it likes: it looks at them itself."""

    def __init__(self, make: Callable[..., Any]) -> None:
        self.make = make

    def __call__(self, *arguments: Any) -> Any:
        return made(self, arguments)


class Raised(Exception):
    """What something that a program allowed has raised, which is for the program."""

    def __init__(self, error: Exception) -> None:
        self.error = error


# How objects of other types take what a pickle tells of them once they are made; they look at it themselves.
BUILDERS: dict[type, Callable[[Any, Any], None]] = {}


class Source:
    """Bytes from a file, as many as are there: asking for more is an error, and takes no memory."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self.file, self.left = file, size

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        if count > self.left:
            raise Damaged(f"it ends early: {count} bytes are asked for, and {self.left} are left")
        self.left -= count
        taken = self.file.read(count)
        if len(taken) != count:
            raise Damaged("it ends early")
        return taken

    def line(self) -> str:
        """The next line, which is a part of a name."""
        line = self.file.readline(_LONGEST_NAME)
        self.left -= len(line)
        if not line.endswith(b"\n"):
            raise Damaged("a name does not end")
        return line[:-1].decode()


def unpickled(
    source: Source,
    find: Callable[[str, str], Any],
    persistent: Callable[[Any], Any] = lambda name: None,
    allowed: Callable[[Any], bool] = lambda value: False,
    text: Callable[[bytes], Any] = lambda content: content.decode("latin1"),
) -> Any:
    """The value that a pickle describes.

    find: what `module` and `name` stand for, or an exception. persistent: what a persistent id stands for.
    allowed: whether a class or function that was found may be called. text: what a text of Python 2 is.
    Raises Damaged, and what `find`, `persistent`, the makers and what is allowed raise.
    """
    machine = _Machine(source, find, persistent, allowed, text)
    try:
        return machine.run()
    except Raised as raised:
        raise raised.error from None
    except (IndexError, KeyError, struct.error, UnicodeDecodeError) as error:
        raise Damaged(f"the instructions do not fit together ({type(error).__name__}: {error})") from None


class _Machine:
    """A stack, the stacks below each mark, and the memo."""

    def __init__(
        self,
        source: Source,
        find: Callable[..., Any],
        persistent: Callable[..., Any],
        allowed: Callable[[Any], bool],
        text: Callable[[bytes], Any],
    ) -> None:
        self.source, self.find, self.persistent = source, find, persistent
        self.allowed, self.old_text = allowed, text
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        while True:
            code = self.source.take(1)
            if code == pickle.STOP:
                if self.below or len(self.stack) != 1:
                    raise Damaged("it ends within a container")
                return self.stack.pop()
            step = _STEPS.get(code)
            if step is None:
                raise Damaged(f"no instruction of plain values is {code!r}")
            step(self)

    def number(self, form: str) -> Any:
        """The next bytes as a number."""
        return struct.unpack(form, self.source.take(struct.calcsize(form)))[0]

    def counted(self, form: str) -> bytes:
        """As many bytes as the number before them says."""
        return self.source.take(self.number(form))

    def since_mark(self) -> list[Any]:
        """What was put on the stack since the last mark."""
        items = self.stack
        self.stack = self.below.pop()
        return items

    def mark(self) -> None:
        self.below.append(self.stack)
        self.stack = []

    def tuple(self, items: list[Any]) -> None:
        self.stack.append(tuple(items))

    def few(self, count: int) -> None:
        """The last values as a tuple."""
        if len(self.stack) < count:
            raise Damaged("values are missing")
        self.stack[-count:] = [tuple(self.stack[-count:])]

    def appends(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not list:
            raise Damaged(f"values are appended to a {type(target).__name__}")
        target.extend(items)

    def adds(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not set:
            raise Damaged(f"values are added to a {type(target).__name__}")
        target.update(key(item) for item in items)

    def sets(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) not in (dict, OrderedDict, Counter):
            raise Damaged(f"items are set of a {type(target).__name__}")
        if len(items) % 2:
            raise Damaged("a dict's key has no value")
        for name, value in zip(items[::2], items[1::2], strict=True):
            target[key(name)] = value

    def last(self, count: int) -> list[Any]:
        """Take the last values off the stack."""
        if len(self.stack) < count:
            raise Damaged("values are missing")
        items = self.stack[-count:]
        del self.stack[-count:]
        return items

    def call(self) -> None:
        maker, arguments = self.last(2)
        if type(arguments) is not tuple:
            raise Damaged(f"a {type(maker).__name__} is called")
        self.stack.append(self.made(maker, maker, arguments))

    def new(self) -> None:
        """An object of a class, before it is told of."""
        kind, arguments = self.last(2)
        if type(arguments) is not tuple:
            raise Damaged(f"a {type(kind).__name__} is called")
        make = (lambda *given: kind.__new__(kind, *given)) if isinstance(kind, type) else kind
        self.stack.append(self.made(kind, make, arguments))

    def made(self, what: Any, make: Any, arguments: Any) -> Any:
        """What `make` gives, where `what` may be called: our own makers, and what the program has allowed."""
        if type(what) is Maker:
            return made(what, arguments)
        if not self.allowed(what):
            raise Damaged(f"a {type(what).__name__} is called")
        with _for_the_program():
            return make(*arguments)

    def build(self) -> None:
        """What is told of an object once it is made: of what `BUILDERS` has, and attributes: dicts that
        remember their order have some, such as the versions of a module, and objects of allowed classes.
        """
        state = self.stack.pop()
        target = self.stack[-1]
        if (builder := BUILDERS.get(type(target))) is not None:
            builder(target, state)
        elif self.allowed(type(target)):
            with _for_the_program():
                _build(target, state)
        elif type(target) is not OrderedDict or not plain_attributes(state, OrderedDict):
            raise Damaged(f"a {type(target).__name__} is given attributes")
        else:
            vars(target).update(state)

    def name(self, module: Any, name: Any) -> None:
        if type(module) is not str or type(name) is not str:
            raise Damaged("a name is no text")
        self.stack.append(self.find(module, name))

    def persist(self) -> None:
        self.stack.append(self.persistent(self.stack.pop()))

    def store(self, place: int) -> None:
        self.memo[place] = self.stack[-1]


@contextmanager
def _for_the_program() -> Iterator[None]:
    """What is raised here is no damage of the file."""
    try:
        yield
    except Exception as error:
        raise Raised(error) from None


def _build(target: Any, state: Any) -> None:
    """Give an object of an allowed class its state, as pickle does."""
    if getattr(target, "__setstate__", None) is not None:
        target.__setstate__(state)
        return
    attributes, slots = state if type(state) is tuple and len(state) == 2 else (state, {})
    if attributes:
        target.__dict__.update(attributes)
    for name, value in (slots or {}).items():
        setattr(target, name, value)


def key(value: Any, depth: int = 0) -> Any:
    """`value` itself, if it may be a dict's key. Raises Damaged."""
    if depth > MOST_NESTED_KEYS:
        raise Damaged("a dict's key is a tuple of too many tuples")
    if isinstance(value, tuple):
        for part in value:
            key(part, depth + 1)
    try:
        hash(None if isinstance(value, tuple) else value)
    except TypeError:
        raise Damaged(f"a dict's key is a {type(value).__name__}") from None
    return value


def made(maker: Maker, arguments: tuple[Any, ...]) -> Any:
    """What a maker makes of arguments that may not fit it. Raises Damaged."""
    try:
        return maker.make(*arguments)
    except (TypeError, ValueError, OverflowError, LookupError, AttributeError) as error:
        raise Damaged(f"what is called gets what does not fit it ({error})") from None


def plain_attributes(attributes: Any, kind: type) -> bool:
    """Whether these can be set on an object of `kind`, and hide nothing of its class."""
    return type(attributes) is dict and all(
        type(name) is str and not hasattr(kind, name) for name in attributes
    )


def _text(code: bytes) -> str:
    return code.decode("utf-8", "surrogatepass")


def _push(value: Callable[[_Machine], Any]) -> Callable[[_Machine], None]:
    return lambda m: m.stack.append(value(m))


_STEPS: dict[bytes, Callable[[_Machine], Any]] = {
    pickle.PROTO: lambda m: m.source.take(1),
    pickle.FRAME: lambda m: m.source.take(8),
    pickle.MARK: _Machine.mark,
    pickle.POP: lambda m: m.stack.pop() if m.stack else m.since_mark(),
    pickle.POP_MARK: _Machine.since_mark,
    pickle.DUP: _push(lambda m: m.stack[-1]),
    pickle.NONE: _push(lambda m: None),
    pickle.NEWTRUE: _push(lambda m: True),
    pickle.NEWFALSE: _push(lambda m: False),
    pickle.BININT: _push(lambda m: m.number("<i")),
    pickle.BININT1: _push(lambda m: m.number("<B")),
    pickle.BININT2: _push(lambda m: m.number("<H")),
    pickle.LONG1: _push(lambda m: pickle.decode_long(m.counted("<B"))),
    pickle.LONG4: _push(lambda m: pickle.decode_long(m.counted("<I"))),
    pickle.BINFLOAT: _push(lambda m: m.number(">d")),
    pickle.SHORT_BINUNICODE: _push(lambda m: _text(m.counted("<B"))),
    pickle.BINUNICODE: _push(lambda m: _text(m.counted("<I"))),
    pickle.BINUNICODE8: _push(lambda m: _text(m.counted("<Q"))),
    pickle.SHORT_BINSTRING: _push(lambda m: m.old_text(m.counted("<B"))),
    pickle.BINSTRING: _push(lambda m: m.old_text(m.counted("<I"))),
    pickle.SHORT_BINBYTES: _push(lambda m: m.counted("<B")),
    pickle.BINBYTES: _push(lambda m: m.counted("<I")),
    pickle.BINBYTES8: _push(lambda m: m.counted("<Q")),
    pickle.BYTEARRAY8: _push(lambda m: bytearray(m.counted("<Q"))),
    pickle.EMPTY_TUPLE: _push(lambda m: ()),
    pickle.EMPTY_LIST: _push(lambda m: []),
    pickle.EMPTY_DICT: _push(lambda m: {}),
    pickle.EMPTY_SET: _push(lambda m: set()),
    pickle.TUPLE: lambda m: m.tuple(m.since_mark()),
    pickle.TUPLE1: lambda m: m.few(1),
    pickle.TUPLE2: lambda m: m.few(2),
    pickle.TUPLE3: lambda m: m.few(3),
    pickle.APPEND: lambda m: m.appends(m.last(1)),
    pickle.APPENDS: lambda m: m.appends(m.since_mark()),
    pickle.SETITEM: lambda m: m.sets(m.last(2)),
    pickle.SETITEMS: lambda m: m.sets(m.since_mark()),
    pickle.ADDITEMS: lambda m: m.adds(m.since_mark()),
    pickle.GLOBAL: lambda m: m.name(m.source.line(), m.source.line()),
    pickle.STACK_GLOBAL: lambda m: m.name(*m.last(2)),
    pickle.REDUCE: _Machine.call,
    pickle.NEWOBJ: _Machine.new,
    pickle.BUILD: _Machine.build,
    pickle.BINPERSID: _Machine.persist,
    pickle.BINPUT: lambda m: m.store(m.number("<B")),
    pickle.LONG_BINPUT: lambda m: m.store(m.number("<I")),
    pickle.MEMOIZE: lambda m: m.store(len(m.memo)),
    pickle.BINGET: _push(lambda m: m.memo[m.number("<B")]),
    pickle.LONG_BINGET: _push(lambda m: m.memo[m.number("<I")]),
}
