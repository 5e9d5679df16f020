"""Programs whose Python numbers are others at each call."""
