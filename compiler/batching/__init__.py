"""Calls of jitted functions in batched programs: each waits as one, and alike ones run as one."""
