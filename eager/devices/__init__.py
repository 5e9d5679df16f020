"""Answers to programs that ask for other devices than the CPU: there are none."""
