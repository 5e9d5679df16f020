"""Nested tensors: batches of examples that have another length each, with no padding between them."""
