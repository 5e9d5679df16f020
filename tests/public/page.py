"""What is said of the scripts: a line each, the sums, and the page of the docs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from public.runs import Outcome

HEAD = """# Programs by others

Public scripts, run by `python -m public` in `tests/` (see `tests/public`), which wrote this page. The rule
by which they were chosen, and each repository's commit, stand in `tests/public/scripts.toml`. Nothing of a
script is changed; its data are random, and sizes are made smaller by its own arguments alone.

- **runs**: `python -m fusegrad.torch script.py` makes forty steps of its optimizers, and goes on until
  three seconds have gone by since the first; twenty if these take long; or all that it has. Errors that
  it ends with after forty steps under PyTorch as well are its own.
- **replays**: with each outermost module compiled, as `torch.compile(model)` does, and each optimizer's step,
  at least nine of ten late calls of these entered no Python.
- **speed**: the median time of a step (reading data, forward, backward, optimizers) with PyTorch, divided by
  that with fusegrad as it is, and by that with it compiled; each time for one call of a module. Random
  numbers are not PyTorch's: games last longer, or less, and so the steps of who plays. Each way is a process
  of its own, one after the other. What is compiled about as fast as PyTorch is (0.8 to 1.25 times) is run
  three times, and the middle of each way counts; still, small differences are the machine's.

Single steps of training, in the manner of 60 other repositories: [strangers.md](strangers.md).
"""


def line(outcome: Outcome) -> str:
    """A script in a line of the table, and on the screen."""
    torch, plain, compiled = (outcome.runs(way) for way in ("torch", "fusegrad", "compiled"))
    cells = [f"{outcome.source.split('/')[1]}/{outcome.path}"]
    if not torch:
        return _row([*cells, "not by PyTorch: " + _short(outcome, "torch"), "", "", "", ""])
    cells.append("yes" if plain else _short(outcome, "fusegrad"))
    cells.append("yes" if outcome.replays() else _why(outcome))
    cells.append(f"{outcome.milliseconds('torch'):.2f}")
    cells.append(f"{outcome.speed('fusegrad'):.2f}" if plain else "")
    cells.append(f"{outcome.speed('compiled'):.2f}" if compiled else "")
    return _row(cells)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _short(outcome: Outcome, way: str) -> str:
    told = outcome.found[way]
    text = told["error"] or "made no step"
    return text.replace("|", "\\|").replace("\n", " ")[:160]


def _why(outcome: Outcome) -> str:
    """Why it is not replayed."""
    if not outcome.runs("compiled"):
        return "no: " + _short(outcome, "compiled")
    told = outcome.found["compiled"]
    return f"{told['calls'] - told['entered']} of {told['calls']} calls"


def summary(outcomes: Sequence[Outcome]) -> str:
    """The sums over all scripts that PyTorch runs."""
    fair = [o for o in outcomes if o.runs("torch")]
    running, replaying = [o for o in fair if o.runs("fusegrad")], [o for o in fair if o.replays()]
    gains = [o.speed("compiled") for o in replaying]
    words = [f"{len(outcomes)} scripts, of which PyTorch runs {len(fair)}."]
    if fair:
        words.append(f"{len(running)} of these run unchanged ({len(running) / len(fair):.0%}),")
        words.append(f"{len(replaying)} replay ({len(replaying) / len(fair):.0%})")
    if gains:
        faster = sum(gain > 1 for gain in gains)
        words.append(f"and {faster} of those that replay are faster than PyTorch ({faster / len(gains):.0%};")
        words.append(f"geometric mean {statistics.geometric_mean(gains):.2f}).")
    return " ".join(words)


def markdown(outcomes: Sequence[Outcome], left: Sequence[str]) -> str:
    """The page. left: the scripts of the list that were not run."""
    head = ["script", "runs", "replays", "PyTorch, ms", "fusegrad, times", "compiled, times"]
    rows = [_row(head), _row(["---"] * 3 + ["---:"] * 3), *map(line, outcomes)]
    others = f"\n{len(left)} of the list were not run: {', '.join(left)}.\n" if left else ""
    return "\n".join([HEAD, summary(outcomes), others, *rows, ""])
