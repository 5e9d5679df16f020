"""`torch.utils.serialization`."""
