"""Runs the array API tests with PyTorch and fusegrad; lists what only PyTorch passes. See the package."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

# How each process starts: `import torch` finds PyTorch, or fusegrad was put in its place before.
STARTS = {
    "torch": "import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))",
    "fusegrad": "import sys; from fusegrad.torch import install; install(); "
    "import pytest; sys.exit(pytest.main(sys.argv[1:]))",
}
WIDTH = 110


@dataclass
class Outcome:
    """What became of a test: passed, failed or skipped, and in which words."""

    kind: str
    message: str = ""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m array_api", description=__doc__)
    parser.add_argument("checkout", type=Path, help="array-api-tests, with its submodule array-api")
    parser.add_argument("-k", dest="only", default="", metavar="NAME", help="tests whose name has this in it")
    parser.add_argument("--examples", type=int, default=20, help="how many examples hypothesis tries")
    parser.add_argument("--seconds", type=int, default=3600, help="the most for a run")
    given = parser.parse_args()
    checkout = given.checkout.resolve()
    found = {name: run(name, checkout, given.only, given.examples, given.seconds) for name in STARTS}
    for name, outcomes in found.items():
        passed = sum(o.kind == "passed" for o in outcomes.values())
        print(f"{name}: {passed} of {len(outcomes)} pass")
    differing = differences(found["torch"], found["fusegrad"])
    print(f"{len(differing)} that PyTorch passes and fusegrad does not")
    for line in differing:
        print(line)
    sys.exit(bool(differing))


def run(name: str, checkout: Path, only: str, examples: int, seconds: int) -> dict[str, Outcome]:
    """The outcome of each test under `name`, one of STARTS; the same examples are drawn for both."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [sys.executable, "-c", STARTS[name], "array_api_tests", "-q", "-p", "no:cacheprovider"]
        command += [f"--max-examples={examples}", "--derandomize", "--disable-deadline"]
        command += [f"--junitxml={report}", *(["-k", only] if only else [])]
        environment = os.environ | {"ARRAY_API_TESTS_MODULE": "array_api_compat.torch"}
        ended = subprocess.run(
            command, cwd=checkout, env=environment, capture_output=True, text=True, timeout=seconds
        )
        if not report.exists():  # the process died, or the tests could not be read
            raise SystemExit(f"{name}: the run ended with {ended.returncode}\n{ended.stdout}{ended.stderr}")
        return read(report.read_text())


def read(report: str) -> dict[str, Outcome]:
    """Outcomes by name, from pytest's report in XML.

    >>> found = read('<suite><testcase classname="m" name="a"/>'
    ...     '<testcase classname="m" name="b"><failure message="no"/></testcase></suite>')
    >>> found["m.a"].kind, found["m.b"].kind, found["m.b"].message
    ('passed', 'failed', 'no')
    """
    kinds = {"failure": "failed", "error": "failed", "skipped": "skipped"}
    outcomes = {}
    for case in ElementTree.fromstring(report).iter("testcase"):
        outcome = Outcome("passed")
        for child in case:
            if child.tag in kinds and outcome.kind != "failed":
                outcome = Outcome(kinds[child.tag], child.get("message", ""))
        outcomes[f"{case.get('classname')}.{case.get('name')}"] = outcome
    return outcomes


def differences(theirs: dict[str, Outcome], ours: dict[str, Outcome]) -> list[str]:
    """A line for each test that passes in the first and not in the second, where it may not even exist."""
    lines = []
    for test, outcome in theirs.items():
        other = ours.get(test, Outcome("not collected"))
        if outcome.kind == "passed" and other.kind != "passed":
            lines.append(f"{test}: {other.kind}: {' '.join(other.message.split())[:WIDTH]}")
    return lines


if __name__ == "__main__":
    main()
