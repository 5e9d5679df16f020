"""The native core: functions that look into Python's objects, and their plain twins."""
