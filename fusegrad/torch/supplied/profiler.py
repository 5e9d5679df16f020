"""`torch.profiler`."""


def kineto_available() -> bool:
    """False: that library is not there; fusegrad's profiler is its own."""
    return False
