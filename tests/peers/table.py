"""docs/pytorch_tests.md: how much of PyTorch's own tests passes, and why what fails does."""

from __future__ import annotations

from collections.abc import Sequence

from peers.outcomes import File, declined

HEAD = """# PyTorch's own tests, run with fusegrad in torch's place

Test files of PyTorch {version}, as they are, with fusegrad in torch's place; `tests/peers` runs them on any
source of PyTorch (this was that of Debian's package), and nothing of it is kept here:

```sh
cd tests; python -m peers CHECKOUT --markdown ../docs/pytorch_tests.md
```

A test is collected if PyTorch runs it on a CPU without CUDA. What fusegrad declines was written down before
the first run, in `tests/peers/declined.toml`. Set aside is what does not say how PyTorch behaves today:
tests that PyTorch {peer} itself fails in the same line, or with the same error (`--with-torch`, then
`--beside`), also with other random numbers than those that its tests were written with (`--draws 1`, then
`--drawn`), and those that assert a failure which PyTorch calls its own. Unjudged is what PyTorch fails for
want of test tools of its version, and fusegrad too; it is named below. Each other failing test is below with
its reason: `wrong` is another value, dtype, shape or stride, `text` an error in other words. Of files with a
number behind their name (`FILE:N`) an N-th of the tests was run, drawn by their names.
"""


def markdown(files: list[File], version: str, peer: str, others: Sequence[str] = ()) -> str:
    """The whole page. others: files that were not run."""
    head = HEAD.format(version=version, peer=peer)
    parts = [
        head,
        *_counts(files),
        *(["", f"Not run this time: {', '.join(f'`{name}`' for name in others)}."] if others else []),
        *_sentences(files),
        *_failures(files, "failed", "What fails, and why"),
        *_failures(files, "unjudged", "What PyTorch's own test tools do not let it run"),
    ]
    return "\n".join(parts) + "\n"


def _counts(files: list[File]) -> list[str]:
    collected, passed = sum(f.collected for f in files), sum(f.count("passed") for f in files)
    failed = sum(f.count("failed") for f in files)
    lines = [
        f"**{collected} tests collected, {passed} pass: {_share(passed, collected)}; of those neither "
        f"declined, unjudged nor set aside, {passed} of {passed + failed} pass: "
        f"{_share(passed, passed + failed)}.**",
        "",
        "| file | collected | declined | set aside | unjudged | passed | failed | of all | of what counts |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for f in files:
        passed, failed = f.count("passed"), f.count("failed")
        name = f.name if f.one_in == 1 else f"{f.name}:{f.one_in}"
        lines.append(
            f"| `{name}` | {f.collected} | {f.count('declined')} | {f.count('set aside')} "
            f"| {f.count('unjudged')} | {passed} | {failed} | {_share(passed, f.collected)} "
            f"| {_share(passed, passed + failed)} |"
        )
    return lines


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def _sentences(files: list[File]) -> list[str]:
    tests = [t for f in files for t in f.tests]
    lines = ["", "## What fusegrad declines", "", "| | what a user reads | tests |", "| --- | --- | --- |"]
    for entry in declined():
        count = sum(t.declined == entry.name for t in tests)
        lines.append(f"| {entry.name} | {entry.sentence} | {count} |")
    return lines


def _failures(files: list[File], outcome: str, title: str) -> list[str]:
    """Tests that fail for the same reason share a line."""
    lines = ["", f"## {title}"]
    for f in files:
        reasons: dict[tuple[str, str], list[str]] = {}
        for test in f.tests:
            if test.outcome == outcome:
                reasons.setdefault((test.kind, test.reason), []).append(test.name)
        if reasons:
            lines += ["", f"### `{f.name}`", "", "| tests | kind | why |", "| --- | --- | --- |"]
        for (kind, reason), names in sorted(reasons.items()):
            lines.append(f"| {', '.join(f'`{n}`' for n in names)} | {kind} | {_cell(reason)} |")
    return lines


def _cell(text: str) -> str:
    for mark in "|*[]":
        text = text.replace(mark, f"\\{mark}")
    return text.replace("<", "&lt;") or "an assertion without words"
