"""Runs the tests of one file in this process, and writes a line of JSON before and after each.

    python -m peers.worker FILE RESULTS --checkout CHECKOUT [--only WORD] [--these NAMES] [--one-in N]
        [--with-torch]

Tests with a line in RESULTS are left out. What kills the process shows as a line without a second one.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import functools
import importlib.util
import json
import os
import re
import signal
import sys
import traceback
import unittest
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, TextIO

from fusegrad.torch import install
from peers import missing
from peers.checkout import Finder
from peers.functions import function_cases

MEMORY = 8 << 30
SECONDS = 60


class OutOfTime(BaseException):
    """A test took longer than `SECONDS`; no `except Exception` of a test is to hold this up."""


class Result(unittest.TestResult):
    """Keeps what one test came to: its outcome, and the exception of the first failure."""

    def __init__(self) -> None:
        super().__init__()
        self.outcome, self.detail = "passed", {}  # type: tuple[str, dict[str, Any]]

    def fail(self, error: Any) -> None:
        if self.outcome != "failed":
            self.outcome, self.detail = "failed", described(*error)

    def addError(self, _: Any, error: Any) -> None:
        self.fail(error)

    def addFailure(self, _: Any, error: Any) -> None:
        self.fail(error)

    def addSubTest(self, _: Any, __: Any, error: Any) -> None:
        if error is not None:
            self.fail(error)

    def addSkip(self, _: Any, reason: str) -> None:
        self.outcome, self.detail = "skipped", {"message": reason}

    def addUnexpectedSuccess(self, _: Any) -> None:
        self.outcome = "failed"
        self.detail = {"type": "UnexpectedSuccess", "message": "PyTorch is known to fail here"}


def described(kind: type[BaseException], error: BaseException, trace: Any) -> dict[str, Any]:
    """What is kept of an exception: its type and text, and the lines that it went through."""
    frames = traceback.extract_tb(trace)
    return {
        "type": kind.__name__,
        "message": str(error)[:1500],
        "frames": [
            [f.filename, f.name, f.lineno, f.line] for f in frames if "/unittest/case.py" not in f.filename
        ],
        "refused": any(f.name in ("assertRaises", "assertRaisesRegex", "handle") for f in frames),
    }


def read_tests(path: Path, with_torch: bool = False) -> ModuleType:
    """The module that a test file makes; names that fusegrad lacks may be mentioned."""
    sys.path.insert(0, str(path.parent))
    sys.argv = [str(path)]
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    # Folders of tests, which are no packages: a package of such a name that is installed would come first.
    for name in re.findall(r"^from (\w+)\.test_", path.read_text(), re.MULTILINE):
        folder = sys.modules[name] = ModuleType(name)
        folder.__path__ = [str(path.parent / name)]
    source = path.read_text()
    if with_torch:
        # Endless where the tools of another version make subclasses; it means the next class either way.
        source = source.replace("super(self.__class__, self)", "super()")
    for statement in ast.parse(source, str(path)).body:
        with missing.reading():
            _run_statement(statement, vars(module), str(path))
            if not with_torch:
                _allow_empty_lists()
    return module


def _allow_empty_lists() -> None:
    """Have tests of each of a list be none where the list is empty: of PyTorch's private references, say."""
    for place, values in (("common_device_type.ops", "op_list"), ("common_utils.parametrize", "arg_values")):
        tools, _, name = place.partition(".")
        kind: Any = getattr(sys.modules.get(f"torch.testing._internal.{tools}"), name, None)
        if kind is not None and not hasattr(kind, "of_any"):
            kind.of_any = kind._parametrize_test
            kind._parametrize_test = functools.partialmethod(_of_some, values)


def _of_some(self: Any, values: str, *args: Any, **kwargs: Any) -> Iterator[Any]:
    known = list(getattr(self, values))
    setattr(self, values, known)
    return self.of_any(*args, **kwargs) if known else iter(())


