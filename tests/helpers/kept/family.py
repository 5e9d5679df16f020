"""A family of mutations: a program with one thing left out, and the things that may stand there."""

from __future__ import annotations

from typing import NamedTuple

CALL = 'calls = [(fg.tensor([0.5, -1.0, 2.0], requires_grad=True),)] if not "calls" in globals() else calls\n'


class Family(NamedTuple):
    """kind: of the read, or the fact, by which a mutation is seen. program: with `{}` where the things go."""

    kind: str
    name: str
    program: str
    things: tuple[str, ...]

    def sources(self) -> list[str]:
        """The program with each of the things."""
        calls = "" if "calls =" in self.program else f"\n{CALL}"
        return [self.program.replace("{}", thing) + calls for thing in self.things]


NUMBERS = ("2.0", "3.0", "2", "3", "True", "-0.0", "0.0", "1e-3")
F = "@jit\ndef f(x):\n"
