"""What is known of the deferred runs of a function: the ops that they asked for, and the code for these."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from fusegrad.compiler.base import debug
from fusegrad.compiler.base.lock import compiling
from fusegrad.compiler.deferred.polymorphic_region import Form
from fusegrad.compiler.deferred.region import Step, Stretch
from fusegrad.compiler.deferred.shape_patterns import Made, Rule, predicted
from fusegrad.eager.core import dtypes
from fusegrad.eager.core.handlers import handler_raised
from fusegrad.eager.core.op import Op, Params
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.garbage import uncollected
from fusegrad.tracer.ir.differentiate import NoGradient
from fusegrad.tracer.ir.symbolic_sizes import Fixed

# Bounds of a plan; what goes beyond them is evaluated op by op.
MOST_STEPS = 4096  # in all
MOST_STRETCHES = 64
MOST_FORMS = 8  # stretches for one place, where their sizes have nothing in common
MOST_SIZES = 256  # sizes of a place that are remembered
# How many calls may find nothing to compile; how many compiled ones come before the two ways are
# timed; and how often each is.
TRIES = 16
LEARNING = 3
TRIALS = 4

_UNKNOWN: Any = object()


class Place:
    """Where a run is in the trie of the ops that runs asked for, and what comes next there.

    step: the op that leads here, as it was when it was met first. number: how many values the run has
    made on the way. patterns: the keys of `following` without their Python numbers: an op that comes
    with another number takes it as an input from then on. ends: for each set of values that were alive
    when a stretch ended here, its code. gives: what the op made, by sizes; rule: how the types of that
    follow. seen: the sizes of the first run whose stretch ended here.
    """

    __slots__ = ("ends", "following", "gives", "number", "patterns", "rule", "seen", "step")

    def __init__(self, step: Step | None, number: int) -> None:
        self.step, self.number = step, number
        self.following: dict[Any, Place] = {}
        self.patterns: set[Any] = set()
        self.ends: dict[tuple[int, ...], Ending] = {}
        self.seen: tuple[int, ...] | None = None
        self.gives: dict[Any, tuple[Made, ...] | None] = {}
        self.rule: Rule | None = None

    def made(self, op: Op, args: tuple[Any, ...], params: Params, sizes: Any) -> tuple[Made, ...] | None:
        """What the op makes of inputs of these `sizes`; None where that cannot be told beforehand."""
        found = self.gives.get(sizes, _UNKNOWN)
        if found is _UNKNOWN:
            assert self.step is not None
            if len(self.gives) >= MOST_SIZES:
                self.gives.clear()
            if len(self.gives) == 1 and not op.view:
                # Sizes that differ once will differ again.
                try:
                    self.rule = Rule(op, args, params)
                except Exception:
                    if handler_raised():
                        raise
            found = self.gives[sizes] = predicted(op, self.step.gives, args, params, self.rule)
        return found


class Ending:
    """The code of the stretches that end at one place with the same values alive, by their sizes.

    forms: what was compiled, each for all sizes that decide its making alike. at: the forms with their
    sizes put in, the last used at the end. failed: whether the compiler refused; closed: whether it did
    when sizes were left open.
    """

    def __init__(self) -> None:
        self.forms: list[Form] = []
        self.at: OrderedDict[tuple[int, ...], Stretch] = OrderedDict()
        self.failed = self.closed = False

    def known(self, sizes: tuple[int, ...]) -> Stretch | None:
        """The code for these sizes, if there is any."""
        found = self.at.get(sizes)
        if found is None:
            found = next((s for form in self.forms if (s := form.at(sizes)) is not None), None)
            if found is not None:
                self._keep(sizes, found)
        else:
            # Another thread may have dropped it meanwhile.
            with contextlib.suppress(KeyError):
                self.at.move_to_end(sizes)
        return found

    def add(self, sizes: tuple[int, ...], form: Form) -> Stretch | None:
        """Put new code in, and give it with its sizes."""
        self.forms.append(form)
        found = form.at(sizes)
        assert found is not None, "a form that does not hold for the sizes that it was made with"
        self._keep(sizes, found)
        return found

    def _keep(self, sizes: tuple[int, ...], stretch: Stretch) -> None:
        self.at[sizes] = stretch
        if len(self.at) > MOST_SIZES:
            self.at.popitem(last=False)


class Plan:
    """What is known of the deferred runs of a function for one kind of arguments.

    stretches: what was compiled. numbers_change: whether numbers are taken for inputs when they are first
    met; sizes_change: whether sizes are, too.
    """

    def __init__(self) -> None:
        self.roots: dict[Any, Place] = {}
        self.steps = 0
        self.stretches: list[Form] = []
        self.asked = 0  # calls that could not be replayed
        self.calls = 0  # deferred ones
        self.answered = 0  # those in which compiled code ran
        self.failed = 0
        self.times: dict[str, list[float]] = {"deferred": [], "eager": []}
        self.choice: str | None = None
        self.numbers_change = False
        self.sizes_change = False

    @property
    def made(self) -> int:
        """How often something was compiled, or should have been."""
        return len(self.stretches) + self.failed

    def root(self) -> Place:
        """Where a stretch begins in the present modes."""
        key = state.grad_enabled, dtypes.default_float()
        found = self.roots.get(key)
        return found or self.roots.setdefault(key, Place(None, 0))

    def defers(self) -> bool:
        """Whether the next call is to be deferred.

        A deferred run costs Python for each op, and pays where tensors are large or gradients
        follow. Nobody knows but the clock: after a few compiled calls, calls are run both ways
        in turn, and the faster way stays.
        """
        if self.choice is None and self.calls >= TRIES and not self.stretches:
            self.choice = "eager"
        if self.choice is None:
            return self.answered < LEARNING or len(self.times["deferred"]) <= len(self.times["eager"])
        return self.choice == "deferred"

    def note(self, way: str, seconds: float, tracked: bool) -> None:
        """A call that ran one way took so long; `tracked` says that gradients can follow."""
        if self.choice is not None or self.answered < LEARNING:
            return
        self.times[way].append(seconds)
        if min(map(len, self.times.values())) >= TRIALS:
            # A compiled backward is worth as much again as the forward.
            allowed = (2 if tracked else 1) * min(self.times["eager"])
            self.choice = "deferred" if min(self.times["deferred"]) <= allowed else "eager"

    def stretch(
        self,
        place: Place,
        steps: Sequence[Step],
        outside: Sequence[Tensor],
        alive: tuple[int, ...],
        sizes: tuple[int, ...],
        compiles: bool = True,
    ) -> Stretch | None:
        """The code for a stretch that ends at `place`; None where the bounds or the compiler refuse it.

        compiles: whether there is time to compile it, if that has not been done.
        """
        ending = place.ends.get(alive) or place.ends.setdefault(alive, Ending())
        found = ending.known(sizes)
        if found is not None or ending.failed or not compiles:
            return found
        with compiling:
            # Another thread may have been faster.
            found = ending.known(sizes)
            full = len(ending.forms) >= MOST_FORMS or self.made >= MOST_STRETCHES
            if found is not None or full:
                return found
            others = [s for s in {*ending.at, place.seen} if s not in (None, sizes)]
            every = self.sizes_change and not others
            form = None
            if (others or every) and not ending.closed:
                form = self._form(steps, outside, alive, sizes, others, every)
                ending.closed = form is None
            form = form or self._form(steps, outside, alive, sizes, (), False)
            ending.failed = form is None
            if form is None:
                return None
            self.stretches.append(form)
            return ending.add(sizes, form)

    @uncollected
    def _form(self, *given: Any) -> Form | None:
        """Compile; None where the compiler fails: its faults must not become ones of the user's program."""
        try:
            return Form(*given)
        except Fixed:
            return None  # its sizes cannot be left open
        except NoGradient:
            pass  # eager's backward says so, if it comes
        except Exception:
            if debug.faults_are_raised():
                raise
        self.failed += 1
        return None
