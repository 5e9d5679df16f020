"""In the place of what old scripts take their data from."""
