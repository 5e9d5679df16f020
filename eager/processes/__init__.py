"""Functions that run in several processes, as `torch.multiprocessing` has them."""
