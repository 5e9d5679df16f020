"""Families of programs beside their peers; see README.md."""
