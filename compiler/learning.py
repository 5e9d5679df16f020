"""What a jitted function learns of a recorded run: a path, compiled at once or beside the program.

Here it is decided which, and here what was compiled beside the program is taken over, by a call: nothing that
a call looks at is changed by another thread.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from fusegrad.compiler import entries
from fusegrad.compiler.base import background, debug
from fusegrad.compiler.base.background import Work
from fusegrad.compiler.base.lock import compiling
from fusegrad.compiler.base.patience import busiest_line, tell, told_if_long
from fusegrad.compiler.deferred.op_trie import Plan
from fusegrad.compiler.entries import Entry, Variant
from fusegrad.compiler.jitted import Jitted
from fusegrad.compiler.paths.open_path import for_all_counts
from fusegrad.compiler.paths.segments import Code, Segment
from fusegrad.compiler.paths.tree import Tree
from fusegrad.compiler.verify import JitError
from fusegrad.eager.core import dtypes
from fusegrad.eager.core.state import in_modes, modes
from fusegrad.eager.garbage import put_off
from fusegrad.tracer.capture.captured import Capture
from fusegrad.tracer.ir.differentiate import NoGradient
from fusegrad.tracer.ir.graph import Equation
from fusegrad.tracer.record.allowance import Allowance

R = TypeVar("R")

# Bounds, after which calls stay eager and `explain()` says so.
MOST_PATHS = 64
FEW_PATHS = 8  # of which each must have answered a call, on the average, for more to be compiled
OPEN_TRIES = 3
LONG_RUNS = 3  # that were too long to record
LEAST_WAIT = 0.05  # of the budget, which any call may wait
AVOIDABLE = frozenset({"positions", "schedule"})
OPEN = "its runs cannot be replayed"
LONG = "its runs take too long to record"
BUDGET = "see fg.set_compile_budget"


def learn(
    function: Jitted,
    key: Any,
    made: Capture,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    leaves: list[Any],
    allowed: Allowance | None,
) -> Entry:
    """Compile a captured path, or note why it cannot be replayed.

    allowed: how long the call may wait, if that is bounded, of which recording has had its part.
    """
    with compiling:
        entry = function.entries.get(key)
        if entry is None:
            entry = function.new_entry(key, args, kwargs, leaves, made.changing.leaves - made.fixed.leaves)
        entry.fix(made.fixed.sources)
        debug.show(1, f"{function!r}: captured", lambda: "\n".join(map(str, made.reasons)) or "closed")
        if made.reasons:
            _refuse(function, entry, made)
            if function.require:
                raise unable(function, entry)
            return entry
        entry.given_up = ""
        work = _compile(function, entry, made, leaves)
    if work is None:
        return entry
    if not _wait(function, work, allowed):
        _tell_once(
            function,
            f"compiling {function!r} takes long, now {work}; it goes on beside the program, and calls are "
            f"eager's until it is done ({BUDGET})",
        )
    take_over(function, entry)
    return entry


def _wait(function: Jitted, work: Work[Any], allowed: Allowance | None) -> bool:
    """Wait for what is compiled, so long as the calls of one function may in all; whether it is done."""
    seconds = None
    if allowed is not None:
        seconds = min(allowed.left, max(LEAST_WAIT * allowed.seconds, allowed.seconds - function.waited))
    begin = time.monotonic()
    # The collector is put off for the thread that compiles, as long as one waits for it.
    with put_off():
        over = work.wait(seconds)
    function.waited += time.monotonic() - begin
    return over


def unable(function: Jitted, entry: Entry) -> JitError:
    """What says that the function cannot be replayed, although it has to be."""
    reasons = "".join(f"\n  {reason}" for reason in entry.reasons)
    return JitError(f"{function!r} is required to replay, and cannot: {entry.given_up}{reasons}")


def _refuse(function: Jitted, entry: Entry, made: Capture) -> None:
    """The run was open: from now on the body runs, unless other runs were closed."""
    entry.reasons, entry.not_rolled = made.reasons, made.not_rolled
    avoided = function.avoided | AVOIDABLE.intersection(reason.kind for reason in made.reasons)
    if avoided != function.avoided:
        function.avoided = avoided  # another run goes another way
        return
    entry.open_tries += 1
    entry.plan.asked += 1
    if any(reason.kind == "long" for reason in made.reasons):
        entry.given_up = LONG
        function.long_runs += 1
        return
    once = all(reason.kind == "once" for reason in made.reasons)
    if entry.open_tries >= OPEN_TRIES or not (entry.variants or once):
        entry.given_up = OPEN


# Recording.


def allowance(function: Jitted) -> Allowance | None:
    """How long recording a run of the function may take."""
    seconds = background.bound()
    if seconds is None or function.require:
        return None

    def told(equations: Sequence[Equation]) -> None:
        line, most = busiest_line(equations)
        _tell_once(
            function,
            f"recording {function!r} takes longer than {seconds:g} s: {len(equations):,} ops so far, "
            f"{most:,} of them from {line or 'unknown lines'}; this call "
            f"goes on in eager, and so do later ones. Give `jit` a smaller part, such as the body of a loop, "
            f"or wait for longer ({BUDGET})",
        )

    return Allowance(seconds, told)


def tell_of_stretches(function: Jitted, plan: Plan, line: str) -> None:
    """Say that stretches of a run, which is at `line` of the user's, were compiled for as long as may be."""
    _tell_once(
        function,
        f"compiling {function!r} takes long, now {len(plan.stretches)} stretches of its ops, up to {line}; "
        f"this call goes on in eager, and later ones compile the rest ({BUDGET})",
    )


