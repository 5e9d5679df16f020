"""Machine code: LLVM IR goes in, addresses of its functions come out, several modules at a time.

LLVM's work is the better part of most first calls. So each module has a thread of its own, and whoever needs
the address of something in it waits for it then: LLVM works on as many modules as there are cores, and Python
goes on planning meanwhile. What an earlier process left in the cache's folder (`compiler/artefacts`) is taken
from there, and LLVM is not asked, nor loaded: that is `llvm_work`, which is imported for the first text that
nobody has compiled yet.
"""

from __future__ import annotations

import _thread
import atexit
import functools
import hashlib
import logging  # noqa: F401  for its part in forks
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from fusegrad.compiler.artefacts import folder, versions
from fusegrad.compiler.artefacts.form import Artefact
from fusegrad.compiler.artefacts.world import Unsayable
from fusegrad.compiler.base import debug
from fusegrad.compiler.base.background import end_workers
from fusegrad.compiler.base.lock import compiling
from fusegrad.compiler.base.uninterrupted import Finished, Running, undisturbed
from fusegrad.compiler.llvm import image
from fusegrad.compiler.llvm.image import Image, Unlinkable, add_symbols as add_symbols
from fusegrad.compiler.llvm.target import Level, host, host_facts
from fusegrad.eager import forks


class Statistics:
    """What compilation has cost in this process.

    modules: that were loaded; found: those of them that an earlier process had left. seconds: for which
    somebody waited for machine code.
    """

    modules = 0
    found = 0
    kernels = 0
    seconds = 0.0


# What processes leave for later ones.

KIND = "machine code"


def _facts() -> list[Any]:
    """What machine code depends on beside its text: who makes it, how, and for what instructions. Raises
    OSError where that cannot be told.

    Not the name that LLVM has for the processor: it decides in which order instructions stand, not which.
    """
    recipe = [
        (Path(__file__).parent / name).read_bytes() for name in ("llvm_work.py", "image.py", "target.py")
    ]
    return [*host_facts(), recipe]


@functools.cache
def _maker() -> bytes:
    """The digest of that; empty where it cannot be told."""
    try:
        return hashlib.sha256(repr(_facts()).encode()).digest()
    except OSError:
        return b""


def cache_key(text: str) -> str:
    """The key of the machine code of LLVM IR; empty where there is no cache."""
    return hashlib.sha256(_maker() + text.encode()).hexdigest() if folder.place() and _maker() else ""


class _Code:
    """The machine code of a module, found or made.

    Raises Unlinkable where it cannot be loaded here, or is no such thing.
    """

    def __init__(self, artefact: Artefact) -> None:
        self.artefact, facts = artefact, artefact.facts
        self.image: Image | None = None
        if "image" in artefact.parts:
            if artefact.kind != KIND or not image.are_used():
                raise Unlinkable("it is of another machine")
            self.image = Image.again(facts, artefact.parts["image"])
            image.check(self.image)
        elif artefact.kind != KIND or "object" not in artefact.parts:
            raise Unlinkable("it is no machine code")

    @classmethod
    def of(cls, code: bytes, symbols: Sequence[str]) -> _Code:
        """What LLVM has made."""
        try:
            if image.are_used():
                made = image.linked(code, symbols)
                return cls(Artefact(KIND, made.facts(), {"image": made.code}))
        except Unlinkable as error:
            debug.show(1, "LLVM loads an object", functools.partial(str, error))
        return cls(Artefact(KIND, {"symbols": [*symbols]}, {"object": code}))

    def addresses(self) -> dict[str, int]:
        """Where its functions are, once they are in memory."""
        if self.image is not None:
            return image.loaded(self.image)
        found: dict[str, int] = _llvm().loaded(self.artefact.parts["object"], self.artefact.facts["symbols"])
        return found


def said_key(*said: Any) -> str:
    """The key of the machine code of a text that is not written yet, by all that it is made of beside the
    source of fusegrad and the machine; empty where there is no cache.
    """
    if not folder.place() or not _maker():
        return ""
    try:
        facts = versions.known(), repr(host()), said
    except Unsayable:
        return ""
    return hashlib.sha256(_maker() + repr(facts).encode()).hexdigest()


def _left(key: str, symbols: Sequence[str] = ()) -> _Code | None:
    """The machine code that an earlier process left under a key, if it has these functions."""
    artefact = folder.find(key) if key else None
    if artefact is None:
        return None
    try:
        code = _Code(artefact)
        return code if {*symbols} <= {*artefact.facts["symbols"]} else None
    except (Unlinkable, LookupError, TypeError, ValueError):
        return None


# By keys, the module that was found for them: what has several kernels is loaded once.
_found: dict[tuple[str, ...], Module] = {}


def left_for(key: str, text: Callable[[], str]) -> Module | None:
    """The module that has the functions of a text, maybe beside others, where an earlier process left it."""
    code = _left(key)
    if code is None:
        return None
    facts = code.artefact.facts
    keys = tuple(facts["keys"])
    with compiling:
        if keys not in _found:
            _found[keys] = Module(text, [*facts["symbols"]], code=code)
        return _found[keys]


@functools.cache
def _llvm() -> Any:
    """LLVM, which is loaded when it is first needed, by the thread that needs it: another one would wait for
    what this one is importing. Raises RuntimeError where the process ends.
    """
    from fusegrad.compiler.llvm import llvm_work

    # To be called before llvmlite takes LLVM down; which it may have done by now, if the process was ending.
    atexit.register(_at_exit)
    if not threading.main_thread().is_alive():
        raise RuntimeError("the process ends")
    return llvm_work


# From text to addresses.

