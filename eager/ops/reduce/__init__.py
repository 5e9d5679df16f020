"""Reductions, scans, sorting and counting."""
