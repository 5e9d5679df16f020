"""docs/libraries.md: which libraries do what they do with PyTorch, and why others do not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from libraries import listed, own_tests, times, venvs
from libraries.runs import CLOSE, SMALL, Row

HEAD = f"""# Libraries

Libraries that are made for PyTorch, as they are, with fusegrad in its place. One command installs one without
pulling PyTorch, as that counts as installed already:

```sh
python -m fusegrad.torch -m pip install timm torch==2.13.0   # `torch==...` where others ask for a newer one
python -m fusegrad.torch script.py                           # imports timm, and torch, which is fusegrad
```

`python -m libraries` in `tests/` wrote this page. Each library has a venv of its own, without PyTorch;
`tests/libraries/programs` has a program for each, of models with a few thousand numbers (timm's are larger).

- **runs**: the program's case goes through: the model is built, and trained for 20 steps by gradient descent.
- **equal**: losses, the gradients of the first step, what is left of the weights, and other values are
  PyTorch's, which began with the same weights: the largest difference is at most {CLOSE:g} of the largest
  number (of the sums of a weight's magnitudes at least of {SMALL:g}), in float32.
- **replays**: the step under `fusegrad.jit`: none of its last ten calls enters Python, and it is equal, too.
"""


def line(row: Row) -> str:
    """A case in a line of the table, and on the screen."""
    return _line([row.library, row.case, *_cells(row)])


def _cells(row: Row) -> list[str]:
    if not row.is_fair:
        return ["not by PyTorch: " + _cell(row.error("torch")), "", ""]
    if row.error("fusegrad"):
        return ["no: " + _cell(row.error("fusegrad")), "", ""]
    return ["yes", _equal(row), _replays(row)]


def _equal(row: Row) -> str:
    apart, of_what = row.difference("fusegrad")
    if row.is_equal():
        return "yes"
    return f"no: {apart:.1g} apart in {of_what}"


def _replays(row: Row) -> str:
    if not row.trains or "compiled" not in row.told:
        return ""
    if row.replays():
        return "yes"
    told = row.told["compiled"]
    if row.error("compiled"):
        return "no: " + _cell(row.error("compiled"))
    if not row.is_equal("compiled"):
        return "**wrong**: {:.1g} apart in {}".format(*row.difference("compiled"))
    return f"no, {told['entered']} of 10 calls: " + _cell(reason(told["why"]))


def reason(why: str) -> str:
    """The first of the reasons that an explanation gives for not replaying, with its line."""
    _, _, after = why.partition("could not be captured:")
    found = [text.strip() for text in (after or why).strip().splitlines()]
    place = next((text.rpartition("/")[2] for text in found[1:2] if text.startswith("at ")), "")
    return f"{found[0]} ({place})" if place else found[0]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")[:170]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def summary(rows: Sequence[Row]) -> str:
    """The sums, of libraries and of cases."""
    names = {row.library for row in rows if row.is_fair}
    fair = [row for row in rows if row.is_fair]
    stopped = {row.library for row in fair if row.error("fusegrad")}
    unequal = {row.library for row in fair if not row.is_equal()}
    steps = [row for row in fair if row.trains]
    replaying = {row.library for row in steps} - {row.library for row in steps if not row.replays()}
    return (
        f"{len(names)} libraries with {len(fair)} cases: {len(names) - len(stopped)} libraries run all of "
        f"theirs, {len(names) - len(unequal)} with equal values, {len(replaying)} replay all their steps. Of "
        f"the cases {sum(not r.error('fusegrad') for r in fair)} run, {sum(r.is_equal() for r in fair)} are "
        f"equal; of {len(steps)} steps {sum(r.replays() for r in steps)} replay."
    )


TESTS = f"""
## Their own tests

`python -m libraries --tests`: at most {own_tests.MOST} tests of a package's source, drawn by a seed, or as
many as `--most` says and are reached within `--seconds`; those that pass with PyTorch, within
{own_tests.SECONDS} seconds of a processor, are run by `python -m fusegrad.torch -m pytest`. What needs what
fusegrad declines counts as failed.
"""


LISTED = """
## Packages of a list

`tests/libraries/listed.toml` names packages that import PyTorch. Each has the first example for a CPU of its
README or its documentation, in small sizes and without a network, in a program of `tests/libraries/programs`;
of the libraries above it is one of their cases. What it draws is made the same.
"""


# Programs that have many packages, under which heading; those of the list are shown with it.
GROUPS = {
    ("others",): """
## Libraries that no list names

`tests/libraries/programs/others.py` takes libraries as a stranger would: what each is used for first, trained
or asked for values.
""",
}
MANY = frozenset({"packages", "packages_larger"}.union(*GROUPS))


def group(head: str, rows: Sequence[Row]) -> list[str]:
    """The lines of a program that has many packages; none without rows."""
    if not rows:
        return []
    fair = [row for row in rows if row.is_fair]
    steps = [row for row in fair if row.trains]
    ran, equal = sum(not row.error("fusegrad") for row in fair), sum(row.is_equal() for row in fair)
    told = f"Of {len(fair)} that run with PyTorch {ran} run, {equal} with its values; of {len(steps)} steps "
    told += f"{sum(row.replays() for row in steps)} replay."
    table = [_line(["", "package", "runs", "equal", "replays"]), _line(["---"] * 5)]
    return [head, told, "", *table, *map(line, rows), ""]


def of_the_list(folder: Path) -> list[str]:
    """The lines of the packages of a list, by the results in a folder."""
    found = [(row, why) for row, why in listed.rows(folder)]
    judged = [(row, why) for row, why in found if why is not None and row.is_fair]
    rows = [row for row, _ in judged]
    steps = [row for row in rows if row.trains]
    imported = sum(not why for _, why in judged)
    told = (
        f"Of {len(found)} packages {len(judged)} run with PyTorch here. Of these {imported} can be imported, "
        f"{sum(not row.error('fusegrad') for row in rows)} run, "
        f"{sum(row.is_equal() for row in rows)} with its values; of {len(steps)} steps "
        f"{sum(row.replays() for row in steps)} replay."
    )
    lines = [_line(["package", "program", "imports", "runs", "equal", "replays"]), _line(["---"] * 6)]
    for row, why in found:
        can = "not by PyTorch" if why is None else f"no: {_cell(why)}" if why else "yes"
        lines.append(_line([row.library, row.case, can, *_cells(row)]))
    return [LISTED, told, "", *lines, ""]


def markdown(
    rows: Sequence[Row], versions: dict[str, str], tests: dict[str, Any], taken: dict[str, Any], old: str
) -> str:
    """The whole page. tests: how own tests went, by package; taken: times of steps, by library; old: the page
    as it was, of which those parts stay that nothing is there of.
    """
    releases = ", ".join(f"{name} {number}" for name, number in versions.items() if name not in MANY)
    head = [_line(["library", "case", "runs", "equal", "replays"]), _line(["---"] * 5)]
    alone = [row for row in rows if row.library not in MANY]
    lines = [HEAD, summary(alone), "", f"Releases: {releases}.", "", *head, *map(line, alone), ""]
    lines += of_the_list(venvs.FOLDER)
    for names, text in GROUPS.items():
        lines += group(text, [row for row in rows if row.library in names])
    lines += (
        [times.HEAD, times.summary(taken), "", *times.table(taken), ""] if taken else _part(old, times.HEAD)
    )
    lines += (
        [TESTS, own_tests.summary(tests), "", *own_tests.table(tests), ""] if tests else _part(old, TESTS)
    )
    return "\n".join(lines).rstrip("\n") + "\n"


def _part(page: str, head: str) -> list[str]:
    """The lines of the part of a page that begins with a heading."""
    heading = head.strip().partition("\n")[0]
    _, found, after = page.partition(f"\n{heading}\n")
    return [f"\n{heading}", *after.partition("\n## ")[0].splitlines()] if found else []
