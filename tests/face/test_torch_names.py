"""Every name of PyTorch's under `python -m fusegrad.torch`: there, standing for something, or declined.

    python tests/face/test_torch_names.py        # all names; writes docs/torch_names.md

The suite takes a sample of the modules. Names are those of `fusegrad/torch/surface.txt`, which a test holds
to the PyTorch that is installed.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from oracle import torch

from fusegrad.torch.stand_ins import a_class, reason
from fusegrad.torch.surface import SURFACE, Named, Surface, read_line, surface

PAGE = Path(__file__).resolve().parents[2] / "docs" / "torch_names.md"
EVERY = 9  # of the modules is one in the sample
# Classes of ours that are derived from others than PyTorch's are.
OTHERWISE = {
    ("Gumbel", "TransformedDistribution"): "it computes its densities itself",
}

# Runs in torch's place: what each name is, and what those that are not there say when they are used.
WALK = """
import importlib, json, sys
from fusegrad.torch.stand_ins import is_stand_in
from fusegrad.torch.surface import surface

def said(value):
    if not callable(value) or not hasattr(value, "__doc__"):
        return ""
    try:
        value()
    except NotImplementedError as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"

found, bases = {}, {}
for module in json.loads(sys.argv[1]):
    here = importlib.import_module(module)
    for name, named in surface.names(module).items():
        try:
            value = getattr(here, name)
        except AttributeError:
            found[f"{module}.{name}"] = "missing", ""
            continue
        kind = "stands in" if is_stand_in(value) else "there"
        if kind == "stands in" and named.kind != "value":
            kind = "declined"
        words = said(value) if kind == "declined" else ""
        found[f"{module}.{name}"] = kind, words
        if isinstance(value, type) and (not is_stand_in(value) or name.startswith("_")):
            bases[f"{module}.{name}"] = value
for path, kind in bases.items():  # classes learn where PyTorch has them as modules are looked at
    bases[path] = [f"{k.__module__}.{k.__qualname__}" for k in kind.__mro__]
print("FOUND" + json.dumps([found, bases]))
"""


def walk(modules: list[str]) -> tuple[dict[str, tuple[str, str]], dict[str, list[str]]]:
    """For each name of these modules, what becomes of it and what it says; the bases of classes."""
    command = [sys.executable, "-m", "fusegrad.torch", "-c", WALK, json.dumps(modules)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "FOUND" in done.stdout, done.stderr[-3000:]
    found, bases = json.loads(done.stdout.partition("FOUND")[2].splitlines()[0])
    return found, bases


@pytest.fixture(scope="module")
def walked() -> tuple[dict[str, tuple[str, str]], dict[str, list[str]]]:
    return walk(sorted({"torch", "torch.nn", "torch.nn.modules.loss", *surface.modules[::EVERY]}))


def faults(found: dict[str, tuple[str, str]]) -> list[str]:
    """Names that are missing, and those that are declined without a reason."""
    wrong = []
    for path, (kind, words) in found.items():
        if kind == "missing" or (kind == "declined" and "fusegrad has no torch." not in words):
            wrong.append(f"{path}: {kind} {words}")
    return wrong


def test_no_name_stops_a_program(walked: Any) -> None:
    found, _ = walked
    assert len(found) > 1000 and Counter(kind for kind, _ in found.values())["there"] > 600
    assert faults(found) == []


def test_names_without_a_word_are_found() -> None:
    planted = {"torch.no": ("missing", ""), "torch.none": ("declined", "TypeError: no")}
    assert len(faults(planted)) == 2
    assert faults({"torch.a": ("declined", "fusegrad has no torch.a: why")}) == []


def falsely_foreign(bases: dict[str, list[str]]) -> list[str]:
    """Classes of ours that are derived from another in PyTorch, and here from none that is in its place."""
    wrong = []
    for path, ours in bases.items():
        module, _, name = path.rpartition(".")
        kind = vars(importlib.import_module(module)).get(name)
        for base in kind.__mro__[1:] if isinstance(kind, type) else ():
            where = f"{base.__module__}.{base.__qualname__}"
            if where in bases and bases[where][0] not in ours and (name, base.__name__) not in OTHERWISE:
                wrong.append(f"{path} is no {where}")
    return wrong


def test_classes_are_derived_as_pytorchs_are(walked: Any) -> None:
    _ = torch.nn
    _, bases = walked
    assert falsely_foreign(bases) == []


def test_a_base_that_is_missing_is_found() -> None:
    bases = {"torch.nn.modules.loss._Loss": ["torch.nn.modules.loss._Loss"], "torch.nn.L1Loss": ["a.L1Loss"]}
    _ = torch.nn
    assert falsely_foreign(bases) == ["torch.nn.L1Loss is no torch.nn.modules.loss._Loss"]


def test_the_surface_is_that_of_pytorch() -> None:
    """Of a sample of its modules: names that PyTorch has not are not listed."""
    for module in surface.modules[::EVERY]:
        theirs = vars(importlib.import_module(module)) if torch.nn else {}
        names = {name for name, named in surface.names(module).items() if named.kind != "module"}
        assert names <= set(theirs), module


CONSTANTS = """
import importlib, json
from fusegrad.torch.surface import surface
found = {}
for module in surface.modules:
    for name, named in surface.names(module).items():
        if named.kind == "class" and "=" in named.detail:
            kind = getattr(importlib.import_module(module), name)
            for word in named.detail.split(","):
                constant = word.partition("=")[0]
                found[f"{module}.{name}.{constant}"] = repr(getattr(kind, constant, "is not there"))
