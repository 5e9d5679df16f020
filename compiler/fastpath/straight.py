"""A tree of one path without guards as a straight Python function, for code that runs again and again.

`entry.py` asks besides whether a call is as expected. Here that is known: a deferred run has found its way to
the code by the ops that were asked for, and a batch by its kind.
"""

from __future__ import annotations

from typing import Any

from fusegrad.compiler.base import debug
from fusegrad.compiler.call_plan.expressions import Name
from fusegrad.compiler.call_plan.python_writer import TooDifficult, Writer
from fusegrad.compiler.call_plan.steps import Ask, Unpack
from fusegrad.compiler.fastpath.derivative import written_derivative
from fusegrad.compiler.paths.plans import Plan
from fusegrad.compiler.paths.segments import MISSED
from fusegrad.compiler.paths.tree import Tree
from fusegrad.compiler.paths.variables import LEAVES, leaf_name

# To write a function whose text is known takes as long as so many runs by steps take longer than with it.
WORTH_WRITING = 4


def note_run(tree: Tree) -> None:
    """The tree has run by the steps of its plan once more; for the next time it may be written out."""
    leaf = tree.root
    answers = leaf.answers
    answers.runs += 1
    if answers.runs != WORTH_WRITING:
        return
    assert leaf.path is not None
    if leaf.joint is not None or leaf.path.derivative.alone or leaf.exchanges:
        return  # another program may be the better one next time
    try:
        answers.straight = _written(tree, answers.plans[False])
        if answers.derive is None and leaf.has_begun_backward():
            answers.derive = written_derivative(leaf)
    except TooDifficult:
        return
    except Exception:
        # The long way works; a fault of ours must not become one of the user's program.
        if debug.faults_are_raised():
            raise


def _written(tree: Tree, plan: Plan) -> Any:
    """What gives the result, from the leaves; MISSED where the steps say that they cannot."""
    if any(isinstance(step, Ask) for step in plan.before):
        raise TooDifficult
    writer = Writer(MISSED)
    names = tuple(leaf_name(number).name for number in range(len(tree.root.owner.capture.graph.inputs)))
    writer.write([Unpack(names, Name(LEAVES.name))])
    writer.write([*plan.before, plan.run, *plan.after])
    writer.write([*plan.finish, *plan.commit, *plan.last, *plan.late])
    writer.returns(plan.result)
    text = writer.text(LEAVES.name)
    debug.show(2, "stretch", lambda: text)
    return writer.function(text, "stretch")
