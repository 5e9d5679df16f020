"""Comparing eager, compiled code and peers. No part of compiling: nothing here is imported by it."""