print("FOUND" + json.dumps(found))
"""


def test_constants_of_classes_are_pytorchs() -> None:
    """What is written out in a class can be read where no object is made: `dist.Backend.NCCL`."""
    command = [sys.executable, "-m", "fusegrad.torch", "-c", CONSTANTS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.partition("FOUND")[2].splitlines()[0])
    assert len(found) > 20 and found["torch.utils.data.dataloader._DatasetKind.Iterable"] == "1"
    _ = torch.nn
    for path, value in found.items():
        module, kind, name = path.rsplit(".", 2)
        assert value == repr(getattr(getattr(importlib.import_module(module), kind), name)), path


def test_the_surface_is_read_as_it_is_written() -> None:
    assert read_line("torch.a", "  enum Kind(ONE,TWO)") == [
        ("Kind", Named("enum", "torch.a", "Kind", "ONE,TWO"))
    ]
    text = "torch.a*\n  class A\n  value n=3 m\ntorch.b\n  from torch.a A B=A\n"
    read = Surface(text)
    assert read.at_once == ["torch.a"] and read.names("torch.a")["n"].detail == "3"
    assert read.shown_by[("torch.a", "A")] == [("torch.b", "A"), ("torch.b", "B")]
    assert "" not in SURFACE.read_text().splitlines()


def test_what_stands_for_a_class_can_be_mentioned() -> None:
    made: Any = a_class("torch.cuda.NoSuchThing")

    class Own(made):
        pass

    assert not isinstance(3, made) and (made | None) and issubclass(Own, made)
    for kind in (made, Own):
        with pytest.raises(
            NotImplementedError, match=r"torch\.cuda\.NoSuchThing: the CPU is the only device"
        ):
            kind()
    with pytest.raises(AttributeError, match=r"NoSuchThing\.start"):
        made.start  # noqa: B018


def page() -> str:
    """The table of all names, for people."""
    found, _ = walk(surface.modules)
    kinds = Counter(kind for kind, _ in found.values())
    lines = [
        "# PyTorch's names",
        "",
        "What becomes of each name of PyTorch 2.13's modules under `python -m fusegrad.torch`; written by",
        "`python tests/face/test_torch_names.py`. *There* is what fusegrad has, and what answers as PyTorch",
        "does on a CPU; *declined* are classes and functions that may be mentioned, derived from and",
        "imported, and say in a sentence that they are not there when they are used; what *stands in* is a",
        "value that may be compared.",
        "",
        f"{len(found)} names: {kinds['there']} there, {kinds['declined']} declined, {kinds['stands in']} "
        f"stand in, {kinds['missing']} missing.",
        "",
        "| module | there | declined | stands in | what is declined of its public names, and why |",
        "| --- | ---: | ---: | ---: | --- |",
    ]
    for module in surface.modules:
        rows = {n: found[f"{module}.{n}"][0] for n in surface.names(module)}
        count = Counter(rows.values())
        listed = [n for n, kind in rows.items() if kind == "declined" and not n.startswith("_")]
        shown = ", ".join(f"`{n}`" for n in listed[:8]) + (
            f" and {len(listed) - 8} more" if listed[8:] else ""
        )
        why = f"{shown}: {reason(module)}" if listed else ""
        lines.append(f"| {module} | {count['there']} | {count['declined']} | {count['stands in']} | {why} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
