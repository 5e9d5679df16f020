"""The kernel IR: loop nests over scalar statements, which print as Python."""
