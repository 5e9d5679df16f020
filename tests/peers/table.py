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
the first run, in `tests/peers/declined.toml`; of what is not declined, each failing test is below
with its reason.
"""


def markdown(files: list[File], version: str) -> str:
    """The whole page."""
    return (
        "\n".join([HEAD.format(version=version), *_counts(files), *_sentences(files), *_failures(files)])
        + "\n"
    )


def _counts(files: list[File]) -> list[str]:
    collected, passed = sum(f.collected for f in files), sum(f.count("passed") for f in files)
    failed = sum(f.count("failed") for f in files)
    lines = [
        f"**{collected} tests collected, {passed} pass: {_share(passed, collected)}; of those not declined, "
        f"{passed} of {passed + failed} pass: {_share(passed, passed + failed)}.**",
        "",
        "| file | collected | declined | passed | failed | of all | of those not declined |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for f in files:
        passed, failed = f.count("passed"), f.count("failed")
        lines.append(
            f"| `{f.name}` | {f.collected} | {f.count('declined')} | {passed} | {failed} "
            f"| {_share(passed, f.collected)} | {_share(passed, passed + failed)} |"
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
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*") or "an assertion without words"
