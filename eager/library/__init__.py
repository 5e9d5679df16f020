"""Users' own ops: functions in Python, Numba or whatever else, which run on tensors as ops do, by a name."""
