"""Deferred runs: the Python body runs, its ops wait, and regions of them run as native code."""
