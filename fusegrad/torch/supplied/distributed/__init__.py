"""`torch.distributed`: what one rank needs, which stands in the engine, and names for more."""
