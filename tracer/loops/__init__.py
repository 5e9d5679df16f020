"""Rounds of loops that a run need not make: what was recorded of the first ones says what all do."""


class Refused(Exception):
    """Why rounds cannot be left out, in words that go on from "it was not rolled: "."""
