"""Captured paths, the trace tree that they share, its replay, and the autograd node of a replay."""
