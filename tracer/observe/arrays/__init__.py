"""What a replay comes by anew in an observed run: NumPy's arrays, and what indexes tensors."""