def _tell_once(function: Jitted, what: str) -> None:
    if not function.told:
        function.told = True
        tell(what)


# Compiling.


def _compile(function: Jitted, entry: Entry, made: Capture, leaves: list[Any]) -> Work[Any] | None:
    """Compile a captured path. Gives what goes on beside the program, if it does."""
    with _faults_of(entry):
        work = _path_to_compile(function, entry, made, leaves)
        if work is None:
            return None
        if _begun(function, work):
            entry.compiling = work
            return work
        with told_if_long(work), put_off():
            work.run()
        _use(entry, work)
    return None


def _path_to_compile(function: Jitted, entry: Entry, made: Capture, leaves: list[Any]) -> Work[Any] | None:
    """What compiles the path of a run; None where there is enough of that."""
    if entry.compiling is not None:
        return None  # of another run, beside the program
    unused = entry.compiles >= FEW_PATHS and sum(p.calls for p in entry.paths) < entry.compiles
    if unused or entry.compiles >= MOST_PATHS:
        entry.given_up = f"{entry.compiles} paths were compiled and still: {entry.last_failure}"
        return None
    entry.compiles += 1
    function.stats.compiles += 1
    made = for_all_counts(made, entry.paths)
    make, layouts = entries.path_maker(made, leaves, function.contract)
    variants = list(entry.variants)
    equations = made.graph.equations

    def compiled(work: Work[Any], has_hopes: bool = True) -> tuple[Variant | None, Tree]:
        work.stage = "planning"
        before, tree = entries.tree_with(make(), layouts, variants, has_hopes)
        programs = [program for segment in tree.root.walk() for program in segment.programs()]
        work.stage = f"waiting for {sum(len(p.kernels) for p in programs):,} kernels of"
        return before, tree.complete()

    def compiled_in_one_way(work: Work[Any]) -> tuple[Variant | None, Tree]:
        try:
            return compiled(work)
        except NoGradient:
            raise
        except Exception:
            if debug.faults_are_raised():
                raise
            return compiled(work, has_hopes=False)  # the fault may be in the program of both alone

    return Work(_as_now(compiled_in_one_way), repr(function), len(equations), *busiest_line(equations))


def _as_now(function: Callable[[Work[Any]], R]) -> Callable[[Work[Any]], R | None]:
    """`function` in the present modes, whichever thread calls it, and whenever; it gives None where the
    default dtype, which is that of all threads, was set meanwhile.
    """
    given, times_set = modes(), dtypes.times_default_set()

    def call(work: Work[Any]) -> R | None:
        with in_modes(given):
            made = function(work)
        return made if dtypes.times_default_set() == times_set else None

    return call


def _begun(function: Jitted, work: Work[Any]) -> bool:
    """Whether something is compiled beside the program, which has begun then: what may take longer than a
    call waits, and what is of a function of which something else still is, since one thread at a time works
    on its paths.
    """
    busy = function.at_work is not None and not function.at_work.over
    if not busy and (function.require or not background.takes_long(work.ops)):
        return False
    debug.show(1, f"{function!r}: compiled beside the program", lambda: str(work))
    function.at_work = work
    background.worker.ask(work, is_alone=not busy)
    return True


def take_over(function: Jitted, entry: Entry) -> None:
    """Have an entry answer by what was compiled for it, if that is done."""
    work = entry.compiling
    if work is None or not work.over:
        return
    with compiling:
        if entry.compiling is not work:
            return  # another thread was faster
        entry.compiling = None
        debug.show(1, f"{function!r}: taken over", lambda: str(work))
        with _faults_of(entry):
            _use(entry, work)


def _use(entry: Entry, work: Work[Any]) -> None:
    """Have an entry answer by what has been compiled."""
    found = None if work.lost else work.result()
    if found is not None:
        entry.take(*found)


@contextlib.contextmanager
def _faults_of(entry: Entry) -> Iterator[None]:
    """Inside, what the compiler raises is noted: a fault of it must not become one of the user's program."""
    try:
        yield
    except NoGradient as refusal:
        entry.variants = []
        entry.given_up = str(refusal)
    except Exception as error:
        if debug.faults_are_raised():
            raise
        entry.variants = []
        entry.given_up = f"the compiler failed: {type(error).__name__}: {error}"


def join(function: Jitted, tree: Tree, leaf: Segment) -> None:
    """Forward and backward of a path as one program, from the next call on, or from when it is compiled."""
    with compiling:
        if leaf.joint is not None:
            return  # another thread was faster
        try:
            work = leaf.joining
            if work is None:
                work = _joint_to_compile(function, tree, leaf)
                if _begun(function, work):
                    leaf.joining = work
                else:
                    with put_off():
                        work.run()
            if work.over:
                leaf.joining = None
                leaf.joint = None if work.lost else work.result()
        except Exception:
            # The separate programs work; a fault of the compiler shows where it is looked for.
            assert leaf.path is not None
            leaf.path.derivative.alone = False
            if debug.faults_are_raised():
                raise


def _joint_to_compile(function: Jitted, tree: Tree, leaf: Segment) -> Work[Any]:
    assert leaf.path is not None
    equations = leaf.path.capture.graph.equations

    def compiled(work: Work[Any]) -> Code:
        work.stage = "planning value and gradients at once of"
        code = tree.joint_code(leaf)
        code.program.complete()
        return code

    return Work(_as_now(compiled), repr(function), len(equations), *busiest_line(equations))
