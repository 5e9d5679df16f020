"""The room that runs PyTorch's tests, tried on a small checkout made up here."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from peers import outcomes, runs, table
from peers.worker import drawn

ROOM = Path(__file__).resolve().parent
FILE = """
import os
import re
import subprocess
import sys
import time
import unittest

import torch
import torch.backends.xeon
from torch.nowhere import decorator
from torch import nn
from torch.testing import made_up_close


class TestMadeUp(unittest.TestCase):
    def test_passes(self):
        made_up_close(torch.ones(2) + 1, torch.full((2,), 2.0))
        self.assertIsInstance(nn.Linear(2, 3)(torch.ones(2)), torch.Tensor)

    def test_wrong(self):
        self.assertEqual(torch.ones(2).sum().item(), 3)

    def test_not_refused(self):
        with self.assertRaises(RuntimeError):
            torch.ones(2) + torch.ones(2)

    def test_other_error(self):
        with self.assertRaises(TypeError):
            torch.ones(2) + torch.ones(3)

    def test_other_text(self):
        with self.assertRaisesRegex(RuntimeError, "quite other words"):
            torch.ones(2) + torch.ones(3)

    def test_missing(self):
        torch.no_such_name(1)

    @decorator("with words")
    def test_missing_decorator(self):
        pass

    @unittest.skipIf(not torch.backends.xeon.is_available(), "needs a Xeon")
    def test_skipped(self):
        pass

    def test_declined_statement(self):
        torch.sparse_csr_tensor([0, 1], [0], [1.0])

    def test_wrong_beside_what_is_declined(self):
        self.assertEqual(len("torch.cuda.is_available()"), 0)

    def test_dtype(self):
        torch.ones(2, dtype=torch.quint8)

    def test_crash(self):
        os.abort()

    def test_too_long(self):
        time.sleep(30)

    def test_too_large(self):
        bytearray(1 << 40)

    def test_other_process(self):
        code = "import torch; print(torch.ones(2).sum().__class__.__mro__[0])"
        text = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        self.assertIn("fusegrad", text)

    @unittest.expectedFailure
    def test_expected_failure(self):
        self.fail()

    def test_zz_last(self):
        pass
"""
TESTING = """
def made_up_close(actual, expected):
    assert actual.layout is expected.layout
    assert not actual.is_sparse
    assert actual.tolist() == expected.tolist()