def _run_statement(statement: ast.stmt, namespace: dict[str, Any], path: str) -> None:
    """One statement at the top of a test file.

    A block that fails, as a trial of what PyTorch can do, is left out: tests that need it fail.
    """
    code = compile(ast.Module([statement], []), path, "exec")
    while True:
        try:
            exec(code, namespace)
            return
        except ImportError as error:
            # What PyTorch's own test tools of another version have not is mentioned, too.
            tools = sys.modules.get(error.name or "")
            lacks = re.match(r"cannot import name '(\w+)' from 'torch\.testing", str(error))
            if tools is None or lacks is None:
                raise
            setattr(tools, lacks[1], missing.Missing(f"{error.name}.{lacks[1]}"))
        except Exception:
            if not isinstance(statement, ast.With):
                raise
            traceback.print_exc()
            return


def cases(module: ModuleType) -> Iterator[unittest.TestCase]:
    """The tests of a module, class by class, and its test functions."""
    loader = unittest.TestLoader()
    here = [c for c in vars(module).values() if isinstance(c, type) and c.__module__ == module.__name__]
    for cls in dict.fromkeys(here):
        if issubclass(cls, unittest.TestCase):
            yield from map(cls, loader.getTestCaseNames(cls))
    yield from function_cases(module)


def run(case: unittest.TestCase, seconds: int) -> Result:
    """One test, with its class's set-up, for so long."""

    def late(_: int, __: FrameType | None) -> None:
        raise OutOfTime(f"longer than {seconds} s")

    result = Result()
    signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")  # as unittest's own runner
            unittest.TestSuite([case]).run(result)
    except OutOfTime:
        result.fail(sys.exc_info())
    finally:
        signal.alarm(0)
    return result


def drawn(name: str, one_in: int) -> bool:
    """Whether a test is in the sample: names decide, so both sides and all days take the same tests."""
    return zlib.crc32(name.encode()) % one_in == 0


def limit_memory() -> None:
    """Have what takes too much memory fail, where the system has such limits."""
    with contextlib.suppress(ImportError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))


def draw_others(offset: int) -> None:
    """Have PyTorch draw other random numbers than its tests were written with."""
    import torch

    seed = torch.manual_seed
    torch.manual_seed = lambda number: seed(int(number) + offset)  # type: ignore[assignment]


def write(results: TextIO, line: dict[str, Any]) -> None:
    results.write(json.dumps(line) + "\n")
    results.flush()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--checkout", type=Path, required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--these", type=Path, help="a file with the names of the tests to run, in JSON")
    parser.add_argument(
        "--one-in", type=int, default=1, help="run an n-th of the tests, drawn by their names"
    )
    parser.add_argument("--with-torch", action="store_true", help="PyTorch itself, for comparison")
    parser.add_argument(
        "--draws", type=int, default=0, help="so much is added to all seeds that PyTorch is given"
    )
    parser.add_argument("--seconds", type=int, default=SECONDS)
    given = parser.parse_args()
    limit_memory()
    os.environ |= {"PYTORCH_TESTING_DEVICE_ONLY_FOR": "cpu", "PYTORCH_PRINT_REPRO_ON_FAILURE": "0"}
    if not given.with_torch:
        install(Finder(given.checkout))
        # Programs and processes that a test starts get fusegrad too, and the checkout's tools: those that are
        # spawned have this one's path.
        os.environ["PYTHONPATH"] = str(Path(__file__).parent / "site")
        sys.path.insert(1, os.environ["PYTHONPATH"])
        os.environ["PEERS_CHECKOUT"] = str(given.checkout)
    elif given.draws:
        draw_others(given.draws)
    known = given.results.read_text().splitlines() if given.results.exists() else []
    begun = {json.loads(line)["test"] for line in known}
    these = None if given.these is None else set(json.loads(given.these.read_text()))
    with given.results.open("a") as results:
        try:
            tests = list(cases(read_tests(given.file, given.with_torch)))
        except BaseException:
            write(results, {"test": "", "outcome": "failed", **described(*sys.exc_info())})  # type: ignore[arg-type]
            return
        os.chdir(given.file.parent)
        for case in tests:
            name = case.id().partition(".")[2]
            asked = given.only in name and (name in these if these is not None else drawn(name, given.one_in))
            if asked and name not in begun:
                write(results, {"test": name})
                result = run(case, given.seconds)
                write(results, {"test": name, "outcome": result.outcome, **result.detail})


if __name__ == "__main__":
    main()
