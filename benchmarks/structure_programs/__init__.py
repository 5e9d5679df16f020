"""Programs of examples with structures, for `structures.py`: of one at a time, and batched by hand."""
