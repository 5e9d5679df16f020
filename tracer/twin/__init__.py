"""Rewriting a function's source, so that reads, calls and writes go through hooks."""
