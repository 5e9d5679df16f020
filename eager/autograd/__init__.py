"""The autograd graph, the engine that walks it, and what users ask of it."""
