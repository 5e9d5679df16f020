"""What became of each test: passed, skipped by PyTorch's own marks, declined, set aside, unjudged, failed."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

NOT_REFUSED = re.compile(r"^\w+ not (raised|triggered)")
OTHER_TEXT = re.compile(r'^"(.|\n)*" does not match "')


@dataclass(frozen=True)
class Declined:
    """One of the things that fusegrad declines, and how tests of it are known."""

    name: str
    sentence: str
    errors: list[re.Pattern[str]]
    names: list[re.Pattern[str]]
    source: list[re.Pattern[str]]

    def covers(self, test: Test, source: str) -> bool:
        """Whether a failing test is about this; `source` is what it was running."""
        if any(p.search(test.name) for p in self.names):
            return True
        if test.kind in ("wrong", "not refused"):
            return False
        return any(p.search(test.error) for p in self.errors) or any(p.search(source) for p in self.source)


@cache
def declined() -> list[Declined]:
    """The closed list."""
    entries = tomllib.loads(Path(__file__).with_name("declined.toml").read_text())["declined"]
    patterns = ("errors", "names", "source")
    return [
        Declined(e["name"], e["sentence"], *([re.compile(p) for p in e[key]] for key in patterns))
        for e in entries
    ]


@cache
def reasons() -> list[tuple[re.Pattern[str], str, bool]]:
    """What is known of failing tests: their names, why they fail, and whether they count."""
    entries = tomllib.loads(Path(__file__).with_name("reasons.toml").read_text())["reason"]
    return [(re.compile(e["tests"]), e["why"], e.get("set_aside", False)) for e in entries]


@dataclass
class Test:
    """One test: `outcome` is passed, skipped, declined, set aside, unjudged or failed.

    Set aside is what PyTorch fails for the same reason, unjudged what it fails for want of the harness.

    kind: of a failure, "wrong" (another value, dtype, shape, ...), "not refused", "error type", "text" of an
    error, "missing" (a name), "crash", "time", "memory" or "error".
    error: the error's type and text.
    declined: the name of what we decline, where it is that. why: what is known of it besides.
    """

    name: str
    outcome: str
    kind: str = ""
    error: str = ""
    line: str = ""
    declined: str = ""
    why: str = ""

    @property
    def reason(self) -> str:
        """One line."""
        text = self.why or " ".join(self.error.split())
        return text if len(text) <= 160 else text[:157] + "..."


def kind_of(line: dict[str, Any]) -> str:
    """What kind of failure it is."""
    type_, message = line["type"], line["message"]
    if type_ in ("Crash", "OutOfTime", "MemoryError", "NoMemoryError"):
        return {"Crash": "crash", "OutOfTime": "time"}.get(type_, "memory")
    if type_ == "AssertionError":
        if NOT_REFUSED.search(message):
            return "not refused"
        return "text" if OTHER_TEXT.search(message) else "wrong"
    if type_ in ("AttributeError", "ModuleNotFoundError", "ImportError") or "unexpected keyword" in message:
        return "missing"
    return "error type" if line.get("refused") else "error"


IMPORT = re.compile(r"cannot import name '(\w+)' from '([\w.]+)'.*", re.DOTALL)


def error_of(line: dict[str, Any]) -> str:
    """The error, its type and its text without what fusegrad adds of the user's line."""
    message = IMPORT.sub(r"fusegrad has no \2.\1", line["message"])
    message = re.sub(r"\n  at /.*", "", message, flags=re.DOTALL)
    return f"{line['type']}: {message}".rstrip(": ")


