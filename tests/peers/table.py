"""docs/pytorch_tests.md: how much of PyTorch's own tests passes, and why what fails does."""

from __future__ import annotations

from peers.outcomes import File, declined

HEAD = """# PyTorch's own tests, run with fusegrad in torch's place

Test files of PyTorch {version}, as they are, with fusegrad in torch's place; `tests/peers` runs them on any
source of PyTorch (this was that of Debian's package), and nothing of it is kept here:

```sh
cd tests; python -m peers CHECKOUT --markdown ../docs/pytorch_tests.md
```

A test is collected if PyTorch runs it on a CPU without CUDA. What fusegrad declines was written down before
the first run, in `tests/peers/declined.toml`. Set aside is what does not say how PyTorch behaves today:
tests that PyTorch {peer} itself fails (`--with-torch`, then `--beside`), and those that assert a failure
which PyTorch calls its own. Each other failing test is below with its reason: `wrong` is another value,
dtype, shape or stride, `text` an error in other words.
"""


def markdown(files: list[File], version: str, peer: str) -> str:
    """The whole page."""
    head = HEAD.format(version=version, peer=peer)
    return "\n".join([head, *_counts(files), *_sentences(files), *_failures(files)]) + "\n"


def _counts(files: list[File]) -> list[str]:
    collected, passed = sum(f.collected for f in files), sum(f.count("passed") for f in files)
    failed = sum(f.count("failed") for f in files)
    lines = [
        f"**{collected} tests collected, {passed} pass: {_share(passed, collected)}; of those neither "
        f"declined nor set aside, {passed} of {passed + failed} pass: {_share(passed, passed + failed)}.**",
        "",
        "| file | collected | declined | set aside | passed | failed | of all | of those that count |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for f in files:
        passed, failed = f.count("passed"), f.count("failed")
        lines.append(
            f"| `{f.name}` | {f.collected} | {f.count('declined')} | {f.count('set aside')} | {passed} "
            f"| {failed} | {_share(passed, f.collected)} | {_share(passed, passed + failed)} |"
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


def _failures(files: list[File]) -> list[str]:
    """Tests that fail for the same reason share a line."""
    lines = ["", "## What fails, and why"]
    for f in files:
        reasons: dict[tuple[str, str], list[str]] = {}
        for test in f.tests:
            if test.outcome == "failed":
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
