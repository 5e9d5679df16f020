"""The programs, a module for a few families each."""
