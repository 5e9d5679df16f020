"""Shared libraries: what a function computes as native code that C calls, with nothing of Python in it."""
