"""Products, decompositions and systems of equations."""