"""
EXPECTED = {
    "passes": ("passed", ""),
    "wrong": ("failed", "wrong"),
    "not_refused": ("failed", "not refused"),
    "other_error": ("failed", "error type"),
    "other_text": ("failed", "text"),
    "missing": ("failed", "missing"),
    "missing_decorator": ("failed", "missing"),
    "skipped": ("skipped", ""),
    "declined_statement": ("declined", "missing"),
    "wrong_beside_what_is_declined": ("failed", "wrong"),
    "dtype": ("declined", "missing"),
    "crash": ("failed", "crash"),
    "too_long": ("failed", "time"),
    "too_large": ("failed", "memory"),
    "other_process": ("passed", ""),
    "expected_failure": ("passed", ""),
    "zz_last": ("passed", ""),
}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> outcomes.File:
    """What became of the tests of the made-up file."""
    checkout = tmp_path_factory.mktemp("checkout")
    for name, text in {"test/test_made_up.py": FILE, "torch/testing/__init__.py": TESTING}.items():
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text(text)
    results = checkout / "results.jsonl"
    runs.run_file(checkout / "test/test_made_up.py", results, checkout, seconds=10)
    return outcomes.File.read("test_made_up", runs.read(results), checkout)


@pytest.mark.skipif(sys.platform == "win32", reason="limits of time and memory are POSIX's")
@pytest.mark.parametrize("name", EXPECTED)
def test_each_outcome_is_told_apart(file: outcomes.File, name: str) -> None:
    test = next(t for t in file.tests if t.name == f"TestMadeUp.test_{name}")
    assert (test.outcome, test.kind) == EXPECTED[name], test
    assert bool(test.declined) == (test.outcome == "declined")


@pytest.mark.skipif(sys.platform == "win32", reason="limits of time and memory are POSIX's")
def test_nothing_is_left_out(file: outcomes.File) -> None:
    assert len(file.tests) == len(EXPECTED)
    assert file.collected == len(EXPECTED) - 1


def test_a_sample_is_drawn_by_names(tmp_path: Path) -> None:
    (tmp_path / "test").mkdir()
    path = tmp_path / "test" / "test_many.py"
    tests = "".join(f"    def test_{i}(self): pass\n" for i in range(60))
    path.write_text(f"import unittest\nclass TestMany(unittest.TestCase):\n{tests}")
    runs.run_file(path, tmp_path / "results.jsonl", tmp_path, one_in=6)
    file = outcomes.File.read("test_many", runs.read(tmp_path / "results.jsonl"), tmp_path)
    file.one_in = 6
    names = {f"TestMany.test_{i}" for i in range(60)}
    assert {t.name for t in file.tests} == {name for name in names if drawn(name, 6)}
    assert 2 < len(file.tests) < 25
    assert f"| `test_many:6` | {len(file.tests)} |" in table.markdown([file], "0.0", "0.1")


def test_missing_names_say_which() -> None:
    code = "import torch; torch.nn.NoSuchLayer"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=runs.environment() | {"PYTHONPATH": str(ROOM / "site")},
        capture_output=True,
    )
    assert b"AttributeError: fusegrad has no torch.nn.NoSuchLayer" in done.stderr


def test_a_file_that_cannot_be_read_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "test").mkdir()
    path = tmp_path / "test" / "test_broken.py"
    path.write_text("1 / 0")
    runs.run_file(path, tmp_path / "results.jsonl", tmp_path)
    file = outcomes.File.read("test_broken", runs.read(tmp_path / "results.jsonl"), tmp_path)
    assert [(t.outcome, t.reason) for t in file.tests] == [("failed", "ZeroDivisionError: division by zero")]


def test_the_list_of_what_is_declined_is_short() -> None:
    entries = outcomes.declined()
    assert len(entries) <= 15
    assert len({e.name for e in entries}) == len(entries)
    assert all(e.sentence.endswith(".") for e in entries)


@pytest.mark.skipif(sys.platform == "win32", reason="limits of time and memory are POSIX's")
def test_the_table_says_what_failed_and_why(file: outcomes.File) -> None:
    page = table.markdown([file], "0.0", "0.1")
    assert "| `test_made_up` | 16 | 2 | 0 | 0 | 4 | 10 | 25.0 % | 28.6 % |" in page
    assert (
        "| `TestMadeUp.test_missing` | missing | AttributeError: fusegrad has no torch.no_such_name |" in page
    )
    assert "| dtypes |" in page


def test_what_torch_fails_too_is_set_aside(tmp_path: Path) -> None:
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "test_x.py").write_text("")
    failed = {"outcome": "failed", "type": "TypeError", "message": ""}
    lines = [{"test": name, **failed} for name in ("C.a", "C.b", "C.c", "C.d")]
    theirs = [{"test": "C.a", **failed}, {"test": "C.b", "outcome": "passed"}]
    theirs.append({"test": "C.c", **failed, "type": "RecursionError"})
    theirs.append({"test": "C.d", **failed, "type": "ValueError"})  # another failure than ours
    file = outcomes.File.read("test_x", lines, tmp_path, theirs)
    assert [t.outcome for t in file.tests] == ["set aside", "failed", "unjudged", "failed"]


def test_the_page_is_about_the_list_and_adds_up() -> None:
    page = (ROOM.parent.parent / "docs" / "pytorch_tests.md").read_text()
    for entry in outcomes.declined():
        assert f"| {entry.name} | {entry.sentence} |" in page
    rows = [list(map(int, row)) for row in re.findall(r"^\| `\S+` \|" + r" (\d+) \|" * 6, page, re.MULTILINE)]
    for collected, declined, aside, unjudged, passed, failed in rows:
        assert collected == declined + aside + unjudged + passed + failed
    passed, failed = sum(row[4] for row in rows), sum(row[5] for row in rows)
    assert f"{sum(row[0] for row in rows)} tests collected, {passed} pass" in page
    assert f"{passed} of {passed + failed} pass" in page
    told = page.partition("## What fails, and why")[2].partition("## What PyTorch's own test tools")[0]
    assert len(re.findall(r"`\w+\.test\w*`", told)) == failed


def test_no_other_value_is_left_without_a_word() -> None:
    page = (ROOM.parent.parent / "docs" / "pytorch_tests.md").read_text()
    rows = re.findall(r"^\| (`.*`) \| wrong \| (.*) \|$", page, re.MULTILINE)
    assert rows
    for tests, why in rows:
        assert not re.match(r"\w*Error\b", why), (
            f"reasons.toml does not say of {tests} why its value is another"
        )


def test_variables_that_tests_set_are_fusegrads() -> None:
    code = """
import torch
from fusegrad.eager.nn.hooks import EVERYWHERE
place = torch.nn.modules.module
handle = place.register_module_forward_hook(lambda *_: None)
assert place._global_forward_hooks is EVERYWHERE.forward_hooks and len(EVERYWHERE.forward_hooks) == 1
place._global_forward_hooks = {}
assert EVERYWHERE.forward_hooks == {}
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=runs.environment() | {"PYTHONPATH": str(ROOM / "site")},
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
