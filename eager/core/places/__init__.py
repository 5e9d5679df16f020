"""Where tensors lie: on the CPU, or on `meta`, where they have no values."""
