"""Programs that a tracing JIT must not get wrong, and what runs and compares them."""
