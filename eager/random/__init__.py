"""Generators of random numbers, and what is drawn from them."""
