"""Replays that come again, written out as one straight Python function each."""
