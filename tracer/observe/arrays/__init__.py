"""NumPy's arrays in an observed run: constants, and those that a replay comes by anew."""