_at_work: list[Module] = []
_loading = threading.Lock()
# Shut while the process forks: modules that are aside begin behind it.
_gate = threading.Lock()
_ending = False


class Module:
    """LLVM IR that is being compiled, or has been. To be made under the lock of compiling.

    turn: what its thread waits for before LLVM begins, where there may be many. aside: whether it is of what
    is compiled beside the program; who forks or ends the process does not wait for such a one to begin.
    text: or what writes it, where it is asked for. keys: by which later processes are to find it, where it
    has been looked for by them. code: its machine code, where that is known. said: all that the text is made
    of, by which it is found before it is written. Raises RuntimeError for what is no LLVM IR.
    """

    def __init__(
        self,
        text: str | Callable[[], str],
        symbols: Sequence[str],
        turn: threading.Semaphore | None = None,
        aside: bool = False,
        keys: Sequence[str] | None = None,
        code: _Code | None = None,
        said: Any = None,
    ) -> None:
        if keys is None and code is None:
            key = cache_key(_written(text)) if said is None else said_key(said)
            keys, code = [*filter(None, [key])], _left(key, symbols)
        self._text, self._symbols = text, symbols
        self._addresses: dict[str, int] | None = None
        self.lost = self._shown = False
        self.found = code is not None
        self.begun = self.found or not aside
        self._keys = keys or ()
        self.running: Running[None] | Finished[None] = Finished(None)
        if code is not None:
            self._code: Callable[[], _Code] = lambda: code
            return
        work = undisturbed(_llvm().object_work)(_written(text))
        self._code = lambda: _Code.of(work.code(), symbols)

        def run() -> None:
            with turn or nullcontext():
                with _gate if aside else nullcontext():
                    if aside and _ending:
                        raise RuntimeError("the process ends")
                    self.begun = True
                work.run()

        self.running = Running(run)
        _at_work[:] = [*(m for m in _at_work if not m.running.finished), self]

    @property
    def failed(self) -> bool:
        """Whether LLVM has failed, or its thread is another process's."""
        return self.lost or self.running.failed

    def addresses(self) -> dict[str, int]:
        """Where its symbols are, for which one waits. Raises what LLVM failed with."""
        if self._addresses is not None and self._shown:
            return self._addresses
        started = time.perf_counter()
        self.running.result()  # not under the lock: others may compile meanwhile
        with compiling:
            found = undisturbed(self._load)()
            Statistics.seconds += time.perf_counter() - started
            if not self._shown:
                debug.show(4, "LLVM IR", lambda: _written(self._text))
                debug.show(5, "assembly", lambda: assembly(_written(self._text)))
            self._shown, self._text = True, ""
            return found

    def _load(self) -> dict[str, int]:
        """The addresses; done once, though whoever asked first may have been interrupted."""
        with _loading:
            if self._addresses is None:
                try:
                    code = self._code()
                    found = code.addresses()
                    # In the order in which they were asked for: those of a cache's entry have another.
                    self._addresses = {name: found[name] for name in self._symbols}
                except BaseException:
                    self.lost = True
                    raise
                Statistics.modules += 1
                Statistics.found += self.found
                del self._code
                if self._keys and not self.found:
                    folder.keep(self._keys, code.artefact)
            return self._addresses


def _written(text: str | Callable[[], str]) -> str:
    return text if isinstance(text, str) else text()


def remembered(make: Callable[..., Module]) -> Callable[..., Module]:
    """`make`, which begins to compile a module, done once for the same arguments, unless LLVM fails."""
    known: dict[tuple[Any, ...], Module] = {}

    @functools.wraps(make)
    def module(*args: Any) -> Module:
        with compiling:
            if args not in known or known[args].failed:
                known[args] = make(*args)
            return known[args]

    return module


def compile_module(text: str, symbols: Sequence[str]) -> list[int]:
    """Compile LLVM IR and give the addresses of `symbols` in it."""
    with compiling:
        return list(Module(text, symbols).addresses().values())


def assembly(text: str) -> str:
    """The machine code of LLVM IR for people to read."""
    made: bytes = undisturbed(_llvm().assembly)(text)
    return made.decode()


def object_code(text: str, level: Level) -> bytes:
    """The object of LLVM IR for all machines of a level, to be linked."""
    with compiling:
        made: bytes = undisturbed(_llvm().object_for)(text, level)
    return made


def _wait_for_all() -> None:
    waited = [module.running.wait() for module in list(_at_work) if module.begun]
    if any(waited):
        _thread.interrupt_main()


def _before_fork() -> None:
    """A child has only the thread that forks: LLVM must have been left by all others, and llvmlite's lock
    given back. Any thread takes that in which an object of llvmlite's goes, if only to the garbage collector.
    """
    compiling.__enter__()
    _gate.acquire()
    _wait_for_all()
    if _loaded() is not None:
        _loaded().lock.__enter__()


def _loaded() -> Any:
    """LLVM, where this process has loaded it."""
    return sys.modules.get("fusegrad.compiler.llvm.llvm_work")


def _after_fork() -> None:
    if _loaded() is not None:
        _loaded().lock.__exit__()
    _gate.release()
    compiling.__exit__(None, None, None)


def _after_fork_in_child() -> None:
    for module in _at_work:
        module.lost = module.lost or not module.running.finished
    _after_fork()


def _at_exit() -> None:
    """LLVM must not be taken down while it works: nobody else comes to it any more. Workers do before."""
    global _ending
    end_workers()
    compiling.__enter__()
    with _gate:
        _ending = True
    _wait_for_all()


forks.around_forks(_before_fork, _after_fork, _after_fork_in_child)
# Numba is imported while one compiles, and takes the lock of `logging`, which who forks takes as well.
forks.come_first()
atexit.register(_at_exit)
