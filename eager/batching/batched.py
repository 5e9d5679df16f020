"""`batched` and `batching`: programs of one example at a time, whose work is done for many."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from fusegrad.eager.batching import side_by_side
from fusegrad.eager.batching.batcher import Batcher
from fusegrad.eager.batching.costs import costs_of
from fusegrad.eager.batching.report import Report
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.handlers import in_charge
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.stand_in import putting_off
from fusegrad.eager.core.state import state

__all__ = ["batched", "batching"]
_NO_COROUTINES = (
    "examples run one after the other, and each question of a value has all done that waits, since greenlet "
    "is not installed: `pip install fusegrad[batching]`"
)


class batched:
    """`f` for many examples, of any structure: calls of one kind are done as one, over all examples.

    `batched(f)(examples)` gives the list of what `f(example)` gives. `f` is plain Python, and runs for one
    example at a time. Its ops wait; where it asks for a value (`if score > 0`, `x.item()`), the other
    examples go on, until all of them ask or are at their end. Then ops of one kind (the same op, constants,
    shapes and weights) are done as one, and so are their gradients. Each example's effects keep their order;
    those of several examples may mix. Random numbers are drawn when they are asked for. `explain()` tells of
    the batches of the last call. Where a batch of these programs has shown that so few examples would lose by
    it, they run one by one. What is raised is what would be raised one by one. Raises RuntimeError where
    an example writes a tensor that a later one has used already.

    >>> import fusegrad as fg
    >>> w = fg.ones(2, 2, requires_grad=True)
    >>> def depth(tree):
    ...     if isinstance(tree, fg.Tensor):
    ...         return tree
    ...     return fg.tanh((depth(tree[0]) + depth(tree[1])) @ w)
    >>> x = fg.ones(2)
    >>> total = fg.stack(fg.batched(depth)([(x, x), ((x, x), x), x])).sum()
    >>> total.backward()
    >>> w.grad.shape
    torch.Size([2, 2])
    """

    def __init__(self, f: Callable[..., Any]) -> None:
        if not callable(f):
            raise failure(TypeError, f"batched: expected a function of one example, got {type(f).__name__}")
        functools.update_wrapper(self, f, updated=())
        self._function = f
        self.report = Report()

    def __call__(self, examples: Iterable[Any], /, *args: Any, **kwargs: Any) -> list[Any]:
        """What `f(example, *args, **kwargs)` gives for each of the examples."""
        report = self.report = Report()
        given = [(example,) for example in examples]

        def one(example: Any) -> Any:
            return self._function(example, *args, **kwargs)

        if len(given) < 2:
            report.note("one example goes unbatched")
            return [one(*example) for example in given]
        why = costs_of(self._function).loses(len(given)) if state.interpreter is None else ""
        if why:
            report.note(why)
            return [one(*example) for example in given]
        batcher = Batcher(report)
        # A recorder follows one line of calls, and so does whoever else is in charge outside.
        if batcher.outside is None and side_by_side.has_coroutines():
            made = batcher.run(side_by_side.run, batcher, one, given)
            report.costs.keep(self._function, len(given))
            return made
        report.note(_NO_COROUTINES if batcher.outside is None else "examples run in a recorded function")
        return batcher.run(lambda: [one(*example) for example in given])

    def explain(self) -> str:
        """The batches of the last call and their sizes, and why a call joined none."""
        return self.report.text()


class batching:
    """Inside, ops wait for others of their kind, over the rounds of a loop: as `batched` for a plain loop.

    What asks for a value has all done that waits, so loops whose rounds ask are better written as a function,
    for `batched`. At the end all tensors have their values.

    >>> import fusegrad as fg
    >>> w = fg.ones(2, 2)
    >>> with fg.batching() as batches:
    ...     rows = [fg.tanh(x @ w) for x in fg.ones(3, 2)]
    >>> batches.report.batches["tanh"]
    [3]
    """

    def __init__(self) -> None:
        self.report = Report()
        self._open: list[tuple[Batcher, Any]] = []

    def __enter__(self) -> batching:
        batcher = Batcher(self.report)
        self._open.append((batcher, state.interpreter))
        state.interpreter = in_charge(batcher)
        putting_off.add(batcher)
        return self

    def __exit__(self, *exception: object) -> None:
        batcher, state.interpreter = self._open.pop()
        batcher.close()

    def explain(self) -> str:
        """The batches, their sizes, and why a call joined none."""
        return self.report.text()


locate("fusegrad", globals(), __all__)
