"""What the README and the docs say is true: their Python runs, their commands and links exist."""

from __future__ import annotations

import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fusegrad.cli import parser

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "benchmarks" / "HISTORY.md",
    *sorted(DOCS.glob("*.md")),
]


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a language in a page."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: Any) -> None:
    code = "\n".join(blocks(page, "python"))
    monkeypatch.chdir(tmp_path)
    # From a file, since jit reads the source of what it compiles.
    (tmp_path / "page.py").write_text(code)
    left = runpy.run_path("page.py")
    for name in ("loss_fn", "train", "derive", "wave"):
        if hasattr(left.get(name), "stats"):
            assert left[name].stats.compiles >= 1, str(left[name].explain())


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_commands_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for line in "\n".join(blocks(page, "sh")).splitlines():
        words = shlex.split(line, comments=True)
        while words and "=" in words[0]:
            words = words[1:]
        if words and words[0] == "fusegrad":
            parser().parse_args(words[1:])
        elif words and words[0] == "make":
            assert words[1] in targets, line
        for word in words:
            if re.fullmatch(r"(examples|tests|tools)/\S+", word):
                assert (ROOT / word.split(":")[0]).exists(), line


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_and_files_exist(page: Path) -> None:
    text = page.read_text()
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (page.parent / link).exists(), link
    for name in re.findall(r"`((?:eager|tracer|compiler|tests|examples|docs|benchmarks)/[\w./-]+)`", text):
        assert (ROOT / name).exists(), name


def test_the_readme_opens_with_the_two_commands() -> None:
    first = blocks(ROOT / "README.md", "sh")[0].splitlines()
    assert [line.split("#")[0].strip() for line in first] == ["make demo", "make test"]


def test_the_readme_is_short_and_shows_one_picture() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 100
    assert text.count("![") == 1


def test_no_page_is_out_of_the_readmes_reach() -> None:
    """Whoever follows links from the README comes to every page."""
    reached, todo = set(), [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page not in reached:
            reached.add(page)
            links = re.findall(r"\]\(([^)#:]+\.md)\)", page.read_text())
            todo += [(page.parent / link).resolve() for link in links]
    assert reached >= set(PAGES)


def test_the_stages_that_the_docs_print(tmp_path: Path) -> None:
    program = tmp_path / "wave.py"
    program.write_text(
        "import fusegrad as fg\n\n\n@fg.jit\ndef wave(x):\n    return (x * fg.tanh(x) + 1).sum()\n\n\n"
        "wave(fg.linspace(-1, 1, 1000))\nfrom fusegrad.tracer.capture.api import capture\n"
        "print(capture(wave, (fg.linspace(-1, 1, 1000),)).graph)\n"
        "print(wave.kernels().forward[0].kernel.text)\n"
    )
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=True)
    shown = "\n".join(blocks(DOCS / "architecture.md", "text"))
    for line in filter(None, done.stdout.splitlines()):
        assert line in shown, line


def test_the_explanation_that_the_docs_print() -> None:
    command = [sys.executable, "examples/branches.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    printed = done.stdout.replace(f"{ROOT}/", "")
    for line in blocks(DOCS / "explain.md", "text")[0].splitlines():
        assert line in printed, line
