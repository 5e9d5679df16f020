"""Ops on batches of tensors, of which the program sees one: what `vmap` is made of."""