@dataclass
class File:
    """The tests of one file, or an n-th of them."""

    name: str
    tests: list[Test] = field(default_factory=list)
    one_in: int = 1

    @staticmethod
    def read(
        name: str,
        lines: list[dict[str, Any]],
        checkout: Path,
        beside: Iterable[dict[str, Any]] = (),
        drawn: Iterable[dict[str, Any]] = (),
    ) -> File:
        """From the lines that workers wrote; `beside`: those of PyTorch itself, which set failures aside;
        `drawn`: those of PyTorch with other random numbers, which do so, too.
        """
        path = checkout / "test" / f"{name}.py"
        sources = Sources(path)
        last = {line["test"]: line for line in lines if "outcome" in line}
        theirs = {
            line["test"]: line
            for line in (*drawn, *beside)
            if line["test"] and line.get("outcome") == "failed"
        }
        return File(name, [_test(line, sources, theirs) for line in last.values()])

    def count(self, *outcomes: str) -> int:
        return sum(t.outcome in outcomes for t in self.tests)

    @property
    def collected(self) -> int:
        """The tests that PyTorch runs on a CPU."""
        return self.count("passed", "declined", "set aside", "unjudged", "failed")

    def summary(self) -> str:
        kinds = Counter(t.kind for t in self.tests if t.outcome == "failed")
        outcomes = ("passed", "declined", "set aside", "unjudged", "skipped", "failed")
        counts = " ".join(f"{self.count(o)} {o}," for o in outcomes)
        return f"{self.name}: {counts.rstrip(',')} {dict(kinds.most_common())}"


def is_of_the_harness(line: dict[str, Any]) -> bool:
    """Whether a failure of PyTorch's is one of its test tools, which are of another version than the file."""
    if line["type"] == "RecursionError":
        return True
    frames = [f for f in line.get("frames", []) if "/unittest/" not in f[0]]
    inside = bool(frames) and "/torch/testing/" in frames[-1][0]
    return inside and line["type"] in ("AttributeError", "ImportError", "NameError", "KeyError")


def same_reason(ours: dict[str, Any], theirs: dict[str, Any], path: Path) -> bool:
    """Whether two runs of a test failed in the same line of its file, or with the same error."""

    def last(line: dict[str, Any]) -> Any:
        return next((f[2] for f in reversed(line.get("frames", [])) if f[0] == str(path)), None)

    alike = (ours["type"], ours["message"]) == (theirs["type"], theirs["message"])
    return alike or (last(ours) is not None and last(ours) == last(theirs))


def _test(line: dict[str, Any], sources: Sources, theirs: dict[str, dict[str, Any]]) -> Test:
    test = Test(line["test"], line["outcome"])
    if test.outcome == "failed":
        test.kind, test.error = kind_of(line), error_of(line)
        frames = [f for f in line.get("frames", []) if f[0] == str(sources.path)]
        test.line = f"{frames[-1][2]}: {frames[-1][3]}" if frames else ""
        if test.kind == "error" and any(sources.expects_refusal(f[2]) for f in frames):
            test.kind = "error type"
        source = "\n".join(sources.around(f[2]) for f in frames)
        if test.name:  # a file that cannot be read at all is not about one thing
            test.declined = next((d.name for d in declined() if d.covers(test, source)), "")
        known = next(((why, aside) for names, why, aside in reasons() if names.search(test.name)), None)
        test.why, aside = known or ("", False)
        peer = theirs.get(test.name)
        alike = peer is not None and same_reason(line, peer, sources.path)
        if line["type"] == "UnexpectedSuccess" or aside or alike:
            test.outcome = "set aside"
        elif peer is not None and is_of_the_harness(peer):
            test.outcome, test.why = "unjudged", f"with PyTorch: {error_of(peer)}"
        elif test.declined:
            test.outcome = "declined"
    return test


class Sources:
    """The source of the tests of a file, which is asked what was going on where a test failed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        text = path.read_text() if path.exists() else ""
        self.lines = text.splitlines()
        self.statements = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.stmt)]

    def around(self, line: int) -> str:
        """The text of the statement that a line belongs to, and of each `with` that it stands in."""
        texts = []
        for node in self.statements:
            if not node.lineno <= line <= (node.end_lineno or node.lineno):
                continue
            if isinstance(node, ast.With):
                texts += [ast.unparse(item) for item in node.items]
            elif not hasattr(node, "body"):
                texts.append(ast.unparse(node))
        return "\n".join(texts)

    def expects_refusal(self, line: int) -> bool:
        """Whether a line stands where an error is expected."""
        return "assertRaises" in self.around(line)
