"""Writes in place: the nodes that they leave, and how views hear of them."""
