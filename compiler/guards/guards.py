"""The reads of a captured run as one generated Python function, which a replayed call asks in one go.

Each read says what has to hold, in conditions (`tracer/observe/conditions.py`). `Read.holds` asks them one
by one; here they are written out (`guard_source.py`). What is written may say no where that says yes, and is
then asked again there, but never the other way. What classes say is looked at once for each class; then each
read is a line or a few:

    def first_to_differ():
        Settings_1 = reference_2()
        if not unchanged_9(Settings_1):
            now = versions_10(Settings_1)
            base0, base1, = classes_of(Settings_1)
            if base0 is not Settings_1 or base1 is not builtin_3: return 0  # bases of Settings
            namespace = namespace_of(Settings_1)
            if 'scale' in namespace or '__getattribute__' in namespace: return 0  # class Settings
            note_11(now)
        Settings_4 = reference_5()
        if type(Settings_4) is not Settings_1: return 0
        attributes_6 = Settings_4.__dict__
        if (value := attributes_6['scale']) is not value_7 and ...: return 0  # attribute `scale`
        if not items_8(attributes_6): return 1
        # attribute `network` of a Settings is a Linear object ...

(shortened). What must be the same in one dict is asked natively, in one go, and so is whether classes are
unchanged since all of it was asked of them (`native/classes.py`). Nothing in it runs user code: classes and
instances are looked into by the interpreter's own getters, or after their exact type was checked, and
compared by identity, or as two numbers or texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fusegrad.compiler.base import debug
from fusegrad.compiler.guards.check_writer import Writer
from fusegrad.compiler.guards.guard_source import write
from fusegrad.eager.core.handlers import handler_raised
from fusegrad.tracer.observe.reads import Read

# How often a check is written anew for classes that changed without consequence.
MOST_REWRITES = 3


class Guards:
    """Reads that must hold for a replay, asked together.

    reads: in the order in which the run made them. text: the generated source, once it was needed: the first
    time they are asked themselves, since that is often all that happens in a first call.
    """

    def __init__(self, reads: Iterable[Read]) -> None:
        self.reads = tuple(reads)
        self.text = ""
        self._check: Callable[[], int | None] | None = None
        self._rewrites = 0
        self._asked = False

    def first_failure(self) -> Read | None:
        """A read that no longer holds (as a rule the first such), or None."""
        if not self._asked:
            self._asked = True
            return next((read for read in self.reads if not read.holds()), None)
        try:
            number = self.check()
        except Exception:
            if handler_raised():
                raise
            number = 0  # something that was looked into is gone, or of another kind
        return None if number is None else self._look_again(number)

    @property
    def check(self) -> Callable[[], int | None]:
        """The generated function, which gives the number of a read that may not hold; it may raise, too."""
        check = self._check
        if check is None:
            check = self._check = self._write()
        return check

    def _look_again(self, number: int) -> Read | None:
        """The failing read, by what the reads themselves say."""
        if not self.reads:
            return None
        failed = next((read for read in (self.reads[number], *self.reads) if not read.holds()), None)
        if failed is None and self._rewrites < MOST_REWRITES:
            self._rewrites += 1
            self._check = None
        return failed

    def _write(self) -> Callable[[], int | None]:
        try:
            writer = Writer()
            for number, read in enumerate(self.reads):
                writer.add(number, read, write)
            self.text = writer.text()
            check = writer.function(self.text)
        except Exception:
            # A fault of ours must not become one of the user's program: the reads can be asked themselves.
            if debug.faults_are_raised():
                raise
            return lambda: 0
        if self.reads:
            debug.show(2, "guards", lambda: self.text)
        return check
