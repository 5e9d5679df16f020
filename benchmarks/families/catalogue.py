"""All programs: those that are declared, the drawn ones of seed 0, and the frozen list of both."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from pathlib import Path

from families import declare, grammar, programs
from families.declare import Program

LIST = Path(__file__).with_name("LIST.txt")
DRAWN = "drawn"  # the family of the grammar's programs
COUNT = 54  # how many are drawn from a seed: a tenth of the list
COMPILED_EVERY = 4  # torch.compile takes seconds: it runs every fourth


@functools.cache
def declared() -> dict[str, Program]:
    """Every program by its name, in the order of declaration; the drawn ones of seed 0 come last."""
    for module in pkgutil.iter_modules(programs.__path__):
        importlib.import_module(f"families.programs.{module.name}")
    return {**declare.REGISTRY, **{made.name: made for made in drawn(0)}}


def drawn(seed: int) -> list[Program]:
    """The grammar's programs of a seed."""
    return [grammar.program(seed, number) for number in range(COUNT)]


def program_called(name: str) -> Program:
    """A program by its name, of whichever seed. Raises KeyError."""
    if name.startswith(f"{DRAWN}/"):
        _, seed, number, _ = name.split("/")
        return grammar.program(int(seed.removeprefix("seed")), int(number))
    return declared()[name]


def frozen() -> dict[str, str]:
    """The frozen list: names, each with the hash of its content."""
    if not LIST.exists():
        return {}
    lines = [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
    return {name: content for content, name in (line.split() for line in lines)}


def changes() -> list[str]:
    """What was done to the list that may not be done: programs taken out, or changed."""
    found = []
    for name, content in frozen().items():
        if name not in declared():
            found.append(f"{name} was taken out")
        elif declared()[name].content() != content:
            found.append(f"{name} was changed")
    return found


def freeze() -> int:
    """Append the programs that are new to the list; says how many. Never changes a line."""
    known = frozen()
    new = [program for name, program in declared().items() if name not in known]
    with LIST.open("a") as target:
        for program in new:
            target.write(f"{program.content()} {program.name}\n")
    return len(new)


@functools.cache
def compiled_by_torch() -> frozenset[str]:
    """Every fourth program of the list, in its order, which never changes."""
    return frozenset(list(frozen() or declared())[::COMPILED_EVERY])
