"""Rounds of loops that a run need not make: what was recorded of the first ones says what all do."""
