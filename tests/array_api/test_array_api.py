"""The command that compares with PyTorch on the array API's tests: what it reads, and what it finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from array_api.__main__ import STARTS, Outcome, differences, read, run

CONFTEST = """
def pytest_addoption(parser):
    parser.addoption("--max-examples")
    parser.addoption("--derandomize", action="store_true")
    parser.addoption("--disable-deadline", action="store_true")
"""
TESTS = """
import torch

def test_passes():
    assert torch.ones(2).sum() == 2

def test_is_told_from_torch():
    assert torch.__name__ == "torch" and not hasattr(torch.Tensor, "_leave")
"""


def test_only_what_pytorch_passes_is_a_difference() -> None:
    theirs = {name: Outcome("passed") for name in "abcd"} | {"e": Outcome("failed"), "f": Outcome("skipped")}
    ours = {"a": Outcome("passed"), "b": Outcome("failed", "an\nerror"), "c": Outcome("skipped", "why")}
    assert differences(theirs, ours) == ["b: failed: an error", "c: skipped: why", "d: not collected: "]


def test_an_error_of_set_up_is_a_failure() -> None:
    assert (
        read('<s><testcase classname="m" name="a"><error message="no"/></testcase></s>')["m.a"].kind
        == "failed"
    )


def test_a_planted_difference_is_found(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "array_api_tests").mkdir()
    (tmp_path / "array_api_tests" / "test_small.py").write_text(TESTS)
    found = {name: run(name, tmp_path, "", 1, 120) for name in STARTS}
    assert [line.partition(":")[0] for line in differences(found["torch"], found["fusegrad"])] == [
        "array_api_tests.test_small.test_is_told_from_torch"
    ]


def test_a_run_that_gives_no_report_is_no_success(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="the run ended with"):
        run("fusegrad", tmp_path, "", 1, 120)
